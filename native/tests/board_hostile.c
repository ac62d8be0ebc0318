/* Description: damaged boards are refused or read within their bounds, whatever they hold. */
#define _GNU_SOURCE
#include <maru/board.h>

#include "check.h"
#include "task.h"

#include <fcntl.h>
#include <signal.h>
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
  CHECK_EQUAL(maru_board_open(&board, "/tmp"), -EPROTO);
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

/* A good board's bytes in a memfd that may shrink, and in a file that is none. */
static void copies(void) {
  struct maru_board board, other;
  char name[] = "/dev/shm/maru-board-XXXXXX";
  CHECK_EQUAL(maru_board_create(&board, 8192), 0);
  int fd = memfd_create("maru-board", MFD_ALLOW_SEALING);
  CHECK_EQUAL(write(fd, board.base, board.size), board.size);
  CHECK_EQUAL(open_fd(fd), -EPROTO);
  CHECK_EQUAL(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
  CHECK_EQUAL(open_fd(fd), -EPROTO);
  CHECK_EQUAL(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  CHECK_EQUAL(open_fd(fd), 0);
  close(fd);
  fd = mkstemp(name);
  if (fd >= 0) { /* no memfd, whatever it holds */
    CHECK_EQUAL(write(fd, board.base, board.size), board.size);
    CHECK_EQUAL(maru_board_open(&other, name), -EPROTO);
    unlink(name);
    close(fd);
  }
  maru_board_close(&board);
}

/* Nobody who waits for a reader of a FIFO meets one. */
static void write_fifo(void *argument) {
  int fd = open(argument, O_WRONLY);
  _exit(fd >= 0 ? 1 : 0);
}

static void without_side_effect(void) {
  struct maru_board board;
  char name[] = "/tmp/maru-fifo-XXXXXX", link[64];
  CHECK(mkdtemp(name) != NULL);
  snprintf(path, sizeof path, "%s/fifo", name);
  snprintf(link, sizeof link, "%s/link", name);
  CHECK_EQUAL(mkfifo(path, 0600), 0);
  CHECK_EQUAL(symlink(path, link), 0);
  pid_t pid = start(write_fifo, path);
  for (int i = 0; i < 50; i++) {
    CHECK_EQUAL(maru_board_open(&board, i % 2 ? path : link), -EPROTO);
    usleep(1000);
  }
  CHECK_EQUAL(waitpid(pid, NULL, WNOHANG), 0); /* it still waits */
  kill(pid, SIGKILL);
  CHECK_EQUAL(finish(pid), SIGKILL);
  unlink(path);
  unlink(link);
  rmdir(name);
}

/* Another user's board is not this user's, for root neither. */
static void of_another_user(void) {
  struct maru_board board, other;
  if (geteuid() != 0 || seteuid(65534) < 0)
    return;
  CHECK_EQUAL(maru_board_create(&board, 8192), 0);
  CHECK_EQUAL(board.user, 65534);
  CHECK_EQUAL(open_fd(board.fd), 0);
  CHECK_EQUAL(seteuid(0), 0);
  CHECK_EQUAL(open_fd(board.fd), -EACCES);
  CHECK_EQUAL(maru_board_open_of(&other, path, 65534), 0);
  CHECK_EQUAL(other.user, 65534);
  maru_board_close(&other);
  maru_board_close(&board);
}

/* The header's owner is a claim: the process that it names must live, have started then, and be
 * the board's user. */
static void claim(struct maru_board *board, int32_t pid, uint64_t start_time) {
  ((_Atomic int32_t *)board->base)[3] = pid;
  ((_Atomic uint64_t *)board->base)[2] = start_time;
}

static void sleep_as(void *user) {
  if (setuid(*(uid_t *)user) < 0)
    _exit(1);
  for (;;)
    pause();
}

static void false_owners(void) {
  struct maru_board board;
  struct maru_board_owner owner = {0}, same;
  uid_t users[] = {geteuid(), 65534};
  CHECK_EQUAL(maru_board_create(&board, 8192), 0);
  CHECK_EQUAL(maru_board_owner_of(&board, &owner), 0);
  CHECK_EQUAL(owner.pid, getpid());
  claim(&board, owner.pid, owner.start_time + 1);
  CHECK_EQUAL(maru_board_owner_of(&board, &same), -ESRCH);
  claim(&board, owner.pid, 0);
  CHECK_EQUAL(maru_board_owner_of(&board, &same), -ESRCH);
  for (int32_t pid = -1; pid <= 0; pid++) {
    claim(&board, pid, owner.start_time);
    CHECK_EQUAL(maru_board_owner_of(&board, &same), -ESRCH);
  }
  for (unsigned i = 0; i < (geteuid() == 0 ? 2 : 1); i++) {
    pid_t pid = start(sleep_as, &users[i]);
    struct mr_task task;
    do
      CHECK_EQUAL(mr_task_read(pid, &task), 0);
    while (task.users[0] != users[i]);
    uint64_t begun = mr_start_time(pid);
    claim(&board, pid, begun);
    CHECK_EQUAL(maru_board_owner_of(&board, &same), i == 0 ? 0 : -ESRCH);
    kill(pid, SIGKILL);
    CHECK_EQUAL(finish(pid), SIGKILL);
    CHECK_EQUAL(maru_board_owner_of(&board, &same), -ESRCH);
  }
  maru_board_close(&board);
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
  uint64_t first, end;
  maru_board_lines(board, &first, &end);
  CHECK(end - first <= 256);
  for (uint64_t i = first; i < end; i++)
    maru_board_line(board, i, line, sizeof line);
  maru_board_line(board, UINT64_MAX, line, sizeof line);
  maru_board_say(board, "test", "still here");
  if (maru_board_add(board, "five", 1, 100, &data) == 0)
    memset(data, 1, 100);
}

/* As many lines as there can be numbers: what was said is lost, nothing else. */
static void endless_log(void) {
  struct maru_board board;
  char line[256];
  uint64_t first, end, good = 0;
  CHECK_EQUAL(maru_board_create(&board, 8192), 0);
  for (int i = 0; i < 300; i++)
    CHECK_EQUAL(maru_board_say(&board, "test", "line %d", i), 0);
  maru_board_lines(&board, &first, &end);
  CHECK(first == 300 - 256 && end == 300);
  for (uint64_t i = first; i < end; i++)
    good += maru_board_line(&board, i, line, sizeof line) == 0;
  CHECK_EQUAL(good, 256);
  ((_Atomic uint64_t *)board.base)[128 / 8] = UINT64_MAX;
  maru_board_lines(&board, &first, &end);
  CHECK(end == UINT64_MAX && end - first == 256);
  for (uint64_t i = first; i < end; i++)
    CHECK(maru_board_line(&board, i, line, sizeof line) != 0);
  maru_board_close(&board);
}

/* Each word that a reader follows, alone; the entry's lie before its name. */
static void impossible_words(void) {
  static const struct {
    int from_name; /* of the entry; 0: `header` instead */
    unsigned header;
    uint64_t value;
    int wanted;
  } words[] = {
      {0, 0, 1, -EPROTO},                   /* no magic */
      {0, 24, 8192, -EPROTO},               /* another size than the file's */
      {-16, 0, 64, -EPROTO},                /* on the header */
      {-16, 0, 65, -EPROTO},                /* nor aligned */
      {-16, 0, UINT64_C(1) << 40, -EPROTO}, /* beyond the end */
      {-16, 0, UINT64_MAX - 63, -EPROTO},   /* and around it */
      {-8, 0, UINT64_C(1) << 40, -EPROTO},  /* reaches beyond it */
      {-8, 0, UINT64_MAX, -EPROTO},
      {16, 0, UINT64_C(0x7878787878787878), -EPROTO}, /* a name without an end */
  };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    struct maru_board board;
    struct maru_board_section section;
    void *data;
    CHECK_EQUAL(maru_board_create(&board, 8192), 0);
    CHECK_EQUAL(maru_board_add(&board, "a-name-of-23-characters", 1, 100, &data), 0);
    char *name = memmem(board.base, board.size, "a-name-of-23", 12);
    CHECK(name != NULL);
    void *at =
        words[i].from_name != 0 ? name + words[i].from_name : (char *)board.base + words[i].header;
    memcpy(at, &words[i].value, 8);
    CHECK_EQUAL(open_fd(board.fd), words[i].wanted);
    if (words[i].from_name != 0)
      CHECK_EQUAL(maru_board_section_at(&board, 0, &section), words[i].wanted);
    maru_board_close(&board);
  }
  struct maru_board board, other;
  void *data;
  CHECK_EQUAL(maru_board_create(&board, 8192), 0);
  CHECK_EQUAL(maru_board_add(&board, "one", 1, 100, &data), 0);
  char *name = memmem(board.base, board.size, "one", 4);
  CHECK(name != NULL);
  uint64_t odd = (uint64_t)((char *)data - (char *)board.base) + 8;
  memcpy(name - 16, &odd, 8); /* within the board, not aligned */
  CHECK_EQUAL(maru_board_find(&board, "one", 1, 8, &data), -EPROTO);
  ((_Atomic uint32_t *)board.base)[2] = 99; /* another layout */
  CHECK_EQUAL(maru_board_open(&other, path), -ENOTSUP);
  maru_board_close(&board);
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
  copies();
  without_side_effect();
  of_another_user();
  false_owners();
  endless_log();
  impossible_words();
  for (uint64_t i = 0; i < rounds; i++)
    corrupted(&seed, 1 + (unsigned)(i % 8));
  return 0;
}
