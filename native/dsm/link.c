#define _GNU_SOURCE
#include "link.h"

#include <errno.h>
#include <maru/wait.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NEAR_NS 100000

struct message {
  struct message *next;
  int64_t due;
  uint16_t to;
  size_t length;
  uint8_t bytes[];
};

struct mr_link {
  pthread_mutex_t *lock;
  pthread_cond_t changed; /* something came, all is sent, or it closes */
  pthread_t thread;
  mr_link_send_now *send;
  int64_t latency_ns;
  double ns_per_byte, card_free_at;
  struct message *first, *last;
  bool closing;
};

static void await_time(int64_t due) {
  int64_t left = due - maru_now_ns() - NEAR_NS;
  struct timespec nap = {left / 1000000000, left % 1000000000};
  if (left > 0)
    nanosleep(&nap, NULL);
  while (maru_now_ns() < due)
    sched_yield();
}

static void *carry(void *argument) {
  struct mr_link *link = argument;
  pthread_mutex_lock(link->lock);
  for (;;) {
    struct message *message = link->first;
    if (message == NULL && link->closing)
      break;
    if (message == NULL) {
      pthread_cond_wait(&link->changed, link->lock);
      continue;
    }
    if (maru_now_ns() < message->due) {
      pthread_mutex_unlock(link->lock);
      await_time(message->due);
      pthread_mutex_lock(link->lock);
    }
    link->first = message->next;
    link->send(message->to, message->bytes, message->length);
    free(message);
    if (link->first == NULL)
      pthread_cond_broadcast(&link->changed);
  }
  pthread_mutex_unlock(link->lock);
  return NULL;
}

int mr_link_create(struct mr_link **link, pthread_mutex_t *lock, mr_link_send_now *send) {
  const char *text = getenv("MARU_DSM_LINK");
  unsigned latency, ps;
  int used = 0;
  *link = NULL;
  if (text == NULL)
    return 0;
  if (sscanf(text, "%9u,%9u%n", &latency, &ps, &used) != 2 || text[used] != 0 ||
      strchr(text, '-') != NULL)
    return -EINVAL;
  struct mr_link *l = calloc(1, sizeof *l);
  if (l == NULL)
    return -ENOMEM;
  l->lock = lock;
  l->send = send;
  l->latency_ns = latency;
  l->ns_per_byte = ps / 1e3;
  pthread_cond_init(&l->changed, NULL);
  sigset_t every, before;
  sigfillset(&every);
  /* Signals are for the program's thread. */
  pthread_sigmask(SIG_SETMASK, &every, &before);
  int rc = pthread_create(&l->thread, NULL, carry, l);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (rc != 0) {
    pthread_cond_destroy(&l->changed);
    free(l);
    return -rc;
  }
  *link = l;
  return 0;
}

int mr_link_send(struct mr_link *link, uint16_t to, const void *bytes, size_t length) {
  struct message *message = malloc(sizeof *message + length);
  if (message == NULL)
    return -ENOMEM;
  double now = (double)maru_now_ns();
  double leaves = now > link->card_free_at ? now : link->card_free_at;
  link->card_free_at = leaves + link->ns_per_byte * (double)length;
  *message = (struct message){
      .due = (int64_t)link->card_free_at + link->latency_ns, .to = to, .length = length};
  memcpy(message->bytes, bytes, length);
  if (link->first == NULL)
    link->first = message;
  else
    link->last->next = message;
  link->last = message;
  pthread_cond_broadcast(&link->changed);
  return 0;
}

void mr_link_close(struct mr_link **closed) {
  struct mr_link *link = *closed;
  while (link->first != NULL)
    pthread_cond_wait(&link->changed, link->lock);
  *closed = NULL;
  link->closing = true;
  pthread_cond_broadcast(&link->changed);
  pthread_mutex_unlock(link->lock);
  pthread_join(link->thread, NULL);
  pthread_mutex_lock(link->lock);
  pthread_cond_destroy(&link->changed);
  free(link);
}
