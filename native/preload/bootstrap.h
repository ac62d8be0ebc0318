/* bootstrap.h: what every preloaded library of ours begins with (internal).
 *
 * It runs in programs that know nothing of us: it never ends them and keeps no descriptor open.
 * What it cannot do it says once for the whole run. */
#ifndef MARU_PRELOAD_BOOTSTRAP_H
#define MARU_PRELOAD_BOOTSTRAP_H

#include <maru/board.h>
#include <stdbool.h>

struct mr_preload {
  const char *room;
  struct maru_board board;
  bool on_board;
};

/* Opens the run's board, if there is one. */
void mr_preload_start(struct mr_preload *preload, const char *room);
/* The room's section, shared by the run's processes.  NULL: there is no board, or it cannot
 * have one. */
void *mr_preload_section(struct mr_preload *preload, const char *name, uint32_t version,
                         size_t size);
/* A line on the board's log and, unless *said is set already, which it then is, on stderr. */
void mr_preload_warn(struct mr_preload *preload, _Atomic uint32_t *said, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
