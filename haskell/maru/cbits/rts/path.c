/*
 * Which way a walk (copy.c) went to what it refused: in words, for the person who wrote the
 * closure.
 *
 * The walk keeps no such thing. But its image has a copy of all that lies on the way, and in each
 * copy a pointer to the next: the first one that was followed. Called unsafely, after a refusal.
 */
#include "image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if MARU_RTS_REGIONS
enum { MOST_STEPS = 12 }; /* that are written; of a longer way its beginning and its end */

/* A word for each of the image. */
struct ways {
  const struct image *image;
  size_t *piece; /* the piece in which this word lies */
  size_t *from;  /* of a piece's first word: the word that led to it */
};

static size_t word_of(size_t at) { return (at - IMAGE_DATA) / sizeof(W_); }

static const StgClosure *closure_of(const struct ways *w, size_t at) {
  return (const StgClosure *)(const void *)(w->image->base + at);
}

static size_t payload_of(const StgClosure *q) {
  const StgInfoTable *info = get_itbl(q);
  switch (info->type) {
  case PAP:
    return offsetof(StgPAP, fun);
  case MUT_ARR_PTRS_FROZEN_CLEAN:
  case MUT_ARR_PTRS_FROZEN_DIRTY:
    return sizeof(StgMutArrPtrs);
  case SMALL_MUT_ARR_PTRS_FROZEN_CLEAN:
  case SMALL_MUT_ARR_PTRS_FROZEN_DIRTY:
    return sizeof(StgSmallMutArrPtrs);
  default:
    return info->type >= THUNK && info->type <= THUNK_SELECTOR ? sizeof(StgThunkHeader)
                                                               : sizeof(StgHeader);
  }
}

static size_t piece_bytes(const StgClosure *q) {
  StgClosure **fields;
  size_t count, bytes = image_fields((StgClosure *)q, &fields, &count);
  return bytes ? bytes : closure_fields((StgClosure *)q, &fields, &count);
}

/* A word that is no pointer may look like one: then a step has a wrong name. */
static void note_piece(struct ways *w, size_t at, size_t bytes) {
  const W_ *words = (const W_ *)(const void *)(w->image->base + at);
  uintptr_t origin = w->image->origin;
  for (size_t i = 0; i < bytes / sizeof(W_); i++) {
    w->piece[word_of(at) + i] = at;
    size_t to = words[i] >= origin ? (size_t)((words[i] & ~(W_)TAG_MASK) - origin) : 0;
    if (to > at && to < w->image->at && !w->from[word_of(to)])
      w->from[word_of(to)] = at + i * sizeof(W_);
  }
}

static bool note_pieces(struct ways *w) {
  for (size_t at = IMAGE_DATA;
       (at = image_next(w->image->base, at, w->image->at)) < w->image->at;) {
    size_t bytes = piece_bytes(closure_of(w, at));
    if (!bytes || bytes > w->image->at - at)
      return false;
    note_piece(w, at, bytes);
    at = image_behind(at, bytes);
  }
  return true;
}

/* "PACKAGE:MODULE.NAME" is what GHC calls a constructor. */
static const char *constructor_name(const StgClosure *q) {
  const char *name = GET_CON_DESC(get_con_itbl(q)), *behind = strchr(name, ':');
  return behind ? behind + 1 : name;
}

static void write_step(FILE *text, const struct ways *w, size_t field) {
  size_t at = w->piece[word_of(field)];
  const StgClosure *q = closure_of(w, at);
  StgHalfWord type = get_itbl(q)->type;
  size_t n = (field - at - payload_of(q)) / sizeof(W_);
  if (type >= CONSTR && type <= CONSTR_NOCAF)
    fprintf(text, "%s's field %zu", constructor_name(q), n + 1);
  else if (type >= FUN && type <= FUN_0_2)
    fprintf(text, "a function's variable %zu", n + 1);
  else if (type >= THUNK && type <= THUNK_SELECTOR)
    fprintf(text, "an unevaluated value's variable %zu", n + 1);
  else if (type == PAP && n == 0)
    fputs("a partial application's function", text);
  else if (type == PAP)
    fprintf(text, "a partial application's argument %zu", n);
  else
    fprintf(text, "an array's element %zu", n);
}

/* From the root to that field, whose piece is `from` steps away. */
static void write_way(FILE *text, const struct ways *w, size_t field, size_t steps) {
  for (size_t k = 0; k < steps; k++) {
    size_t step = field;
    if (k == MOST_STEPS / 2 && steps > MOST_STEPS) {
      k = steps - MOST_STEPS / 2;
      fprintf(text, ", %zu steps more", steps - MOST_STEPS);
    }
    for (size_t back = steps - 1 - k; back > 0; back--)
      step = w->from[word_of(w->piece[word_of(step)])];
    fputs(k ? ", " : "", text);
    write_step(text, w, step);
  }
}

/* How many fields lead to it, without the first, which is the image's own. */
static size_t count_steps(const struct ways *w, size_t field) {
  size_t steps = 0;
  while ((field = w->from[word_of(w->piece[word_of(field)])]) != 0)
    steps++;
  return steps;
}

char *image_way(const struct image *image, size_t field) {
  size_t words = word_of(image->at) + 1, size = 0;
  struct ways w = {image, calloc(words, sizeof *w.piece), calloc(words, sizeof *w.from)};
  char *way = NULL;
  FILE *text = w.piece && w.from && note_pieces(&w) ? open_memstream(&way, &size) : NULL;
  if (text) {
    write_way(text, &w, field, count_steps(&w, field));
    if (fclose(text) != 0) {
      free(way);
      way = NULL;
    }
  }
  free(w.piece);
  free(w.from);
  return way;
}
#else
char *image_way(const struct image *image, size_t field) {
  (void)image, (void)field;
  return NULL;
}
#endif
