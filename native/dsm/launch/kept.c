#define _GNU_SOURCE
#include "keep.h"

#include "../kept.h"

#include <maru/board.h>
#include <stdio.h>
#include <string.h>

/* Once: where there is no room on the board, nothing is shown. */
static struct mr_kept *open_section(const struct job *job) {
  struct maru_board board;
  void *section = NULL;
  if (job->board[0] == 0 || maru_board_open(&board, job->board) < 0)
    return NULL;
  maru_board_forget_fd(&board);
  if (maru_board_share(&board, MR_KEPT_SECTION, MR_KEPT_VERSION, sizeof(struct mr_kept), &section) <
      0) {
    maru_board_close(&board);
    return NULL;
  }
  return section;
}

/* Relaxed: figures that are looked at. */
static void put(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

static const char *why_unprotected(const struct keep *keep) {
  return keep->refused[0] != 0  ? keep->refused
         : keep->ended          ? "the program ends"
         : keep->committed == 0 ? "there is no checkpoint yet"
                                : "";
}

static void put_stretch(const struct job *job, struct mr_kept *kept) {
  uint64_t longest = 0, node = 0;
  for (unsigned i = 0; i < job->nodes; i++) {
    /* Relaxed: the same. */
    uint64_t each =
        atomic_load_explicit(&job->keep->page->lines[i].stretch_ns, memory_order_relaxed);
    node = each > longest ? i : node;
    longest = each > longest ? each : longest;
  }
  put(&kept->stretch_ms, longest / 1000000);
  put(&kept->stretch_node, node);
}

static void put_journals(const struct job *job, struct mr_kept *kept) {
  uint64_t given = 0, most = 0;
  for (unsigned i = 0; i < job->nodes; i++) {
    const struct mr_checkpoint_line *line = &job->keep->page->lines[i];
    uint64_t had = atomic_load_explicit(&line->journal_most, memory_order_relaxed);
    given += atomic_load_explicit(&line->journaled, memory_order_relaxed);
    most = had > most ? had : most;
  }
  put(&kept->journal_size, job->keep->journal);
  put(&kept->journaled, given);
  put(&kept->journal_most, most);
}

void mr_kept_show(const struct job *job) {
  struct keep *keep = job->keep;
  if (!keep->sought)
    keep->shown = open_section(job);
  keep->sought = true;
  struct mr_kept *kept = keep->shown;
  if (kept == NULL)
    return;
  uint64_t bytes = 0, changed = 0;
  for (unsigned i = 0; i < job->nodes; i++) {
    bytes += keep->page->lines[i].bytes;
    changed += keep->page->lines[i].changed;
  }
  put(&kept->epoch, keep->page->epoch);
  put(&kept->every_ms, (uint64_t)keep->every_ms);
  put(&kept->number, keep->committed);
  put(&kept->age_ms, (uint64_t)(mr_launch_now() - keep->taken));
  put(&kept->gathered_ms, (uint64_t)keep->gathered_ms);
  put(&kept->written_ms, (uint64_t)keep->written_ms);
  put(&kept->bytes, bytes);
  put(&kept->changed, changed);
  put(&kept->folder, keep->written);
  put(&kept->repeated, keep->repeated);
  put(&kept->repeats, keep->single >= 0);
  put_journals(job, kept);
  put_stretch(job, kept);
  snprintf(kept->unprotected, sizeof kept->unprotected, "%s", why_unprotected(keep));
  put(&kept->nodes, job->nodes);
}
