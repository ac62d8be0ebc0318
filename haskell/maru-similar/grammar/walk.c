/* From a tree to its acts, with a stack of its own.
 *
 * What can be written in several ways is walked in one: the step of a for comes after its body, a
 * denied condition exchanges what it chooses from, a comparison with > is walked from its right,
 * x++ is an assignment that computes. What does nothing has no act: a variable that is named
 * nowhere else, a choice by what is known, a loop around nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "walk.h"

struct child {
  TSNode node;
  TSFieldId field;
};

/* What is still to be done, the last first. */
struct task {
  enum { VISIT, EMIT, END_OF_DECLARATION, END_OF_LOOP } what;
  TSNode node;         /* VISIT */
  struct maru_act act; /* EMIT */
  uint32_t first;      /* of the ends: how many acts there were before it */
  uint64_t name;       /* END_OF_DECLARATION */
};

/* Acts [first, end) count only if that name is met more than once. */
struct declaration {
  uint64_t name;
  uint32_t first, end;
};

struct walk {
  const struct maru_grammar *g;
  const char *text;
  TSTreeCursor cursor;
  struct child *children; /* of the node that is visited */
  struct task *tasks;
  struct maru_act *acts;
  struct declaration *declarations;
  struct names names;
  size_t child_count, child_room, task_count, task_room, act_count, act_room, declaration_count,
      declaration_room, name_count, name_room;
  int failed; /* 0, ENOMEM or EFBIG */
};

/* Elements that an array of a walk has at most: four a byte of the largest text. Its memory is
 * bounded, whatever tree the parser makes. */
enum { MOST = 1 << 18 };

/* Room for one more element, or NULL; what is there moves. */
static void *grown(struct walk *w, void *array, size_t count, size_t *room, size_t size) {
  if (count < *room)
    return array;
  const size_t more = *room == 0 ? 64 : 2 * *room;
  void *moved = more > MOST ? NULL : realloc(array, more * size);
  if (moved == NULL) {
    w->failed = more > MOST ? EFBIG : ENOMEM;
    return NULL;
  }
  *room = more;
  return moved;
}

#define APPEND(w, array, count, room, ...)                                                         \
  do {                                                                                             \
    void *moved = grown(w, (w)->array, (w)->count, &(w)->room, sizeof *(w)->array);                \
    if (moved != NULL) {                                                                           \
      (w)->array = moved;                                                                          \
      (w)->array[(w)->count++] = __VA_ARGS__;                                                      \
    }                                                                                              \
  } while (0)

static void push(struct walk *w, struct task task) {
  APPEND(w, tasks, task_count, task_room, task);
}
static void visit(struct walk *w, TSNode node) {
  push(w, (struct task){.what = VISIT, .node = node});
}
static void emit_at(struct walk *w, uint8_t kind, uint32_t at) {
  if (kind != ACT_NONE)
    push(w, (struct task){.what = EMIT, .act = {kind, at}});
}
static void emit(struct walk *w, uint8_t kind, TSNode node) {
  emit_at(w, kind, ts_node_start_byte(node));
}

static struct rule rule_of(const struct maru_grammar *g, TSNode node) {
  const TSSymbol symbol = ts_node_symbol(node);
  return symbol < g->symbols ? g->rule[symbol] : (struct rule){PASS, ACT_NONE, ACT_NONE};
}

static uint64_t hash_of(const struct walk *w, TSNode node) {
  return maru_names_hash(w->text + ts_node_start_byte(node), w->text + ts_node_end_byte(node));
}

static void name_met(struct walk *w, TSNode node) {
  if (maru_names_met(&w->names, hash_of(w, node)) < 0)
    w->failed = ENOMEM;
}

/* Stands anywhere and means nothing. What an error skipped is extra for the parser, too. */
static bool comment(TSNode node) { return ts_node_is_extra(node) && !maru_broken(node); }

/* Fills w->children with all but comments; those without a name only where they are what a node
 * does. */
static void children_of(struct walk *w, TSNode node) {
  const uint8_t manner = rule_of(w->g, node).manner;
  /* To ask is not linear in the children. */
  const bool fields = manner == LOOP || manner == CLAUSE || manner == CHOICE || manner == WITH_BODY;
  w->child_count = 0;
  ts_tree_cursor_reset(&w->cursor, node);
  for (bool more = ts_tree_cursor_goto_first_child(&w->cursor); more && !w->failed;
       more = ts_tree_cursor_goto_next_sibling(&w->cursor)) {
    const struct child c = {ts_tree_cursor_current_node(&w->cursor),
                            fields ? ts_tree_cursor_current_field_id(&w->cursor) : 0};
    if (!comment(c.node))
      APPEND(w, children, child_count, child_room, c);
  }
}

