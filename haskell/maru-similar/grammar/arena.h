/* The memory of one parse. The parser is linear on programs, but not on all texts, and it ends the
 * process where there is no memory. So all that it takes comes from here, within a bound that is no
 * clock: the same texts are parsed everywhere. What is past the bound ends the parse by a jump, and
 * all goes at once. */
#ifndef MARU_GRAMMAR_ARENA_H
#define MARU_GRAMMAR_ARENA_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

struct maru_arena {
  jmp_buf way_out; /* with EFBIG or ENOMEM */
  void *blocks;
  char *at;      /* the first free byte of the last block */
  size_t room;   /* how many are free there */
  uint64_t left; /* what may still be spent */
};

/* The runtime allocates from the arena of its thread from now on; NULL: from nowhere. */
void maru_arena_use(struct maru_arena *arena);
/* Memory of this runtime is that of arenas. Once, before any parse. */
void maru_arena_install(void);
void maru_arena_free(struct maru_arena *arena);
/* Counts what is no memory. */
void maru_arena_spend(struct maru_arena *arena, uint64_t bytes);

#endif
