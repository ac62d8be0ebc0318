#define _GNU_SOURCE
#include "keep.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* What was not recorded is lost until all of it has been read. */
void mr_keep_note_input(const struct job *job, struct keep *keep) {
  int in_pipe = 0;
  /* Of several hosts the launcher reads it ahead of node 0. */
  keep->input_at = keep->several ? -1 : lseek(STDIN_FILENO, 0, SEEK_CUR);
  if (keep->input_pipe >= 0)
    ioctl(keep->input_pipe, FIONREAD, &in_pipe);
  size_t left =
      keep->several ? keep->input_here - keep->input_taken : (size_t)in_pipe + job->input.length;
  keep->input_read = keep->input_at >= 0 ? (uint64_t)keep->input_at : keep->input_given - left;
  if (left > 0 && keep->input_lost)
    return;
  memmove(keep->input, keep->input + keep->input_length - left, left);
  keep->input_length = left;
  keep->input_lost = false;
}

void mr_keep_skip_input(const struct keep *keep) {
  struct stat is;
  char why[128];
  if (keep->input_read == 0)
    return;
  snprintf(why, sizeof why,
           "node 0 has read %" PRIu64 " bytes of it before: give a file that has them, as < FILE",
           keep->input_read);
  if (fstat(STDIN_FILENO, &is) < 0 || !S_ISREG(is.st_mode) ||
      (uint64_t)is.st_size < keep->input_read ||
      lseek(STDIN_FILENO, (off_t)keep->input_read, SEEK_SET) < 0)
    mr_launch_fail(STATUS_DATA_ERROR, "--resume: the standard input", why);
}

void mr_keep_gave(struct job *job, const char *bytes, size_t length) {
  struct keep *keep = job->keep;
  if (keep == NULL)
    return;
  keep->input_given += length;
  keep->input_here += length;
  if (keep->input_lost)
    return;
  keep->input_lost = length > sizeof keep->input - keep->input_length;
  if (keep->input_lost)
    return;
  memcpy(keep->input + keep->input_length, bytes, length);
  keep->input_length += length;
}

void mr_keep_pipe(struct job *job, int end) {
  struct keep *keep = job->keep;
  if (keep == NULL)
    return;
  if (keep->input_pipe >= 0)
    close(keep->input_pipe);
  keep->input_pipe = fcntl(end, F_DUPFD_CLOEXEC, 0);
}

void mr_keep_feed(struct job *job) {
  job->input.given = job->keep->input_length;
  if (job->keep->input_length > 0)
    mr_launch_input_give(job, job->keep->input, job->keep->input_length);
}
