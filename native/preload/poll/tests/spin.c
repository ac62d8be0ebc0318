/* The rule by which a row of empty calls becomes a sleep, on clocks that the test holds. */
#include "spin.h"
#include "check.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

static int64_t now, cpu;
static uint64_t slept;
static int64_t cpu_clock(uint64_t *sleeps) {
  if (sleeps != NULL)
    *sleeps = slept;
  return cpu;
}

static void run(int64_t ns) { /* on a CPU */
  now += ns;
  cpu += ns;
}

/* One question about `fd` that takes 300 ns and finds nothing; what came before it. */
static enum mr_spin_act ask(struct mr_spin *spin, int fd, enum mr_spin_mode mode) {
  enum mr_spin_act act = MR_ACT_NONE;
  if (mr_spin_wants(spin) && mr_spin_before(spin, now, cpu_clock)) {
    (void)mr_spin_fd(spin, fd, POLLIN);
    act = mr_spin_decide(spin, mode, false);
  }
  if (act == MR_ACT_SLEEP) {
    now += spin->slice_ns;
    slept++;
    mr_spin_slept(spin, now, false, cpu_clock);
  }
  run(300);
  mr_spin_empty(spin, now, false, cpu_clock);
  return act;
}

static unsigned sleeps_in(struct mr_spin *spin, unsigned calls, unsigned fds, int64_t between_ns,
                          enum mr_spin_mode mode) {
  unsigned sleeps = 0;
  for (unsigned i = 0; i < calls; i++) {
    run(between_ns);
    sleeps += ask(spin, (int)(i % fds), mode) == MR_ACT_SLEEP;
  }
  return sleeps;
}

static void work_is_left_alone(void) {
  struct mr_spin spin = {0};
  CHECK_EQUAL(sleeps_in(&spin, 10000, 1, MR_SPIN_GAP_NS + 100, MR_SPIN_SLEEP), 0);
  CHECK_EQUAL(spin.cost.waited_ns, 0);
  /* Now and then is enough. */
  for (int i = 0; i < 1000; i++) {
    CHECK_EQUAL(sleeps_in(&spin, MR_SPIN_LEAST - 1, 1, 100, MR_SPIN_SLEEP), 0);
    run(10 * US);
  }
}

static void a_spin_sleeps(void) {
  struct mr_spin spin = {0};
  CHECK_EQUAL(sleeps_in(&spin, MR_SPIN_LEAST, 1, 100, MR_SPIN_SLEEP), 0);
  CHECK_EQUAL(sleeps_in(&spin, 20, 1, 100, MR_SPIN_SLEEP), 20);
  CHECK_EQUAL(spin.slice_ns, MR_SLICE_MOST_NS);
  mr_spin_over(&spin, now, cpu_clock);
  CHECK_EQUAL(spin.cost.spins, 1);
  CHECK_EQUAL(spin.cost.sleeps, 20);
  /* Two thirds of it and more were asleep, and that was not taken for CPU time. */
  CHECK(spin.cost.cpu_ns * 3 < spin.cost.waited_ns);
  CHECK(spin.cost.slept_ns <= spin.cost.waited_ns);
  CHECK_EQUAL(ask(&spin, 0, MR_SPIN_SLEEP), MR_ACT_NONE);
}

/* Whatever the number of descriptors: all are known before the first sleep. */
static void a_turn_is_known_first(void) {
  for (unsigned fds = 1; fds <= MR_SPIN_FDS; fds++) {
    struct mr_spin spin = {0};
    unsigned call = 0;
    run(MS);
    for (; call < 1000; call++) {
      run(100);
      if (ask(&spin, (int)(call % fds), MR_SPIN_SLEEP) == MR_ACT_SLEEP)
        break;
    }
    CHECK(call < 1000);
    CHECK_EQUAL(spin.used, fds);
    CHECK(call >= fds);
  }
  struct mr_spin spin = {0};
  CHECK_EQUAL(sleeps_in(&spin, 10000, MR_SPIN_FDS + 1, 100, MR_SPIN_SLEEP), 0);
}

static void adaptive_sleeps_where_others_need_the_cpu(void) {
  struct mr_spin spin = {0};
  CHECK_EQUAL(sleeps_in(&spin, 100000, 1, 100, MR_SPIN_ADAPT), 0);
  now += 3 * MS; /* taken by somebody else */
  CHECK(sleeps_in(&spin, 100, 1, 100, MR_SPIN_ADAPT) >= 98);
  now += 10 * MR_CONTENDED_MOST_NS;
  mr_spin_over(&spin, now, cpu_clock);
  run(MS);
  CHECK_EQUAL(sleeps_in(&spin, 1000, 1, 100, MR_SPIN_ADAPT), 0);
}

