/* The table; rules.h says what it means. */
#include "rules.h"

#include <stdlib.h>
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

/* Sorted by name. */
static const struct named_rule rules[] = {
    ONE("annotation", DROP, ACT_NONE),
    BOTH("annotation_type_declaration", PLAIN, ACT_CLASS),
    ONE("array_access", PLAIN, ACT_INDEXES),
    ONE("array_creation_expression", PLAIN, ACT_NEW),
    ONE("assert_statement", ASSERTION, ACT_ASSERTS),
    ONE("assignment_expression", STEP, ACT_ASSIGNS),
    ONE("binary_expression", OPERATION, ACT_NONE),
    ONE("block_comment", DROP, ACT_NONE),
    ONE("break_statement", PLAIN, ACT_BREAK),
    ONE("catch_clause", PLAIN, ACT_CATCH),
    ONE("class", PLAIN, ACT_CLASS),
    BOTH("class_declaration", PLAIN, ACT_CLASS),
    BOTH("compact_constructor_declaration", PLAIN, ACT_METHOD),
    BOTH("constructor_declaration", PLAIN, ACT_METHOD),
    ONE("continue_statement", PLAIN, ACT_CONTINUE),
    ONE("do_statement", LOOP, ACT_LOOP),
    ONE("enhanced_for_statement", LOOP, ACT_LOOP),
    BOTH("enum_declaration", PLAIN, ACT_CLASS),
    ONE("explicit_constructor_invocation", PLAIN, ACT_APPLY),
    ONE("extends_interfaces", DROP, ACT_NONE),
    ONE("finally_clause", PLAIN, ACT_FINALLY),
    ONE("for_statement", LOOP, ACT_LOOP),
    ONE("formal_parameters", DROP, ACT_NONE),
    ONE("identifier", NAME, ACT_NONE),
    ONE("if_statement", CHOICE, ACT_CHOOSE),
    ONE("import", DROP, ACT_NONE),
    ONE("import_declaration", DROP, ACT_NONE),
    ONE("instanceof_expression", PLAIN, ACT_COMPARES),
    BOTH("interface_declaration", PLAIN, ACT_CLASS),
    ONE("lambda_expression", PLAIN, ACT_LAMBDA),
    ONE("line_comment", DROP, ACT_NONE),
    ONE("marker_annotation", DROP, ACT_NONE),
    BOTH("method_declaration", PLAIN, ACT_METHOD),
    ONE("method_invocation", PLAIN, ACT_APPLY),
    ONE("modifiers", DROP, ACT_NONE),
    ONE("object_creation_expression", PLAIN, ACT_NEW),
    ONE("package_declaration", DROP, ACT_NONE),
    ONE("permits", DROP, ACT_NONE),
    BOTH("record_declaration", PLAIN, ACT_CLASS),
    ONE("return_statement", PLAIN, ACT_RETURN),
    ONE("super_interfaces", DROP, ACT_NONE),
    ONE("superclass", DROP, ACT_NONE),
    ONE("switch_label", LABEL, ACT_CHOOSE),
    ONE("synchronized_statement", PLAIN, ACT_SYNCHRONISE),
    ONE("ternary_expression", CHOICE, ACT_CHOOSE),
    ONE("throw_statement", PLAIN, ACT_THROW),
    ONE("throws", DROP, ACT_NONE),
    ONE("try_statement", PLAIN, ACT_TRY),
    ONE("try_with_resources_statement", PLAIN, ACT_TRY),
    ONE("type_arguments", DROP, ACT_NONE),
    ONE("type_parameters", DROP, ACT_NONE),
    ONE("update_expression", STEP, ACT_ASSIGNS),
    ONE("variable_declarator", VALUE, ACT_ASSIGNS),
    ONE("while_statement", LOOP, ACT_LOOP),
};

static int by_name(const void *name, const void *rule) {
  return strcmp(name, ((const struct named_rule *)rule)->name);
}

struct rule maru_rule(const char *name) {
  const struct named_rule *found =
      bsearch(name, rules, sizeof rules / sizeof *rules, sizeof *rules, by_name);
  return found != NULL ? found->rule : (struct rule){PASS, ACT_NONE, ACT_NONE};
}

uint8_t maru_operator(const char *name) {
  static const char *const compute[] = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>"};
  static const char *const compare[] = {"==", "!=", "<", ">", "<=", ">="};

  for (size_t i = 0; i < sizeof compute / sizeof *compute; i++)
    if (strcmp(name, compute[i]) == 0)
      return ACT_COMPUTES;
  for (size_t i = 0; i < sizeof compare / sizeof *compare; i++)
    if (strcmp(name, compare[i]) == 0)
      return ACT_COMPARES;
  return strcmp(name, "&&") == 0 || strcmp(name, "||") == 0 ? ACT_COMBINES : ACT_NONE;
}
