/* Description: the last whole image has its bytes at every moment: while another is made, after
 * that was given up, and for the process that comes after one that was killed.  A page that has not
 * changed is not written, and the file stays as large as what it has to hold. */
#define _GNU_SOURCE
#include "../diff.h"
#include "../store.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 300u
#define ROUNDS 400u

struct image {
  size_t count;
  uint64_t keys[PAGES];
  uint32_t slots[PAGES];
  uint8_t bytes[PAGES][MR_PAGE];
};

static uint64_t random_state;
static int file;
static struct mr_store *store;
static struct image whole, made;
static _Atomic uint64_t put;
static uint8_t pages[PAGES][MR_PAGE]; /* as the program has them */
static uint64_t stamps[PAGES];
static bool changed_since[PAGES]; /* the last whole image */
static bool seen[PAGES];          /* it has it */

static uint32_t draw(uint32_t below) {
  random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % below;
}

static void open_store(void) {
  CHECK_EQUAL(mr_store_open(&store, dup(file)), 0);
  mr_store_count(store, &put);
  for (size_t i = 0; i < whole.count; i++)
    CHECK_EQUAL(mr_store_adopt(store, whole.keys[i], whole.slots[i]), 0);
}

static void check_whole(void) {
  for (size_t i = 0; i < whole.count; i++)
    CHECK(memcmp(mr_store_pages(store) + (size_t)whole.slots[i] * MR_PAGE, whole.bytes[i],
                 MR_PAGE) == 0);
}

static void compute(void) {
  uint32_t most = draw(8) == 0 ? PAGES : 30;
  for (uint32_t n = draw(most); n > 0; n--) {
    uint32_t page = draw(PAGES);
    pages[page][draw(MR_PAGE)]++;
    stamps[page] += stamps[page] != 0;
    changed_since[page] = true;
  }
}

/* Some pages are not there this time. Some have stamps.  Whether it came so far. */
static void make(bool to_the_end) {
  size_t new = 0, end = to_the_end ? PAGES : draw(PAGES), count;
  made.count = 0;
  put = 0;
  for (uint32_t page = 0; page < end; page++) {
    if (draw(20) == 0)
      continue;
    new += changed_since[page] || !seen[page];
    CHECK_EQUAL(mr_store_put(store, page + 1, stamps[page], pages[page], MR_PAGE), 0);
    made.keys[made.count] = page + 1;
    memcpy(made.bytes[made.count++], pages[page], MR_PAGE);
    CHECK_EQUAL(mr_store_changed(store), new);
    CHECK_EQUAL(put, made.count);
  }
  const uint32_t *slots = mr_store_slots(store, &count);
  CHECK_EQUAL(count, made.count);
  if (count > 0)
    memcpy(made.slots, slots, count * sizeof *slots);
  check_whole();
}

static void commit(void) {
  mr_store_end(store, true);
  whole = made;
  memset(changed_since, 0, sizeof changed_since);
  memset(seen, 0, sizeof seen);
  for (size_t i = 0; i < whole.count; i++)
    seen[whole.keys[i] - 1] = true;
}

static void refuses_what_is_no_image(void) {
  struct mr_store *other;
  CHECK_EQUAL(mr_store_open(&other, dup(file)), 0);
  CHECK_EQUAL(mr_store_adopt(other, 1, UINT32_MAX), -EBADMSG);
  CHECK_EQUAL(mr_store_adopt(other, 0, 0), -EBADMSG);
  CHECK_EQUAL(mr_store_adopt(other, 1, 0), 0);
  CHECK_EQUAL(mr_store_adopt(other, 1, 1), -EBADMSG);
  CHECK_EQUAL(mr_store_adopt(other, 2, 0), -EBADMSG);
  mr_store_close(other);
}

int main(void) {
  random_state = setting("MARU_DSM_SEED", 1);
  file = memfd_create("test-store", MFD_CLOEXEC);
  CHECK(file >= 0);
  for (uint32_t page = 0; page < PAGES; page++)
    stamps[page] = draw(2);
  open_store();
  for (uint64_t n = ROUNDS * setting("MARU_TEST_SCALE", 1); n > 0; n--) {
    compute();
    if (draw(2) == 0)
      CHECK_EQUAL(mr_store_expect(store, draw(PAGES)), 0);
    make(draw(3) != 0);
    uint32_t fate = draw(4);
    if (fate == 0) { /* killed */
      mr_store_close(store);
      open_store();
    } else if (fate == 1) {
      mr_store_end(store, false);
    } else {
      commit();
    }
    check_whole();
  }
  CHECK(lseek(file, 0, SEEK_END) <= (off_t)(3 * PAGES * MR_PAGE));
  refuses_what_is_no_image();
  mr_store_close(store);
  close(file);
  return 0;
}
