/* act.c: what is done at a tick. */
#define _GNU_SOURCE
#include "daemon.h"
#include "json.h"

#include <errno.h>
#include <stdio.h>

#define REFUSED_NS INT64_C(100000000)

static const char *const action_names[] = {"wake", "restore", "raise", "end"};

static void say(const struct daemon *self, const char *what, const struct maru_channel *line,
                int rc) {
  int tid = atomic_load_explicit(&line->tid, memory_order_relaxed);
  if (!self->json) {
    printf("would %s thread %d\n", what, tid);
    return;
  }
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_text(&json, "action", what);
  mr_json_whole(&json, "tid", (uint64_t)tid);
  mr_json_whole(&json, "error", (uint64_t)-rc);
  mr_json_end_object(&json);
  putchar('\n');
}

bool boost_is_raised(const struct daemon *self, int32_t tid) {
  for (unsigned k = 0; k < self->held_count; k++)
    if (self->held[k]->tid == tid && LOAD(self->held[k]->touched))
      return true;
  return false;
}

int boost_end_line(struct boost_board *one, uint32_t i) {
  int rc = boost_end(&one->subjects[i]);
  /* Release: it is in its place before the mark goes. */
  if (!LOAD(one->subjects[i].touched))
    atomic_store_explicit(&one->table->channels[i].boosted, 0, memory_order_release);
  return rc;
}

void boost_end_again(struct daemon *self) {
  unsigned kept = 0;
  for (unsigned k = 0; k < self->held_count; k++) {
    size_t number = (size_t)(self->held[k] - self->boards.subjects);
    struct boost_board *one = self->boards.slots[number / MARU_WAIT_CHANNELS];
    uint32_t i = number % MARU_WAIT_CHANNELS;
    if (one == NULL || !LOAD(self->held[k]->touched))
      continue;
    if (one->lines[i].raised_until_ns == 0 && boost_end_line(one, i) < 0)
      self->totals.failed++;
    if (LOAD(self->held[k]->touched))
      self->held[kept++] = self->held[k];
  }
  self->held_count = kept;
}

static int raise_one(struct daemon *self, struct boost_board *one, uint32_t i) {
  struct maru_channel *line = &one->table->channels[i];
  if (self->held_count == BOOST_HELD || boost_is_raised(self, one->subjects[i].tid))
    return -EBUSY;
  /* Before the deed: a thread that finds the daemon dead looks here.  Release: as
   * boost_raise's mark. */
  atomic_store_explicit(&line->boosted, 1, memory_order_release);
  int rc = boost_raise(&one->subjects[i], self->how);
  if (rc < 0)
    atomic_store_explicit(&line->boosted, 0, memory_order_relaxed);
  else
    self->held[self->held_count++] = &one->subjects[i];
  return rc;
}

static void act(struct daemon *self, struct boost_board *one, uint32_t i, uint8_t action,
                int64_t now_ns) {
  struct maru_channel *line = &one->table->channels[i];
  int rc = 0;
  if (self->dry_run) {
    for (unsigned bit = 0; bit < 4; bit++)
      if (action & 1u << bit)
        say(self, action_names[bit], line, 0);
    return;
  }
  if (action & BOOST_END) {
    rc = boost_end_line(one, i);
    self->totals.ends++;
  }
  if (action & BOOST_RESTORE) {
    rc = boost_restore(&one->subjects[i]);
    self->totals.restores++;
  }
  if (action & BOOST_RAISE) {
    rc = raise_one(self, one, i);
    self->totals.raises++;
    if (rc < 0)
      one->lines[i].raised_until_ns = 0;
    if (rc == -ESRCH) /* looked for at the next tick, before anything is tried again */
      one->memory[i].seated_ns = 0;
    if (rc == -ENOTSUP) /* from there it cannot be: not tried at each tick */
      one->lines[i].rests_until_ns = now_ns + REFUSED_NS;
  }
  if (rc < 0)
    self->totals.failed++;
}

static void publish(const struct daemon *self, struct boost_board *one, int64_t now_ns) {
  /* A job that has the slot on another board is none of this one. */
  uint64_t here = (uint64_t)one->status.st_ino << 32;
  uint64_t job = self->state.slot_job - 1;
  bool slot = self->rules.slots && self->state.slot_job != 0;
  uint32_t shown = !slot                                   ? 0
                   : (job & ~(uint64_t)UINT32_MAX) == here ? (uint32_t)job + 1
                                                           : UINT32_MAX;
  if (self->dry_run)
    return;
  /* Relaxed: nothing hangs on their order. */
  atomic_store_explicit(&one->table->heartbeat_ns, now_ns, memory_order_relaxed);
  atomic_store_explicit(&one->table->slot_job, shown, memory_order_relaxed);
}

/* The engine's own memory of a line, in one bit: what it remembers nothing of and what has no
 * message is none of its business. */
static void remember(struct boost_board *one, uint32_t i) {
  bool holds = one->lines[i].pending_since_ns != 0 || one->lines[i].raised_until_ns != 0;
  uint64_t bit = UINT64_C(1) << i % 64;
  one->remembered[i / 64] = holds ? one->remembered[i / 64] | bit : one->remembered[i / 64] & ~bit;
}

void boost_act_on(struct daemon *self, struct boost_board *one, int64_t now_ns) {
  const uint8_t *actions = self->actions + one->first;
  bool wakes = false;
  if (one->table == NULL)
    return;
  publish(self, one, now_ns);
  for (uint32_t k = 0; k < one->count; k++) {
    uint32_t i = boost_line_of(one, &self->views[one->first + k]);
    wakes |= (actions[k] & BOOST_WAKE) != 0;
    if (actions[k] != 0)
      act(self, one, i, actions[k], now_ns);
    remember(one, i);
  }
  if (wakes && !self->dry_run)
    self->totals.wakes += (uint64_t)maru_wait_wake_pending(one->table, NULL);
}
