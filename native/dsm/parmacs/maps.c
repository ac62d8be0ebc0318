#define _GNU_SOURCE
#include "maps.h"

#include "../diff.h"
#include "../node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Behind heap and stack (parmacs.c), and far from where the system puts things. */
#define FIRST ((uint8_t *)UINT64_C(0x330000000000))
#define END ((uint8_t *)UINT64_C(0x430000000000))
#define LARGE ((size_t)2 << 20) /* pages of that size are possible, so it begins one */
#define TRIES 4096
#ifndef MAP_32BIT /* x86 alone */
#define MAP_32BIT 0
#endif
#ifndef MREMAP_DONTUNMAP /* Linux 5.7 */
#define MREMAP_DONTUNMAP 4
#endif

/* One program's in a process. */
static struct {
  uint8_t *next; /* NULL: FIRST */
  size_t count;
  struct mr_range elsewhere[MR_MAPS_ELSEWHERE];
} maps;

static size_t whole(size_t length) { return (length + MR_PAGE - 1) & ~(size_t)(MR_PAGE - 1); }

static bool is_ours(const uint8_t *at) { return at >= FIRST && at < END; }

/* ---- placing ----------------------------------------------------------------------- */

static size_t alignment(size_t length, int flags) {
  unsigned shift = ((unsigned)flags >> MAP_HUGE_SHIFT) & MAP_HUGE_MASK;
  if ((flags & MAP_HUGETLB) && shift > 0)
    return (size_t)1 << shift;
  return length >= LARGE || (flags & MAP_HUGETLB) ? LARGE : MR_PAGE;
}

/* The next place that may be free; from the first again when the last was given. */
static uint8_t *next_place(size_t length, size_t unit) {
  uintptr_t at = (uintptr_t)(maps.next != NULL ? maps.next : FIRST);
  at = (at + unit - 1) & ~(uintptr_t)(unit - 1);
  if (at > (uintptr_t)END || length > (uintptr_t)END - at)
    at = ((uintptr_t)FIRST + unit - 1) & ~(uintptr_t)(unit - 1);
  maps.next = (uint8_t *)at + whole(length);
  return (uint8_t *)at;
}

static void *map_free(size_t length, int protection, int flags, int fd, off_t offset) {
  if (length == 0 || length > (size_t)(END - FIRST))
    return mmap(NULL, length, protection, flags, fd, offset); /* which says what is wrong */
  for (int i = 0; i < TRIES; i++) {
    void *at = mmap(next_place(length, alignment(length, flags)), length, protection,
                    flags | MAP_FIXED_NOREPLACE, fd, offset);
    if (at != MAP_FAILED || errno != EEXIST)
      return at;
  }
  errno = ENOMEM;
  return MAP_FAILED;
}

static void remember_one(const struct mr_range *place) {
  if (maps.count == MR_MAPS_ELSEWHERE)
    mr_node_die(STATUS_UNAVAILABLE,
                "the program has mapped memory at more than %d addresses of its own",
                MR_MAPS_ELSEWHERE);
  maps.elsewhere[maps.count++] = *place;
}

/* What is left of a place before and behind it stays. */
static void maps_forget(uint8_t *from, size_t length) {
  uint8_t *to = from + whole(length);
  struct mr_range behind = {.from = NULL};
  size_t kept = 0;
  for (size_t i = 0; i < maps.count; i++) {
    struct mr_range place = maps.elsewhere[i];
    if (place.from < to && from < place.to) {
      if (place.from < from && to < place.to)
        behind = (struct mr_range){.from = to, .to = place.to}; /* of one place at most */
      if (place.from < from)
        place.to = from;
      else
        place.from = to;
    }
    if (place.from < place.to)
      maps.elsewhere[kept++] = place;
  }
  maps.count = kept;
  if (behind.from != NULL)
    remember_one(&behind);
}

/* Those that touch it become one with it. */
static void remember(uint8_t *from, size_t length) {
  struct mr_range place = {.from = from, .to = from + whole(length)};
  size_t kept = 0;
  if (is_ours(from))
    return;
  for (size_t i = 0; i < maps.count; i++) {
    const struct mr_range other = maps.elsewhere[i];
    if (other.from > place.to || place.from > other.to) {
      maps.elsewhere[kept++] = other;
      continue;
    }
    place.from = other.from < place.from ? other.from : place.from;
    place.to = other.to > place.to ? other.to : place.to;
  }
  maps.count = kept;
  remember_one(&place);
}

void *mr_maps_map(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
  if (!(flags & (MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_32BIT)))
    return map_free(length, protection, flags, fd, offset);
  void *at = mmap(address, length, protection, flags, fd, offset);
  if (at != MAP_FAILED)
    remember(at, length);
  return at;
}

