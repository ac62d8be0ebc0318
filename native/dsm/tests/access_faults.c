/* Description: an access faults exactly where it is not allowed, in the thread that makes it. What
 * is stored lies in both views. Each way that this kernel has.
 */
#define _GNU_SOURCE
#include "../access.h"

#include "../diff.h"
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

#define PAGES 64u
#define ROUNDS 4000u
/* As many as make mprotect run out of mappings. */
#define MANY (280u << 8)

struct seen {
  struct mr_area *area;
  uint32_t reads, writes; /* faults */
  uint32_t page;          /* of the last */
};

static int count(void *context, uint32_t page, bool write) {
  struct seen *seen = context;
  seen->reads += !write;
  seen->writes += write;
  seen->page = page;
  return mr_area_allow(seen->area, page, 1, write ? MR_READ_WRITE : MR_READ);
}

static struct seen open_area(enum mr_access_way way, uint32_t pages) {
  struct seen seen = {0};
  CHECK_EQUAL(mr_area_create(&seen.area, way, NULL, pages, count, NULL), 0);
  return seen;
}

/* The context is known only when the area is. */
static int count_here(void *context, uint32_t page, bool write) {
  return count(*(struct seen **)context, page, write);
}

static struct seen *reopen(struct seen *seen, struct seen **slot, enum mr_access_way way,
                           uint32_t pages) {
  *slot = seen;
  *seen = (struct seen){0};
  CHECK_EQUAL(mr_area_create(&seen->area, way, NULL, pages, count_here, slot), 0);
  return seen;
}

static volatile uint8_t *program(struct seen *seen, uint32_t page) {
  return mr_area_program(seen->area) + (size_t)page * MR_PAGE;
}

static volatile uint8_t *runtime(struct seen *seen, uint32_t page) {
  return mr_area_runtime(seen->area) + (size_t)page * MR_PAGE;
}

static void one_page(enum mr_access_way way) {
  struct seen it, *slot, *seen = reopen(&it, &slot, way, PAGES);
  runtime(seen, 7)[100] = 42;
  CHECK_EQUAL(program(seen, 7)[100], 42);
  CHECK_EQUAL(seen->reads, 1);
  CHECK_EQUAL(seen->page, 7);
  program(seen, 7)[101] = 43;
  CHECK_EQUAL(seen->writes, 1);
  program(seen, 7)[102] = 44;
  CHECK_EQUAL(runtime(seen, 7)[101], 43);
  /* No longer writable; still readable. */
  CHECK_EQUAL(mr_area_allow(seen->area, 7, 1, MR_READ), 0);
  CHECK_EQUAL(program(seen, 7)[102], 44);
  CHECK_EQUAL(seen->reads + seen->writes, 2);
  program(seen, 7)[102] = 45;
  CHECK_EQUAL(seen->writes, 2);
  /* Nothing is allowed; what the runtime stores meanwhile is there afterwards. */
  CHECK_EQUAL(mr_area_allow(seen->area, 7, 1, MR_NONE), 0);
  runtime(seen, 7)[102] = 46;
  CHECK_EQUAL(program(seen, 7)[102], 46);
  CHECK_EQUAL(seen->reads, 2);
  /* A page that was never touched: zeros; and written first. */
  CHECK_EQUAL(program(seen, 8)[0], 0);
  program(seen, 9)[5] = 1;
  CHECK_EQUAL(runtime(seen, 9)[5], 1);
  mr_area_destroy(seen->area);
}

