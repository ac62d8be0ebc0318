/* pen.h: which thread of a worker may write its next record.
 *
 * Internal to maru: of the parallel map.  A worker's items are evaluated by one thread, which
 * writes their results.  While it evaluates, the pen is down. Any thread that sees that the item
 * cannot be finished here may take it. It then writes that the item is sealed, and why, and ends
 * the process.  One of the two writes, never both: the pen is one atomic word.
 *
 * One pen a worker; it lives as long as the process.  A process that the worker forks inherits it,
 * and writes nothing with it.
 */
#ifndef MARU_CHANNEL_PEN_H
#define MARU_CHANNEL_PEN_H

#include <maru/channel.h>
#include <stdbool.h>

struct maru_pen;
struct maru_fd_snapshot;

/* `no_room` is the exit status of a worker whose log is full.  Kinds of record: `leaves` says that
 * the worker ends, for no item's fault; `unstarted` that its initialiser cannot be finished in it.
 * NULL: no memory. */
struct maru_pen *maru_pen_new(int no_room, uint32_t leaves, uint32_t unstarted);
/* Where it writes: one of the two, before the first `down`. */
void maru_pen_on_log(struct maru_pen *pen, struct maru_log *log, struct maru_crew *crew);
void maru_pen_on_socket(struct maru_pen *pen, int fd);

/* The worker's own thread.  From here to `up` it evaluates `item` and writes nothing.  `kind` is
 * that of the record which says that it cannot. */
void maru_pen_down(struct maru_pen *pen, int64_t item, uint32_t kind);
/* It will write.  Does not return where the pen was taken: the process is about to end. */
void maru_pen_up(struct maru_pen *pen);
/* It fills this record (its first word; NULL: none any more).  Only while the pen is up. */
void maru_pen_filling(struct maru_pen *pen, MARU_ATOMIC(uint64_t) * word);

/* Any thread.  The item that is evaluated now, or negative. */
int64_t maru_pen_item(struct maru_pen *pen);
/* Any thread.  If `item` is still being evaluated: closes the record that is being filled (the top
 * bit of its first word), writes a record of that item with the text, which is ASCII, as
 * Data.Binary writes a String, and ends the process with status 0.  Else returns. */
void maru_pen_seal(struct maru_pen *pen, int64_t item, const char *reason);
/* What the calling thread demands can never be had in this process.  If that is a worker, the same
 * for the item that it evaluates now.  Between items this returns and the next one is sealed as it
 * goes down: it may wait for the thread, for ever. */
void maru_pen_seal_here(const char *reason);
/* The same for a thread that the initialiser has left behind: the record is `unstarted`. */
void maru_pen_seal_start_here(const char *reason);
/* The process can go on no more, for want of something that the system refuses.  The item that is
 * evaluated now is sealed; between items the worker leaves.  Only where another thread is refused
 * something while the worker's own writes, the status is all that is said; on a log it is then
 * closed, by which the coordinator knows that no item chose the status. */
_Noreturn void maru_pen_end_here(const char *reason, int status);

/* The descriptors of this process now are those whose other end nobody else has. Called once the
 * inherited ones are sealed, before any code of the user's.  Negative errno: a worker that cannot
 * be watched. */
int maru_pen_note_own(struct maru_pen *pen);
/* What `guard` needs and the system may refuse, while no code of the user's is to blame for it.
 * Negative errno: no socket pair. */
int maru_pen_build_wall(struct maru_pen *pen);

/* From now on the sealed descriptors of the snapshot (base/process.h) are a wall: a thread that
 * reads or writes one waits for ever. The thread that watches over the worker (base/watch.h) then
 * seals the item.  Called when no item has begun, after `build_wall`.  Negative errno: a worker
 * that cannot be watched.
 */
int maru_pen_guard(struct maru_pen *pen, const struct maru_fd_snapshot *snapshot);
/* Will nothing happen in this process any more but by the calling thread?  See
 * maru_waits_are_endless: the thread holds no capability (a safe foreign call), or those that
 * return to it would seem to sleep for ever.  After `note_own`. */
bool maru_pen_rests(const struct maru_pen *pen);

#endif
