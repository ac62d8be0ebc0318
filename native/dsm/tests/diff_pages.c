/* Description: a diff is exactly what changed, to the byte, with every
 * instruction set that this CPU has; writers of other bytes lose nothing. */
#include "../diff.h"

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PAIRS 500u
#define STORES 200000u
#else
#define PAIRS 20000u
#define STORES 300000000u
#endif

struct pages {
  alignas(64) uint8_t twin[MR_PAGE];
  alignas(64) uint8_t left[MR_PAGE];
  alignas(64) uint8_t right[MR_PAGE];
  alignas(64) uint8_t home[MR_PAGE];
  alignas(64) uint8_t expected[MR_PAGE];
};

static uint32_t below(uint64_t *seed, uint32_t bound) {
  return (uint32_t)((next_random(seed) >> 32) % bound);
}

static void fill(uint8_t *page, uint64_t *seed) {
  /* Few values, so that bytes and blocks are often equal by chance. */
  uint64_t values = below(seed, 2) != 0 ? UINT64_MAX : UINT64_C(0x0101010101010101);
  for (unsigned i = 0; i < MR_PAGE; i += 8) {
    uint64_t word = next_random(seed) & values;
    memcpy(page + i, &word, 8);
  }
}

/* Changes bytes of `page` that `taken` does not forbid: none, one, a run,
 * scattered bytes, scattered blocks, nearly all. */
static void scribble(uint8_t *page, const uint8_t *taken, uint64_t *seed) {
  uint32_t kind = below(seed, 6);
  uint32_t first = below(seed, MR_PAGE), last = first + below(seed, MR_PAGE - first);
  uint32_t odds = 1 + below(seed, 64);
  for (uint32_t i = 0; i < MR_PAGE; i++) {
    bool chosen = kind == 1   ? i == first
                  : kind == 2 ? i >= first && i <= last
                  : kind == 3 ? below(seed, odds) == 0
                  : kind == 4 ? (i / MR_BLOCK * 2654435761u >> 16) % odds == 0
                  : kind == 5 ? i != first
                              : false;
    if (chosen && (taken == NULL || !taken[i]))
      page[i] = (uint8_t)next_random(seed);
  }
}

/* The diff as its definition says it, block by block. */
static void check_encoded(const struct mr_diff *diff, const uint8_t *page, const uint8_t *twin) {
  uint32_t n = 0;
  for (uint32_t b = 0; b < MR_BLOCKS; b++) {
    bool differs = memcmp(page + 8 * b, twin + 8 * b, 8) != 0;
    CHECK_EQUAL(diff->bitmap[b / 64] >> b % 64 & 1, differs);
    if (!differs)
      continue;
    CHECK(memcmp(&diff->words[n], page + 8 * b, 8) == 0);
    for (unsigned k = 0; diff->masked && k < 8; k++)
      CHECK_EQUAL(diff->masks[n] >> k & 1, page[8 * b + k] != twin[8 * b + k]);
    n++;
  }
  CHECK_EQUAL(diff->blocks, n);
}

static void through_wire(struct mr_diff *diff) {
  static uint8_t packed[MR_DIFF_PACKED_MAX];
  size_t length = mr_diff_pack(diff, packed);
  CHECK(length <= sizeof packed);
  memset(diff, 0xee, sizeof *diff);
  CHECK_EQUAL(mr_diff_unpack(diff, packed, length), 0);
  CHECK_EQUAL(mr_diff_unpack(diff, packed, length - 1), -EBADMSG);
  CHECK_EQUAL(mr_diff_unpack(diff, packed, length), 0);
}

static void alone(const struct mr_diff_code *code, struct pages *p) {
  static struct mr_diff diff;
  memset(&diff, 0xee, sizeof diff);
  code->encode(&diff, p->left, p->twin);
  CHECK(!diff.masked);
  check_encoded(&diff, p->left, p->twin);
  through_wire(&diff);
  check_encoded(&diff, p->left, p->twin);
  memcpy(p->home, p->twin, MR_PAGE);
  code->apply(&diff, p->home);
  CHECK(memcmp(p->home, p->left, MR_PAGE) == 0);
}

