/* A file of sections that knows whether it is whole. The index of an archive is one.
 *
 * Blocks of 4 KiB: a header, the sections, then the checksums of all blocks between. The header has
 * the checksum of these checksums and its own. A reader verifies the header when it opens the file,
 * and each block whenever it reads it: nothing is used that was not written so. All numbers are
 * little-endian words of the machine; a file of another byte order is of another version.
 *
 * A reader reads by pread alone, so any number of threads may. A file that somebody cuts off or
 * that the disk cannot read is an error, no signal. Nothing here locks or blocks but for the disk.
 */
#ifndef MARU_SIMILAR_STORE_H
#define MARU_SIMILAR_STORE_H

#include <stdint.h>
#include <sys/types.h>

enum { STORE_BLOCK = 4096, STORE_VERSION = 2 };

/* What a file holds. Each view has its own six. */
enum {
  STORE_HEAD_FIRST, /* u64 [submissions + 1]: where in STORE_HEADS each begins */
  STORE_HEADS,      /* what is known of a submission */
  STORE_TEXT_FIRST, /* u64 [submissions + 1] */
  STORE_TEXTS,      /* its programs */
  STORE_VIEWS,
  STORE_POSTINGS = 0, /* u32: a submission and a count, as the index has them */
  STORE_GRAMS,        /* struct store_gram [grams + 1], ascending; the last one only says an end */
  STORE_FAN,          /* u32 [STORE_FANS + 1]: the first gram of each 16 bits of the hash */
  STORE_LENGTHS,      /* u32 [submissions]: codes without barriers */
  STORE_RARE_FIRST,   /* u64 [submissions + 1] */
  STORE_RARE,         /* u32: how rare, above how many grams of a submission are as rare */
  STORE_OF_VIEW,
  STORE_SECTIONS = STORE_VIEWS + 3 * STORE_OF_VIEW,
  STORE_FANS = 65536
};

/* The low 32 bits of a hash, and its first posting. */
struct store_gram {
  uint32_t low, first;
};

static inline int store_section(int view, int section) {
  return STORE_VIEWS + view * STORE_OF_VIEW + section;
}

struct maru_similar_store;

/* Takes the descriptor. The recipe says how views were made of programs; one of another recipe
 * cannot be compared. -ENOEXEC: no such file. -EPROTONOSUPPORT: of another version or recipe.
 * -EBADMSG: torn or changed. Else a negative errno. Upon failure the descriptor is closed, too. */
int maru_similar_store_open(int fd, uint32_t recipe, struct maru_similar_store **store);
void maru_similar_store_close(struct maru_similar_store *store);

uint32_t maru_similar_store_submissions(const struct maru_similar_store *store);
/* Bytes of a section. */
uint64_t maru_similar_store_bytes(const struct maru_similar_store *store, int section);

/* Bytes [offset, offset + bytes) of a section. -EBADMSG also where it does not have so many. */
int maru_similar_store_read(const struct maru_similar_store *store, int section, uint64_t offset,
                            uint64_t bytes, void *to);

/* A file that is being written, of so many submissions, into a descriptor that stays the caller's.
 * What fails once fails from then on; maru_similar_writer_finish says so. */
struct maru_similar_writer;

struct maru_similar_writer *maru_similar_writer_new(int fd, uint32_t recipe, uint32_t submissions);
void maru_similar_writer_free(struct maru_similar_writer *writer);
uint32_t maru_similar_writer_submissions(const struct maru_similar_writer *writer);

/* Appends to a section. Sections are written one after the other. */
int maru_similar_writer_put(struct maru_similar_writer *writer, int section, const void *bytes,
                            uint64_t size);

/* A second section that grows beside the first, from so many bytes behind its beginning: the first
 * one must end up with just these. */
int maru_similar_writer_beside(struct maru_similar_writer *writer, int section,
                               uint64_t first_bytes);
int maru_similar_writer_put_beside(struct maru_similar_writer *writer, const void *bytes,
                                   uint64_t size);

/* What was written to a section that is complete. */
int maru_similar_writer_read(struct maru_similar_writer *writer, int section, uint64_t offset,
                             uint64_t bytes, void *to);

/* Whole and on the disk: 0 or a negative errno. */
int maru_similar_writer_finish(struct maru_similar_writer *writer);

/* One view of submissions that are at hand, as maru_similar_index_new takes them. */
int maru_similar_writer_view(struct maru_similar_writer *writer, int view, const uint32_t *codes,
                             const uint64_t *offsets, uint32_t k);

/* One view of several files as one; places[s][i] is where source s's submission i goes, ascending
 * in i. O(what they hold); 4 bytes a submission and each rarity, of 131 072 submissions at once. */
int maru_similar_writer_merge(struct maru_similar_writer *writer, int view,
                              const struct maru_similar_store *const *sources,
                              const uint32_t *const *places, uint32_t count);

#endif
