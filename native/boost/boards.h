/* boards.h: the boards that the daemon looks at.
 *
 * A board is opened only when it is a memfd of an ordinary kernel. Its file system is compared with
 * that of a memfd of our own before anything is opened for reading or writing. It must be sealed
 * against shrinking, and owned by our user; if we are root, by anybody.  Its size comes from the
 * kernel, and is bounded: boards take the daemon's addresses.
 */
#ifndef MARU_BOOST_BOARDS_H
#define MARU_BOOST_BOARDS_H

#include "engine.h"
#include "subject.h"

#include <maru/board.h>

#define BOOST_BOARDS 32
#define BOOST_BOARDS_A_USER 8                 /* of those that root finds */
#define BOOST_BOARD_BYTES (UINT64_C(1) << 33) /* a larger one is not looked after */

struct boost_board {
  struct maru_board board;       /* its descriptor holds the lock */
  struct maru_wait_table *table; /* NULL: no channel registered yet */
  struct stat status;            /* of the memfd */
  uint32_t used;                 /* lines that were ever seen: never fewer, whatever it says */
  uint32_t user;                 /* its owner's number */
  unsigned unseen;               /* searches that found no process with it */
  uint32_t first, count;         /* of its views in this tick */
  uint32_t turn;                 /* the line whose CPU is read next */
  struct boost_line *lines;      /* MARU_WAIT_CHANNELS */
  uint64_t remembered[MARU_WAIT_CHANNELS / 64]; /* a bit for each of them that is not empty */
  struct boost_subject *subjects; /* the same number, in memory shared with the rescuer */
  struct boost_memory {
    int64_t ask_again_ns; /* a thread that was refused is not asked about each tick */
    int64_t back_off_ns;
    int64_t seated_ns; /* when `cpu` was read */
    uint32_t cpu;
    int32_t gone; /* a thread that was known and has ended, and when it started */
    uint64_t gone_start;
  } * memory;
};

struct boost_boards {
  struct boost_board *slots[BOOST_BOARDS]; /* NULL: free */
  struct boost_subject *subjects;          /* BOOST_BOARDS * MARU_WAIT_CHANNELS */
};

/* Opens the board at that path, unless `skips` says no.  0; -EALREADY: skipped; -EACCES:
 * another user's; -EFBIG: too large; -EPROTO: no board; else as maru_board_open. */
int boost_board_open(struct boost_board **made, const char *path,
                     bool (*skips)(void *context, const struct stat *status), void *context);
/* From now on no other daemon looks after it (the kernel's word, F_OFD_SETLK); ends with the
 * processes that hold the descriptor.  -EBUSY: another one does. */
int boost_board_lock(struct boost_board *one);
/* Unmaps and frees it; nobody of it is raised. */
void boost_board_free(struct boost_board *one);
/* Gives it a place.  -ENOSPC. */
int boost_boards_put(struct boost_boards *boards, struct boost_board *made);
/* Every raise ends, and its mark on the board goes.  How many could not be ended. */
unsigned boost_board_settle(struct boost_board *one);
/* Settles it, forgets its threads and takes it out; NULL while a raise cannot be ended. */
struct boost_board *boost_boards_take(struct boost_boards *boards, unsigned slot);

#endif
