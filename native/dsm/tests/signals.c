/* signals: a program of maru/dsm.h that handles signals, for jobs that lose nodes; as survive.c.in,
 * whose arguments it takes.
 *
 *     signals NODES STEPS [MILLISECONDS [library|stack|queued|timer|long|asks]]
 *
 * What it prints follows from NODES and STEPS alone.  A timer of two milliseconds has a handler
 * that an image could have by half.  Another timer comes once.  Two signals wait until the end. One
 * is raised each step.  `library`, `stack`, `queued`, `timer`: with what no checkpoint can hold.
 * `long`: node 0 waits, and is in a handler for six seconds. `asks`: a handler makes
 * requests, and checkpoints may be taken in them.
 */
#define _GNU_SOURCE
#include <maru/dsm.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MEET = 1, SUM, ASKED };

static volatile sig_atomic_t begun, ended, once, raised, waited, asks;
static volatile unsigned long busy;
static long steps, milliseconds;

static void work_for(long ms) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
    maru_checkpoint();
  } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

/* Some time passes between both. */
static void on_tick(int number) {
  (void)number;
  begun++;
  for (int i = 0; i < 100000; i++)
    busy++;
  ended++;
}

static void on_raised(int number, siginfo_t *info, void *context) {
  (void)context;
  raised += number == SIGUSR1 && info->si_pid == getpid();
}
static void on_once(int number) { once += number == SIGVTALRM; }
static void on_waited(int number) { waited += number == SIGUSR2 ? 1 : 10; }
static void on_long(int number) {
  (void)number;
  sleep(6);
}
/* While these wait the job may take its checkpoint. */
static void on_asks(int number) {
  (void)number;
  for (int i = 0; i < 4; i++) {
    maru_dsm_fetch_add(ASKED, 1);
    maru_checkpoint();
  }
  asks = 0;
}

static void handle(int number, void (*handler)(int), int flags) {
  const struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  if (sigaction(number, &action, NULL) < 0)
    exit(4);
}

static void mask(int how, int one, int other) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, one);
  sigaddset(&set, other);
  if (sigprocmask(how, &set, NULL) < 0)
    exit(4);
}

/* A handler may make requests where it interrupts no request. */
static void be_asked(void) {
  asks = 1;
  mask(SIG_BLOCK, SIGALRM, SIGALRM);
  handle(SIGALRM, on_asks, 0);
  mask(SIG_UNBLOCK, SIGALRM, SIGALRM);
  while (asks)
    busy++;
  mask(SIG_BLOCK, SIGALRM, SIGALRM);
  handle(SIGALRM, on_tick, SA_RESTART);
  mask(SIG_UNBLOCK, SIGALRM, SIGALRM);
}

static void set_timer(int timer, long microseconds, long again) {
  const struct itimerval each = {{0, again}, {0, microseconds}};
  if (setitimer(timer, &each, NULL) < 0)
    exit(4);
}

static void begin(void) {
  struct sigaction with_info = {.sa_sigaction = on_raised, .sa_flags = SA_SIGINFO};
  if (sigaction(SIGUSR1, &with_info, NULL) < 0)
    exit(4);
  handle(SIGALRM, on_tick, SA_RESTART);
  signal(SIGVTALRM, on_once);
  handle(SIGUSR2, on_waited, 0);
  handle(SIGHUP, on_waited, 0);
  mask(SIG_BLOCK, SIGUSR2, SIGHUP);
  raise(SIGUSR2);
  kill(getpid(), SIGHUP);
  set_timer(ITIMER_REAL, 2000, 2000);
  set_timer(ITIMER_VIRTUAL, 50000, 0);
}

/* Node 0 waits for the others, which let it. */
static void wait_long(void) {
  if (maru_dsm_node() == 0) {
    handle(SIGALRM, on_long, 0);
    set_timer(ITIMER_REAL, 300000, 0);
  } else {
    work_for(1500);
  }
  maru_dsm_barrier(MEET);
}

static void begin_odd(const char *what) {
  static char room[65536];
  const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  timer_t timer;
  int rc = 0;
  if (strcmp(what, "library") == 0)
    handle(SIGPROF, (void (*)(int))dlsym(RTLD_NEXT, "exit"), 0);
  if (strcmp(what, "stack") == 0) {
    rc = sigaltstack(&stack, NULL);
    handle(SIGPROF, on_once, SA_ONSTACK);
  }
  if (strcmp(what, "queued") == 0) {
    mask(SIG_BLOCK, SIGRTMIN, SIGRTMIN + 1);
    handle(SIGRTMIN, on_once, 0);
    rc = raise(SIGRTMIN);
  }
  if (strcmp(what, "timer") == 0)
    rc = timer_create(CLOCK_MONOTONIC, &event, &timer);
  if (strcmp(what, "long") == 0)
    wait_long();
  if (rc != 0)
    exit(4);
}

int main(int count, char **arguments) {
  const char *what = count > 4 ? arguments[4] : "";
  steps = count > 2 ? atol(arguments[2]) : 10;
  milliseconds = count > 3 ? atol(arguments[3]) : 0;
  begin();
  maru_dsm_init();
  begin_odd(what);
  for (long step = 0; step < steps; step++) {
    raise(SIGUSR1);
    if (strcmp(what, "asks") == 0)
      be_asked();
    work_for(milliseconds);
    maru_dsm_fetch_add(SUM, step);
    maru_dsm_barrier(MEET);
    mask(SIG_BLOCK, SIGALRM, SIGALRM);
    if (begun != ended)
      printf("node %u: step %ld: a handler by half\n", maru_dsm_node(), step);
    mask(SIG_UNBLOCK, SIGALRM, SIGALRM);
  }
  while (once == 0)
    busy++;
  mask(SIG_UNBLOCK, SIGUSR2, SIGHUP);
  set_timer(ITIMER_REAL, 0, 0);
  maru_dsm_barrier(MEET);
  printf("node %u: raised %d, once %d, waited %d, sum %ld\n", maru_dsm_node(), (int)raised,
         (int)once, (int)waited, (long)maru_dsm_fetch_add(SUM, 0));
  maru_dsm_exit();
  return 0;
}
