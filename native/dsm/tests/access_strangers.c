/* Description: faults that are none of ours end or reach whom they would without
 * us; children do not share the program's view. */
#define _GNU_SOURCE
#include "../access.h"

#include "../diff.h"
#include "check.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>

static struct mr_area *area;
static volatile sig_atomic_t reached;
static sigjmp_buf back;

static int refuse(void *context, uint32_t page, bool write) {
  (void)context;
  (void)page;
  (void)write;
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
  /* A sanitizer reports it and exits instead. */
  CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == signal : WEXITSTATUS(status) != 0);
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

static void with_handler(void *argument) {
  enum mr_access_way way = *(enum mr_access_way *)argument;
  bool uffd = way == MR_BY_USERFAULTFD;
  handler_before(way, uffd ? SIGBUS : SIGSEGV, uffd ? beyond_file() : without_rights());
}

int main(void) {
  for (int i = 0; i < MR_ACCESS_WAYS; i++) {
    enum mr_access_way way = (enum mr_access_way)i;
    if (mr_access_probe(way) < 0)
      continue;
    /* In a process where nobody has installed a handler yet for it. */
    CHECK_EQUAL(finish(start(with_handler, &way)), 0);
    open_area(way);
    int signal = way == MR_BY_USERFAULTFD ? SIGBUS : SIGSEGV;
    dies(read_byte, way == MR_BY_USERFAULTFD ? beyond_file() : without_rights(), signal);
    dies(raise_it, &signal, signal);
    /* The child's view is gone: no mapping there. */
    dies(read_byte, mr_area_program(area), SIGSEGV);
    mr_area_destroy(area);
  }
  return 0;
}
