/* Description: a threaded program whose use of its mutexes is known, for the profile.
 *
 * usage: profiled SCENE, one of those at the end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 6000

pthread_mutex_t known_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t known_condition = PTHREAD_COND_INITIALIZER;
static int turn;

/* Each with a call site of its own. */
__attribute__((noinline)) void takes_often(void) {
  pthread_mutex_lock(&known_mutex);
  pthread_mutex_unlock(&known_mutex);
}

__attribute__((noinline)) void takes_seldom(void) {
  pthread_mutex_lock(&known_mutex);
  pthread_mutex_unlock(&known_mutex);
}

__attribute__((noinline)) void tries(void) {
  if (pthread_mutex_trylock(&known_mutex) == 0)
    pthread_mutex_unlock(&known_mutex);
}

__attribute__((noinline)) void holds_long(void) {
  pthread_mutex_lock(&known_mutex);
  usleep(10000);
  pthread_mutex_unlock(&known_mutex);
}

__attribute__((noinline)) void waits_long(int number) {
  pthread_mutex_lock(&known_mutex);
  while (turn != number)
    pthread_cond_wait(&known_condition, &known_mutex);
  turn = !turn;
  pthread_cond_signal(&known_condition);
  pthread_mutex_unlock(&known_mutex);
}

__attribute__((noinline)) void waits_until(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_nsec += 1000;
  pthread_mutex_clocklock(&known_mutex, CLOCK_MONOTONIC, &at);
  pthread_mutex_unlock(&known_mutex);
}

/* Wrappers, as libraries have them: one of its own, and one around it. */
static __attribute__((noinline, noclone)) int wraps(pthread_mutex_t *mutex) {
  int rc = pthread_mutex_lock(mutex);
  __asm__ volatile("" ::: "memory"); /* no tail call */
  return rc;
}

__attribute__((noinline, noclone)) int wraps_again(pthread_mutex_t *mutex) {
  int rc = wraps(mutex);
  __asm__ volatile("" ::: "memory");
  return rc;
}

__attribute__((noinline)) void takes_wrapped(void) {
  wraps(&known_mutex);
  pthread_mutex_unlock(&known_mutex);
}

__attribute__((noinline)) void takes_twice_wrapped(void) {
  wraps_again(&known_mutex);
  pthread_mutex_unlock(&known_mutex);
}

static void wrapped(void) {
  for (int i = 0; i < 30; i++) {
    takes_wrapped();
    if (i % 3 == 0)
      takes_twice_wrapped();
    if (i % 10 == 0)
      takes_often();
  }
}

/* All keys that a program can have. */
static void takes_all_keys(void) {
  pthread_key_t key;
  int taken = 0;
  takes_often();
  while (pthread_key_create(&key, NULL) == 0)
    taken++;
  printf("%d keys\n", taken);
  takes_often();
}

static void together(void *(*run)(void *)) {
  pthread_t ids[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    pthread_create(&ids[i], NULL, run, (void *)i);
  for (int i = 0; i < THREADS; i++)
    pthread_join(ids[i], NULL);
}

static void *counts(void *unused) {
  for (int i = 0; i < ROUNDS; i++) {
    takes_often();
    if (i % 10 == 0)
      takes_seldom();
  }
  return unused;
}

static void known(void) {
  together(counts);
  tries();
  waits_until();
}

static void holds(void) {
  for (int i = 0; i < 10; i++)
    holds_long();
}

static void *takes_turns(void *number) {
  for (int i = 0; i < 50; i++)
    waits_long((int)((uintptr_t)number % 2));
  return NULL;
}

static void condition(void) {
  pthread_t ids[2];
  for (uintptr_t i = 0; i < 2; i++)
    pthread_create(&ids[i], NULL, takes_turns, (void *)i);
  for (int i = 0; i < 2; i++)
    pthread_join(ids[i], NULL);
}

/* Held for 20 ms, the inner hold for 10 of them. */
__attribute__((noinline)) void holds_twice(void) {
  pthread_mutex_lock(&known_mutex);
  pthread_mutex_lock(&known_mutex);
  pthread_mutex_trylock(&known_mutex);
  usleep(10000);
  pthread_mutex_unlock(&known_mutex);
  pthread_mutex_unlock(&known_mutex);
  usleep(10000);
  pthread_mutex_unlock(&known_mutex);
}

static void recursive(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&known_mutex, &attributes);
  for (int i = 0; i < 10; i++)
    holds_twice();
}

static void refused(void) {
  takes_often();
  pthread_mutex_lock(&known_mutex);
  for (int i = 0; i < 3; i++)
    tries();
  pthread_mutex_unlock(&known_mutex);
}

static void forks(void) {
  takes_often();
  pid_t child = fork();
  if (child == 0) {
    counts(NULL);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static void killed(void) {
  together(counts);
  kill(getpid(), SIGKILL);
}

static void again(void) {
  together(counts);
  execl("/proc/self/exe", "profiled", "known", (char *)NULL);
}

/* As daemons do; whose first process waits until the last is through. */
static void daemonises(void) {
  int ends[2];
  char nothing;
  if (pipe(ends) != 0)
    return;
  if (fork() == 0) {
    setsid();
    if (fork() != 0 || chdir("/") != 0 || dup2(ends[1], 0) != 0)
      _exit(0);
    closefrom(3);
    together(counts);
    execl("/proc/self/exe", "profiled", "known", (char *)NULL);
    _exit(1);
  }
  close(ends[1]);
  (void)!read(ends[0], &nothing, 1);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*play)(void);
  } scenes[] = {{"known", known},         {"holds", holds},      {"condition", condition},
                {"recursive", recursive}, {"refused", refused},  {"forks", forks},
                {"killed", killed},       {"wrapped", wrapped},  {"keys", takes_all_keys},
                {"again", again},         {"daemon", daemonises}};
  for (size_t i = 0; argc == 2 && i < sizeof scenes / sizeof *scenes; i++)
    if (strcmp(argv[1], scenes[i].name) == 0) {
      scenes[i].play();
      return 0;
    }
  fprintf(stderr, "profiled: a scene is needed\n");
  return 64;
}