/* The kernel may drop a page's mapping whenever it likes; the access just goes on. */
static void dropped(enum mr_access_way way, int advice) {
  struct seen it, *slot, *seen = reopen(&it, &slot, way, PAGES);
  alarm(20); /* instead of faulting for ever */
  for (enum mr_access access = MR_READ; access <= MR_READ_WRITE; access++) {
    runtime(seen, access)[9] = 42;
    CHECK_EQUAL(mr_area_allow(seen->area, access, 1, access), 0);
    CHECK_EQUAL(program(seen, access)[9], 42);
    madvise((void *)runtime(seen, access), MR_PAGE, MADV_DONTNEED);
    /* A kernel that does not know the advice drops nothing. */
    madvise((void *)program(seen, access), MR_PAGE, advice);
    CHECK_EQUAL(program(seen, access)[9], 42);
    madvise((void *)program(seen, access), MR_PAGE, advice);
    program(seen, access)[9] = 43;
    CHECK_EQUAL(runtime(seen, access)[9], 43);
    CHECK(seen->reads + seen->writes <= 4 * access);
    /* It is still seen what is no longer allowed. */
    CHECK_EQUAL(mr_area_allow(seen->area, access, 1, MR_READ), 0);
    uint32_t writes = seen->writes;
    program(seen, access)[9] = 44;
    CHECK_EQUAL(seen->writes, writes + 1);
  }
  alarm(0);
  mr_area_destroy(seen->area);
}

/* What was mapped before an error is not forgotten. */
static void half_done(enum mr_access_way way) {
  struct seen it, *slot, *seen = reopen(&it, &slot, way, PAGES);
  CHECK_EQUAL(munmap((void *)program(seen, 2), MR_PAGE), 0);
  CHECK(mr_area_allow(seen->area, 0, 4, MR_READ_WRITE) < 0);
  CHECK_EQUAL(mr_area_allow(seen->area, 0, 1, MR_NONE), 0);
  CHECK_EQUAL(program(seen, 0)[0], 0);
  CHECK_EQUAL(seen->reads, 1);
  mr_area_destroy(seen->area);
}

/* A system call does not fault: it fails, and works once the range is allowed. */
static void system_call(enum mr_access_way way) {
  struct seen it, *slot, *seen = reopen(&it, &slot, way, PAGES);
  int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  CHECK(zero >= 0);
  CHECK(read(zero, (void *)program(seen, 3), 2 * MR_PAGE) < 0);
  CHECK_EQUAL(errno, EFAULT);
  CHECK_EQUAL(mr_area_allow(seen->area, 3, 2, MR_READ_WRITE), 0);
  CHECK_EQUAL(read(zero, (void *)program(seen, 3), 2 * MR_PAGE), 2 * MR_PAGE);
  close(zero);
  mr_area_destroy(seen->area);
}

/* Random rights on random runs of pages, and random accesses. */
static void random_rights(enum mr_access_way way, uint64_t seed, uint64_t rounds) {
  struct seen it, *slot, *seen = reopen(&it, &slot, way, PAGES);
  uint8_t allowed[PAGES] = {0}, expected[PAGES] = {0};
  for (uint64_t i = 0; i < rounds; i++) {
    uint64_t draw = next_random(&seed) >> 20;
    uint32_t page = draw % PAGES, run = 1 + (uint32_t)(draw >> 8) % (PAGES - page);
    uint32_t faults = seen->reads + seen->writes;
    switch (draw >> 32 & 3) {
    case 0:
      memset(allowed + page, draw >> 40 & 1 ? MR_NONE : (int)((draw >> 41) % 3), run);
      CHECK_EQUAL(mr_area_allow(seen->area, page, run, (enum mr_access)allowed[page]), 0);
      break;
    case 1:
      CHECK_EQUAL(program(seen, page)[17], expected[page]);
      CHECK_EQUAL(seen->reads + seen->writes, faults + (allowed[page] == MR_NONE));
      allowed[page] = allowed[page] == MR_NONE ? MR_READ : allowed[page];
      break;
    case 2:
      program(seen, page)[17] = expected[page] = (uint8_t)draw;
      CHECK(seen->reads + seen->writes - faults >= (allowed[page] != MR_READ_WRITE));
      CHECK(seen->reads + seen->writes - faults <= 2);
      allowed[page] = MR_READ_WRITE;
      break;
    case 3:
      runtime(seen, page)[17] = expected[page] = (uint8_t)draw;
      break;
    }
  }
  mr_area_destroy(seen->area);
}

