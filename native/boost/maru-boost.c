/* maru-boost: wakes, restores and raises those whose message is there.
 *
 *   maru-boost [--policy P] [--boost fifo|nice|none] [--period-us N] [--cap PERCENT]
 *              [--for-ms N] [--board PATH]... [--until-input-ends] [--dry-run] [--json]
 *
 * Written by a planner (`maru boost`), strict.  Without --board it looks after all
 * runs of its user; as root, of everybody.  Policies:
 *   auto     wakes, restores; raises what has lain ready for a period and did not run
 *   wake     wakes, no more: needs no right
 *   restore  wakes, restores
 *   pb       the published scheme: each period raises one with a message on each CPU
 *   pb+lower the same, restores the lowered
 *   gang     one job after the other is raised, for a slot of the period's length
 * --period-us 0: 5 ms to 250 us as needed, 50 ms while nobody waits.
 * --until-input-ends: who started us holds the other end of standard input.
 *
 * Two processes: the guard starts the worker, which does all of the above, and
 * watches it.  Whatever ends the worker (or stops it: 100 ms without a tick, then it is
 * killed), the guard puts every thread back that was raised or is lowered, then ends.  If the guard
 * is killed the worker puts them back and ends; if both are killed at once, each thread finds the
 * daemon's heartbeat stale when it waits next, and puts itself back.
 *
 * Status: 0 ended as asked (--for-ms, SIGTERM, SIGINT, its input), 64 usage, 69 a board cannot
 * be used, 70 the worker failed; the line says
 * how many threads could not be put back.
 */
#define _GNU_SOURCE
#include "channel.h"
#include "clerk.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKER_PRIORITY 90
#define GUARD_PRIORITY 91
#define LOOP_LIMIT_US 5000000 /* a worker that never sleeps is ended by the kernel */
/* The guard's looks: 100 ms without a beat where both run by FIFO, else 2 s. */
#define LOOK_NS 20000000
#define LOOKS 5
#define LOOKS_SLOW 100
#define LOOKS_TO_END 50 /* 1 s */
#define FIND_EVERY_NS INT64_C(1000000000)
#define ASK_AGAIN_NS INT64_C(1000000000)    /* about a thread that was refused */
#define BACK_OFF_NS INT64_C(5000000)        /* about one that is lowered; then twice as long */
#define ASKED_NS INT64_C(200000000)         /* the answer is on its way */
#define CHECK_AGAIN_NS INT64_C(10000000000) /* a known one: it may have become another program */
#define SLOT_NS INT64_C(20000000)
#define PB_PERIOD_NS INT64_C(20000000)
#define SEAT_NS INT64_C(100000000) /* for so long a thread's CPU is taken as known */
#define SEATS 256u                 /* read in one tick */
#define SEATS_A_BOARD 32u
#define CHECK_NS INT64_C(40000000) /* between looks at those without a message */
#define LOOK_AHEAD 12              /* lines */
#define REST 9                     /* a tick is followed by a pause of so many times its own time */
#define HELD_MOST 1024u            /* threads raised at once */
#define QUIET_TICKS 50
#define IDLE_NS INT64_C(50000000) /* half of what makes a heartbeat stale */

struct totals {
  uint64_t ticks, wakes, restores, raises, ends, refused, failed;
};

/* In memory that the guard sees. */
struct shared {
  _Atomic uint64_t beats; /* of the worker: one a tick */
  struct boost_subject subjects[(size_t)BOOST_BOARDS * MARU_WAIT_CHANNELS];
};

struct daemon {
  struct shared *shared;
  struct boost_state state;
  struct boost_clerk *clerk;
  struct boost_view *views; /* of all boards */
  uint8_t *actions;
  uint32_t count;
  uint32_t quietly_waiting;              /* without a view in this tick */
  struct boost_subject *held[HELD_MOST]; /* that are raised, or whose end has failed */
  unsigned held_count;
  unsigned turn;    /* the board to begin with */
  unsigned seats;   /* read in this tick */
  int64_t check_ns; /* when those without a message are looked at too */
  bool checks;      /* now */
  bool asks;        /* the clerk takes a list in this tick */
  bool said_full, said_taken;
  struct boost_rules rules;
  struct boost_boards boards;
  struct totals totals;
  enum boost_how how;
  int64_t period_ns; /* 0: by itself */
  int64_t until_ns;
  bool finds, with_input, dry_run, json;
};

