/* cases.h: what the cases of all classes share. */
#ifndef MARU_PRELOAD_IO_TESTS_CASES_H
#define MARU_PRELOAD_IO_TESTS_CASES_H

#undef _FILE_OFFSET_BITS
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"

#include <pthread.h>

#define SIZE 200000

extern char data[SIZE], other[SIZE];
extern int file, second; /* two temporary files; the first holds `data` */
extern volatile sig_atomic_t caught[65];

struct test_case {
  const char *name;
  void (*run)(void);
  bool delegates; /* a context can make its calls */
  bool cold;      /* there are no contexts when it begins */
};
#define D(name)                                                                                    \
  { #name, name, true, false }
#define N(name)                                                                                    \
  { #name, name, false, false }
#define COLD(name)                                                                                 \
  { #name, name, true, true }
/* Each ends with a case without a name. */
extern const struct test_case file_cases[], neighbour_cases[], socket_cases[], thread_cases[],
    context_cases[];

#define DO(call)                                                                                   \
  ({                                                                                               \
    errno = 77;                                                                                    \
    long result_ = (long)(call);                                                                   \
    say("%s -> %ld errno %d\n", #call, result_, errno);                                            \
    result_;                                                                                       \
  })
/* One whose result must be that, or the case cannot be tried. */
#define NEED(call)                                                                                 \
  ({                                                                                               \
    long result_ = (long)(call);                                                                   \
    CHECK(result_ >= 0);                                                                           \
    result_;                                                                                       \
  })

struct later {
  int ms;
  int fd;
  const char *bytes;
  size_t size;
  pthread_t target;
  pid_t thread;
  int signal;
};
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tell(void);
void show(const char *buffer, size_t size);
void where(int fd);
void signals(void);
void handle(int number, int flags);
void pause_ms(int ms);
void pair_of(int type, int pair[2]);
void tcp(int pair[2]);
pthread_t begin_later(struct later *l);

#endif
