/* worker.c: the ticks. */
#define _GNU_SOURCE
#include "daemon.h"
#include "json.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define WORKER_PRIORITY 90
#define LOOP_LIMIT_US 5000000      /* a worker that never sleeps is ended by the kernel */
#define CHECK_NS INT64_C(40000000) /* between looks at those without a message */
#define REST 9                     /* a tick is followed by a pause of so many times its own time */
#define QUIET_TICKS 50
#define IDLE_NS INT64_C(50000000) /* half of what makes a heartbeat stale */

static bool is_quiet(const struct daemon *self) { return self->quiet_ticks >= QUIET_TICKS; }

/* The rescuer looks less often meanwhile. */
static void note_rest(const struct daemon *self, bool rests) {
  static const uint64_t one = 1;
  if (rests == (LOAD(self->shared->rests) != 0))
    return;
  /* Relaxed: the write below comes after it and orders. */
  atomic_store_explicit(&self->shared->rests, rests, memory_order_relaxed);
  if (!rests)
    (void)!write(self->stirs, &one, sizeof one);
}

static struct boost_seen tick(struct daemon *self, int64_t now_ns, int64_t period_ns) {
  self->totals.ticks++;
  self->count = 0;
  self->quietly_waiting = 0;
  self->seats = 0;
  self->turn++;
  /* A line's thread is asked about by the time it waits. */
  self->checks = now_ns >= self->check_ns && !is_quiet(self);
  if (self->checks)
    self->check_ns = now_ns + CHECK_NS;
  boost_end_again(self);
  for (unsigned k = 0; k < BOOST_BOARDS; k++) {
    struct boost_board *one = self->boards.slots[(self->turn + k) % BOOST_BOARDS];
    if (one != NULL)
      boost_look_at(self, one, now_ns);
  }
  struct boost_seen seen = boost_step(&self->rules, &self->state, self->views, self->count, now_ns,
                                      period_ns, self->actions);
  if (seen.pending > 0) /* said before anybody is raised: we may hang while we do it */
    note_rest(self, false);
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (self->boards.slots[i] != NULL)
      boost_act_on(self, self->boards.slots[i], now_ns);
  seen.waiting += self->quietly_waiting;
  return seen;
}

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
  const struct {
    const char *name, *words;
    uint64_t count;
  } figures[] = {{"ticks", "ticks", t->ticks},
                 {"wakes", "woken", t->wakes},
                 {"restores", "restored", t->restores},
                 {"raises", "raised", t->raises},
                 {"ends", "ended", t->ends},
                 {"refused", "threads refused", t->refused},
                 {"failed", "actions failed", t->failed}};
  struct mr_json json = {.out = stdout};
  if (self->json) {
    mr_json_object(&json, NULL);
    mr_json_text(&json, "schema", "maru-boost/1");
  }
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    if (self->json)
      mr_json_whole(&json, figures[i].name, figures[i].count);
    else
      printf("%llu %s, ", (unsigned long long)figures[i].count, figures[i].words);
  if (self->json) {
    mr_json_real(&json, "cpu_s", cpu, 6);
    mr_json_end_object(&json);
    putchar('\n');
  } else
    printf("%.3f s of CPU\n", cpu);
}

/* The status that comes of it. A pipe that nobody reads any more needs no line. */
static int say_report(void) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return 0;
  if (errno == EPIPE)
    return 128 + SIGPIPE;
  fprintf(stderr, "maru-boost: cannot write to standard output: %s\n", strerror(errno));
  return 69;
}

/* Asked to end. */
static volatile sig_atomic_t ending;

static void note_end(int signal) {
  (void)signal;
  ending = 1;
}

/* Relaxed: a counter that the rescuer looks at. */
static void beat(const struct daemon *self) {
  atomic_fetch_add_explicit(&self->shared->beats, 1, memory_order_relaxed);
}

