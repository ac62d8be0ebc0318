/* maru/channel.h: results and work between processes of one machine.
 *
 * Two parts, both in shared memory without a name in any file system, both
 * created before fork and inherited:
 *
 *   log     append-only, one producer, one consumer.  Records {length, index,
 *           chunk}.  A record exists once its length has been stored with
 *           release order.  So a producer killed at any instruction leaves a
 *           log that is valid up to its last whole record.
 *
 *   crew    how a coordinator hands out chunks of consecutive indices and how
 *           workers claim them.  A claim is one compare-and-swap on the chunk's
 *           own slot.  There is no moment at which a claimed chunk has no owner
 *           in shared memory, so the items of a dead worker are always known.
 *
 * One log per worker: no lock and no shared cache line stands between two
 * workers.  One doorbell per crew: the coordinator sleeps on one word.
 * The shared pages hold neither pointers nor bounds: what a process needs to
 * find its way is in its own handle, which fork copies.  A stray write into the
 * pages can spoil figures and results, but not lead another process astray.
 *
 * Errors are negative errno.  No function prints, exits or allocates from the
 * heap after creation.  Source of the log: seed 1, figure 13 (Last, Count,
 * Length, Index, Chunk), one log per worker instead of one for all.
 */
#ifndef MARU_CHANNEL_H
#define MARU_CHANNEL_H

#include <maru/wait.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- log --------------------------------------------------------------- */

struct maru_log; /* each process's own handle of a mapping that they share */

/* What the consumer sees of a record.  `chunk` points into the log and is
 * valid until maru_log_release passes it. */
struct maru_record {
  const void *chunk;
  uint64_t length; /* bytes, below 2^48 */
  uint64_t index;
  uint32_t kind; /* the user's tag, 0..32767 */
};

/* Maps a log with room for `capacity` bytes of records (rounded up to a page;
 * sparse: pages cost memory when written).  Each record costs 16 bytes more
 * than its chunk, rounded up to 16.
 *
 * -ENOMEM when the kernel refuses the address space or memfd, -EINVAL for 0 or
 * more than 2^47. */
int maru_log_create(struct maru_log **log, uint64_t capacity);
/* Unmaps and frees it in this process only. */
void maru_log_destroy(struct maru_log *log);

/* Producer.  Reserve gives room for `length` bytes in place (16-byte aligned);
 * nothing is visible until commit.  A second reserve replaces the first.
 * -ENOSPC: the log is used up; it never wraps. */
int maru_log_reserve(struct maru_log *log, uint64_t length, void **chunk);
/* Publishes the reserved record, shortened to `length` (at most what was
 * reserved).  Release: what was written before is visible with the record. */
void maru_log_commit(struct maru_log *log, uint64_t length, uint64_t index, uint32_t kind);
/* Reserve, copy, commit. */
int maru_log_append(struct maru_log *log, uint64_t index, uint32_t kind, const void *chunk,
                    uint64_t length);
/* No more records will come.  Idempotent. */
void maru_log_close(struct maru_log *log);
/* Has the producer said so? */
int maru_log_closed(const struct maru_log *log);
/* Bytes still free for records, with the 16 that each costs. */
uint64_t maru_log_room(const struct maru_log *log);

/* Consumer.  1: *record is the next record.  0: none yet.  -EPIPE: closed and
 * all read.
 *
 * -EBADMSG: the length word is impossible (memory was overwritten).  The call checks the record's
 * place against what this process itself has mapped. */
int maru_log_next(struct maru_log *log, struct maru_record *record);
/* The consumer needs no record before the last one that next returned.  The
 * whole pages of those go back to the system (in steps of at least 1 MiB). */
void maru_log_release(struct maru_log *log);
/* Records committed so far (seed: Count) and bytes used (seed: Last), as the
 * producer noted them.  A producer killed within commit may have left out its last
 * record, which next finds all the same. */
uint64_t maru_log_count(const struct maru_log *log);
uint64_t maru_log_last(const struct maru_log *log);

/* A record may be sent before it is filled: its producer then counts in a word
 * of the chunk what is there.  Stores with release order: a consumer that
 * observes the value sees everything that the producer wrote before. */
void maru_publish(MARU_ATOMIC(uint64_t) * word, uint64_t value);
uint64_t maru_observe(const MARU_ATOMIC(uint64_t) * word);

/* ---- crew -------------------------------------------------------------- */

struct maru_board;
struct maru_crew;

/* Consecutive indices [first, first + count) that are claimed at once. */
struct maru_chunk {
  uint64_t ticket; /* which slot: position in publishing order */
  uint64_t first;
  uint32_t count;
};

/* Counters of one worker.  That worker alone writes them; any process may read them. */
struct maru_worker_counters {
  MARU_ATOMIC(uint64_t) items;   /* evaluated */
  MARU_ATOMIC(uint64_t) busy_ns; /* between claim and done */
  MARU_ATOMIC(uint64_t) gc_ns;   /* of these, in the collector */
  MARU_ATOMIC(uint64_t) current; /* index being evaluated */
};

