#define _GNU_SOURCE
#include "image.h"

#include "../diff.h"
#include "../node.h"
#include "../sparse.h"
#include "maps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of /proc/self/pagemap. */
#define HAD (UINT64_C(3) << 62) /* in memory, or swapped out */
#define ENTRIES 512u
#define TRIES 8

/* Which pages a mapping has: of a large one that is hardly used few are read. */
struct pages {
  int fd; /* -1: not known, so all of them */
  uintptr_t first;
  size_t count;
  uint64_t entries[ENTRIES];
};

static bool has_page(struct pages *pages, const uint8_t *at) {
  uintptr_t page = (uintptr_t)at / MR_PAGE;
  if (pages->fd >= 0 && page - pages->first >= pages->count) {
    ssize_t n = pread(pages->fd, pages->entries, sizeof pages->entries,
                      (off_t)(page * sizeof *pages->entries));
    pages->first = page;
    pages->count = n > 0 ? (size_t)n / sizeof *pages->entries : 0;
  }
  /* What cannot be asked about is read. */
  return pages->fd < 0 || pages->count == 0 || (pages->entries[page - pages->first] & HAD) != 0;
}

/* Where the piece ends that begins at `from`: none lies in two pages. */
static uint8_t *piece_end(const struct mr_range *range, uint8_t *from) {
  uint8_t *page_end = (uint8_t *)(((uintptr_t)from | (MR_PAGE - 1)) + 1);
  return page_end < range->to ? page_end : range->to;
}

/* The pieces of a range that are not zero. */
static int walk(const struct mr_range *range, struct pages *pages, mr_image_piece *take,
                void *context) {
  int rc = 0;
  for (uint8_t *at = range->from, *end; rc >= 0 && at < range->to; at = end) {
    end = piece_end(range, at);
    if ((range->anonymous && !has_page(pages, at)) || mr_sparse_is_zero(at, end))
      continue;
    rc = take(context, at, (size_t)(end - at));
  }
  return rc;
}

static void protect(const struct mr_range *range, int protection) {
  if (mprotect(range->from, (size_t)(range->to - range->from), protection) < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot set the rights of the program's mapping at %p: %s",
                (void *)range->from, strerror(errno));
}

/* Whether an access finds memory: the kernel reads a byte, and says so. */
static bool is_there(const int pipe_ends[2], const uint8_t *at) {
  char byte;
  return write(pipe_ends[1], at, 1) == 1 && read(pipe_ends[0], &byte, 1) == 1;
}

/* A mapping may reach past its file's end, where an access ends the process: there it is cut. */
static void cut_at_end_of_file(struct mr_range *range, const int pipe_ends[2]) {
  size_t there = 0, not_there = (size_t)(range->to - range->from) / MR_PAGE + 1;
  while (not_there - there > 1) { /* so many pages are there, so many are not */
    size_t pages = there + (not_there - there) / 2;
    if (is_there(pipe_ends, range->from + (pages - 1) * MR_PAGE))
      there = pages;
    else
      not_there = pages;
  }
  range->to = range->from + there * MR_PAGE;
}

int mr_image_walk(struct mr_range *ranges, size_t count, mr_image_piece *take, void *context) {
  static struct pages pages;
  int pipe_ends[2], rc = 0;
  if (pipe2(pipe_ends, O_CLOEXEC) < 0)
    return -errno;
  pages = (struct pages){.fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
  for (size_t i = 0; i < count && rc >= 0; i++) {
    struct mr_range *range = &ranges[i], whole = *range;
    bool hidden = range->mapped && !(range->protection & PROT_READ);
    pages.count = 0;
    if (hidden)
      protect(&whole, whole.protection | PROT_READ);
    if (range->mapped && !range->anonymous)
      cut_at_end_of_file(range, pipe_ends);
    rc = walk(range, &pages, take, context);
    if (hidden)
      protect(&whole, whole.protection);
  }
  if (pages.fd >= 0)
    close(pages.fd);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return rc < 0 ? rc : 0;
}

struct copying {
  struct mr_image *image;
  size_t found, room; /* so many there are, and are copied */
};

static int copy_piece(void *context, uint8_t *at, size_t length) {
  struct copying *copying = context;
  struct mr_image *image = copying->image;
  if (copying->found++ < copying->room) {
    image->addresses[image->pieces] = at;
    memcpy(image->contents + image->pieces * MR_PAGE, at, length);
    image->pieces++;
  }
  return 0;
}

/* -EAGAIN: there was not room for all. */
static int copy_all(struct copying *copying, struct mr_range *ranges, size_t count,
                    mr_image_room *room) {
  struct mr_image *image = copying->image;
  size_t most = copying->found;
  image->contents = room(most * (MR_PAGE + sizeof(uint8_t *)) + count * sizeof *ranges);
  if (image->contents == NULL)
    return -ENOMEM;
  image->addresses = (uint8_t **)(image->contents + most * MR_PAGE);
  image->ranges = (struct mr_range *)(image->addresses + most);
  image->count = count;
  image->pieces = 0;
  copying->found = 0;
  copying->room = most;
  int rc = mr_image_walk(ranges, count, copy_piece, copying);
  memcpy(image->ranges, ranges, count * sizeof *ranges);
  return rc < 0 ? rc : copying->found <= most ? 0 : -EAGAIN;
}

/* A library's thread may use more memory between counting and copying. */
int mr_image_write(struct mr_image *image, struct mr_range *ranges, size_t count,
                   mr_image_room *room) {
  struct copying copying = {.image = image};
  *image = (struct mr_image){.pieces = 0};
  int rc = mr_image_walk(ranges, count, copy_piece, &copying);
  if (rc == 0)
    rc = -EAGAIN;
  for (int i = 0; i < TRIES && rc == -EAGAIN; i++)
    rc = copy_all(&copying, ranges, count, room);
  return rc;
}

static const uint8_t *content(const struct mr_image *image, size_t piece) {
  return image->contents + (image->slots != NULL ? image->slots[piece] : piece) * MR_PAGE;
}

static size_t read_range(const struct mr_image *image, const struct mr_range *range, size_t next) {
  for (uint8_t *at = range->from, *end; at < range->to; at = end) {
    end = piece_end(range, at);
    if (next < image->pieces && image->addresses[next] == at)
      memcpy(at, content(image, next++), (size_t)(end - at));
    else if (!mr_sparse_is_zero(at, end))
      memset(at, 0, (size_t)(end - at));
  }
  return next;
}

/* A fresh mapping is zero. */
static size_t read_mapping(const struct mr_image *image, const struct mr_range *range,
                           size_t next) {
  if (range->from == range->to)
    return next;
  mr_maps_make(range);
  for (; next < image->pieces && image->addresses[next] >= range->from &&
         image->addresses[next] < range->to;
       next++)
    memcpy(image->addresses[next], content(image, next), MR_PAGE);
  protect(range, range->protection);
  return next;
}

void mr_image_read(const struct mr_image *image) {
  size_t next = 0;
  mr_maps_clear();
  for (size_t i = 0; i < image->count; i++) {
    /* Of its own: the image is read through faults. */
    const struct mr_range range = image->ranges[i];
    next = range.mapped ? read_mapping(image, &range, next) : read_range(image, &range, next);
  }
}
