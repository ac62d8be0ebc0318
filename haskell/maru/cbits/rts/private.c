/*
 * Raw words of closures that may be addresses: which of them mean something in another process of
 * this program. Nothing in a closure says what is an address.
 */
/* process_vm_readv */
#define _GNU_SOURCE
#include "image.h"

#include <errno.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* Read-only memory of the program itself: the same in parent and child. */
static int in_object(struct dl_phdr_info *object, size_t size, void *address) {
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    uintptr_t from = object->dlpi_addr + part->p_vaddr, p = (uintptr_t)address;
    if (part->p_type == PT_LOAD && !(part->p_flags & PF_W) && p >= from && p < from + part->p_memsz)
      return 1;
  }
  return -1; /* the program comes first; libraries may have been loaded after the fork */
}

bool word_is_literal(W_ address) {
  return !maru_in_heap((void *)address) && dl_iterate_phdr(in_object, (void *)address) == 1;
}

/* Code of the program or of a library, which the process had before the fork or has only here. */
static int is_code(struct dl_phdr_info *object, size_t size, void *address) {
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    uintptr_t from = object->dlpi_addr + part->p_vaddr, p = (uintptr_t)address;
    if (part->p_type == PT_LOAD && part->p_flags & PF_X && p >= from && p < from + part->p_memsz)
      return 1;
  }
  return 0;
}

bool word_is_code(W_ address) { return dl_iterate_phdr(is_code, (void *)address) == 1; }

static int program_span(struct dl_phdr_info *object, size_t size, void *span) {
  (void)size;
  W_ *bounds = span;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    W_ from = object->dlpi_addr + part->p_vaddr;
    if (part->p_type != PT_LOAD)
      continue;
    bounds[0] = bounds[1] && bounds[0] < from ? bounds[0] : from;
    bounds[1] = bounds[1] > from + part->p_memsz ? bounds[1] : from + part->p_memsz;
  }
  return -1; /* the program comes first */
}

bool word_is_loaded(W_ address) {
  static _Thread_local W_ bounds[2]; /* of each thread: it is found again, and stays what it is */
  if (!bounds[1])
    dl_iterate_phdr(program_span, bounds);
  return (address < bounds[0] || address >= bounds[1]) && !maru_in_heap((void *)address);
}

static int first_base(struct dl_phdr_info *object, size_t size, void *base) {
  (void)size;
  *(W_ *)base = object->dlpi_addr;
  return -1;
}

const char *maru_rts_closures_refusal(void) {
  const char *refusal = maru_rts_refusal();
  W_ base = 1;
  if (refusal || MARU_RTS_NO_CLOSURES)
    return refusal ? refusal : MARU_RTS_NO_CLOSURES;
  dl_iterate_phdr(first_base, &base);
  return base ? "each process has the program's code elsewhere (it is linked with -pie)" : NULL;
}

bool word_is_private(W_ address) {
  unsigned char resident;
  void *page = (void *)(address & ~(W_)(BLOCK_SIZE - 1));
  return !word_is_literal(address) && (mincore(page, 1, &resident) == 0 || errno != ENOMEM);
}

#if MARU_RTS_REGIONS
/* Reads memory that may not be there. */
static int read_safely(const void *from, void *to, size_t bytes) {
  struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)from, bytes};
  ssize_t n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  return n < 0 ? -errno : n == (ssize_t)bytes ? 0 : -EFAULT;
}

/* No program holds an address into a block whose objects the collector moves: a word that looks
   like one is a number, or what lay in a function's word of padding. (A function without free
   variables that GHC has not made static has one.) A group's descriptors name its first block; what
   lies in the place of one, in a large object, does not. */
static bool is_no_address(W_ word) {
  bdescr block;
  if (!maru_in_heap((void *)word))
    return false;
  const bdescr *at = Bdescr((StgPtr)word);
  for (int looks = 0; looks < 2; looks++) {
    int error = read_safely(at, &block, sizeof block);
    if (error)
      return error == -EFAULT; /* reserved, and nobody's */
    if (block.blocks > 0)
      break;
    at = block.link;
  }
  W_ start = (W_)block.start;
  return block.blocks > 0 && Bdescr(block.start) == at && word >= start &&
         word < start + (W_)block.blocks * BLOCK_SIZE &&
         !(block.flags & (BF_LARGE | BF_PINNED | BF_COMPACT));
}
#else
static bool is_no_address(W_ word) {
  (void)word;
  return false;
}
#endif

/* Most words are small numbers, or floating. */
bool words_private(const W_ *words, size_t count) {
  enum { LEAST = 1 << 16, ADDRESS_BITS = 47 };
  for (size_t i = 0; i < count; i++)
    if (words[i] >= LEAST && !(words[i] >> ADDRESS_BITS) && word_is_private(words[i]) &&
        !is_no_address(words[i]))
      return true;
  return false;
}

#define NUMBER(symbol) extern const StgInfoTable symbol##_con_info MARU_WEAK;
#define NUMBERS(N)                                                                                 \
  N(ghczmprim_GHCziTypes_Izh)                                                                      \
  N(ghczmprim_GHCziTypes_Wzh)                                                                      \
  N(ghczmprim_GHCziTypes_Czh)                                                                      \
  N(ghczmprim_GHCziTypes_Dzh)                                                                      \
  N(ghczmprim_GHCziTypes_Fzh)                                                                      \
  N(ghczmbignum_GHCziNumziInteger_IS)                                                              \
  N(ghczmbignum_GHCziNumziNatural_NS)
NUMBERS(NUMBER)
#define ITS_TABLE(symbol) &symbol##_con_info,

bool is_boxed_number(const StgInfoTable *info) {
  static const StgInfoTable *const tables[] = {NUMBERS(ITS_TABLE)};
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
    if (tables[i] && info + 1 == tables[i]) /* code follows a table */
      return true;
  return false;
}