static void nap_until(int64_t time_ns) {
  struct timespec time = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};
  (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

/* To those that wait, too: else they would take the daemon for dead. */
static void show_life(const struct daemon *self) {
  int64_t now_ns = maru_now_ns();
  beat(self);
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (self->boards.slots[i] != NULL && self->boards.slots[i]->table != NULL && !self->dry_run)
      /* Relaxed: as each tick's. */
      atomic_store_explicit(&self->boards.slots[i]->table->heartbeat_ns, now_ns,
                            memory_order_relaxed);
}

/* A tick that has cost much is followed by a pause that others would take for a worker's end: so it
 * shows life meanwhile. A request to end that comes just before a nap is seen after it. */
static void sleep_until(const struct daemon *self, int64_t time_ns) {
  for (int64_t now = maru_now_ns(); now < time_ns && !ending; now = maru_now_ns()) {
    nap_until(now + IDLE_NS < time_ns ? now + IDLE_NS : time_ns);
    show_life(self);
  }
}

int boost_stand(int priority) {
  struct mr_sched own = {.policy = SCHED_FIFO, .on_fork = 1, .priority = (uint32_t)priority};
  return mr_sched_set(0, &own);
}

void boost_step_down(void) {
  static const struct mr_sched ordinary = {.policy = SCHED_OTHER};
  (void)mr_sched_set(0, &ordinary);
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

/* How long to sleep after that tick.  A job that computes all the time looks as idle for a
 * tick as one that has gone. */
static int64_t pause_after(struct daemon *self, struct boost_seen seen, int64_t period_ns,
                           int64_t now_ns) {
  bool regular = self->rules.slots || self->rules.at_once;
  self->quiet_ticks = seen.waiting > 0 || self->rules.slots ? 0 : self->quiet_ticks + 1;
  if (seen.pending > 0 || self->held_count > 0)
    self->began_ns = now_ns;
  if (is_quiet(self) && period_ns < IDLE_NS)
    return IDLE_NS;
  return regular ? period_ns : boost_pause(period_ns, now_ns - self->began_ns);
}

static void run(struct daemon *self) {
  bool by_itself = self->period_ns == 0;
  int64_t period = by_itself ? BOOST_LONGEST_NS : self->period_ns;
  int64_t next = maru_now_ns(), find = next, used = own_time();
  self->began_ns = next;
  while (next < self->until_ns && !ending) {
    int64_t now = maru_now_ns();
    boost_begin_list(self, now, &find);
    struct boost_seen seen = tick(self, now, period);
    boost_hand_list(self);
    beat(self);
    if (by_itself)
      period = boost_next_period(period, seen);
    int64_t pause = pause_after(self, seen, period, now);
    note_rest(self, is_quiet(self) && self->held_count == 0);
    /* CPU time, for a tick that was held up by others has cost nothing. */
    int64_t before = used;
    used = own_time();
    int64_t rest = maru_now_ns() + REST * (used - before);
    next = next + pause > now ? next + pause : now + pause;
    next = next > rest ? next : rest;
    sleep_until(self, next);
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

int boost_work(struct daemon *self, pid_t rescuer, const sigset_t *requests) {
  struct rlimit bound = {LOOP_LIMIT_US, 2 * LOOP_LIMIT_US};
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  signal(SIGPIPE, SIG_IGN); /* every thread goes back first */
  if (getppid() != rescuer)
    return 0;
  size_t most = (size_t)BOOST_BOARDS * MARU_WAIT_CHANNELS;
  self->views = calloc(most, sizeof *self->views);
  self->actions = calloc(most, sizeof *self->actions);
  self->clerk = calloc(1, sizeof *self->clerk);
  raise_limit();
  if (self->clerk != NULL && self->finds) /* a run that is named is served */
    self->clerk->served = self->served;
  if (self->views == NULL || self->actions == NULL || self->clerk == NULL ||
      boost_clerk_start(self->clerk) < 0) {
    fprintf(stderr, "maru-boost: no memory, or no thread\n");
    return 70;
  }
  setrlimit(RLIMIT_RTTIME, &bound);
  prctl(PR_SET_TIMERSLACK, 1);
  (void)boost_stand(WORKER_PRIORITY);
  take_requests(requests);
  run(self);
  unsigned left = 0;
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (self->boards.slots[i] != NULL)
      left += leave_one(self, self->boards.slots[i]);
  report(self);
  int status = say_report();
  if (left > 0)
    status = 70;
  /* Release: every thread is back in its place. */
  atomic_store_explicit(&self->shared->outcome, 1 + (uint32_t)status, memory_order_release);
  return status;
}
