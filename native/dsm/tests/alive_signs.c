/* Description: a host that leaves something unanswered for MR_SILENT_MS is lost, or keep-alives for
 * MR_IDLE_MS, and none other.
 * Not one whose process is stopped, however long, nor one that answers without acknowledging,
 * nor one that is looked at late. */
#define _GNU_SOURCE
#include "../alive.h"
#include "../transport.h"

#include "check.h"

#define MS INT64_C(1000000)
#define LOOK_MS 250
#define LOST MR_SILENT_MS

/* A kernel with something on the way to its peer: by ms since the beginning. */
struct kernel {
  struct mr_alive alive;
  int64_t now, answered;
  uint32_t repeats, probes;
  bool idle;
  unsigned jitter;
};

static bool look(struct kernel *k) {
  /* Ticks: it may say some ms more or less. */
  int64_t answer = k->now - k->answered + (k->jitter++ * 7 % 11) - 5;
  const struct mr_signs signs = {k->repeats, k->probes, (uint32_t)(answer > 0 ? answer : 0),
                                 k->idle};
  return mr_alive_judge(&k->alive, &signs, k->now * MS);
}

/* Looks for so long; when it was lost, or -1. */
static int64_t watch(struct kernel *k, int64_t ms) {
  for (int64_t end = k->now + ms; k->now < end; k->now += LOOK_MS)
    if (look(k))
      return k->now;
  return -1;
}

static void answer(struct kernel *k) {
  k->answered = k->now;
  k->probes = 0;
}

static const struct kernel fresh = {.now = 1000000, .answered = 1000000};

static void check_idle(void) {
  struct kernel k = fresh;
  CHECK_EQUAL(watch(&k, 3600000), -1);
}

/* What is on the way is repeated, and nobody answers. */
static void check_dead_host(void) {
  struct kernel k = fresh;
  CHECK_EQUAL(watch(&k, 2000), -1);
  k.repeats = 1;
  int64_t begun = k.now;
  CHECK_EQUAL(watch(&k, LOST), -1);
  k.repeats = 4;
  int64_t lost = watch(&k, LOST);
  CHECK(lost >= begun + LOST && lost <= begun + LOST + LOOK_MS);
}

/* Nothing is on the way, and the kernel's questions are not answered. */
static void check_dead_and_idle(void) {
  struct kernel k = fresh;
  k.idle = true;
  CHECK_EQUAL(watch(&k, 2000), -1);
  k.probes = 1;
  int64_t begun = k.now;
  CHECK_EQUAL(watch(&k, 1000), -1);
  k.probes = 2;
  int64_t lost = watch(&k, LOST);
  CHECK(lost >= begun + MR_IDLE_MS && lost <= begun + MR_IDLE_MS + LOOK_MS);
}

/* The kernel repeats after RTO, twice that and four times that. An outage that ends between the
 * second and the third repeat loses nobody, whenever it is looked at. */
static void check_outage(int64_t rto) {
  for (int64_t phase = 0; phase < LOOK_MS; phase++) {
    struct kernel k = fresh;
    for (int64_t ms = phase; ms < 7 * rto; ms += LOOK_MS) {
      k.repeats = (ms >= rto) + (ms >= 3 * rto);
      CHECK(!look(&k));
      k.now += LOOK_MS;
    }
    k.repeats = 0;
    answer(&k);
    CHECK_EQUAL(watch(&k, 10000), -1);
  }
}

/* From its last word on, where the first repeat is 500 ms later, or the kernel's question a second
 * later, and a look just before that.  The rest is for a machine that is busy. */
static void check_bar(void) {
  CHECK(500 + LOOK_MS + LOST + LOOK_MS <= MR_LOST_MS - LOOK_MS);
  CHECK(1000 + LOOK_MS + MR_IDLE_MS + LOOK_MS <= MR_LOST_MS - LOOK_MS);
}

/* Repeated once or twice, then acknowledged: again and again. */
static void check_lossy_network(void) {
  struct kernel k = fresh;
  for (int turn = 0; turn < 1000; turn++) {
    k.repeats = 2;
    CHECK_EQUAL(watch(&k, LOST - LOOK_MS), -1);
    k.repeats = 0;
    answer(&k);
    CHECK_EQUAL(watch(&k, LOOK_MS), -1);
  }
  k.repeats = 1;
  CHECK(watch(&k, LOST + 2 * LOOK_MS) >= 0);
}

