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

/* A thread that waits for a message stays awake so long if the last one came in less time. */
#define HOPE_NS 100000
/* A thread that gave way for longer than that shares its processor with one that computes. The
 * kernel wakes a sleeper before it comes back to one that gives way, so for so long it sleeps. */
#define CROWDED_NS 100000000
/* What is due in less time is waited for awake. */
#define NEAR_NS 100000
/* So many glances, of some 40 ns each, before a thread gives way: an answer through shared memory
 * takes one or two microseconds. Fewer where that was in vain: the other thread may be waiting for
 * this very processor. */
#define GLANCES_MOST 64
#define GLANCES_LEAST 4
/* Where only the descriptor tells, so many looks, of half a microsecond each. So many while
 * somebody else wants the processor: who gave way for longer than that has met one. */
#define LOOKS_MOST 64
#define LOOKS_LEAST 1
#define GAVE_NS 5000

struct mr_server {
  struct mr_server_config config;
  pthread_t thread;
  int watch;   /* an epoll of the transport's descriptor; silent of it while the program's thread
                  looks */
  int bell;    /* an eventfd: the server has done what the program's thread waits for, or has found
                  what is due earlier than that thread knows */
  int nudge;   /* another: the program's thread wants the server to look */
  bool deaf;   /* to the transport's descriptor, or rather `watch` is */
  bool hopes;  /* what the program's thread waited for last came soon */
  int glances; /* before the program's thread gives way */
  int64_t crowded_until; /* somebody else wanted its processor when it gave way */
  int64_t hasty_until;   /* the same, for a short while: few looks before it gives way again */
  /* What the program's thread waits for while it looks itself; under the lock. */
  const bool *awaited;
  /* Whether it does, for who spins without the lock.  Relaxed: a hint. */
  _Atomic bool helped;
};

/* How many messages, or pieces of them, have come. */
static int serve(struct mr_server *s) {
  int came = mr_transport_serve(s->config.transport, s->config.sink, s->config.context);
  if (came < 0)
    s->config.failed(s->config.context, came);
  return came;
}

/* Serves until the transport's descriptor will tell of what comes. */
static void rest(struct mr_server *s) {
  while (mr_transport_rest(s->config.transport) == -EAGAIN)
    serve(s);
}

/* What comes wakes the server, or not. */
static void listen_there(struct mr_server *s, bool on) {
  if (s->deaf == !on)
    return;
  s->deaf = !on;
  struct epoll_event event = {.events = on ? EPOLLIN : 0};
  epoll_ctl(s->watch, EPOLL_CTL_MOD, mr_transport_descriptor(s->config.transport), &event);
}

/* How long one may sleep when something is due then.  0: so soon that a sleep might end late. */
static struct timespec limit(const struct mr_server *s, int64_t due) {
  int64_t ns = mr_transport_patience(s->config.transport);
  if (due != INT64_MAX) {
    int64_t left = due - maru_now_ns() - NEAR_NS;
    left = left > 0 ? left : 0;
    ns = left < ns ? left : ns;
  }
  return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

/* Whether something has come, as far as a glance tells. */
static bool glance(const struct mr_server *s, int times) {
  int found = mr_transport_glance(s->config.transport);
  while (found == 0 && --times > 0) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    found = mr_transport_glance(s->config.transport);
  }
  return found > 0;
}

/* Whether only the descriptor tells. */
static bool is_blind(const struct mr_server *s) {
  return mr_transport_glance(s->config.transport) < 0;
}

static bool is_near(int64_t due, int64_t now) { return due != INT64_MAX && due - now <= NEAR_NS; }

/* ---- the program's thread ------------------------------------------------------ */

static void sleep_for_answer(struct mr_server *s, int64_t due) {
  struct pollfd polled[] = {
      {.fd = mr_transport_descriptor(s->config.transport), .events = POLLIN},
      {.fd = s->bell, .events = POLLIN},
  };
  const struct timespec room = limit(s, due);
  eventfd_t unused;
  if (ppoll(polled, 2, &room, NULL) > 0 && polled[1].revents != 0)
    eventfd_read(s->bell, &unused);
}

