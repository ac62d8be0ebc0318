/* Description: one thread of many always runs, each sleeps nearly always: that is no end. Turns go
 * by semaphores, then by pipes; one takes from no time to longer than a look. */
#include "check.h"
#include "waits.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#define THREADS 6
#define LOOKS 4000 /* by each of the two */

struct place {
  sem_t turn;
  int pipe[2];
  bool by_pipe;
};

static struct place by_semaphore[THREADS], by_pipe[THREADS];
static atomic_bool kept; /* the thread that has the turn keeps it: all sleep */

static void spend(uint64_t ns) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t end = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + ns;
  while ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec < end)
    clock_gettime(CLOCK_MONOTONIC, &now);
}

static void await_turn(struct place *place) {
  char turn;
  if (place->by_pipe)
    CHECK_EQUAL(read(place->pipe[0], &turn, 1), 1);
  else
    while (sem_wait(&place->turn) != 0)
      CHECK_EQUAL(errno, EINTR);
}

static void give_turn(struct place *place) {
  if (place->by_pipe)
    CHECK_EQUAL(write(place->pipe[1], "", 1), 1);
  else
    CHECK_EQUAL(sem_post(&place->turn), 0);
}

static struct place *random_place(const struct place *own, uint64_t *seed) {
  return (own->by_pipe ? by_pipe : by_semaphore) + next_random(seed) % THREADS;
}

/* The turn goes from one to the next for ever. */
static void *take_turns(void *argument) {
  struct place *own = argument;
  uint64_t seed = (uint64_t)(own - (own->by_pipe ? by_pipe : by_semaphore)) + 1;
  for (;;) {
    await_turn(own);
    spend(next_random(&seed) % 200000);
    if (!atomic_load(&kept))
      give_turn(random_place(own, &seed));
  }
  return NULL;
}

static void start_threads(struct place *places, bool pipes) {
  pthread_t thread;
  for (int i = 0; i < THREADS; i++) {
    places[i].by_pipe = pipes;
    CHECK_EQUAL(sem_init(&places[i].turn, 0, 0), 0);
    CHECK_EQUAL(pipe(places[i].pipe), 0);
  }
  for (int i = 0; i < THREADS; i++)
    CHECK_EQUAL(pthread_create(&thread, NULL, take_turns, &places[i]), 0);
}

/* Those of an earlier scene sleep for good. */
static void never_ends_until_kept(struct place *places, bool pipes) {
  struct maru_own own;
  start_threads(places, pipes);
  CHECK_EQUAL(maru_own_note(&own), 0);
  atomic_store(&kept, false);
  give_turn(&places[0]);
  for (int i = 0; i < LOOKS; i++) {
    snprintf(check_note, sizeof check_note, "(%s, look %d)", pipes ? "pipes" : "semaphores", i);
    CHECK(!maru_waits_are_endless(&own, 0));
  }
  atomic_store(&kept, true);
  /* The limit of the test is that of the wait. */
  while (!maru_waits_are_endless(&own, 0))
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

int main(void) {
  if (maru_waits_visible() < 0)
    skip("the kernel does not tell what threads wait for");
  never_ends_until_kept(by_semaphore, false);
  never_ends_until_kept(by_pipe, true);
  return 0;
}
