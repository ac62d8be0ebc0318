/* node_image.c: this node in checkpoints, and out of one. */
#define _GNU_SOURCE
#include "self.h"

#include "save.h"
#include "settings.h"
#include "shared.h"
#include "store.h"

#include <errno.h>
#include <maru/wait.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HANDLER_S 3 /* a handler of the program's has so long to end */

static void clean(void) {
  if (mr_self.replay != NULL)
    mr_replay_cleans(mr_self.replay);
  mr_core_clean(mr_self.core);
}

/* A core that was loaded may wait before the program's memory is back: no image has it then.  One
 * that waits sends home what it has of its own, for a later wave. */
static bool rests(uint32_t number, uint64_t *sent, uint64_t *received) {
  pthread_mutex_lock(&mr_self.lock);
  bool repeats = mr_self.replay != NULL && mr_replay_repeats(mr_self.replay);
  bool waits = mr_core_waits(mr_self.core) && !mr_self.done && !mr_self.restoring;
  bool stands = !repeats && (waits || mr_self.parked == number);
  if (stands && mr_self.replay != NULL)
    mr_replay_counts(mr_self.replay);
  if (stands && !mr_core_rests(mr_self.core))
    clean();
  bool all = stands && mr_core_rests(mr_self.core);
  mr_core_traffic(mr_self.core, sent, received);
  pthread_mutex_unlock(&mr_self.lock);
  return all;
}

struct placed {
  int file;
  uint64_t at;
  struct mr_store *store;
};

static int put_at(void *context, const void *bytes, size_t length) {
  struct placed *to = context;
  int rc = mr_write_at(to->file, bytes, length, to->at);
  to->at += length;
  return rc;
}

/* Known to the store by numbers that are no addresses of the program's. */
static uint64_t key_of(uint32_t page) { return UINT64_C(1) << 63 | page; }

static int put_page(void *context, uint32_t page, uint64_t stamp, const uint8_t *bytes) {
  const struct placed *to = context;
  return mr_store_put(to->store, key_of(page), stamp, bytes, MR_PAGE);
}

/* While the program's memory comes out of the store, that stays where it is. */
static bool expect_pages(size_t *pages) {
  pthread_mutex_lock(&mr_self.lock);
  bool runs = !mr_self.restoring;
  *pages = mr_core_saved_pages(mr_self.core);
  pthread_mutex_unlock(&mr_self.lock);
  return runs;
}

/* ---- a program that handles signals ------------------------------------------------ */

void mr_self_pauses(void) { mr_hold_here(&mr_self.hold); }

/* It waits in a request, or stands at the begin of one. */
static bool hold(void) {
  mr_hold_ask(&mr_self.hold);
  pthread_mutex_lock(&mr_self.lock);
  bool parked = mr_self.parked != 0;
  pthread_mutex_unlock(&mr_self.lock);
  if (parked)
    mr_checkpoints_wake(mr_self.checkpoints);
  else if (mr_self.server != NULL)
    mr_server_wake(mr_self.server);
  return mr_hold_await(&mr_self.hold, maru_now_ns() + HANDLER_S * INT64_C(1000000000));
}

/* ---- its image ------------------------------------------------------------------------- */

/* At the cut: nobody else changes what is written. */
static int write_standing(int file, struct mr_store *store, struct mr_checkpoint_head *head,
                          const sigset_t *waiting, char *why, size_t size) {
  struct placed to = {file, head->core, store};
  const struct mr_save save = {&to, put_at, put_page};
  pthread_mutex_lock(&mr_self.lock);
  const struct mr_stood stood = {.context = mr_self.captures ? &mr_self.here : NULL,
                                 .how = mr_self.parked != 0 ? PARKED : WAITING,
                                 .waiting = waiting};
  int rc = mr_core_save(mr_self.core, &save);
  head->core_length = to.at - head->core;
  head->own = to.at;
  if (rc == 0)
    rc = mr_self.part->write(file, store, head, &stood, why, size);
  mr_self.returns = mr_self.on_return != NULL;
  if (mr_self.replay != NULL)
    mr_replay_cut(mr_self.replay);
  pthread_mutex_unlock(&mr_self.lock);
  return rc;
}

static int write_image(int file, struct mr_store *store, struct mr_checkpoint_head *head, char *why,
                       size_t size) {
  if (!mr_self.part->handles())
    return write_standing(file, store, head, NULL, why, size);
  if (!hold()) {
    snprintf(why, size, "the program was in a handler of a signal for %d s, or got no processor",
             HANDLER_S);
    return -EBUSY;
  }
  int rc = write_standing(file, store, head, &mr_self.hold.waiting, why, size);
  mr_hold_end(&mr_self.hold);
  return rc;
}

static void committed(uint32_t number) {
  if (mr_self.replay != NULL)
    mr_replay_committed(mr_self.replay, number);
}

bool mr_node_restores(void) {
  return mr_self.checkpoints != NULL && mr_checkpoints_restore(mr_self.checkpoints) != 0;
}