static void begin_to_help(struct mr_server *s, const bool *done) {
  mr_ready_leaves(s->config.ready, MR_SERVER_LISTENS);
  s->awaited = done;
  atomic_store_explicit(&s->helped, true, memory_order_relaxed);
  /* Where a glance tells, nothing wakes the server before this thread rests. */
  if (is_blind(s) && !mr_transport_awake(s->config.transport))
    listen_there(s, false);
}

static void end_help(struct mr_server *s) {
  rest(s);
  mr_ready_leaves(s->config.ready, MR_PROGRAM_LISTENS);
  mr_ready_listens(s->config.ready, MR_SERVER_LISTENS);
  s->awaited = NULL;
  atomic_store_explicit(&s->helped, false, memory_order_relaxed);
  listen_there(s, true);
  /* No descriptor tells the server of what is due later. */
  if (mr_transport_due(s->config.transport) != INT64_MAX)
    eventfd_write(s->nudge, 1);
}

/* Whether it may look once more before it gives way; `vain`: so many looks in a row were. */
static bool looks_on(struct mr_server *s, int64_t now, unsigned vain) {
  if (is_blind(s))
    return vain < (now < s->hasty_until ? LOOKS_LEAST : LOOKS_MOST);
  bool found = glance(s, s->glances);
  s->glances = found ? GLANCES_MOST : s->glances > GLANCES_LEAST ? s->glances / 2 : GLANCES_LEAST;
  return found;
}

/* Others that want this processor compute. */
static void give_way(struct mr_server *s, int64_t begin, unsigned vain) {
  if (looks_on(s, begin, vain))
    return;
  sched_yield();
  int64_t now = maru_now_ns();
  if (now - begin > GAVE_NS)
    s->hasty_until = now + CROWDED_NS;
  if (now - begin > HOPE_NS)
    s->crowded_until = now + CROWDED_NS;
}

/* With the lock held, which it releases meanwhile.  What counts is how long it waited: a long
 * message comes in pieces, and takes a while to be answered. */
static void help(struct mr_server *s, const bool *done) {
  pthread_mutex_t *lock = s->config.lock;
  int64_t since = maru_now_ns(), looked;
  unsigned vain = 0;
  for (bool came; looked = maru_now_ns(), came = serve(s) > 0, !*done;) {
    int64_t now = maru_now_ns(), due = mr_transport_due(s->config.transport);
    mr_ready_listens(s->config.ready, MR_PROGRAM_LISTENS);
    if (came) {
      s->hopes = looked - since < HOPE_NS;
      since = now;
    }
    vain = came ? 0 : vain + 1;
    bool hope = s->hopes && now < since + HOPE_NS && now >= s->crowded_until;
    bool spin = hope || now < since + s->config.spin_ns || is_near(due, now);
    if (!spin) {
      listen_there(s, false);
      rest(s);
      due = mr_transport_due(s->config.transport);
    }
    bool still = !*done;
    pthread_mutex_unlock(lock);
    if (s->config.pauses != NULL)
      s->config.pauses();
    if (spin)
      give_way(s, now, vain);
    else if (still)
      sleep_for_answer(s, due);
    pthread_mutex_lock(lock);
  }
  s->hopes = looked - since < HOPE_NS;
}

void mr_server_expect(struct mr_server *server) {
  mr_transport_awake(server->config.transport);
  if (mr_transport_tells_of_sends(server->config.transport))
    listen_there(server, false);
}

void mr_server_wake(struct mr_server *server) { eventfd_write(server->bell, 1); }

void mr_server_await(struct mr_server *s, const bool *done) {
  pthread_mutex_lock(s->config.lock);
  if (!*done) {
    begin_to_help(s, done);
    help(s, done);
  }
  end_help(s);
  pthread_mutex_unlock(s->config.lock);
}

/* ---- the server's ---------------------------------------------------------------- */

/* A look; whether anything had come, and when the next is due.  `rests`: it will sleep, or has
 * nothing else to tell it. */
