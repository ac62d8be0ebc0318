#include "diff.h"

#include <errno.h>
#include <string.h>

/* Bit k of a mask is byte k of a block; diffs are sent as they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "written for little-endian hosts");

#define BYTES UINT64_C(0x0101010101010101)
#define LOW7 (BYTES * 0x7f)
#define PACKED_MASKED 1u

/* ---- encoders ------------------------------------------------------------
 * All are free of branches on data: the next block is stored where the last
 * one that differed ended, whether it differs or not. */

static void encode_scalar(struct mr_diff *diff, const void *page, const void *twin) {
  const uint64_t *now = page, *then = twin;
  uint64_t *out = diff->words;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++) {
    uint64_t bits = 0;
    for (unsigned eight = 0; eight < 64; eight += 8, now += 8, then += 8) {
      uint64_t set = 0;
#pragma GCC unroll 8
      for (unsigned b = 0; b < 8; b++) {
        uint64_t differs = now[b] != then[b];
        *out = now[b];
        out += differs;
        set |= differs << b;
      }
      bits |= set << eight;
    }
    diff->bitmap[w] = bits;
  }
  diff->blocks = (uint32_t)(out - diff->words);
  diff->masked = false;
}

static void apply_scalar(const struct mr_diff *diff, void *page) {
  uint64_t *to = page;
  const uint64_t *from = diff->words;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
    for (uint64_t bits = diff->bitmap[w]; bits != 0; bits &= bits - 1)
      to[64 * w + (unsigned)__builtin_ctzll(bits)] = *from++;
}

static void gather_scalar(struct mr_diff *diff, const void *page) {
  const uint64_t *from = page;
  uint64_t *out = diff->words;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
    for (uint64_t bits = diff->bitmap[w]; bits != 0; bits &= bits - 1)
      *out++ = from[64 * w + (unsigned)__builtin_ctzll(bits)];
  diff->blocks = (uint32_t)(out - diff->words);
  diff->masked = false;
}

static const struct mr_diff_code scalar = {"scalar", encode_scalar, apply_scalar, gather_scalar};

#if defined(__x86_64__)
#include <immintrin.h>

/* For each set of the four blocks of a vector: the 32-bit lanes of those in the
 * set, moved to the front. */
#define LANES(a, b, c, d)                                                                          \
  { 2 * (a), 2 * (a) + 1, 2 * (b), 2 * (b) + 1, 2 * (c), 2 * (c) + 1, 2 * (d), 2 * (d) + 1 }
static const alignas(32) uint32_t front[16][8] = {
    LANES(0, 0, 0, 0), LANES(0, 0, 0, 0), LANES(1, 0, 0, 0), LANES(0, 1, 0, 0),
    LANES(2, 0, 0, 0), LANES(0, 2, 0, 0), LANES(1, 2, 0, 0), LANES(0, 1, 2, 0),
    LANES(3, 0, 0, 0), LANES(0, 3, 0, 0), LANES(1, 3, 0, 0), LANES(0, 1, 3, 0),
    LANES(2, 3, 0, 0), LANES(0, 2, 3, 0), LANES(1, 2, 3, 0), LANES(0, 1, 2, 3)};

__attribute__((target("avx2,popcnt"))) static void encode_avx2(struct mr_diff *diff,
                                                               const void *page, const void *twin) {
  const __m256i *now = page, *then = twin;
  uint64_t *out = diff->words;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++) {
    uint64_t bits = 0;
    for (unsigned b = 0; b < 64; b += 4, now++, then++) {
      __m256i vector = _mm256_load_si256(now);
      __m256i same = _mm256_cmpeq_epi64(vector, _mm256_load_si256(then));
      unsigned set = ~(unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(same)) & 15u;
      __m256i lanes = _mm256_load_si256((const __m256i *)front[set]);
      _mm256_storeu_si256((__m256i *)out, _mm256_permutevar8x32_epi32(vector, lanes));
      out += __builtin_popcount(set);
      bits |= (uint64_t)set << b;
    }
    diff->bitmap[w] = bits;
  }
  diff->blocks = (uint32_t)(out - diff->words);
  diff->masked = false;
}

__attribute__((target("avx512f,popcnt"))) static void
encode_avx512(struct mr_diff *diff, const void *page, const void *twin) {
  const __m512i *now = page, *then = twin;
  uint64_t *out = diff->words;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++) {
    uint64_t bits = 0;
    for (unsigned b = 0; b < 64; b += 8, now++, then++) {
      __m512i vector = _mm512_load_si512(now);
      __mmask8 set = _mm512_cmpneq_epi64_mask(vector, _mm512_load_si512(then));
      _mm512_storeu_si512(out, _mm512_maskz_compress_epi64(set, vector));
      out += __builtin_popcount(set);
      bits |= (uint64_t)set << b;
    }
    diff->bitmap[w] = bits;
  }
  diff->blocks = (uint32_t)(out - diff->words);
  diff->masked = false;
}

__attribute__((target("avx512f,popcnt"))) static void apply_avx512(const struct mr_diff *diff,
                                                                   void *page) {
  __m512i *to = page;
  const uint64_t *from = diff->words;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
    for (unsigned b = 0; b < 64; b += 8, to++) {
      __mmask8 set = (__mmask8)(diff->bitmap[w] >> b);
      _mm512_mask_storeu_epi64(to, set, _mm512_maskz_expandloadu_epi64(set, from));
      from += __builtin_popcount(set);
    }
}

