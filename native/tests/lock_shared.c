/* Description: a lock between processes: one at a time, in order, and on after kill -9. */
#define _GNU_SOURCE
#include <maru/lock.h>

#include "check.h"
#include "locks.h"
#include "shared.h"

#include <pthread.h>
#include <stdalign.h>
#include <time.h>

#define PROCESSES 4

/* What the lock protects: `before` and `after` differ while somebody is inside. */
struct scene {
  uint64_t before, after;
  _Atomic uint64_t dead_holders;
  alignas(64) char lock[];
};

struct player {
  struct scene *scene;
  uint64_t rounds; /* 0: without end */
  uint64_t seed;
  int dwell; /* turns of a loop inside */
};

static struct scene *new_scene(const char *text) {
  struct maru_lock_options options;
  void *memory;
  CHECK_EQUAL(mr_shared_map("maru-test", sizeof(struct scene) + maru_shared_lock_size(), &memory),
              0);
  struct scene *scene = memory;
  CHECK_EQUAL(maru_lock_options_parse(&options, text, NULL), 0);
  CHECK_EQUAL(maru_shared_lock_init(scene->lock, &options), 0);
  return scene;
}

static struct maru_shared_lock *attach(struct scene *scene) {
  struct maru_shared_lock *lock;
  CHECK_EQUAL(maru_shared_lock_attach(&lock, scene->lock), 0);
  return lock;
}

/* Every way to ask for it. */
static int ask(struct maru_shared_lock *lock, uint64_t *seed) {
  uint64_t random = next_random(seed) >> 32;
  clockid_t clock = random & 64 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  struct timespec until = in_us(clock, (long)(random >> 8) % 300);
  switch (random % 8) {
  case 0:
    return maru_shared_lock_try(lock);
  case 1:
    return maru_shared_lock_acquire_until(lock, clock, &until);
  default:
    return maru_shared_lock_acquire(lock);
  }
}

/* True: it is ours, and what it protects is whole. */
static bool enter(struct scene *scene, struct maru_shared_lock *lock, uint64_t *seed) {
  int rc = ask(lock, seed);
  if (rc == -EBUSY || rc == -ETIMEDOUT)
    return false;
  if (rc == -EOWNERDEAD) {
    CHECK(scene->before - scene->after <= 1);
    scene->after = scene->before;
    scene->dead_holders++;
    CHECK_EQUAL(maru_shared_lock_consistent(lock), 0);
    return true;
  }
  CHECK_EQUAL(rc, 0);
  CHECK_EQUAL(scene->before, scene->after);
  return true;
}

static void play(void *argument) {
  struct player *self = argument;
  struct maru_shared_lock *lock = attach(self->scene);
  uint64_t entered = 0;
  for (uint64_t i = 0; self->rounds == 0 || i < self->rounds; i++)
    if (enter(self->scene, lock, &self->seed)) {
      entered++;
      self->scene->before++;
      for (volatile int turn = 0; turn < self->dwell; turn++)
        ;
      self->scene->after++;
      CHECK_EQUAL(maru_shared_lock_release(lock), 0);
    }
  CHECK(entered >= self->rounds / 2); /* six of eight wait without a bound */
  maru_shared_lock_detach(lock);
}

static void one_at_a_time(const char *text, uint64_t rounds) {
  struct scene *scene = new_scene(text);
  struct player players[PROCESSES];
  pid_t pids[PROCESSES];
  for (int i = 0; i < PROCESSES; i++) {
    players[i] = (struct player){scene, rounds, 31 + (uint64_t)i, 0};
    pids[i] = start(play, &players[i]);
  }
  for (int i = 0; i < PROCESSES; i++)
    CHECK_EQUAL(finish(pids[i]), 0);
  CHECK_EQUAL(scene->before, scene->after);
  CHECK(scene->before >= PROCESSES * (rounds / 2));
  CHECK_EQUAL(scene->dead_holders, 0);
}

