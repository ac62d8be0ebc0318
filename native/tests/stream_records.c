/* Description: records over a socket come whole, in order and aligned, however they are cut.
 * What is no record is an error, whatever its length says. */
#include "../channel/stream.h"

#include "check.h"

#include <sys/socket.h>

#define MOST 200000

struct words {
  uint64_t length, index, kind, reserved;
};

static void whole(uint64_t *seed) {
  int ends[2];
  static char chunk[MOST], piece[3 * MOST];
  struct maru_record record;
  CHECK_EQUAL(maru_stream_pair(ends), 0);
  struct maru_stream_reader *reader = maru_stream_reader_new(ends[0]);
  CHECK(reader != NULL);
  for (uint64_t i = 0; i < 200; i++) {
    /* A whole record, in pieces that end anywhere. */
    uint64_t length = next_random(seed) % (i % 20 == 0 ? MOST : 300);
    int inner[2];
    CHECK_EQUAL(maru_stream_pair(inner), 0);
    CHECK_EQUAL(setsockopt(inner[1], SOL_SOCKET, SO_SNDBUF, &(int){4 * MOST}, sizeof(int)), 0);
    memset(chunk, (int)('a' + i % 26), length);
    CHECK_EQUAL(maru_stream_send(inner[1], i, (uint32_t)(i % 32768), chunk, length), 0);
    close(inner[1]);
    ssize_t size = 0, got;
    while ((got = read(inner[0], piece + size, sizeof piece - (size_t)size)) > 0)
      size += got;
    close(inner[0]);
    CHECK_EQUAL(size % 32, 0);
    for (ssize_t at = 0; at < size;) {
      size_t part = 1 + next_random(seed) % 5000;
      part = part < (size_t)(size - at) ? part : (size_t)(size - at);
      CHECK_EQUAL(maru_stream_reader_next(reader, &record), 0);
      CHECK_EQUAL(write(ends[1], piece + at, part), part);
      at += (ssize_t)part;
    }
    CHECK_EQUAL(maru_stream_reader_next(reader, &record), 1);
    CHECK(record.index == i && record.length == length && record.kind == i % 32768);
    CHECK_EQUAL((uintptr_t)record.chunk % 16, 0);
    CHECK(memcmp(record.chunk, chunk, length) == 0);
  }
  close(ends[1]);
  CHECK_EQUAL(maru_stream_reader_next(reader, &record), -EPIPE);
  maru_stream_reader_free(reader);
  close(ends[0]);
}

/* A header that nobody sent so; a good record before it is not lost. */
static void refused(struct words words) {
  int ends[2];
  struct maru_record record;
  uint64_t index, value;
  uint32_t kind;
  CHECK_EQUAL(maru_stream_pair(ends), 0);
  struct maru_stream_reader *reader = maru_stream_reader_new(ends[0]);
  CHECK_EQUAL(maru_stream_send(ends[1], 1, 2, "good", 4), 0);
  CHECK_EQUAL(write(ends[1], &words, sizeof words), sizeof words);
  CHECK_EQUAL(maru_stream_reader_next(reader, &record), 1);
  CHECK_EQUAL(record.length, 4);
  for (int i = 0; i < 2; i++)
    CHECK_EQUAL(maru_stream_reader_next(reader, &record), -EBADMSG);
  maru_stream_reader_free(reader);
  CHECK_EQUAL(write(ends[1], &words, sizeof words), sizeof words);
  CHECK_EQUAL(maru_stream_receive(ends[0], &index, &kind, &value, sizeof value, 1000), -EBADMSG);
  close(ends[0]);
  close(ends[1]);
}

enum { LARGE = (5 << 20) + 123 };

struct sender {
  int fd;
  size_t length;
};

