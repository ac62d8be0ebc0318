/* Put before each file of a grammar. What generated parsers use and the header of an old runtime
 * does not have, where the grammar's package comes without that header. And what scanners take from
 * the C library: memory is the arena's (arena.h), and which characters are letters is no matter of
 * the locale. */
#ifndef MARU_GRAMMAR_GENERATED_H
#define MARU_GRAMMAR_GENERATED_H

#include <stdlib.h>
#include <string.h>
#include <tree_sitter/parser.h>
#include <wctype.h>

extern void *(*ts_current_malloc)(size_t);
extern void *(*ts_current_calloc)(size_t, size_t);
extern void *(*ts_current_realloc)(void *, size_t);
extern void (*ts_current_free)(void *);
#define malloc ts_current_malloc
#define calloc ts_current_calloc
#define realloc ts_current_realloc
#define free ts_current_free

static inline int maru_is_space(int32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000 || c == 0xfeff;
}
static inline int maru_is_digit(int32_t c) { return c >= '0' && c <= '9'; }
static inline int maru_is_letter(int32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0x80 && !maru_is_space(c));
}
#define iswspace(c) maru_is_space((int32_t)(c))
#define iswdigit(c) maru_is_digit((int32_t)(c))
#define iswalpha(c) maru_is_letter((int32_t)(c))
#define iswalnum(c) (maru_is_letter((int32_t)(c)) || maru_is_digit((int32_t)(c)))

#ifndef ADVANCE_MAP

typedef struct {
  int32_t start, end; /* both within */
} TSCharacterRange;

static inline bool set_contains(const TSCharacterRange *ranges, uint32_t n, int32_t c) {
  uint32_t low = 0, high = n;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (ranges[middle].end < c)
      low = middle + 1;
    else
      high = middle;
  }
  return low < n && ranges[low].start <= c;
}

/* Within a lexer's function: pairs of a character and the state that it leads to. */
#define ADVANCE_MAP(...)                                                                           \
  do {                                                                                             \
    static const uint16_t leads[] = {__VA_ARGS__};                                                 \
    for (size_t at = 0; at < sizeof leads / sizeof *leads; at += 2)                                \
      if (leads[at] == lookahead) {                                                                \
        state = leads[at + 1];                                                                     \
        goto next_state;                                                                           \
      }                                                                                            \
  } while (0)

/* Older ones name the last two. */
#undef REDUCE
#define REDUCE(to, children, precedence, production)                                               \
  {                                                                                                \
    {                                                                                              \
      .reduce = {.type = TSParseActionTypeReduce,                                                  \
                 .symbol = (to),                                                                   \
                 .child_count = (children),                                                        \
                 .dynamic_precedence = (precedence),                                               \
                 .production_id = (production)},                                                   \
    }                                                                                              \
  }

#endif
#endif
