/* Description: records come out whole and in order, up to the end of the log. */
#include <maru/channel.h>

#include "check.h"

#include <sys/resource.h>

static void expect(struct maru_log *log, uint64_t index, uint32_t kind, const char *text) {
  struct maru_record record;
  CHECK_EQUAL(maru_log_next(log, &record), 1);
  CHECK_EQUAL(record.index, index);
  CHECK_EQUAL(record.kind, kind);
  CHECK_EQUAL(record.length, strlen(text));
  CHECK_EQUAL((uintptr_t)record.chunk % 16, 0);
  CHECK(memcmp(record.chunk, text, record.length) == 0);
}

static void in_order(void) {
  struct maru_log *log;
  struct maru_record record;
  CHECK_EQUAL(maru_log_create(&log, 1), 0);
  CHECK_EQUAL(maru_log_next(log, &record), 0);
  CHECK_EQUAL(maru_log_append(log, 7, 1, "seven", 5), 0);
  CHECK_EQUAL(maru_log_append(log, UINT64_MAX, 32767, "", 0), 0);
  CHECK_EQUAL(maru_log_append(log, 9, 0, "nine, a longer one", 18), 0);
  CHECK_EQUAL(maru_log_append(log, 0, 32768, "", 0), -EINVAL);
  CHECK_EQUAL(maru_log_count(log), 3);
  CHECK_EQUAL(maru_log_last(log), 32 + 16 + 48);
  expect(log, 7, 1, "seven");
  expect(log, UINT64_MAX, 32767, "");
  expect(log, 9, 0, "nine, a longer one");
  CHECK_EQUAL(maru_log_next(log, &record), 0);
  maru_log_close(log);
  maru_log_close(log);
  CHECK_EQUAL(maru_log_next(log, &record), -EPIPE);
  maru_log_destroy(log);
}

/* What was read in the log's last instants before the close is not lost. */
static void close_after_append(void) {
  struct maru_log *log;
  struct maru_record record;
  CHECK_EQUAL(maru_log_create(&log, 64), 0);
  CHECK_EQUAL(maru_log_append(log, 1, 0, "x", 1), 0);
  maru_log_close(log);
  expect(log, 1, 0, "x");
  CHECK_EQUAL(maru_log_next(log, &record), -EPIPE);
  maru_log_destroy(log);
}

static void fills_up(void) {
  struct maru_log *log;
  struct maru_record record;
  void *chunk;
  CHECK_EQUAL(maru_log_create(&log, 4096), 0);
  CHECK_EQUAL(maru_log_room(log), 4096);
  CHECK_EQUAL(maru_log_reserve(log, 4081, &chunk), -ENOSPC);
  CHECK_EQUAL(maru_log_reserve(log, UINT64_MAX, &chunk), -ENOSPC);
  for (int i = 0; i < 128; i++)
    CHECK_EQUAL(maru_log_append(log, (uint64_t)i, 0, "0123456789abcdef", 16), 0);
  CHECK_EQUAL(maru_log_room(log), 0);
  CHECK_EQUAL(maru_log_append(log, 0, 0, "", 0), -ENOSPC);
  for (int i = 0; i < 128; i++)
    expect(log, (uint64_t)i, 0, "0123456789abcdef");
  CHECK_EQUAL(maru_log_next(log, &record), 0);
  maru_log_close(log);
  CHECK_EQUAL(maru_log_next(log, &record), -EPIPE);
  maru_log_destroy(log);
}

/* Bytes left behind by a larger reserve never pass for a record. */
static void shortened(void) {
  struct maru_log *log;
  struct maru_record record;
  void *chunk;
  CHECK_EQUAL(maru_log_create(&log, 8192), 0);
  CHECK_EQUAL(maru_log_reserve(log, 4000, &chunk), 0);
  memset(chunk, 0xff, 4000);
  CHECK_EQUAL(maru_log_next(log, &record), 0);
  CHECK_EQUAL(maru_log_reserve(log, 2000, &chunk), 0);
  memset(chunk, 0xff, 2000);
  memcpy(chunk, "short", 5);
  maru_log_commit(log, 5, 3, 2);
  expect(log, 3, 2, "short");
  CHECK_EQUAL(maru_log_next(log, &record), 0);
  CHECK_EQUAL(maru_log_append(log, 4, 2, "next", 4), 0);
  expect(log, 4, 2, "next");
  maru_log_close(log);
  CHECK_EQUAL(maru_log_next(log, &record), -EPIPE);
  maru_log_destroy(log);
}

/* A stray write into the log is reported, and read no further. */
static void overwritten(void) {
  struct maru_log *log;
  struct maru_record record;
  void *chunk;
  for (int i = 0; i < 2; i++) {
    CHECK_EQUAL(maru_log_create(&log, 4096), 0);
    CHECK_EQUAL(maru_log_reserve(log, 16, &chunk), 0);
    /* Not committed; and committed, but longer than the log. */
    ((uint64_t *)chunk)[-2] = i == 0 ? 16 : UINT64_MAX;
    CHECK_EQUAL(maru_log_next(log, &record), -EBADMSG);
    CHECK_EQUAL(maru_log_next(log, &record), -EBADMSG);
    maru_log_destroy(log);
  }
}

/* A limit to the length of files ends a process by a signal where a file grows past it. */
static void within_file_limit(void) {
  struct maru_log *log;
  struct rlimit limit = {4096, 4096};
  signal(SIGXFSZ, SIG_DFL); /* Python ignores it, and Meson runs this */
  CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
  CHECK_EQUAL(maru_log_create(&log, 1 << 20), 0);
  for (int i = 0; i < 1000; i++)
    CHECK_EQUAL(maru_log_append(log, (uint64_t)i, 0, "0123456789abcdef", 16), 0);
  expect(log, 0, 0, "0123456789abcdef");
  maru_log_destroy(log);
}

int main(void) {
  struct maru_log *log;
  CHECK_EQUAL(maru_log_create(&log, 0), -EINVAL);
  CHECK_EQUAL(maru_log_create(&log, (UINT64_C(1) << 47) + 1), -EINVAL);
  in_order();
  close_after_append();
  fills_up();
  shortened();
  overwritten();
  within_file_limit();
  return 0;
}
