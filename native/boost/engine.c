#include "engine.h"

#include <string.h>

#define WINDOW_NS INT64_C(1000000000)
#define TICKS_RAISED 2

static void open_window(struct boost_state *state, int64_t now_ns) {
  if (now_ns - state->window_began_ns < WINDOW_NS)
    return;
  state->window_began_ns = now_ns;
  memset(state->raised_ns, 0, sizeof state->raised_ns);
}

static void note_pending(struct boost_line *line, const struct boost_view *view, int64_t now_ns) {
  if (!view->waits || !view->pending)
    line->pending_since_ns = 0;
  else if (line->pending_since_ns == 0)
    line->pending_since_ns = now_ns;
}

static bool pending_for(const struct boost_line *line, int64_t now_ns, int64_t time_ns) {
  return line->pending_since_ns != 0 && now_ns - line->pending_since_ns >= time_ns;
}

static uint8_t end_raise(struct boost_line *line) {
  line->raised_until_ns = 0;
  return BOOST_END;
}

/* A raise ends when its time is over or when it has served: the wait is over. */
static uint8_t maybe_end(struct boost_line *line, int64_t now_ns, int64_t period_ns) {
  if (line->raised_until_ns == 0)
    return 0;
  if (line->pending_since_ns == 0)
    return end_raise(line);
  if (now_ns < line->raised_until_ns)
    return 0;
  line->rests_until_ns = now_ns + TICKS_RAISED * period_ns;
  return end_raise(line);
}

static bool within_cap(const struct boost_rules *rules, const struct boost_state *state,
                       uint32_t cpu, int64_t time_ns) {
  return (state->raised_ns[cpu] + time_ns) * 100 <= WINDOW_NS * (int64_t)rules->cap_percent;
}

static bool may_raise(const struct boost_rules *rules, const struct boost_view *view,
                      const struct boost_line *line, int64_t now_ns, int64_t period_ns) {
  return view->known && line->raised_until_ns == 0 && now_ns >= line->rests_until_ns &&
         pending_for(line, now_ns, rules->at_once ? 0 : period_ns);
}

/* One a CPU, beginning behind the one that was raised last. */
static void raise_some(const struct boost_rules *rules, struct boost_state *state,
                       const struct boost_view *views, struct boost_line *lines, uint32_t count,
                       int64_t now_ns, int64_t period_ns, uint8_t *actions) {
  bool busy[MARU_WAIT_CPUS] = {false};
  int64_t time = TICKS_RAISED * period_ns;
  for (uint32_t i = 0; i < count; i++)
    busy[lines[i].raised_cpu] |= lines[i].raised_until_ns != 0;
  uint32_t first = state->next < count ? state->next : 0;
  for (uint32_t k = 0; k < count; k++) {
    uint32_t i = (first + k) % count, cpu = views[i].cpu;
    if (busy[cpu] || !may_raise(rules, &views[i], &lines[i], now_ns, period_ns) ||
        !within_cap(rules, state, cpu, time))
      continue;
    busy[cpu] = true;
    lines[i].raised_until_ns = now_ns + time;
    lines[i].raised_cpu = cpu;
    state->raised_ns[cpu] += time;
    state->next = i + 1;
    actions[i] |= BOOST_RAISE;
  }
}

/* The smallest job above `after`, else the smallest; -1 without any. */
static int64_t next_job(const struct boost_view *views, uint32_t count, int64_t after) {
  int64_t smallest = -1, above = -1;
  for (uint32_t i = 0; i < count; i++) {
    int64_t job = views[i].job;
    if (!views[i].known)
      continue;
    if (smallest < 0 || job < smallest)
      smallest = job;
    if (job > after && (above < 0 || job < above))
      above = job;
  }
  return above >= 0 ? above : smallest;
}

static void give_slots(const struct boost_rules *rules, struct boost_state *state,
                       const struct boost_view *views, struct boost_line *lines, uint32_t count,
                       int64_t now_ns, uint8_t *actions) {
  if (now_ns >= state->slot_until_ns) {
    state->slot_job = (uint32_t)(next_job(views, count, (int64_t)state->slot_job - 1) + 1);
    state->slot_until_ns = now_ns + rules->slot_ns;
  }
  for (uint32_t i = 0; i < count; i++) {
    bool on = views[i].known && state->slot_job == views[i].job + 1;
    if (!on && lines[i].raised_until_ns != 0)
      actions[i] |= end_raise(&lines[i]);
    else if (on && lines[i].raised_until_ns != state->slot_until_ns &&
             within_cap(rules, state, views[i].cpu, rules->slot_ns)) {
      if (lines[i].raised_until_ns == 0)
        actions[i] |= BOOST_RAISE;
      lines[i].raised_until_ns = state->slot_until_ns;
      state->raised_ns[views[i].cpu] += rules->slot_ns;
    } else if (on && lines[i].raised_until_ns != 0 && now_ns >= lines[i].raised_until_ns)
      actions[i] |= end_raise(&lines[i]);
  }
}

static void count_seen(struct boost_seen *seen, const struct boost_view *view,
                       const struct boost_line *line, int64_t now_ns, int64_t period_ns) {
  seen->waiting += view->waits;
  seen->pending += line->pending_since_ns != 0;
  seen->stuck += pending_for(line, now_ns, period_ns);
}

struct boost_seen boost_step(const struct boost_rules *rules, struct boost_state *state,
                             const struct boost_view *views, struct boost_line *lines,
                             uint32_t count, int64_t now_ns, int64_t period_ns, uint8_t *actions) {
  struct boost_seen seen = {0};
  open_window(state, now_ns);
  for (uint32_t i = 0; i < count; i++) {
    note_pending(&lines[i], &views[i], now_ns);
    count_seen(&seen, &views[i], &lines[i], now_ns, period_ns);
    actions[i] = rules->slots ? 0 : maybe_end(&lines[i], now_ns, period_ns);
    if (!views[i].pending)
      continue;
    if (views[i].asleep)
      actions[i] |= BOOST_WAKE;
    if (views[i].lowered && views[i].known && rules->restores)
      actions[i] |= BOOST_RESTORE;
  }
  if (rules->slots)
    give_slots(rules, state, views, lines, count, now_ns, actions);
  else if (rules->raises && seen.pending > 0)
    raise_some(rules, state, views, lines, count, now_ns, period_ns, actions);
  return seen;
}

int64_t boost_next_period(int64_t period_ns, struct boost_seen seen) {
  int64_t next = period_ns;
  if (seen.stuck > 0)
    next = period_ns / 2;
  else if (seen.pending == 0)
    next = period_ns + period_ns / 8;
  return next < BOOST_SHORTEST_NS  ? BOOST_SHORTEST_NS
         : next > BOOST_LONGEST_NS ? BOOST_LONGEST_NS
                                   : next;
}
