/* What a program sees of its calls; prints it.  Run with libmaru-poll.so and without, the
 * output is the same.  Each case spins first, so that the calls come through a row. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SPINS 300

static int ends[2];
static _Atomic int signals;

static void say(const char *what, long value) {
  printf("%s %ld\n", what, value);
  fflush(stdout);
}

static void fresh(void) {
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
    abort();
}
static void done(void) { close(ends[0]), close(ends[1]); }

static long polls(int count) {
  struct pollfd one = {.fd = ends[0], .events = POLLIN};
  long sum = 0;
  for (int i = 0; i < count; i++)
    sum += poll(&one, 1, 0);
  return sum;
}

static void results(void) {
  struct pollfd two[2];
  struct epoll_event event = {.events = EPOLLIN | EPOLLET};
  struct timeval zero = {0};
  struct timespec nothing = {0};
  char byte;
  fresh();
  say("empty polls", polls(SPINS));
  if (write(ends[1], "a", 1) != 1)
    abort();
  say("a full one", polls(1));
  say("recv peeks", recv(ends[0], &byte, 1, MSG_PEEK | MSG_DONTWAIT));
  int set = epoll_create1(0);
  epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
  say("epoll, once", epoll_wait(set, &event, 1, 0));
  long sum = 0;
  for (int i = 0; i < SPINS; i++)
    sum += epoll_wait(set, &event, 1, 0) + epoll_pwait(set, &event, 1, 0, NULL);
  say("epoll at the edge", sum);
  say("read", read(ends[0], &byte, 1));
  for (int i = 0; i < SPINS; i++) {
    errno = 7;
    sum += recv(ends[0], &byte, 1, MSG_DONTWAIT) + (errno != EAGAIN);
  }
  say("empty recv", sum);
  fd_set in, none;
  for (int i = 0; i < SPINS; i++) {
    FD_ZERO(&in);
    FD_ZERO(&none);
    FD_SET(ends[0], &in);
    errno = 7;
    sum += select(ends[0] + 1, &in, NULL, &none, &zero) + FD_ISSET(ends[0], &in) + (errno != 7) +
           pselect(0, NULL, NULL, NULL, &nothing, NULL);
  }
  say("empty select", sum);
  two[0] = (struct pollfd){.fd = ends[0], .events = POLLIN};
  two[1] = (struct pollfd){.fd = -1, .events = POLLIN, .revents = 1};
  for (int i = 0; i < SPINS; i++)
    sum += poll(two, 2, 0) + two[1].revents + ppoll(two, 2, &nothing, NULL);
  say("a hole", sum);
  two[1].fd = 1000;
  say("no descriptor", poll(two, 2, 0) * 100 + two[1].revents);
  close(ends[1]);
  say("hung up", polls(SPINS));
  say("end", recv(ends[0], &byte, 1, MSG_DONTWAIT));
  close(ends[0]);
  close(set);
}

/* What the program may not read is the kernel's to refuse. */
static void unreadable(void) {
  struct timeval zero = {0};
  long page = sysconf(_SC_PAGESIZE);
  char *pages =
      mmap(NULL, (size_t)(2 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page, (size_t)page, PROT_NONE) < 0)
    abort();
  struct pollfd *last = (struct pollfd *)(void *)(pages + page) - 1;
  fd_set *set = (fd_set *)(void *)(pages + page);
  fresh();
  last[0] = (struct pollfd){.fd = ends[0], .events = POLLIN};
  long sum = 0;
  for (int i = 0; i < SPINS; i++)
    sum += poll(last, 1, 0);
  say("at the end of a page", sum);
  say("beyond it", poll(last, 2, 0) * 1000 - errno);
  sum = polls(SPINS);
  say("beyond it alone", poll(last + 1, 1, 0) * 1000 - errno + sum);
  sum = polls(SPINS);
  say("no array",
      poll((struct pollfd *)(void *)(pages + page), (nfds_t)1 << 30, 0) * 1000 - errno + sum);
  sum = polls(SPINS);
  say("an unreadable set", select(ends[0] + 1, NULL, set, NULL, &zero) * 1000 - errno + sum);
  done();
  munmap(pages, (size_t)(2 * page));
}

/* Time-outs are the kernel's to refuse.  Something is there, so that none is waited for. */
static void bad_time_outs(void) {
  const struct timespec bad[] = {{0, 1000000000}, {0, -1},       {-1, 0}, {0, LONG_MAX},
                                 {0, LONG_MIN},   {LONG_MAX, 0}, {0, 0}},
                        *none = NULL;
  struct pollfd one = {.events = POLLIN};
  struct epoll_event event = {.events = EPOLLIN};
  fresh();
  one.fd = ends[0];
  int set = epoll_create1(0);
  epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
  long sum = polls(SPINS);
  if (write(ends[1], "a", 1) != 1)
    abort();
  for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
    const struct timespec *timeout = i < sizeof bad / sizeof *bad ? bad + i : none;
    fd_set in;
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    errno = 7;
    say("ppoll", ppoll(&one, 1, timeout, NULL) * 1000 - errno + sum);
    errno = 7;
    say("pselect", pselect(ends[0] + 1, &in, NULL, NULL, timeout, NULL) * 1000 - errno);
    errno = 7;
    say("epoll_pwait2", epoll_pwait2(set, &event, 1, timeout, NULL) * 1000 - errno);
  }
  void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    abort();
  errno = 7;
  say("an unreadable time-out", epoll_pwait2(set, &event, 1, page, NULL) * 1000 - errno);
  munmap(page, 4096);
  close(set);
  done();
}

