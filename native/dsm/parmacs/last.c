#define _GNU_SOURCE
#include "last.h"

#include "../checkpoint.h"

#include <maru/parmacs.h>
#include <stdlib.h>

struct last {
  void (*call)(void *);
  void (*with_status)(int, void *); /* or this */
  void *argument;
  struct last *before;
};

static struct { struct last *objects, *others; /* thread-local ones; they go first */ } lists;
static bool keeps;

static int push(struct last **list, const struct last *last) {
  struct last *kept = maru_parmacs_malloc(sizeof *kept);
  if (kept == NULL)
    return -1;
  *kept = *last;
  kept->before = *list;
  *list = kept;
  return 1;
}

static void pop(struct last **list, int status) {
  const struct last last = **list;
  maru_parmacs_free(*list);
  *list = last.before;
  if (last.call != NULL)
    last.call(last.argument);
  else
    last.with_status(status, last.argument);
}

/* Each may ask for more. */
static void run(int status, void *unused) {
  (void)unused;
  while (lists.objects != NULL || lists.others != NULL)
    pop(lists.objects != NULL ? &lists.objects : &lists.others, status);
}

void mr_last_prepare(void) { keeps = mr_checkpoints_asked() && on_exit(run, NULL) == 0; }

struct mr_range mr_last_state(void) {
  return (struct mr_range){.from = (uint8_t *)&lists, .to = (uint8_t *)(&lists + 1)};
}

int maru_parmacs_at_exit(void (*call)(void *), void *argument) {
  return keeps ? push(&lists.others, &(struct last){.call = call, .argument = argument}) : 0;
}
int maru_parmacs_on_exit(void (*call)(int, void *), void *argument) {
  return keeps ? push(&lists.others, &(struct last){.with_status = call, .argument = argument}) : 0;
}
int maru_parmacs_at_thread_exit(void (*call)(void *), void *object) {
  return keeps ? push(&lists.objects, &(struct last){.call = call, .argument = object}) : 0;
}
