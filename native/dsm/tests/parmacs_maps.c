/* Description: the image of a process holds what the program has mapped, where it lies now.
 * Parts that are unmapped are the program's no more. A mapping that reaches past its file's end
 * ends with the file. Memory that another thread fills meanwhile is never written beside its
 * room. */
#define _GNU_SOURCE
#include "../diff.h"
#include "../parmacs/maps.h"

#include "check.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACE ((uint8_t *)UINT64_C(0x500000000000))
#define RANGES 128
#define BOTH (PROT_READ | PROT_WRITE)
#define ANYWHERE (MAP_PRIVATE | MAP_ANONYMOUS)
#define THERE (ANYWHERE | MAP_FIXED)
#define BELOW_2_GIB (UINT64_C(1) << 31)
#define KEPT 4 /* MREMAP_DONTUNMAP */

static struct mr_range ranges[RANGES];

static uint8_t *map(uint8_t *at, size_t pages, int flags) {
  uint8_t *found = mr_maps_map(at, pages * MR_PAGE, BOTH, flags, -1, 0);
  CHECK(found != MAP_FAILED);
  return found;
}

/* How many bytes from `from` to `to` are the program's. */
static size_t listed(const uint8_t *from, const uint8_t *to) {
  char why[160];
  size_t count = (size_t)mr_maps_list(ranges, RANGES, why, sizeof why), bytes = 0;
  for (size_t i = 0; i < count; i++) {
    const uint8_t *first = ranges[i].from > from ? ranges[i].from : from,
                  *end = ranges[i].to < to ? ranges[i].to : to;
    bytes += first < end ? (size_t)(end - first) : 0;
  }
  return bytes;
}

/* A library maps where the program has left room. */
static void library_maps(uint8_t *at, size_t pages) {
  CHECK(mmap(at, pages * MR_PAGE, BOTH, ANYWHERE | MAP_FIXED_NOREPLACE, -1, 0) == at);
}

static void parts_are_unmapped(void) {
  static const struct { size_t from, pages; } parts[] = {{0, 2}, {7, 3}, {3, 2}, {1, 5}, {0, 10}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    uint8_t *at = PLACE + parts[i].from * MR_PAGE;
    map(PLACE, 10, THERE);
    CHECK_EQUAL(mr_maps_unmap(at, parts[i].pages * MR_PAGE), 0);
    library_maps(at, parts[i].pages);
    CHECK_EQUAL(listed(PLACE, PLACE + 10 * MR_PAGE), (10 - parts[i].pages) * MR_PAGE);
    mr_maps_clear();
    CHECK_EQUAL(munmap(at, parts[i].pages * MR_PAGE), 0);
  }
}

