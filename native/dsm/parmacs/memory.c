#define _GNU_SOURCE
#include "memory.h"

#include <maru/parmacs.h>

#include "../access.h"
#include "../diff.h"
#include "../node.h"
#include "heap.h"
#include "maps.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK ((size_t)64 << 10)
#define LARGE (CHUNK / 4)            /* a larger block of malloc's is in no chunk */
#define FILE_PIECE ((size_t)1 << 20) /* so much is brought in at a time to be read into */

/* One program's in a process; not in the images of it. */
static struct {
  uint8_t *first, *first_end; /* of the process's own heap; it begins with what describes it, so
                                 that it is copied as a whole */
  struct mr_heap *heap;       /* what is allocated now comes from there; NULL: from libc */
  struct mr_heap of_node;     /* where it is shared: what this node cuts blocks from */
  uint8_t *chunk, *chunk_end; /* of small shared blocks */
  bool maps_shared;           /* all that the program maps */
  bool anonymous_shared;      /* of that what is anonymous and shared */
} memory;

/* Of this process, whatever image it goes on from. All threads of a job run on it. */
static pthread_t program_thread;

/* ---- shared memory ---------------------------------------------------------------- */

uint8_t *mr_memory_pages(size_t size) {
  size_t most;
  uint8_t *base = mr_node_memory(&most);
  size_t whole = (size + MR_PAGE - 1) & ~(size_t)(MR_PAGE - 1);
  int64_t at = whole < size || whole > most
                   ? INT64_MAX
                   : mr_node_request(MR_FETCH_ADD, MR_HEAP, (int64_t)whole);
  if ((uint64_t)at > most || whole > most - (size_t)at)
    mr_node_die(STATUS_UNAVAILABLE,
                "no room for %zu more bytes in %zu MiB of shared memory; set MARU_DSM_MIB to more",
                size, most >> 20);
  return base + at;
}

static uint8_t *shared_block(size_t size) {
  if (size >= MR_PAGE)
    return mr_memory_pages(size);
  size_t unit = (size + 63) & ~(size_t)63;
  if (unit > (size_t)(memory.chunk_end - memory.chunk)) {
    memory.chunk = mr_memory_pages(CHUNK);
    memory.chunk_end = memory.chunk + CHUNK;
  }
  uint8_t *at = memory.chunk;
  memory.chunk += unit;
  return at;
}

void *maru_parmacs_share(size_t size, const char *site) {
  uint8_t *block = shared_block(size);
  mr_node_site(block, size, site);
  return block;
}

/* ---- malloc --------------------------------------------------------------------------- */

/* A library's own thread gets libc's blocks, and leaves the program's alone: nobody locks their
 * heap, and the node has one thread that makes requests. */
static bool is_of_library(void) { return !pthread_equal(pthread_self(), program_thread); }

static struct mr_heap *private_heap(void) { return (struct mr_heap *)memory.first; }

/* Whose it is; NULL: a library's. */
static struct mr_heap *heap_of(const void *block) {
  const uint8_t *at = block;
  if (at >= memory.first && at < memory.first_end)
    return private_heap();
  return memory.heap == &memory.of_node && mr_node_shares(block, 1) ? &memory.of_node : NULL;
}

void mr_memory_map(uint8_t *address, size_t size, const char *what) {
  uint8_t *mapped = mmap(address, size, PROT_READ | PROT_WRITE | mr_access_code(),
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped != address)
    mr_node_die(STATUS_UNAVAILABLE, "no room for the %s at %p: %s", what, (void *)address,
                mapped == MAP_FAILED ? strerror(errno) : "something else lies there");
}

void mr_memory_prepare(uint8_t *from, size_t size) {
  mr_memory_map(from, size, "heap");
  program_thread = pthread_self();
  memory.first = from;
  memory.first_end = from + size;
  memory.heap = private_heap();
  *memory.heap = (struct mr_heap){.next = from + sizeof *memory.heap, .end = from + size};
}

void mr_memory_share_all(void) { memory.heap = &memory.of_node; }
void mr_memory_share_anonymous(void) { memory.anonymous_shared = true; }
void mr_memory_share_maps(void) { memory.maps_shared = true; }

void mr_memory_forget(void) {
  munmap(memory.first, (size_t)(memory.first_end - memory.first));
  memory.first = memory.first_end = NULL;
  memory.heap = NULL;
}

struct mr_range mr_memory_heap(void) {
  return (struct mr_range){.from = memory.first,
                           .to = memory.first != NULL ? private_heap()->next : NULL};
}

struct mr_range mr_memory_state(void) {
  return (struct mr_range){.from = (uint8_t *)&memory, .to = (uint8_t *)(&memory + 1)};
}

/* A large block is a heap of its own: the chunk that is open stays. */
static void *take_more(size_t alignment, size_t size, size_t need) {
  struct mr_heap alone = {.next = NULL}, *heap = need > LARGE ? &alone : &memory.of_node;
  size_t chunk = need > LARGE ? need : CHUNK;
  heap->next = maru_parmacs_share(chunk, "malloc");
  heap->end = heap->next + chunk;
  return mr_heap_take(heap, size, alignment);
}

