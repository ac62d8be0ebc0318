#define _GNU_SOURCE
#include "watch.h"

#include "node.h"

#include <errno.h>
#include <maru/wait.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define PERIOD_NS INT64_C(1000000000)

struct mr_watch {
  pthread_t thread;
  void (*look)(void);
  MARU_ATOMIC(uint32_t) stopped; /* maru_wait's: one step when it is to stop */
};

static void *watch_on(void *argument) {
  struct mr_watch *watch = argument;
  struct maru_wait_policy policy;
  maru_wait_policy_init(&policy, MARU_WAIT_BLOCK);
  for (;;) {
    int rc = maru_wait(&watch->stopped, MARU_WAIT_STEP, MARU_WAIT_STEP, &policy,
                       maru_now_ns() + PERIOD_NS);
    if (rc == 0)
      return NULL;
    if (rc == -ETIMEDOUT)
      watch->look();
  }
}

int mr_watch_start(struct mr_watch **watch, void (*look)(void)) {
  struct mr_watch *w = calloc(1, sizeof *w);
  sigset_t every, before;
  if (w == NULL)
    return -ENOMEM;
  w->look = look;
  sigfillset(&every);
  /* Signals are for the program's thread. */
  pthread_sigmask(SIG_SETMASK, &every, &before);
  int rc = pthread_create(&w->thread, NULL, watch_on, w);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (rc != 0)
    free(w);
  else
    *watch = w;
  return -rc;
}

void mr_watch_stop(struct mr_watch *watch) {
  maru_notify(&watch->stopped);
  pthread_join(watch->thread, NULL);
  free(watch);
}

/* ---- words ------------------------------------------------------------------------- */

struct text {
  char *at;
  size_t left;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text->at, text->left, format, arguments);
  va_end(arguments);
  size_t more = length < 0 ? 0 : (size_t)length < text->left ? (size_t)length : text->left - 1;
  text->at += more;
  text->left -= more;
}

static void add_object(struct text *text, const struct mr_wait *wait) {
  static const char *const kinds[] = {"lock",      "barrier", "counter",
                                      "semaphore", "flag",    "condition"};
  uint32_t id = wait->id;
  if (wait->op == 0)
    add(text, "a page");
  else if (id < MR_LEAVING)
    add(text, "%s %u", kinds[id / MARU_DSM_IDS], id % MARU_DSM_IDS);
  else if (id == MR_LEAVING)
    add(text, "the others' end");
  else if (id >= MR_ENDED)
    add(text, "the end of a process that it created");
  else if (id >= MR_START)
    add(text, "a process to run");
  else
    add(text, "the others"); /* to begin, or to take an image */
}

static bool alike(const struct mr_wait *a, const struct mr_wait *b) {
  bool idle = a->id >= MR_START && b->id >= MR_START && a->id < MR_ENDED && b->id < MR_ENDED;
  return (a->op == b->op && a->id == b->id) || idle;
}

/* Those that wait as `first` does: "1-3,5". */
static void add_nodes(struct text *text, const struct mr_wait *waits, uint16_t nodes,
                      uint16_t first) {
  for (uint16_t from = first, to; from < nodes; from = to) {
    for (to = from; to < nodes && alike(&waits[to], &waits[first]); to++)
      ;
    if (to == from) {
      to++;
      continue;
    }
    add(text, from == first ? "%u" : ",%u", from);
    if (to > from + 1)
      add(text, "-%u", to - 1u);
  }
}

static bool is_first(const struct mr_wait *waits, uint16_t q) {
  for (uint16_t before = 0; before < q; before++)
    if (alike(&waits[before], &waits[q]))
      return false;
  return true;
}

void mr_watch_words(const struct mr_wait *waits, uint16_t nodes, char *words, size_t size) {
  struct text text = {words, size};
  for (uint16_t q = 0; q < nodes; q++)
    if (is_first(waits, q)) {
      add(&text, "%s", q == 0 ? "" : "; ");
      add_nodes(&text, waits, nodes, q);
      add(&text, " for ");
      add_object(&text, &waits[q]);
    }
  if (text.left <= 1 && size >= sizeof "...")
    snprintf(words + size - sizeof "...", sizeof "...", "...");
}
