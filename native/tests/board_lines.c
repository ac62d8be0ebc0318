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

/* Nothing that a terminal obeys, or that turns the text around, comes out; other languages do. */
static void plain(void) {
  static const char *const said[][2] = {
      {"a\xc2\x9b"
       "31m",
       "a?31m"}, /* CSI as one character */
      {"a\x9b"
       "31m",
       "a?31m"},                             /* and as one byte */
      {"\xc2\x80\xc2\x9f\xc2\x85|", "???|"}, /* all of C1, next line */
      {"\xe2\x80\xae"
       "evil\xe2\x80\xac",
       "?evil?"},                                                            /* override, its end */
      {"\xe2\x80\xaa\xe2\x80\xad|", "??|"},                                  /* embeddings */
      {"\xe2\x81\xa6\xe2\x81\xa9\xe2\x80\x8f\xe2\x80\x8e\xd8\x9c", "?????"}, /* isolates, marks */
      {"\xe2\x80\xa8\xef\xbb\xbf\xc2\xad", "???"}, /* a line's end, no width, soft hyphen */
      {"\xf3\xa0\x80\xa1|", "?|"},                 /* a tag */
      {"\xc0\x9b|\xe0\x82\x9b|", "??|???|"},       /* longer than it need be */
      {"\xed\xa0\x80|\xf5\x80\x80\x80|\xff", "???|????|?"},
      {"\xf4\x90\x80\x80|\xe2\x80", "????|??"}, /* above the last; cut */
      {"\x7f\x1b[0m\x07\b", "??[0m??"},
      {"\xc2"
       "A|\xe2\x80"
       "B|\xf0\x9f"
       "C",
       "?A|??B|??C"}, /* ends too early */
      {"gr\xc3\xb6\xc3\x9f"
       "e \xeb\xa7\x88\xeb\xa3\xa8 \xf0\x9f\x8f\xa0",
       "gr\xc3\xb6\xc3\x9f"
       "e \xeb\xa7\x88\xeb\xa3\xa8 \xf0\x9f\x8f\xa0"},
  };
  uint64_t first, end;
  char line[256], wanted[256];
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    CHECK_EQUAL(maru_board_say(&board, "x", "%s", said[i][0]), 0);
    maru_board_lines(&board, &first, &end);
    CHECK_EQUAL(maru_board_line(&board, end - 1, line, sizeof line), 0);
    snprintf(wanted, sizeof wanted, "x: %s", said[i][1]);
    if (strcmp(line, wanted) != 0)
      fprintf(stderr, "'%s', not '%s'\n", line, wanted);
    CHECK(strcmp(line, wanted) == 0);
  }
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

static void look_at(uint64_t number, int rc, const char *line, unsigned *seen) {
  CHECK(rc == 0 || rc == -ENOENT || rc == -ESTALE || rc == -EAGAIN);
  if (rc != 0)
    return;
  if (strlen(line) != 3 + 99)
    fprintf(stderr, "line %llu: '%s'\n", (unsigned long long)number, line);
  CHECK_EQUAL(strlen(line), 3 + 99);
  CHECK_EQUAL(strspn(line + 3, (char[]){line[3], '\0'}), 99);
  *seen += 1;
}

/* No line is a mixture of two. */
static void several_writers(void) {
  static const uint64_t first = 1000, end = 61000, kept = 256;
  pid_t pids[3];
  int letters[3] = {'a', 'b', 'c'};
  char line[256];
  unsigned seen = 0;
  for (int i = 0; i < 3; i++)
    pids[i] = start(writer, &letters[i]);
  for (uint64_t number = first; number < end - kept;) {
    int rc = maru_board_line(&board, number, line, sizeof line);
    look_at(number, rc, line, &seen);
    if (rc == 0 || rc == -ESTALE)
      number++;
  }
  for (int i = 0; i < 3; i++)
    CHECK_EQUAL(finish(pids[i]), 0);
  /* A writer that slept while the others said as many lines as are kept has written over one: each
   * of the three over at most one of the last. */
  for (uint64_t number = end - kept; number < end; number++) {
    int rc = maru_board_line(&board, number, line, sizeof line);
    CHECK(rc == 0 || rc == -EAGAIN);
    look_at(number, rc, line, &seen);
  }
  CHECK(seen >= kept - 3);
}

int main(void) {
  CHECK_EQUAL(maru_board_create(&board, 4096), 0);
  one_writer();
  wraps();
  several_writers();
  plain();
  maru_board_close(&board);
  return 0;
}