/* Twenty questions, then it sleeps until it is woken: nobody took that time from it. */
static void who_sleeps_itself_is_left_alone(void) {
  struct mr_spin spin = {0};
  for (int i = 0; i < 1000; i++) {
    CHECK_EQUAL(sleeps_in(&spin, MR_SPIN_MARK + 4, 1, 100, MR_SPIN_ADAPT), 0);
    now += 5 * MS;
    slept++;
  }
  CHECK_EQUAL(spin.contended_until_ns, 0);
  CHECK(spin.cost.waited_ns < (uint64_t)MS * 100);
}

/* The probe that finds the same again is made less often. */
static void probes_become_rare(void) {
  struct mr_spin spin = {0};
  unsigned probes = 0;
  int64_t end = now + 12000 * MS;
  while (now < end) {
    if (now >= spin.contended_until_ns) {
      probes++;
      CHECK_EQUAL(sleeps_in(&spin, 20, 1, 100, MR_SPIN_ADAPT), 0);
      now += 3 * MS;
    }
    (void)sleeps_in(&spin, 20, 1, 100, MR_SPIN_ADAPT);
    mr_spin_over(&spin, now, cpu_clock);
  }
  CHECK(probes >= 6 && probes < 12000 / 800);
}

/* sched_yield lets others run: that is not taken from it.  A slow turn is. */
static void giving_way_is_no_loss(void) {
  struct mr_spin spin = {0};
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 1000; i++) {
      enum mr_spin_act act = MR_ACT_NONE;
      if (mr_spin_wants(&spin) && mr_spin_before(&spin, now, cpu_clock))
        act = mr_spin_decide(&spin, MR_SPIN_ADAPT, true);
      if (act == MR_ACT_SLEEP) {
        now += spin.slice_ns;
        mr_spin_slept(&spin, now, false, cpu_clock);
      } else if (mr_spin_wants(&spin) || round == 0)
        spin.begun_ns = now;
      CHECK_EQUAL(act, round == 0 || i == 0 ? MR_ACT_NONE : MR_ACT_SLEEP);
      now += round == 1 && i == 0 ? 4 * MS : 200 * US;
      mr_spin_empty(&spin, now, true, cpu_clock);
      if (now > spin.contended_until_ns - 3 * MS && round == 1 && i > 0)
        return;
      (void)ask(&spin, 3, MR_SPIN_WATCH);
    }
}

/* A descriptor that is ready and is not what the call takes: no sleep that would not be one. */
static void a_broken_promise_ends_the_row(void) {
  struct mr_spin spin = {0};
  (void)sleeps_in(&spin, MR_SPIN_LEAST + 1, 1, 100, MR_SPIN_SLEEP);
  CHECK(mr_spin_before(&spin, now, cpu_clock));
  (void)mr_spin_fd(&spin, 0, POLLIN);
  CHECK_EQUAL(mr_spin_decide(&spin, MR_SPIN_SLEEP, false), MR_ACT_SLEEP);
  mr_spin_slept(&spin, now, true, cpu_clock);
  mr_spin_empty(&spin, now, false, cpu_clock);
  CHECK_EQUAL(spin.empties, 1);
}

/* At random: what is said of time is never more than there was. */
static void ledger_is_sound(void) {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    struct mr_spin spin = {0};
    uint64_t random = seed * 7919;
    int64_t begun = now, cpu_begun = cpu;
    for (int i = 0; i < 2000; i++) {
      enum mr_spin_mode mode = (enum mr_spin_mode)(seed % 4);
      switch (next_random(&random) % 16) {
      case 0:
        now += (int64_t)(next_random(&random) % (5 * MS));
        break;
      case 1:
        run((int64_t)(next_random(&random) % (50 * US)));
        break;
      case 2:
        mr_spin_over(&spin, now, cpu_clock);
        break;
      default:
        for (int j = 0; j < 10; j++)
          (void)ask(&spin, (int)(next_random(&random) % 3), mode);
        run(100);
      }
    }
    mr_spin_over(&spin, now, cpu_clock);
    CHECK(spin.cost.waited_ns <= (uint64_t)(now - begun));
    CHECK(spin.cost.cpu_ns <= (uint64_t)(cpu - cpu_begun));
    CHECK(spin.cost.cpu_ns <= spin.cost.waited_ns);
    CHECK(spin.cost.slept_ns <= spin.cost.waited_ns);
  }
}

int main(void) {
  now = 1000 * MS;
  work_is_left_alone();
  a_spin_sleeps();
  a_turn_is_known_first();
  adaptive_sleeps_where_others_need_the_cpu();
  who_sleeps_itself_is_left_alone();
  probes_become_rare();
  giving_way_is_no_loss();
  a_broken_promise_ends_the_row();
  ledger_is_sound();
  return 0;
}