void *maru_parmacs_memalign(size_t alignment, size_t size) {
  if (memory.heap == NULL || is_of_library())
    return aligned_alloc(alignment, size);
  void *block = mr_heap_take(memory.heap, size, alignment);
  size_t need = mr_heap_need(size, alignment);
  if (block == NULL && memory.heap == &memory.of_node && need != 0)
    block = take_more(alignment, size, need);
  if (block == NULL)
    errno = ENOMEM;
  return block;
}

void *maru_parmacs_malloc(size_t size) {
  return memory.heap != NULL && !is_of_library() ? maru_parmacs_memalign(16, size) : malloc(size);
}

void maru_parmacs_free(void *block) {
  struct mr_heap *heap = heap_of(block);
  if (heap == NULL)
    free(block);
  else if (!is_of_library())
    mr_heap_give(heap, block);
}

void *maru_parmacs_calloc(size_t count, size_t size) {
  size_t whole;
  if (__builtin_mul_overflow(count, size, &whole)) {
    errno = ENOMEM;
    return NULL;
  }
  void *block = maru_parmacs_malloc(whole);
  return block != NULL ? memset(block, 0, whole) : NULL;
}

void *maru_parmacs_realloc(void *old, size_t size) {
  if (old == NULL)
    return maru_parmacs_malloc(size);
  if (heap_of(old) == NULL)
    /* A library's: its content's size is unknown here. */
    return realloc(old, size);
  size_t room = mr_heap_room(old);
  if (size <= room)
    return old;
  void *block = maru_parmacs_malloc(size);
  if (block == NULL)
    return NULL;
  memcpy(block, old, room);
  maru_parmacs_free(old);
  return block;
}

/* ---- mappings -------------------------------------------------------------------------- */

/* Shared with processes that are created: on other hosts, too. */
static bool is_for_all(int flags) {
  return memory.anonymous_shared && (flags & MAP_SHARED) && (flags & MAP_ANONYMOUS) &&
         !(flags & MAP_FIXED);
}

static void refuse_code(int protection) {
  if ((protection & PROT_EXEC) && mr_access_code() == 0)
    mr_node_die(STATUS_UNAVAILABLE, "mmap: shared memory is not executed; linked with "
                                    "-Wl,-z,execstack the program may execute all of it");
}

/* The file as it is now. */
static void read_file(uint8_t *to, size_t length, int fd, int64_t offset) {
  for (ssize_t n; length > 0; to += n, length -= (size_t)n, offset += n) {
    n = pread(fd, to, length < FILE_PIECE ? length : FILE_PIECE, offset);
    if (n < 0)
      mr_node_die(STATUS_UNAVAILABLE, "mmap: cannot read the file: %s", strerror(errno));
    if (n == 0)
      return;
  }
}

/* A copy for all threads. */
static void *map_shared(size_t length, int protection, int flags, int fd, int64_t offset) {
  bool file = !(flags & MAP_ANONYMOUS);
  refuse_code(protection);
  size_t whole = (length + MR_PAGE - 1) & ~(size_t)(MR_PAGE - 1);
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))
    mr_node_die(STATUS_UNAVAILABLE,
                "mmap at an address of the program's own reaches no other node");
  if (file && (flags & MAP_SHARED) && (protection & PROT_WRITE))
    mr_node_die(STATUS_UNAVAILABLE, "mmap of a file, shared and writable, reaches no other node; "
                                    "map it private, and write the file");
  if (file && lseek(fd, 0, SEEK_CUR) < 0)
    return MAP_FAILED;
  uint8_t *at = maru_parmacs_share(whole < length ? length : whole, "mmap");
  if (file)
    read_file(at, length, fd, offset);
  return at;
}

void *maru_parmacs_mmap(void *address, size_t length, int protection, int flags, int fd,
                        int64_t offset) {
  if (memory.maps_shared && length != 0)
    return map_shared(length, protection, flags, fd, offset);
  if (!is_for_all(flags) || length == 0)
    return mr_maps_map(address, length, protection, flags, fd, offset);
  refuse_code(protection);
  size_t whole = (length + MR_PAGE - 1) & ~(size_t)(MR_PAGE - 1);
  return maru_parmacs_share(whole < length ? length : whole, "mmap");
}

/* Shared memory is not given back. */
int maru_parmacs_munmap(void *address, size_t length) {
  return mr_node_shares(address, length) ? 0 : mr_maps_unmap(address, length);
}

void *maru_parmacs_mremap(void *old, size_t old_length, size_t length, int flags, void *address) {
  if (!mr_node_shares(old, old_length))
    return mr_maps_move(old, old_length, length, flags, address);
  errno = EINVAL;
  return MAP_FAILED;
}

/* The rights of shared memory are the protocol's: it may be read and written. A program that has
 * reserved memory asks for that later. */
int maru_parmacs_mprotect(void *address, size_t length, int protection) {
  if (!mr_node_shares(address, length))
    return mprotect(address, length, protection);
  if (protection == (PROT_READ | PROT_WRITE))
    return 0;
  errno = ENOTSUP;
  return -1;
}