static void parts_are_moved(void) {
  uint8_t *end = PLACE + 10 * MR_PAGE, *to = PLACE + 64 * MR_PAGE;
  map(PLACE, 10, THERE);
  CHECK(mr_maps_move(PLACE, 10 * MR_PAGE, 4 * MR_PAGE, 0, NULL) == PLACE);
  library_maps(PLACE + 4 * MR_PAGE, 6);
  CHECK_EQUAL(listed(PLACE, end), 4 * MR_PAGE);
  CHECK(mr_maps_move(PLACE, 4 * MR_PAGE, 4 * MR_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
  library_maps(PLACE, 4);
  CHECK_EQUAL(listed(PLACE, end), 0);
  CHECK_EQUAL(listed(to, to + 4 * MR_PAGE), 4 * MR_PAGE);
  mr_maps_clear();
  CHECK_EQUAL(munmap(PLACE, 10 * MR_PAGE), 0);
}

/* Its pages go, it stays. */
static void pages_are_moved(void) {
  uint8_t *old = map(NULL, 4, ANYWHERE);
  old[0] = 1;
  old[3 * MR_PAGE] = 2;
  uint8_t *at = mr_maps_move(old, 4 * MR_PAGE, 4 * MR_PAGE, MREMAP_MAYMOVE | KEPT, NULL);
  if (at == MAP_FAILED && errno == EINVAL)
    return; /* before Linux 5.7 */
  CHECK(at != MAP_FAILED && at != old && at[0] == 1 && at[3 * MR_PAGE] == 2 && old[0] == 0);
  CHECK_EQUAL(listed(old, old + 4 * MR_PAGE), 4 * MR_PAGE);
  CHECK_EQUAL(listed(at, at + 4 * MR_PAGE), 4 * MR_PAGE);
  CHECK(mr_maps_move(old, 4 * MR_PAGE, 8 * MR_PAGE, MREMAP_MAYMOVE | KEPT, NULL) == MAP_FAILED);
  mr_maps_clear();
}

static void low_addresses(void) {
#ifdef MAP_32BIT /* x86 alone has it */
  uint8_t *at = map(NULL, 2, ANYWHERE | MAP_32BIT);
  CHECK((uintptr_t)at < BELOW_2_GIB);
  CHECK_EQUAL(listed(at, at + 2 * MR_PAGE), 2 * MR_PAGE);
  CHECK_EQUAL(mr_maps_unmap(at, 2 * MR_PAGE), 0);
#endif
}

/* ---- images --------------------------------------------------------------------------- */

#define BEHIND 0xa5
static uint8_t *busy; /* what another thread writes to, the first times that room is asked for */
static size_t busy_pages, rooms;
static uint8_t *behind; /* the room that was given last: a page that is not the image's */

static uint8_t *room(size_t size) {
  static uint8_t *given;
  for (size_t i = 0; rooms < 2 && i < busy_pages; i++)
    busy[(2 * i + rooms) * MR_PAGE] = (uint8_t)(i + 1);
  rooms++;
  free(given);
  given = aligned_alloc(MR_PAGE, (size / MR_PAGE + 2) * MR_PAGE);
  CHECK(given != NULL);
  behind = given + size;
  memset(behind, BEHIND, MR_PAGE);
  return given;
}

static struct mr_image image;

static void write_one(uint8_t *from, size_t pages, bool anonymous) {
  struct mr_range range = {from, from + pages * MR_PAGE, true, anonymous, BOTH};
  rooms = 0;
  CHECK_EQUAL(mr_image_write(&image, &range, 1, room), 0);
  for (size_t i = 0; i < MR_PAGE; i++)
    CHECK_EQUAL(behind[i], BEHIND);
}

static void file_ends(void) {
  char path[] = "/tmp/maru-parmacs-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0 && unlink(path) == 0);
  for (size_t pages = 0; pages <= 5; pages++) {
    CHECK_EQUAL(ftruncate(fd, (off_t)(pages * MR_PAGE)), 0);
    if (pages > 0)
      CHECK_EQUAL(pwrite(fd, "end", 3, (off_t)((pages - 1) * MR_PAGE)), 3);
    uint8_t *at = mr_maps_map(NULL, 5 * MR_PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(at != MAP_FAILED);
    write_one(at, 5, false);
    CHECK_EQUAL(image.pieces, pages);
    CHECK(image.ranges[0].from == at && image.ranges[0].to == at + pages * MR_PAGE);
    if (pages > 0)
      CHECK(strcmp((char *)image.contents + (pages - 1) * MR_PAGE, "end") == 0);
    CHECK_EQUAL(mr_maps_unmap(at, 5 * MR_PAGE), 0);
  }
  close(fd);
}

/* More is found than was counted: it asks for room anew, and has what was there at the end. */
static void filled_meanwhile(void) {
  busy_pages = 100;
  busy = map(NULL, 2 * busy_pages, ANYWHERE);
  write_one(busy, 2 * busy_pages, true);
  CHECK(rooms > 1);
  CHECK_EQUAL(image.pieces, 2 * busy_pages);
  for (size_t i = 0; i < image.pieces; i++)
    CHECK(image.addresses[i] == busy + i * MR_PAGE && image.contents[i * MR_PAGE] == i / 2 + 1);
  CHECK_EQUAL(mr_maps_unmap(busy, 2 * busy_pages * MR_PAGE), 0);
}

int main(void) {
  parts_are_unmapped();
  parts_are_moved();
  pages_are_moved();
  low_addresses();
  file_ends();
  filled_meanwhile();
  return 0;
}