#define MARU_CREW_MAX_WORKERS 65535u

/* Maps a crew for up to `workers` workers at once and `slots` unfinished
 * chunks (rounded up to a power of two).  -EINVAL, -ENOMEM. */
int maru_crew_create(struct maru_crew **crew, uint32_t workers, uint32_t slots);

/* Most workers of a crew whose waits are on a board. */
#define MARU_CREW_MAX_SEATS 255u
/* Call it before any process waits and before the fork.  From now on the coordinator and each
 * worker wait on a channel of the board.  The board must stay mapped where it is at least as long
 * as the crew.  The lines go back when the caller destroys the crew.  Failure: all is as
 * before.  -E2BIG: too many workers; -ENOSPC: not enough channels are free; -EALREADY; or
 * maru_channel_register's errors. */
int maru_crew_seat(struct maru_crew *crew, struct maru_board *board, uint32_t job);
/* Unmaps and frees it in this process only; gives back the channels that this process took. */
void maru_crew_destroy(struct maru_crew *crew);

/* Coordinator.  Offers a chunk.  -EPIPE: closed.  -EBADMSG: the slot's state is impossible
 * (memory was overwritten).
 *
 * -EAGAIN: the slot it would reuse holds an unfinished chunk.  The bell rings when little is
 * unclaimed, or look again in some ms.  Slots are reused in publishing order. */
int maru_crew_publish(struct maru_crew *crew, uint64_t first, uint32_t count);
/* No chunk will be published any more; workers leave when all are claimed. */
void maru_crew_close(struct maru_crew *crew);
/* Chunks published and not yet claimed. */
uint32_t maru_crew_backlog(const struct maru_crew *crew);
/* The unfinished chunk of a worker, as it was published: 1 and *chunk, or 0.  Exact for a dead
 * worker.  A living worker may be done with the chunk by the time you look. */
int maru_crew_claim_of(struct maru_crew *crew, uint32_t worker, struct maru_chunk *chunk);
/* Takes a dead worker's chunk away (its slot is free again).  Needed
 * before another worker may take over the number. */
void maru_crew_forfeit(struct maru_crew *crew, uint32_t worker);

/* The doorbell: workers ring, the coordinator waits.  `seen` is the value
 * returned by maru_crew_bell before the logs were last read. */
uint32_t maru_crew_bell(const struct maru_crew *crew);
void maru_crew_ring(struct maru_crew *crew);
int maru_crew_await(struct maru_crew *crew, uint32_t seen, struct maru_wait_policy *policy,
                    int64_t deadline_ns);

/* Worker (numbers from 0).  1: *chunk is yours.  0: closed, nothing left.
 * -ETIMEDOUT, -EINTR as maru_wait; -ETIMEDOUT at once where the deadline is 0.  -EINVAL: bad
 * worker number.  -EBUSY: the worker's last chunk is not done. */
int maru_crew_claim(struct maru_crew *crew, uint32_t worker, struct maru_chunk *chunk,
                    struct maru_wait_policy *policy, int64_t deadline_ns);
/* All results of the chunk are in the log.  Rings the bell where at most two chunks a worker are
 * unclaimed, perhaps with some more.  Else there is work for a while, and a ring costs the
 * coordinator a wake-up.  No effect when the worker holds no chunk. */
void maru_crew_done(struct maru_crew *crew, uint32_t worker);
/* The counters of a worker, in the shared pages; they stay as long as the crew.  NULL: bad worker
 * number. */
struct maru_worker_counters *maru_crew_counters(struct maru_crew *crew, uint32_t worker);

/* ---- the map room on the board ------------------------------------------ */

#define MARU_MAP_SECTION "map"
#define MARU_MAP_SECTION_VERSION 1

/* Totals over all parallel maps of all processes of a run; the section's
 * content.  Any process adds to them, and any process reads them. */
struct maru_map_totals {
  MARU_ATOMIC(uint64_t) maps;          /* started */
  MARU_ATOMIC(uint64_t) workers_alive; /* now */
  MARU_ATOMIC(uint64_t) workers_started;
  MARU_ATOMIC(uint64_t) workers_lost; /* died without having been told to */
  MARU_ATOMIC(uint64_t) items;        /* results that arrived */
  MARU_ATOMIC(uint64_t) in_caller;    /* of these, evaluated by the caller after all */
};

/* The totals of the run that this process belongs to (MARU_BOARD); NULL where
 * there is no board or it refuses.  The mapping stays for the process's life. */
struct maru_map_totals *maru_map_totals_open(void);
/* Adds to counter number `which` (its place in the struct); wraps, so a
 * negative delta subtracts. */
void maru_map_totals_add(struct maru_map_totals *totals, unsigned which, int64_t delta);
/* Says a line in the board's text log, for room "map". */
void maru_map_say(const char *line);

#ifdef __cplusplus
}
#endif
#endif