/* ---- options -------------------------------------------------------------- */

struct named_rules {
  const char *name;
  struct boost_rules rules;
};

static const struct named_rules policies[] = {
    {"auto", {.restores = true, .raises = true}},
    {"wake", {0}},
    {"restore", {.restores = true}},
    {"pb", {.raises = true, .at_once = true}},
    {"pb+lower", {.raises = true, .at_once = true, .restores = true}},
    {"gang", {.slots = true, .slot_ns = SLOT_NS}},
};

static int refuse(const char *what, const char *about) {
  fprintf(stderr, "maru-boost: %s: %s\n", what, about);
  return -EINVAL;
}

static int read_policy(struct daemon *self, const char *name) {
  for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
    if (strcmp(name, policies[i].name) == 0) {
      unsigned cap = self->rules.cap_percent;
      uint32_t cpus = self->rules.cpus;
      self->rules = policies[i].rules;
      self->rules.cap_percent = cap;
      self->rules.cpus = cpus;
      return 0;
    }
  return refuse("unknown policy (auto, wake, restore, pb, pb+lower, gang)", name);
}

static int read_how(struct daemon *self, const char *name) {
  static const char *const names[] = {"fifo", "nice", "none"};
  for (int how = BOOST_BY_FIFO; how <= BOOST_BY_NOTHING; how++)
    if (strcmp(name, names[how]) == 0) {
      self->how = (enum boost_how)how;
      return 0;
    }
  return refuse("unknown boost (fifo, nice, none)", name);
}

static int read_number(const char *text, long least, long most, long *number) {
  char *end;
  errno = 0;
  *number = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || *number < least || *number > most)
    return refuse("not a number in range", text);
  return 0;
}

static bool is_open(void *context, const struct stat *status) {
  const struct boost_boards *boards = context;
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (boards->slots[i] != NULL && boards->slots[i]->status.st_ino == status->st_ino)
      return true;
  return false;
}

static int open_board(struct daemon *self, const char *path) {
  struct boost_board *made;
  int rc = boost_board_open(&made, path, is_open, &self->boards);
  if (rc == 0 && (rc = boost_boards_put(&self->boards, made)) < 0)
    boost_board_free(made);
  return rc == -EALREADY ? 0 : rc;
}

static int read_option(struct daemon *self, const char *name, const char *value) {
  long number = 0;
  int rc = 0;
  if (strcmp(name, "--policy") == 0)
    return read_policy(self, value);
  if (strcmp(name, "--boost") == 0)
    return read_how(self, value);
  if (strcmp(name, "--period-us") == 0) {
    rc = read_number(value, 0, 50000, &number);
    if (rc == 0 && number != 0 && number < 100)
      return refuse("a period is 100 us to 50 ms", value);
    self->period_ns = number * 1000;
  } else if (strcmp(name, "--cap") == 0) {
    rc = read_number(value, 0, 100, &number);
    self->rules.cap_percent = (unsigned)number;
  } else if (strcmp(name, "--for-ms") == 0) {
    rc = read_number(value, 1, 1000000000, &number);
    self->until_ns = maru_now_ns() + number * 1000000;
  } else if (strcmp(name, "--board") == 0) {
    self->finds = false;
    rc = open_board(self, value);
    if (rc < 0) {
      fprintf(stderr, "maru-boost: cannot use this board: %s: %s\n", value, strerror(-rc));
      return rc == -EINVAL ? -EPROTO : rc;
    }
    return 0;
  } else
    return refuse("unknown option", name);
  return rc;
}

static int read_options(struct daemon *self, int argc, char **argv) {
  self->finds = true;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--dry-run") == 0)
      self->dry_run = true;
    else if (strcmp(argv[i], "--json") == 0)
      self->json = true;
    else if (strcmp(argv[i], "--until-input-ends") == 0)
      self->with_input = true;
    else if (i + 1 == argc)
      return refuse("unknown option, or without a value", argv[i]);
    else {
      int rc = read_option(self, argv[i], argv[i + 1]);
      if (rc < 0)
        return rc;
      i++;
    }
  }
  if (self->rules.slots && self->period_ns > 0)
    self->rules.slot_ns = self->period_ns;
  if (self->rules.at_once && self->period_ns == 0)
    self->period_ns = PB_PERIOD_NS;
  return 0;
}

