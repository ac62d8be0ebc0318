/* admission.c: which boards and threads are looked after.  The proofs are the clerk's. */
#define _GNU_SOURCE
#include "daemon.h"

#include <errno.h>
#include <stdio.h>

#define ASK_AGAIN_NS INT64_C(1000000000)    /* about a thread that was refused */
#define BACK_OFF_NS INT64_C(5000000)        /* about one that is lowered; then twice as long */
#define ASKED_NS INT64_C(200000000)         /* the answer is on its way */
#define CHECK_AGAIN_NS INT64_C(10000000000) /* a known one: it may have become another program */

/* False: it may not be forgotten yet. */
static bool admission_forget(struct boost_board *one, uint32_t i) {
  (void)boost_end_line(one, i);
  if (LOAD(one->subjects[i].touched))
    return false; /* before it is in its place */
  one->lines[i] = (struct boost_line){0};
  one->memory[i] = (struct boost_memory){0};
  boost_dismiss(&one->subjects[i]);
  return true;
}

void boost_bury(struct boost_board *one, uint32_t i) {
  struct boost_memory gone = {.gone = one->subjects[i].tid, .gone_start = one->subjects[i].start};
  if (admission_forget(one, i))
    one->memory[i] = gone;
}

bool boost_is_gone(const struct boost_board *one, uint32_t i) {
  const struct maru_channel *line = &one->table->channels[i];
  const struct boost_memory *memory = &one->memory[i];
  return memory->gone != 0 && memory->gone == LOAD(line->tid) &&
         memory->gone_start == LOAD(line->start);
}

static void ask(struct daemon *self, struct boost_board *one, uint32_t i, int64_t now_ns) {
  struct boost_clerk *clerk = self->clerk;
  unsigned slot = (unsigned)((size_t)(one->subjects - self->boards.subjects) / MARU_WAIT_CHANNELS);
  unsigned asked = 0;
  for (unsigned k = clerk->ask_count; k > 0 && clerk->asks[k - 1].slot == slot; k--)
    asked++;
  if (asked == BOOST_ASKS_A_BOARD || boost_is_raised(self, LOAD(one->table->channels[i].tid)))
    return;
  struct maru_channel *line = &one->table->channels[i];
  clerk->asks[clerk->ask_count++] = (struct boost_ask){
      .board = one, .slot = slot, .line = i, .tid = LOAD(line->tid), .start = LOAD(line->start)};
  one->memory[i].ask_again_ns = now_ns + ASKED_NS;
}

static bool is_subject(const struct boost_subject *subject, int32_t tid, uint64_t start) {
  return subject->tid != 0 && subject->tid == tid && subject->start == start;
}

bool boost_is_known(struct daemon *self, struct boost_board *one, uint32_t i, int64_t now_ns) {
  struct maru_channel *line = &one->table->channels[i];
  struct boost_subject *subject = &one->subjects[i];
  /* Acquire: the start comes with the tid. */
  int32_t tid = atomic_load_explicit(&line->tid, memory_order_acquire);
  bool same = is_subject(subject, tid, LOAD(line->start));
  /* The thread has gone, or the line has another one now. */
  if (!same && subject->tid != 0 && !admission_forget(one, i))
    return false;
  if (self->asks && tid != 0 && now_ns >= one->memory[i].ask_again_ns &&
      one->lines[i].raised_until_ns == 0)
    ask(self, one, i, now_ns);
  return same;
}

/* Raised, and not by us: what a dead daemon left, or another one's. */
static void put_back(struct daemon *self, struct maru_channel *line, struct boost_subject *fresh) {
  struct mr_sched claimed = mr_sched_unpack(LOAD(line->normal));
  if (self->dry_run || !LOAD(line->boosted) || boost_is_raised(self, fresh->tid))
    return;
  if (boost_put_back(fresh, &claimed) == 0)
    /* Release: it is in its place before the mark goes. */
    atomic_store_explicit(&line->boosted, 0, memory_order_release);
}

