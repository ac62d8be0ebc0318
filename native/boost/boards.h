/* boards.h: the boards that the daemon looks at.
 *
 * A board is opened only when it is a memfd of an ordinary kernel (the file system
 * is compared with that of a memfd of our own before anything is opened for
 * reading or writing), sealed against shrinking, and owned by our user or, if we
 * are root, by anybody.  Its size comes from the kernel.
 */
#ifndef MARU_BOOST_BOARDS_H
#define MARU_BOOST_BOARDS_H

#include "engine.h"
#include "subject.h"

#include <maru/board.h>

#define BOOST_BOARDS 32

struct boost_board {
  struct maru_board board;
  struct maru_wait_table *table; /* NULL: no channel registered yet */
  struct stat status;            /* of the memfd */
  uint32_t used;                 /* lines that were ever seen: never fewer, whatever it says */
  struct boost_state state;
  struct boost_line *lines;       /* MARU_WAIT_CHANNELS */
  struct boost_subject *subjects; /* the same number, in memory shared with the guard */
  int64_t *ask_again_ns;          /* a thread that was refused is not asked about each tick */
};

struct boost_boards {
  struct boost_board *slots[BOOST_BOARDS]; /* NULL: free */
  struct boost_subject *subjects;          /* BOOST_BOARDS * MARU_WAIT_CHANNELS */
};

/* Opens the board at that path, if it is none that is open already.  0; -EEXIST;
 * -ENOSPC; -EACCES: another user's; -EPROTO: no board; else as maru_board_open. */
int boost_boards_open(struct boost_boards *boards, const char *path);
/* Looks through /proc for the boards of living processes, opens new ones; closes
 * those whose owner has gone. */
void boost_boards_find(struct boost_boards *boards);
/* Every raise ends, and its mark on the board goes.  How many could not be ended. */
unsigned boost_board_settle(struct boost_board *one);
/* Settles it, forgets its threads, unmaps it; nothing while a raise cannot be ended. */
void boost_boards_close(struct boost_boards *boards, unsigned slot);

#endif
