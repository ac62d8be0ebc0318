/* calm.c: whether nobody waits for a CPU here. */
#define _GNU_SOURCE
#include "calm.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define CPUS_MOST 8192 /* the most that Linux can have */
#define LOOK_NS INT64_C(10000000)
/* Kept from running for so long in all, less one part in so many of the time: a daemon's turn now
 * and then is less, a hog's every other turn more. */
#define KEPT_NS INT64_C(4000000)
#define KEPT_PART 20
#define HOLD_LEAST_NS INT64_C(20000000)
#define HOLD_MOST_NS INT64_C(1600000000)
#define HOLD_GROWS 4
/* A call that took so long had a hog beside it, or its program waits long: beside that the next few
 * waits by the policy cost next to nothing.  So it does no harm that a tick of a slow coarse clock
 * (10 ms at 100 Hz) looks like a long call, too. */
#define LONG_NS INT64_C(5000000)
#define AFTER_LONG 16
/* So many quick calls in succession, each timed, begin a row after one that ended late, or after a
 * long call: else a quick call before each long one would hide them all. */
#define TIMED_AFTER 16

/* This process; written by mr_calm_join. */
static bool able;
/* Written by each look. */
_Atomic bool mr_crowded;

_Thread_local struct mr_mood mr_mood;

/* Of the tick before: a read of memory, no more. */
static int64_t coarse_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* How long the calling thread was ready and did not run, in all; -1: unknown, or not counted: a
 * thread that runs has had a turn.  Opened for each look: a descriptor that stays is closed by
 * programs that close all. */
static int64_t run_delay_ns(void) {
  char text[96];
  long long ran, delay, turns;
  int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  text[length > 0 ? length : 0] = '\0';
  return sscanf(text, "%lld %lld %lld", &ran, &delay, &turns) == 3 && turns > 0 ? delay : -1;
}

bool mr_more_ranks_than_cpus(void) {
  uint32_t cpus = 0, present = LOAD(mr_self.section->present);
  for (int i = 0; i < MR_MPI_CPU_WORDS; i++)
    cpus += (uint32_t)__builtin_popcountll(LOAD(mr_self.section->cpus[i]));
  return (uint32_t)mr_self.here > cpus || present > cpus;
}

bool mr_calm_join(void) {
  /* The kernel refuses a mask that may not hold all its CPUs: a cpu_set_t has room for 1024. */
  uint64_t own[CPUS_MOST / 64] = {0};
  able = mr_self.kind == MARU_WAIT_ADAPTIVE && run_delay_ns() >= 0 &&
         sched_getaffinity(0, sizeof own, (cpu_set_t *)own) == 0;
  if (!able)
    return false;
  /* Beyond the section's words CPUs share bits: they count as fewer, and ranks wait by the policy
   * rather once too often. */
  for (size_t i = 0; i < CPUS_MOST / 64; i++)
    if (own[i] != 0)
      (void)atomic_fetch_or_explicit(&mr_self.section->cpus[i % MR_MPI_CPU_WORDS], own[i],
                                     memory_order_relaxed);
  STORE(mr_crowded, mr_more_ranks_than_cpus());
  return true;
}

static int64_t at_most(int64_t ns, int64_t most) { return ns < most ? ns : most; }

/* For as long as was looked back; longer each time that it comes soon after the last time. */
static int64_t held_until(struct mr_looks *l, int64_t now_ns, int64_t back_ns) {
  bool again = l->hold_ns > 0 && now_ns < l->held_until_ns + l->hold_ns + back_ns;
  int64_t least = back_ns > HOLD_LEAST_NS ? back_ns : HOLD_LEAST_NS;
  int64_t longer = again ? HOLD_GROWS * l->hold_ns : 0;
  l->hold_ns = at_most(longer > least ? longer : least, HOLD_MOST_NS);
  l->held_until_ns = now_ns + l->hold_ns;
  return l->held_until_ns;
}

int64_t mr_looks_note(struct mr_looks *l, int64_t now_ns, int64_t delay_ns) {
  int64_t back_ns = l->begun ? now_ns - l->last_ns : 0;
  if (delay_ns < 0) {
    l->last_ns = now_ns;
    l->begun = false;
    return now_ns + HOLD_LEAST_NS;
  }
  if (l->begun)
    l->kept_ns += delay_ns - l->delay_ns - back_ns / KEPT_PART;
  if (l->kept_ns < 0)
    l->kept_ns = 0;
  l->begun = true;
  l->last_ns = now_ns;
  l->delay_ns = delay_ns;
  if (l->kept_ns <= KEPT_NS)
    return 0;
  l->kept_ns = 0;
  return held_until(l, now_ns, back_ns);
}

static void look(struct mr_looks *looks, int64_t now_ns) {
  int64_t until_ns = mr_looks_note(looks, now_ns, run_delay_ns());
  if (until_ns > LOAD(mr_self.section->busy_until_ns)) /* two at a time: either will do */
    STORE(mr_self.section->busy_until_ns, until_ns);
  STORE(mr_crowded, mr_more_ranks_than_cpus());
}

static bool calm_at(struct mr_mood *m, int64_t now_ns) {
  if (now_ns - m->looks.last_ns >= LOOK_NS)
    look(&m->looks, now_ns);
  return !LOAD(mr_crowded) && now_ns >= LOAD(mr_self.section->busy_until_ns);
}

bool mr_calm(void) { return able && calm_at(&mr_mood, coarse_ns()); }

bool mr_own_begin_timed(unsigned ends) {
  struct mr_mood *m = &mr_mood;
  m->quick = false;
  if (!able)
    return false;
  int64_t now_ns = coarse_ns();
  if (!calm_at(m, now_ns) || mr_asleep(ends))
    return false;
  if (m->kept_from_own > 0) {
    m->kept_from_own--;
    return false;
  }
  m->begin_ns = now_ns;
  return true;
}

void mr_own_end(void) {
  struct mr_mood *m = &mr_mood;
  if (m->begin_ns == 0)
    return;
  int64_t now_ns = coarse_ns();
  bool late = now_ns - m->begin_ns > LONG_NS;
  if (late && m->quick)
    m->timed = TIMED_AFTER;
  else if (late)
    mr_call_took(now_ns - m->begin_ns);
  else if (m->timed > 0)
    m->timed--;
  /* A look is due, too. */
  m->quick = !late && m->timed == 0 && now_ns - m->looks.last_ns < LOOK_NS;
  m->seen_ns = now_ns;
  m->begin_ns = 0;
}

void mr_call_took(int64_t ns) {
  if (ns <= LONG_NS)
    return;
  mr_mood.quick = false;
  mr_mood.timed = TIMED_AFTER;
  mr_mood.kept_from_own = AFTER_LONG;
}
