/* board-probe: what a command under the supervisor sees of its board, as
 * NAME=VALUE lines; status 1 and the reason when there is none.  With the word `section` or `line`
 * it leaves one there. */
#include <errno.h>
#include <maru/board.h>
#include <maru/run.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  struct maru_board board;
  struct maru_board_owner owner;
  void *data;
  int error = maru_board_open_env(&board);
  if (error == 0)
    error =
        maru_board_find(&board, MARU_RUN_SECTION, MARU_RUN_VERSION, sizeof(struct maru_run), &data);
  if (error == 0)
    error = maru_board_owner_of(&board, &owner);
  if (error < 0) {
    fprintf(stderr, "board-probe: %s\n", strerror(-error));
    return 1;
  }
  struct maru_run *run = data;
  /* The supervisor shows the pid a moment after our exec. */
  while (atomic_load_explicit(&run->state, memory_order_acquire) == MARU_RUN_STARTING)
    usleep(1000);
  printf("me=%d\npid=%d\nowner=%d\nstate=%u\nstart_time=%llu\ncommand=%s\n", (int)getpid(),
         run->pid, (int)owner.pid, atomic_load_explicit(&run->state, memory_order_acquire),
         (unsigned long long)run->start_time, run->command);
  if (argc > 1 && strcmp(argv[1], "section") == 0)
    error = maru_board_add(&board, "probe", 1, 64, &data);
  if (argc > 1 && strcmp(argv[1], "line") == 0)
    error = maru_board_say(&board, "probe", "a line");
  maru_board_close(&board);
  return error < 0;
}
