#define _GNU_SOURCE
#include "last.h"

#include "../checkpoint.h"

#include <maru/parmacs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct last {
  void (*call)(void *);
  void (*with_status)(int, void *); /* or this */
  void *argument;
  struct last *before;
};

static struct { struct last *objects, *others; /* thread-local ones; they go first */ } lists;
static bool keeps;
static pid_t program; /* its thread */

/* Libc's. */
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle;

static bool take(struct last **list, const struct last *wanted, struct last *taken) {
  for (; *list != NULL; list = &(*list)->before) {
    struct last *found = *list;
    if (wanted != NULL && found != wanted)
      continue;
    *taken = *found;
    *list = found->before;
    maru_parmacs_free(found);
    return true;
  }
  return false;
}

static void call(const struct last *last, int status) {
  if (last->call != NULL)
    last->call(last->argument);
  else
    last->with_status(status, last->argument);
}

/* Libc calls each in its order among those of libraries. One of a created process that has ended is
 * none any more. */
static void run_one(int status, void *item) {
  struct last last;
  if (take(&lists.others, item, &last))
    call(&last, status);
}
static void destroy_one(void *item) {
  struct last last;
  if (take(&lists.objects, item, &last))
    call(&last, 0);
}

/* Those that another process asked for, in whose place this one is: libc does not know them. */
static void run_rest(int status, void *unused) {
  struct last last;
  (void)unused;
  while (take(&lists.objects, NULL, &last) || take(&lists.others, NULL, &last))
    call(&last, status);
}

static int push(struct last **list, const struct last *last) {
  struct last *kept = maru_parmacs_malloc(sizeof *kept);
  if (kept == NULL)
    return -1;
  *kept = *last;
  kept->before = *list;
  int rc = list == &lists.others ? on_exit(run_one, kept)
                                 : __cxa_thread_atexit_impl(destroy_one, kept, &__dso_handle);
  if (rc != 0) {
    maru_parmacs_free(kept);
    return -1;
  }
  *list = kept;
  return 1;
}

/* A thread of a library's has its own, and nobody locks the lists. */
static bool is_ours(void) { return keeps && gettid() == program; }

void mr_last_prepare(void) {
  program = gettid();
  keeps = mr_checkpoints_asked() && on_exit(run_rest, NULL) == 0;
}

void mr_last_forget(void) { lists.objects = lists.others = NULL; }

struct mr_range mr_last_state(void) {
  return (struct mr_range){.from = (uint8_t *)&lists, .to = (uint8_t *)(&lists + 1)};
}

int maru_parmacs_at_exit(void (*call)(void *), void *argument) {
  return is_ours() ? push(&lists.others, &(struct last){.call = call, .argument = argument}) : 0;
}
int maru_parmacs_on_exit(void (*call)(int, void *), void *argument) {
  return is_ours() ? push(&lists.others, &(struct last){.with_status = call, .argument = argument})
                   : 0;
}
int maru_parmacs_at_thread_exit(void (*call)(void *), void *object) {
  return is_ours() ? push(&lists.objects, &(struct last){.call = call, .argument = object}) : 0;
}
