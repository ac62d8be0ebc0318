/* The walker of trees on texts that are no programs: garbage, programs that were cut off or
 * damaged, deep nesting. Linked with a real grammar. Also a grammar of an ABI that the runtime does
 * not take.
 *
 *   grammar ROUNDS FILE...
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tree_sitter/api.h>

#include "grammar.h"

#define OTHER_ABI (TREE_SITTER_LANGUAGE_VERSION + 1)

static uint64_t state = 20261123;

static uint32_t chance(uint32_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

static void fail(const char *why) {
  fprintf(stderr, "grammar: %s\n", why);
  exit(1);
}

/* The same acts each time, each at a byte of the text. */
static void walk(const struct maru_grammar *g, const char *text, uint32_t bytes) {
  char *copy = malloc(bytes + 1); /* exactly so long: what reads behind it is seen */
  char *exact = realloc(copy, bytes > 0 ? bytes : 1);
  struct maru_act *acts[2] = {NULL, NULL};
  uint32_t errors[2];
  int64_t found[2];

  if (exact == NULL)
    fail("no memory");
  memcpy(exact, text, bytes);
  for (int i = 0; i < 2; i++)
    if ((found[i] = maru_grammar_walk(g, exact, bytes, &acts[i], &errors[i])) < 0 &&
        found[i] != -EFBIG)
      fail(strerror((int)-found[i]));
  if (found[0] < 0 && found[1] == found[0]) {
    free(exact);
    return;
  }
  if (found[0] != found[1] || errors[0] != errors[1] ||
      (found[0] > 0 && memcmp(acts[0], acts[1], (size_t)found[0] * sizeof *acts[0]) != 0))
    fail("the second walk is another");
  for (int64_t i = 0; i < found[0]; i++)
    if (acts[0][i].kind >= ACT_NONE || acts[0][i].at >= bytes)
      fail("an act that is none, or outside the text");
  maru_grammar_free(acts[0]);
  maru_grammar_free(acts[1]);
  free(exact);
}

static char *contents(const char *path, uint32_t *bytes) {
  FILE *file = fopen(path, "rb");
  char *text = malloc(1 << 20);
  if (file == NULL || text == NULL)
    fail(path);
  *bytes = (uint32_t)fread(text, 1, 1 << 20, file);
  fclose(file);
  return text;
}

static void damaged(const struct maru_grammar *g, const char *text, uint32_t bytes) {
  static const char bits[] = "(){}[];.,?:=<>!+-\"'/*\n\t @0ax\xc3\xff";
  const uint32_t from = chance(bytes + 1), n = chance(bytes - from + 1);
  char *copy = malloc(n + 1);

  if (copy == NULL)
    fail("no memory");
  memcpy(copy, text + from, n);
  for (uint32_t i = chance(12); i > 0 && n > 0; i--)
    copy[chance(n)] = bits[chance(sizeof bits)];
  walk(g, copy, n);
  free(copy);
}

static void garbage(const struct maru_grammar *g) {
  char text[512];
  const uint32_t n = chance(sizeof text);
  for (uint32_t i = 0; i < n; i++)
    text[i] = (char)chance(256);
  walk(g, text, n);
}

static void nested(const struct maru_grammar *g, const char *open, uint32_t times) {
  const size_t each = strlen(open);
  char *text = malloc(each * times);
  if (text == NULL)
    fail("no memory");
  for (uint32_t i = 0; i < times; i++)
    memcpy(text + i * each, open, each);
  walk(g, text, (uint32_t)(each * times));
  free(text);
}

int main(int count, char **arguments) {
  const long rounds = count > 1 ? strtol(arguments[1], NULL, 10) : 0;
  static struct maru_grammar *g; /* for good */

#ifdef OF_OTHER_ABI
  if (maru_grammar_open(&g) != -EPROTONOSUPPORT || maru_grammar_abi() != OTHER_ABI)
    fail("an ABI was taken that the runtime does not know");
  return 0;
#endif
  if (maru_grammar_door() != MARU_GRAMMAR_DOOR || maru_grammar_open(&g) != 0)
    fail("it does not open");
  walk(g, "", 0);
  /* What a runtime takes minutes or gigabytes for, or dies of. */
  static const char *const hard[] = {"{", "(",  "a<", "\"",  "if (a) {", "/*",    "a b c ", "1+",
                                     "!", "a?", "'",  "do ", "a\n ",     "x:\n ", "\"\"\""};
  for (size_t i = 0; i < sizeof hard / sizeof *hard; i++) {
    nested(g, hard[i], (uint32_t)(MARU_GRAMMAR_LARGEST / strlen(hard[i])));
    nested(g, hard[i], 200000);
  }
  nested(g, "class A { void m() { for (;;) a(new A() {", 500);
  for (long r = 0; r < rounds; r++) {
    garbage(g);
    for (int i = 2; i < count; i++) {
      uint32_t bytes;
      char *text = contents(arguments[i], &bytes);
      if (r == 0)
        walk(g, text, bytes);
      damaged(g, text, bytes);
      free(text);
    }
  }
  return 0;
}

#ifdef OF_OTHER_ABI
/* A language begins with its ABI. */
const void *tree_sitter_other(void);
const void *tree_sitter_other(void) {
  static const uint32_t language[64] = {OTHER_ABI};
  return language;
}
#endif