static bool named(const struct child *c) { return ts_node_is_named(c->node); }
static bool in_field(const struct child *c, TSFieldId field) {
  return field != 0 && c->field == field;
}

static bool text_is(const struct walk *w, TSNode node, const char *text) {
  const uint32_t from = ts_node_start_byte(node), n = ts_node_end_byte(node) - from;
  return strlen(text) == n && memcmp(w->text + from, text, n) == 0;
}
static bool begins(const struct walk *w, TSNode node, const char *text) {
  const uint32_t from = ts_node_start_byte(node), n = ts_node_end_byte(node) - from;
  return strlen(text) <= n && memcmp(w->text + from, text, strlen(text)) == 0;
}

static bool has_token(const struct walk *w, const char *token) {
  for (size_t i = 0; i < w->child_count; i++)
    if (!named(&w->children[i]) && text_is(w, w->children[i].node, token))
      return true;
  return false;
}

static const struct child *child_in(const struct walk *w, TSFieldId field) {
  for (size_t i = 0; i < w->child_count; i++)
    if (in_field(&w->children[i], field))
      return &w->children[i];
  return NULL;
}

static void visit_children(struct walk *w) {
  for (size_t i = 0; i < w->child_count; i++)
    if (named(&w->children[i]))
      visit(w, w->children[i].node);
}

/* Whether nothing in it has a name: no variable, no call. Only of what is short. */
static bool known(struct walk *w, TSNode node) {
  int depth = 0;
  ts_tree_cursor_reset(&w->cursor, node);
  for (int steps = 0; steps < 64;) {
    const TSNode here = ts_tree_cursor_current_node(&w->cursor);
    const struct rule r = rule_of(w->g, here);
    steps += !comment(here);
    if (r.manner == NAME || r.act == ACT_APPLY || r.act == ACT_NEW || r.act == ACT_INDEXES)
      return false;
    if (ts_tree_cursor_goto_first_child(&w->cursor)) {
      depth++;
      continue;
    }
    while (depth > 0 && !ts_tree_cursor_goto_next_sibling(&w->cursor)) {
      ts_tree_cursor_goto_parent(&w->cursor);
      depth--;
    }
    if (depth == 0)
      return true;
  }
  return false;
}

/* Its only child with a name, or null. */
static TSNode only_child(const struct walk *w) {
  TSNode only = {0};
  for (size_t i = 0; i < w->child_count; i++)
    if (named(&w->children[i])) {
      if (!ts_node_is_null(only))
        return (TSNode){0};
      only = w->children[i].node;
    }
  return only;
}

/* Whether a condition is denied: within its parentheses, an odd number of times. Fills
 * w->children anew. */
static bool denied(struct walk *w, TSNode condition) {
  bool odd = false;
  children_of(w, condition);
  for (int steps = 0; steps < 64; steps++) {
    const TSNode only = only_child(w);
    const bool denial = begins(w, condition, "!") || begins(w, condition, "not ");
    if (ts_node_is_null(only) || (!denial && !begins(w, condition, "(")))
      break;
    odd ^= denial;
    condition = only;
    children_of(w, condition);
  }
  return odd ^ (rule_of(w->g, condition).manner == OPERATION &&
                (has_token(w, "!=") || has_token(w, "!==")));
}

static void plain(struct walk *w, struct rule r, TSNode node) {
  emit(w, r.act, node);
  visit_children(w);
  if (r.end != ACT_NONE)
    emit_at(w, r.end, ts_node_end_byte(node) - 1);
}

static bool empty_block(struct walk *w, TSNode node) {
  children_of(w, node);
  for (size_t i = 0; i < w->child_count; i++)
    if (named(&w->children[i]))
      return false;
  return begins(w, node, "{");
}

/* Of what stands before the body of a loop: what begins it, then with the act what it goes by. */
static void head_of_loop(struct walk *w, struct rule r, TSNode node) {
  for (size_t i = 0; i < w->child_count; i++)
    if (in_field(&w->children[i], w->g->init))
      visit(w, w->children[i].node);
  emit(w, r.act, node);
  for (size_t i = 0; i < w->child_count; i++) {
    const struct child *c = &w->children[i];
    if (named(c) && !in_field(c, w->g->body) && !in_field(c, w->g->init) &&
        !in_field(c, w->g->update))
      visit(w, c->node);
  }
}

