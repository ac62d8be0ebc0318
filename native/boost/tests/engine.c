/* Description: whatever the boards say, the engine raises one a CPU, two ticks, within the cap. */
#include "engine.h"

#include "check.h"

#define MS INT64_C(1000000)
#define LINES 24u
#define CPUS 3u

static struct boost_view waiting(void) {
  return (struct boost_view){.waits = true, .known = true, .seated = true};
}

struct bench {
  struct boost_rules rules;
  struct boost_state state;
  struct boost_view views[LINES];
  struct boost_line lines[LINES];
  uint8_t actions[LINES];
  int64_t now;
};

static struct boost_seen tick(struct bench *b, uint32_t count) {
  b->now += MS;
  b->rules.cpus = CPUS;
  for (uint32_t i = 0; i < count; i++) {
    b->views[i].line = &b->lines[i];
    b->views[i].number = i;
  }
  return boost_step(&b->rules, &b->state, b->views, count, b->now, MS, b->actions);
}

static void wakes_and_restores(void) {
  struct bench b = {.rules = {.restores = true, .cap_percent = 100}};
  b.views[0] = waiting();
  b.views[0].asleep = true;
  struct boost_seen seen = tick(&b, 1);
  CHECK_EQUAL(b.actions[0], 0);
  CHECK_EQUAL(seen.waiting, 1);
  CHECK_EQUAL(seen.pending, 0);
  b.views[0].pending = true;
  tick(&b, 1);
  CHECK_EQUAL(b.actions[0], BOOST_WAKE);
  b.views[0].asleep = false;
  b.views[0].lowered = true;
  tick(&b, 1);
  CHECK_EQUAL(b.actions[0], BOOST_RESTORE);
  b.views[0].known = false;
  tick(&b, 1);
  CHECK_EQUAL(b.actions[0], 0);
  b.rules.restores = false;
  b.views[0].known = true;
  tick(&b, 1);
  CHECK_EQUAL(b.actions[0], 0);
}

/* The published scheme: at once, until it has served, then the next one. */
static void raises_in_turn(void) {
  struct bench b = {.rules = {.raises = true, .at_once = true, .cap_percent = 100}};
  for (unsigned i = 0; i < 3; i++) {
    b.views[i] = waiting();
    b.views[i].pending = true;
  }
  tick(&b, 3);
  CHECK(b.actions[0] == BOOST_RAISE && b.actions[1] == 0 && b.actions[2] == 0);
  b.views[0].waits = false;
  tick(&b, 3);
  CHECK(b.actions[0] == BOOST_END && b.actions[1] == BOOST_RAISE && b.actions[2] == 0);
  tick(&b, 3);
  CHECK(b.actions[1] == 0);
  tick(&b, 3); /* two ticks are over; it rests */
  CHECK(b.actions[1] == BOOST_END && b.actions[2] == BOOST_RAISE);
  b.views[1].known = false;
  b.views[2].waits = false;
  tick(&b, 3);
  CHECK(b.actions[0] == 0 && b.actions[1] == 0 && b.actions[2] == BOOST_END);
}

/* By itself: only what lay ready for a whole period. */
static void raises_the_stuck(void) {
  struct bench b = {.rules = {.raises = true, .cap_percent = 100}};
  b.views[0] = waiting();
  b.views[0].pending = true;
  CHECK_EQUAL(tick(&b, 1).stuck, 0);
  CHECK_EQUAL(b.actions[0], 0);
  CHECK_EQUAL(tick(&b, 1).stuck, 1);
  CHECK_EQUAL(b.actions[0], BOOST_RAISE);
}

/* A small raise is of all that are stuck and outlasts their waits, until none was for 100 ms. */
static void raises_gently(void) {
  struct bench b = {.rules = {.raises = true, .gently = true, .cap_percent = 90}};
  for (unsigned i = 0; i < 3; i++) {
    b.views[i] = waiting();
    b.views[i].pending = i < 2;
  }
  tick(&b, 3);
  CHECK(b.actions[0] == 0 && b.actions[1] == 0 && b.actions[2] == 0);
  tick(&b, 3);
  CHECK(b.actions[0] == BOOST_RAISE && b.actions[1] == BOOST_RAISE && b.actions[2] == 0);
  b.views[0].waits = b.views[1].waits = false;
  for (unsigned i = 0; i < 50; i++) {
    tick(&b, 3);
    CHECK(b.actions[0] == 0 && b.actions[1] == 0);
  }
  b.views[1].waits = true; /* again for two ticks */
  tick(&b, 3);
  tick(&b, 3);
  CHECK_EQUAL(b.actions[1], 0);
  b.views[1].waits = false;
  for (unsigned i = 52; i < 99; i++) {
    tick(&b, 3);
    CHECK(b.actions[0] == 0 && b.actions[1] == 0);
  }
  tick(&b, 3);
  CHECK(b.actions[0] == BOOST_END && b.actions[1] == 0);
  for (unsigned i = 0; i < 51; i++) {
    tick(&b, 3);
    CHECK_EQUAL(b.actions[1], 0);
  }
  tick(&b, 3);
  CHECK_EQUAL(b.actions[1], BOOST_END);
  struct bench none = {.rules = {.raises = true, .gently = true, .cap_percent = 0}};
  none.views[0] = waiting();
  none.views[0].pending = true;
  tick(&none, 1);
  tick(&none, 1);
  CHECK_EQUAL(none.actions[0], 0);
}

