#include "fairness.h"

#include <stdbool.h>

#define MILLISECOND 1000000u
#define TRIES 64

static const uint64_t lengths[MARU_LOCKPROF_SCALES] = {MILLISECOND, 10 * MILLISECOND,
                                                       100 * MILLISECOND};

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)
/* Of what one writes at a time. */
#define ADD(word, more) STORE(word, LOAD(word) + (more))

/* False: others have it for long; what was to be said is lost, and counted as late. */
static bool enter(struct maru_lockprof_fairness *fairness) {
  for (int i = 0; i < TRIES; i++)
    /* Acquire: what the last one wrote. */
    if (LOAD(fairness->busy) == 0 &&
        atomic_exchange_explicit(&fairness->busy, 1, memory_order_acquire) == 0)
      return true;
  return false;
}

static void leave(struct maru_lockprof_fairness *fairness) {
  atomic_store_explicit(&fairness->busy, 0, memory_order_release);
}

/* ---- over time -------------------------------------------------------------- */

static void halve(struct maru_lockprof_fairness *fairness) {
  for (unsigned i = 0; i < MARU_LOCKPROF_SERIES; i++) {
    struct maru_lockprof_point *to = &fairness->series[i];
    struct maru_lockprof_point one = {0}, other = {0};
    if (2 * i < MARU_LOCKPROF_SERIES) {
      one = fairness->series[2 * i];
      other = fairness->series[2 * i + 1];
    }
    STORE(to->acquisitions, one.acquisitions + other.acquisitions);
    STORE(to->windows, one.windows + other.windows);
    STORE(to->jain_ppm, one.jain_ppm + other.jain_ppm);
  }
  STORE(fairness->step, 2 * LOAD(fairness->step));
}

static void append(struct maru_lockprof_fairness *fairness, uint64_t number, uint64_t sum,
                   uint64_t jain_ppm) {
  if (LOAD(fairness->step) == 0) {
    STORE(fairness->first, number);
    STORE(fairness->step, 1);
  }
  if (number < LOAD(fairness->first))
    return;
  uint64_t after = number - LOAD(fairness->first);
  while (after / LOAD(fairness->step) >= MARU_LOCKPROF_SERIES)
    halve(fairness);
  struct maru_lockprof_point *point = &fairness->series[after / LOAD(fairness->step)];
  ADD(point->acquisitions, (uint32_t)sum);
  if (jain_ppm != 0) {
    ADD(point->windows, 1);
    ADD(point->jain_ppm, jain_ppm);
  }
}

/* ---- windows ------------------------------------------------------------------ */

static void shut(struct maru_lockprof_fairness *fairness, unsigned scale,
                 struct maru_lockprof_window *window) {
  struct maru_lockprof_scale *of = &fairness->scales[scale];
  uint64_t sum = LOAD(window->sum), threads = LOAD(window->threads), jain = 0;
  if (threads > 1 && sum > 0) {
    double x = (double)sum;
    jain = (uint64_t)(1e6 * x * x / ((double)threads * (double)LOAD(window->squares)));
    ADD(of->windows, 1);
    ADD(of->jain_ppm, jain);
    if (LOAD(of->least_ppm) == 0 || jain < LOAD(of->least_ppm))
      STORE(of->least_ppm, jain);
  }
  if (scale == MARU_LOCKPROF_SCALES - 1 && sum > 0)
    append(fairness, LOAD(window->number) - 1, sum, jain);
}

/* A thread had `count` acquisitions in a window. */
static void hand_in(struct maru_lockprof_fairness *fairness, unsigned scale, uint64_t number,
                    uint64_t count) {
  struct maru_lockprof_scale *of = &fairness->scales[scale];
  struct maru_lockprof_window *window = &of->ring[number % MARU_LOCKPROF_RING];
  if (LOAD(window->number) > number + 1) {
    atomic_fetch_add_explicit(&of->late, 1, memory_order_relaxed);
    return;
  }
  if (LOAD(window->number) < number + 1) {
    if (LOAD(window->number) != 0)
      shut(fairness, scale, window);
    STORE(window->number, number + 1);
    STORE(window->threads, 0);
    STORE(window->sum, 0);
    STORE(window->squares, 0);
  }
  ADD(window->threads, 1);
  ADD(window->sum, count);
  ADD(window->squares, count * count);
}

/* It went without in the windows after `from` and before `to`. */
static void went_without(struct maru_lockprof_fairness *fairness, unsigned scale, uint64_t from,
                         uint64_t to) {
  if (to > MARU_LOCKPROF_RING && from < to - MARU_LOCKPROF_RING)
    from = to - MARU_LOCKPROF_RING;
  for (uint64_t number = from; number < to; number++)
    hand_in(fairness, scale, number, 0);
}

static void turn(struct maru_lockprof_fairness *fairness, struct maru_lockprof_pace *pace,
                 unsigned scale, uint64_t now, uint64_t since_ns) {
  uint64_t last = LOAD(pace->window[scale]); /* + 1 */
  if (last != 0)
    hand_in(fairness, scale, last - 1, LOAD(pace->count[scale]));
  if (since_ns != 0) {
    uint64_t began = since_ns / lengths[scale];
    went_without(fairness, scale, began < last ? last : began, now);
  }
  STORE(pace->window[scale], now + 1);
  STORE(pace->count[scale], 0);
}

void mr_fairness_acquired(struct maru_lockprof_fairness *fairness, struct maru_lockprof_pace *pace,
                          uint64_t now_ns, uint64_t since_ns) {
  uint64_t now = now_ns / lengths[0];
  /* A clock may be behind on another CPU by less than a window. */
  if (LOAD(pace->window[0]) < now + 1) {
    bool entered = enter(fairness);
    for (unsigned scale = 0; scale < MARU_LOCKPROF_SCALES; scale++) {
      uint64_t number = now_ns / lengths[scale];
      if (LOAD(pace->window[scale]) >= number + 1)
        break;
      if (entered)
        turn(fairness, pace, scale, number, since_ns);
      else {
        atomic_fetch_add_explicit(&fairness->scales[scale].late, 1, memory_order_relaxed);
        STORE(pace->window[scale], number + 1);
        STORE(pace->count[scale], 0);
      }
    }
    if (entered)
      leave(fairness);
  }
  for (unsigned scale = 0; scale < MARU_LOCKPROF_SCALES; scale++)
    ADD(pace->count[scale], 1);
}
