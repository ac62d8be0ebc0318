/* cases.c: what a program can see of its calls for input and output, case by case.
 *
 *   cases --list        the names; behind a name "delegates" where a context can make its calls
 *   cases NAME          prints what the calls of the case returned
 *
 * Run directly and with libmaru-io.so it must print the same (semantics.c compares).
 */
#define _GNU_SOURCE
#include "cases.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

char data[SIZE], other[SIZE];
int file, second;
volatile sig_atomic_t caught[65];

static const struct test_case *const classes[] = {file_cases, neighbour_cases, socket_cases,
                                                  thread_cases, context_cases};
#define CLASSES (sizeof classes / sizeof *classes)

/* Straight to the pipe that is read by whoever compares: by no call that is being tested. */
static char text[1 << 16];
static size_t said;
void say(const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  said += (size_t)vsnprintf(text + said, sizeof text - said, format, rest);
  va_end(rest);
}
void tell(void) {
  for (size_t at = 0; at < said;)
    at += (size_t)syscall(SYS_write, 1, text + at, said - at);
  said = 0;
}

void show(const char *buffer, size_t size) {
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ (unsigned char)buffer[i]) * 1099511628211u;
  say("  %zu bytes %016llx\n", size, (unsigned long long)hash);
}
void where(int fd) { say("  at %lld\n", (long long)lseek(fd, 0, SEEK_CUR)); }
void signals(void) {
  for (int i = 1; i < 65; i++)
    if (caught[i])
      say("  signal %d came %d times\n", i, (int)caught[i]);
}
static void on_signal(int number) { caught[number]++; }
void handle(int number, int flags) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
  sigaction(number, &action, NULL);
}
void pause_ms(int ms) { poll(NULL, 0, ms); }

void pair_of(int type, int pair[2]) { NEED(socketpair(AF_UNIX, type, 0, pair)); }

/* Two connected TCP sockets. */
void tcp(int pair[2]) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int listener = (int)NEED(socket(AF_INET, SOCK_STREAM, 0));
  NEED(bind(listener, (struct sockaddr *)&at, size));
  NEED(listen(listener, 1));
  NEED(getsockname(listener, (struct sockaddr *)&at, &size));
  pair[0] = (int)NEED(socket(AF_INET, SOCK_STREAM, 0));
  NEED(connect(pair[0], (struct sockaddr *)&at, size));
  pair[1] = (int)NEED(accept(listener, NULL, NULL));
  close(listener);
}

static bool sleeps(pid_t thread) {
  char path[64], status[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
  int fd = (int)NEED(open(path, O_RDONLY));
  ssize_t got = syscall(SYS_read, fd, status, sizeof status - 1);
  close(fd);
  status[got > 0 ? got : 0] = '\0';
  const char *state = strrchr(status, ')');
  return state != NULL && strncmp(state, ") S", 3) == 0;
}
/* In its call: for longer than a context may keep it waiting. */
static void until_it_sleeps(pid_t thread) {
  for (int times = 0; times < 4; times = sleeps(thread) ? times + 1 : 0)
    pause_ms(8);
}
static void *act_later(void *argument) {
  struct later *l = argument;
  pause_ms(l->ms);
  if (l->signal != 0)
    until_it_sleeps(l->thread);
  if (l->signal != 0)
    pthread_kill(l->target, l->signal);
  else
    syscall(SYS_write, l->fd, l->bytes, l->size);
  return NULL;
}
pthread_t begin_later(struct later *l) {
  pthread_t thread;
  l->target = pthread_self();
  l->thread = gettid();
  NEED(-pthread_create(&thread, NULL, act_later, l));
  return thread;
}

static int temporary(void) {
  char path[] = "/tmp/maru-cases-XXXXXX";
  int fd = (int)NEED(mkstemp(path));
  unlink(path);
  return fd;
}

/* After these the contexts are there, if there are to be any. */
static void warm(void) {
  int pair[2];
  char byte;
  pair_of(SOCK_STREAM, pair);
  for (int i = 0; i < 3; i++) {
    NEED(pread(file, &byte, 1, 0));
    NEED(send(pair[0], "x", 1, 0));
    NEED(recv(pair[1], &byte, 1, 0));
  }
  close(pair[0]);
  close(pair[1]);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "--list") == 0) {
    for (size_t c = 0; c < CLASSES; c++)
      for (const struct test_case *one = classes[c]; one->name != NULL; one++)
        printf("%s%s\n", one->name, one->delegates ? " delegates" : "");
    return 0;
  }
  for (size_t i = 0; i < SIZE; i++)
    data[i] = (char)(i * 2654435761u >> 13);
  file = temporary();
  second = temporary();
  NEED(pwrite(file, data, SIZE, 0));
  for (size_t c = 0; c < CLASSES; c++)
    for (const struct test_case *one = classes[c]; one->name != NULL; one++)
      if (strcmp(name, one->name) == 0) {
        if (!one->cold)
          warm();
        one->run();
      }
  tell();
  return 0;
}