static void take_answer(struct daemon *self, struct boost_ask *ask, int64_t now_ns) {
  struct boost_board *one = self->boards.slots[ask->slot];
  struct boost_subject *subject = &one->subjects[ask->line];
  struct boost_memory *memory = &one->memory[ask->line];
  bool same = is_subject(subject, ask->tid, ask->start);
  bool later = ask->rc == -EAGAIN || ask->rc == -EBUSY || ask->rc == -EINTR;
  if (ask->rc == -EBUSY)
    put_back(self, &one->table->channels[ask->line], &ask->subject);
  if (later) {
    int64_t longer = 2 * memory->back_off_ns;
    memory->back_off_ns = longer < BACK_OFF_NS    ? BACK_OFF_NS
                          : longer > ASK_AGAIN_NS ? ASK_AGAIN_NS
                                                  : longer;
    memory->ask_again_ns = now_ns + memory->back_off_ns;
  } else
    *memory = (struct boost_memory){.ask_again_ns =
                                        now_ns + (ask->rc == 0 ? CHECK_AGAIN_NS : ASK_AGAIN_NS)};
  self->totals.refused += ask->rc < 0 && !later;
  /* A thread that is raised meanwhile, or another one by now, keeps what is known of it. */
  bool replaces = !later && !LOAD(subject->touched) && (same || subject->tid == 0);
  if (replaces && subject->tid != 0)
    boost_dismiss(subject);
  if (replaces && ask->rc == 0)
    *subject = ask->subject;
  else if (ask->rc == 0 || ask->rc == -EBUSY)
    boost_dismiss(&ask->subject);
}

static bool has_living(const struct boost_board *one) {
  for (uint32_t i = 0; i < one->used; i++)
    if (one->subjects[i].tid != 0 && boost_lives(&one->subjects[i]))
      return true;
  return false;
}

/* What no process holds, and none of whose threads lives. */
static void close_unused(struct daemon *self) {
  struct boost_clerk *clerk = self->clerk;
  for (unsigned i = 0; i < BOOST_BOARDS; i++) {
    struct boost_board *one = self->boards.slots[i];
    if (one == NULL)
      continue;
    one->unseen = clerk->seen[i] == one->status.st_ino ? 0 : one->unseen + 1;
    if (one->unseen < 2 || has_living(one))
      continue;
    struct boost_board *old = boost_boards_take(&self->boards, i);
    if (old != NULL)
      clerk->old[clerk->old_count++] = old;
  }
}

static void take_found(struct daemon *self) {
  struct boost_clerk *clerk = self->clerk;
  for (unsigned i = 0; i < clerk->found_count; i++)
    if (boost_boards_put(&self->boards, clerk->found[i]) < 0)
      clerk->old[clerk->old_count++] = clerk->found[i];
  if (clerk->full && !self->said_full) {
    fprintf(stderr, "maru-boost: no room for more runs (%d in all, as root %d a user)\n",
            BOOST_BOARDS, BOOST_BOARDS_A_USER);
    self->said_full = true;
  }
  if (clerk->taken && !self->said_taken) {
    fprintf(stderr, "maru-boost: another daemon looks after some of these runs\n");
    self->said_taken = true;
  }
}

void boost_begin_list(struct daemon *self, int64_t now_ns, int64_t *find_ns) {
  struct boost_clerk *clerk = self->clerk;
  self->asks = boost_clerk_idle(clerk);
  if (!self->asks)
    return;
  for (unsigned i = 0; i < clerk->ask_count; i++)
    take_answer(self, &clerk->asks[i], now_ns);
  clerk->ask_count = 0;
  if (clerk->complete) {
    close_unused(self);
    *find_ns = now_ns + boost_find_pause(clerk->took_ns);
  }
  take_found(self);
  clerk->searches = self->finds && now_ns >= *find_ns;
}

void boost_hand_list(struct daemon *self) {
  struct boost_clerk *clerk = self->clerk;
  if (!self->asks || (clerk->ask_count == 0 && clerk->old_count == 0 && !clerk->searches)) {
    clerk->found_count = self->asks ? 0 : clerk->found_count;
    clerk->complete = self->asks ? false : clerk->complete;
    return;
  }
  for (unsigned i = 0; i < BOOST_BOARDS; i++) {
    const struct boost_board *one = self->boards.slots[i];
    clerk->boards[i].inode = one != NULL ? one->status.st_ino : 0;
    clerk->boards[i].user = one != NULL ? one->status.st_uid : 0;
  }
  clerk->dry_run = self->dry_run;
  boost_clerk_ask(clerk);
}
