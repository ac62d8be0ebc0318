#define _GNU_SOURCE
#include "frames.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mr_frame_send(struct job *job, int fd, enum mr_frame_kind kind, unsigned node, int value,
                   const void *body, size_t length) {
  struct mr_frame frame = {kind, node, (uint32_t)length, value};
  if (mr_launch_write(job, fd, (const char *)&frame, sizeof frame) == 0)
    mr_launch_write(job, fd, body, length);
}

static bool widen(struct mr_frame_queue *queue, size_t room) {
  char *wider = room > queue->room ? realloc(queue->bytes, room) : queue->bytes;
  if (wider == NULL)
    return false;
  queue->bytes = wider;
  queue->room = room > queue->room ? room : queue->room;
  return true;
}

static void append(struct mr_frame_queue *queue, const void *bytes, size_t length) {
  if (length > 0)
    memcpy(queue->bytes + queue->length, bytes, length);
  queue->length += length;
}

bool mr_frame_put(struct mr_frame_queue *queue, enum mr_frame_kind kind, unsigned node, int value,
                  const void *body, size_t length) {
  struct mr_frame frame = {kind, node, (uint32_t)length, value};
  if (!widen(queue, queue->length + sizeof frame + length))
    return false;
  append(queue, &frame, sizeof frame);
  append(queue, body, length);
  return true;
}

/* So much at a time that what is ready takes it without waiting. */
void mr_frame_flush(struct mr_frame_queue *queue, int fd) {
  struct pollfd polled = {.fd = fd, .events = POLLOUT};
  size_t done = 0;
  while (done < queue->length && poll(&polled, 1, 0) > 0) {
    size_t left = queue->length - done;
    ssize_t n = write(fd, queue->bytes + done, left < PIPE_BUF ? left : PIPE_BUF);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
      done = queue->length;
    else if (n > 0)
      done += (size_t)n;
  }
  queue->length -= done;
  if (queue->length > 0)
    memmove(queue->bytes, queue->bytes + done, queue->length);
}

void mr_frame_drop(struct mr_frame_queue *queue) {
  free(queue->bytes);
  *queue = (struct mr_frame_queue){.bytes = NULL};
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

/* No byte of the next frame. */
static enum mr_frame_come read_piece(struct mr_frame_part *part, int fd) {
  const size_t head = sizeof part->head;
  bool in_head = part->have < head;
  size_t in_body = in_head ? 0 : part->have - head;
  ssize_t n = in_head ? read(fd, (char *)&part->head + part->have, head - part->have)
                      : read(fd, part->body + in_body, part->head.length - in_body);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return COME_PART;
  if (n <= 0)
    return COME_GONE;
  part->have += (size_t)n;
  if (part->have < head)
    return COME_PART;
  if (part->head.length >= sizeof part->body)
    return COME_GONE;
  if (part->have < head + part->head.length)
    return COME_PART;
  part->body[part->head.length] = 0;
  part->have = 0;
  return COME_WHOLE;
}

enum mr_frame_come mr_frame_come(struct mr_frame_part *part, int fd) {
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  enum mr_frame_come come = COME_PART;
  while (come == COME_PART && poll(&polled, 1, 0) > 0)
    come = read_piece(part, fd);
  return come;
}
