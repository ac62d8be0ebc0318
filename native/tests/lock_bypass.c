/* Description: max_bypass holds in every real acquisition, and the lock counts what happened.
 *
 * The threads note the order in which they got the lock, as the numbers that they had
 * in the order of arrival.  Who was bypassed how often is then counted from that alone. */
#include <maru/lock.h>

#include "check.h"

#include <pthread.h>

#define THREADS 6

struct scene {
  struct maru_lock *lock;
  uint64_t rounds;
  uint32_t *order; /* arrivals in the order of acquisition; 0: it did not wait */
  uint64_t count;
  _Atomic unsigned asking; /* threads about to ask for the first time */
};

static void *visit(void *argument) {
  struct scene *scene = argument;
  struct maru_hold hold;
  atomic_fetch_add(&scene->asking, 1);
  for (uint64_t i = 0; i < scene->rounds; i++) {
    CHECK_EQUAL(maru_lock_acquire(scene->lock, &hold), 0);
    scene->order[scene->count++] = (uint32_t)hold.own.arrival;
    maru_lock_release(scene->lock, &hold);
  }
  return NULL;
}

/* ---- how many of those before are larger (a Fenwick tree) ---------------- */

static uint64_t count_up_to(const uint32_t *tree, uint32_t number) {
  uint64_t sum = 0;
  for (; number > 0; number &= number - 1)
    sum += tree[number];
  return sum;
}

static void add(uint32_t *tree, uint64_t size, uint64_t number) {
  for (; number <= size; number += number & -number)
    tree[number]++;
}

static uint64_t longest_bypass(const struct scene *scene, uint64_t *waited) {
  uint32_t *tree = calloc(scene->count + 1, sizeof *tree);
  uint64_t longest = 0;
  CHECK(tree != NULL);
  *waited = 0;
  for (uint64_t i = 0; i < scene->count; i++) {
    uint32_t arrival = scene->order[i];
    if (arrival == 0)
      continue;
    CHECK(arrival <= scene->count);
    uint64_t bypassed = *waited - count_up_to(tree, arrival);
    longest = bypassed > longest ? bypassed : longest;
    add(tree, scene->count, arrival);
    (*waited)++;
  }
  free(tree);
  return longest;
}

/* ---- all ---------------------------------------------------------------- */

static void play(const char *text, uint64_t acquisitions) {
  struct maru_lock_options options;
  struct maru_lock_counts counts;
  struct maru_hold hold;
  struct scene scene = {.rounds = acquisitions / THREADS};
  pthread_t threads[THREADS];
  scene.order = calloc(acquisitions, sizeof *scene.order);
  CHECK(scene.order != NULL);
  CHECK_EQUAL(maru_lock_options_parse(&options, text, NULL), 0);
  CHECK_EQUAL(maru_lock_create(&scene.lock, &options), 0);
  CHECK_EQUAL(maru_lock_acquire(scene.lock, &hold), 0); /* so that they meet */
  for (int i = 0; i < THREADS; i++)
    CHECK_EQUAL(pthread_create(&threads[i], NULL, visit, &scene), 0);
  while (atomic_load(&scene.asking) < THREADS)
    usleep(1000);
  usleep(20000);
  maru_lock_release(scene.lock, &hold);
  for (int i = 0; i < THREADS; i++)
    CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  CHECK_EQUAL(scene.count, THREADS * scene.rounds);

  uint64_t waited, longest = longest_bypass(&scene, &waited);
  CHECK_EQUAL(maru_lock_acquire(scene.lock, &hold), 0);
  maru_lock_counts(scene.lock, &counts);
  maru_lock_release(scene.lock, &hold);
  printf("%-44s %llu acquisitions, %llu after a wait, %llu left the socket, longest bypass %llu\n",
         text, (unsigned long long)scene.count, (unsigned long long)waited,
         (unsigned long long)counts.left_socket, (unsigned long long)longest);
  CHECK(waited > 0);
  CHECK_EQUAL(counts.handoffs, waited);
  CHECK_EQUAL(counts.longest_bypass, longest);
  CHECK(longest <= options.max_bypass);
  maru_lock_destroy(scene.lock);
  free(scene.order);
}

int main(void) {
  uint64_t acquisitions = setting("MARU_TEST_ACQUISITIONS", 200000) * setting("MARU_TEST_SCALE", 1);
  CHECK_EQUAL(setenv("MARU_TOPOLOGY", "virtual:3x1", 1), 0);
  play("cna:wait=block,max_bypass=0", acquisitions);
  play("cna:wait=block,max_bypass=1", acquisitions);
  play("cna:wait=block,max_bypass=10", acquisitions);
  play("cna:wait=spin-block,spin=1us,max_bypass=100", acquisitions);
  play("cna:wait=block,handoff_range=16", acquisitions);
  return 0;
}
