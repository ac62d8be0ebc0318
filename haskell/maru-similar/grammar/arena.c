#include "arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tree_sitter/api.h>

enum { BLOCK = 1 << 16, ALIGNED = 16 };

struct block {
  struct block *before;
  size_t unused; /* so that what follows is aligned */
};

static _Thread_local struct maru_arena *arena;

void maru_arena_use(struct maru_arena *a) { arena = a; }

void maru_arena_spend(struct maru_arena *a, uint64_t bytes) {
  if (bytes > a->left)
    longjmp(a->way_out, EFBIG);
  a->left -= bytes;
}

static void more(struct maru_arena *a, size_t size) {
  const size_t room = size > BLOCK ? size : BLOCK;
  struct block *block = malloc(sizeof *block + room);
  if (block == NULL)
    longjmp(a->way_out, ENOMEM);
  block->before = a->blocks;
  a->blocks = block;
  a->at = (char *)(block + 1);
  a->room = room;
}

/* Its size stands before each piece. */
static void *take(size_t size) {
  const size_t whole = ALIGNED + (size + ALIGNED - 1) / ALIGNED * ALIGNED;
  maru_arena_spend(arena, whole);
  if (whole > arena->room)
    more(arena, whole);
  char *piece = arena->at;
  arena->at += whole;
  arena->room -= whole;
  memcpy(piece, &size, sizeof size);
  return piece + ALIGNED;
}

static void *take_zeroed(size_t n, size_t size) { return memset(take(n * size), 0, n * size); }

static void *take_larger(void *old, size_t size) {
  size_t had = 0;
  if (old != NULL)
    memcpy(&had, (char *)old - ALIGNED, sizeof had);
  if (had >= size)
    return old;
  void *piece = take(size);
  return old == NULL ? piece : memcpy(piece, old, had);
}

static void give_back(void *piece) { (void)piece; }

void maru_arena_install(void) { ts_set_allocator(take, take_zeroed, take_larger, give_back); }

void maru_arena_free(struct maru_arena *a) {
  for (struct block *block = a->blocks, *before; block != NULL; block = before) {
    before = block->before;
    free(block);
  }
}
