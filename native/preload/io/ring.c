/* ring.c: see ring.h.
 *
 * Only calls that name where they read and write, and those of sockets: a ring moves a
 * descriptor's own position without the lock that read(2) and write(2) hold.  And only of files:
 * pread(2) refuses a pipe, where a ring takes what is there, or waits for as long as nothing is.
 * A number may stand for one by now (files.c).
 */
#define _GNU_SOURCE
#include "ring.h"

#include "io.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define PAGE 4096u
#define NO_MMAP (1u << 14)            /* IORING_SETUP_NO_MMAP */
#define REGISTERED_FD_ONLY (1u << 15) /* IORING_SETUP_REGISTERED_FD_ONLY */

/* The last field of both offsets, which headers before 6.5 call reserved. */
static void set_address(void *offsets, const void *memory) {
  uint64_t address = (uintptr_t)memory;
  memcpy((char *)offsets + offsetof(struct io_sqring_offsets, resv1) + sizeof(uint32_t), &address,
         sizeof address);
}
_Static_assert(sizeof(struct io_sqring_offsets) == sizeof(struct io_cqring_offsets) &&
                   offsetof(struct io_sqring_offsets, resv1) ==
                       offsetof(struct io_cqring_offsets, resv1),
               "the address is at the same place in both");

int io_ring_open(struct io_ring *ring) {
  struct io_uring_params params = {.flags = NO_MMAP | REGISTERED_FD_ONLY};
  char *memory =
      mmap(NULL, (size_t)2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return -ENOMEM;
  /* A forked child has no use for it: it would keep a copy for good. */
  madvise(memory, (size_t)2 * PAGE, MADV_DONTFORK);
  set_address(&params.cq_off, memory);
  set_address(&params.sq_off, memory + PAGE);
  long index = io_raw(SYS_io_uring_setup, IO_RING_ENTRIES, (long)&params, 0, 0, 0, 0);
  if (index < 0) {
    munmap(memory, (size_t)2 * PAGE);
    return (int)index;
  }
  *ring = (struct io_ring){
      .index = (unsigned)index,
      .rings = memory,
      .sq_tail = (uint32_t *)(memory + params.sq_off.tail),
      .sq_mask = (uint32_t *)(memory + params.sq_off.ring_mask),
      .sq_array = (uint32_t *)(memory + params.sq_off.array),
      .cq_head = (uint32_t *)(memory + params.cq_off.head),
      .cq_tail = (uint32_t *)(memory + params.cq_off.tail),
      .cq_mask = (uint32_t *)(memory + params.cq_off.ring_mask),
      .entries = memory + PAGE,
      .completions = memory + params.cq_off.cqes,
  };
  return 0;
}

void io_ring_close(struct io_ring *ring) {
  struct io_uring_rsrc_update update = {.offset = ring->index};
  if (ring->rings == NULL)
    return;
  io_raw(SYS_io_uring_register, ring->index, IORING_UNREGISTER_RING_FDS | 1u << 31, (long)&update,
         1, 0, 0);
  munmap(ring->rings, (size_t)2 * PAGE);
  ring->rings = NULL;
}

static bool translate(struct io_uring_sqe *entry, long number, const long *a) {
  entry->fd = (int32_t)a[0];
  entry->addr = (uint64_t)a[1];
  entry->len = (uint32_t)a[2];
  switch (number) {
  case SYS_pread64:
  case SYS_pwrite64:
  case SYS_preadv:
  case SYS_pwritev:
    if (a[3] < 0 /* a ring would take its own position */ || !io_is_regular(entry->fd))
      return false;
    entry->off = (uint64_t)a[3];
    entry->opcode = number == SYS_pread64    ? IORING_OP_READ
                    : number == SYS_pwrite64 ? IORING_OP_WRITE
                    : number == SYS_preadv   ? IORING_OP_READV
                                             : IORING_OP_WRITEV;
    return true;
  case SYS_recvfrom:
  case SYS_sendto:
    if (a[4] != 0)
      return false;
    entry->msg_flags = (uint32_t)a[3];
    entry->opcode = number == SYS_recvfrom ? IORING_OP_RECV : IORING_OP_SEND;
    return true;
  case SYS_recvmsg:
  case SYS_sendmsg:
    entry->len = 1;
    entry->msg_flags = (uint32_t)a[2];
    entry->opcode = number == SYS_recvmsg ? IORING_OP_RECVMSG : IORING_OP_SENDMSG;
    return true;
  default:
    return false;
  }
}

bool io_ring_add(struct io_ring *ring, long number, const long arguments[6], uint64_t tag) {
  struct io_uring_sqe entry = {.user_data = tag};
  if (ring->unsent + ring->flying == IO_RING_ENTRIES || !translate(&entry, number, arguments))
    return false;
  /* We alone move the tail. */
  uint32_t at = (*ring->sq_tail + ring->unsent++) & *ring->sq_mask;
  memcpy((struct io_uring_sqe *)ring->entries + at, &entry, sizeof entry);
  ring->sq_array[at] = at;
  return true;
}

static long enter(struct io_ring *ring, unsigned number) {
  return io_raw(SYS_io_uring_enter, ring->index, number, 1,
                IORING_ENTER_GETEVENTS | IORING_ENTER_REGISTERED_RING, 0, 0);
}

bool io_ring_wait(struct io_ring *ring) {
  if (ring->unsent > 0) {
    uint32_t sent = *ring->sq_tail;
    /* Release: the entries. */
    __atomic_store_n(ring->sq_tail, sent + ring->unsent, __ATOMIC_RELEASE);
    long taken = enter(ring, ring->unsent);
    taken = taken < 0 ? 0 : taken;
    /* What was not taken is left out: no memory, or the ring was forbidden since. */
    __atomic_store_n(ring->sq_tail, sent + (uint32_t)taken, __ATOMIC_RELEASE);
    ring->unsent = 0;
    ring->flying += (unsigned)taken;
    return ring->flying > 0;
  }
  if (ring->flying > 0)
    enter(ring, 0);
  return ring->flying > 0;
}

bool io_ring_take(struct io_ring *ring, uint64_t *tag, long *result) {
  uint32_t head = *ring->cq_head; /* ours */
  /* Acquire: what the kernel wrote there. */
  if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
    return false;
  const struct io_uring_cqe *done =
      (const struct io_uring_cqe *)ring->completions + (head & *ring->cq_mask);
  ring->flying--;
  *tag = done->user_data;
  *result = done->res;
  /* Release: we are done with it. */
  __atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
  return true;
}
