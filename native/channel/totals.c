#include <maru/board.h>
#include <maru/channel.h>

_Static_assert(sizeof(struct maru_map_totals) == 6 * sizeof(uint64_t), "layout is read by others");

struct maru_map_totals *maru_map_totals_open(void) {
  struct maru_board board;
  void *data;
  if (maru_board_open_env(&board) < 0)
    return NULL;
  if (maru_board_share(&board, MARU_MAP_SECTION, MARU_MAP_SECTION_VERSION,
                       sizeof(struct maru_map_totals), &data) < 0) {
    maru_board_close(&board);
    return NULL;
  }
  maru_board_forget_fd(&board);
  return data;
}

void maru_map_totals_add(struct maru_map_totals *totals, unsigned which, int64_t delta) {
  _Atomic uint64_t *counters = &totals->maps;
  /* Relaxed: a reader sees each counter by itself, in no order. */
  atomic_fetch_add_explicit(&counters[which], (uint64_t)delta, memory_order_relaxed);
}

void maru_map_say(const char *line) {
  struct maru_board board;
  if (maru_board_open_env(&board) < 0)
    return;
  maru_board_say(&board, "map", "%s", line);
  maru_board_close(&board);
}