/* To where we chose: only what is moved by the kernel's choice would lie anywhere. */
static void *move_free(void *old, size_t old_length, size_t length, int flags) {
  uint8_t *place = map_free(length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED)
    return MAP_FAILED;
  void *at = mremap(old, old_length, length, flags | MREMAP_FIXED, place);
  if (at == MAP_FAILED) {
    int error = errno;
    munmap(place, length);
    errno = error;
  }
  return at;
}

static void *move(void *old, size_t old_length, size_t length, int flags, void *address) {
  if (flags & MREMAP_FIXED)
    return mremap(old, old_length, length, flags, address);
  if (flags & MREMAP_DONTUNMAP)
    return move_free(old, old_length, length, flags);
  void *at = mremap(old, old_length, length, flags & ~MREMAP_MAYMOVE);
  if (at != MAP_FAILED || errno != ENOMEM || !(flags & MREMAP_MAYMOVE))
    return at;
  return move_free(old, old_length, length, flags);
}

void *mr_maps_move(void *old, size_t old_length, size_t length, int flags, void *address) {
  uint8_t *at = move(old, old_length, length, flags, address);
  if (at == MAP_FAILED)
    return at;
  if (!(flags & MREMAP_DONTUNMAP))
    maps_forget(old, old_length);
  remember(at, length);
  return at;
}

int mr_maps_unmap(void *address, size_t length) {
  if (munmap(address, length) < 0)
    return -1;
  maps_forget(address, length);
  return 0;
}

/* ---- what there is ------------------------------------------------------------------- */

/* The program's parts of what lies there: the kernel makes one of neighbours. */
static size_t program_s(const struct mr_range *there, struct mr_range *parts, size_t most) {
  size_t count = 0;
  if (is_ours(there->from))
    parts[count++] = *there;
  for (size_t i = 0; i < maps.count && count < most; i++) {
    const struct mr_range *asked = &maps.elsewhere[i];
    if (there->from >= asked->to || asked->from >= there->to)
      continue;
    parts[count] = *there;
    parts[count].from = there->from > asked->from ? there->from : asked->from;
    parts[count++].to = there->to < asked->to ? there->to : asked->to;
  }
  return count;
}

/* A line of /proc/self/maps. */
static bool read_line(const char *line, struct mr_range *range, bool *shared, const char **path) {
  unsigned long from, to, inode;
  char rights[5];
  int used = 0;
  if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu %n", &from, &to, rights, &inode, &used) != 4)
    return false;
  *range = (struct mr_range){.from = (uint8_t *)from,
                             .to = (uint8_t *)to,
                             .mapped = true,
                             .anonymous = inode == 0,
                             .protection = (rights[0] == 'r' ? PROT_READ : 0) |
                                           (rights[1] == 'w' ? PROT_WRITE : 0) |
                                           (rights[2] == 'x' ? PROT_EXEC : 0)};
  *shared = rights[3] == 's';
  *path = line + used;
  return true;
}

/* One line's; below 0: what no other node can have, or more than there is room for. */
static ssize_t list_line(const char *line, struct mr_range *ranges, size_t most, char *why,
                         size_t size) {
  const char *path;
  struct mr_range there;
  bool shared;
  size_t count = read_line(line, &there, &shared, &path) ? program_s(&there, ranges, most) : 0;
  if (count > 0 && shared && (there.protection & PROT_WRITE)) {
    snprintf(why, size,
             "the program has mapped %.*s shared and writable, which reaches no other node; use "
             "memory of the job: G_MALLOC or maru_dsm_alloc",
             (int)strcspn(path, "\n"), path);
    return -EOPNOTSUPP;
  }
  if (count == most) {
    snprintf(why, size, "the program has more mappings than can be listed");
    return -E2BIG;
  }
  return (ssize_t)count;
}

ssize_t mr_maps_list(struct mr_range *ranges, size_t most, char *why, size_t size) {
  char *line = NULL;
  size_t room = 0;
  ssize_t count = 0, more = 0;
  FILE *stream = fopen("/proc/self/maps", "re");
  if (stream == NULL) {
    snprintf(why, size, "cannot read /proc/self/maps: %s", strerror(errno));
    return -EIO;
  }
  while (more >= 0 && getline(&line, &room, stream) >= 0) {
    more = list_line(line, ranges + count, most - (size_t)count, why, size);
    count += more;
  }
  free(line);
  fclose(stream);
  return more < 0 ? more : count;
}

void mr_maps_clear(void) {
  munmap(FIRST, (size_t)(END - FIRST));
  for (size_t i = 0; i < maps.count; i++)
    munmap(maps.elsewhere[i].from, (size_t)(maps.elsewhere[i].to - maps.elsewhere[i].from));
  maps.count = 0;
  maps.next = NULL;
}

void mr_maps_make(const struct mr_range *range) {
  size_t length = (size_t)(range->to - range->from);
  void *at = mmap(range->from, length, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != range->from)
    mr_node_die(STATUS_UNAVAILABLE, "no room for the program's mapping at %p: %s",
                (void *)range->from,
                at == MAP_FAILED ? strerror(errno) : "something else lies there");
  remember(range->from, length);
}
