/* The door of a plug-in: the grammar that it was built with, MARU_GRAMMAR_LANGUAGE, opened. */
#include "grammar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "walk.h"

const TSLanguage *MARU_GRAMMAR_LANGUAGE(void);

/* A runtime that knows ABI 15 calls this so; later ones have no other name of it. */
#if TREE_SITTER_LANGUAGE_VERSION >= 15
#define ts_language_version ts_language_abi_version
#endif

/* Bytes of memory and of reading that any text may cost, and each byte of it. Programs take 20 to
 * 100 a byte. */
enum { ANY_TEXT = 1 << 20, EACH_BYTE = 1000 };

uint32_t maru_grammar_door(void) { return MARU_GRAMMAR_DOOR; }
const char *maru_grammar_name(void) { return MARU_GRAMMAR_NAME; }
uint32_t maru_grammar_abi(void) { return ts_language_version(MARU_GRAMMAR_LANGUAGE()); }

/* Grammars have one of the two names, or neither: 0. */
static TSFieldId field(const TSLanguage *language, const char *name, const char *other) {
  const TSFieldId id = ts_language_field_id_for_name(language, name, (uint32_t)strlen(name));
  return id != 0 || other == NULL ? id : field(language, other, NULL);
}

int maru_grammar_open(struct maru_grammar **grammar) {
  const TSLanguage *language = MARU_GRAMMAR_LANGUAGE();
  if (ts_language_version(language) > TREE_SITTER_LANGUAGE_VERSION ||
      ts_language_version(language) < TREE_SITTER_MIN_COMPATIBLE_LANGUAGE_VERSION)
    return -EPROTONOSUPPORT;

  const uint32_t symbols = ts_language_symbol_count(language);
  struct maru_grammar *g = malloc(sizeof *g + symbols * sizeof *g->rule);
  if (g == NULL)
    return -ENOMEM;
  *g = (struct maru_grammar){.language = language,
                             .condition = field(language, "if", "condition"),
                             .consequence = field(language, "then", "consequence"),
                             .alternative = field(language, "else", "alternative"),
                             .body = field(language, "body", NULL),
                             .update = field(language, "update", "increment"),
                             .init = field(language, "init", "initializer"),
                             .symbols = (TSSymbol)symbols};
  for (uint32_t s = 0; s < symbols; s++)
    g->rule[s] = maru_rule(ts_language_symbol_name(language, (TSSymbol)s));
  maru_arena_install();
  *grammar = g;
  return 0;
}

struct text {
  const char *bytes;
  uint32_t size;
  struct maru_arena *arena;
};

enum { CHUNK = 256 };

/* What is read again and again counts, too. */
static const char *read_chunk(void *payload, uint32_t at, TSPoint point, uint32_t *size) {
  const struct text *text = payload;
  (void)point;
  maru_arena_spend(text->arena, CHUNK);
  const uint32_t left = at < text->size ? text->size - at : 0;
  *size = left < CHUNK ? left : CHUNK;
  return left == 0 ? "" : text->bytes + at;
}

static int64_t parse_and_walk(const struct maru_grammar *g, struct text *text,
                              struct maru_act **acts, uint32_t *errors) {
  TSParser *parser = ts_parser_new();
  if (!ts_parser_set_language(parser, g->language))
    return -EIO;
  const TSInput input = {.payload = text, .read = read_chunk, .encoding = TSInputEncodingUTF8};
  TSTree *tree = ts_parser_parse(parser, NULL, input);
  if (tree == NULL)
    return -EIO;
  text->arena->left = UINT64_MAX; /* a walk is linear */
  return maru_walk(g, text->bytes, ts_tree_root_node(tree), acts, errors);
}

static uint32_t without_blanks(const char *bytes, uint32_t size) {
  uint32_t own = 0;
  for (uint32_t i = 0; i < size; i++)
    own += bytes[i] != ' ' && bytes[i] != '\t';
  return own;
}

int64_t maru_grammar_walk(const struct maru_grammar *g, const char *bytes, uint32_t size,
                          struct maru_act **acts, uint32_t *errors) {
  const uint32_t own = without_blanks(bytes, size);
  if (own > MARU_GRAMMAR_LARGEST)
    return -EFBIG;
  struct maru_arena arena = {.left = ANY_TEXT + EACH_BYTE * (uint64_t)own};
  struct text text = {bytes, size, &arena};
  int64_t found;

  maru_arena_use(&arena);
  const int failure = setjmp(arena.way_out);
  if (failure == 0)
    found = parse_and_walk(g, &text, acts, errors);
  else
    found = -failure;
  maru_arena_use(NULL);
  maru_arena_free(&arena);
  return found;
}

void maru_grammar_free(struct maru_act *acts) { free(acts); }
