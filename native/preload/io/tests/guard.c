/* guard.c: the guard against plants whose costs are known. */
#include "../guard.h"
#include "check.h"

#define CALLS 100000
#define PAUSE 256u

struct plant {
  double off, on; /* ns per byte */
  double noise;   /* each call costs up to so many times more */
};

/* How many calls were on, from a fresh guard. */
static unsigned play(struct io_guard *guard, const struct plant *plant, unsigned calls,
                     uint64_t *seed) {
  unsigned on = 0;
  for (unsigned i = 0; i < calls; i++) {
    bool now = io_guard_on(guard);
    uint64_t bytes = 16384 << next_random(seed) % 3;
    double noise = 1 + plant->noise * (double)(next_random(seed) % 1000) / 1000;
    io_guard_add(guard, bytes, (uint64_t)((double)bytes * noise * (now ? plant->on : plant->off)));
    on += now;
  }
  return on;
}

static void gains_stay_on(uint64_t *seed) {
  for (int i = 0; i < 200; i++) {
    struct io_guard guard;
    io_guard_begin(&guard, 1 + next_random(seed) % 64, PAUSE);
    struct plant plant = {1, 0.3 + 0.01 * (double)(next_random(seed) % 60), 0.02};
    CHECK(play(&guard, &plant, CALLS, seed) > CALLS * 9 / 10);
  }
}

static void losses_stay_off(uint64_t *seed) {
  for (int i = 0; i < 200; i++) {
    struct io_guard guard;
    uint32_t slice = 1 + (uint32_t)(next_random(seed) % 16);
    io_guard_begin(&guard, slice, PAUSE);
    struct plant plant = {1, 1 + 0.01 * (double)(next_random(seed) % 300), 0.02};
    unsigned on = play(&guard, &plant, CALLS, seed);
    CHECK(on < CALLS / 50 + 10 * slice);
    /* The pauses double: the same again costs less. */
    CHECK(play(&guard, &plant, CALLS, seed) <= on);
  }
}

/* Less than the gain that is asked for is no gain. */
static void little_gains_stay_off(uint64_t *seed) {
  struct io_guard guard;
  io_guard_begin(&guard, 8, PAUSE);
  struct plant plant = {1, 0.97, 0};
  CHECK(play(&guard, &plant, CALLS, seed) < CALLS / 50);
}

static void a_change_is_noticed(uint64_t *seed) {
  struct io_guard guard;
  io_guard_begin(&guard, 8, PAUSE);
  struct plant good = {1, 0.5, 0.02}, bad = {1, 2, 0.02};
  CHECK(play(&guard, &good, CALLS, seed) > CALLS * 9 / 10);
  CHECK(play(&guard, &bad, CALLS, seed) < CALLS / 10);
  /* Back-off delays, but does not forbid: it doubles from PAUSE. */
  CHECK(play(&guard, &good, 8 * CALLS, seed) > 4 * CALLS);
}

static void noise_does_no_harm(uint64_t *seed) {
  for (int i = 0; i < 200; i++) {
    struct io_guard guard;
    io_guard_begin(&guard, 16, PAUSE);
    struct plant equal = {1, 1, 4};
    /* It may be fooled, but equal costs are no harm; a factor is what it must see. */
    play(&guard, &equal, CALLS, seed);
    struct plant bad = {1, 3, 1};
    CHECK(play(&guard, &bad, CALLS, seed) < CALLS / 4);
  }
}

static void pauses_double(void) {
  struct io_guard guard;
  uint32_t before = PAUSE / 2;
  io_guard_begin(&guard, 1, PAUSE);
  for (int trial = 0; trial < 30; trial++) {
    while (!io_guard_add(&guard, 1000, io_guard_on(&guard) ? 2000 : 1000))
      ;
    CHECK(!io_guard_on(&guard));
    CHECK_EQUAL(guard.pause, before < IO_GUARD_PAUSE_MOST / 2 ? 2 * before : IO_GUARD_PAUSE_MOST);
    before = guard.pause;
  }
}

/* What costs much more is tried for a slice, not for all of a trial. */
static void hopeless_trials_are_short(uint64_t *seed) {
  struct io_guard guard;
  io_guard_begin(&guard, 16, 1000000);
  struct plant bad = {1, 3, 0.02};
  CHECK(play(&guard, &bad, 1000, seed) <= 17);
}

static unsigned stalls(struct io_guard *guard) {
  unsigned on = 0;
  for (int i = 0; i < 1000; i++) {
    bool now = io_guard_on(guard);
    io_guard_add(guard, 65536, now ? 3000000 : 6000);
    on += now;
  }
  return on;
}

/* A call that waits for a core ends a trial, and what a trial has won, not only its slice. */
static void a_stall_is_enough(void) {
  struct io_guard guard;
  io_guard_begin(&guard, 32, 1000000);
  CHECK(stalls(&guard) <= 2); /* the first is not counted */
  io_guard_begin(&guard, 32, 1000000);
  while (!io_guard_add(&guard, 65536, io_guard_on(&guard) ? 3000 : 6000))
    ;
  CHECK(io_guard_on(&guard));
  CHECK(stalls(&guard) <= 3);
}

/* Who counts a pause himself is told how long it is, and comes back to a trial. */
static void pauses_may_be_counted_outside(void) {
  struct io_guard guard;
  io_guard_begin(&guard, 5, PAUSE);
  CHECK_EQUAL(io_guard_rest(&guard), 0); /* a trial is on */
  for (uint32_t pause = PAUSE; pause <= 8 * PAUSE; pause *= 2) {
    unsigned calls = 1;
    while (!io_guard_add(&guard, 1000, io_guard_on(&guard) ? 1100 : 1000))
      calls++;
    CHECK(calls <= 5 * 2 * IO_GUARD_PROBE + 2 * IO_GUARD_PROBE);
    CHECK_EQUAL(io_guard_rest(&guard), 5 * pause);
    CHECK(guard.trying);
  }
  while (!io_guard_add(&guard, 1000, io_guard_on(&guard) ? 500 : 1000))
    ;
  CHECK(io_guard_on(&guard));
  CHECK_EQUAL(io_guard_rest(&guard), 0); /* it pays: no pause */
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
  hopeless_trials_are_short(&seed);
  a_stall_is_enough();
  pauses_may_be_counted_outside();
  return 0;
}
