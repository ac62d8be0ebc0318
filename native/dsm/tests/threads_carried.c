/* threads_carried.c: what threads take along to their nodes.  Built by the system's compiler and by
 * maru-cc, it prints the same. */
#define _GNU_SOURCE
#include <locale.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void require(int holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
  }
}

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value != NULL ? value : "none";
}

static void *tell(void *who) {
  char folder[256];
  mode_t mask = umask(0);
  umask(mask);
  printf("%s: in %s, mask %o, locale %s, %s %s %s\n", (const char *)who,
         getcwd(folder, sizeof folder), (unsigned)mask, setlocale(LC_ALL, NULL), variable("ONE"),
         variable("TWO"), variable("PATH"));
  return NULL;
}

static void let_tell(const char *who) {
  pthread_t id;
  pthread_create(&id, NULL, tell, (void *)who);
  pthread_join(id, NULL);
}

static void *change_more(void *unused) {
  tell("who changes");
  require(chdir("/usr") == 0 && unsetenv("PATH") == 0, "a thread changes what it took along");
  let_tell("who is created by a thread");
  return unused;
}

/* It changes another piece than main does meanwhile, and tells nothing old of main's. */
static sem_t began, goes_on;
static void *change_beside(void *unused) {
  sem_post(&began);
  sem_wait(&goes_on);
  umask(033);
  let_tell("who is created beside main");
  return unused;
}
static void change_both(void) {
  pthread_t id;
  sem_init(&began, 0, 0);
  sem_init(&goes_on, 0, 0);
  require(setenv("ONE", "old", 1) == 0, "main changes a variable");
  pthread_create(&id, NULL, change_beside, NULL);
  sem_wait(&began);
  require(setenv("ONE", "new", 1) == 0, "and changes it while a thread runs");
  let_tell("who is created meanwhile");
  sem_post(&goes_on);
  pthread_join(id, NULL);
  let_tell("who is created then");
  printf("main has %s\n", variable("ONE"));
}

int main(void) {
  static char two[] = "TWO=second";
  pthread_t id;
  umask(027);
  require(chdir("/") == 0 && setlocale(LC_ALL, "C.UTF-8") != NULL, "main changes what it has");
  require(setenv("ONE", "first", 1) == 0 && putenv(two) == 0, "main changes its environment");
  let_tell("first");
  require(setenv("ONE", "changed", 1) == 0 && unsetenv("TWO") == 0, "and again");
  let_tell("second");
  pthread_create(&id, NULL, change_more, NULL);
  pthread_join(id, NULL);
  change_both();
  require(clearenv() == 0 && setenv("TWO", "again", 1) == 0, "main forgets its environment");
  let_tell("last");
  return 0;
}
