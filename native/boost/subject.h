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
 *     lowered nor raised; never what the board says.  What looks like a raise (of
 *     another daemon, or of one that died) is never taken for somebody's own place;
 *   - it is restored only where the kernel would let its owner do that: a nice of 19
 *     may be an administrator's;
 *   - it is raised only where its children, which begin at nice 0, get nothing that it may
 *     not have, and to a real-time priority only where no quota is passed by that.
 */
#ifndef MARU_BOOST_SUBJECT_H
#define MARU_BOOST_SUBJECT_H

#include "priority.h"
#include "task.h"

#include <stdbool.h>
#include <sys/stat.h>

/* GENTLY: from nice 0 to -1.  Each of n other threads there keeps (n + m) / (n + 1.25 m) of its
 * fair share beside m that are raised, 0.8 at least. */
enum boost_how { BOOST_BY_FIFO, BOOST_BY_NICE, BOOST_BY_NOTHING, BOOST_GENTLY };

/* In memory that the daemon shares with its rescuer. */
struct boost_subject {
  int32_t tid; /* 0: free */
  int32_t tgid;
  int32_t pidfd;
  uint64_t start;
  uid_t owner;
  struct mr_sched normal;
  bool capable;       /* of CAP_SYS_NICE */
  bool has_quota;     /* its control groups bound its CPU time */
  enum boost_how how; /* of the raise */
  int32_t found_nice; /* under a raise by FIFO: another nice is an administrator's */
  _Atomic uint32_t
      touched; /* 1 from before a raise until after its end: one that failed is tried again */
};

/* Whom root serves; none named: everybody. */
#define BOOST_NAMES 64u
struct boost_served {
  uid_t users[BOOST_NAMES];
  gid_t groups[BOOST_NAMES];
  unsigned user_count, group_count;
};

/* Runs of that owner, whose process says of itself what is in `task`, are served. */
bool boost_serves(const struct boost_served *served, const struct mr_task *task, uid_t owner);

/* Checks the thread; `board` is what fstat says of the board.  0, or why not:
 * -ESRCH gone or another one, -EPERM not the owner's or not served, -EACCES does not have the
 * board mapped, -E2BIG too many mappings to look through, -ENOTSUP a policy that cannot
 * be given back (SCHED_DEADLINE).  Ask again later: -EAGAIN lowered at present; -EBUSY
 * raised already, and then the subject stays, for boost_put_back.  Reads up to 1 MiB of
 * /proc: not for a loop that must not be late. */
int boost_admit(struct boost_subject *subject, int32_t tid, uint64_t start,
                const struct stat *board, const struct boost_served *served);
void boost_dismiss(struct boost_subject *subject);
/* Its process lives.  O(1). */
bool boost_lives(const struct boost_subject *subject);

/* What a dead daemon left: to the place that its line claims if a raise from there leads
 * to where it is, else to SCHED_OTHER.  Never up. */
int boost_put_back(struct boost_subject *subject, const struct mr_sched *claimed);

/* The CPU that it is on or ran on last; negative errno. */
int boost_cpu(int32_t tid);

/* -ESRCH and friends: not done, or undone; -EBUSY: somebody else raised it; -ENOTSUP: not from that
 * place (gently from another than nice 0; where a child of the raised thread would get what the
 * thread may not have; nice 19 that it could not leave), or by FIFO past the quota of its control
 * groups. */
int boost_raise(struct boost_subject *subject, enum boost_how how);
/* The end of a raise, if there was one; a thread that was put elsewhere meanwhile, by itself or by
 * an administrator, stays there. Where the kernel refuses to take "reset on fork" away that stays.
 * Failure: the mark stays. */
int boost_end(struct boost_subject *subject);
/* A lowered thread to its own place; -EPERM where its owner could not do that. */
int boost_restore(struct boost_subject *subject);
/* For the rescuer, which has no pidfds: what was raised, or is lowered, goes to its own place.
 * It is 0 too where nothing had to be done, or the thread has gone. */
int boost_rescue(const struct boost_subject *subject);

/* What this process may do to others and undo, tried with a child: FIFO, else nice, else
 * nothing. */
enum boost_how boost_means(void);

#endif
