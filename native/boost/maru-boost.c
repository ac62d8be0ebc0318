/* maru-boost: wakes, restores and raises those whose message is there.
 *
 *   maru-boost [--policy P] [--boost fifo|nice|none] [--period-us N] [--cap PERCENT]
 *              [--for-ms N] [--board PATH]... [--dry-run] [--json]
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
 *
 * Two processes: the guard starts the worker, which does all of the above, and
 * watches it.  Whatever ends the worker (or stops it: 100 ms without a tick, then it is
 * killed), the guard puts every thread back that was raised or is lowered, then ends.  If the guard
 * is killed the worker puts them back and ends; if both are killed at once, each thread finds the
 * daemon's heartbeat stale when it waits next, and puts itself back.
 *
 * Status: 0 ended as asked (--for-ms, SIGTERM, SIGINT), 64 usage, 69 a board cannot
 * be used, 70 the worker failed; the line says
 * how many threads could not be put back.
 */
#define _GNU_SOURCE
#include "boards.h"

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
#define CHECK_AGAIN_NS INT64_C(10000000000) /* a known one: it may have become another program */
#define SLOT_NS INT64_C(20000000)
#define PB_PERIOD_NS INT64_C(20000000)
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
  struct boost_rules rules;
  struct boost_boards boards;
  struct totals totals;
  enum boost_how how;
  int64_t period_ns; /* 0: by itself */
  int64_t until_ns;
  uint32_t cpus; /* of this machine: as many are raised at once */
  bool finds, dry_run, json;
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
      self->rules = policies[i].rules;
      self->rules.cap_percent = cap;
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
    rc = boost_boards_open(&self->boards, value);
    if (rc < 0 && rc != -EEXIST) {
      refuse("cannot use this board", value);
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
  for (unsigned b = 0; b < BOOST_BOARDS; b++)
    for (uint32_t i = 0; self->boards.slots[b] != NULL && i < MARU_WAIT_CHANNELS; i++) {
      const struct boost_subject *subject = &self->boards.slots[b]->subjects[i];
      /* Relaxed: this process alone writes the mark. */
      if (subject->tid == tid && atomic_load_explicit(&subject->touched, memory_order_relaxed))
        return true;
    }
  return false;
}

static int end_one(struct boost_board *one, uint32_t i) {
  int rc = boost_end(&one->subjects[i]);
  /* Release: it is in its place before the mark goes. */
  if (!LOAD(one->subjects[i].touched))
    atomic_store_explicit(&one->table->channels[i].boosted, 0, memory_order_release);
  return rc;
}

/* The ends that failed. */
static void end_again(struct daemon *self, struct boost_board *one) {
  for (uint32_t i = 0; i < one->used; i++)
    if (LOAD(one->subjects[i].touched) && one->lines[i].raised_until_ns == 0 && end_one(one, i) < 0)
      self->totals.failed++;
}

/* The line's thread, checked when it is new and now and then again. */
static bool is_known(struct daemon *self, struct boost_board *one, uint32_t i, int64_t now_ns) {
  struct maru_channel *line = &one->table->channels[i];
  struct boost_subject *subject = &one->subjects[i];
  /* Acquire: the start comes with the tid. */
  int32_t tid = atomic_load_explicit(&line->tid, memory_order_acquire);
  uint64_t start = atomic_load_explicit(&line->start, memory_order_relaxed);
  bool same = subject->tid != 0 && subject->tid == tid && subject->start == start;
  if (same && (now_ns < one->ask_again_ns[i] || one->lines[i].raised_until_ns != 0))
    return true;
  if (!same && subject->tid != 0) {
    /* The thread has gone, or the line has another one now. */
    (void)end_one(one, i);
    if (LOAD(subject->touched))
      return false; /* it is not forgotten before it is in its place */
    one->lines[i] = (struct boost_line){0};
    boost_dismiss(subject);
  }
  if (tid == 0 || (!same && now_ns < one->ask_again_ns[i]))
    return false;
  struct boost_subject fresh;
  int rc = is_raised(self, tid) ? -EAGAIN : boost_admit(&fresh, tid, start, &one->status);
  one->ask_again_ns[i] = now_ns + ASK_AGAIN_NS;
  if (rc == -EBUSY) {
    /* Raised, and not by us: what a dead daemon left, or another one's. */
    struct mr_sched claimed = mr_sched_unpack(LOAD(line->normal));
    rc = LOAD(line->boosted) && !self->dry_run ? boost_put_back(&fresh, &claimed) : rc;
    boost_dismiss(&fresh);
    if (rc == 0)
      atomic_store_explicit(&line->boosted, 0, memory_order_release);
    rc = -EAGAIN;
  }
  if (rc == -EAGAIN) {
    if (!same)
      one->ask_again_ns[i] = now_ns + BOOST_LONGEST_NS;
    return same; /* lowered: its own place is known from before */
  }
  if (same)
    boost_dismiss(subject);
  if (rc < 0) {
    self->totals.refused++;
    return false;
  }
  *subject = fresh;
  one->ask_again_ns[i] = now_ns + CHECK_AGAIN_NS;
  return true;
}

