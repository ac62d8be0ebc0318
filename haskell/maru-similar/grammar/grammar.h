/* What a program does, from its syntax tree: the door of a grammar's plug-in.
 *
 * A plug-in is one grammar of tree-sitter with the walker of this folder, as a shared library that
 * is opened at run time. It turns a text into acts, those of Maru.Similar.Structure, with the byte
 * that each stands at. Any bytes are a text: where they are no program of the language, the acts
 * are those of what the parser made of them, and errors are counted.
 *
 * The same text gives the same acts: no clock, no locale, no address has a say. Nothing here keeps
 * state between calls; a grammar is immutable once open, so any number of threads and forked
 * processes may use it. Memory is bounded: 61 MB for the parse (grammar.c: ANY_TEXT and EACH_BYTE,
 * which also bound what it reads again and thereby its time) and 40 MB for the walk (walk.c: MOST).
 */
#ifndef MARU_GRAMMAR_H
#define MARU_GRAMMAR_H

#include <stdint.h>

/* What of a plug-in is exported. */
#define MARU_GRAMMAR_API __attribute__((visibility("default")))

/* Grows when a function below or the meaning of an act changes. */
#define MARU_GRAMMAR_DOOR 2

/* Bytes of the largest text that is parsed, but for blanks and tabs. The runtime of Debian 12
 * damages its heap where 65536 symbols are open at once, and a symbol is a byte at least; of blanks
 * none is made. */
#define MARU_GRAMMAR_LARGEST 60000

/* The order is that of Maru.Similar.Structure.Act. */
enum maru_act_kind {
  ACT_CLASS,
  ACT_CLASS_END,
  ACT_METHOD,
  ACT_METHOD_END,
  ACT_LOOP,
  ACT_CHOOSE,
  ACT_OTHERWISE,
  ACT_ASSIGNS,
  ACT_APPLY,
  ACT_NEW,
  ACT_RETURN,
  ACT_THROW,
  ACT_TRY,
  ACT_CATCH,
  ACT_FINALLY,
  ACT_BREAK,
  ACT_CONTINUE,
  ACT_ASSERTS,
  ACT_SYNCHRONISE,
  ACT_LAMBDA,
  ACT_COMPUTES,
  ACT_COMPARES,
  ACT_COMBINES,
  ACT_INDEXES,
  ACT_NONE,
};

struct maru_act {
  uint32_t kind, at; /* at: offset of its first byte */
};

struct maru_grammar;

MARU_GRAMMAR_API uint32_t maru_grammar_door(void);

/* Name and version of the grammar; its runtime and the walker by their hashes. Plug-ins of equal
 * names make equal acts. */
MARU_GRAMMAR_API const char *maru_grammar_name(void);

/* 0; -EPROTONOSUPPORT if the runtime does not take grammars of this ABI; -ENOMEM. What is opened
 * is never closed. */
MARU_GRAMMAR_API int maru_grammar_open(struct maru_grammar **grammar);

/* The ABI of the grammar, for a message. */
MARU_GRAMMAR_API uint32_t maru_grammar_abi(void);

/* The acts of a text: how many; -EFBIG if it is too large, or takes the parser far longer than
 * programs do; -ENOMEM, -EIO. *errors counts the places that are no program of the language. The
 * caller frees *acts by maru_grammar_free. */
MARU_GRAMMAR_API int64_t maru_grammar_walk(const struct maru_grammar *grammar, const char *text,
                                           uint32_t bytes, struct maru_act **acts,
                                           uint32_t *errors);
MARU_GRAMMAR_API void maru_grammar_free(struct maru_act *acts);

#endif
