#define _GNU_SOURCE
#include "serve.h"

#include <errno.h>
#include <maru/wait.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* An answer that came in less time is worth waiting for awake. */
#define HOPE_NS 100000

struct mr_server {
  struct mr_server_config config;
  pthread_t thread;
  int watch;  /* an epoll of the transport's descriptors; silent while the program's thread looks */
  int bell;   /* an eventfd: the server has done what the program's thread waits for */
  int end;    /* another: the program's thread waits for the server's end */
  bool hopes; /* the program's last wait was short */
  /* What the program's thread waits for while it looks itself; under the lock. */
  const bool *awaited;
  /* Whether it does, for who spins without the lock.  Relaxed: a hint. */
  _Atomic bool helped;
};

/* Something came: the number of messages, or 0. */
static int serve(struct mr_server *s) {
  int came = mr_transport_serve(s->config.transport, s->config.sink, s->config.context);
  if (came < 0)
    s->config.failed(s->config.context, came);
  return came;
}

/* Serves until the transport's descriptors will tell of what comes. */
static void rest(struct mr_server *s) {
  while (mr_transport_rest(s->config.transport) == -EAGAIN)
    serve(s);
}

/* Their events wake the server, or not. */
static void listen_there(struct mr_server *s, bool on) {
  int fds[MR_TRANSPORT_FDS];
  int count = mr_transport_descriptors(s->config.transport, fds);
  for (int i = 0; i < count; i++) {
    struct epoll_event event = {.events = on ? EPOLLIN : 0};
    epoll_ctl(s->watch, EPOLL_CTL_MOD, fds[i], &event);
  }
}

/* How long one may sleep; NULL: for ever. */
static const struct timespec *limit(const struct mr_server *s, struct timespec *room) {
  int64_t ns = mr_transport_patience(s->config.transport);
  *room = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  return ns < 0 ? NULL : room;
}

/* ---- the program's thread ------------------------------------------------------ */

static void sleep_for_answer(struct mr_server *s) {
  int fds[MR_TRANSPORT_FDS];
  struct pollfd polled[MR_TRANSPORT_FDS + 1];
  int count = mr_transport_descriptors(s->config.transport, fds);
  for (int i = 0; i < count; i++)
    polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
  polled[count] = (struct pollfd){.fd = s->bell, .events = POLLIN};
  struct timespec room;
  int ready = ppoll(polled, (nfds_t)count + 1, limit(s, &room), NULL);
  eventfd_t unused;
  if (ready > 0 && polled[count].revents != 0)
    eventfd_read(s->bell, &unused);
}

void mr_server_await(struct mr_server *s, const bool *done) {
  pthread_mutex_t *lock = s->config.lock;
  pthread_mutex_lock(lock);
  if (*done) {
    rest(s);
    pthread_mutex_unlock(lock);
    return;
  }
  s->awaited = done;
  atomic_store_explicit(&s->helped, true, memory_order_relaxed);
  listen_there(s, false);
  int64_t begin = maru_now_ns(), since = begin, hope = s->hopes ? begin + HOPE_NS : begin;
  for (bool came; came = serve(s) > 0, !*done;) {
    int64_t now = maru_now_ns();
    since = came ? now : since;
    bool spin = now < since + s->config.spin_ns || now < hope;
    if (!spin)
      rest(s);
    bool still = !*done;
    pthread_mutex_unlock(lock);
    if (spin)
      sched_yield(); /* whoever else wants this processor computes */
    else if (still)
      sleep_for_answer(s);
    pthread_mutex_lock(lock);
  }
  s->hopes = maru_now_ns() < begin + HOPE_NS;
  rest(s);
  s->awaited = NULL;
  atomic_store_explicit(&s->helped, false, memory_order_relaxed);
  listen_there(s, true);
  pthread_mutex_unlock(lock);
}

/* ---- the server's ---------------------------------------------------------------- */

/* A look; whether anything had come. */
static bool look(struct mr_server *s, bool *over) {
  pthread_mutex_lock(s->config.lock);
  int came = serve(s);
  rest(s);
  *over = s->config.over(s->config.context);
  if (s->awaited != NULL && *s->awaited)
    eventfd_write(s->bell, 1);
  pthread_mutex_unlock(s->config.lock);
  return came > 0;
}

/* Until `deadline` it keeps its processor, unless the program's thread looks itself. */
static void wait_for_request(const struct mr_server *s, int64_t deadline) {
  struct epoll_event event;
  while (!atomic_load_explicit(&s->helped, memory_order_relaxed) && maru_now_ns() < deadline) {
    if (epoll_wait(s->watch, &event, 1, 0) != 0)
      return;
    sched_yield();
  }
  struct timespec room;
  struct pollfd polled = {.fd = s->watch, .events = POLLIN};
  if (ppoll(&polled, 1, limit(s, &room), NULL) > 0)
    epoll_wait(s->watch, &event, 1, 0); /* an edge is told once */
}

static void *serve_all(void *server) {
  struct mr_server *s = server;
  int64_t since = maru_now_ns();
  for (bool over = false; !over;) {
    if (look(s, &over))
      since = maru_now_ns();
    else if (!over)
      wait_for_request(s, since + s->config.spin_ns);
  }
  return NULL;
}

/* ---- life ------------------------------------------------------------------------- */

static int watch_transport(struct mr_server *s) {
  int fds[MR_TRANSPORT_FDS];
  int count = mr_transport_descriptors(s->config.transport, fds);
  for (int i = 0; i < count; i++) {
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(s->watch, EPOLL_CTL_ADD, fds[i], &event) < 0)
      return -errno;
  }
  /* Told once, it looks whether the end has come. */
  struct epoll_event event = {.events = EPOLLIN | EPOLLET};
  return epoll_ctl(s->watch, EPOLL_CTL_ADD, s->end, &event) < 0 ? -errno : 0;
}

static int start_thread(struct mr_server *s) {
  sigset_t every, before;
  sigfillset(&every);
  /* Signals are for the program's thread. */
  pthread_sigmask(SIG_SETMASK, &every, &before);
  int rc = pthread_create(&s->thread, NULL, serve_all, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return -rc;
}

static void discard(struct mr_server *s) {
  if (s->watch >= 0)
    close(s->watch);
  if (s->bell >= 0)
    close(s->bell);
  if (s->end >= 0)
    close(s->end);
  free(s);
}

int mr_server_start(struct mr_server **server, const struct mr_server_config *config) {
  struct mr_server *s = calloc(1, sizeof *s);
  if (s == NULL)
    return -ENOMEM;
  s->config = *config;
  s->watch = epoll_create1(EPOLL_CLOEXEC);
  s->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  s->end = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int rc = s->watch < 0 || s->bell < 0 || s->end < 0 ? -errno : watch_transport(s);
  if (rc == 0)
    rc = start_thread(s);
  if (rc < 0)
    discard(s);
  else
    *server = s;
  return rc;
}

void mr_server_join(struct mr_server *server) {
  eventfd_write(server->end, 1);
  pthread_join(server->thread, NULL);
  discard(server);
}
