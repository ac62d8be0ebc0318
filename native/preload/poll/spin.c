/* spin.c: see spin.h. */
#include "spin.h"

#include <stddef.h>

static void mark(struct mr_spin *spin, int64_t now_ns, mr_cpu_clock *cpu) {
  spin->mark_ns = now_ns;
  spin->mark_cpu_ns = cpu(&spin->mark_sleeps);
}

/* Others needed the CPU. A thread that finds so again soon after it had believed that it was
 * over believes it for longer: each probe costs a time slice. */
static void contended(struct mr_spin *spin, int64_t now_ns) {
  if (now_ns < spin->contended_until_ns)
    return;
  bool again = spin->contended_until_ns != 0 &&
               now_ns - spin->contended_until_ns < 2 * MR_CONTENDED_LEAST_NS;
  spin->hold_ns = !again                                     ? MR_CONTENDED_LEAST_NS
                  : 2 * spin->hold_ns < MR_CONTENDED_MOST_NS ? 2 * spin->hold_ns
                                                             : MR_CONTENDED_MOST_NS;
  spin->contended_until_ns = now_ns + spin->hold_ns;
}

/* How long the thread did not run since the last mark, and whether it slept meanwhile. */
static int64_t away_since_mark(struct mr_spin *spin, int64_t now_ns, mr_cpu_clock *cpu,
                               bool *slept) {
  int64_t began_ns = spin->mark_ns, cpu_ns = spin->mark_cpu_ns;
  uint64_t sleeps = spin->mark_sleeps;
  mark(spin, now_ns, cpu);
  int64_t away = (now_ns - began_ns) - (spin->mark_cpu_ns - cpu_ns);
  *slept = spin->mark_sleeps != sleeps;
  /* A row that gives way itself loses time to those whom it lets run. */
  if (away >= MR_ASIDE_NS && !*slept && !spin->gives_way)
    contended(spin, now_ns);
  return away;
}

/* Adds what the row has cost since it was added last. */
static void settle(struct mr_spin *spin, int64_t now_ns, int64_t cpu_ns) {
  int64_t waited = now_ns - spin->first_ns, used = cpu_ns - spin->first_cpu_ns;
  /* The clocks are not read at one instant. */
  waited = waited > 0 ? waited : 0;
  used = used > 0 ? used : 0;
  spin->cost.waited_ns += (uint64_t)waited;
  spin->cost.cpu_ns += (uint64_t)(used < waited ? used : waited);
  spin->first_ns = now_ns;
  spin->first_cpu_ns = cpu_ns;
}

static void end_row(struct mr_spin *spin, int64_t now_ns, int64_t cpu_ns) {
  settle(spin, now_ns, cpu_ns);
  spin->cost.spins += spin->empties > 0;
  spin->empties = 0;
  spin->watched = false;
}

/* Whether the row goes on after so long a pause: yes, if somebody else worked meanwhile, and
 * not while this thread slept. */
static bool survives(struct mr_spin *spin, int64_t now_ns, int64_t gap_ns, mr_cpu_clock *cpu) {
  if (!spin->watched) {
    spin->empties = 0;
    return false;
  }
  bool slept;
  int64_t away = away_since_mark(spin, now_ns, cpu, &slept);
  int64_t worked = gap_ns - (away < gap_ns ? away : gap_ns);
  if (worked <= MR_SPIN_GAP_NS && !slept)
    return true;
  end_row(spin, spin->end_ns, spin->mark_cpu_ns - worked);
  return false;
}

static void watch(struct mr_spin *spin, int64_t now_ns, mr_cpu_clock *cpu) {
  spin->watched = true;
  mark(spin, now_ns, cpu);
  spin->first_ns = now_ns;
  spin->first_cpu_ns = spin->mark_cpu_ns;
  spin->used = spin->hint = spin->known = 0;
  spin->overflow = false;
  spin->slice_ns = MR_SLICE_LEAST_NS;
}

