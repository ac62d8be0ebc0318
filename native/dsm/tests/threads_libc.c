/* threads_libc.c: what libc answers and makes, threads on other nodes see as well: errors of locks
 * and waits, regular expressions, paths. Built by the system's compiler and by maru-cc, it prints
 * the same.
 *
 *     threads_libc
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <regex.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void require(int holds, const char *what) {
  if (holds)
    return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}

/* ---- answers ------------------------------------------------------------------------------ */

static pthread_rwlock_t plain = PTHREAD_RWLOCK_INITIALIZER;

/* More nanoseconds than a second has. */
static void no_time(void) {
  struct timespec end = {.tv_nsec = 1000000000};
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  sem_t some;
  pthread_mutex_lock(&mutex);
  require(pthread_cond_timedwait(&never, &mutex, &end) == EINVAL, "pthread_cond_timedwait");
  require(pthread_mutex_timedlock(&mutex, &end) == EINVAL, "pthread_mutex_timedlock");
  pthread_mutex_unlock(&mutex);
  require(pthread_rwlock_timedrdlock(&plain, &end) == EINVAL, "pthread_rwlock_timedrdlock");
  require(sem_init(&some, 0, (unsigned)SEM_VALUE_MAX + 1) == -1 && errno == EINVAL, "sem_init");
  require(sem_init(&some, 0, 1) == 0 && sem_timedwait(&some, &end) == -1 && errno == EINVAL,
          "sem_timedwait");
}

static void *lock_twice(void *unused) {
  struct timespec end = {.tv_sec = 0};
  pthread_rwlock_wrlock(&plain);
  require(pthread_rwlock_wrlock(&plain) == EDEADLK && pthread_rwlock_rdlock(&plain) == EDEADLK &&
              pthread_rwlock_timedwrlock(&plain, &end) == EDEADLK &&
              pthread_rwlock_trywrlock(&plain) == EBUSY,
          "the writer locks again");
  pthread_rwlock_unlock(&plain);
  require(pthread_rwlock_trywrlock(&plain) == 0 && pthread_rwlock_unlock(&plain) == 0,
          "it was unlocked");
  return unused;
}

static void answers(void) {
  pthread_t id;
  no_time();
  pthread_create(&id, NULL, lock_twice, NULL);
  pthread_join(id, NULL);
  lock_twice(NULL);
  printf("answers\n");
}

/* ---- what libc makes for the program -------------------------------------------------------- */

static regex_t expression;
static regmatch_t found[2];
static char *paths[4];

static void *match(void *unused) {
  require(regexec(&expression, "thread number 17", 2, found, 0) == 0, "it matches on each node");
  require(regexec(&expression, "thread", 0, NULL, 0) == REG_NOMATCH, "and not what it should not");
  regfree(&expression);
  require(regcomp(&expression, "^[a-f]+$", REG_EXTENDED | REG_ICASE) == 0, "regcomp");
  paths[0] = realpath("/tmp/..", NULL);
  paths[1] = canonicalize_file_name("/dev/../etc");
  paths[2] = getcwd(NULL, 0);
  paths[3] = get_current_dir_name();
  return unused;
}

static void made(void) {
  char room[PATH_MAX];
  for (int round = 0; round < 3; round++) {
    pthread_t id;
    require(regcomp(&expression, "number ([0-9]+)$", REG_EXTENDED) == 0 && expression.re_nsub == 1,
            "regcomp");
    require(regexec(&expression, "number 4", 0, NULL, 0) == 0, "it matches where it was made");
    pthread_create(&id, NULL, match, NULL);
    pthread_join(id, NULL);
    require(found[1].rm_so == 14 && found[1].rm_eo == 16, "where it matched");
    require(regexec(&expression, "BEAD", 0, NULL, 0) == 0 &&
                regexec(&expression, "number 4", 0, NULL, 0) == REG_NOMATCH,
            "another expression, of another thread");
    regfree(&expression);
    require(getcwd(room, sizeof room) == room && strcmp(paths[2], room) == 0 &&
                strcmp(paths[3], room) == 0,
            "the working directory that a thread asked for");
    require(strcmp(paths[0], "/") == 0 && strcmp(paths[1], "/etc") == 0, "a thread's paths");
    for (int i = 0; i < 4; i++)
      free(paths[i]);
  }
  require(regcomp(&expression, "a(", REG_EXTENDED) == REG_EPAREN, "no expression");
  require(realpath("/no/such", NULL) == NULL && errno == ENOENT, "no path");
  printf("made\n");
}

int main(void) {
  answers();
  made();
}
