/* serve.c: what contexts do: they make calls for others.
 *
 * Requests that wait together and name places of one file that follow each other are made as one (a
 * run). The result is split as the single calls would have had it. A request that gets less than
 * all is served by a call of its own, which says why. Beside that a context makes one call after
 * the other.
 */
#define _GNU_SOURCE
#include "slots.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define MERGE_MOST 16u

/* ---- one request --------------------------------------------------------- */

/* A call of the context's sends its signal to the context, where all are blocked. */
static int take_signal(int signal) {
  unsigned long set = 1ul << (signal - 1);
  struct timespec none = {0};
  return io_raw(SYS_rt_sigtimedwait, (long)&set, 0, (long)&none, sizeof set, 0, 0) == signal
             ? signal
             : 0;
}

/* Whether the call is ours to make: it was taken back, or the descriptor closed, otherwise. */
static bool claim(struct slot *slot) {
  if (!move(slot, QUEUED, RUNNING))
    return false; /* or made by the context of the slot's earlier request */
  bool stale = atomic_load_explicit(&io_files[slot->request.fd], memory_order_seq_cst) !=
               slot->request.entry; /* see files.c */
  slot->signal = 0;
  slot->stale = stale;
  if (stale)
    set_state(slot, DONE); /* from here on the slot is its owner's */
  return !stale;
}

static void finish(struct slot *slot, long result) {
  slot->result = result;
  set_state(slot, DONE);
}

static void make(struct slot *slot) {
  const long *a = slot->request.arguments;
  long result = io_raw(slot->request.number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (result == -EFBIG)
    slot->signal = take_signal(SIGXFSZ);
  finish(slot, result);
}

/* ---- requests that follow each other ------------------------------------- */

/* Of claimed slots. */
struct run {
  unsigned number;
  size_t bytes;
  struct slot *slots[MERGE_MOST];
};

static size_t size_of(const struct slot *slot) { return (size_t)slot->request.arguments[2]; }
static uint64_t place_of(const struct slot *slot) { return (uint64_t)slot->request.arguments[3]; }

/* Its owner may take it back and ask for something else meanwhile: what is found here is looked at
 * again when it is claimed.  Relaxed, for the same reason. */
static struct slot *neighbour(struct slot *word, uint64_t *set, int fd, uint64_t at, bool behind) {
  for (uint64_t left = *set; left != 0; left &= left - 1) {
    struct slot *slot = &word[__builtin_ctzll(left)];
    uint64_t from = atomic_load_explicit(&slot->from, memory_order_relaxed),
             to = atomic_load_explicit(&slot->to, memory_order_relaxed);
    if (from == to || (behind ? from : to) != at ||
        atomic_load_explicit(&slot->fd, memory_order_relaxed) != fd)
      continue;
    *set &= ~(left & -left);
    return slot;
  }
  return NULL;
}

static bool fits(const struct run *run, const struct slot *slot, bool behind) {
  const struct slot *first = run->slots[0];
  uint64_t at = behind ? place_of(first) + run->bytes : place_of(slot) + size_of(slot);
  return slot->request.fd == first->request.fd && slot->request.entry == first->request.entry &&
         slot->request.number == first->request.number &&
         at == (behind ? place_of(slot) : place_of(first)) &&
         run->bytes + size_of(slot) <= IO_COUNT_MOST;
}

/* Adds those of the set that go on where the run ends, or end where it begins. */
static void extend(struct run *run, struct slot *word, uint64_t *set, bool behind) {
  while (*set != 0 && run->number < MERGE_MOST) {
    const struct slot *first = run->slots[0];
    uint64_t at = place_of(first) + (behind ? run->bytes : 0);
    struct slot *slot = neighbour(word, set, first->request.fd, at, behind);
    if (slot == NULL)
      return;
    if (!claim(slot))
      continue;
    if (!fits(run, slot, behind)) {
      make(slot);
      continue;
    }
    if (!behind)
      memmove(&run->slots[1], &run->slots[0], run->number * sizeof run->slots[0]);
    run->slots[behind ? run->number : 0] = slot;
    run->number++;
    run->bytes += size_of(slot);
  }
}

/* Whether the request says where it reads or writes. */
static bool is_placed(const struct slot *slot) {
  return (slot->request.number == SYS_pread64 || slot->request.number == SYS_pwrite64) &&
         slot->request.arguments[3] >= 0;
}

static void gather(struct run *run, struct slot *slot, struct slot *word, uint64_t *set) {
  *run = (struct run){.number = 1, .slots = {slot}};
  if (!is_placed(slot))
    return;
  run->bytes = size_of(slot);
  extend(run, word, set, true);
  extend(run, word, set, false);
}

/* The one call for all. */
static void arguments_of(const struct run *run, struct iovec parts[MERGE_MOST], long *number,
                         long arguments[6]) {
  const struct io_request *first = &run->slots[0]->request;
  *number = first->number;
  memcpy(arguments, first->arguments, sizeof first->arguments);
  if (run->number == 1)
    return;
  for (unsigned i = 0; i < run->number; i++)
    parts[i] = (struct iovec){(void *)run->slots[i]->request.arguments[1], size_of(run->slots[i])};
  *number = first->number == SYS_pread64 ? SYS_preadv : SYS_pwritev;
  arguments[1] = (long)parts;
  arguments[2] = run->number;
}

/* pwrite(2) writes at the end of such a file, whatever place it is given. */
static bool appends(const struct slot *slot) {
  return slot->request.number == SYS_pwrite64 &&
         (io_raw(SYS_fcntl, slot->request.fd, F_GETFL, 0, 0, 0, 0) & O_APPEND) != 0;
}

/* `result`: of the one call. What moved less than it wanted is made once more, by itself.
 * Reading or writing the same again changes nothing, and the answer is the kernel's. But what
 * was appended in part would be twice. */
static void split(const struct run *run, long result) {
  if (result > 0)
    io_add_shared(&io_line()->merged, run->number);
  for (unsigned i = 0; i < run->number; i++) {
    struct slot *slot = run->slots[i];
    long size = (long)size_of(slot), moved = result > size ? size : result;
    result = moved > 0 ? result - moved : 0;
    if (moved == size || (moved > 0 && appends(slot)))
      finish(slot, moved);
    else
      make(slot);
  }
}

static void make_run(const struct run *run) {
  struct iovec parts[MERGE_MOST];
  long number, a[6];
  if (run->number == 1) {
    make(run->slots[0]);
    return;
  }
  arguments_of(run, parts, &number, a);
  split(run, io_raw(number, a[0], a[1], a[2], a[3], 0, 0));
}

/* ---- all that wait --------------------------------------------------------- */

static void make_set(struct slot *word, uint64_t set) {
  while (set != 0) {
    struct slot *slot = &word[__builtin_ctzll(set)];
    struct run run;
    set &= set - 1;
    if (!claim(slot))
      continue;
    gather(&run, slot, word, &set);
    make_run(&run);
  }
}

bool io_serve(struct context *context) {
  bool any = false;
  for (unsigned w = 0; w < IO_SLOT_WORDS; w++) {
    if (atomic_load_explicit(&context->queued[w], memory_order_relaxed) == 0)
      continue;
    /* Acquire: the requests. */
    make_set(&io_slots[w * 64],
             atomic_exchange_explicit(&context->queued[w], 0, memory_order_acquire));
    any = true;
  }
  return any;
}
