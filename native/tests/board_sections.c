/* Description: sections are found by another process as they were added, and only once. */
#define _GNU_SOURCE
#include <maru/board.h>
#include <maru/wait.h>

#include "check.h"

#include <sys/stat.h>

static struct maru_board board;

static void names_and_room(void) {
  void *data, *again;
  CHECK_EQUAL(maru_board_add(&board, "map", 3, 1000, &data), 0);
  CHECK_EQUAL((uintptr_t)data % 64, 0);
  for (int i = 0; i < 1000; i++)
    CHECK_EQUAL(((char *)data)[i], 0);
  CHECK_EQUAL(maru_board_add(&board, "map", 3, 8, &again), -EEXIST);
  CHECK_EQUAL(maru_board_add(&board, "map", 4, 8, &again), -EEXIST);
  CHECK_EQUAL(maru_board_add(&board, "", 1, 8, &again), -EINVAL);
  CHECK_EQUAL(maru_board_add(&board, "a-name-of-24-characters.", 1, 8, &again), -ENAMETOOLONG);
  CHECK_EQUAL(maru_board_add(&board, "a-name-of-23-characters", 1, 8, &again), 0);
  CHECK_EQUAL(maru_board_add(&board, "vast", 1, 1 << 30, &again), -ENOSPC);
  CHECK_EQUAL(maru_board_add(&board, "vaster", 1, SIZE_MAX, &again), -ENOSPC);
  CHECK_EQUAL(maru_board_find(&board, "map", 3, 1000, &again), 0);
  CHECK(again == data);
  CHECK_EQUAL(maru_board_find(&board, "map", 3, 1001, &again), -ENOTSUP);
  CHECK_EQUAL(maru_board_find(&board, "map", 2, 1000, &again), -ENOTSUP);
  CHECK_EQUAL(maru_board_find(&board, "lock", 1, 0, &again), -ENOENT);
  strcpy(data, "from the first process");
}

static void other_process(void *argument) {
  struct maru_board other;
  struct maru_board_owner owner;
  struct maru_board_section section;
  void *data;
  (void)argument;
  CHECK_EQUAL(maru_board_open_env(&other), 0);
  CHECK(other.base != board.base);
  CHECK_EQUAL(maru_board_owner_of(&other, &owner), 0);
  CHECK_EQUAL(owner.pid, getppid());
  CHECK(owner.start_time > 0);
  CHECK_EQUAL(maru_board_find(&other, "map", 3, 1000, &data), 0);
  CHECK(strcmp(data, "from the first process") == 0);
  CHECK_EQUAL(maru_board_section_at(&other, 1, &section), 0);
  CHECK(strcmp(section.name, "a-name-of-23-characters") == 0);
  CHECK_EQUAL(maru_board_section_at(&other, 2, &section), -ENOENT);
  CHECK_EQUAL(maru_board_add(&other, "reply", 1, 64, &data), 0);
  strcpy(data, "from the second");
  maru_board_close(&other);
}

static void across_processes(void) {
  char path[64];
  void *data;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), board.fd);
  CHECK_EQUAL(setenv(MARU_BOARD_ENV, path, 1), 0);
  CHECK_EQUAL(finish(start(other_process, NULL)), 0);
  CHECK_EQUAL(maru_board_find(&board, "reply", 1, 64, &data), 0);
  CHECK(strcmp(data, "from the second") == 0);
  CHECK_EQUAL(ftruncate(board.fd, 0), -1); /* sealed */
}

/* Processes that add one name at once: one of them wins. */
static void add_same(void *argument) {
  void *data;
  int wins = 0;
  (void)argument;
  for (int i = 0; i < 40; i++) {
    char name[24];
    snprintf(name, sizeof name, "race-%d", i);
    int rc = maru_board_add(&board, name, 1, 64, &data);
    CHECK(rc == 0 || rc == -EEXIST);
    wins += rc == 0;
  }
  _exit(wins);
}

static void raced(void) {
  pid_t pids[4];
  int wins = 0;
  for (int i = 0; i < 4; i++)
    pids[i] = start(add_same, NULL);
  for (int i = 0; i < 4; i++) {
    int status = finish(pids[i]);
    CHECK(WIFEXITED(status));
    wins += WEXITSTATUS(status);
  }
  CHECK_EQUAL(wins, 40);
}

/* In an entry, before the name (board.c). */
static _Atomic uint32_t *ready_of(const char *name) {
  char *at = memmem(board.base, board.size, name, strlen(name) + 1);
  CHECK(at != NULL);
  return (_Atomic uint32_t *)(void *)(at - 24);
}

static void finish_adding(void *ready) {
  usleep(20000);
  maru_notify_store(ready, 2);
}

/* A process that comes while a section is being added waits, but not for one that was killed
 * meanwhile. Where the machine is busy the adder may get to run later than anybody waits, again
 * and again. */
