#define _GNU_SOURCE
#include "frames.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

void mr_frame_send(struct job *job, int fd, enum mr_frame_kind kind, unsigned node, int value,
                   const void *body, size_t length) {
  struct mr_frame frame = {kind, node, (uint32_t)length, value};
  if (mr_launch_write(job, fd, (const char *)&frame, sizeof frame) == 0)
    mr_launch_write(job, fd, body, length);
}

static bool read_whole(struct job *job, int fd, void *to, size_t length) {
  for (size_t done = 0; done < length;) {
    if (!mr_launch_ready(job, fd, POLLIN))
      return false;
    ssize_t n = read(fd, (char *)to + done, length - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    done += (size_t)n;
  }
  return true;
}

bool mr_frame_read(struct job *job, int fd, struct mr_frame *frame, char *body, size_t most) {
  if (!read_whole(job, fd, frame, sizeof *frame) || frame->length >= most ||
      !read_whole(job, fd, body, frame->length))
    return false;
  body[frame->length] = 0;
  return true;
}
