/* Description: damaged boards are refused or read within their bounds, whatever they hold. */
#define _GNU_SOURCE
#include <maru/board.h>

#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char path[64];

static int open_fd(int fd) {
  struct maru_board board;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int rc = maru_board_open(&board, path);
  if (rc == 0)
    maru_board_close(&board);
  return rc;
}

static void not_boards(void) {
  struct maru_board board;
  int ends[2];
  CHECK_EQUAL(maru_board_open(&board, "/nowhere"), -ENOENT);
  CHECK_EQUAL(maru_board_open(&board, "/dev/null"), -EPROTO);
  CHECK_EQUAL(maru_board_open(&board, "/tmp"), -EISDIR);
  CHECK_EQUAL(pipe(ends), 0);
  CHECK_EQUAL(open_fd(ends[0]), -EPROTO); /* and does not block */

  int fd = memfd_create("x", MFD_ALLOW_SEALING);
  CHECK_EQUAL(ftruncate(fd, 1 << 20), 0);
  CHECK_EQUAL(open_fd(fd), -EPROTO); /* could shrink */
  CHECK_EQUAL(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  CHECK_EQUAL(open_fd(fd), -EPROTO); /* no magic */
  close(fd);
  fd = memfd_create("x", MFD_ALLOW_SEALING);
  CHECK_EQUAL(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  CHECK_EQUAL(open_fd(fd), -EPROTO); /* empty */
  close(fd);
}

/* Reads all there is to read; the sanitizers and the kernel are the judges. */
static void read_all(struct maru_board *board) {
  struct maru_board_section section;
  struct maru_board_owner owner;
  char line[256];
  void *data;
  maru_board_owner_of(board, &owner);
  for (unsigned i = 0; i <= MARU_BOARD_SECTIONS; i++)
    if (maru_board_section_at(board, i, &section) == 0) {
      CHECK(strnlen(section.name, sizeof section.name) < sizeof section.name);
      uintptr_t begin = (uintptr_t)section.data, base = (uintptr_t)board->base;
      CHECK(begin >= base && section.size <= board->size - (begin - base));
      if (section.size > 0)
        (void)((volatile char *)section.data)[section.size - 1];
    }
  maru_board_find(board, "two", 1, 10, &data);
  for (uint64_t i = 0; i < 300; i++)
    maru_board_line(board, i, line, sizeof line);
  maru_board_line(board, UINT64_MAX, line, sizeof line);
  maru_board_say(board, "test", "still here");
  if (maru_board_add(board, "five", 1, 100, &data) == 0)
    memset(data, 1, 100);
}

/* A good board with `count` bytes of its header and directory overwritten. */
static void corrupted(uint64_t *seed, unsigned count) {
  struct maru_board board, other;
  void *data;
  CHECK_EQUAL(maru_board_create(&board, 8192), 0);
  CHECK_EQUAL(maru_board_add(&board, "one", 1, 100, &data), 0);
  CHECK_EQUAL(maru_board_add(&board, "two", 1, 200, &data), 0);
  CHECK_EQUAL(maru_board_say(&board, "test", "hello"), 0);
  for (unsigned i = 0; i < count; i++) {
    /* Half of the hits within the first entries. */
    size_t range = next_random(seed) % 2 ? 400 : 6000;
    size_t at = next_random(seed) % range & ~(size_t)7;
    uint64_t values[] = {next_random(seed), UINT64_MAX, board.size, next_random(seed) % board.size,
                         UINT64_C(1) << 63, 0};
    memcpy((char *)board.base + at, &values[next_random(seed) % 6], 8);
  }
  snprintf(path, sizeof path, "/proc/self/fd/%d", board.fd);
  int rc = maru_board_open(&other, path);
  CHECK(rc == 0 || rc == -EPROTO || rc == -ENOTSUP);
  if (rc == 0) {
    read_all(&other);
    maru_board_close(&other);
  }
  read_all(&board); /* as one who opened it before the damage */
  maru_board_close(&board);
}

int main(void) {
  uint64_t seed = setting("MARU_TEST_SEED", 20240607);
  uint64_t rounds = setting("MARU_TEST_ROUNDS", 2000);
  not_boards();
  for (uint64_t i = 0; i < rounds; i++)
    corrupted(&seed, 1 + (unsigned)(i % 8));
  return 0;
}
