/* files.h: files that a program has open, in its checkpoints (internal to libmaru-dsm).
 *
 * Of each its path, how it was opened, and where the program is in it: not what is in it. So a file
 * can be kept that the program only reads, or only writes, at a place of its own. What another
 * process would find there has to be what this one found, or what it writes again by itself.
 * Refused are, with the reason: a file that it reads and writes, as it would read what it is going
 * to write; one that it appends to, as what it has appended would stay and come again; one without
 * a name, or with a lock; what is no file.  Those of the system that keep nothing (/dev/null) are
 * well.  So are streams (streams.h), and several descriptors of one opening.
 *
 * A process that goes on has the same files behind the same descriptors before it opens any of the
 * library's own, and before it joins.  So all of the job's files are as they were before any node
 * goes on.  One that the program wrote to its end is cut to the length that it had.
 *
 * Thread-safety: none; the program's thread stands still meanwhile.
 */
#ifndef MARU_DSM_PARMACS_FILES_H
#define MARU_DSM_PARMACS_FILES_H

#include "../host.h"
#include "../streams.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define MR_FILES_MOST 64

struct mr_file {
  dev_t device;
  ino_t inode;
  off_t offset, size;
  struct timespec changed;
  int fd, flags, fd_flags;
  int same;      /* an earlier one of the same opening; -1: none */
  bool system;   /* /dev/null and the like */
  bool at_end;   /* the program writes, and is at the end */
  bool streamed; /* by: */
  struct mr_stream stream;
  char path[PATH_MAX];
};

struct mr_files {
  uint32_t count;
  bool host_known;
  char host[MR_HOST_ID];
  struct mr_file each[MR_FILES_MOST];
};

/* So many bytes of it say all. */
static inline size_t mr_files_size(const struct mr_files *files) {
  return offsetof(struct mr_files, each) + files->count * sizeof *files->each;
}

/* There are none yet; then each descriptor of the program's.  Negative errno, then `why` says why
 * it cannot be kept. */
void mr_files_begin(struct mr_files *files);
int mr_files_add(struct mr_files *files, int fd, char *why, size_t size);
/* All are there: whether they can be kept together, and what streams the program has.  Again
 * negative errno. */
int mr_files_end(struct mr_files *files, char *why, size_t size);

/* Opens them again.  Where one is gone, or is not the same, the process ends with a line. */
void mr_files_open(const struct mr_files *files);

#endif
