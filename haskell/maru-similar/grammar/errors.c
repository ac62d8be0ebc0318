/* Where a tree is no program; walk.h says what it promises. */
#include "walk.h"

uint32_t maru_errors_in(TSTreeCursor *cursor) {
  uint32_t errors = 0;
  int depth = 0;
  for (;;) {
    const TSNode node = ts_tree_cursor_current_node(cursor);
    errors += maru_broken(node) || ts_node_is_missing(node);
    if (ts_node_has_error(node) && ts_tree_cursor_goto_first_child(cursor)) {
      depth++;
      continue;
    }
    while (depth > 0 && !ts_tree_cursor_goto_next_sibling(cursor)) {
      ts_tree_cursor_goto_parent(cursor);
      depth--;
    }
    if (depth == 0)
      return errors;
  }
}