static struct boost_view view_of(struct daemon *self, struct boost_board *one, uint32_t i,
                                 int64_t now_ns) {
  struct maru_channel *line = &one->table->channels[i];
  /* Acquire: pairs with the waiter's release of its state. */
  uint32_t state = atomic_load_explicit(&line->state, memory_order_acquire);
  bool waits = state != MARU_CHANNEL_IDLE;
  bool needs_rights = self->rules.restores || self->rules.raises || self->rules.slots;
  return (struct boost_view){.waits = waits,
                             .asleep = state == MARU_CHANNEL_ASLEEP,
                             .lowered = state == MARU_CHANNEL_LOWERED,
                             .pending = waits && maru_channel_pending(line),
                             .known = needs_rights && is_known(self, one, i, now_ns),
                             .cpu = atomic_load_explicit(&line->cpu, memory_order_relaxed) %
                                    self->cpus,
                             .job = atomic_load_explicit(&line->job, memory_order_relaxed)};
}

static int raise_one(struct daemon *self, struct boost_board *one, uint32_t i) {
  struct maru_channel *line = &one->table->channels[i];
  if (is_raised(self, one->subjects[i].tid))
    return -EBUSY;
  /* Before the deed: a thread that finds the daemon dead looks here.  Release: as
   * boost_raise's mark. */
  atomic_store_explicit(&line->boosted, 1, memory_order_release);
  int rc = boost_raise(&one->subjects[i], self->how);
  if (rc < 0)
    atomic_store_explicit(&line->boosted, 0, memory_order_relaxed);
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
  if (self->dry_run)
    return;
  /* Relaxed: nothing hangs on their order. */
  atomic_store_explicit(&one->table->heartbeat_ns, now_ns, memory_order_relaxed);
  atomic_store_explicit(&one->table->slot_job, self->rules.slots ? one->state.slot_job : 0,
                        memory_order_relaxed);
}

static struct boost_seen look_after(struct daemon *self, struct boost_board *one, int64_t now_ns,
                                    int64_t period_ns) {
  struct boost_view views[MARU_WAIT_CHANNELS];
  uint8_t actions[MARU_WAIT_CHANNELS];
  if (one->table == NULL && maru_wait_table_of(&one->board, &one->table) < 0)
    return (struct boost_seen){0};
  uint32_t count = atomic_load_explicit(&one->table->used, memory_order_acquire);
  count = count < MARU_WAIT_CHANNELS ? count : MARU_WAIT_CHANNELS;
  /* A raise must end though its line is denied. */
  count = one->used = count > one->used ? count : one->used;
  bool wakes = false;
  end_again(self, one);
  for (uint32_t i = 0; i < count; i++)
    views[i] = view_of(self, one, i, now_ns);
  struct boost_seen seen =
      boost_step(&self->rules, &one->state, views, one->lines, count, now_ns, period_ns, actions);
  publish(self, one, now_ns);
  for (uint32_t i = 0; i < count; i++) {
    wakes |= (actions[i] & BOOST_WAKE) != 0;
    if (actions[i] != 0)
      act(self, one, i, actions[i]);
  }
  if (wakes && !self->dry_run)
    self->totals.wakes += (uint64_t)maru_wait_wake_pending(one->table, NULL);
  return seen;
}

