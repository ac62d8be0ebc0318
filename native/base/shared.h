/* shared.h: memory that a process and its children share (internal).
 *
 * The pages read as zero until written, and have no name in any file system. They go when the last
 * process that maps them unmaps or ends.
 */
#ifndef MARU_BASE_SHARED_H
#define MARU_BASE_SHARED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define MR_CACHE_LINE 64

/* `size` rounded up to whole pages; 0 when that overflows. */
size_t mr_page_round(size_t size);

/* Whether a file of this process may be so long, a memfd too: 0, or -EFBIG.  A call that asks for
 * more than the limit (ulimit -f) would be answered by SIGXFSZ, which ends the process. */
int mr_file_allowed(size_t size);

/* A memfd of `size` bytes, sealed against resizing (and further sealing), close
 * on exec.  Returns the descriptor or -errno; -EFBIG beyond RLIMIT_FSIZE (ulimit -f). */
int mr_sealed_memfd(const char *name, size_t size);

/* Writes all of it there.  pwrite alone stops short at a limit (ulimit -f, no room), and only the
 * next call says which.  0 or -errno. */
int mr_write_at(int fd, const void *bytes, size_t length, uint64_t at);

/* Opens by O_PATH what `path` leads to, if that is a memfd; of *status its type, user,
 * size, inode and device are known.
 * Looking has no side effect, whatever it leads to (a FIFO, a device). It asks no other file system
 * anything: one in user space might not answer.  -EPROTO: no memfd; else open's errno, or
 * memfd_create's.  Not async-signal-safe. */
int mr_memfd_at(const char *path, struct stat *status);

/* Maps `size` bytes of fresh shared memory, sparse, without a descriptor left
 * behind.  `name` shows in /proc/PID/maps.  0 or -ENOMEM. */
int mr_shared_map(const char *name, size_t size, void **base);

#endif
