/* rescuer.c: watches the worker, and undoes what it did if it dies. */
#define _GNU_SOURCE
#include "daemon.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RESCUER_PRIORITY 91
/* The rescuer's looks: 200 ms without a beat where both run by FIFO, else 2 s. A host may hold the
 * worker's virtual CPU for half of that. */
#define LOOK_MS 20
#define REST_MS 500 /* while the worker rests */
#define LOOKS 10
#define LOOKS_SLOW 100
#define LOOKS_TO_END 50 /* 1 s */

/* How many could not be put back. */
static unsigned rescue_all(const struct daemon *self) {
  unsigned failed = 0;
  for (size_t i = 0; i < (size_t)BOOST_BOARDS * MARU_WAIT_CHANNELS; i++)
    if (self->boards.subjects[i].tid != 0)
      failed += boost_rescue(&self->boards.subjects[i]) < 0;
  return failed;
}

struct watch {
  uint64_t beats;
  unsigned looks; /* since the last beat */
  unsigned looks_most;
  unsigned ending; /* looks since the request to end; 0: none */
};

/* A worker that was stopped, or is late. Looks are counted, not time, so that a rescuer that was
 * stopped itself does not blame the worker. */
static bool is_late(struct watch *watch, const struct daemon *self) {
  /* Relaxed: a counter. */
  uint64_t beats = atomic_load_explicit(&self->shared->beats, memory_order_relaxed);
  bool holds = self->how != BOOST_BY_NOTHING && !self->dry_run;
  watch->looks = beats != watch->beats || beats == 0 || !holds ? 0 : watch->looks + 1;
  watch->beats = beats;
  watch->ending += watch->ending > 0;
  return watch->looks > watch->looks_most || watch->ending > LOOKS_TO_END;
}

/* With its status if it ends within 200 ms; else it hangs in the kernel and comes to no deed. One
 * that has done all may need longer: its other thread runs last where many wait for a CPU. */
static struct boost_end end_worker(const struct daemon *self, pid_t worker, const char *why) {
  static const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
  int status = SIGKILL;
  kill(worker, SIGKILL);
  for (int look = 0; look < 10 && waitpid(worker, &status, WNOHANG) == 0; look++)
    nanosleep(&pause, NULL);
  /* Acquire: what it did is done. */
  uint32_t outcome = atomic_load_explicit(&self->shared->outcome, memory_order_acquire);
  if (outcome != 0)
    return (struct boost_end){.status = W_EXITCODE((int)outcome - 1, 0)};
  return (struct boost_end){.status = status, .killed_for = why};
}

/* What ends the time between two looks. */
enum source { SIGNALS, STIRS, INPUT, SOURCES };

/* The number of a signal that came; 0: none. */
static int next_signal(int signals) {
  struct signalfd_siginfo info;
  return read(signals, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

/* Its end is told once. */
static bool input_ended(struct pollfd *input) {
  char byte;
  if (input->revents == 0 || read(STDIN_FILENO, &byte, 1) > 0)
    return false;
  input->fd = -1;
  return true;
}

/* Anything came.  A worker that rests holds nobody, and says when it goes on. */
static bool await_event(const struct daemon *self, struct pollfd *events,
                        const struct watch *watch) {
  uint64_t count;
  /* Relaxed: what the worker writes to `stirs` after it comes through the kernel. */
  bool rests = atomic_load_explicit(&self->shared->rests, memory_order_relaxed) != 0 &&
               watch->looks == 0 && watch->ending == 0;
  int ready = poll(events, SOURCES, rests ? REST_MS : LOOK_MS);
  if (ready > 0 && events[STIRS].revents != 0)
    (void)!read(self->stirs, &count, sizeof count);
  return ready > 0;
}

struct boost_end boost_rescuer(const struct daemon *self, pid_t worker, const sigset_t *signals) {
  struct watch watch = {.looks_most = LOOKS_SLOW};
  struct pollfd events[SOURCES] = {
      [SIGNALS] = {signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK), POLLIN, 0},
      [STIRS] = {self->stirs, POLLIN, 0},
      [INPUT] = {self->with_input ? STDIN_FILENO : -1, POLLIN, 0}};
  int status;
  if (events[SIGNALS].fd < 0)
    return end_worker(self, worker, "it could not be watched");
  if (boost_stand(RESCUER_PRIORITY) == 0)
    watch.looks_most = LOOKS;
  while (waitpid(worker, &status, WNOHANG) == 0) {
    bool any = await_event(self, events, &watch);
    if (!any && is_late(&watch, self))
      return end_worker(self, worker, "it gave no sign");
    int signal = any ? next_signal(events[SIGNALS].fd) : 0;
    if ((signal != 0 && signal != SIGCHLD) || (any && input_ended(&events[INPUT]))) {
      kill(worker, SIGTERM);
      watch.ending = watch.ending > 0 ? watch.ending : 1;
    }
  }
  return (struct boost_end){.status = status};
}

/* Of one that ended by itself there is no more to say than it has said. */
static void write_how(struct boost_end end, char how[128]) {
  how[0] = '\0';
  if (end.killed_for != NULL)
    snprintf(how, 128, ": %s and was killed", end.killed_for);
  else if (WIFSIGNALED(end.status))
    snprintf(how, 128, ": it died of signal %d (%s)", WTERMSIG(end.status),
             strsignal(WTERMSIG(end.status)));
}

int boost_after_death(const struct daemon *self, struct boost_end end) {
  char how[128];
  unsigned failed = rescue_all(self);
  write_how(end, how);
  if (failed > 0)
    fprintf(stderr, "maru-boost: the worker failed%s; %u threads could not be put back\n", how,
            failed);
  else
    fprintf(stderr, "maru-boost: the worker failed%s; every thread is back in its place\n", how);
  return 70;
}
