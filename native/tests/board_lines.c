/* Description: the board's text log keeps the last lines whole, also with several writers. */
#include <maru/board.h>

#include "check.h"

static struct maru_board board;

static void expect(uint64_t number, const char *text) {
  char line[256];
  CHECK_EQUAL(maru_board_line(&board, number, line, sizeof line), 0);
  if (strcmp(line, text) != 0)
    fprintf(stderr, "line %llu: '%s', not '%s'\n", (unsigned long long)number, line, text);
  CHECK(strcmp(line, text) == 0);
}

static void one_writer(void) {
  char line[256], small[8], large[300];
  CHECK_EQUAL(maru_board_line(&board, 0, line, sizeof line), -ENOENT);
  CHECK_EQUAL(maru_board_say(&board, "map", "worker %d killed by signal %d", 3, 9), 0);
  expect(0, "map: worker 3 killed by signal 9");
  CHECK_EQUAL(maru_board_line(&board, 0, small, sizeof small), 0);
  CHECK(strcmp(small, "map: wo") == 0);
  CHECK_EQUAL(maru_board_say(&board, "io", "red \033[31m\n"), 0);
  expect(1, "io: red ?[31m?");
  memset(large, 'x', sizeof large - 1);
  large[sizeof large - 1] = '\0';
  CHECK_EQUAL(maru_board_say(&board, "io", "%s", large), 0);
  CHECK_EQUAL(maru_board_line(&board, 2, line, sizeof line), 0);
  CHECK_EQUAL(strlen(line), 200);
}

static void wraps(void) {
  char line[256];
  for (int i = 3; i < 1000; i++)
    CHECK_EQUAL(maru_board_say(&board, "map", "line %d", i), 0);
  expect(999, "map: line 999");
  expect(999 - 255, "map: line 744");
  CHECK_EQUAL(maru_board_line(&board, 743, line, sizeof line), -ESTALE);
  CHECK_EQUAL(maru_board_line(&board, 1000, line, sizeof line), -ENOENT);
}

static void writer(void *argument) {
  int letter = *(int *)argument;
  char text[100];
  memset(text, letter, sizeof text - 1);
  text[sizeof text - 1] = '\0';
  for (int i = 0; i < 20000; i++)
    CHECK_EQUAL(maru_board_say(&board, "w", "%s", text), 0);
}

/* No line is a mixture of two. */
static void several_writers(void) {
  pid_t pids[3];
  int letters[3] = {'a', 'b', 'c'};
  for (int i = 0; i < 3; i++)
    pids[i] = start(writer, &letters[i]);
  unsigned seen = 0;
  for (uint64_t number = 1000; number < 61000;) {
    char line[256];
    int rc = maru_board_line(&board, number, line, sizeof line);
    CHECK(rc == 0 || rc == -ENOENT || rc == -ESTALE || rc == -EAGAIN);
    if (rc == 0) {
      CHECK_EQUAL(strlen(line), 3 + 99);
      CHECK_EQUAL(strspn(line + 3, (char[]){line[3], '\0'}), 99);
      seen++;
    }
    if (rc == 0 || rc == -ESTALE)
      number++;
  }
  for (int i = 0; i < 3; i++)
    CHECK_EQUAL(finish(pids[i]), 0);
  CHECK(seen >= 256);
}

int main(void) {
  CHECK_EQUAL(maru_board_create(&board, 4096), 0);
  one_writer();
  wraps();
  several_writers();
  maru_board_close(&board);
  return 0;
}
