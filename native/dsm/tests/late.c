/* late.c: a thread that gets its processor late, for a test (46-dsm-recovery).
 *
 * Preloaded into a program of maru-cc.  A thread that computes and has slept for a checkpoint wakes
 * when the next one is wanted, as on a machine whose processors others have.  No later than after
 * LATE_MS: it may have been the last one.
 */
#define _GNU_SOURCE
#include "../checkpoint.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096u
#define LATE_MS 1000

typedef long call(long number, ...);

static uint32_t load(const _Atomic uint32_t *word) {
  return atomic_load_explicit(word, memory_order_acquire);
}

/* The bell alone lies so in a page, of what the thread that computes sleeps for. */
static const struct mr_checkpoint_page *page_of(long number, uintptr_t word, long op) {
  const struct mr_checkpoint_page *page =
      (const struct mr_checkpoint_page *)(word - offsetof(struct mr_checkpoint_page, bell));
  bool bell = number == SYS_futex && op == FUTEX_WAIT_BITSET && getpid() == gettid() &&
              (uintptr_t)page % PAGE == 0 && page->version == MR_CHECKPOINT_VERSION;
  return bell ? page : NULL;
}

long syscall(long number, ...) {
  long given[6];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; i++)
    given[i] = va_arg(rest, long);
  va_end(rest);
  call *next = (call *)dlsym(RTLD_NEXT, "syscall");
  long result = next(number, given[0], given[1], given[2], given[3], given[4], given[5]);
  const struct mr_checkpoint_page *page = page_of(number, (uintptr_t)given[0], given[1]);
  int error = errno;
  for (int ms = 0; page != NULL && ms < LATE_MS && load(&page->wanted) == load(&page->over); ms++)
    poll(NULL, 0, 1);
  errno = error;
  return result;
}
