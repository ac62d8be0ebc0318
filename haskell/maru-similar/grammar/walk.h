/* From a syntax tree to acts. */
#ifndef MARU_GRAMMAR_WALK_H
#define MARU_GRAMMAR_WALK_H

#include <stdbool.h>
#include <tree_sitter/api.h>

#include "rules.h"

/* What is known of a grammar, once it is open; never written again. */
struct maru_grammar {
  const TSLanguage *language;
  TSFieldId condition, consequence, alternative, body, update, init;
  TSSymbol symbols;
  struct rule rule[]; /* [symbols] */
};

/* The contract is that of maru_grammar_walk, but for -EIO. */
int64_t maru_walk(const struct maru_grammar *g, const char *text, TSNode root,
                  struct maru_act **acts, uint32_t *errors);

/* What the parser could make nothing of. */
static inline bool maru_broken(TSNode node) { return ts_node_symbol(node) == (TSSymbol)-1; }

/* Places that are no program of the language, also in what has no act. From where the cursor is. */
uint32_t maru_errors_in(TSTreeCursor *cursor);

#endif
