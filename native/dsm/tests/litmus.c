/* litmus: the classic small programs on a whole job, with random delays. No outcome that sequential
 * consistency forbids, by locks, by barriers and by flags. Bytes of one page, and of one word, that
 * different nodes write at the same time.
 *
 *     maru-launch -n 4 -- dsm-litmus ITERATIONS SEED
 *
 * Variables lie in one block of 64 bytes, in one page, or in two pages.  An iteration's value is
 * its round's number, so nothing has to be reset; BATCH iterations run between two barriers.  Every
 * node tells what it read, and node 0 judges.
 */
#define _GNU_SOURCE
#include <maru/dsm.h>

#include "check.h"

#include <sched.h>
#include <unistd.h>

#define NODES 4u
#define BATCH 32u
#define BYTES 8192u
#define PAGE 4096u
#define WORD_TURNS 16u

enum test { MP, SB, LB, WRC, IRIW, TESTS };
static const char *const names[TESTS] = {"MP", "SB", "LB", "WRC", "IRIW"};
enum order { BY_LOCKS, BY_BARRIERS, ORDERS };

struct report {
  int64_t r[BATCH][2];
};

static uint32_t me;
static uint64_t state;
static int64_t *x[BATCH], *y[BATCH];
static struct report *reports[NODES];
static uint8_t *bytes, *word;

static uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
  return value ^ (value >> 31);
}

/* Mostly nothing; sometimes a while; now and then another process's turn. */
static void delay(void) {
  uint64_t draw = mix(state++);
  if (draw % 64 == 0)
    usleep((useconds_t)(draw >> 32) % 200);
  else if (draw % 8 == 0)
    sched_yield();
  else if (draw % 2 == 0)
    for (volatile uint32_t i = (uint32_t)(draw >> 32) % 2000; i > 0; i--)
      ;
}

static int64_t get(int64_t *const *variable, uint32_t k, enum order order) {
  uint32_t lock = 2 * k + (variable == y);
  delay();
  if (order == BY_LOCKS)
    maru_dsm_lock(lock);
  int64_t value = *variable[k];
  if (order == BY_LOCKS)
    maru_dsm_unlock(lock);
  return value;
}

static void set(int64_t *const *variable, uint32_t k, enum order order, int64_t value) {
  uint32_t lock = 2 * k + (variable == y);
  delay();
  if (order == BY_LOCKS)
    maru_dsm_lock(lock);
  *variable[k] = value;
  if (order == BY_LOCKS)
    maru_dsm_unlock(lock);
}

/* One node's part of a test is at most two steps; barriers, where they order, come between. */
static int64_t step(enum test test, uint32_t k, enum order order, int64_t value, int number) {
  switch (10 * (10 * (int)test + (int)me) + number) {
  case 10 * (10 * MP + 0) + 0:
  case 10 * (10 * SB + 0) + 0:
  case 10 * (10 * WRC + 0) + 0:
  case 10 * (10 * IRIW + 0) + 0:
  case 10 * (10 * LB + 1) + 1:
    set(x, k, order, value);
    return value;
  case 10 * (10 * MP + 0) + 1:
  case 10 * (10 * SB + 1) + 0:
  case 10 * (10 * LB + 0) + 1:
  case 10 * (10 * WRC + 1) + 1:
  case 10 * (10 * IRIW + 1) + 0:
    set(y, k, order, value);
    return value;
  case 10 * (10 * MP + 1) + 0:
  case 10 * (10 * SB + 0) + 1:
  case 10 * (10 * LB + 1) + 0:
  case 10 * (10 * WRC + 2) + 0:
  case 10 * (10 * IRIW + 2) + 1:
  case 10 * (10 * IRIW + 3) + 0:
    return get(y, k, order);
  case 10 * (10 * MP + 1) + 1:
  case 10 * (10 * SB + 1) + 1:
  case 10 * (10 * LB + 0) + 0:
  case 10 * (10 * WRC + 1) + 0:
  case 10 * (10 * WRC + 2) + 1:
  case 10 * (10 * IRIW + 2) + 0:
  case 10 * (10 * IRIW + 3) + 1:
    return get(x, k, order);
  default:
    return value;
  }
}

/* What locks forbid. */
static bool forbidden(enum test test, uint32_t k, int64_t now) {
#define R(node, number) (reports[node]->r[k][number] == now)
  switch (test) {
  case MP:
    return R(1, 0) && !R(1, 1);
  case SB:
    return !R(0, 1) && !R(1, 1);
  case LB:
    return R(0, 0) && R(1, 0);
  case WRC:
    return R(1, 0) && R(2, 0) && !R(2, 1);
  default:
    return R(2, 0) && !R(2, 1) && R(3, 0) && !R(3, 1);
  }
#undef R
}

static void judge(enum test test, int64_t now) {
  for (uint32_t k = 0; k < BATCH; k++) {
    for (uint32_t node = 0; node < NODES; node++)
      for (int number = 0; number < 2; number++)
        /* by_flags changes but one instance. */
        CHECK(reports[node]->r[k][number] <= now && reports[node]->r[k][number] >= now - 2);
    if (forbidden(test, k, now)) {
      fprintf(stderr, "%s: forbidden outcome, instance %u, round %lld\n", names[test], k,
              (long long)now);
      abort();
    }
  }
}

