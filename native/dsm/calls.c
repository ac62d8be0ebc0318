/* calls.c: the calls of maru/dsm.h that synchronise, and the one that touches memory. Each of the
 * former is a request of the program's thread about an object, which has a number of its own over
 * all kinds.
 */
#include "core.h"
#include "diff.h"
#include "node.h"
#include "seen.h"

#include <maru/dsm.h>

static uint32_t checked(uint32_t id) {
  if (id >= MARU_DSM_IDS)
    mr_node_die(STATUS_USAGE, "id %u: ids are below %u", id, MARU_DSM_IDS);
  return id;
}

static int64_t request(enum mr_op op, uint32_t kind, uint32_t id, int64_t argument) {
  return mr_node_request(op, kind + checked(id), argument);
}

void maru_dsm_lock(uint32_t id) { request(MR_LOCK, MR_LOCKS, id, 0); }
void maru_dsm_unlock(uint32_t id) { request(MR_UNLOCK, MR_LOCKS, id, 0); }
int maru_dsm_trylock(uint32_t id) { return (int)request(MR_TRY, MR_LOCKS, id, 0); }
void maru_dsm_barrier(uint32_t id) { request(MR_BARRIER, MR_BARRIERS, id, maru_dsm_nodes()); }

int64_t maru_dsm_fetch_add(uint32_t id, int64_t delta) {
  return request(MR_FETCH_ADD, MR_COUNTERS, id, delta);
}

int64_t maru_dsm_compare_swap(uint32_t id, int64_t expected, int64_t value) {
  return mr_node_swap(MR_COUNTERS + checked(id), expected, value);
}

void maru_dsm_semaphore_wait(uint32_t id) { request(MR_WAIT, MR_SEMAPHORES, id, 0); }
void maru_dsm_semaphore_post(uint32_t id, uint32_t count) {
  checked(id);
  if (count > 0)
    request(MR_POST, MR_SEMAPHORES, id, count);
}

void maru_dsm_flag_set(uint32_t id, int64_t value) { request(MR_FLAG_SET, MR_FLAGS, id, value); }
void maru_dsm_flag_await(uint32_t id, int64_t value) {
  request(MR_FLAG_AWAIT, MR_FLAGS, id, value);
}

void maru_dsm_condition_wait(uint32_t id, uint32_t lock) {
  request(MR_CONDITION, MR_CONDITIONS, id, MR_LOCKS + checked(lock));
}
void maru_dsm_condition_signal(uint32_t id) { request(MR_SIGNAL, MR_CONDITIONS, id, 0); }
void maru_dsm_condition_broadcast(uint32_t id) { request(MR_BROADCAST, MR_CONDITIONS, id, 0); }

void maru_dsm_fence(void) { mr_node_request(MR_FETCH_ADD, MR_FENCE, 0); }

/* By the accesses themselves. */
static void touch_bytes(uintptr_t first, uintptr_t last, int write) {
  for (uintptr_t at = first; at <= last; at = (at | (MR_PAGE - 1)) + 1) {
    volatile uint8_t *byte = (volatile uint8_t *)at;
    uint8_t value = *byte;
    if (write)
      *byte = value;
  }
}

void maru_dsm_touch(const void *from, size_t size, int write) {
  if (mr_node_unwatched()) {
    if (write)
      maru_dsm_write_range((void *)from, size);
    else
      maru_dsm_read_range(from, size);
    return;
  }
  for (enum mr_place i = MR_ALLOCATED; i < MR_PLACES && mr_is_range(from, size); i++) {
    uintptr_t first = (uintptr_t)from, last = first + size - 1;
    if (mr_part_seen(i, &first, &last))
      touch_bytes(first, last, write);
  }
}
