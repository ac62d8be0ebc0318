/* maru-without: counts on the run's board a process that runs without maru's libraries, and becomes
 * its program.  Started by libmaru-first.so (first.c), which may not say it itself.
 *
 *   maru-without PATH NAME ARGUMENT...
 */
#include "section.h"

#include <errno.h>
#include <maru/board.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void count(const char *path) {
  struct maru_board board;
  void *data;
  if (maru_board_open_env(&board) < 0)
    return;
  if (maru_board_share(&board, MR_WITHOUT_SECTION, MR_WITHOUT_VERSION, sizeof(struct mr_without),
                       &data) == 0) {
    struct mr_without *section = data;
    /* Relaxed: for people, when the run is over. */
    if (atomic_fetch_add_explicit(&section->processes, 1, memory_order_relaxed) == 0)
      snprintf(section->path, sizeof section->path, "%s", path);
  }
  maru_board_close(&board);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "maru: maru-without is for libmaru-first.so alone\n");
    return 64;
  }
  count(argv[1]);
  execv(argv[1], argv + 2);
  fprintf(stderr, "maru: cannot execute %s without maru's libraries: %s\n", argv[1],
          strerror(errno));
  return 126;
}
