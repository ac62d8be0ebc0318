/* cases_neighbours.c: threads that ask at once for places of a file that follow each other; what
 * one call for all of them could get wrong.  See cases.c. */
#define _GNU_SOURCE
#include "cases.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define ASKERS 6
#define ROUNDS 40
#define PART 5000

static struct ask {
  int fd;
  bool writes;
  char *buffer;
  size_t size;
  off_t at;
  ssize_t result;
  int error;
} asks[ASKERS];
static pthread_barrier_t together;

static void *keep_asking(void *argument) {
  struct ask *ask = argument;
  for (int i = 0; i < ROUNDS; i++) {
    pthread_barrier_wait(&together);
    errno = 77;
    ssize_t result = ask->writes ? pwrite(ask->fd, ask->buffer, ask->size, ask->at)
                                 : pread(ask->fd, ask->buffer, ask->size, ask->at);
    if (i > 0 && (result != ask->result || errno != ask->error))
      say("round %d: %zd errno %d\n", i, result, errno);
    ask->result = result;
    ask->error = errno;
  }
  return NULL;
}

/* All at once, again and again: each time the same, and that is said. */
static void ask_all(void) {
  pthread_t threads[ASKERS];
  NEED(-pthread_barrier_init(&together, NULL, ASKERS));
  for (int i = 0; i < ASKERS; i++)
    NEED(-pthread_create(&threads[i], NULL, keep_asking, &asks[i]));
  for (int i = 0; i < ASKERS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < ASKERS; i++)
    say("%d: %zd errno %d\n", i, asks[i].result, asks[i].error);
}

static void in_a_row(int fd, bool writes, char *memory, off_t at) {
  for (int i = 0; i < ASKERS; i++)
    asks[i] = (struct ask){.fd = fd,
                           .writes = writes,
                           .buffer = memory + (size_t)i * PART,
                           .size = PART,
                           .at = at + (off_t)i * PART};
}

static void neighbours_read(void) {
  in_a_row(file, false, other, 1000);
  asks[1].size -= 100; /* a gap */
  ask_all();
  show(other, ASKERS * PART);
}
static void neighbours_at_end(void) {
  in_a_row(file, false, other, SIZE - 3 * PART - 700);
  ask_all();
  show(other, ASKERS * PART);
}
static void neighbours_bad_address(void) {
  in_a_row(file, false, other, 0);
  asks[2].buffer = (char *)8;
  ask_all();
  show(other, ASKERS * PART);
}
static void neighbours_half_bad_address(void) {
  char *pages = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  NEED(mprotect(pages + 8192, 8192, PROT_NONE));
  in_a_row(file, false, other, 4096);
  asks[3].buffer = pages + 8192 - 2000;
  ask_all();
  show(other, ASKERS * PART);
  show(pages, 8192);
}
static void neighbours_write(void) {
  in_a_row(second, true, data, 300);
  ask_all();
  show(other, (size_t)NEED(pread(second, other, SIZE, 0)));
}
static void neighbours_at_limit(void) {
  struct rlimit limit = {3 * PART + 800, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  NEED(setrlimit(RLIMIT_FSIZE, &limit));
  in_a_row(second, true, data, 0);
  ask_all();
  show(other, (size_t)NEED(pread(second, other, SIZE, 0)));
}
static void neighbours_of_two_kinds(void) {
  in_a_row(second, true, data, 0);
  for (int i = 1; i < ASKERS; i += 2)
    asks[i].writes = false, asks[i].fd = file, asks[i].buffer = other + i * PART;
  ask_all();
  show(other, ASKERS * PART);
  show(other, (size_t)NEED(pread(second, other, SIZE, 0)));
}
static void neighbours_append(void) {
  NEED(fcntl(second, F_SETFL, O_APPEND));
  in_a_row(second, true, data, 0);
  ask_all();
  say("%lld bytes\n", (long long)lseek(second, 0, SEEK_END));
}
static int wrong_rounds;
static _Atomic long told; /* to have been appended, in this round */
static void *append_again(void *argument) {
  struct ask *ask = argument;
  for (int i = 0; i < ROUNDS; i++) {
    pthread_barrier_wait(&together);
    ssize_t result = pwrite(ask->fd, ask->buffer, ask->size, ask->at);
    told += result > 0 ? result : 0;
    if (pthread_barrier_wait(&together) != PTHREAD_BARRIER_SERIAL_THREAD)
      continue;
    if (told != lseek(second, 0, SEEK_END))
      wrong_rounds++;
    told = 0;
    NEED(ftruncate(second, 0));
  }
  return NULL;
}
/* A thread that is told that so much was appended finds so much there, no more and no less. */
static void neighbours_append_to_limit(void) {
  pthread_t threads[ASKERS];
  struct rlimit limit = {3 * PART + 800, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  NEED(setrlimit(RLIMIT_FSIZE, &limit));
  NEED(fcntl(second, F_SETFL, O_APPEND));
  in_a_row(second, true, data, 0);
  NEED(-pthread_barrier_init(&together, NULL, ASKERS));
  for (int i = 0; i < ASKERS; i++)
    NEED(-pthread_create(&threads[i], NULL, append_again, &asks[i]));
  for (int i = 0; i < ASKERS; i++)
    pthread_join(threads[i], NULL);
  say("wrong in %d rounds\n", wrong_rounds);
}
static void neighbours_not_open(void) {
  in_a_row(dup(file), false, other, 0);
  close(asks[0].fd);
  ask_all();
}

const struct test_case neighbour_cases[] = {
    D(neighbours_read),
    D(neighbours_at_end),
    D(neighbours_bad_address),
    D(neighbours_half_bad_address),
    D(neighbours_write),
    D(neighbours_at_limit),
    D(neighbours_of_two_kinds),
    D(neighbours_append),
    D(neighbours_append_to_limit),
    N(neighbours_not_open),
    {NULL, NULL, false, false},
};