static void in_turn(void) { /* many descriptors, one of them comes */
  int pairs[40][2];
  char byte;
  for (int i = 0; i < 40; i++) {
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pairs[i]) < 0)
      abort();
  }
  long sum = 0;
  for (int turn = 0; turn < 30; turn++)
    for (int i = 0; i < 40; i++) {
      sum += read(pairs[i][0], &byte, 1);
      if (turn == 20 && i == 20 && write(pairs[33][1], "b", 1) != 1)
        abort();
    }
  say("in turn", sum);
  for (int i = 0; i < 40; i++)
    close(pairs[i][0]), close(pairs[i][1]);
}

static void count_signal(int number) {
  struct pollfd one = {.fd = ends[0], .events = POLLIN};
  (void)number;
  signals += 1 + poll(&one, 1, 0);
}

static void with_signals(void) {
  struct sigaction action = {.sa_handler = count_signal};
  struct itimerval timer = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
  fresh();
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &timer, NULL);
  long sum = 0;
  while (signals < 50) {
    errno = 7;
    sum += polls(1) + (errno != 7);
  }
  setitimer(ITIMER_REAL, &off, NULL);
  say("under signals", sum);
  done();
}

static sigjmp_buf back;
static void jump(int number) { siglongjmp(back, number); }

static void with_jumps(void) {
  struct sigaction action = {.sa_handler = jump};
  struct itimerval timer = {{0, 0}, {0, 3000}};
  fresh();
  sigaction(SIGALRM, &action, NULL);
  volatile int jumps = 0;
  if (sigsetjmp(back, 1) != 0)
    jumps++;
  if (jumps < 20) {
    setitimer(ITIMER_REAL, &timer, NULL);
    for (;;)
      (void)polls(1);
  }
  say("jumps", jumps);
  if (write(ends[1], "a", 1) != 1)
    abort();
  say("after them", polls(1));
  done();
}

static void *spin(void *unused) {
  (void)unused;
  for (;;)
    (void)polls(1);
  return NULL;
}

static void with_cancellation(void) {
  fresh();
  for (int i = 0; i < 10; i++) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, spin, NULL);
    usleep(5000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED)
      abort();
  }
  say("cancelled", 10);
  done();
}

static void *echo(void *unused) {
  char byte;
  (void)unused;
  for (int i = 0; i < 300; i++) {
    while (recv(ends[1], &byte, 1, MSG_DONTWAIT) != 1)
      if (i % 2)
        sched_yield();
    if (write(ends[1], &byte, 1) != 1)
      abort();
  }
  return NULL;
}

static void with_threads(void) {
  pthread_t thread;
  long sum = 0;
  fresh();
  pthread_create(&thread, NULL, echo, NULL);
  for (int i = 0; i < 300; i++) {
    char byte = (char)i;
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    if (write(ends[0], &byte, 1) != 1)
      abort();
    while (poll(&one, 1, 0) == 0)
      continue;
    if (read(ends[0], &byte, 1) != 1)
      abort();
    sum += byte == (char)i;
  }
  pthread_join(thread, NULL);
  say("echoes", sum);
  done();
}

static void with_fork(void) {
  fresh();
  (void)polls(SPINS);
  pid_t child = fork();
  if (child == 0) {
    long empty = polls(SPINS);
    if (write(ends[1], "c", 1) != 1)
      _exit(1);
    _exit(empty == 0 ? 5 : 1);
  }
  while (polls(1) == 0)
    continue;
  int status;
  waitpid(child, &status, 0);
  say("a child", WEXITSTATUS(status));
  done();
}

/* A receive time-out is the kernel's to keep; no call is later than that and a slice. */
static void with_time_out(void) {
  struct timeval limit = {.tv_usec = 3000};
  char byte;
  fresh();
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  long sum = 0;
  for (int i = 0; i < 60; i++)
    sum += recv(ends[0], &byte, 1, 0) == -1 && errno == EAGAIN;
  say("time-outs", sum);
  done();
}

#if defined(__x86_64__)
/* Strict mode allows read, write, _exit and nothing else: one call of ours would kill it. */
static void restricted(void) {
  int status;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    char byte;
    fresh();
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    (void)polls(SPINS);
    for (int i = 0; i < SPINS; i++)
      (void)read(ends[0], &byte, 1);
    prctl(PR_SET_SECCOMP, 1, 0, 0, 0);
    for (int i = 0; i < SPINS; i++)
      (void)read(ends[0], &byte, 1);
    for (;;) /* exit_group is not allowed */
      __asm__ volatile("syscall" : : "a"(60), "D"(9) : "rcx", "r11", "memory");
  }
  waitpid(child, &status, 0);
  say("restricted", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}
#endif

int main(void) {
  alarm(0);
  results();
  unreadable();
  bad_time_outs();
  in_turn();
  with_signals();
  with_jumps();
  with_cancellation();
  with_threads();
  with_fork();
  with_time_out();
#if defined(__x86_64__)
  restricted();
#endif
  return 0;
}
