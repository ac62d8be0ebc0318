/* How often names are met: a hash table of hashes. */
#ifndef MARU_GRAMMAR_NAMES_H
#define MARU_GRAMMAR_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct name {
  uint64_t hash; /* 0: free */
  uint32_t times;
};

/* All zero is an empty one; the caller frees slots. */
struct names {
  struct name *slots; /* [room], a power of two; at most half of them taken */
  size_t count, room;
};

/* The hash is not 0. 0 or -ENOMEM. */
int maru_names_met(struct names *names, uint64_t hash);
uint32_t maru_names_times(const struct names *names, uint64_t hash);

/* Of what a name is spelled with: never 0. */
uint64_t maru_names_hash(const char *from, const char *end);

#endif
