/* Description: faults that are none of ours end or reach whom they would without
 * us; children do not share the program's view. */
#define _GNU_SOURCE
#include "../access.h"

#include "../diff.h"
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>

static struct mr_area *area;
static volatile sig_atomic_t reached;
static sigjmp_buf back;

/* Shared with children. */
static int *calls;

static int refuse(void *context, uint32_t page, bool write) {
  (void)context;
  (void)page;
  (void)write;
  ++*calls;
  return -EFAULT;
}

static void open_area(enum mr_access_way way) {
  CHECK_EQUAL(mr_area_create(&area, way, NULL, 4, refuse, NULL), 0);
}

static void read_byte(void *address) { (void)*(volatile uint8_t *)address; }

/* Behind the end of its file. */
static void *beyond_file(void) {
  int fd = memfd_create("short", MFD_CLOEXEC);
  CHECK(fd >= 0);
  void *memory = mmap(NULL, MR_PAGE, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

static void *without_rights(void) {
  void *memory = mmap(NULL, MR_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

static void dies(void (*body)(void *), void *argument, int signal) {
  int status = finish(start(body, argument));
#ifdef __SANITIZE_ADDRESS__ /* it reports the signal, then exits or, if it is asked to, aborts */
  CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == signal || WTERMSIG(status) == SIGABRT
                            : WEXITSTATUS(status) != 0);
#else
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
#endif
}

static void raise_it(void *signal) { raise(*(int *)signal); }

static void on_signal(int signal) {
  reached = signal;
  siglongjmp(back, 1);
}

static void handler_before(enum mr_access_way way, int signal, void *address) {
  struct sigaction action = {.sa_handler = on_signal};
  CHECK_EQUAL(sigaction(signal, &action, NULL), 0);
  open_area(way);
  if (sigsetjmp(back, 1) == 0)
    read_byte(address);
  CHECK_EQUAL(reached, signal);
}

static void ignored(void *argument) {
  enum mr_access_way way = *(enum mr_access_way *)argument;
  int signal_number = way == MR_BY_USERFAULTFD ? SIGBUS : SIGSEGV;
  signal(signal_number, SIG_IGN);
  open_area(way);
  CHECK_EQUAL(raise(signal_number), 0);
}

/* An access cannot be ignored. */
static void ignored_access(void *way) {
  ignored(way);
  read_byte(mr_area_program(area));
}

static void probe(void *argument) {
  if (mr_access_probe(*(enum mr_access_way *)argument) < 0)
    _exit(1);
}

static volatile sig_atomic_t depth, deepest;

static void on_masked(int signal) {
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, NULL, &now);
  CHECK(sigismember(&now, SIGUSR1));
  CHECK(!sigismember(&now, signal));
  depth++;
  deepest = depth > deepest ? depth : deepest;
  if (depth < 3)
    raise(signal);
  depth--;
}

/* The handler that was there before has its own mask, and may be nested if it said so. */
static void masked(void *argument) {
  enum mr_access_way way = *(enum mr_access_way *)argument;
  int signal = way == MR_BY_USERFAULTFD ? SIGBUS : SIGSEGV;
  struct sigaction action = {.sa_handler = on_masked, .sa_flags = SA_NODEFER};
  sigset_t now;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGUSR1);
  CHECK_EQUAL(sigaction(signal, &action, NULL), 0);
  open_area(way);
  CHECK_EQUAL(raise(signal), 0);
  CHECK_EQUAL(deepest, 3);
  pthread_sigmask(SIG_BLOCK, NULL, &now);
  CHECK(!sigismember(&now, SIGUSR1));
}

/* A child that has something of its own where the parent's memory was. */
static void own_mapping(void *argument) {
  enum mr_access_way way = *(enum mr_access_way *)argument;
  int fd = memfd_create("short", MFD_CLOEXEC);
  bool uffd = way == MR_BY_USERFAULTFD;
  CHECK(fd >= 0);
  CHECK(mmap(mr_area_program(area), MR_PAGE, uffd ? PROT_READ : PROT_NONE, MAP_SHARED | MAP_FIXED,
             fd, 0) != MAP_FAILED);
  read_byte(mr_area_program(area));
}

static void with_handler(void *argument) {
  enum mr_access_way way = *(enum mr_access_way *)argument;
  bool uffd = way == MR_BY_USERFAULTFD;
  handler_before(way, uffd ? SIGBUS : SIGSEGV, uffd ? beyond_file() : without_rights());
}

int main(void) {
  calls = mmap(NULL, MR_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(calls != MAP_FAILED);
  for (int i = 0; i < MR_ACCESS_WAYS; i++) {
    enum mr_access_way way = (enum mr_access_way)i;
    int signal = way == MR_BY_USERFAULTFD ? SIGBUS : SIGSEGV;
    /* In processes where nobody has installed a handler for it yet. */
    if (finish(start(probe, &way)) != 0)
      continue;
    CHECK_EQUAL(finish(start(with_handler, &way)), 0);
    CHECK_EQUAL(finish(start(ignored, &way)), 0);
    dies(ignored_access, &way, signal);
    CHECK_EQUAL(finish(start(masked, &way)), 0);
    open_area(way);
    *calls = 0;
    dies(read_byte, way == MR_BY_USERFAULTFD ? beyond_file() : without_rights(), signal);
    dies(raise_it, &signal, signal);
    /* The child's view is gone: no mapping there. */
    dies(read_byte, mr_area_program(area), SIGSEGV);
    dies(own_mapping, &way, signal);
    CHECK_EQUAL(*calls, 0);
    mr_area_destroy(area);
  }
  return 0;
}