void mr_self_open_checkpoints(void) {
  mr_self.checkpoints = mr_checkpoints_open(mr_self.nodes, mr_self.me);
  if (mr_self.checkpoints != NULL && mr_self.part == NULL)
    mr_node_die(STATUS_USAGE, "--ckpt-every: checkpoints are for programs that maru-cc built and "
                              "that are watched; this one cannot have them");
  if (mr_self.checkpoints != NULL && (mr_self.races != NULL || mr_settings_races()))
    mr_node_die(STATUS_USAGE, "--races and --ckpt-every exclude each other: what is known of races "
                              "is in no checkpoint");
  size_t length;
  if (mr_self.checkpoints == NULL)
    return;
  if (mr_self.nodes > 1)
    mr_self.replay = mr_replay_open();
  mr_membership_make_room(&mr_self.job);
  if (!mr_node_restores())
    return;
  mr_self.part->open(mr_checkpoints_map(mr_self.checkpoints, mr_self.me, &length));
}

void mr_self_start_checkpoints(void) {
  static const struct mr_checkpoint_calls calls = {rests, expect_pages, write_image, committed};
  if (mr_self.checkpoints == NULL)
    return;
  int rc = mr_checkpoints_start(mr_self.checkpoints, &calls);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot start a thread: %s", strerror(-rc));
  mr_membership_give_room();
  if (mr_self.replay == NULL || !mr_replay_repeats(mr_self.replay))
    mr_checkpoints_started(mr_self.checkpoints);
  mr_self.part->begin();
}

uint32_t mr_self_epoch(void) {
  return mr_self.checkpoints != NULL ? mr_checkpoints_epoch(mr_self.checkpoints) : MR_FIRST_EPOCH;
}

/* What this process goes on from: its slots, in their order. */
struct found {
  struct mr_store *store;
  const uint32_t *slots;
  size_t count, next;
};

static const uint8_t *page_of(void *context, size_t number) {
  const struct found *found = context;
  return number < found->count
             ? mr_store_pages(found->store) + (size_t)found->slots[number] * MR_PAGE
             : NULL;
}

static int adopt(void *context, uint32_t page) {
  struct found *found = context;
  return found->next < found->count
             ? mr_store_adopt(found->store, key_of(page), found->slots[found->next++])
             : -EBADMSG;
}

/* All that the image has is the store's from here on, before another is made. */
static int find_own(const struct mr_checkpoint_head *head, const struct mr_saved *saved,
                    struct found *found) {
  const uint8_t *file = (const uint8_t *)head;
  const uint64_t *addresses = (const uint64_t *)(const void *)(file + head->addresses);
  *found = (struct found){.store = mr_checkpoints_store(mr_self.checkpoints),
                          .slots = (const uint32_t *)(const void *)(file + head->slots),
                          .count = head->slot_count - head->pieces};
  int rc = mr_core_list_pages(saved, adopt, found);
  for (uint64_t i = 0; i < head->pieces && rc == 0; i++)
    rc = mr_store_adopt(found->store, addresses[i], found->slots[found->count + i]);
  return rc < 0 ? rc : found->next == found->count ? 0 : -EBADMSG;
}

void mr_self_load_core(void) {
  static struct mr_saved saved[MR_JOB_NODES_MAX];
  struct found found = {.store = NULL};
  int rc = 0;
  mr_self.restoring = true;
  /* A history that begins anew is each node's own. */
  bool alone = mr_self.replay != NULL;
  for (uint16_t i = 0; i < mr_self.nodes; i++) {
    size_t length;
    if (alone && i != mr_self.me)
      continue;
    const struct mr_checkpoint_head *head = mr_checkpoints_map(mr_self.checkpoints, i, &length);
    saved[i] = (struct mr_saved){(const uint8_t *)head + head->core, head->core_length};
    if (i != mr_self.me)
      continue;
    rc = find_own(head, &saved[i], &found);
    mr_self.part->found(head, mr_store_pages(found.store));
  }
  if (rc == 0)
    rc = alone ? mr_core_load_own(mr_self.core, &saved[mr_self.me], page_of, &found)
               : mr_core_load(mr_self.core, saved, page_of, &found);
  if (rc < 0)
    mr_node_die(STATUS_DATA, "cannot go on from checkpoint %u: %s",
                mr_checkpoints_restore(mr_self.checkpoints),
                rc == -EBADMSG  ? "its bytes are damaged, or the settings differ"
                : rc == -EPROTO ? "it was taken without --recover lost: resume it without that"
                                : strerror(-rc));
}

void mr_node_on_return(void (*call)(void)) { mr_self.on_return = call; }
void mr_node_part(const struct mr_part *part) { mr_self.part = part; }
size_t *mr_node_allocated(void) { return &mr_self.used; }
bool mr_node_will_restore(void) { return mr_checkpoints_expected() != 0; }
void mr_node_captures(bool captures) { mr_self.captures = captures && mr_self.checkpoints != NULL; }
uint64_t mr_node_guard_word(uint64_t drawn) {
  return mr_self.replay != NULL ? mr_replay_guard_word(mr_self.replay) : drawn;
}
void mr_node_no_more_checkpoints(void) {
  if (mr_self.checkpoints != NULL)
    mr_checkpoints_end(mr_self.checkpoints);
}

/* What returns from here was called with another word for the stack protector (parmacs/part.h). */
__attribute__((no_stack_protector)) const ucontext_t *mr_node_resume(void) {
  int how;
  const ucontext_t *context = mr_self.part->read(&how, &mr_self.here);
  mr_self.resumed = how == PARKED ? PARKED : WAITING;
  return context;
}
