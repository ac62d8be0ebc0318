/* ids.c: ids of a program's objects, and what happens once (objects.h).
 *
 * A node keeps ids of what was destroyed on it.  Beyond SPARE it hands half of them to the table,
 * which other nodes look into before they take new ones.
 *
 * C++ does not destroy a std::mutex that it can forget.  But where an object without an id lies, no
 * other lies that has one. So an id that was given to an object there is free: the node that gave
 * it gives it again. The table says for each id where its object lay, so that an id that has gone
 * to another object meanwhile is left alone.
 */
#define _GNU_SOURCE
#include "objects.h"
#include "threads.h"

#include <maru/dsm.h>
#include <maru/parmacs.h>
#include <maru/threads.h>
#include <poll.h>
#include <string.h>

#define LOOK_MS 1 /* so often it is looked whether the time has passed */
#define SPARE 256u
#define HANDED (SPARE / 2)

/* Of what was destroyed here; and new ones to take before the table is looked into. */
static struct { uint32_t ids[SPARE], count, fresh; } spare;

bool mr_object_alone(void) { return !mr_node_started(); }

void mr_object_needs_main(const char *what) {
  if (mr_object_alone())
    mr_node_die(STATUS_USAGE, "%s waits before main, where no other thread can end that", what);
}

static void take_from_table(void) {
  struct mr_table *table = mr_threads_table();
  mr_threads_lock();
  while (spare.count < HANDED && table->spare_count > 0)
    spare.ids[spare.count++] = table->spare[--table->spare_count];
  mr_threads_unlock();
}

static void give_to_table(void) {
  struct mr_table *table = mr_threads_table();
  mr_threads_lock();
  while (spare.count > HANDED)
    table->spare[table->spare_count++] = spare.ids[--spare.count];
  mr_threads_unlock();
}

static uint32_t new_id(void) {
  if (spare.count == 0 && spare.fresh == 0) {
    take_from_table();
    spare.fresh = SPARE;
  }
  if (spare.count > 0)
    return spare.ids[--spare.count];
  spare.fresh--;
  return maru_parmacs_id();
}

/* Ids that this node gave to objects which may be forgotten, by the place of those. */
#define BUCKETS (1u << 16)
static struct {
  uint32_t first[BUCKETS], next[MARU_DSM_IDS];
  uint64_t at[MARU_DSM_IDS]; /* 0: in no bucket */
} given;

static uint32_t *bucket_of(uint64_t at) {
  return &given.first[(at * UINT64_C(0x9e3779b97f4a7c15)) >> 48];
}

static void note_given(uint32_t id, uint64_t at) {
  uint32_t *link = given.at[id] != 0 ? bucket_of(given.at[id]) : NULL;
  while (link != NULL && *link != id)
    link = &given.next[*link];
  if (link != NULL)
    *link = given.next[id];
  given.at[id] = at;
  given.next[id] = *bucket_of(at);
  *bucket_of(at) = id;
  mr_threads_table()->object_at[id] = at;
}

/* For the object there, which has none. */
static uint32_t id_for(const uint32_t *word) {
  uint64_t at = (uintptr_t)word;
  uint32_t id = *bucket_of(at);
  while (id != 0 && (given.at[id] != at || mr_threads_table()->object_at[id] != at))
    id = given.next[id];
  if (id == 0)
    note_given(id = new_id(), at);
  return id;
}

uint32_t mr_object_id(uint32_t *word) {
  uint32_t id = *(volatile uint32_t *)word;
  if (id != 0)
    return id;
  mr_node_request(MR_LOCK, MR_FIRST_USE, 0);
  if (*(volatile uint32_t *)word == 0)
    *word = id_for(word);
  id = *word;
  mr_node_request(MR_UNLOCK, MR_FIRST_USE, 0);
  return id;
}

uint32_t mr_object_first(void) { return mr_object_alone() ? 0 : new_id(); }

void mr_object_forget(uint32_t *word) {
  if (*word != 0) {
    if (mr_threads_table()->object_at[*word] != 0)
      mr_threads_table()->object_at[*word] = 0;
    if (spare.count == SPARE)
      give_to_table();
    spare.ids[spare.count++] = *word;
  }
  *word = 0;
}

bool mr_object_is_time(const struct timespec *until) {
  return until->tv_nsec >= 0 && until->tv_nsec < 1000000000;
}

bool mr_object_passes(clockid_t clock, const struct timespec *until) {
  struct timespec now;
  mr_node_clock(clock, &now);
  if (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec))
    return true;
  poll(NULL, 0, LOOK_MS);
  return false;
}

/* ---- once ------------------------------------------------------------------------------- */

/* In a pthread_once_t, and in a guard's second word: twice the id, and whether it is done. */
#define DONE 1u

/* A bit an id: this node has acquired what was done. */
static uint8_t seen[MARU_DSM_IDS / 8];

static bool is_seen(uint32_t id) { return id != 0 && (seen[id / 8] >> id % 8 & 1) != 0; }
static void note_seen(uint32_t id) { seen[id / 8] |= (uint8_t)(1u << id % 8); }

static uint32_t once_id(uint32_t *word) {
  mr_node_request(MR_LOCK, MR_FIRST_USE, 0);
  if (*(volatile uint32_t *)word / 2 == 0)
    *word |= new_id() * 2;
  uint32_t id = *word / 2;
  mr_node_request(MR_UNLOCK, MR_FIRST_USE, 0);
  return id;
}

static bool is_done(const uint32_t *word) { return (*(const volatile uint32_t *)word & DONE) != 0; }

static void unlock(const uint32_t *id) { maru_dsm_unlock(*id); }

/* A routine of C++ may throw: then it was not done, and the next caller does it. */
static void do_once(uint32_t *word, uint32_t id, void (*routine)(void)) {
  const uint32_t held __attribute__((cleanup(unlock))) = id;
  maru_dsm_lock(held);
  if (is_done(word))
    return;
  routine();
  *word |= DONE;
}

int maru_pthread_once(pthread_once_t *control, void (*routine)(void)) {
  uint32_t *word = (uint32_t *)control;
  if (mr_object_alone()) {
    if (*word == 0)
      routine();
    *word = DONE;
    return 0;
  }
  if (is_seen(*(volatile uint32_t *)word / 2))
    return 0;
  uint32_t id = once_id(word);
  do_once(word, id, routine);
  note_seen(id);
  return 0;
}

/* Who makes the object has the lock meanwhile. */
int maru_threads_guard_acquire(uint32_t *guard) {
  uint32_t *word = guard + 1;
  if (mr_object_alone())
    return !is_done(word);
  if (is_seen(*(volatile uint32_t *)word / 2))
    return 0;
  uint32_t id = once_id(word);
  maru_dsm_lock(id);
  if (!is_done(word))
    return 1;
  maru_dsm_unlock(id);
  note_seen(id);
  return 0;
}

void maru_threads_guard_abort(uint32_t *guard) {
  if (!mr_object_alone())
    maru_dsm_unlock(guard[1] / 2);
}

void maru_threads_guard_release(uint32_t *guard) {
  guard[1] |= DONE;
  maru_threads_guard_abort(guard);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

#define ALL_OF(what)                                                                               \
  { .from = (uint8_t *)&(what), .to = (uint8_t *)(&(what) + 1), .anonymous = true }

int mr_objects_state(struct mr_range *ranges) {
  const struct mr_range all[] = {ALL_OF(spare), ALL_OF(given), ALL_OF(seen)};
  memcpy(ranges, all, sizeof all);
  return sizeof all / sizeof *all;
}
