#include "fairness.h"
#include "figures.h"

#include <stdbool.h>

#define TRIES 64

static const uint64_t lengths[MARU_LOCKPROF_SCALES] = {
    MR_FAIRNESS_WINDOW_NS, 10 * MR_FAIRNESS_WINDOW_NS, 100 * MR_FAIRNESS_WINDOW_NS};

/* False: others have it for long; what was to be said is lost, and counted as late. */
static bool enter(struct maru_lockprof_fairness *fairness) {
  for (int i = 0; i < TRIES; i++)
    /* Acquire: what the last one wrote. */
    if (MR_LOAD(fairness->busy) == 0 &&
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
    MR_STORE(to->acquisitions, one.acquisitions + other.acquisitions);
    MR_STORE(to->windows, one.windows + other.windows);
    MR_STORE(to->jain_ppm, one.jain_ppm + other.jain_ppm);
  }
  MR_STORE(fairness->step, 2 * MR_LOAD(fairness->step));
}

static void append(struct maru_lockprof_fairness *fairness, uint64_t number, uint64_t sum,
                   uint64_t jain_ppm) {
  if (MR_LOAD(fairness->step) == 0) {
    MR_STORE(fairness->first, number);
    MR_STORE(fairness->step, 1);
  }
  if (number < MR_LOAD(fairness->first))
    return;
  uint64_t after = number - MR_LOAD(fairness->first);
  while (after / MR_LOAD(fairness->step) >= MARU_LOCKPROF_SERIES)
    halve(fairness);
  struct maru_lockprof_point *point = &fairness->series[after / MR_LOAD(fairness->step)];
  MR_ADD(point->acquisitions, (uint32_t)sum);
  if (jain_ppm != 0) {
    MR_ADD(point->windows, 1);
    MR_ADD(point->jain_ppm, jain_ppm);
  }
}

/* ---- windows ------------------------------------------------------------------ */

static void shut(struct maru_lockprof_fairness *fairness, unsigned scale,
                 struct maru_lockprof_window *window) {
  struct maru_lockprof_scale *of = &fairness->scales[scale];
  uint64_t sum = MR_LOAD(window->sum), threads = MR_LOAD(window->threads), jain = 0;
  if (threads > 1 && sum > 0) {
    double x = (double)sum;
    jain = (uint64_t)(1e6 * x * x / ((double)threads * (double)MR_LOAD(window->squares)));
    MR_ADD(of->windows, 1);
    MR_ADD(of->jain_ppm, jain);
    if (MR_LOAD(of->least_ppm) == 0 || jain < MR_LOAD(of->least_ppm))
      MR_STORE(of->least_ppm, jain);
  }
  if (scale == MARU_LOCKPROF_SCALES - 1 && sum > 0)
    append(fairness, MR_LOAD(window->number) - 1, sum, jain);
}

/* A thread had `count` acquisitions in a window. */
static void hand_in(struct maru_lockprof_fairness *fairness, unsigned scale, uint64_t number,
                    uint64_t count) {
  struct maru_lockprof_scale *of = &fairness->scales[scale];
  struct maru_lockprof_window *window = &of->ring[number % MARU_LOCKPROF_RING];
  if (MR_LOAD(window->number) > number + 1) {
    MR_COUNT(of->late);
    return;
  }
  if (MR_LOAD(window->number) < number + 1) {
    if (MR_LOAD(window->number) != 0)
      shut(fairness, scale, window);
    MR_STORE(window->number, number + 1);
    MR_STORE(window->threads, 0);
    MR_STORE(window->sum, 0);
    MR_STORE(window->squares, 0);
  }
  MR_ADD(window->threads, 1);
  MR_ADD(window->sum, count);
  MR_ADD(window->squares, count * count);
}

/* It went without in the windows after `from` and before `to`. */
static void went_without(struct maru_lockprof_fairness *fairness, unsigned scale, uint64_t from,
                         uint64_t to) {
  if (to > MARU_LOCKPROF_RING && from < to - MARU_LOCKPROF_RING)
    from = to - MARU_LOCKPROF_RING;
  for (uint64_t number = from; number < to; number++)
    hand_in(fairness, scale, number, 0);
}

static void begin_window(struct maru_lockprof_pace *pace, unsigned scale, uint64_t number) {
  MR_STORE(pace->window[scale], number + 1);
  MR_STORE(pace->handed_in[scale], MR_LOAD(pace->acquisitions));
}

static void turn(struct maru_lockprof_fairness *fairness, struct maru_lockprof_pace *pace,
                 unsigned scale, uint64_t now, uint64_t since_ns) {
  uint64_t last = MR_LOAD(pace->window[scale]); /* + 1 */
  uint64_t acquisitions = MR_LOAD(pace->acquisitions);
  if (last != 0)
    hand_in(fairness, scale, last - 1, acquisitions - MR_LOAD(pace->handed_in[scale]));
  if (since_ns != 0) {
    uint64_t began = since_ns / lengths[scale];
    went_without(fairness, scale, began < last ? last : began, now);
  }
  begin_window(pace, scale, now);
}

void mr_fairness_turn(struct maru_lockprof_fairness *fairness, struct maru_lockprof_pace *pace,
                      uint64_t now_ns, uint64_t since_ns) {
  bool entered = enter(fairness);
  for (unsigned scale = 0; scale < MARU_LOCKPROF_SCALES; scale++) {
    uint64_t number = now_ns / lengths[scale];
    if (MR_LOAD(pace->window[scale]) >= number + 1)
      break;
    if (entered)
      turn(fairness, pace, scale, number, since_ns);
    else {
      MR_COUNT(fairness->scales[scale].late);
      begin_window(pace, scale, number);
    }
  }
  if (entered)
    leave(fairness);
}
