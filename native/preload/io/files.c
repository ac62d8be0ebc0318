/* files.c: what a descriptor is.
 *
 * Looked up with fstat and kept until somebody closes or replaces the descriptor; nothing is
 * concluded from how it was opened. That takes three to six system calls. A server that opens a
 * file, reads it once and closes it would pay for them at each request. Nothing is to be gained by
 * reading ahead or delegating there. So only a descriptor that is used for the LOOK_AFTER-th time
 * is looked up (under `always`, where all is delegated: the first). A library that closes and opens
 * by calls that we do not see can leave a wrong kind. A pipe that is taken for a file keeps one
 * context busy until data come, and others take their requests back meanwhile.
 *
 * A thread that looks shows that first, then asks the kernel, and then stores what it said, unless
 * the generation was stepped meanwhile.  A thread that replaces a descriptor does that first, and
 * then steps the generation of what is known or being looked at.  One of them sees the other.
 *
 * The generation makes a request for a descriptor that was closed meanwhile visible: The closing
 * thread steps the generation first and then looks for requests in flight. The requesting thread
 * shows its request first, and then the context compares the generation. One of them sees the other
 * (both are sequentially consistent).
 */
#define _GNU_SOURCE
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

_Atomic uint32_t io_files[IO_FDS];
static _Atomic uint32_t used; /* numbers below were looked at at least once */

static long raw2(long number, long a, void *b) { return io_raw(number, a, (long)b, 0, 0, 0, 0); }

/* File systems whose reads and writes end by themselves and do not ask who calls.  Files of
 * /proc, /sys, cgroups and tracing may block, or mean the calling thread. */
static bool is_plain_file_system(int fd) {
  struct statfs fs;
  if (raw2(SYS_fstatfs, fd, &fs) < 0)
    return false;
  switch ((uint32_t)fs.f_type) {
  case EXT4_SUPER_MAGIC:
  case XFS_SUPER_MAGIC:
  case BTRFS_SUPER_MAGIC:
  case F2FS_SUPER_MAGIC:
  case TMPFS_MAGIC:
  case OVERLAYFS_SUPER_MAGIC:
  case 0x2fc12fc1: /* ZFS */
    return true;
  default:
    return false;
  }
}

static int socket_option(int fd, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  long rc = io_raw(SYS_getsockopt, fd, SOL_SOCKET, option, (long)&value, (long)&size, 0);
  return rc < 0 ? -1 : value;
}

static enum io_kind kind_of_socket(int fd) {
  int domain = socket_option(fd, SO_DOMAIN), type = socket_option(fd, SO_TYPE);
  if (domain != AF_INET && domain != AF_INET6 && domain != AF_UNIX)
    return IO_OTHER;
  /* Below its mark a blocking receive goes on waiting: a context's attempt would not. */
  if (socket_option(fd, SO_RCVLOWAT) > 1)
    return IO_OTHER;
  return type == SOCK_STREAM ? IO_STREAM : type == SOCK_DGRAM ? IO_DATAGRAM : IO_OTHER;
}

static enum io_kind kind_now(int fd) {
  struct stat status;
  if (raw2(SYS_fstat, fd, &status) < 0)
    return IO_UNKNOWN;
  if (S_ISREG(status.st_mode) && is_plain_file_system(fd))
    return IO_REGULAR;
  return S_ISSOCK(status.st_mode) ? kind_of_socket(fd) : IO_OTHER;
}

#define USE UINT32_C(0x10)
#define USES UINT32_C(0xf0)
/* Of 64 KiB each that is the first MiB, before which a file is no stream (hint.c). */
#define LOOK_AFTER 16u

/* Whether the use is one of the first.  Relaxed, and not tried again: a count that another
 * thread's use or step overtook is one less, a use later. */
static bool counts_use(int fd) {
  uint32_t entry = atomic_load_explicit(&io_files[fd], memory_order_relaxed);
  if (io_process.mode == MARU_IO_ALWAYS || io_kind_of(entry) != IO_UNKNOWN ||
      (entry & USES) >= (LOOK_AFTER - 1) * USE)
    return false;
  atomic_compare_exchange_strong_explicit(&io_files[fd], &entry, entry + USE, memory_order_relaxed,
                                          memory_order_relaxed);
  return true;
}

/* Of an entry.  Sequentially consistent: see above. */
static bool change(int fd, uint32_t from, uint32_t to) {
  return atomic_compare_exchange_strong_explicit(&io_files[fd], &from, to, memory_order_seq_cst,
                                                 memory_order_relaxed);
}

static void count_used(uint32_t number) {
  /* Relaxed: what is stored there later comes after it, for who sees that. */
  uint32_t most = atomic_load_explicit(&used, memory_order_relaxed);
  while (most < number && !atomic_compare_exchange_weak_explicit(
                              &used, &most, number, memory_order_relaxed, memory_order_relaxed))
    ;
}

uint32_t io_file_look(int fd) {
  if (io_is_sealed() || counts_use(fd))
    return 0;
  /* A child of vfork has our memory and descriptors of its own. */
  if (!io_same_process())
    return 0;
  uint32_t entry = atomic_load_explicit(&io_files[fd], memory_order_seq_cst);
  uint32_t generation = entry & ~0xffu, looking = generation | IO_LOOKING;
  if (io_kind_of(entry) > IO_LOOKING)
    return entry; /* somebody else has looked meanwhile */
  if (entry != looking && !change(fd, entry, looking))
    return 0;
  count_used((uint32_t)fd + 1);
  enum io_kind kind = kind_now(fd);
  /* Fails when it was replaced meanwhile: then nothing is known. */
  return kind != IO_UNKNOWN && change(fd, looking, generation | kind) ? generation | kind : 0;
}

/* What it was. */
static uint32_t step(int fd) {
  uint32_t entry = atomic_load_explicit(&io_files[fd], memory_order_relaxed);
  /* Sequentially consistent: see above. */
  while (!atomic_compare_exchange_weak_explicit(&io_files[fd], &entry, (entry & ~0xffu) + 0x100,
                                                memory_order_seq_cst, memory_order_relaxed))
    ;
  return entry;
}

void io_forget(int fd) {
  if ((unsigned)fd >= IO_FDS)
    return;
  /* What the caller had the kernel do to the number comes before the look at the entry: see above.
   */
  atomic_thread_fence(memory_order_seq_cst);
  /* Relaxed, by the fence.  Of what was only counted nobody can have a request. */
  if ((atomic_load_explicit(&io_files[fd], memory_order_relaxed) & 0xffu) == 0 ||
      io_kind_of(step(fd)) == IO_UNKNOWN)
    return;
  io_wait_for_requests((unsigned)fd, (unsigned)fd);
}

void io_forget_from(unsigned first, unsigned last) {
  atomic_thread_fence(memory_order_seq_cst); /* as above */
  for (unsigned fd = first; fd < IO_FDS && fd <= last; fd++)
    if ((atomic_load_explicit(&io_files[fd], memory_order_relaxed) & 0xffu) != 0)
      io_forget((int)fd);
}

void io_files_fork(void) {
  /* Relaxed: one thread is here. */
  uint32_t most = atomic_load_explicit(&used, memory_order_relaxed);
  for (uint32_t fd = 0; fd < most; fd++)
    /* Pages of which nothing is known need not be copied. */
    if (io_kind_of(atomic_load_explicit(&io_files[fd], memory_order_relaxed)) != IO_UNKNOWN)
      step((int)fd);
}
