/* Description: pages of consumed records go back to the system, also of records of many MiB. */
#define _GNU_SOURCE
#include <maru/channel.h>

#include "check.h"

#include <sys/mman.h>

#define MIB (UINT64_C(1) << 20)

/* Resident bytes of the whole pages in [from, from + size). */
static uint64_t resident(const void *from, uint64_t size) {
  static unsigned char vector[1 << 16];
  uintptr_t first = ((uintptr_t)from + 4095) & ~(uintptr_t)4095;
  uint64_t pages = ((uintptr_t)from + size - first) / 4096, count = 0;
  CHECK(pages <= sizeof vector);
  CHECK_EQUAL(mincore((void *)first, pages * 4096, vector), 0);
  for (uint64_t i = 0; i < pages; i++)
    count += vector[i] & 1u;
  return count * 4096;
}

static struct maru_record read_one(struct maru_log *log) {
  struct maru_record record;
  CHECK_EQUAL(maru_log_next(log, &record), 1);
  return record;
}

static void small_records(void) {
  static const char chunk[4096 - 16];
  struct maru_log *log;
  CHECK_EQUAL(maru_log_create(&log, 64 * MIB), 0);
  for (unsigned i = 0; i < 4096; i++)
    CHECK_EQUAL(maru_log_append(log, i, 0, chunk, sizeof chunk), 0);
  const char *begin = read_one(log).chunk;
  CHECK(resident(begin, 16 * MIB) > 15 * MIB);
  for (unsigned i = 1; i < 2048; i++)
    CHECK_EQUAL(read_one(log).index, i);
  maru_log_release(log);
  CHECK(resident(begin, 16 * MIB) < 9 * MIB);
  for (unsigned i = 2048; i < 4096; i++) {
    CHECK_EQUAL(read_one(log).index, i);
    maru_log_release(log);
  }
  CHECK(resident(begin, 16 * MIB) < 2 * MIB);
  maru_log_destroy(log);
}

/* The record that next returned last stays readable, however large. */
static void huge_records(void) {
  const uint64_t size = 24 * MIB;
  struct maru_log *log;
  void *chunk;
  CHECK_EQUAL(maru_log_create(&log, 1024 * MIB), 0);
  for (unsigned i = 0; i < 3; i++) {
    CHECK_EQUAL(maru_log_reserve(log, size, &chunk), 0);
    memset(chunk, 'a' + (int)i, size);
    maru_log_commit(log, size, i, 0);
  }
  const char *before = NULL;
  for (unsigned i = 0; i < 3; i++) {
    struct maru_record record = read_one(log);
    maru_log_release(log);
    CHECK_EQUAL(record.length, size);
    const char *bytes = record.chunk;
    for (uint64_t at = 0; at < size; at += 1021)
      CHECK_EQUAL(bytes[at], 'a' + (int)i);
    if (before != NULL)
      CHECK_EQUAL(resident(before, size - 4096), 0);
    before = record.chunk;
  }
  maru_log_destroy(log);
}

/* Address space is all that an empty log takes. */
static void sparse(void) {
  struct maru_log *log;
  int rc = maru_log_create(&log, UINT64_C(1) << 40);
  if (rc == -ENOMEM)
    return; /* under `ulimit -v` or a sanitizer */
  CHECK_EQUAL(rc, 0);
  CHECK_EQUAL(maru_log_append(log, 1, 0, "x", 1), 0);
  CHECK_EQUAL(read_one(log).index, 1);
  maru_log_destroy(log);
}

int main(void) {
  if (sysconf(_SC_PAGESIZE) != 4096)
    skip("written for pages of 4 KiB");
  small_records();
  huge_records();
  sparse();
  return 0;
}
