/* clerk.h: what takes long and is not urgent: the search for boards, and the proof that a
 * thread may be touched.
 *
 * Both read /proc, as much of it as a user likes to put there; so they are done by a
 * thread of normal priority.  The daemon's worker hands it a list and takes the
 * answers at a later tick; it never waits.  How much is read for one user is bounded:
 * others have their turn. A process is charged to its real user, whatever it may be dumped as or
 * its effective user is. One of another user namespace to the user who made that.
 */
#ifndef MARU_BOOST_CLERK_H
#define MARU_BOOST_CLERK_H

#include "boards.h"

#include <dirent.h>
#include <semaphore.h>

#define BOOST_ASKS_A_BOARD 16u
#define BOOST_ASKS (BOOST_BOARDS * BOOST_ASKS_A_BOARD)
#define BOOST_FINDS 8u
#define BOOST_KNOWN_USERS 256u

struct boost_ask {
  const struct boost_board *board;
  unsigned slot;
  uint32_t line;
  int32_t tid;
  uint64_t start;
  /* The answer: of boost_admit; -EINTR: not looked at. */
  struct boost_subject subject;
  int rc;
};

/* The worker's while `busy` is 0, the thread's otherwise. */
struct boost_clerk {
  _Atomic uint32_t busy;
  sem_t asked;
  struct boost_ask asks[BOOST_ASKS];
  unsigned ask_count;
  bool searches;
  bool dry_run; /* boards are not locked */
  struct boost_served served;
  struct {
    ino_t inode; /* 0: none */
    uid_t user;
  } boards[BOOST_BOARDS];
  struct boost_board *old[BOOST_BOARDS]; /* to be freed */
  unsigned old_count;
  /* Answers. */
  struct boost_board *found[BOOST_FINDS];
  unsigned found_count;
  bool full;                /* a board was left out: no room, or the user has his number */
  bool taken;               /* another daemon looks after a board */
  bool complete;            /* a search has ended; then: */
  ino_t seen[BOOST_BOARDS]; /* the boards that a process holds */
  int64_t took_ns;          /* CPU time of the search */
  /* The thread's own. */
  DIR *proc;
  ino_t user_namespace; /* ours */
  struct {
    uid_t user;
    unsigned looked;
  } users[BOOST_KNOWN_USERS];
  unsigned user_count;
};

/* Starts the thread, which ends with the process.  0 or negative errno. */
int boost_clerk_start(struct boost_clerk *clerk);
/* True: the answers to the last list (at first: to an empty one) are there. */
bool boost_clerk_idle(struct boost_clerk *clerk);
/* Hands the list over.  The answers of the list before are forgotten. */
void boost_clerk_ask(struct boost_clerk *clerk);

#endif