/* Whoever is killed, wherever it was, the others go on. */
static void killed_anywhere(const char *text, uint64_t kills) {
  struct scene *scene = new_scene(text);
  struct player players[PROCESSES];
  pid_t pids[PROCESSES];
  uint64_t seed = setting("MARU_TEST_SEED", 5);
  for (int i = 0; i < PROCESSES; i++) {
    players[i] = (struct player){scene, 0, 41 + (uint64_t)i, 20000};
    pids[i] = start(play, &players[i]);
  }
  for (uint64_t n = 0; n < kills; n++) {
    struct timespec pause = {0, (long)(next_random(&seed) % 3000000)};
    nanosleep(&pause, NULL);
    int victim = (int)(next_random(&seed) % PROCESSES);
    CHECK_EQUAL(kill(pids[victim], SIGKILL), 0);
    int status = finish(pids[victim]);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    /* Somebody gets in: within 100 ms, asserted at twenty times that. */
    uint64_t had = *(volatile uint64_t *)&scene->after;
    int64_t until = maru_now_ns() + INT64_C(2000000000);
    while (*(volatile uint64_t *)&scene->after == had) {
      CHECK(maru_now_ns() < until);
      usleep(100);
    }
    players[victim].seed = next_random(&seed) | 1;
    pids[victim] = start(play, &players[victim]);
  }
  for (int i = 0; i < PROCESSES; i++) {
    kill(pids[i], SIGKILL);
    finish(pids[i]);
  }
  struct maru_shared_lock *lock = attach(scene);
  for (int i = 0; i < 3; i++) {
    int rc = maru_shared_lock_acquire(lock);
    CHECK(rc == 0 || rc == -EOWNERDEAD);
    if (rc == -EOWNERDEAD)
      CHECK_EQUAL(maru_shared_lock_consistent(lock), 0);
    CHECK_EQUAL(maru_shared_lock_release(lock), 0);
  }
  fprintf(stderr, "%s: %llu of %llu were killed inside\n", text,
          (unsigned long long)scene->dead_holders, (unsigned long long)kills);
  maru_shared_lock_detach(lock);
}

/* Waits, says its number under the lock, and leaves. */
struct arrival {
  struct maru_shared_lock *lock;
  int number;
  int socket;
  _Atomic pid_t thread;
  int *order;
  int *said;
};

/* On the machine of main: two sockets of one CPU, by the thread's number. */
static int socket_here(void) { return gettid() % 2; }

static void *arrive(void *argument) {
  struct arrival *self = argument;
  self->socket = socket_here();
  self->thread = gettid();
  CHECK_EQUAL(maru_shared_lock_acquire(self->lock), 0);
  self->order[(*self->said)++] = self->number;
  CHECK_EQUAL(maru_shared_lock_release(self->lock), 0);
  return NULL;
}

#define ARRIVALS 6

static void until_asleep(struct arrival *arrival) {
  char path[64], state = 'R';
  for (; state != 'S'; usleep(100)) {
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)arrival->thread);
    FILE *file = fopen(path, "r");
    if (file == NULL)
      continue; /* it has not begun */
    CHECK_EQUAL(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
  }
}

/* They come one after the other while somebody has it; who gets it first is at order[0].
 * Again where it took so long that somebody has looked by itself. */
static void serve(const char *text, struct arrival arrivals[ARRIVALS], int order[ARRIVALS]) {
  struct maru_shared_lock *lock = attach(new_scene(text));
  struct maru_lock_counts counts, before = {0};
  pthread_t threads[ARRIVALS];
  int64_t began;
  do {
    int said = 0;
    CHECK_EQUAL(maru_shared_lock_acquire(lock), 0);
    began = maru_now_ns();
    for (int i = 0; i < ARRIVALS; i++) {
      arrivals[i] = (struct arrival){.lock = lock, .number = i, .order = order, .said = &said};
      CHECK_EQUAL(pthread_create(&threads[i], NULL, arrive, &arrivals[i]), 0);
      until_asleep(&arrivals[i]);
    }
    usleep(2000);
    maru_shared_lock_counts(lock, &before);
    CHECK_EQUAL(maru_shared_lock_release(lock), 0);
    for (int i = 0; i < ARRIVALS; i++)
      CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  } while (maru_now_ns() - began > 90000000);
  maru_shared_lock_counts(lock, &counts);
  CHECK_EQUAL(counts.handoffs - before.handoffs, ARRIVALS);
  maru_shared_lock_detach(lock);
}

static void by_arrival(const char *text) {
  struct arrival arrivals[ARRIVALS];
  int order[ARRIVALS];
  serve(text, arrivals, order);
  for (int i = 0; i < ARRIVALS; i++)
    CHECK_EQUAL(order[i], i);
}

/* Those of the releaser's socket first, then the others. */
static void by_socket(const char *text) {
  struct arrival arrivals[ARRIVALS];
  int order[ARRIVALS], expected = 0;
  serve(text, arrivals, order);
  for (int turn = 0; turn < 2; turn++)
    for (int i = 0; i < ARRIVALS; i++)
      if ((arrivals[i].socket == socket_here()) == (turn == 0))
        CHECK_EQUAL(order[expected++], i);
}