/* One that was killed just now may still be on its way out. */
static int lock_board(struct boost_board *one) {
  static const struct timespec pause = {.tv_nsec = 10000000};
  int rc = boost_board_lock(one);
  for (int again = 0; rc == -EBUSY && again < 20; again++) {
    nanosleep(&pause, NULL);
    rc = boost_board_lock(one);
  }
  return rc;
}

/* One daemon a board. */
static int lock_boards(struct daemon *self) {
  int rc = 0;
  for (unsigned i = 0; i < BOOST_BOARDS && !self->dry_run && rc == 0; i++)
    if (self->boards.slots[i] != NULL)
      rc = lock_board(self->boards.slots[i]);
  if (rc == -EBUSY)
    fprintf(stderr, "maru-boost: another daemon looks after this board\n");
  else if (rc < 0)
    fprintf(stderr, "maru-boost: cannot lock this board: %s\n", strerror(-rc));
  return rc < 0 ? -EBUSY : 0;
}

/* ---- a tick --------------------------------------------------------------- */

static const char *const action_names[] = {"wake", "restore", "raise", "end"};

static void say(const struct daemon *self, const char *what, const struct maru_channel *line,
                int rc) {
  int tid = atomic_load_explicit(&line->tid, memory_order_relaxed);
  if (self->json)
    printf("{\"action\":\"%s\",\"tid\":%d,\"error\":%d}\n", what, tid, -rc);
  else
    printf("would %s thread %d\n", what, tid);
}

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)

/* A thread that waits by turns on several channels is raised through one at a time:
 * while it is, the kernel does not say where it belongs. */
static bool is_raised(const struct daemon *self, int32_t tid) {
  for (unsigned k = 0; k < self->held_count; k++)
    if (self->held[k]->tid == tid && LOAD(self->held[k]->touched))
      return true;
  return false;
}

static int end_one(struct boost_board *one, uint32_t i) {
  int rc = boost_end(&one->subjects[i]);
  /* Release: it is in its place before the mark goes. */
  if (!LOAD(one->subjects[i].touched))
    atomic_store_explicit(&one->table->channels[i].boosted, 0, memory_order_release);
  return rc;
}

/* Forgets whom it holds no more; tries again the ends that failed. */
static void end_again(struct daemon *self) {
  unsigned kept = 0;
  for (unsigned k = 0; k < self->held_count; k++) {
    size_t number = (size_t)(self->held[k] - self->boards.subjects);
    struct boost_board *one = self->boards.slots[number / MARU_WAIT_CHANNELS];
    uint32_t i = number % MARU_WAIT_CHANNELS;
    if (one == NULL || !LOAD(self->held[k]->touched))
      continue;
    if (one->lines[i].raised_until_ns == 0 && end_one(one, i) < 0)
      self->totals.failed++;
    if (LOAD(self->held[k]->touched))
      self->held[kept++] = self->held[k];
  }
  self->held_count = kept;
}

/* ---- what the clerk is asked, and answers --------------------------------- */

/* False: it may not be forgotten yet. */
static bool forget(struct boost_board *one, uint32_t i) {
  (void)end_one(one, i);
  if (LOAD(one->subjects[i].touched))
    return false; /* before it is in its place */
  one->lines[i] = (struct boost_line){0};
  one->memory[i] = (struct boost_memory){0};
  boost_dismiss(&one->subjects[i]);
  return true;
}

static void ask(struct daemon *self, struct boost_board *one, uint32_t i, int64_t now_ns) {
  struct boost_clerk *clerk = self->clerk;
  unsigned slot = (unsigned)((size_t)(one->subjects - self->boards.subjects) / MARU_WAIT_CHANNELS);
  unsigned asked = 0;
  for (unsigned k = clerk->ask_count; k > 0 && clerk->asks[k - 1].slot == slot; k--)
    asked++;
  if (asked == BOOST_ASKS_A_BOARD || is_raised(self, LOAD(one->table->channels[i].tid)))
    return;
  struct maru_channel *line = &one->table->channels[i];
  clerk->asks[clerk->ask_count++] = (struct boost_ask){
      .board = one, .slot = slot, .line = i, .tid = LOAD(line->tid), .start = LOAD(line->start)};
  one->memory[i].ask_again_ns = now_ns + ASKED_NS;
}