bool mr_spin_before(struct mr_spin *spin, int64_t now_ns, mr_cpu_clock *cpu) {
  int64_t gap = now_ns - spin->end_ns;
  spin->begun_ns = now_ns;
  spin->promised = false;
  spin->alert = spin->alert && now_ns < spin->contended_until_ns;
  if (spin->empties > 0 && gap > MR_SPIN_GAP_NS && !survives(spin, now_ns, gap, cpu) &&
      !spin->alert)
    return false;
  if (!spin->watched) {
    if (spin->empties < MR_SPIN_MARK && !spin->alert)
      return false;
    watch(spin, now_ns, cpu);
  } else if (now_ns - spin->first_ns > MR_SETTLE_NS)
    settle(spin, now_ns, cpu(NULL));
  spin->known++;
  return true;
}

bool mr_spin_fd(struct mr_spin *spin, int fd, short events) {
  for (uint32_t i = 0; i < spin->used; i++) {
    uint32_t at = spin->hint + i < spin->used ? spin->hint + i : spin->hint + i - spin->used;
    struct pollfd *known = &spin->fds[at];
    if (known->fd == fd && (known->events & events) == events) {
      spin->hint = at + 1 < spin->used ? at + 1 : 0;
      return false;
    }
  }
  spin->known = 0;
  if (spin->used == MR_SPIN_FDS) {
    spin->overflow = true;
    return false;
  }
  spin->fds[spin->used++] = (struct pollfd){.fd = fd, .events = events};
  spin->hint = 0;
  return true;
}

enum mr_spin_act mr_spin_decide(const struct mr_spin *spin, enum mr_spin_mode mode, bool yield) {
  bool needed = spin->begun_ns < spin->contended_until_ns;
  if (spin->overflow)
    return MR_ACT_NONE;
  /* To give way would take a time slice again; a thread that sleeps is due when it wakes. */
  if (yield && spin->alert && mode >= MR_SPIN_SLEEP)
    return MR_ACT_SLEEP;
  /* A turn of the row is at most a call a descriptor. */
  if (spin->empties < MR_SPIN_LEAST || spin->known <= spin->used)
    return MR_ACT_NONE;
  switch (mode) {
  case MR_SPIN_YIELD:
    return spin->used > 0 ? MR_ACT_YIELD : MR_ACT_NONE;
  case MR_SPIN_SLEEP:
    /* Without a descriptor nobody would wake it: only where giving way costs as much. */
    return spin->used > 0 || needed ? MR_ACT_SLEEP : MR_ACT_NONE;
  case MR_SPIN_ADAPT:
    return needed ? MR_ACT_SLEEP : MR_ACT_NONE;
  default:
    return MR_ACT_NONE;
  }
}

void mr_spin_slept(struct mr_spin *spin, int64_t now_ns, bool ready, mr_cpu_clock *cpu) {
  spin->cost.sleeps++;
  spin->cost.slept_ns += (uint64_t)(now_ns - spin->begun_ns);
  spin->promised = ready;
  spin->slice_ns = 2 * spin->slice_ns < MR_SLICE_MOST_NS ? 2 * spin->slice_ns : MR_SLICE_MOST_NS;
  spin->begun_ns = now_ns;
  mark(spin, now_ns, cpu);
}

void mr_spin_yielded(struct mr_spin *spin, int64_t now_ns, mr_cpu_clock *cpu) {
  spin->cost.yields++;
  spin->begun_ns = now_ns;
  mark(spin, now_ns, cpu);
}

void mr_spin_empty(struct mr_spin *spin, int64_t now_ns, bool yield, mr_cpu_clock *cpu) {
  if (spin->promised) {
    /* What is ready is not what this program takes: to sleep on it would be to spin. */
    mr_spin_over(spin, now_ns, cpu);
  }
  int64_t took_ns = now_ns - spin->begun_ns;
  if (yield && took_ns > MR_SLOW_TURN_NS) {
    contended(spin, now_ns);
    spin->alert = true;
  }
  if (spin->watched && took_ns > MR_ASIDE_NS) {
    bool slept;
    if (yield)
      mark(spin, now_ns, cpu);
    else
      (void)away_since_mark(spin, now_ns, cpu, &slept);
  }
  spin->gives_way = yield || (spin->gives_way && spin->empties > 0);
  if (spin->empties < UINT32_MAX)
    spin->empties++;
  spin->end_ns = now_ns;
}

void mr_spin_over(struct mr_spin *spin, int64_t now_ns, mr_cpu_clock *cpu) {
  if (spin->watched)
    end_row(spin, now_ns, cpu(NULL));
  spin->empties = 0;
}
