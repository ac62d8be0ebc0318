/* bells.c: bells between the ranks of one host, and the wait.
 *
 * Why no ring is lost.  A rank that is to sleep first counts itself in `needs`, then (a full
 * fence) asks the MPI, then sleeps unless its bell was rung since before it asked.
 * A rank that sends first sends, then (a full fence) looks at `needs`.  So the sender sees
 * a sleeper, or the sleeper's question finds the message.  Nobody rings a rank that gives way: it
 * asks anyway, and rings among 64 ranks took more time than all they waited for.  What an MPI does
 * inside of a question (answers to large messages, steps of a collective operation)
 * nobody knows; a rank that was rung, or gives way while others sleep, passes the ring on, a
 * bounded number of times, and no sleep is longer than SLICE_MOST_NS.
 *
 * Why a waiter first gives way.  Among ranks that all give way a turn costs less
 * than a sleep and its wake-up.  Beside a program that does not, a turn costs a time
 * slice, a hundred times as much, and a sleeper is due when it wakes.  So after one slow
 * turn all ranks sleep at once on that CPU, for TRY_EVERY times what the turn took: finding
 * out whether the other one has gone costs one part in so many.  A sleeper loses
 * next to nothing where turns were long because ranks compute for long.  It sleeps as DCS does:
 * without short time slices of its own it would not be due before the other's slice is over.
 */
#define _GNU_SOURCE
#include "calm.h"
#include "self.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SLICE_LEAST_NS 50000
#define SLICE_KNOWN_NS 500000 /* the rank that ends the wait will ring */
#define SLICE_MOST_NS 1000000
#define GIVE_WAY_NS 2000000    /* in all; a turn that takes longer is slow */
#define SLOW_MOST_NS 100000000 /* a turn that took longer was a stop: by no hog */
#define ROW_NS 1000000000      /* slow turns further apart are no row */
#define TRY_EVERY 100
#define PASSES 16 /* of rings in one wait */

/* A bell for a process without a board: nobody rings it. */
static _Atomic uint32_t mute;

/* ---- ringing ------------------------------------------------------------- */

void mr_ring(struct mr_rank *line, enum mr_need need) {
  if (line == NULL || line == mr_self.line)
    return;
  /* Sequentially consistent, as in mr_wait: what we did comes before the look. */
  atomic_thread_fence(memory_order_seq_cst);
  if (LOAD(line->needs[need]) != 0)
    maru_notify(&line->bell);
}

void mr_ring_all(enum mr_need need) {
  if (mr_self.line == NULL || mr_self.job == NULL)
    return;
  atomic_thread_fence(memory_order_seq_cst); /* as in mr_ring */
  if (LOAD(mr_self.job->needs[need]) == 0)
    return;
  uint32_t used = atomic_load_explicit(&mr_self.section->used, memory_order_acquire);
  for (uint32_t i = 0; i < used && i < MR_MPI_RANKS; i++)
    if (LOAD(mr_self.section->ranks[i].job) == mr_self.job_number + 1)
      mr_ring(&mr_self.section->ranks[i], need);
}

bool mr_to_wake(unsigned needs) {
  atomic_thread_fence(memory_order_seq_cst); /* as in mr_ring */
  return mr_asleep(needs);
}

void mr_enter(uint32_t comm, uint32_t count) {
  if (mr_self.line != NULL)
    STORE(mr_self.line->entered[comm % MR_MPI_COMMS], (uint64_t)comm << 32 | count);
}

bool mr_entered(const struct mr_rank *line, uint32_t comm, uint32_t count) {
  uint64_t entered = LOAD(line->entered[comm % MR_MPI_COMMS]);
  return entered >> 32 == comm && (int32_t)((uint32_t)entered - count) >= 0;
}

/* ---- waiting ------------------------------------------------------------- */

/* One thread's. */
struct manner {
  bool made;
  int slow;        /* slow turns in a row, with others about */
  int64_t slow_ns; /* the last of them */
  struct maru_wait_policy awake, asleep;
};
static _Thread_local struct manner manner;

static struct manner *own_manner(void) {
  if (!manner.made) {
    bool adaptive = mr_self.kind == MARU_WAIT_ADAPTIVE;
    (void)maru_wait_policy_init(&manner.awake, MARU_WAIT_YIELD);
    (void)maru_wait_policy_init(&manner.asleep, adaptive ? MARU_WAIT_DCS : mr_self.kind);
    manner.awake.spin_ns = 0; /* the question itself takes longer */
    if (mr_self.spin_ns >= 0)
      manner.asleep.spin_ns = (uint32_t)mr_self.spin_ns;
    manner.made = true;
  }
  return &manner;
}

/* Of the CPU that we are on, for all ranks of the run; without a board our own.  Relaxed
 * throughout: nothing hangs on it but time. */
static _Atomic int64_t *crowded_until(void) {
  static _Atomic int64_t own;
  return mr_self.line == NULL
             ? &own
             : &mr_self.section->crowded_until_ns[(unsigned)sched_getcpu() % MR_MPI_CPUS];
}

static bool gives_way(int64_t now_ns) {
  return mr_self.kind == MARU_WAIT_ADAPTIVE && now_ns >= LOAD(*crowded_until());
}

