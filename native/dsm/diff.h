/* diff.h: what a writer changed in a page (internal to libmaru-dsm).
 *
 * A page is 4096 bytes, 512 *blocks* of 8 bytes. A diff of a page against its twin (the copy made
 * before the first write) names the blocks that differ in a bitmap. It holds their new contents,
 * packed in order. Encoding costs the same for every pattern of changes, unlike lists of ranges.
 *
 * A block's contents hold bytes that the writer did not change.  Where another
 * writer may have changed them (concurrent writers of one page) the diff is
 * *masked*: each block has a mask of its changed bytes, and applying touches
 * those bytes alone, by single stores, so that a thread which meanwhile writes
 * other bytes of the page loses nothing.
 *
 * A byte that is written with the value it had is not a change.
 *
 * Pages and twins are aligned to 64 bytes.  Thread-safety: functions touch what they are
 * given and nothing else.  No function allocates, fails or has hidden state
 * unless it says so.  Source of bitmap and blocks: seed 3, section 3.4 (page
 * blocking).
 */
#ifndef MARU_DSM_DIFF_H
#define MARU_DSM_DIFF_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_PAGE 4096u
#define MR_BLOCK 8u
#define MR_BLOCKS (MR_PAGE / MR_BLOCK)
#define MR_DIFF_BITMAP (MR_BLOCKS / 64)

struct mr_diff {
  uint64_t bitmap[MR_DIFF_BITMAP]; /* bit b of word w: block 64 w + b differs */
  uint32_t blocks;                 /* how many do */
  bool masked;
  uint8_t masks[MR_BLOCKS]; /* if masked: bit k: byte k of that block is changed */
  /* `blocks` of them count.  The rest is room for whole vectors to be stored at
   * the end. */
  alignas(64) uint64_t words[MR_BLOCKS + 8];
};

/* Instruction sets that a diff can be made with. */
enum mr_diff_isa { MR_DIFF_SCALAR, MR_DIFF_AVX2, MR_DIFF_AVX512, MR_DIFF_ISAS };

struct mr_diff_code {
  const char *name;
  /* Makes the (unmasked) diff of `page` against `twin`. */
  void (*encode)(struct mr_diff *diff, const void *page, const void *twin);
  /* Stores the changed blocks of an unmasked diff into `page`. */
  void (*apply)(const struct mr_diff *diff, void *page);
  /* The diff that holds of `page` the blocks that its bitmap names. */
  void (*gather)(struct mr_diff *diff, const void *page);
};

/* The code for one instruction set; NULL where this CPU lacks it. */
const struct mr_diff_code *mr_diff_code(enum mr_diff_isa isa);
/* The fastest that this CPU has; never NULL. */
const struct mr_diff_code *mr_diff_best(void);

/* Adds masks to a diff that was made against `twin`. */
void mr_diff_mask(struct mr_diff *diff, const void *twin);
/* Stores the changed bytes of a masked diff into `page`. */
void mr_diff_apply_masked(const struct mr_diff *diff, void *page);

/* ---- as sent -------------------------------------------------------------
 * One byte of flags (bit 0: masked); one byte that names the words of the bitmap that are not
 * zero. Then those words, the packed blocks, the masks. Little-endian, as the hosts are: a job
 * runs on one architecture. */
#define MR_DIFF_PACKED_MAX (2u + 8u * MR_DIFF_BITMAP + MR_PAGE + MR_BLOCKS)

/* Writes at most MR_DIFF_PACKED_MAX bytes to `out`; how many. */
size_t mr_diff_pack(const struct mr_diff *diff, void *out);
/* The diff that the `length` bytes at `in` are; -EBADMSG if they are none.  `in`
 * comes from another process: anything may be in it. */
int mr_diff_unpack(struct mr_diff *diff, const void *in, size_t length);

#endif
