/* subject.h: the threads that the daemon acts on, and the proof that it may.
 *
 * A board says: "thread TID, started at S, waits here".  The daemon may be root and
 * the board a lie, so before it acts the kernel is asked:
 *   - the thread's process has the board mapped: it came by itself;
 *   - its real, effective, saved and file system user are the board's owner, and
 *     that one is the daemon's user unless that is root;
 *   - it started when the board says, and its process lives after the action too
 *     (pidfd): the number was not used again meanwhile; else the action is undone;
 *   - its own place in the scheduler is what the kernel said while it was neither
 *     lowered nor raised; never what the board says.
 */
#ifndef MARU_BOOST_SUBJECT_H
#define MARU_BOOST_SUBJECT_H

#include "priority.h"

#include <sys/stat.h>

enum boost_how { BOOST_BY_FIFO, BOOST_BY_NICE, BOOST_BY_NOTHING };

/* In memory that the daemon shares with its guard. */
struct boost_subject {
  int32_t tid; /* 0: free */
  int32_t tgid;
  int32_t pidfd;
  uint64_t start;
  uid_t owner;
  struct mr_sched normal;
  _Atomic uint32_t touched; /* 1 from before a raise until after its end */
};

/* Checks the thread; `board` is what fstat says of the board.  0, or why not:
 * -ESRCH gone or another one, -EPERM not the owner's, -EACCES does not have the
 * board mapped, -EAGAIN lowered at present: ask again later. */
int boost_admit(struct boost_subject *subject, int32_t tid, uint64_t start,
                const struct stat *board);
void boost_dismiss(struct boost_subject *subject);

/* -ESRCH and friends: not done, or undone. */
int boost_raise(struct boost_subject *subject, enum boost_how how);
/* The end of a raise, if there was one; a thread that has lowered itself meanwhile stays lowered.
 */
int boost_end(struct boost_subject *subject);
/* A lowered thread to its own place. */
int boost_restore(struct boost_subject *subject);
/* For the guard, which has no pidfds: whatever was raised, or is lowered, goes to its
 * own place. */
int boost_rescue(const struct boost_subject *subject);

/* What this process may do to others: FIFO, else nice, else nothing. */
enum boost_how boost_means(void);

#endif
