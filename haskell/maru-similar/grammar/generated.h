/* What generated parsers use and the header of an old runtime does not have. Put before a parser
 * whose package comes without that header. */
#ifndef MARU_GRAMMAR_GENERATED_H
#define MARU_GRAMMAR_GENERATED_H

#include <tree_sitter/parser.h>

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