static void by_locks(enum test test, int64_t now) {
  for (uint32_t k = 0; k < BATCH; k++)
    for (int number = 0; number < 2; number++)
      reports[me]->r[k][number] = step(test, k, BY_LOCKS, now, number);
  maru_dsm_barrier(0);
  if (me == 0)
    judge(test, now);
  /* The next test finds both variables as this round leaves them. */
  for (uint32_t k = me; k < BATCH; k += NODES) {
    *x[k] = now;
    *y[k] = now;
  }
  maru_dsm_barrier(0);
}

/* All write, then all read: exact values. */
static void by_barriers(int64_t now) {
  uint32_t writer = (uint32_t)mix((uint64_t)now) % NODES;
  for (uint32_t k = 0; k < BATCH; k++) {
    if ((k + writer) % NODES == me)
      set(x, k, BY_BARRIERS, now);
    if ((k + writer + 1) % NODES == me)
      set(y, k, BY_BARRIERS, now);
  }
  maru_dsm_barrier(1);
  for (uint32_t k = 0; k < BATCH; k++) {
    CHECK_EQUAL(get(x, k, BY_BARRIERS), now);
    CHECK_EQUAL(get(y, k, BY_BARRIERS), now);
  }
  maru_dsm_barrier(1);
}

/* Message passing without a lock: a flag, a semaphore. */
static void by_flags(int64_t now) {
  uint32_t from = (uint32_t)now % NODES, to = (from + 1) % NODES;
  delay();
  if (me == from) {
    *x[0] = now;
    maru_dsm_flag_set(1, now);
    *y[0] = now;
    maru_dsm_semaphore_post(1, NODES - 1);
  } else {
    if (me == to) {
      maru_dsm_flag_await(1, now);
      CHECK_EQUAL(*x[0], now);
    }
    maru_dsm_semaphore_wait(1);
    CHECK_EQUAL(*y[0], now);
  }
  maru_dsm_barrier(2);
}

/* Every byte has another writer in each round. */
static void every_byte(int64_t now) {
  uint64_t salt = mix((uint64_t)now);
  for (uint32_t i = 0; i < BYTES; i++)
    if (mix(salt + i) % NODES == me)
      bytes[i] = (uint8_t)mix(salt ^ i);
  delay();
  maru_dsm_barrier(3);
  for (uint32_t i = 0; i < BYTES; i++)
    CHECK_EQUAL(bytes[i], (uint8_t)mix(salt ^ i));
  delay();
  maru_dsm_barrier(3);
}

/* Eight bytes of one word, each with a lock of its own. */
static void bytes_of_a_word(int64_t now) {
  for (uint32_t turn = 0; turn < WORD_TURNS; turn++) {
    uint32_t i = (uint32_t)mix(state++) % 8;
    i = (i + turn) % 8;
    delay();
    maru_dsm_lock(1000 + i);
    word[i]++;
    maru_dsm_unlock(1000 + i);
    maru_dsm_fetch_add(1000 + i, 1);
  }
  maru_dsm_barrier(4);
  for (uint32_t i = 0; i < 8; i++)
    CHECK_EQUAL(word[i], (uint8_t)maru_dsm_fetch_add(1000 + i, 0));
  maru_dsm_barrier(4);
  (void)now;
}

/* x and y of instance k: in one block, in one page, in two pages. */
static void place(void) {
  uint8_t *base = maru_dsm_alloc(2 * BATCH * PAGE);
  CHECK(base != NULL);
  for (uint32_t k = 0; k < BATCH; k++) {
    uint8_t *at = base + 2 * k * PAGE;
    static const uint32_t distance[3] = {8, 2048, PAGE};
    x[k] = (int64_t *)(at + 64);
    y[k] = (int64_t *)(at + 64 + distance[k % 3]);
  }
  for (uint32_t node = 0; node < NODES; node++)
    CHECK((reports[node] = maru_dsm_alloc(sizeof *reports[node])) != NULL);
  CHECK((bytes = maru_dsm_alloc(BYTES)) != NULL);
  CHECK((word = maru_dsm_alloc(8)) != NULL);
}

int main(int count, char **arguments) {
  CHECK(count == 3);
  long iterations = atol(arguments[1]);
  maru_dsm_init();
  CHECK_EQUAL(maru_dsm_nodes(), NODES);
  me = maru_dsm_node();
  state = mix((uint64_t)atol(arguments[2]) * 1000 + me);
  place();
  int64_t now = 0;
  for (long done = 0; done < iterations; done += BATCH) {
    for (int test = 0; test < TESTS; test++)
      by_locks((enum test)test, ++now);
    by_barriers(++now);
    by_flags(++now);
    every_byte(now);
    bytes_of_a_word(now);
  }
  if (me == 0)
    printf("%ld iterations, seed %s\n", (iterations + BATCH - 1) / BATCH * BATCH, arguments[2]);
  maru_dsm_exit();
  return 0;
}
