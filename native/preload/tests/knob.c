/* knob: sets the deadline of the section "lock" while its run goes on.
 *
 * usage: knob BOARD NANOSECONDS */
#include <maru/board.h>
#include <maru/overlay.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  struct maru_board board;
  void *section;
  if (argc != 3 || maru_board_open(&board, argv[1]) < 0 ||
      maru_board_find(&board, MARU_OVERLAY_SECTION, MARU_OVERLAY_VERSION,
                      sizeof(struct maru_overlay), &section) < 0) {
    fprintf(stderr, "knob: a board with the section and nanoseconds are needed\n");
    return 1;
  }
  struct maru_overlay *overlay = section;
  atomic_store_explicit(&overlay->knobs.deadline_ns, strtoull(argv[2], NULL, 10),
                        memory_order_relaxed);
  maru_board_close(&board);
  return 0;
}
