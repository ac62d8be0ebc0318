#include "engine.h"

#include <string.h>

#define WINDOW_NS INT64_C(1000000000)
#define TICKS_RAISED 2
#define GENTLE_NS INT64_C(100000000) /* behind the last time that it was stuck */
#define QUIET_PARTS 32
#define FIND_EVERY_NS INT64_C(1000000000)
#define FIND_PARTS 200

static void open_window(struct boost_state *state, int64_t now_ns) {
  if (now_ns - state->window_began_ns < WINDOW_NS)
    return;
  state->window_began_ns = now_ns;
  memset(state->raised_ns, 0, sizeof state->raised_ns);
  memset(state->user_ns, 0, sizeof state->user_ns);
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

/* The raise goes on while the thread waits: it catches up later on what it lost asleep. */
static uint8_t maybe_end_gently(struct boost_line *line, int64_t now_ns, int64_t period_ns) {
  if (line->raised_until_ns == 0)
    return 0;
  if (pending_for(line, now_ns, period_ns))
    line->raised_until_ns = now_ns + GENTLE_NS;
  return now_ns < line->raised_until_ns ? 0 : end_raise(line);
}

struct step {
  const struct boost_rules *rules;
  struct boost_state *state;
  const struct boost_view *views;
  uint32_t count;
  int64_t now_ns, period_ns;
  uint8_t *actions;
  unsigned users;            /* that want any */
  bool busy[MARU_WAIT_CPUS]; /* somebody is raised there */
};

static bool within_cap(const struct step *s, const struct boost_view *view, int64_t time_ns) {
  int64_t percent = WINDOW_NS * (int64_t)s->rules->cap_percent;
  return (s->state->raised_ns[view->cpu] + time_ns) * 100 <= percent &&
         (s->state->user_ns[view->user] + time_ns) * 100 * s->users <= percent * s->rules->cpus;
}

static void charge(struct step *s, const struct boost_view *view, int64_t time_ns) {
  s->busy[view->cpu] = true;
  s->state->raised_ns[view->cpu] += time_ns;
  s->state->user_ns[view->user] += time_ns;
  view->line->raised_cpu = view->cpu;
}

/* A raised thread that has moved counts where it is, and ends where another one is. */
static void follow_raised(struct step *s) {
  for (uint32_t i = 0; i < s->count; i++) {
    const struct boost_view *view = &s->views[i];
    struct boost_line *line = view->line;
    if (line->raised_until_ns == 0)
      continue;
    int64_t left = line->raised_until_ns - s->now_ns;
    bool moved = line->raised_cpu != view->cpu;
    if (s->busy[view->cpu] || (moved && !within_cap(s, view, left)))
      s->actions[i] |= end_raise(line);
    else if (moved)
      charge(s, view, left);
    else
      s->busy[view->cpu] = true;
  }
}

static bool may_raise(const struct step *s, const struct boost_view *view) {
  const struct boost_line *line = view->line;
  return view->known && view->seated && line->raised_until_ns == 0 &&
         s->now_ns >= line->rests_until_ns &&
         pending_for(line, s->now_ns, s->rules->at_once ? 0 : s->period_ns);
}

/* Where the number is that comes next in the circle of all, wherever the views begin. */
static uint32_t next_in_turn(const struct step *s) {
  uint32_t first = 0;
  for (uint32_t i = 1; i < s->count; i++)
    if (s->views[i].number - s->state->next < s->views[first].number - s->state->next)
      first = i;
  return first;
}

/* One a CPU, beginning behind the one that was raised last. */
static void raise_some(struct step *s) {
  int64_t time = TICKS_RAISED * s->period_ns;
  uint32_t first = next_in_turn(s);
  for (uint32_t k = 0; k < s->count; k++) {
    uint32_t i = (first + k) % s->count;
    const struct boost_view *view = &s->views[i];
    if (!may_raise(s, view) || s->busy[view->cpu] || !within_cap(s, view, time))
      continue;
    view->line->raised_until_ns = s->now_ns + time;
    charge(s, view, time);
    s->state->next = view->number + 1;
    s->actions[i] |= BOOST_RAISE;
  }
}

static void raise_gently(struct step *s) {
  for (uint32_t i = 0; i < s->count; i++)
    if (may_raise(s, &s->views[i])) {
      s->views[i].line->raised_until_ns = s->now_ns + GENTLE_NS;
      s->actions[i] |= BOOST_RAISE;
    }
}

/* The smallest job of the user that is `least` or above, else the smallest; plus one; 0
 * without any. */
static uint64_t job_from(const struct step *s, uint32_t user, uint64_t least) {
  uint64_t smallest = 0, above = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    uint64_t job = s->views[i].job + 1;
    if (!s->views[i].known || s->views[i].user != user)
      continue;
    if (smallest == 0 || job < smallest)
      smallest = job;
    if (job > least && (above == 0 || job < above))
      above = job;
  }
  return above != 0 ? above : smallest;
}

