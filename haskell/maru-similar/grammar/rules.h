/* What the nodes of syntax trees mean, by their names in a grammar. A language is one table of
 * them, languages/LANGUAGE.def. */
#ifndef MARU_GRAMMAR_RULES_H
#define MARU_GRAMMAR_RULES_H

#include "grammar.h"

enum manner {
  PASS,      /* only what is in it counts */
  DROP,      /* nothing of it counts */
  NAME,      /* a name that may be a variable's */
  PLAIN,     /* the act, then what is in it, then the end */
  LOOP,      /* what begins it, the act, condition, body, step: a for is a while */
  CLAUSE,    /* what is in it is its loop's */
  CHOICE,    /* condition, then, else; a denied condition exchanges the two */
  ELSE,      /* of a choice, where it is a node of its own */
  LABEL,     /* of a switch; what is for the rest is ACT_OTHERWISE */
  VALUE,     /* a declaration: counts if it has a value, and its name is used */
  STEP,      /* x++, x += 1: an assignment that computes */
  UNARY,     /* STEP if it is ++ or -- */
  WITH_BODY, /* PLAIN if it has a body; else a type is named */
  OPERATION, /* two operands: by the operator; a comparison always in one direction */
  ASSERTION, /* nothing if what it says is known */
};

struct rule {
  uint8_t manner, act, end;
};

/* The rule for a node of that name; anonymous ones are keywords and operators. */
struct rule maru_rule(const char *name);

/* ACT_COMPUTES, ACT_COMPARES, ACT_COMBINES or ACT_NONE, by the operator. */
uint8_t maru_operator(const char *name);

#endif
