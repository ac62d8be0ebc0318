#define _GNU_SOURCE
#include "boards.h"

#include "shared.h"
#include "task.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINK "/memfd:maru-board (deleted)"

/* The file system that all memfds lie in. */
static dev_t memfd_device(void) {
  struct stat status = {0};
  int fd = mr_sealed_memfd("maru-boost", 1);
  if (fd >= 0) {
    (void)fstat(fd, &status);
    close(fd);
  }
  return status.st_dev;
}

/* By O_PATH: looking has no side effect, whatever the path leads to. */
static int check_path(const char *path, struct stat *status) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  if (fstat(fd, status) < 0 || !S_ISREG(status->st_mode) || status->st_dev != memfd_device()) {
    close(fd);
    return -EPROTO;
  }
  if (geteuid() != 0 && status->st_uid != geteuid()) {
    close(fd);
    return -EACCES;
  }
  return fd;
}

static int is_open(const struct boost_boards *boards, const struct stat *status) {
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (boards->slots[i] != NULL && boards->slots[i]->status.st_ino == status->st_ino)
      return 1;
  return 0;
}

static struct boost_board *new_board(void) {
  struct boost_board *made = calloc(1, sizeof *made);
  if (made == NULL)
    return NULL;
  made->lines = calloc(MARU_WAIT_CHANNELS, sizeof *made->lines);
  made->ask_again_ns = calloc(MARU_WAIT_CHANNELS, sizeof *made->ask_again_ns);
  if (made->lines != NULL && made->ask_again_ns != NULL)
    return made;
  free(made->lines);
  free(made->ask_again_ns);
  free(made);
  return NULL;
}

static int open_checked(struct boost_boards *boards, unsigned slot, int fd,
                        const struct stat *status) {
  char path[32];
  struct boost_board *made = new_board();
  if (made == NULL)
    return -ENOMEM;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int rc = maru_board_open(&made->board, path);
  if (rc < 0) {
    free(made->lines);
    free(made->ask_again_ns);
    free(made);
    return rc;
  }
  maru_board_forget_fd(&made->board);
  made->status = *status;
  made->subjects = boards->subjects + (size_t)slot * MARU_WAIT_CHANNELS;
  boards->slots[slot] = made;
  return 0;
}

int boost_boards_open(struct boost_boards *boards, const char *path) {
  struct stat status;
  unsigned slot = 0;
  int fd = check_path(path, &status);
  if (fd < 0)
    return fd;
  while (slot < BOOST_BOARDS && boards->slots[slot] != NULL)
    slot++;
  int rc = is_open(boards, &status) ? -EEXIST
           : slot == BOOST_BOARDS   ? -ENOSPC
                                    : open_checked(boards, slot, fd, &status);
  close(fd);
  return rc;
}

unsigned boost_board_settle(struct boost_board *one) {
  unsigned failed = 0;
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i++) {
    /* Relaxed: this process alone writes the mark.  None is set in a dry run. */
    if (!atomic_load_explicit(&one->subjects[i].touched, memory_order_relaxed))
      continue;
    one->lines[i].raised_until_ns = 0;
    if (boost_end(&one->subjects[i]) < 0 &&
        atomic_load_explicit(&one->subjects[i].touched, memory_order_relaxed)) {
      failed++;
      continue;
    }
    /* Release: it is in its place before the mark goes. */
    atomic_store_explicit(&one->table->channels[i].boosted, 0, memory_order_release);
  }
  return failed;
}

void boost_boards_close(struct boost_boards *boards, unsigned slot) {
  struct boost_board *old = boards->slots[slot];
  if (boost_board_settle(old) > 0)
    return; /* not forgotten before everybody is in his place */
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i++)
    if (old->subjects[i].tid != 0)
      boost_dismiss(&old->subjects[i]);
  maru_board_close(&old->board);
  free(old->lines);
  free(old->ask_again_ns);
  free(old);
  boards->slots[slot] = NULL;
}

static bool owner_lives(const struct boost_board *one) {
  struct maru_board_owner owner;
  return maru_board_owner_of(&one->board, &owner) == 0 &&
         mr_start_time(owner.pid) == owner.start_time;
}

static void look_at_process(struct boost_boards *boards, const char *pid) {
  char folder[48], path[320], link[64];
  snprintf(folder, sizeof folder, "/proc/%.16s/fd", pid);
  DIR *dir = opendir(folder);
  if (dir == NULL)
    return;
  struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    ssize_t length = readlinkat(dirfd(dir), entry->d_name, link, sizeof link);
    if (length != sizeof LINK - 1 || memcmp(link, LINK, sizeof LINK - 1) != 0)
      continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    (void)boost_boards_open(boards, path); /* one that cannot be used is as none */
  }
  closedir(dir);
}

void boost_boards_find(struct boost_boards *boards) {
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (boards->slots[i] != NULL && !owner_lives(boards->slots[i]))
      boost_boards_close(boards, i);
  DIR *proc = opendir("/proc");
  if (proc == NULL)
    return;
  struct dirent *entry;
  while ((entry = readdir(proc)) != NULL)
    if (isdigit((unsigned char)entry->d_name[0]))
      look_at_process(boards, entry->d_name);
  closedir(proc);
}