/* The users in turn, of each his jobs in turn. */
static void next_slot(struct step *s) {
  struct boost_state *state = s->state;
  uint32_t wants = 0;
  for (uint32_t i = 0; i < s->count; i++)
    if (s->views[i].known)
      wants |= 1u << s->views[i].user;
  state->slot_job = 0;
  for (uint32_t k = 1; k <= BOOST_USERS && state->slot_job == 0; k++) {
    uint32_t user = (state->slot_user + k) % BOOST_USERS;
    if (!(wants & 1u << user))
      continue;
    state->slot_user = user;
    state->slot_job = state->user_job[user] = job_from(s, user, state->user_job[user]);
  }
  state->slot_until_ns = s->now_ns + s->rules->slot_ns;
}

static void give_slots(struct step *s) {
  struct boost_state *state = s->state;
  bool fresh = s->now_ns >= state->slot_until_ns;
  if (fresh)
    next_slot(s);
  for (uint32_t i = 0; i < s->count; i++) {
    struct boost_line *line = s->views[i].line;
    bool on = s->views[i].known && state->slot_job == s->views[i].job + 1;
    if (line->raised_until_ns != 0 && (!on || s->now_ns >= line->raised_until_ns)) {
      s->actions[i] |= end_raise(line);
      s->busy[s->views[i].cpu] = false;
    }
  }
  int64_t left = state->slot_until_ns - s->now_ns;
  for (uint32_t i = 0; i < s->count; i++) {
    const struct boost_view *view = &s->views[i];
    if (!view->known || !view->seated || state->slot_job != view->job + 1 ||
        view->line->raised_until_ns != 0 || s->busy[view->cpu] || !within_cap(s, view, left))
      continue;
    /* One that goes on need not be put down before. */
    s->actions[i] =
        s->actions[i] & BOOST_END ? s->actions[i] & ~BOOST_END : s->actions[i] | BOOST_RAISE;
    view->line->raised_until_ns = state->slot_until_ns;
    charge(s, view, left);
  }
}

static unsigned users_of(const struct boost_state *state, const struct boost_view *views,
                         uint32_t count) {
  uint32_t users = 0;
  for (uint32_t i = 0; i < count; i++)
    if (views[i].line->pending_since_ns != 0)
      users |= 1u << views[i].user;
  for (uint32_t user = 0; user < BOOST_USERS; user++)
    if (state->user_ns[user] > 0)
      users |= 1u << user;
  return users != 0 ? (unsigned)__builtin_popcount(users) : 1;
}

static void count_seen(struct boost_seen *seen, const struct boost_view *view,
                       const struct boost_line *line, int64_t now_ns, int64_t period_ns) {
  seen->waiting += view->waits;
  seen->pending += line->pending_since_ns != 0;
  seen->stuck += pending_for(line, now_ns, period_ns);
}

struct boost_seen boost_step(const struct boost_rules *rules, struct boost_state *state,
                             const struct boost_view *views, uint32_t count, int64_t now_ns,
                             int64_t period_ns, uint8_t *actions) {
  struct boost_seen seen = {0};
  struct step s = {.rules = rules,
                   .state = state,
                   .views = views,
                   .count = count,
                   .now_ns = now_ns,
                   .period_ns = period_ns,
                   .actions = actions};
  open_window(state, now_ns);
  for (uint32_t i = 0; i < count; i++) {
    note_pending(views[i].line, &views[i], now_ns);
    count_seen(&seen, &views[i], views[i].line, now_ns, period_ns);
    actions[i] = rules->slots    ? 0
                 : rules->gently ? maybe_end_gently(views[i].line, now_ns, period_ns)
                                 : maybe_end(views[i].line, now_ns, period_ns);
    if (!views[i].pending)
      continue;
    if (views[i].asleep)
      actions[i] |= BOOST_WAKE;
    if (views[i].lowered && views[i].known && rules->restores)
      actions[i] |= BOOST_RESTORE;
  }
  if (rules->gently && rules->cap_percent > 0)
    raise_gently(&s);
  if (rules->gently || (!rules->slots && !rules->raises))
    return seen;
  s.users = users_of(state, views, count);
  follow_raised(&s);
  if (rules->slots)
    give_slots(&s);
  else if (seen.pending > 0)
    raise_some(&s);
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

int64_t boost_pause(int64_t period_ns, int64_t quiet_ns) {
  int64_t part = quiet_ns / QUIET_PARTS;
  part = part < BOOST_LONGEST_NS ? part : BOOST_LONGEST_NS;
  return part > period_ns ? part : period_ns;
}

int64_t boost_find_pause(int64_t took_ns) {
  int64_t pause = (FIND_PARTS - 1) * took_ns;
  return pause > FIND_EVERY_NS ? pause : FIND_EVERY_NS;
}