static int64_t cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void count_needs(unsigned needs, uint32_t step) {
  for (int need = 0; need < MR_NEEDS; need++)
    if (needs & 1u << need) {
      ADD(mr_self.line->needs[need], step);
      if (mr_self.job != NULL)
        ADD(mr_self.job->needs[need], step);
    }
  /* Before the question, as mr_ring's before its look. */
  atomic_thread_fence(memory_order_seq_cst);
}

static void count_asleep(uint32_t step) {
  ADD(mr_self.line->asleep, step);
  ADD(mr_self.section->asleep, step);
}

static uint32_t heard(_Atomic uint32_t *bell) {
  /* Acquire: what was done before the ring is seen by the question. */
  return atomic_load_explicit(bell, memory_order_acquire) & VALUE_MASK;
}

/* Policies that stay awake look at nothing but the bell: a turn at a time. */
static int64_t slice_of(const struct manner *own, int64_t slice) {
  uint32_t kind = own->asleep.runs;
  return kind == MARU_WAIT_SPIN || kind == MARU_WAIT_YIELD ? 0 : slice;
}

/* How many threads of this host run or wait for a CPU; -1: unknown. */
static int threads_ready(void) {
  char text[64];
  int ready, fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  text[length > 0 ? length : 0] = '\0';
  return sscanf(text, "%*s %*s %*s %d/", &ready) == 1 ? ready : -1;
}

/* Whether others than ranks that are awake want CPUs now: then a slow turn went to them. */
static bool others_ready(void) {
  if (mr_self.line == NULL)
    return true;
  int ready = threads_ready();
  int awake = (int)(LOAD(mr_self.section->present) - LOAD(mr_self.section->asleep));
  return ready < 0 || ready > awake;
}

/* A turn that took long.  Where ranks outnumber CPUs, turns among them do, and others are ready now
 * and then: only two in a row are a hog's.  Else one is: each costs all ranks a time slice. */
static void note_slow(struct manner *own, int64_t now, int64_t took) {
  if (took >= SLOW_MOST_NS)
    return;
  if (now - own->slow_ns > ROW_NS)
    own->slow = 0;
  own->slow_ns = now;
  own->slow = others_ready() ? own->slow + 1 : 0;
  if (own->slow == 0 || (own->slow == 1 && mr_self.line != NULL && mr_more_ranks_than_cpus()))
    return;
  own->slow = 0;
  STORE(*crowded_until(), now + TRY_EVERY * took);
}

/* One turn.  False: they have taken too long in all. */
static bool give_way(struct manner *own, _Atomic uint32_t *bell, uint32_t seen, int64_t end_ns) {
  int64_t before = maru_now_ns();
  (void)maru_wait_while(bell, seen, VALUE_MASK, &own->awake, 0);
  int64_t now = maru_now_ns(), took = now - before;
  if (took > GIVE_WAY_NS)
    note_slow(own, now, took);
  return now < end_ns && gives_way(now);
}

static void wait_on(struct mr_waiting *w, _Atomic uint32_t *bell) {
  struct manner *own = own_manner();
  bool counted = mr_self.line == NULL; /* without a board there is nothing to count in */
  uint32_t last = heard(bell);
  int64_t now_ns = maru_now_ns(), end_ns = now_ns + GIVE_WAY_NS;
  bool awake = gives_way(now_ns);
  int64_t slice = w->known ? SLICE_KNOWN_NS : SLICE_LEAST_NS;
  for (int passes = 0;;) {
    uint32_t seen = heard(bell);
    if (w->done(w))
      break;
    if (passes < PASSES && (seen != last || (awake && mr_asleep(w->needs)))) {
      passes++;
      last = seen;
      slice = SLICE_LEAST_NS;
      if (w->pass_on != NULL)
        w->pass_on(w);
    }
    if (awake) {
      awake = give_way(own, bell, seen, end_ns);
      continue;
    }
    if (!counted) {
      count_needs(w->needs, 1);
      counted = true;
      continue; /* hear and ask once more before the first sleep */
    }
    int64_t most = slice_of(own, slice);
    bool sleeps = mr_self.line != NULL && most > 0;
    if (sleeps) {
      ADD(mr_self.line->cost.sleeps, 1);
      count_asleep(1);
    }
    (void)maru_wait_while(bell, seen, VALUE_MASK, &own->asleep, maru_now_ns() + most);
    if (sleeps)
      count_asleep((uint32_t)-1);
    slice = 2 * slice < SLICE_MOST_NS ? 2 * slice : SLICE_MOST_NS;
  }
  if (counted && mr_self.line != NULL)
    count_needs(w->needs, (uint32_t)-1);
}

void mr_wait(struct mr_waiting *w) {
  if (w->done(w))
    return;
  if (mr_self.line == NULL) {
    wait_on(w, &mute);
    return;
  }
  int64_t begin = maru_now_ns(), cpu = cpu_ns();
  wait_on(w, &mr_self.line->bell);
  struct mr_cost *cost = &mr_self.line->cost;
  ADD(cost->waits, 1);
  ADD(cost->cpu_ns, (uint64_t)(cpu_ns() - cpu));
  int64_t took = maru_now_ns() - begin;
  ADD(cost->waited_ns, (uint64_t)took);
  mr_call_took(took);
  mr_age();
}