/* Every other page: no mapping each with userfaultfd; with mprotect an error, not a crash. By
 * mprotect not under the address sanitizer: that of gcc 13 and later maps its shadow memory anew at
 * each munmap, and ends a process that has no mapping left for it. */
static void alternating(enum mr_access_way way) {
#ifdef __SANITIZE_ADDRESS__
  if (way != MR_BY_USERFAULTFD)
    return;
#endif
  struct seen it, *slot, *seen = reopen(&it, &slot, way, MANY);
  int before = mappings(), rc = 0;
  for (uint32_t page = 0; page < MANY && rc == 0; page += 2)
    rc = mr_area_allow(seen->area, page, 1, MR_READ);
  if (way == MR_BY_USERFAULTFD) {
    CHECK_EQUAL(rc, 0);
    CHECK(mappings() - before <= 4);
  } else {
    CHECK(rc == 0 || rc == -ENOMEM);
  }
  mr_area_destroy(seen->area);
}

struct half {
  struct seen *seen;
  uint32_t first;
  uint64_t sum;
};

static int allow_only(void *context, uint32_t page, bool write) {
  struct seen *seen = *(struct seen **)context;
  return mr_area_allow(seen->area, page, 1, write ? MR_READ_WRITE : MR_READ);
}

static void *touch_half(void *argument) {
  struct half *half = argument;
  for (uint32_t page = half->first; page < PAGES; page += 2) {
    half->sum += program(half->seen, page)[0];
    program(half->seen, page)[0] = 1;
    half->sum += program(half->seen, page)[0];
  }
  return NULL;
}