/* Two writers, at no byte the same, in either order. */
static void together(const struct mr_diff_code *code, struct pages *p) {
  static struct mr_diff diff;
  const uint8_t *writers[2] = {p->left, p->right};
  for (int first = 0; first < 2; first++) {
    memcpy(p->home, p->twin, MR_PAGE);
    for (int i = 0; i < 2; i++) {
      const uint8_t *page = writers[i ^ first];
      code->encode(&diff, page, p->twin);
      mr_diff_mask(&diff, p->twin);
      check_encoded(&diff, page, p->twin);
      through_wire(&diff);
      mr_diff_apply_masked(&diff, p->home);
    }
    CHECK(memcmp(p->home, p->expected, MR_PAGE) == 0);
  }
}

static void one_pair(struct pages *p, uint64_t seed) {
  static uint8_t taken[MR_PAGE];
  fill(p->twin, &seed);
  memcpy(p->left, p->twin, MR_PAGE);
  memcpy(p->right, p->twin, MR_PAGE);
  scribble(p->left, NULL, &seed);
  for (unsigned i = 0; i < MR_PAGE; i++)
    taken[i] = p->left[i] != p->twin[i];
  scribble(p->right, taken, &seed);
  for (unsigned i = 0; i < MR_PAGE; i++)
    p->expected[i] = taken[i] ? p->left[i] : p->right[i];
  for (int isa = 0; isa < MR_DIFF_ISAS; isa++) {
    const struct mr_diff_code *code = mr_diff_code((enum mr_diff_isa)isa);
    if (code == NULL)
      continue;
    alone(code, p);
    together(code, p);
  }
}

/* A thread that writes other bytes of the blocks meanwhile loses none. */
static volatile uint8_t contested[MR_PAGE] __attribute__((aligned(64)));
static _Atomic bool written;

static void *write_low(void *unused) {
  for (uint32_t i = 0; i < STORES; i++) {
    volatile uint8_t *byte = &contested[MR_BLOCK * (i % 4)];
    /* What it stored there the last time. */
    CHECK_EQUAL(*byte, i < 4 ? 0 : (uint8_t)(i - 4));
    *byte = (uint8_t)i;
  }
  /* Relaxed: only says that it is over. */
  atomic_store_explicit(&written, true, memory_order_relaxed);
  return unused;
}

static void two_threads(void) {
  static struct mr_diff diff;
  static struct pages p;
  pthread_t writer;
  for (unsigned i = 0; i < 4 * MR_BLOCK; i++)
    p.left[i] = i % MR_BLOCK != 0;
  mr_diff_best()->encode(&diff, p.left, p.twin);
  mr_diff_mask(&diff, p.twin);
  CHECK_EQUAL(pthread_create(&writer, NULL, write_low, NULL), 0);
  while (!atomic_load_explicit(&written, memory_order_relaxed))
    mr_diff_apply_masked(&diff, (void *)contested);
  CHECK_EQUAL(pthread_join(writer, NULL), 0);
}

/* Whatever comes over the wire is a diff within the page, or refused. */
static void hostile(uint64_t seed) {
  static uint8_t bytes[MR_DIFF_PACKED_MAX + 16];
  static struct mr_diff diff;
  for (unsigned i = 0; i < sizeof bytes; i++)
    bytes[i] = (uint8_t)(next_random(&seed) & next_random(&seed));
  bytes[0] &= 3;
  size_t length = below(&seed, sizeof bytes);
  if (mr_diff_unpack(&diff, bytes, length) == 0)
    CHECK(diff.blocks <= MR_BLOCKS && length <= MR_DIFF_PACKED_MAX);
}

int main(void) {
  static struct pages pages;
  uint64_t seed = setting("MARU_DSM_SEED", 1);
  uint64_t pairs = setting("MARU_DSM_PAIRS", PAIRS * setting("MARU_TEST_SCALE", 1));
  for (uint64_t i = 0; i < pairs; i++) {
    snprintf(check_note, sizeof check_note, "(again: MARU_DSM_SEED=%llu MARU_DSM_PAIRS=1)",
             (unsigned long long)(seed + i));
    one_pair(&pages, (seed + i) * UINT64_C(0x9e3779b97f4a7c15) + 1);
    hostile((seed + i) * UINT64_C(0xd1342543de82ef95) + 1);
  }
  two_threads();
  return 0;
}
