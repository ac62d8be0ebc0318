/* maru/board.h: the region where a run's rooms meet.
 *
 * One memfd per run ("maru-board", sealed against resizing): a header and a
 * directory of typed, versioned sections.  Down it go knobs, up it come
 * counters.  It has no name in any file system: a supervisor keeps the
 * descriptor open and passes MARU_BOARD=/proc/<pid>/fd/<n>.  The board vanishes
 * with the last process that holds it.
 *
 * A section is added once and never removed.  Its entry is marked ready last,
 * with release order, so a reader sees either nothing or a whole section.
 * A privileged reader must copy what it reads and check every bound: it may trust
 * nothing on a board (maru_board_open checks header and directory).
 *
 * Errors are negative errno.
 */
#ifndef MARU_BOARD_H
#define MARU_BOARD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The layout of a board begins, in every version, with eight bytes that are "aruboard" and 32 bits
 * that are its version, of this machine's byte order. */
#define MARU_BOARD_VERSION 2u
#define MARU_BOARD_VERSION_AT 8
#define MARU_BOARD_ENV "MARU_BOARD"
#define MARU_BOARD_NAME_MAX 23
#define MARU_BOARD_SECTIONS 64

struct maru_board {
  void *base;
  size_t size;
  int fd;     /* owned; -1 after maru_board_forget_fd */
  uid_t user; /* whose it is; the kernel's word */
};

/* The process that made a board; start time as in /proc/PID/stat field 22. */
struct maru_board_owner {
  pid_t pid;
  uint64_t start_time;
};

struct maru_board_section {
  char name[MARU_BOARD_NAME_MAX + 1];
  uint32_t version;
  uint64_t size;
  void *data; /* in this process's mapping */
};

/* Creates a board with `size` bytes for sections, rounded up to a page and sparse.
 * Header and text log come on top.  -EINVAL for 0, else the errno of
 * memfd_create, ftruncate or mmap. */
int maru_board_create(struct maru_board *board, size_t size);
/* Opens this user's board behind `path` (a MARU_BOARD value).  -EPROTO: not a board,
 * -EACCES: another user's, -ENOTSUP: a board of another version, else open's and mmap's errno.
 * Opens only a memfd for reading or writing. */
int maru_board_open(struct maru_board *board, const char *path);
/* The same of that user's board. */
int maru_board_open_of(struct maru_board *board, const char *path, uid_t user);
/* The board named by MARU_BOARD; -ENOENT when there is none. */
int maru_board_open_env(struct maru_board *board);
void maru_board_close(struct maru_board *board);
/* Closes the descriptor, keeps the mapping. */
void maru_board_forget_fd(struct maru_board *board);
/* The process that made it.  The header only claims that, so the call asks the kernel.  The process
 * must live, have started when the header says, and be the board's user's.
 *
 * -ESRCH: it has ended, is of another pid namespace, or the claim is false. */
int maru_board_owner_of(const struct maru_board *board, struct maru_board_owner *owner);

/* Adds a zeroed section (64-byte aligned).  Any process may, at any time.
 * -EEXIST: it is there in some version, or another process is adding it (one that
 * was killed meanwhile leaves the name unusable).  -ENOSPC, -ENAMETOOLONG, -EINVAL (empty
 * name), -EPROTO (the board is damaged).  Failure takes no room. */
int maru_board_add(struct maru_board *board, const char *name, uint32_t version, size_t size,
                   void **data);
/* Finds a section.  -ENOENT; -ENOTSUP: there in another version or smaller
 * than `size`; -EPROTO: the board is damaged. */
int maru_board_find(const struct maru_board *board, const char *name, uint32_t version, size_t size,
                    void **data);
/* Finds a section that several processes use, or adds it.  While another process is adding it,
 * waits for that: 100 ms at most, then -ETIMEDOUT.  Else as maru_board_find and maru_board_add. */
int maru_board_share(struct maru_board *board, const char *name, uint32_t version, size_t size,
                     void **data);
/* Section number `position`, 0 upwards; -ENOENT past the last. */
int maru_board_section_at(const struct maru_board *board, unsigned position,
                          struct maru_board_section *section);

/* The text log of a board: lines such as "map: worker 3 killed by signal 9",
 * kept in a ring.  Every degraded mode is reported there.  Truncates at 200
 * bytes.  Safe from several processes at once; never blocks. */
int maru_board_say(struct maru_board *board, const char *room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The lines that the ring may hold: from *first up to, not including, *end; 256 at most, whatever
 * the board says. */
void maru_board_lines(const struct maru_board *board, uint64_t *first, uint64_t *end);
/* Copies line `number` (0 = first ever said) into text, as a terminal can bear it.  Question marks
 * stand for control characters, changes of direction, and what is no UTF-8.  -ENOENT: not said yet.
 * -ESTALE: overwritten.  -EAGAIN: being written, or its writer was killed, or one that slept for
 * 256 lines wrote over it.  The lines after it can be read. */
int maru_board_line(const struct maru_board *board, uint64_t number, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