static void slots(void) {
  struct bench b = {.rules = {.slots = true, .slot_ns = 2 * MS, .cap_percent = 100}};
  for (unsigned i = 0; i < 4; i++) {
    b.views[i] = waiting();
    b.views[i].job = i / 2;
    b.views[i].cpu = i % 2;
  }
  tick(&b, 4);
  CHECK_EQUAL(b.state.slot_job, 1);
  CHECK(b.actions[0] == BOOST_RAISE && b.actions[1] == BOOST_RAISE);
  CHECK(b.actions[2] == 0 && b.actions[3] == 0);
  tick(&b, 4);
  CHECK(b.actions[0] == 0 && b.actions[2] == 0);
  tick(&b, 4);
  CHECK_EQUAL(b.state.slot_job, 2);
  CHECK(b.actions[0] == BOOST_END && b.actions[2] == BOOST_RAISE && b.actions[3] == BOOST_RAISE);
}

/* How many milliseconds each view was raised in a whole window. */
static void count_window(struct bench *b, uint32_t count, unsigned *raised) {
  bool on[LINES] = {0};
  memset(raised, 0, count * sizeof *raised);
  tick(b, count);
  for (int64_t began = b->state.window_began_ns; b->state.window_began_ns == began; tick(b, count))
    continue;
  for (uint32_t i = 0; i < count; i++)
    on[i] = b->lines[i].raised_until_ns != 0;
  for (int64_t began = b->state.window_began_ns; b->state.window_began_ns == began; tick(b, count))
    for (uint32_t i = 0; i < count; i++) {
      on[i] = (on[i] && !(b->actions[i] & BOOST_END)) || b->actions[i] & BOOST_RAISE;
      raised[i] += on[i];
    }
}

/* One user alone may have what each CPU has to give, not more there for what he leaves elsewhere;
 * two share it. */
static void caps(void) {
  unsigned raised[LINES];
  struct bench b = {.rules = {.raises = true, .at_once = true, .cap_percent = 10}};
  for (unsigned i = 0; i < 4; i++) {
    b.views[i] = waiting();
    b.views[i].pending = true;
  }
  count_window(&b, 4, raised);
  unsigned all = raised[0] + raised[1] + raised[2] + raised[3];
  CHECK(all >= 90 && all <= 104);
  struct bench two = {.rules = {.raises = true, .at_once = true, .cap_percent = 90}};
  for (unsigned i = 0; i < 12; i++) {
    two.views[i] = waiting();
    two.views[i].pending = true;
    two.views[i].cpu = i % CPUS;
    two.views[i].user = i == 0;
  }
  count_window(&two, 12, raised);
  for (unsigned i = all = 0; i < 12; i++)
    all += two.views[i].user == 0 ? raised[i] : 0;
  CHECK(all >= 1200 && all <= CPUS * 900 / 2 + 12); /* of 2700 */
}

/* Known, but nobody could say where it is. */
static void not_seated(void) {
  struct bench b = {.rules = {.raises = true, .at_once = true, .cap_percent = 100}};
  b.views[0] = waiting();
  b.views[0].pending = true;
  b.views[0].seated = false;
  for (unsigned i = 0; i < 5; i++) {
    tick(&b, 1);
    CHECK_EQUAL(b.actions[0], 0);
  }
}

/* A thread that made nothing of two ticks rests for two. */
static void rests(void) {
  static const uint8_t course[] = {BOOST_RAISE, 0, BOOST_END, 0, BOOST_RAISE, 0, BOOST_END, 0};
  struct bench b = {.rules = {.raises = true, .at_once = true, .cap_percent = 100}};
  b.views[0] = waiting();
  b.views[0].pending = true;
  for (unsigned i = 0; i < sizeof course; i++) {
    tick(&b, 1);
    CHECK_EQUAL(b.actions[0], course[i]);
  }
}