static void loop(struct walk *w, struct rule r, TSNode node) {
  const struct child *found = child_in(w, w->g->body);
  const TSNode body = found != NULL ? found->node : (TSNode){0};
  const uint32_t first = (uint32_t)w->act_count;

  for (size_t i = 0; i < w->child_count; i++)
    if (rule_of(w->g, w->children[i].node).manner == CLAUSE) {
      children_of(w, w->children[i].node);
      break;
    }
  head_of_loop(w, r, node);
  if (!ts_node_is_null(body))
    visit(w, body);
  for (size_t i = 0; i < w->child_count; i++)
    if (in_field(&w->children[i], w->g->update))
      visit(w, w->children[i].node);
  if (!ts_node_is_null(body) && empty_block(w, body))
    push(w, (struct task){.what = END_OF_LOOP, .first = first});
}

/* What a choice does: by its field, or where a grammar has none as the nth behind the condition. */
static const struct child *branch(const struct walk *w, TSFieldId field, size_t nth) {
  if (field != 0)
    return child_in(w, field);
  for (size_t i = 0; i < w->child_count; i++)
    if (named(&w->children[i]) && !in_field(&w->children[i], w->g->condition) && nth-- == 0)
      return &w->children[i];
  return NULL;
}

/* Without the node that says else. Fills w->children anew. */
static TSNode unwrapped(struct walk *w, TSNode node) {
  if (rule_of(w->g, node).manner != ELSE)
    return node;
  children_of(w, node);
  const TSNode only = only_child(w);
  return ts_node_is_null(only) ? node : only;
}

static void choice(struct walk *w, struct rule r, TSNode node) {
  const struct child *condition = child_in(w, w->g->condition),
                     *then = branch(w, w->g->consequence, 0),
                     *other = branch(w, w->g->alternative, 1);
  size_t others = 0;

  for (size_t i = 0; i < w->child_count; i++)
    others += named(&w->children[i]) && in_field(&w->children[i], w->g->alternative);
  if (condition == NULL || then == NULL || others > 1) { /* broken, or elif */
    plain(w, r, node);
    return;
  }
  const TSNode c = condition->node, t = then->node, none = {0},
               o = other ? unwrapped(w, other->node) : none;
  const bool turned = !ts_node_is_null(o) && denied(w, c);
  if (!known(w, c)) {
    emit(w, r.act, node);
    visit(w, c);
  }
  visit(w, turned ? o : t);
  if (ts_node_is_null(o))
    return;
  if (turned || rule_of(w->g, o).act != ACT_CHOOSE)
    emit(w, ACT_OTHERWISE, turned ? t : o);
  visit(w, turned ? t : o);
}

static void label(struct walk *w, struct rule r, TSNode node) {
  const bool rest = begins(w, node, "default") || begins(w, node, "else");
  emit(w, rest ? ACT_OTHERWISE : r.act, node);
  visit_children(w);
}

static void value(struct walk *w, struct rule r, TSNode node) {
  if (!has_token(w, "=")) {
    visit_children(w);
    return;
  }
  uint64_t name = 0;
  for (size_t i = 0; i < w->child_count && name == 0; i++)
    if (named(&w->children[i]) && rule_of(w->g, w->children[i].node).manner == NAME)
      name = hash_of(w, w->children[i].node);
  emit(w, r.act, node);
  visit_children(w);
  if (name != 0)
    push(w,
         (struct task){.what = END_OF_DECLARATION, .first = (uint32_t)w->act_count, .name = name});
}

static void step(struct walk *w, struct rule r, TSNode node) {
  emit(w, r.act, node);
  if (!has_token(w, "="))
    emit(w, ACT_COMPUTES, node);
  visit_children(w);
}

static void operation(struct walk *w, TSNode node) {
  uint8_t act = ACT_NONE;
  bool turned = false;
  for (size_t i = 0; i < w->child_count && act == ACT_NONE; i++) {
    const TSNode c = w->children[i].node;
    if (ts_node_child_count(c) != 0 || ts_node_end_byte(c) - ts_node_start_byte(c) > 3 ||
        rule_of(w->g, c).manner == NAME)
      continue;
    char operator[4] = "";
    memcpy(operator, w->text + ts_node_start_byte(c), ts_node_end_byte(c) - ts_node_start_byte(c));
    act = maru_operator(operator);
    turned = strcmp(operator, ">") == 0 || strcmp(operator, ">=") == 0;
  }
  emit(w, act, node);
  if (!turned) {
    visit_children(w);
    return;
  }
  for (size_t i = w->child_count; i-- > 0;)
    if (named(&w->children[i]))
      visit(w, w->children[i].node);
}

