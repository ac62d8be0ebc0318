/* spin.h: when a thread spins on calls that do not wait, and what to do about it (internal).
 *
 * A spin is a row of calls that found nothing with less than MR_SPIN_GAP_NS between one and the
 * next. A program that works in between is left alone. Such a call is a poll with a time-out of
 * zero, a read that said EAGAIN, or sched_yield. All descriptors that the row asks about are known
 * once it is long enough and no new one came for a whole turn of it. Then the thread may sleep
 * until one of them is ready, MR_SLICE_MOST_NS at most. The next call of the row is that much late
 * and answers what it would have answered then.
 *
 * Pure: the clocks come from outside.  One struct a thread; no allocation, no errno.
 */
#ifndef MARU_PRELOAD_POLL_SPIN_H
#define MARU_PRELOAD_POLL_SPIN_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define MR_SPIN_GAP_NS 2000     /* more between two calls is work */
#define MR_SPIN_MARK 16u        /* calls of a row before any system call is spent on it */
#define MR_SPIN_LEAST 32u       /* calls before anything is done */
#define MR_SPIN_FDS 64u         /* a row on more descriptors is left alone */
#define MR_SLICE_LEAST_NS 50000 /* of a sleep; doubles while nothing comes */
#define MR_SLICE_MOST_NS 1000000
#define MR_ASIDE_NS 100000              /* so much taken from a spinner: others need the CPU */
#define MR_SLOW_TURN_NS 2000000         /* a sched_yield that costs somebody's time slice */
#define MR_SETTLE_NS INT64_C(100000000) /* a long row is accounted for so often */
#define MR_CONTENDED_LEAST_NS INT64_C(100000000)
#define MR_CONTENDED_MOST_NS INT64_C(1600000000)

enum mr_spin_mode {
  MR_SPIN_WATCH = 0, /* count only */
  MR_SPIN_YIELD,     /* give way */
  MR_SPIN_SLEEP,     /* sleep; without descriptors only where others need the CPU */
  MR_SPIN_ADAPT,     /* sleep where others need the CPU */
};

enum mr_spin_act { MR_ACT_NONE = 0, MR_ACT_YIELD, MR_ACT_SLEEP };

/* What rows have cost, since somebody took it. */
struct mr_spin_cost {
  uint64_t spins, waited_ns, cpu_ns, sleeps, slept_ns, yields;
};

/* All zero: no row yet. */
struct mr_spin {
  uint32_t empties; /* calls of the row */
  uint32_t known;   /* of them since the last new descriptor */
  int64_t begun_ns; /* of the present call */
  int64_t end_ns;   /* of the last one */
  int64_t slice_ns; /* of the next sleep */
  bool watched;     /* long enough to be worth system calls */
  bool gives_way;   /* the row holds a sched_yield */
  bool alert;       /* giving way took a time slice lately: rows are watched from their start */
  bool promised;    /* a descriptor was ready when it slept before the present call */
  /* Both clocks, when its watch began (or it was last accounted for). And when it was last known
   * that the thread had lost no time to others. */
  int64_t first_ns, first_cpu_ns, mark_ns, mark_cpu_ns;
  uint64_t mark_sleeps;
  int64_t contended_until_ns, hold_ns;
  struct mr_spin_cost cost;
  bool overflow;
  uint32_t used, hint; /* `hint`: where the next call's descriptors lie in the same order */
  struct pollfd fds[MR_SPIN_FDS];
};

/* The thread's CPU time and, unless NULL, how often it slept; asked for rarely. */
typedef int64_t mr_cpu_clock(uint64_t *sleeps);

/* A call that would not wait is about to be made at `now_ns`.  Needed only if
 * mr_spin_wants.  Whether the row is worth telling its descriptors. */
static inline bool mr_spin_wants(const struct mr_spin *spin) {
  return spin->empties > 0 || spin->alert;
}
bool mr_spin_before(struct mr_spin *spin, int64_t now_ns, mr_cpu_clock *cpu);
/* The call asks about this one.  After mr_spin_before returned true.  Whether it is new. */
bool mr_spin_fd(struct mr_spin *spin, int fd, short events);
/* What to do before the call is made (`yield`: it is sched_yield), all of its descriptors told.
 * MR_ACT_SLEEP: until one of spin->fds (`used` of them) is ready, for spin->slice_ns at most. */
enum mr_spin_act mr_spin_decide(const struct mr_spin *spin, enum mr_spin_mode mode, bool yield);
/* It slept, or gave way, until `now_ns`; `ready`: a descriptor was. */
void mr_spin_slept(struct mr_spin *spin, int64_t now_ns, bool ready, mr_cpu_clock *cpu);
void mr_spin_yielded(struct mr_spin *spin, int64_t now_ns, mr_cpu_clock *cpu);

/* The call found nothing; `yield`: it was sched_yield, which lets others run. */
void mr_spin_empty(struct mr_spin *spin, int64_t now_ns, bool yield, mr_cpu_clock *cpu);
/* Something came, or the thread does something else: the row is over. */
void mr_spin_over(struct mr_spin *spin, int64_t now_ns, mr_cpu_clock *cpu);

#endif
