/* The table of the language that this is built for; rules.h says what it means. */
#include "rules.h"

#include <string.h>

struct named_rule {
  const char *name;
  struct rule rule;
};

#define ONE(node, manner, act)                                                                     \
  {                                                                                                \
    node, { manner, act, ACT_NONE }                                                                \
  }
#define BOTH(node, manner, act)                                                                    \
  {                                                                                                \
    node, { manner, act, act##_END }                                                               \
  }

/* The first of a name counts. */
static const struct named_rule rules[] = {
#include MARU_GRAMMAR_RULES
};

struct rule maru_rule(const char *name) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (strcmp(name, rules[i].name) == 0)
      return rules[i].rule;
  return (struct rule){PASS, ACT_NONE, ACT_NONE};
}

uint8_t maru_operator(const char *name) {
  static const char *const compute[] = {"+", "-",  "*",  "/",   "%",  "&", "|",
                                        "^", "<<", ">>", ">>>", "**", "//"};
  static const char *const compare[] = {"==", "!=", "<", ">", "<=", ">=", "===", "!==", "/="};
  static const char *const combine[] = {"&&", "||", "and", "or"};

#define ONE_OF(names, act)                                                                         \
  for (size_t i = 0; i < sizeof(names) / sizeof *(names); i++)                                     \
    if (strcmp(name, (names)[i]) == 0)                                                             \
      return act;
  ONE_OF(compute, ACT_COMPUTES)
  ONE_OF(compare, ACT_COMPARES)
  ONE_OF(combine, ACT_COMBINES)
#undef ONE_OF
  return ACT_NONE;
}