/* Resident KiB of this process. */
static long resident(void) {
  long size = 0, pages = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  CHECK(f && fscanf(f, "%ld %ld", &size, &pages) == 2);
  fclose(f);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void send_away(void *argument) {
  const struct sender *s = argument;
  char *chunk = malloc(s->length);
  CHECK(chunk != NULL);
  for (size_t i = 0; i < s->length; i++)
    chunk[i] = (char)(i * 31 >> 3);
  long before = resident();
  CHECK_EQUAL(maru_stream_send_away(s->fd, 7, 8, chunk, s->length), 0);
  if (s->length == LARGE)
    CHECK(resident() < before - LARGE / 1024 / 2);
  free(chunk);
}

/* What goes as it is sent comes whole, and is gone. */
static void away(size_t length) {
  int ends[2], got;
  struct maru_record record;
  CHECK_EQUAL(maru_stream_pair(ends), 0);
  struct sender s = {ends[1], length};
  pid_t sender = start(send_away, &s);
  close(ends[1]);
  struct maru_stream_reader *reader = maru_stream_reader_new(ends[0]);
  while ((got = maru_stream_reader_next(reader, &record)) == 0)
    CHECK_EQUAL(maru_stream_wait(&ends[0], 1, 10000), 0);
  CHECK(got == 1 && record.length == length && record.index == 7 && record.kind == 8);
  for (size_t i = 0; i < length; i++)
    CHECK_EQUAL(((const char *)record.chunk)[i], (char)(i * 31 >> 3));
  CHECK_EQUAL(finish(sender), 0);
  CHECK_EQUAL(maru_stream_reader_next(reader, &record), -EPIPE);
  maru_stream_reader_free(reader);
  close(ends[0]);
}

/* A reader that waits for a record of one length gets no other. */
static void other_lengths(void) {
  int ends[2];
  uint64_t index, value = 0;
  uint32_t kind;
  CHECK_EQUAL(maru_stream_pair(ends), 0);
  CHECK_EQUAL(maru_stream_receive(ends[0], &index, &kind, &value, 8, 0), 0);
  CHECK_EQUAL(maru_stream_send(ends[1], 3, 4, "eight it", 8), 0);
  CHECK_EQUAL(maru_stream_receive(ends[0], &index, &kind, &value, 8, 1000), 1);
  CHECK(index == 3 && kind == 4 && memcmp(&value, "eight it", 8) == 0);
  CHECK_EQUAL(maru_stream_send(ends[1], 3, 4, "sixteen of them", 16), 0);
  CHECK_EQUAL(maru_stream_receive(ends[0], &index, &kind, &value, 8, 1000), -EBADMSG);
  close(ends[0]);
  close(ends[1]);
}

static void lengths(void) {
  static const struct words hostile[] = {
      {.length = UINT64_MAX},
      {.length = UINT64_MAX - 31},
      {.length = UINT64_MAX - 95},
      {.length = UINT64_C(0x7f7f7f7f7f7f7f7f),
       UINT64_C(0x7f7f7f7f7f7f7f7f),
       UINT64_C(0x7f7f7f7f7f7f7f7f),
       UINT64_C(0x7f7f7f7f7f7f7f7f)},
      {.length = (UINT64_C(1) << 47) + 1},
      {.length = 8, .kind = 32768},
      {.length = 8, .kind = UINT64_C(1) << 32},
      {.length = 8, .reserved = 1},
  };
  int ends[2];
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
    refused(hostile[i]);
  CHECK_EQUAL(maru_stream_pair(ends), 0);
  CHECK_EQUAL(maru_stream_send(ends[1], 0, 0, "", (UINT64_C(1) << 47) + 1), -EINVAL);
  CHECK_EQUAL(maru_stream_send(ends[1], 0, 32768, "", 0), -EINVAL);
  close(ends[0]);
  CHECK_EQUAL(maru_stream_send(ends[1], 0, 0, "x", 1), -EPIPE);
  close(ends[1]);
}

int main(void) {
  uint64_t seed = setting("MARU_TEST_SEED", 20261122);
  whole(&seed);
  other_lengths();
  away(0);
  away(33);
  away(LARGE);
  lengths();
  return 0;
}