/* On another CPU it costs there, and where nothing is left it ends. */
static void moves(void) {
  struct bench b = {.rules = {.raises = true, .at_once = true, .cap_percent = 10}};
  b.views[0] = waiting();
  b.views[0].pending = true;
  tick(&b, 1);
  CHECK_EQUAL(b.actions[0], BOOST_RAISE);
  CHECK_EQUAL(b.state.raised_ns[0], 2 * MS);
  b.views[0].cpu = 1;
  tick(&b, 1);
  CHECK_EQUAL(b.actions[0], 0);
  CHECK_EQUAL(b.state.raised_ns[1], MS);
  struct bench full = {.rules = b.rules};
  full.views[0] = b.views[0];
  full.views[0].cpu = 0;
  tick(&full, 1);
  full.views[0].cpu = 1;
  full.state.raised_ns[1] = 100 * MS;
  tick(&full, 1);
  CHECK_EQUAL(full.actions[0], BOOST_END);
}

/* The users in turn, whatever number of jobs each has; of each his jobs in turn. */
static void slots_of_users(void) {
  unsigned had[3] = {0};
  struct bench b = {.rules = {.slots = true, .slot_ns = 2 * MS, .cap_percent = 100}};
  for (unsigned i = 0; i < 3; i++) {
    b.views[i] = waiting();
    b.views[i].job = 10 + i;
    b.views[i].user = i == 2;
    b.views[i].cpu = i;
  }
  for (unsigned t = 0; t < 400; t++) {
    tick(&b, 3);
    for (unsigned i = 0; i < 3; i++)
      had[i] += b.state.slot_job == b.views[i].job + 1;
  }
  CHECK(had[2] >= 195 && had[2] <= 205);
  CHECK(had[0] >= 95 && had[0] <= 105 && had[1] >= 95 && had[1] <= 105);
}

/* Lines that come and go before the others do not take the others' turn. */
static void turns_beside_flicker(uint64_t seed) {
  struct bench b = {.rules = {.raises = true, .at_once = true, .cap_percent = 100, .cpus = 1}};
  unsigned raises[6] = {0};
  for (unsigned t = 0; t < 600; t++) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < 6; i++) {
      bool pending = i >= 3 || next_random(&seed) % 2 == 0;
      if (!pending && b.lines[i].pending_since_ns == 0 && b.lines[i].raised_until_ns == 0)
        continue; /* the daemon does not show it */
      b.views[count] = waiting();
      b.views[count].pending = pending;
      b.views[count].number = i;
      b.views[count++].line = &b.lines[i];
    }
    b.now += MS;
    boost_step(&b.rules, &b.state, b.views, count, b.now, MS, b.actions);
    for (uint32_t k = 0; k < count; k++)
      raises[b.views[k].number] += (b.actions[k] & BOOST_RAISE) != 0;
  }
  /* A raise lasts two ticks at most: 300 or more, for six. */
  for (uint32_t i = 3; i < 6; i++)
    CHECK(raises[i] >= 40);
}

/* The daemon begins with another board in each tick: everybody's turn comes all the same. */
static void turns_of_boards(void) {
  struct bench b = {.rules = {.raises = true, .at_once = true, .cap_percent = 100, .cpus = 1}};
  unsigned raises[LINES] = {0};
  for (uint32_t t = 0; t < 100 * LINES; t++) {
    for (uint32_t k = 0; k < LINES; k++) {
      uint32_t i = (t + k) % LINES;
      b.views[k] = waiting();
      b.views[k].pending = true;
      b.views[k].number = i;
      b.views[k].line = &b.lines[i];
    }
    b.now += MS;
    boost_step(&b.rules, &b.state, b.views, LINES, b.now, MS, b.actions);
    for (uint32_t k = 0; k < LINES; k++)
      raises[b.views[k].number] += (b.actions[k] & BOOST_RAISE) != 0;
  }
  /* One at a time, for two ticks: 50 each. */
  for (uint32_t i = 0; i < LINES; i++)
    CHECK(raises[i] >= 40);
}

