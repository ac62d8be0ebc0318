/* records.h: where the profile of mutexes keeps what it records (internal): processes, threads'
 * slots, rows and histograms, on a board (maru/lockprof.h).  Nothing waits or fails: what finds no
 * room is counted. */
#ifndef MARU_PRELOAD_RECORDS_H
#define MARU_PRELOAD_RECORDS_H

#include "figures.h"
#include <maru/lockprof.h>

#include <stdbool.h>
#include <stddef.h>

#define MR_RECORDS_NO_ROOM UINT32_MAX

/* Where an address lies: MARU_LOCKPROF_PLACE, or 0 if in no file. */
typedef uint64_t mr_records_locate(struct maru_lockprof *board, const void *address);

struct mr_records {
  struct maru_lockprof *board; /* NULL: nothing is recorded */
  mr_records_locate *locate;
};

/* The next of a pool; MR_RECORDS_NO_ROOM: there is none. */
uint32_t mr_records_take(_Atomic uint32_t *used, uint32_t size);

/* A slot that a thread of this process (its number + 1) has left, else a new one, else NULL.  It is
 * the caller's, and TAKEN. */
struct maru_lockprof_thread *mr_records_slot(struct maru_lockprof *board, uint32_t process);
/* All acquisitions that were counted in a slot. */
uint64_t mr_records_acquisitions(struct maru_lockprof *board, struct maru_lockprof_thread *thread);
/* Gives back that of the calling thread, which is TAKEN or LEAVING.  May wait for a thread that
 * looks at it. */
void mr_records_leave(struct maru_lockprof_thread *slot);
/* Nobody gives this one back: it is free once its thread is gone. */
void mr_records_abandon(struct maru_lockprof_thread *slot);
/* From now on nobody gives a slot back: those of the process that are TAKEN are LEAVING. */
void mr_records_leaving(struct maru_lockprof *board, uint32_t process);

/* The row of a mutex and a site in the thread's own table. Or the row of all other mutexes at
 * the site, or the thread's for all others. `makes`: one that is not there yet is made. */
struct maru_lockprof_row *mr_records_row(const struct mr_records *records,
                                         struct maru_lockprof_thread *thread, const void *mutex,
                                         const void *site, int kind, bool makes);
/* NULL: a row of several. */
struct maru_lockprof_mutex *mr_records_mutex(struct maru_lockprof *board,
                                             const struct maru_lockprof_row *row);

/* A thread's pace at the row's mutex; NULL: no room. */
struct maru_lockprof_pace *mr_records_pace(struct maru_lockprof *board,
                                           struct maru_lockprof_thread *thread,
                                           struct maru_lockprof_row *row);
/* Somebody waits for the mutex: from now on it has a fairness. */
void mr_records_watch(struct maru_lockprof *board, struct maru_lockprof_mutex *mutex);

/* A time that stands for `weight` of them. */
void mr_records_time(struct maru_lockprof *board, struct maru_lockprof_times *times, uint64_t ns,
                     uint32_t weight);

#endif
