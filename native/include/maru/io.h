/* maru/io.h: the section "io" on a board: the input and output calls that libmaru-io.so saw.
 *
 * The thread that holds a line writes it, any process reads it.  Counters only grow and outlive the
 * thread, so the sum over all lines is what the run did.  A line whose holder was killed stays
 * taken.  A thread that finds none free counts in line 0, which all share.
 */
#ifndef MARU_IO_H
#define MARU_IO_H

#include <maru/wait.h>

#include <assert.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MARU_IO_SECTION "io"
#define MARU_IO_VERSION 2u
#define MARU_IO_LINES 1024u
#define MARU_IO_ENV "MARU_IO"

enum maru_io_mode { MARU_IO_NEVER = 0, MARU_IO_HINT, MARU_IO_ALWAYS, MARU_IO_MODES };

enum maru_io_class {
  MARU_IO_FILE_READ = 0, /* regular files of file systems on devices or in memory */
  MARU_IO_FILE_WRITE,
  MARU_IO_NET_READ, /* stream and datagram sockets */
  MARU_IO_NET_WRITE,
  /* Pipes, terminals, /proc, ...  Unless all is delegated, also the first 15 reads and writes of
   * any descriptor: the library has not looked yet what it is. */
  MARU_IO_OTHER_READ,
  MARU_IO_OTHER_WRITE,
  MARU_IO_SYNC,  /* fsync and the like, hints of the program's own */
  MARU_IO_STATE, /* open, close, dup, socket, accept ... */
  MARU_IO_CLASSES
};

struct maru_io_line {
  MARU_ATOMIC(uint32_t) holder; /* thread number; 0: free */
  MARU_ATOMIC(uint32_t) pid;    /* of the last holder */
  struct {
    MARU_ATOMIC(uint64_t) calls;
    MARU_ATOMIC(uint64_t) bytes; /* that were moved */
  } of[MARU_IO_CLASSES];
  MARU_ATOMIC(uint64_t) kernel;      /* calls that count in syscr and syscw of /proc/PID/io */
  MARU_ATOMIC(uint64_t) delegated;   /* made by a context */
  MARU_ATOMIC(uint64_t) handed_back; /* offered to a context, then made by the caller */
  MARU_ATOMIC(uint64_t) hints;       /* windows read ahead */
  MARU_ATOMIC(uint64_t) merged;      /* of those delegated: made by one call with others */
  uint64_t reserved[10];
};

struct maru_io_section {
  MARU_ATOMIC(uint32_t) mode;     /* enum maru_io_mode, of the last process that started */
  MARU_ATOMIC(uint32_t) contexts; /* threads that were started to make calls for others */
  MARU_ATOMIC(uint64_t) loads;    /* programs that began with the library in them */
  uint64_t reserved[30];
  struct maru_io_line lines[MARU_IO_LINES];
};

static_assert(sizeof(struct maru_io_line) == 256, "readers know this size");

#ifdef __cplusplus
}
#endif
#endif