static void look_at(struct walk *w, TSNode node) {
  const struct rule r = rule_of(w->g, node);
  if (r.manner == DROP)
    return;
  if (r.manner == NAME) {
    name_met(w, node);
    return;
  }
  children_of(w, node);
  switch (r.manner) {
  case PLAIN:
    plain(w, r, node);
    break;
  case LOOP:
    loop(w, r, node);
    break;
  case CHOICE:
    choice(w, r, node);
    break;
  case LABEL:
    label(w, r, node);
    break;
  case VALUE:
    value(w, r, node);
    break;
  case STEP:
    step(w, r, node);
    break;
  case OPERATION:
    operation(w, node);
    break;
  case UNARY:
    has_token(w, "++") || has_token(w, "--") ? step(w, r, node) : visit_children(w);
    break;
  case WITH_BODY:
    if (child_in(w, w->g->body) != NULL)
      plain(w, r, node);
    break;
  case ELSE:
    emit(w, ACT_OTHERWISE, node);
    visit_children(w);
    break;
  case ASSERTION:
    if (!known(w, node)) {
      children_of(w, node);
      plain(w, r, node);
    }
    break;
  default:
    visit_children(w);
    break;
  }
}

/* A loop around nothing that calls nothing is no act. */
static void end_loop(struct walk *w, uint32_t first) {
  for (size_t i = first; i < w->act_count; i++)
    if (w->acts[i].kind == ACT_APPLY || w->acts[i].kind == ACT_NEW ||
        w->acts[i].kind == ACT_INDEXES)
      return;
  w->act_count = first;
  while (w->declaration_count > 0 && w->declarations[w->declaration_count - 1].end > first)
    w->declaration_count--;
}

/* One that calls something may do something. */
static void end_declaration(struct walk *w, uint32_t first, uint64_t name) {
  for (size_t i = first; i < w->act_count; i++)
    if (w->acts[i].kind == ACT_APPLY || w->acts[i].kind == ACT_LAMBDA)
      return;
  APPEND(w, declarations, declaration_count, declaration_room,
         (struct declaration){name, first, (uint32_t)w->act_count});
}

static void reverse(struct task *tasks, size_t n) {
  for (size_t i = 0; i < n / 2; i++) {
    const struct task t = tasks[i];
    tasks[i] = tasks[n - 1 - i];
    tasks[n - 1 - i] = t;
  }
}

static void do_all(struct walk *w) {
  while (w->task_count > 0 && !w->failed) {
    const struct task t = w->tasks[--w->task_count];
    const size_t before = w->task_count;
    switch (t.what) {
    case VISIT:
      look_at(w, t.node);
      reverse(w->tasks + before, w->task_count - before);
      break;
    case EMIT:
      APPEND(w, acts, act_count, act_room, t.act);
      break;
    case END_OF_DECLARATION:
      end_declaration(w, t.first, t.name);
      break;
    case END_OF_LOOP:
      end_loop(w, t.first);
      break;
    }
  }
}

/* Takes out the acts of variables that are named once. Declarations may lie in each other; they
 * are in the order of their ends. */
static void drop_unused(struct walk *w) {
  for (size_t d = 0; d < w->declaration_count; d++) {
    const struct declaration *x = &w->declarations[d];
    if (maru_names_times(&w->names, x->name) == 1)
      for (uint32_t i = x->first; i < x->end; i++)
        w->acts[i].kind = ACT_NONE;
  }
  size_t kept = 0;
  for (size_t i = 0; i < w->act_count; i++)
    if (w->acts[i].kind != ACT_NONE)
      w->acts[kept++] = w->acts[i];
  w->act_count = kept;
}

int64_t maru_walk(const struct maru_grammar *g, const char *text, TSNode root,
                  struct maru_act **acts, uint32_t *errors) {
  struct walk w = {.g = g, .text = text, .cursor = ts_tree_cursor_new(root)};
  *errors = maru_errors_in(&w.cursor);
  visit(&w, root);
  do_all(&w);
  if (!w.failed)
    drop_unused(&w);
  ts_tree_cursor_delete(&w.cursor);
  free(w.children);
  free(w.tasks);
  free(w.declarations);
  free(w.names.slots);
  if (w.failed) {
    free(w.acts);
    return -w.failed;
  }
  *acts = w.acts;
  return (int64_t)w.act_count;
}