static bool look(struct mr_server *s, bool rests, bool *over, int64_t *due) {
  pthread_mutex_lock(s->config.lock);
  const int64_t known = mr_transport_due(s->config.transport);
  int came = serve(s);
  if (rests)
    rest(s);
  *over = s->config.over(s->config.context);
  *due = mr_transport_due(s->config.transport);
  if (s->awaited == NULL)
    mr_ready_listens(s->config.ready, MR_SERVER_LISTENS);
  else if (*s->awaited || *due < known) /* it may sleep until what was known to be due */
    eventfd_write(s->bell, 1);
  pthread_mutex_unlock(s->config.lock);
  return came > 0;
}

static bool is_helped(const struct mr_server *s) {
  return atomic_load_explicit(&s->helped, memory_order_relaxed);
}

/* Until `deadline`, or something is due, it keeps its processor, unless the program's thread
 * looks itself.  Whether there is something to serve. */
static bool stay_awake(const struct mr_server *s, int64_t deadline, int64_t due) {
  struct epoll_event event;
  bool blind = is_blind(s);
  for (int64_t now; now = maru_now_ns(), !is_helped(s) && (now < deadline || is_near(due, now));) {
    if (now >= due || (blind ? epoll_wait(s->watch, &event, 1, 0) != 0 : glance(s, GLANCES_LEAST)))
      return true;
    sched_yield();
  }
  return false;
}

static void sleep_for_request(const struct mr_server *s, int64_t due) {
  struct epoll_event event;
  const struct timespec room = limit(s, is_helped(s) ? INT64_MAX : due);
  struct pollfd polled = {.fd = s->watch, .events = POLLIN};
  if (ppoll(&polled, 1, &room, NULL) > 0)
    epoll_wait(s->watch, &event, 1, 0); /* an edge is told once */
}

static void serve_until_over(struct mr_server *s) {
  int64_t since = maru_now_ns(), due;
  bool blind = is_blind(s), rests = blind;
  for (bool over = false; !over;) {
    if (look(s, rests, &over, &due))
      since = maru_now_ns();
    else if (!over && !stay_awake(s, since + s->config.spin_ns, due)) {
      /* Where a glance tells, it is to say that it sleeps, and to look once more. */
      if (!rests) {
        rests = true;
        continue;
      }
      sleep_for_request(s, due);
    }
    rests = blind;
  }
}

static void *serve_all(void *server) {
  struct mr_server *s = server;
  pthread_mutex_lock(s->config.lock);
  mr_ready_attach(s->config.ready, MR_SERVER_LISTENS);
  pthread_mutex_unlock(s->config.lock);
  serve_until_over(s);
  pthread_mutex_lock(s->config.lock);
  mr_ready_detach(s->config.ready, MR_SERVER_LISTENS);
  pthread_mutex_unlock(s->config.lock);
  return NULL;
}

/* ---- life ------------------------------------------------------------------------- */

static int watch_transport(struct mr_server *s) {
  struct epoll_event event = {.events = EPOLLIN};
  if (epoll_ctl(s->watch, EPOLL_CTL_ADD, mr_transport_descriptor(s->config.transport), &event) < 0)
    return -errno;
  /* Each is told once: it looks whether there is something to do, or the end has come. */
  event.events |= EPOLLET;
  return epoll_ctl(s->watch, EPOLL_CTL_ADD, s->nudge, &event) < 0 ? -errno : 0;
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
  if (s->nudge >= 0)
    close(s->nudge);
  free(s);
}

int mr_server_start(struct mr_server **server, const struct mr_server_config *config) {
  struct mr_server *s = calloc(1, sizeof *s);
  if (s == NULL)
    return -ENOMEM;
  s->config = *config;
  s->glances = GLANCES_MOST;
  s->watch = epoll_create1(EPOLL_CLOEXEC);
  s->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  s->nudge = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int rc = s->watch < 0 || s->bell < 0 || s->nudge < 0 ? -errno : watch_transport(s);
  if (rc == 0)
    rc = start_thread(s);
  if (rc < 0)
    discard(s);
  else
    *server = s;
  return rc;
}

void mr_server_join(struct mr_server *server) {
  eventfd_write(server->nudge, 1);
  pthread_join(server->thread, NULL);
  discard(server);
}