/* Lines that say anything at all: what was raised is counted here, by the actions. */
static void liars(unsigned cap, uint64_t seed) {
  struct bench b = {.rules = {.restores = true, .raises = true, .at_once = true}};
  int64_t since[LINES] = {0}, held = 0, by_user[3] = {0}, window = 0;
  b.rules.cap_percent = cap;
  for (unsigned t = 0; t < 20000; t++) {
    for (unsigned i = 0; i < LINES; i++) {
      uint64_t r = next_random(&seed);
      b.views[i] = (struct boost_view){.waits = r % 8 != 0,
                                       .asleep = r >> 8 & 1,
                                       .lowered = r >> 9 & 1,
                                       .pending = r >> 10 & 1 || r >> 11 & 1,
                                       .known = i % 5 != 0,
                                       .seated = r >> 12 & 3,
                                       .user = i % 3,
                                       .cpu = (uint32_t)(r >> 16) % CPUS};
    }
    tick(&b, LINES);
    unsigned raised = 0, on[CPUS] = {0};
    for (unsigned i = 0; i < LINES; i++) {
      if (b.actions[i] & BOOST_END) {
        CHECK(since[i] != 0);
        CHECK(b.now - since[i] <= 2 * MS);
        since[i] = 0;
      }
      if (b.actions[i] & (BOOST_RAISE | BOOST_RESTORE))
        CHECK(b.views[i].known);
      if (b.actions[i] & BOOST_RAISE) {
        CHECK_EQUAL(since[i], 0);
        since[i] = b.now;
      }
      raised += since[i] != 0;
      /* Wherever they move. */
      on[b.views[i].cpu] += since[i] != 0;
      CHECK(on[b.views[i].cpu] <= 1);
      by_user[i % 3] += since[i] != 0 ? MS : 0;
    }
    if (b.state.window_began_ns != window) {
      window = b.state.window_began_ns;
      held = 0;
      memset(by_user, 0, sizeof by_user);
    }
    CHECK(raised <= CPUS);
    held += raised * MS;
    /* Of three who want it each has a third, and what was on as the window began. */
    for (unsigned user = 0; user < 3; user++)
      CHECK(t < 1000 || by_user[user] <= CPUS * (1000 * MS / 100 * cap / 3 + 4 * MS));
    /* Those that are raised as the window begins belong to the one before. */
    CHECK(held <= CPUS * (1000 * MS / 100 * cap + 2 * MS));
  }
}

/* Late by a period, or by a 32nd of the time in which nothing happened. */
static void pauses(uint64_t seed) {
  CHECK_EQUAL(boost_pause(MS, 0), MS);
  CHECK_EQUAL(boost_pause(MS, 64 * MS), 2 * MS);
  CHECK_EQUAL(boost_pause(MS, INT64_MAX), BOOST_LONGEST_NS);
  CHECK_EQUAL(boost_pause(20 * MS, INT64_MAX), 20 * MS);
  for (int i = 0; i < 10000; i++) {
    int64_t period = (int64_t)(next_random(&seed) % (50 * MS)) + 1;
    int64_t quiet = (int64_t)(next_random(&seed) % (1000 * MS)), pause = boost_pause(period, quiet);
    CHECK(pause >= period && (pause == period || pause <= quiet / 32));
    CHECK(pause <= period || pause <= BOOST_LONGEST_NS);
  }
}

/* However many processes a machine has, the search for boards takes 0.5 % of a CPU at most. */
static void searches(uint64_t seed) {
  CHECK_EQUAL(boost_find_pause(0), 1000 * MS);
  CHECK_EQUAL(boost_find_pause(5 * MS), 1000 * MS);
  for (int i = 0; i < 10000; i++) {
    int64_t took = (int64_t)(next_random(&seed) % (100000 * MS)), pause = boost_find_pause(took);
    CHECK(200 * took <= took + pause);
    CHECK(pause == 1000 * MS || 200 * (took + 1) > took + pause);
  }
}

static void periods(void) {
  struct boost_seen none = {0}, some = {.waiting = 1, .pending = 1}, stuck = {1, 1, 1};
  CHECK_EQUAL(boost_next_period(BOOST_LONGEST_NS, none), BOOST_LONGEST_NS);
  CHECK_EQUAL(boost_next_period(MS, some), MS);
  CHECK_EQUAL(boost_next_period(MS, stuck), MS / 2);
  CHECK_EQUAL(boost_next_period(BOOST_SHORTEST_NS, stuck), BOOST_SHORTEST_NS);
  CHECK(boost_next_period(MS, none) > MS);
}

int main(void) {
  uint64_t seed = setting("MARU_TEST_SEED", 88172645463325252);
  wakes_and_restores();
  raises_in_turn();
  raises_the_stuck();
  raises_gently();
  slots();
  slots_of_users();
  caps();
  not_seated();
  rests();
  moves();
  turns_beside_flicker(seed);
  turns_of_boards();
  liars(100, seed);
  liars(50, seed + 1);
  liars(0, seed + 2);
  periods();
  pauses(seed);
  searches(seed);
  return 0;
}