static void two_threads(enum mr_access_way way) {
  struct seen it = {0}, *slot = &it;
  CHECK_EQUAL(mr_area_create(&it.area, way, NULL, PAGES, allow_only, &slot), 0);
  struct half halves[2] = {{&it, 0, 0}, {&it, 1, 0}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    CHECK_EQUAL(pthread_create(&threads[i], NULL, touch_half, &halves[i]), 0);
  for (int i = 0; i < 2; i++)
    CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  CHECK_EQUAL(halves[0].sum + halves[1].sum, PAGES);
  mr_area_destroy(it.area);
}

static void places(enum mr_access_way way) {
  struct seen seen = open_area(way, 4), other;
  void *taken = mr_area_program(seen.area);
  CHECK_EQUAL(mr_area_create(&other.area, way, taken, 1, count, NULL), -EEXIST);
  mr_area_destroy(seen.area);
  CHECK_EQUAL(mr_area_create(&other.area, way, taken, 4, count, NULL), 0);
  CHECK(mr_area_program(other.area) == taken);
  CHECK_EQUAL(mr_area_allow(other.area, 3, 2, MR_READ), -EINVAL);
  CHECK_EQUAL(mr_area_allow(other.area, UINT32_MAX, 2, MR_READ), -EINVAL);
  mr_area_destroy(other.area);
  CHECK_EQUAL(mr_area_create(&other.area, way, NULL, 0, count, NULL), -EINVAL);
}

static void many_areas(enum mr_access_way way) {
  struct mr_area *areas[MR_AREAS_MAX + 1];
  for (int i = 0; i < MR_AREAS_MAX; i++)
    CHECK_EQUAL(mr_area_create(&areas[i], way, NULL, 1, count, NULL), 0);
  CHECK_EQUAL(mr_area_create(&areas[MR_AREAS_MAX], way, NULL, 1, count, NULL), -EMFILE);
  for (int i = 0; i < MR_AREAS_MAX; i++)
    mr_area_destroy(areas[i]);
}

/* Nothing of it faults: there is nobody to see it. */
static void lone(void) {
  struct mr_area *area, *other;
  CHECK_EQUAL(mr_area_create_lone(&area, NULL, PAGES), 0);
  uint8_t *memory = mr_area_program(area);
  CHECK(mr_area_runtime(area) == memory && mr_area_descriptor(area) < 0);
  CHECK_EQUAL(mr_area_allow(area, 0, PAGES, MR_NONE), 0);
  for (size_t i = 0; i < PAGES; i++) {
    CHECK_EQUAL(memory[i * MR_PAGE], 0);
    memory[i * MR_PAGE] = 1;
  }
  CHECK_EQUAL(mr_area_create_lone(&other, memory, PAGES), -EEXIST);
  mr_area_destroy(area);
  CHECK_EQUAL(mr_area_create_lone(&area, memory, PAGES), 0);
  CHECK(mr_area_program(area) == memory && memory[0] == 0);
  mr_area_destroy(area);
  CHECK_EQUAL(mr_area_create_lone(&area, NULL, 0), -EINVAL);
}

static sigjmp_buf out;
static uint32_t guarded;

static int jump(void *context, uint32_t page, bool write) {
  (void)context;
  (void)write;
  guarded = page;
  siglongjmp(out, 1);
}

/* Page 1 alone is not allowed. */
static void guard(struct mr_area *area) {
  volatile uint8_t *memory = mr_area_program(area);
  CHECK_EQUAL(mr_area_guard(area, 1, jump, NULL), 0);
  CHECK_EQUAL(mr_area_guard(area, PAGES, jump, NULL), -EINVAL);
  memory[0] = memory[2 * MR_PAGE] = 1;
  guarded = 0;
  if (sigsetjmp(out, 1) == 0)
    memory[MR_PAGE] = 1;
  CHECK_EQUAL(guarded, 1);
}

static void guarded_lone(void) {
  struct mr_area *area;
  CHECK_EQUAL(mr_area_create_lone(&area, NULL, PAGES), 0);
  guard(area);
  mr_area_destroy(area);
}

/* Two areas see one memory, at the window, too, and nothing of it faults. */
static void replaced(enum mr_access_way way) {
  enum { FIRST = PAGES / 2 };
  size_t size = PAGES * MR_PAGE, tail = size - FIRST * MR_PAGE;
  struct seen one = open_area(way, PAGES), other = open_area(way, PAGES);
  uint8_t *window = mmap(NULL, tail, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK_EQUAL(mr_area_window(other.area, window, FIRST), 0);
  int fd = mr_area_descriptor(one.area);
  for (struct seen *it = &one; it != NULL; it = it == &one ? &other : NULL)
    CHECK_EQUAL(
        mr_area_replace(it->area, mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)), 0);
  uint8_t *here = mr_area_program(one.area), *there = mr_area_program(other.area);
  for (size_t i = 0; i < PAGES; i++) {
    here[i * MR_PAGE] = (uint8_t)(i + 1);
    CHECK_EQUAL(there[i * MR_PAGE], i + 1);
  }
  for (size_t i = FIRST; i < PAGES; i++) {
    CHECK_EQUAL(window[(i - FIRST) * MR_PAGE], i + 1);
    window[(i - FIRST) * MR_PAGE] = 0;
    CHECK_EQUAL(here[i * MR_PAGE], 0);
  }
  guard(one.area);
  mr_area_destroy(other.area);
  mr_area_destroy(one.area);
  munmap(window, tail);
}

int main(void) {
  uint64_t rounds = ROUNDS * setting("MARU_TEST_SCALE", 1);
  bool any = false;
  lone();
  guarded_lone();
  for (int i = 0; i < MR_ACCESS_WAYS; i++) {
    enum mr_access_way way = (enum mr_access_way)i;
    int rc = mr_access_probe(way);
    if (rc < 0) {
      fprintf(stderr, "%s: %s\n", mr_access_way_name(way), strerror(-rc));
      continue;
    }
    any = true;
    one_page(way);
    dropped(way, MADV_DONTNEED);
    dropped(way, MADV_PAGEOUT);
    half_done(way);
    system_call(way);
    random_rights(way, setting("MARU_DSM_SEED", 1), rounds);
    alternating(way);
    two_threads(way);
    places(way);
    many_areas(way);
    replaced(way);
  }
  CHECK(any);
  return 0;
}
