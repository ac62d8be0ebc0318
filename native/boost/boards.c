#define _GNU_SOURCE
#include "boards.h"

#include "shared.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A memfd of the right user and size; its descriptor is by O_PATH. */
static int check_path(const char *path, struct stat *status) {
  int fd = mr_memfd_at(path, status);
  if (fd < 0)
    return fd;
  int rc = geteuid() != 0 && status->st_uid != geteuid()   ? -EACCES
           : (uint64_t)status->st_size > BOOST_BOARD_BYTES ? -EFBIG
                                                           : 0;
  if (rc == 0)
    return fd;
  close(fd);
  return rc;
}

static struct boost_board *new_board(void) {
  struct boost_board *made = calloc(1, sizeof *made);
  if (made == NULL)
    return NULL;
  made->lines = calloc(MARU_WAIT_CHANNELS, sizeof *made->lines);
  made->memory = calloc(MARU_WAIT_CHANNELS, sizeof *made->memory);
  if (made->lines != NULL && made->memory != NULL)
    return made;
  boost_board_free(made);
  return NULL;
}

void boost_board_free(struct boost_board *one) {
  if (one->board.base != NULL)
    maru_board_close(&one->board);
  free(one->lines);
  free(one->memory);
  free(one);
}

static int open_checked(struct boost_board **made, int fd, const struct stat *status) {
  char path[32];
  struct boost_board *one = new_board();
  if (one == NULL)
    return -ENOMEM;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int rc = maru_board_open_of(&one->board, path, status->st_uid);
  if (rc < 0) {
    one->board.base = NULL;
    boost_board_free(one);
    return rc;
  }
  one->status = *status;
  *made = one;
  return 0;
}

int boost_board_open(struct boost_board **made, const char *path,
                     bool (*skips)(void *context, const struct stat *status), void *context) {
  struct stat status;
  int fd = check_path(path, &status);
  if (fd < 0)
    return fd;
  int rc = skips(context, &status) ? -EALREADY : open_checked(made, fd, &status);
  close(fd);
  return rc;
}

int boost_board_lock(struct boost_board *one) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(one->board.fd, F_OFD_SETLK, &whole) == 0)
    return 0;
  return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}

/* The number of the user's first board. */
static uint32_t number_of(const struct boost_boards *boards, uid_t user, unsigned otherwise) {
  for (uint32_t i = 0; i < BOOST_BOARDS; i++)
    if (boards->slots[i] != NULL && boards->slots[i]->status.st_uid == user)
      return boards->slots[i]->user;
  /* A number that no other user has. */
  uint32_t taken = 0;
  for (uint32_t i = 0; i < BOOST_BOARDS; i++)
    if (boards->slots[i] != NULL)
      taken |= 1u << boards->slots[i]->user;
  return taken != UINT32_MAX ? (uint32_t)__builtin_ctz(~taken) : otherwise;
}

int boost_boards_put(struct boost_boards *boards, struct boost_board *made) {
  unsigned slot = 0;
  while (slot < BOOST_BOARDS && boards->slots[slot] != NULL)
    slot++;
  if (slot == BOOST_BOARDS)
    return -ENOSPC;
  made->user = number_of(boards, made->status.st_uid, slot);
  made->subjects = boards->subjects + (size_t)slot * MARU_WAIT_CHANNELS;
  boards->slots[slot] = made;
  return 0;
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

struct boost_board *boost_boards_take(struct boost_boards *boards, unsigned slot) {
  struct boost_board *old = boards->slots[slot];
  if (boost_board_settle(old) > 0)
    return NULL;
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i++)
    if (old->subjects[i].tid != 0)
      boost_dismiss(&old->subjects[i]);
  boards->slots[slot] = NULL;
  return old;
}