__attribute__((target("avx512f,popcnt"))) static void gather_avx512(struct mr_diff *diff,
                                                                    const void *page) {
  const __m512i *from = page;
  uint64_t *out = diff->words;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
    for (unsigned b = 0; b < 64; b += 8, from++) {
      __mmask8 set = (__mmask8)(diff->bitmap[w] >> b);
      _mm512_storeu_si512(out, _mm512_maskz_compress_epi64(set, _mm512_load_si512(from)));
      out += __builtin_popcount(set);
    }
  diff->blocks = (uint32_t)(out - diff->words);
  diff->masked = false;
}

/* Expanding needs a table per pattern without AVX-512; the scalar loop is as fast. */
static const struct mr_diff_code avx2 = {"AVX2", encode_avx2, apply_scalar, gather_scalar};
static const struct mr_diff_code avx512 = {"AVX-512", encode_avx512, apply_avx512, gather_avx512};

const struct mr_diff_code *mr_diff_code(enum mr_diff_isa isa) {
  bool popcnt = __builtin_cpu_supports("popcnt");
  switch (isa) {
  case MR_DIFF_SCALAR:
    return &scalar;
  case MR_DIFF_AVX2:
    return popcnt && __builtin_cpu_supports("avx2") ? &avx2 : NULL;
  case MR_DIFF_AVX512:
    return popcnt && __builtin_cpu_supports("avx512f") ? &avx512 : NULL;
  default:
    return NULL;
  }
}
#else
const struct mr_diff_code *mr_diff_code(enum mr_diff_isa isa) {
  return isa == MR_DIFF_SCALAR ? &scalar : NULL;
}
#endif

const struct mr_diff_code *mr_diff_best(void) {
  const struct mr_diff_code *best = &scalar;
  for (int isa = 0; isa < MR_DIFF_ISAS; isa++)
    if (mr_diff_code((enum mr_diff_isa)isa) != NULL)
      best = mr_diff_code((enum mr_diff_isa)isa);
  return best;
}

/* ---- masks ---------------------------------------------------------------- */

/* Bit k: byte k of `word` is not zero. */
static uint8_t bytes_set(uint64_t word) {
  uint64_t high = (((word & LOW7) + LOW7) | word) & ~LOW7;
  /* Gathers the top bits of the eight bytes in the top byte, in order. */
  return (uint8_t)((high >> 7) * UINT64_C(0x0102040810204080) >> 56);
}

void mr_diff_mask(struct mr_diff *diff, const void *twin) {
  const uint64_t *then = twin;
  uint32_t n = 0;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
    for (uint64_t bits = diff->bitmap[w]; bits != 0; bits &= bits - 1, n++)
      diff->masks[n] = bytes_set(diff->words[n] ^ then[64 * w + (unsigned)__builtin_ctzll(bits)]);
  diff->masked = true;
}

/* Volatile: each changed byte is stored by itself, however the compiler would
 * merge them; another thread may write the bytes between. */
static void store_bytes(volatile uint8_t *to, uint64_t word, uint8_t mask) {
  for (unsigned set = mask; set != 0; set &= set - 1) {
    unsigned k = (unsigned)__builtin_ctz(set);
    to[k] = (uint8_t)(word >> 8 * k);
  }
}

void mr_diff_apply_masked(const struct mr_diff *diff, void *page) {
  uint8_t *to = page;
  uint32_t n = 0;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
    for (uint64_t bits = diff->bitmap[w]; bits != 0; bits &= bits - 1, n++) {
      uint8_t *block = to + MR_BLOCK * (64 * w + (unsigned)__builtin_ctzll(bits));
      store_bytes(block, diff->words[n], diff->masks[n]);
    }
}

/* ---- as sent -------------------------------------------------------------- */

size_t mr_diff_pack(const struct mr_diff *diff, void *out) {
  uint8_t *to = out, present = 0;
  size_t length = 2;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
    if (diff->bitmap[w] != 0) {
      present |= (uint8_t)(1u << w);
      memcpy(to + length, &diff->bitmap[w], 8);
      length += 8;
    }
  to[0] = diff->masked ? PACKED_MASKED : 0;
  to[1] = present;
  memcpy(to + length, diff->words, (size_t)diff->blocks * MR_BLOCK);
  length += (size_t)diff->blocks * MR_BLOCK;
  if (diff->masked) {
    memcpy(to + length, diff->masks, diff->blocks);
    length += diff->blocks;
  }
  return length;
}

static size_t unpack_bitmap(struct mr_diff *diff, const uint8_t *from, uint8_t present) {
  size_t length = 0;
  diff->blocks = 0;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++) {
    diff->bitmap[w] = 0;
    if (present & 1u << w) {
      memcpy(&diff->bitmap[w], from + length, 8);
      length += 8;
    }
    diff->blocks += (uint32_t)__builtin_popcountll(diff->bitmap[w]);
  }
  return length;
}

int mr_diff_unpack(struct mr_diff *diff, const void *in, size_t length) {
  const uint8_t *from = in;
  if (length < 2 || (from[0] & ~PACKED_MASKED) != 0 ||
      length - 2 < 8u * (unsigned)__builtin_popcount(from[1]))
    return -EBADMSG;
  diff->masked = from[0] & PACKED_MASKED;
  size_t at = 2 + unpack_bitmap(diff, from + 2, from[1]);
  size_t words = (size_t)diff->blocks * MR_BLOCK;
  if (length - at != words + (diff->masked ? diff->blocks : 0))
    return -EBADMSG;
  memcpy(diff->words, from + at, words);
  if (diff->masked)
    memcpy(diff->masks, from + at + words, diff->blocks);
  return 0;
}