static void awaited(void) {
  void *data, *same;
  int rc = -ETIMEDOUT;
  CHECK_EQUAL(maru_board_share(&board, "awaited", 1, 64, &data), 0);
  CHECK_EQUAL(maru_board_share(&board, "awaited", 1, 64, &same), 0);
  CHECK(data == same);
  CHECK_EQUAL(maru_board_share(&board, "awaited", 2, 64, &same), -ENOTSUP);
  _Atomic uint32_t *ready = ready_of("awaited");
  atomic_store(ready, 0);
  CHECK_EQUAL(maru_board_find(&board, "awaited", 1, 64, &same), -ENOENT);
  pid_t pid = start(finish_adding, ready);
  for (int again = 0; rc == -ETIMEDOUT && again < 20; again++)
    rc = maru_board_share(&board, "awaited", 1, 64, &same);
  CHECK_EQUAL(rc, 0);
  CHECK(data == same);
  CHECK_EQUAL(finish(pid), 0);
  atomic_store(ready, 0);
  CHECK_EQUAL(maru_board_share(&board, "awaited", 1, 64, &same), -ETIMEDOUT);
  atomic_store(ready, 2);
}

/* A process that comes too late for a name takes no room; what has none leaves its name usable. */
static void loses_no_room(void) {
  void *data, *same;
  size_t left = board.size;
  CHECK_EQUAL(maru_board_add(&board, "raced", 1, 64, &data), 0);
  _Atomic uint32_t *ready = ready_of("raced");
  _Atomic uint64_t *used = (_Atomic uint64_t *)board.base + 64 / 8;
  uint64_t before = atomic_load(used);
  atomic_store(ready, 0); /* the other one is about to fill it */
  for (int i = 0; i < 100; i++)
    CHECK_EQUAL(maru_board_add(&board, "raced", 1, 8192, &same), -EEXIST);
  CHECK_EQUAL(atomic_load(used), before);
  atomic_store(ready, 2);
  CHECK_EQUAL(maru_board_add(&board, "raced", 1, 8192, &same), -EEXIST);
  left -= before;
  CHECK_EQUAL(maru_board_add(&board, "late", 1, left + 1, &data), -ENOSPC);
  CHECK_EQUAL(maru_board_share(&board, "late", 1, left + 1, &data), -ENOSPC);
  CHECK_EQUAL(maru_board_add(&board, "late", 1, 64, &data), 0);
  CHECK_EQUAL(atomic_load(used), before + 64);
  /* The room went between the look and the deed. */
  ready = ready_of("late");
  atomic_store(ready, 4);
  CHECK_EQUAL(maru_board_find(&board, "late", 1, 64, &same), -ENOENT);
  CHECK_EQUAL(maru_board_share(&board, "late", 1, 64, &same), 0);
  CHECK(same != data && atomic_load(ready) == 2);
}

/* One that waits for an adder who then finds no room tries by itself. */
static void refuse_adding(void *ready) {
  usleep(20000);
  maru_notify_store(ready, 4);
}

static void refused_while_awaited(void) {
  void *data, *same;
  int rc = -ETIMEDOUT;
  CHECK_EQUAL(maru_board_add(&board, "given up", 1, 64, &data), 0);
  _Atomic uint32_t *ready = ready_of("given up");
  /* Where the machine is busy the other one may get to run later than anybody waits. */
  for (int again = 0; rc == -ETIMEDOUT && again < 20; again++) {
    atomic_store(ready, 0);
    pid_t pid = start(refuse_adding, ready);
    rc = maru_board_share(&board, "given up", 1, 64, &same);
    CHECK_EQUAL(finish(pid), 0);
  }
  CHECK_EQUAL(rc, 0);
  CHECK(same != data);
}

static void directory_fills_up(void) {
  struct maru_board_section section;
  void *data;
  int rc = 0, added = 0;
  for (; rc == 0; added += rc == 0) {
    char name[24];
    snprintf(name, sizeof name, "section-%d", added);
    rc = maru_board_add(&board, name, 1, 1, &data);
  }
  CHECK_EQUAL(rc, -ENOSPC);
  CHECK_EQUAL(maru_board_section_at(&board, MARU_BOARD_SECTIONS - 1, &section), 0);
  CHECK_EQUAL(maru_board_section_at(&board, MARU_BOARD_SECTIONS, &section), -ENOENT);
}

int main(void) {
  struct maru_board other;
  CHECK_EQUAL(unsetenv(MARU_BOARD_ENV), 0);
  CHECK_EQUAL(maru_board_open_env(&other), -ENOENT);
  CHECK_EQUAL(maru_board_create(&board, 0), -EINVAL);
  CHECK_EQUAL(maru_board_create(&board, 64 << 10), 0);
  names_and_room();
  across_processes();
  raced();
  awaited();
  loses_no_room();
  refused_while_awaited();
  directory_fills_up();
  maru_board_forget_fd(&board);
  CHECK_EQUAL(board.fd, -1);
  maru_board_close(&board);
  return 0;
}
