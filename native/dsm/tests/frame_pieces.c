/* Description: frames wait in a queue for who does not read, and nobody waits for that; they come
 * whole and in order, in whatever pieces; what is no frame ends the connection.
 */
#define _GNU_SOURCE
#include "../launch/frames.h"
#include "check.h"

#include <fcntl.h>

#define FRAMES 2000u
#define PIECE 4096

/* For frames that are waited for: there are none here. */
bool mr_launch_ready(struct job *job, int fd, short event) {
  (void)job;
  (void)fd;
  (void)event;
  CHECK(false);
  return false;
}

int mr_launch_write(struct job *job, int fd, const char *bytes, size_t length) {
  (void)job;
  (void)fd;
  (void)bytes;
  (void)length;
  CHECK(false);
  return -1;
}

static struct mr_frame_part part;

static size_t length_of(unsigned number) {
  static const size_t lengths[] = {0, 1, 28, 4080, 4096, 16384, 20000, MR_FRAME_MAX - 1};
  return lengths[number % 7 == 0 ? 7 : number * 5 % 8];
}

static char byte_of(unsigned number, size_t i) { return (char)(number * 31 + i * 7 + i / 256); }

static void put(struct mr_frame_queue *queue, unsigned number) {
  static char body[MR_FRAME_MAX];
  for (size_t i = 0; i < length_of(number); i++)
    body[i] = byte_of(number, i);
  CHECK(mr_frame_put(queue, FRAME_LINE, number, -(int)number, body, length_of(number)));
}

static void is_that(unsigned number) {
  CHECK_EQUAL(part.head.kind, FRAME_LINE);
  CHECK_EQUAL(part.head.node, number);
  CHECK_EQUAL(part.head.value, -(int)number);
  CHECK_EQUAL(part.head.length, length_of(number));
  for (size_t i = 0; i < part.head.length; i++)
    CHECK_EQUAL(part.body[i], byte_of(number, i));
  CHECK_EQUAL(part.body[part.head.length], 0);
}

static bool is_ready(int fd, short event) {
  struct pollfd polled = {.fd = fd, .events = event};
  return poll(&polled, 1, 0) > 0;
}

/* Somebody between both, who hands on what he likes. */
static void hand_on(int from, int to, size_t most) {
  char bytes[PIECE];
  if (!is_ready(from, POLLIN) || !is_ready(to, POLLOUT))
    return;
  ssize_t n = read(from, bytes, most);
  CHECK(n > 0);
  CHECK_EQUAL(write(to, bytes, (size_t)n), n);
}

static void all_come(uint64_t seed) {
  struct mr_frame_queue queue = {.bytes = NULL};
  int near[2], far[2];
  unsigned sent = 0, come = 0;
  CHECK(pipe(near) == 0 && pipe(far) == 0);
  while (come < FRAMES) {
    uint64_t drawn = next_random(&seed);
    if (sent < FRAMES && queue.length < 1 << 19 && drawn % 5 < 2)
      put(&queue, sent++);
    if (drawn % 7 < 3)
      mr_frame_flush(&queue, near[1]);
    hand_on(near[0], far[1], drawn % 11 < 3 ? 1 + drawn % 40 : PIECE);
    if (drawn % 3 == 0 && mr_frame_come(&part, far[0]) == COME_WHOLE)
      is_that(come++);
  }
  CHECK_EQUAL(queue.length, 0);
  CHECK_EQUAL(mr_frame_come(&part, far[0]), COME_PART);
  mr_frame_drop(&queue);
  for (int i = 0; i < 2; i++) {
    close(near[i]);
    close(far[i]);
  }
}

/* Of a connection that brings so much of a frame, and ends. */
static void ends_after(size_t bytes, uint32_t length) {
  struct mr_frame head = {.kind = FRAME_LINE, .length = length};
  int ends[2];
  part.have = 0;
  CHECK(pipe(ends) == 0);
  CHECK_EQUAL(write(ends[1], &head, bytes < sizeof head ? bytes : sizeof head),
              bytes < sizeof head ? bytes : sizeof head);
  for (size_t i = sizeof head; i < bytes; i++)
    CHECK_EQUAL(write(ends[1], "", 1), 1);
  if (length < MR_FRAME_MAX)
    CHECK_EQUAL(mr_frame_come(&part, ends[0]), COME_PART);
  else
    CHECK_EQUAL(mr_frame_come(&part, ends[0]), COME_GONE);
  close(ends[1]);
  if (length < MR_FRAME_MAX)
    CHECK_EQUAL(mr_frame_come(&part, ends[0]), COME_GONE);
  close(ends[0]);
}

/* What is for nobody goes nowhere. */
static void nobody_reads(void) {
  struct mr_frame_queue queue = {.bytes = NULL};
  int ends[2];
  CHECK(pipe(ends) == 0);
  for (unsigned i = 0; i < 20; i++)
    put(&queue, i);
  mr_frame_flush(&queue, ends[1]);
  CHECK(queue.length > 0);
  close(ends[0]);
  mr_frame_flush(&queue, ends[1]);
  CHECK_EQUAL(queue.length, 0);
  close(ends[1]);
  mr_frame_drop(&queue);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  uint64_t seed = setting("MARU_SEED", 1);
  snprintf(check_note, sizeof check_note, "(MARU_SEED=%llu)", (unsigned long long)seed);
  all_come(seed);
  ends_after(0, 100);
  ends_after(7, 100);
  ends_after(sizeof(struct mr_frame), 100);
  ends_after(sizeof(struct mr_frame) + 99, 100);
  ends_after(sizeof(struct mr_frame), MR_FRAME_MAX);
  nobody_reads();
  return 0;
}
