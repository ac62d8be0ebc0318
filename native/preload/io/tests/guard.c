/* guard.c: the guard against plants whose costs are known. */
#include "../guard.h"
#include "check.h"

#define CALLS 100000
#define SECOND UINT64_C(1000000000)

struct plant {
  double off, on; /* ns per byte */
  double noise;   /* each call costs up to so many times more */
};

/* A program that does nothing but such calls, one after another. */
struct program {
  struct io_guard guard;
  uint64_t now, rests_until; /* ns */
};

/* What the call costs that is made as the guard says; the pause that it begins, if any. */
static uint64_t call(struct program *program, uint64_t bytes, double ns_per_byte) {
  uint64_t ns = (uint64_t)((double)bytes * ns_per_byte);
  program->now += ns;
  if (program->now < program->rests_until)
    return 0;
  uint64_t pause = io_guard_add(&program->guard, bytes, ns);
  if (pause > 0)
    program->rests_until = program->now + pause;
  return pause;
}

static bool is_on(const struct program *program) {
  return program->now >= program->rests_until && io_guard_on(&program->guard);
}

/* How many calls were on. */
static unsigned play(struct program *program, const struct plant *plant, unsigned calls,
                     uint64_t *seed) {
  unsigned on = 0;
  for (unsigned i = 0; i < calls; i++) {
    bool now = is_on(program);
    uint64_t bytes = 16384 << next_random(seed) % 3;
    double noise = 1 + plant->noise * (double)(next_random(seed) % 1000) / 1000;
    call(program, bytes, noise * (now ? plant->on : plant->off));
    on += now;
  }
  return on;
}

static struct program fresh(uint32_t slice_calls) {
  struct program program = {.now = 1};
  io_guard_begin(&program.guard, slice_calls);
  return program;
}

static void gains_stay_on(uint64_t *seed) {
  for (int i = 0; i < 200; i++) {
    struct program program = fresh(1 + next_random(seed) % 64);
    struct plant plant = {1, 0.3 + 0.01 * (double)(next_random(seed) % 60), 0.02};
    CHECK(play(&program, &plant, CALLS, seed) > CALLS * 9 / 10);
  }
}

static void losses_stay_off(uint64_t *seed) {
  for (int i = 0; i < 200; i++) {
    uint32_t slice = 1 + (uint32_t)(next_random(seed) % 16);
    struct program program = fresh(slice);
    struct plant plant = {1, 1 + 0.01 * (double)(next_random(seed) % 300), 0.02};
    unsigned on = play(&program, &plant, CALLS, seed);
    CHECK(on < CALLS / 50 + 10 * slice);
    /* The pauses double: the same again costs less. */
    CHECK(play(&program, &plant, CALLS, seed) <= on);
  }
}

/* Less than the gain that is asked for is no gain. */
static void little_gains_stay_off(uint64_t *seed) {
  struct program program = fresh(8);
  struct plant plant = {1, 0.97, 0};
  CHECK(play(&program, &plant, CALLS, seed) < CALLS / 50);
}

static void a_change_is_noticed(uint64_t *seed) {
  struct program program = fresh(8);
  struct plant good = {1, 0.5, 0.02}, bad = {1, 2, 0.02};
  CHECK(play(&program, &good, CALLS, seed) > CALLS * 9 / 10);
  CHECK(play(&program, &bad, CALLS, seed) < CALLS / 10);
  /* Back-off delays, but does not forbid: it doubles from PAUSE. */
  CHECK(play(&program, &good, 8 * CALLS, seed) > 4 * CALLS);
}

static void noise_does_no_harm(uint64_t *seed) {
  for (int i = 0; i < 200; i++) {
    struct program program = fresh(16);
    struct plant equal = {1, 1, 4};
    /* It may be fooled, but equal costs are no harm; a factor is what it must see. */
    play(&program, &equal, CALLS, seed);
    struct plant bad = {1, 3, 1};
    CHECK(play(&program, &bad, CALLS, seed) < CALLS / 4);
  }
}

/* Their lengths are times, however often the program calls. */
static void pauses_double(void) {
  for (uint64_t bytes = 1000; bytes <= 1000000; bytes *= 1000) {
    struct program program = fresh(1);
    uint64_t due = IO_GUARD_PAUSE_LEAST_NS;
    for (int trial = 0; trial < 12; trial++) {
      uint64_t pause = 0;
      for (unsigned calls = 0; pause == 0; calls++) {
        CHECK(calls < 4 * IO_GUARD_PROBE);
        pause = call(&program, bytes, is_on(&program) ? 2 : 1);
      }
      CHECK_EQUAL(pause, due);
      uint64_t lost = program.now;
      while (program.now < program.rests_until)
        CHECK(!is_on(&program) && call(&program, bytes * 1000, 1) == 0);
      CHECK(program.now - lost >= due);
      due = 2 * due < IO_GUARD_PAUSE_MOST_NS ? 2 * due : IO_GUARD_PAUSE_MOST_NS;
    }
  }
}

/* What is won begins them anew. */
static void a_gain_ends_the_doubling(uint64_t *seed) {
  struct program program = fresh(8);
  struct plant good = {1, 0.5, 0.02}, bad = {1, 2, 0.02};
  while (program.guard.pause_ns < 16 * SECOND)
    play(&program, &bad, 1000, seed);
  while (!is_on(&program) || program.guard.trying)
    play(&program, &good, 1000, seed);
  CHECK_EQUAL(program.guard.pause_ns, 0);
}

/* What costs much more is tried for a slice, not for all of a trial. */
static void hopeless_trials_are_short(uint64_t *seed) {
  struct program program = fresh(16);
  struct plant bad = {1, 3, 0.02};
  CHECK(play(&program, &bad, 1000, seed) <= 17);
}

static unsigned stalls(struct program *program) {
  unsigned on = 0;
  for (int i = 0; i < 1000; i++) {
    bool now = is_on(program);
    call(program, 65536, now ? 3e6 / 65536 : 6e3 / 65536);
    on += now;
  }
  return on;
}

/* A call that waits for a core ends a trial, and what a trial has won, not only its slice. */
static void a_stall_is_enough(void) {
  struct program program = fresh(32);
  CHECK(stalls(&program) <= 2); /* the first is not counted */
  program = fresh(32);
  while (program.guard.trying)
    call(&program, 65536, is_on(&program) ? 0.05 : 0.1);
  CHECK(is_on(&program));
  CHECK(stalls(&program) <= 3);
}

int main(void) {
  uint64_t seed = setting("MARU_SEED", 7);
  snprintf(check_note, sizeof check_note, "(MARU_SEED=%llu)", (unsigned long long)seed);
  gains_stay_on(&seed);
  losses_stay_off(&seed);
  little_gains_stay_off(&seed);
  a_change_is_noticed(&seed);
  noise_does_no_harm(&seed);
  pauses_double();
  a_gain_ends_the_doubling(&seed);
  hopeless_trials_are_short(&seed);
  a_stall_is_enough();
  return 0;
}