static bool is_subject(const struct boost_subject *subject, int32_t tid, uint64_t start) {
  return subject->tid != 0 && subject->tid == tid && subject->start == start;
}

/* The line's thread was checked.  When it is new, and now and then again, the clerk is asked. */
static bool is_known(struct daemon *self, struct boost_board *one, uint32_t i, int64_t now_ns) {
  struct maru_channel *line = &one->table->channels[i];
  struct boost_subject *subject = &one->subjects[i];
  /* Acquire: the start comes with the tid. */
  int32_t tid = atomic_load_explicit(&line->tid, memory_order_acquire);
  bool same = is_subject(subject, tid, LOAD(line->start));
  /* The thread has gone, or the line has another one now. */
  if (!same && subject->tid != 0 && !forget(one, i))
    return false;
  if (self->asks && tid != 0 && now_ns >= one->memory[i].ask_again_ns &&
      one->lines[i].raised_until_ns == 0)
    ask(self, one, i, now_ns);
  return same;
}

/* Raised, and not by us: what a dead daemon left, or another one's. */
static void put_back(struct daemon *self, struct maru_channel *line, struct boost_subject *fresh) {
  struct mr_sched claimed = mr_sched_unpack(LOAD(line->normal));
  if (self->dry_run || !LOAD(line->boosted) || is_raised(self, fresh->tid))
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
  /* Who is raised meanwhile, or another one by now, keeps what is known of it. */
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

/* Takes the answers, if they are there, and begins a new list.  `*find_ns`: when the next
 * search is due. */
static void begin_list(struct daemon *self, int64_t now_ns, int64_t *find_ns) {
  struct boost_clerk *clerk = self->clerk;
  self->asks = boost_clerk_idle(clerk);
  if (!self->asks)
    return;
  for (unsigned i = 0; i < clerk->ask_count; i++)
    take_answer(self, &clerk->asks[i], now_ns);
  clerk->ask_count = 0;
  if (clerk->complete) {
    close_unused(self);
    /* On a machine with many processes less often: 2 % of the time at most. */
    int64_t pause = 50 * clerk->took_ns;
    *find_ns = now_ns + (pause > FIND_EVERY_NS ? pause : FIND_EVERY_NS);
  }
  take_found(self);
  clerk->searches = self->finds && now_ns >= *find_ns;
}

static void hand_list(struct daemon *self) {
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

/* ---- what the engine sees, and decides ------------------------------------ */

/* Where the kernel says that it is. */
static void read_seat(struct daemon *self, struct boost_board *one, uint32_t i, int64_t now_ns) {
  int cpu = boost_cpu(one->subjects[i].tid);
  self->seats++;
  if (cpu < 0)
    return;
  one->memory[i].cpu = (uint32_t)cpu % MARU_WAIT_CPUS;
  one->memory[i].seated_ns = now_ns;
}

static bool is_seated(const struct boost_board *one, uint32_t i, int64_t now_ns) {
  return one->memory[i].seated_ns != 0 && now_ns - one->memory[i].seated_ns < SEAT_NS;
}

static uint32_t line_of(const struct boost_board *one, const struct boost_view *view) {
  return (uint32_t)(view->line - one->lines);
}

/* Of those who are raised at each tick, of those who might be some in turn. */
static void read_seats(struct daemon *self, struct boost_board *one, struct boost_view *views,
                       int64_t now_ns) {
  unsigned limit = self->seats + SEATS_A_BOARD < SEATS ? self->seats + SEATS_A_BOARD : SEATS;
  uint32_t begin = 0;
  while (begin < one->count && line_of(one, &views[begin]) < one->turn)
    begin++;
  for (uint32_t k = 0; k < one->count; k++) {
    struct boost_view *view = &views[(begin + k) % one->count];
    uint32_t i = line_of(one, view);
    bool raised = one->lines[i].raised_until_ns != 0;
    bool wants = view->known && (view->pending || self->rules.slots);
    if (raised)
      read_seat(self, one, i, now_ns);
    else if (wants && self->seats < limit && !is_seated(one, i, now_ns)) {
      read_seat(self, one, i, now_ns);
      one->turn = i + 1;
    }
    view->seated = view->known && is_seated(one, i, now_ns);
    view->cpu = one->memory[i].cpu;
  }
}

static bool needs_rights(const struct daemon *self) {
  return self->rules.restores || self->rules.raises || self->rules.slots;
}

static struct boost_view view_of(struct daemon *self, struct boost_board *one, uint32_t i,
                                 bool pending, int64_t now_ns) {
  uint32_t state = LOAD(one->table->channels[i].state);
  return (struct boost_view){
      .waits = state != MARU_CHANNEL_IDLE,
      .asleep = state == MARU_CHANNEL_ASLEEP,
      .lowered = state == MARU_CHANNEL_LOWERED,
      .pending = pending,
      .known = needs_rights(self) && (pending || self->rules.slots || self->checks) &&
               is_known(self, one, i, now_ns),
      .user = one->user,
      .job = LOAD(one->table->channels[i].job) | (uint64_t)one->status.st_ino << 32,
      .number = (uint32_t)(&one->subjects[i] - self->boards.subjects),
      .line = &one->lines[i]};
}

/* The engine's own memory of a line, in one bit: what it remembers nothing of and what has no
 * message is none of its business. */
static void remember(struct boost_board *one, uint32_t i) {
  bool holds = one->lines[i].pending_since_ns != 0 || one->lines[i].raised_until_ns != 0;
  uint64_t bit = UINT64_C(1) << i % 64;
  one->remembered[i / 64] = holds ? one->remembered[i / 64] | bit : one->remembered[i / 64] & ~bit;
}

/* A bit for each of 64 lines. */
struct lines {
  uint64_t waiting, pending;
};

/* Nearly always nothing has come: one cache line each, without a branch. */
static struct lines read_lines(const struct maru_channel *first, uint32_t count) {
  struct lines found = {0};
  for (uint32_t i = 0; i < count; i++) {
    /* The processor looks ahead within a page, which is 64 lines. */
    __builtin_prefetch(&first[i + LOOK_AHEAD]);
    /* Acquire: pairs with the waiter's release of its state. */
    uint32_t state = atomic_load_explicit(&first[i].state, memory_order_acquire);
    uint32_t pending = mr_channel_pending_state(&first[i], state);
    found.waiting |= (uint64_t)(state != MARU_CHANNEL_IDLE) << i;
    found.pending |= (uint64_t)(pending != MARU_CHANNEL_IDLE) << i;
  }
  return found;
}

/* Views of the lines from `begin` on, 64 at most, that anything is to be done about. */
static uint32_t see(struct daemon *self, struct boost_board *one, uint32_t begin, int64_t now_ns,
                    struct boost_view *views) {
  uint32_t count = one->used - begin < 64 ? one->used - begin : 64, made = 0;
  uint64_t all = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
  struct lines found = read_lines(&one->table->channels[begin], count);
  uint64_t seen = self->rules.slots ? all : (found.pending | one->remembered[begin / 64]) & all;
  for (uint64_t left = seen; left != 0; left &= left - 1) {
    unsigned bit = (unsigned)__builtin_ctzll(left);
    bool pending = found.pending >> bit & 1;
    views[made++] = view_of(self, one, begin + bit, pending, now_ns);
  }
  self->quietly_waiting += (uint32_t)__builtin_popcountll(found.waiting & ~seen);
  if (self->checks && needs_rights(self)) /* asks who it is, before that matters */
    for (uint64_t left = all & ~seen; left != 0; left &= left - 1)
      (void)is_known(self, one, begin + (unsigned)__builtin_ctzll(left), now_ns);
  return made;
}

static int raise_one(struct daemon *self, struct boost_board *one, uint32_t i) {
  struct maru_channel *line = &one->table->channels[i];
  if (self->held_count == HELD_MOST || is_raised(self, one->subjects[i].tid))
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

static void act(struct daemon *self, struct boost_board *one, uint32_t i, uint8_t action) {
  struct maru_channel *line = &one->table->channels[i];
  int rc = 0;
  if (self->dry_run) {
    for (unsigned bit = 0; bit < 4; bit++)
      if (action & 1u << bit)
        say(self, action_names[bit], line, 0);
    return;
  }
  if (action & BOOST_END) {
    rc = end_one(one, i);
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

/* Its channels, behind those of the boards before it. */
static void look_at(struct daemon *self, struct boost_board *one, int64_t now_ns) {
  struct boost_view *views = self->views + self->count;
  if (one->table == NULL && maru_wait_table_of(&one->board, &one->table) < 0)
    return;
  uint32_t count = atomic_load_explicit(&one->table->used, memory_order_acquire);
  count = count < MARU_WAIT_CHANNELS ? count : MARU_WAIT_CHANNELS;
  /* A raise must end though its line is denied. */
  one->used = count > one->used ? count : one->used;
  one->count = 0;
  for (uint32_t begin = 0; begin < one->used; begin += 64)
    one->count += see(self, one, begin, now_ns, &views[one->count]);
  if (self->rules.raises || self->rules.slots)
    read_seats(self, one, views, now_ns);
  one->first = self->count;
  self->count += one->count;
}

static void act_on(struct daemon *self, struct boost_board *one, int64_t now_ns) {
  const uint8_t *actions = self->actions + one->first;
  bool wakes = false;
  if (one->table == NULL)
    return;
  publish(self, one, now_ns);
  for (uint32_t k = 0; k < one->count; k++) {
    uint32_t i = line_of(one, &self->views[one->first + k]);
    wakes |= (actions[k] & BOOST_WAKE) != 0;
    if (actions[k] != 0)
      act(self, one, i, actions[k]);
    remember(one, i);
  }
  if (wakes && !self->dry_run)
    self->totals.wakes += (uint64_t)maru_wait_wake_pending(one->table, NULL);
}

static struct boost_seen tick(struct daemon *self, int64_t now_ns, int64_t period_ns) {
  self->totals.ticks++;
  self->count = 0;
  self->quietly_waiting = 0;
  self->seats = 0;
  self->turn++;
  self->checks = now_ns >= self->check_ns;
  if (self->checks)
    self->check_ns = now_ns + CHECK_NS;
  end_again(self);
  for (unsigned k = 0; k < BOOST_BOARDS; k++) {
    struct boost_board *one = self->boards.slots[(self->turn + k) % BOOST_BOARDS];
    if (one != NULL)
      look_at(self, one, now_ns);
  }
  struct boost_seen seen = boost_step(&self->rules, &self->state, self->views, self->count, now_ns,
                                      period_ns, self->actions);
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (self->boards.slots[i] != NULL)
      act_on(self, self->boards.slots[i], now_ns);
  seen.waiting += self->quietly_waiting;
  return seen;
}

/* ---- the worker ----------------------------------------------------------- */

/* How many could not be put back. */
static unsigned leave_one(struct daemon *self, struct boost_board *one) {
  if (one->table == NULL || self->dry_run)
    return 0;
  unsigned failed = boost_board_settle(one);
  atomic_store_explicit(&one->table->slot_job, 0, memory_order_relaxed);
  atomic_store_explicit(&one->table->heartbeat_ns, 0, memory_order_relaxed);
  return failed;
}

static void report(const struct daemon *self) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  const struct totals *t = &self->totals;
  printf(self->json
             ? "{\"schema\":\"maru-boost/1\",\"ticks\":%llu,\"wakes\":%llu,\"restores\":%llu,"
               "\"raises\":%llu,\"ends\":%llu,\"refused\":%llu,\"failed\":%llu,\"cpu_s\":%.6f}\n"
             : "%llu ticks, %llu woken, %llu restored, %llu raised, %llu ended, %llu threads "
               "refused, %llu actions failed, %.3f s of CPU\n",
         (unsigned long long)t->ticks, (unsigned long long)t->wakes,
         (unsigned long long)t->restores, (unsigned long long)t->raises,
         (unsigned long long)t->ends, (unsigned long long)t->refused, (unsigned long long)t->failed,
         cpu);
}

/* Asked to end. */
static volatile sig_atomic_t ending;

static void note_end(int signal) {
  (void)signal;
  ending = 1;
}

/* A request to end that comes just before the sleep is seen after it. */
static void sleep_until(int64_t time_ns) {
  struct timespec time = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};
  if (!ending)
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static int set_priority(int priority) {
  /* Without the right the daemon is an ordinary process, late when the CPU is taken. */
  struct mr_sched own = {.policy = SCHED_FIFO, .on_fork = 1, .priority = (uint32_t)priority};
  return mr_sched_set(0, &own);
}

/* A descriptor for each thread that is looked after. */
static void raise_limit(void) {
  struct rlimit files;
  rlim_t wanted = BOOST_BOARDS * MARU_WAIT_CHANNELS + 1024;
  if (getrlimit(RLIMIT_NOFILE, &files) < 0)
    return;
  files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

static int64_t own_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void run(struct daemon *self) {
  bool by_itself = self->period_ns == 0;
  int64_t period = by_itself ? BOOST_LONGEST_NS : self->period_ns;
  int64_t next = maru_now_ns(), find = next, used = own_time();
  unsigned quiet = 0;
  while (next < self->until_ns && !ending) {
    int64_t now = maru_now_ns();
    begin_list(self, now, &find);
    struct boost_seen seen = tick(self, now, period);
    hand_list(self);
    /* Relaxed: a counter that the guard looks at. */
    atomic_fetch_add_explicit(&self->shared->beats, 1, memory_order_relaxed);
    if (by_itself)
      period = boost_next_period(period, seen);
    /* A job that computes all the time looks as idle for a tick as one that has gone. */
    quiet = seen.waiting > 0 || self->rules.slots ? 0 : quiet + 1;
    int64_t pause = quiet < QUIET_TICKS || period > IDLE_NS ? period : IDLE_NS;
    /* CPU time, for a tick that was held up by others has cost nothing. */
    int64_t before = used;
    used = own_time();
    int64_t rest = maru_now_ns() + REST * (used - before);
    next = next + pause > now ? next + pause : now + pause;
    next = next > rest ? next : rest;
    sleep_until(next);
  }
}

/* Until here requests to end wait, and the clerk gets none. */
static void take_requests(const sigset_t *requests) {
  struct sigaction note = {.sa_handler = note_end};
  sigaction(SIGTERM, &note, NULL);
  sigaction(SIGINT, &note, NULL);
  sigaction(SIGHUP, &note, NULL);
  sigprocmask(SIG_UNBLOCK, requests, NULL);
}

static int work(struct daemon *self, pid_t guard, const sigset_t *requests) {
  struct rlimit bound = {LOOP_LIMIT_US, 2 * LOOP_LIMIT_US};
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != guard)
    return 0;
  size_t most = (size_t)BOOST_BOARDS * MARU_WAIT_CHANNELS;
  self->views = calloc(most, sizeof *self->views);
  self->actions = calloc(most, sizeof *self->actions);
  self->clerk = calloc(1, sizeof *self->clerk);
  raise_limit();
  if (self->views == NULL || self->actions == NULL || self->clerk == NULL ||
      boost_clerk_start(self->clerk) < 0) {
    fprintf(stderr, "maru-boost: no memory, or no thread\n");
    return 70;
  }
  setrlimit(RLIMIT_RTTIME, &bound);
  prctl(PR_SET_TIMERSLACK, 1);
  (void)set_priority(WORKER_PRIORITY);
  take_requests(requests);
  run(self);
  unsigned left = 0;
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (self->boards.slots[i] != NULL)
      left += leave_one(self, self->boards.slots[i]);
  report(self);
  return fflush(stdout) == 0 && left == 0 ? 0 : 70;
}

/* ---- the guard ------------------------------------------------------------ */

/* How many could not be put back. */
static unsigned rescue_all(const struct daemon *self) {
  unsigned failed = 0;
  for (size_t i = 0; i < (size_t)BOOST_BOARDS * MARU_WAIT_CHANNELS; i++)
    if (self->boards.subjects[i].tid != 0)
      failed += boost_rescue(&self->boards.subjects[i]) < 0;
  return failed;
}

struct watch {
  uint64_t beats;
  unsigned looks; /* since the last beat */
  unsigned looks_most;
  unsigned ending; /* looks since the request to end; 0: none */
};

/* A worker that was stopped, or is late: looks are counted, not time, so that a guard
 * that was stopped itself does not blame the worker. */
static bool is_late(struct watch *watch, const struct daemon *self) {
  /* Relaxed: a counter. */
  uint64_t beats = atomic_load_explicit(&self->shared->beats, memory_order_relaxed);
  bool holds = self->how != BOOST_BY_NOTHING && !self->dry_run;
  watch->looks = beats != watch->beats || beats == 0 || !holds ? 0 : watch->looks + 1;
  watch->beats = beats;
  watch->ending += watch->ending > 0;
  return watch->looks > watch->looks_most || watch->ending > LOOKS_TO_END;
}

/* Its status if it ends within 200 ms; else it hangs in the kernel and comes to no deed. */
static int end_worker(pid_t worker) {
  static const struct timespec pause = {.tv_nsec = LOOK_NS};
  int status = SIGKILL;
  kill(worker, SIGKILL);
  for (int look = 0; look < 10 && waitpid(worker, &status, WNOHANG) == 0; look++)
    nanosleep(&pause, NULL);
  return status;
}

static bool input_ended(void) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  char byte;
  return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

/* Passes requests to end on; the worker's status. */
static int guard(const struct daemon *self, pid_t worker, const sigset_t *signals) {
  static const struct timespec pause = {.tv_nsec = LOOK_NS};
  struct watch watch = {.looks_most = LOOKS_SLOW};
  int status;
  if (set_priority(GUARD_PRIORITY) == 0)
    watch.looks_most = LOOKS;
  while (waitpid(worker, &status, WNOHANG) == 0) {
    int signal = sigtimedwait(signals, NULL, &pause);
    if (signal < 0 && is_late(&watch, self))
      return end_worker(worker);
    bool asked = signal > 0 && signal != SIGCHLD;
    if (asked || (self->with_input && input_ended())) {
      kill(worker, SIGTERM);
      watch.ending = watch.ending > 0 ? watch.ending : 1;
    }
  }
  return status;
}

static int after_death(const struct daemon *self) {
  unsigned failed = rescue_all(self);
  if (failed > 0)
    fprintf(stderr, "maru-boost: the worker failed; %u threads could not be put back\n", failed);
  else
    fprintf(stderr, "maru-boost: the worker failed; every thread is back in its place\n");
  return 70;
}

static void free_boards(struct daemon *self) {
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (self->boards.slots[i] != NULL)
      boost_board_free(self->boards.slots[i]);
}

int main(int argc, char **argv) {
  struct daemon self = {.until_ns = INT64_MAX, .rules = {.cap_percent = 90}};
  sigset_t requests, signals;
  enum boost_how means = boost_means();
  self.how = means;
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  self.rules.cpus = cpus < 1 ? 1 : cpus > MARU_WAIT_CPUS ? MARU_WAIT_CPUS : (uint32_t)cpus;
  self.shared = mmap(NULL, sizeof *self.shared, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (self.shared == MAP_FAILED) {
    fprintf(stderr, "maru-boost: no memory\n");
    return 69;
  }
  self.boards.subjects = self.shared->subjects;
  (void)read_policy(&self, "auto");
  int rc = read_options(&self, argc, argv);
  if (rc == 0)
    rc = lock_boards(&self);
  if (rc < 0) {
    free_boards(&self);
    return rc == -EINVAL ? 64 : 69;
  }
  bool wants_rights = self.rules.raises || self.rules.restores || self.rules.slots;
  if (wants_rights && means == BOOST_BY_NOTHING)
    fprintf(stderr, "maru-boost: no right to raise priorities (root or CAP_SYS_NICE): sleepers are "
                    "woken, nobody is restored or boosted\n");
  sigemptyset(&requests);
  sigaddset(&requests, SIGTERM);
  sigaddset(&requests, SIGINT);
  sigaddset(&requests, SIGHUP);
  signals = requests;
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  signal(SIGCHLD, SIG_DFL);
  signal(SIGTSTP, SIG_IGN); /* a terminal must not stop what holds others raised */
  pid_t parent = getpid(), worker = fork();
  if (worker < 0) {
    fprintf(stderr, "maru-boost: cannot fork: %s\n", strerror(errno));
    return 69;
  }
  if (worker == 0)
    /* At once: the clerk still runs. */
    _exit(work(&self, parent, &requests));
  int status = guard(&self, worker, &signals);
  int end = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : after_death(&self);
  free_boards(&self);
  return end;
}