static struct boost_seen tick(struct daemon *self, int64_t now_ns, int64_t period_ns) {
  struct boost_seen all = {0};
  self->totals.ticks++;
  for (unsigned i = 0; i < BOOST_BOARDS; i++) {
    if (self->boards.slots[i] == NULL)
      continue;
    struct boost_seen seen = look_after(self, self->boards.slots[i], now_ns, period_ns);
    all.waiting += seen.waiting;
    all.pending += seen.pending;
    all.stuck += seen.stuck;
  }
  return all;
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

/* Sleeps until that time.  True: asked to end meanwhile. */
static bool sleep_until(int64_t time_ns, const sigset_t *ending) {
  int64_t left = time_ns - maru_now_ns();
  left = left < 0 ? 0 : left;
  struct timespec pause = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
  return sigtimedwait(ending, NULL, &pause) > 0;
}

static int set_priority(int priority) {
  /* Without the right the daemon is an ordinary process, late when the CPU is taken. */
  struct mr_sched own = {.policy = SCHED_FIFO, .on_fork = 1, .priority = (uint32_t)priority};
  return mr_sched_set(0, &own);
}

static int work(struct daemon *self, pid_t guard, const sigset_t *ending) {
  struct rlimit bound = {LOOP_LIMIT_US, 2 * LOOP_LIMIT_US};
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != guard)
    return 0;
  setrlimit(RLIMIT_RTTIME, &bound);
  prctl(PR_SET_TIMERSLACK, 1);
  (void)set_priority(WORKER_PRIORITY);
  bool by_itself = self->period_ns == 0;
  int64_t period = by_itself ? BOOST_LONGEST_NS : self->period_ns;
  int64_t next = maru_now_ns(), find = next;
  unsigned quiet = 0;
  while (next < self->until_ns) {
    int64_t now = maru_now_ns();
    if (self->finds && now >= find) {
      boost_boards_find(&self->boards);
      /* On a machine with many processes less often: 2 % of the time at most. */
      int64_t took = maru_now_ns() - now;
      find = now + (50 * took > FIND_EVERY_NS ? 50 * took : FIND_EVERY_NS);
    }
    struct boost_seen seen = tick(self, now, period);
    /* Relaxed: a counter that the guard looks at. */
    atomic_fetch_add_explicit(&self->shared->beats, 1, memory_order_relaxed);
    if (by_itself)
      period = boost_next_period(period, seen);
    /* A job that computes all the time looks as idle for a tick as one that has gone. */
    quiet = seen.waiting > 0 || self->rules.slots ? 0 : quiet + 1;
    int64_t pause = quiet < QUIET_TICKS || period > IDLE_NS ? period : IDLE_NS;
    next = next + pause > now ? next + pause : now + pause;
    if (sleep_until(next, ending))
      break;
  }
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
    if (signal > 0 && signal != SIGCHLD) {
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

int main(int argc, char **argv) {
  struct daemon self = {.until_ns = INT64_MAX, .rules = {.cap_percent = 90}};
  sigset_t ending, signals;
  enum boost_how means = boost_means();
  self.how = means;
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  self.cpus = cpus < 1 ? 1 : cpus > MARU_WAIT_CPUS ? MARU_WAIT_CPUS : (uint32_t)cpus;
  self.shared = mmap(NULL, sizeof *self.shared, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (self.shared == MAP_FAILED) {
    fprintf(stderr, "maru-boost: no memory\n");
    return 69;
  }
  self.boards.subjects = self.shared->subjects;
  (void)read_policy(&self, "auto");
  int rc = read_options(&self, argc, argv);
  if (rc < 0)
    return rc == -EINVAL ? 64 : 69;
  bool wants_rights = self.rules.raises || self.rules.restores || self.rules.slots;
  if (wants_rights && means == BOOST_BY_NOTHING)
    fprintf(stderr, "maru-boost: no right to raise priorities (root or CAP_SYS_NICE): sleepers are "
                    "woken, nobody is restored or boosted\n");
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGHUP);
  signals = ending;
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
    return work(&self, parent, &ending);
  int status = guard(&self, worker, &signals);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : after_death(&self);
}
