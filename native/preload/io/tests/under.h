/* under.h: runs a program with libmaru-io.so, and with a board that says what it did. */
#ifndef MARU_PRELOAD_IO_TESTS_UNDER_H
#define MARU_PRELOAD_IO_TESTS_UNDER_H

#include "check.h"

#include <maru/board.h>
#include <maru/io.h>

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <time.h>

struct outcome {
  int status; /* as waitpid tells */
  size_t size;
  char text[1 << 16];
};

static inline int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void make_board(struct maru_board *board) {
  char path[64];
  CHECK_EQUAL(maru_board_create(board, 1 << 20), 0);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), board->fd);
  setenv(MARU_BOARD_ENV, path, 1);
}

/* What each thread of the process does: for who has to find out why it hangs. */
static inline void tell_threads(int pid) {
  char folder[64], path[400], text[256];
  snprintf(folder, sizeof folder, "/proc/%d/task", pid);
  DIR *threads = opendir(folder);
  for (struct dirent *entry; threads != NULL && (entry = readdir(threads)) != NULL;) {
    if (entry->d_name[0] == '.')
      continue;
    fprintf(stderr, "  process %d, thread %s:", pid, entry->d_name);
    for (int i = 0; i < 3; i++) {
      snprintf(path, sizeof path, "%s/%s/%s", folder, entry->d_name,
               (const char *[]){"comm", "wchan", "syscall"}[i]);
      FILE *file = fopen(path, "r");
      if (file != NULL && fgets(text, sizeof text, file) != NULL)
        fprintf(stderr, " %.*s", (int)strcspn(text, "\n"), text);
      if (file != NULL)
        fclose(file);
    }
    fprintf(stderr, "\n");
  }
  if (threads != NULL)
    closedir(threads);
}

static inline void tell_group(pid_t group) {
  DIR *processes = opendir("/proc");
  for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
    int pid = atoi(entry->d_name);
    if (pid > 0 && getpgid(pid) == group)
      tell_threads(pid);
  }
  if (processes != NULL)
    closedir(processes);
}

/* `mode` NULL: without the library.  Ends the test when the program takes longer; the program and
 * what it forked, too. */
static inline void run_under(const char *library, const char *mode, char *const *command,
                             int seconds, struct outcome *outcome) {
  int ends[2];
  CHECK_EQUAL(pipe(ends), 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
    if (mode != NULL) {
      setenv("LD_PRELOAD", library, 1);
      setenv(MARU_IO_ENV, mode, 1);
    }
    execv(command[0], command);
    _exit(127);
  }
  close(ends[1]);
  int64_t end = now_ms() + seconds * 1000;
  ssize_t got = 1;
  for (outcome->size = 0; got > 0;) {
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    int64_t left = end - now_ms();
    if (left <= 0 || poll(&ready, 1, (int)left) == 0) {
      fprintf(stderr, "%s %s hangs (%s)\n", command[0], command[1], mode != NULL ? mode : "direct");
      tell_group(pid);
      kill(-pid, SIGKILL);
      _exit(1);
    }
    got = read(ends[0], outcome->text + outcome->size, sizeof outcome->text - outcome->size);
    outcome->size += got > 0 ? (size_t)got : 0;
    CHECK(outcome->size < sizeof outcome->text);
  }
  close(ends[0]);
  outcome->text[outcome->size] = '\0';
  outcome->status = finish(pid);
}

/* The sum over all lines of a counter. */
#define COUNTED(section, counter)                                                                  \
  ({                                                                                               \
    uint64_t sum_ = 0;                                                                             \
    for (unsigned i_ = 0; i_ < MARU_IO_LINES; i_++)                                                \
      sum_ += atomic_load_explicit(&(section)->lines[i_].counter, memory_order_relaxed);           \
    sum_;                                                                                          \
  })

static inline struct maru_io_section *section_of(struct maru_board *board) {
  void *data;
  CHECK_EQUAL(maru_board_find(board, MARU_IO_SECTION, MARU_IO_VERSION,
                              sizeof(struct maru_io_section), &data),
              0);
  return data;
}

#endif
