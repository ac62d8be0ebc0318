/* Description: threads add, find and say on one board; the thread sanitizer can watch. */
#include <maru/board.h>

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

static struct maru_board board;

/* Three such run at once and race for every section. */
static void *room(void *argument) {
  int number = *(int *)argument;
  char name[24], line[256];
  void *data;
  for (int i = 0; i < 12; i++) {
    snprintf(name, sizeof name, "room-%d", (i + number) % 12);
    /* The winner may still be filling the entry, for long where the machine is busy. */
    int rc;
    while ((rc = maru_board_share(&board, name, 1, sizeof(_Atomic uint64_t), &data)) == -ETIMEDOUT)
      continue;
    CHECK_EQUAL(rc, 0);
    atomic_fetch_add((_Atomic uint64_t *)data, 1);
  }
  for (uint64_t i = 0; i < 3000; i++) {
    CHECK_EQUAL(maru_board_say(&board, "room", "thread %d, line %d", number, (int)i), 0);
    maru_board_line(&board, i, line, sizeof line);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[3];
  int numbers[3] = {0, 4, 8};
  void *data;
  CHECK_EQUAL(maru_board_create(&board, 4096), 0);
  for (int i = 0; i < 3; i++)
    CHECK_EQUAL(pthread_create(&threads[i], NULL, room, &numbers[i]), 0);
  for (int i = 0; i < 3; i++)
    CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < 12; i++) {
    char name[24];
    snprintf(name, sizeof name, "room-%d", i);
    CHECK_EQUAL(maru_board_find(&board, name, 1, 8, &data), 0);
    CHECK_EQUAL(atomic_load((_Atomic uint64_t *)data), 3);
  }
  maru_board_close(&board);
  return 0;
}