static void orders(void) {
  by_arrival("mcs");
  by_socket("cna");
  by_arrival("cna:handoff_range=1");
  by_arrival("cna:deadline=1ms"); /* all have waited longer */
}

static void *ask_again(void *lock) {
  CHECK_EQUAL(maru_shared_lock_try(lock), -EBUSY);
  CHECK_EQUAL(maru_shared_lock_release(lock), -EPERM);
  struct timespec until = in_us(CLOCK_MONOTONIC, 1000);
  CHECK_EQUAL(maru_shared_lock_acquire_until(lock, CLOCK_MONOTONIC, &until), -ETIMEDOUT);
  return NULL;
}

static void die_inside(void *scene) {
  maru_shared_lock_acquire(attach(scene));
  raise(SIGKILL);
}

/* Lost for ever, for each thread and however it asks. */
static void *find_it_lost(void *of) {
  struct maru_shared_lock *lock = of;
  struct timespec until = in_us(CLOCK_MONOTONIC, 60000000);
  CHECK_EQUAL(maru_shared_lock_acquire(lock), -ENOTRECOVERABLE);
  CHECK_EQUAL(maru_shared_lock_try(lock), -ENOTRECOVERABLE);
  CHECK_EQUAL(maru_shared_lock_acquire_until(lock, CLOCK_MONOTONIC, &until), -ENOTRECOVERABLE);
  CHECK_EQUAL(maru_shared_lock_consistent(lock), -EINVAL);
  CHECK_EQUAL(maru_shared_lock_release(lock), -EPERM);
  return NULL;
}

static void *mistake_it(void *lock) {
  CHECK_EQUAL(maru_shared_lock_release(lock), -EPERM);
  return NULL;
}

static void run_thread(void *run(void *), struct maru_shared_lock *lock) {
  pthread_t thread;
  CHECK_EQUAL(pthread_create(&thread, NULL, run, lock), 0);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

static void outcomes(const char *text) {
  struct scene *scene = new_scene(text);
  struct maru_shared_lock *lock = attach(scene);
  CHECK_EQUAL(maru_shared_lock_acquire(lock), 0);
  CHECK_EQUAL(maru_shared_lock_acquire(lock), -EDEADLK);
  CHECK_EQUAL(maru_shared_lock_consistent(lock), -EINVAL);
  run_thread(ask_again, lock);
  CHECK_EQUAL(maru_shared_lock_release(lock), 0);
  struct timespec bad = {0, 1000000000};
  CHECK_EQUAL(maru_shared_lock_acquire_until(lock, CLOCK_MONOTONIC, &bad), -EINVAL);
  finish(start(die_inside, scene));
  CHECK_EQUAL(maru_shared_lock_acquire(lock), -EOWNERDEAD);
  run_thread(mistake_it, lock);
  CHECK_EQUAL(maru_shared_lock_consistent(lock), 0);
  CHECK_EQUAL(maru_shared_lock_release(lock), 0);
  CHECK_EQUAL(maru_shared_lock_acquire(lock), 0);
  CHECK_EQUAL(maru_shared_lock_release(lock), 0);
  finish(start(die_inside, scene));
  CHECK_EQUAL(maru_shared_lock_try(lock), -EOWNERDEAD);
  CHECK_EQUAL(maru_shared_lock_release(lock), 0);
  for (int i = 0; i < 3; i++)
    run_thread(find_it_lost, lock);
  find_it_lost(lock);
  maru_shared_lock_detach(lock);
}

static void refusals(void) {
  struct maru_lock_options options;
  struct maru_shared_lock *lock;
  alignas(64) static char nothing[64];
  CHECK_EQUAL(maru_shared_lock_attach(&lock, nothing), -EINVAL);
  CHECK_EQUAL(maru_shared_lock_attach(&lock, nothing + 1), -EINVAL);
  CHECK_EQUAL(maru_lock_options_init(&options, MARU_LOCK_CLH), 0);
  CHECK_EQUAL(maru_shared_lock_init(nothing, &options), -EINVAL);
}

int main(void) {
  uint64_t scale = setting("MARU_TEST_SCALE", 1);
  static const char *const kinds[] = {"pthread", "mcs:wait=block", "mcs", "cna:handoff_range=4",
                                      "cna:wait=spin-block,spin=2us,deadline=50us"};
  CHECK_EQUAL(setenv("MARU_TOPOLOGY", "virtual:2x1", 1), 0);
  refusals();
  outcomes("pthread");
  outcomes("mcs");
  outcomes("cna");
  orders();
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    one_at_a_time(kinds[i], 3000 * scale);
    killed_anywhere(kinds[i], 60 * scale);
  }
  return 0;
}