/* The same, between two looks. */
static void check_quick_answers(void) {
  struct kernel k = fresh;
  k.repeats = 1;
  for (int turn = 0; turn < 1000; turn++) {
    CHECK_EQUAL(watch(&k, 2000), -1);
    answer(&k);
    k.repeats++; /* it has answered, and something else is on the way since */
  }
}

/* Stopped: its window is closed, and its kernel answers the probes, ever rarer ones. */
static void check_stopped(int64_t stopped_ms) {
  struct kernel k = fresh;
  int64_t pause = 200;
  while (k.now < fresh.now + stopped_ms) {
    CHECK_EQUAL(watch(&k, pause), -1);
    k.probes = 1; /* seen before the answer has come */
    CHECK(!look(&k));
    k.now += 1;
    answer(&k);
    pause = pause * 2 < 120000 ? pause * 2 : 120000;
  }
  /* And then its host dies: the next probe shows it. */
  CHECK_EQUAL(watch(&k, pause), -1);
  k.probes = 1;
  int64_t begun = k.now, lost = watch(&k, 2 * (int64_t)LOST);
  CHECK(lost >= begun + LOST && lost <= begun + LOST + LOOK_MS);
}

/* So full that it takes not even what is repeated, but says so, ever more seldom. */
static void check_full(void) {
  struct kernel k = fresh;
  int64_t pause = 200;
  for (int turn = 1; turn < 14; turn++) {
    k.repeats = (uint32_t)turn;
    CHECK(!look(&k));
    k.now += 30;
    answer(&k);
    CHECK_EQUAL(watch(&k, pause), -1);
    pause = pause * 2 < 120000 ? pause * 2 : 120000;
  }
  k.repeats++;
  CHECK(watch(&k, 2 * (int64_t)LOST) >= 0);
}

/* Answers that come within ticks of each other: what the later one answered is no question. */
static void check_near_answers(void) {
  struct kernel k = fresh;
  CHECK_EQUAL(watch(&k, LOOK_MS), -1);
  answer(&k);
  struct mr_signs signs = {2, 0, 0, false};
  CHECK(!mr_alive_judge(&k.alive, &signs, k.now * MS));
  signs = (struct mr_signs){3, 1, 5, false};
  CHECK(!mr_alive_judge(&k.alive, &signs, (k.now + 5) * MS));
  signs = (struct mr_signs){0, 0, 0, true};
  CHECK(!mr_alive_judge(&k.alive, &signs, (k.now + 10) * MS));
  signs = (struct mr_signs){1, 0, 3600000, false};
  CHECK(!mr_alive_judge(&k.alive, &signs, (k.now + 10 + 3600000) * MS));
  signs.answer += LOST;
  CHECK(mr_alive_judge(&k.alive, &signs, (k.now + 10 + 3600000 + LOST) * MS));
}

/* We were stopped ourselves, with something on the way: it has been answered since. */
static void check_own_stop(void) {
  struct kernel k = fresh;
  k.repeats = 1;
  CHECK(!look(&k));
  k.now += 3600000;
  answer(&k);
  k.now -= 1000;
  k.repeats = 0;
  k.now += 1000;
  CHECK_EQUAL(watch(&k, 60000), -1);
  /* Or it has, and the next is on the way. */
  k.probes = 1;
  CHECK(!look(&k));
  k.now += 3600000;
  answer(&k);
  k.now += 100;
  k.probes = 1;
  CHECK_EQUAL(watch(&k, LOST), -1);
}

/* An hour in which this process was stopped makes nobody silent. */
static void check_looks(void) {
  struct mr_looks looks = {.pause = 100};
  int64_t now = 1000000;
  CHECK(mr_looks_due(&looks, now) && !mr_looks_due(&looks, now + 99));
  int64_t begun = looks.awake;
  for (int i = 0; i < 10; i++)
    CHECK(mr_looks_due(&looks, now += 150));
  CHECK_EQUAL(looks.awake - begun, 1500);
  CHECK(mr_looks_due(&looks, now += 3600000000000));
  CHECK_EQUAL(looks.awake - begun, 1600);
}

int main(void) {
  check_looks();
  check_idle();
  check_dead_host();
  check_dead_and_idle();
  check_outage(204);
  check_outage(240);
  check_outage(290);
  check_bar();
  check_lossy_network();
  check_quick_answers();
  for (int64_t ms = 1000; ms < 5000000; ms *= 3)
    check_stopped(ms);
  check_full();
  check_near_answers();
  check_own_stop();
  return 0;
}
