#include "stand.h"

#include <errno.h>
#include <maru/board.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mr_stand {
  struct maru_board board;
  struct mr_stand_line *line;
};

static int open_board(struct mr_stand *stand, const char *path, uint16_t me) {
  void *lines;
  int rc = maru_board_open(&stand->board, path);
  if (rc < 0)
    return rc;
  /* The launcher's descriptor keeps it. */
  maru_board_forget_fd(&stand->board);
  rc = maru_board_share(&stand->board, MR_STAND_SECTION, MR_STAND_VERSION,
                        MR_STAND_LINES * sizeof *stand->line, &lines);
  if (rc < 0)
    maru_board_close(&stand->board);
  else
    stand->line = (struct mr_stand_line *)lines + me;
  return rc;
}

struct mr_stand *mr_stand_open(uint16_t me) {
  const char *path = getenv("MARU_DSM_BOARD");
  if (path == NULL || me >= MR_STAND_LINES)
    return NULL;
  struct mr_stand *stand = calloc(1, sizeof *stand);
  int rc = stand != NULL ? open_board(stand, path, me) : -ENOMEM;
  if (rc >= 0)
    return stand;
  /* Not "maru: node N:", which the launcher takes for why the job ends. */
  fprintf(stderr, "maru: cannot use the board of node %u, %s: %s; maru top does not show it\n", me,
          path, strerror(-rc));
  free(stand);
  return NULL;
}

/* Relaxed: each word is true by itself, and nobody decides anything by two of them.  Some of what
 * is read is written meanwhile (struct mr_stand_counts). */
static void put(uint64_t *to, const uint64_t *from, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    __atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

void mr_stand_tell(struct mr_stand *stand, uint16_t nodes, const struct mr_core_counters *counters,
                   const struct mr_stand_counts *counts) {
  const uint64_t all = nodes;
  struct mr_stand_line *line = stand->line;
  for (unsigned kind = 0; kind < MR_MESSAGE_KINDS; kind++) {
    put(&line->messages[kind], &counters->kinds[kind].messages, 1);
    put(&line->bytes[kind], &counters->kinds[kind].bytes, 1);
  }
  put(line->counts.waits, counts->waits, MR_STAND_WAITS);
  put(line->counts.waited_ns, counts->waited_ns, MR_STAND_WAITS);
  put(line->counts.faults, counts->faults, MR_REASONS);
  put(&line->given, &counters->given, 1);
  put(&line->retaken, &counters->retaken, 1);
  put(&line->nodes, &all, 1);
}

void mr_stand_close(struct mr_stand *stand) {
  if (stand == NULL)
    return;
  maru_board_close(&stand->board);
  free(stand);
}

enum mr_reason mr_reason_of(const struct mr_core *core, uint32_t page) {
  return mr_core_is_home(core, page)             ? MR_AT_HOME
         : mr_core_access(core, page) != MR_NONE ? MR_WRITTEN
         : mr_core_was_here(core, page)          ? MR_CHANGED
                                                 : MR_FIRST;
}
