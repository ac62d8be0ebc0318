/* maru/lockprof.h: the section "lockprof" on a board: which thread waited for which mutex, where
 * in the program, for how long.  All processes of a run with the profile (docs/lock.md) share it.
 *
 * A thread has a slot, and for each pair of a mutex and a call site a row; only the thread itself
 * writes to them.  Rows, and the classes of their histograms, octave by octave, come from pools
 * that never shrink.  So what was recorded stays when threads and processes end, however they do.
 *
 * What finds no room is counted: in a row for the site alone, or in the slot's row `others`.  A
 * histogram's class is counted in `octaves_lost`, anything else in `lost`.  All words are relaxed
 * counters: a reader at any time may be off by what is just happening.
 *
 * Places.  MARU_LOCKPROF_PLACE(module, offset): an address as the module's file knows it.  Module 0
 * stands for none: then it is the address in the process.
 * Time is in nanoseconds of a clock of the process; only differences mean anything.
 */
#ifndef MARU_LOCKPROF_H
#define MARU_LOCKPROF_H

#include <maru/histogram.h>
#include <maru/wait.h> /* MARU_ATOMIC */
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MARU_LOCKPROF_SECTION "lockprof"
#define MARU_LOCKPROF_VERSION 3u

/* Names of functions, separated by commas: their callers are the places that take a mutex. */
#define MARU_LOCKPROF_SKIP_ENV "MARU_LOCK_SKIP"

#define MARU_LOCKPROF_PROCESSES 512u
#define MARU_LOCKPROF_MODULES 1024u
#define MARU_LOCKPROF_THREADS 2048u
#define MARU_LOCKPROF_MUTEXES 16384u /* a power of two: a table by hash */
#define MARU_LOCKPROF_ROWS 49152u
#define MARU_LOCKPROF_PACES 16384u
#define MARU_LOCKPROF_FAIRNESSES 1024u
#define MARU_LOCKPROF_OCTAVES 65536u

/* A thread's rows by hash; powers of two.  Three eighths are for pairs of a mutex and a site, an
 * eighth for sites whose other mutexes found no room.  Half stays empty, so that a look soon finds
 * what is not there.  A thread whose own table has no room for another pair takes a larger one, as
 * long as there are any. */
#define MARU_LOCKPROF_TABLE 1024u
#define MARU_LOCKPROF_LARGER 32768u
#define MARU_LOCKPROF_LARGERS 64u
#define MARU_LOCKPROF_TABLE_ROW 0xffffu /* the part of an entry that is the row */
#define MARU_LOCKPROF_RING 64u
#define MARU_LOCKPROF_SERIES 256u

/* Of acquisitions that found the mutex free, holds are timed by chance.  One in N of a thread's is
 * timed, and counts for N.  N is 1, 2, 4, ... up to MARU_LOCKPROF_RAREST, so chosen that a thread
 * reads the clock some 30 000 times a second.  The first MARU_LOCKPROF_ALL of a row are all timed.
 */
#define MARU_LOCKPROF_RAREST 64u
#define MARU_LOCKPROF_ALL 64u

#define MARU_LOCKPROF_PLACE(module, offset)                                                        \
  ((uint64_t)(module) << 48 | ((uint64_t)(offset)&UINT64_C(0xffffffffffff)))

struct maru_lockprof_process {
  MARU_ATOMIC(uint32_t) ready; /* the rest of it is there */
  int32_t pid;
  uint32_t sockets;   /* 1: hand-overs between sockets cannot be; 0: unknown */
  uint32_t cpu_clock; /* 1: times are read from the CPU, 0: from the system */
  int64_t began_ns;
  /* Lock and unlock of a free mutex, measured when it began, in picoseconds: as without the
   * profile, and with it. */
  uint64_t cost_plain_ps, cost_profiled_ps;
  char name[24];
};

struct maru_lockprof_module {
  MARU_ATOMIC(uint32_t) ready;
  char path[252];
};

struct maru_lockprof_mutex {
  MARU_ATOMIC(uint64_t) key;      /* number of the process << 48 | address; 0: none */
  MARU_ATOMIC(uint64_t) place;    /* 0: not in a module (heap, stack) */
  MARU_ATOMIC(uint32_t) fairness; /* number + 1; 0: nobody has waited; ~0: no room */
  MARU_ATOMIC(uint32_t) waiters;
  MARU_ATOMIC(uint64_t) passes; /* acquisitions while somebody waited */
  MARU_ATOMIC(uint32_t) socket; /* of the last holder, + 1 */
  uint32_t kind;                /* glibc's */
  uint64_t apart[3];
};

/* A window of time and those who wanted the mutex in it. */
struct maru_lockprof_window {
  MARU_ATOMIC(uint64_t) number; /* + 1; 0: none yet */
  MARU_ATOMIC(uint64_t) threads;
  MARU_ATOMIC(uint64_t) sum, squares; /* of the threads' acquisitions */
};

struct maru_lockprof_scale {
  MARU_ATOMIC(uint64_t) windows;  /* closed, with two threads or more */
  MARU_ATOMIC(uint64_t) jain_ppm; /* sum of Jain's index over them, in millionths */
  MARU_ATOMIC(uint64_t) least_ppm;
  MARU_ATOMIC(uint64_t) late; /* came after its window was closed, and is missing there */
  struct maru_lockprof_window ring[MARU_LOCKPROF_RING];
};

/* Windows of 1, 10 and 100 ms. */
#define MARU_LOCKPROF_SCALES 3u

struct maru_lockprof_point {
  MARU_ATOMIC(uint32_t) acquisitions;
  MARU_ATOMIC(uint32_t) windows; /* that the next is a sum over */
  MARU_ATOMIC(uint64_t) jain_ppm;
};

struct maru_lockprof_fairness {
  MARU_ATOMIC(uint32_t) busy;
  MARU_ATOMIC(uint32_t) mutex; /* its place in the table */
  struct maru_lockprof_scale scales[MARU_LOCKPROF_SCALES];
  /* Over time: point i is about the windows of 100 ms from first + i * step on.  When there is no
   * room for the next, two become one and the step doubles. */
  MARU_ATOMIC(uint64_t) first;
  MARU_ATOMIC(uint64_t) step; /* 0: no point yet */
  uint64_t apart[5];
  struct maru_lockprof_point series[MARU_LOCKPROF_SERIES];
};

/* What a thread has taken of a mutex since somebody waited for it; what is not in the windows yet
 * is acquisitions - handed_in. */
struct maru_lockprof_pace {
  MARU_ATOMIC(uint64_t) acquisitions;
  MARU_ATOMIC(uint64_t) window[MARU_LOCKPROF_SCALES]; /* number + 1 */
  MARU_ATOMIC(uint64_t) handed_in[MARU_LOCKPROF_SCALES];
  MARU_ATOMIC(uint32_t) mutex;
  uint32_t next; /* of the same thread, number + 1 */
};

enum maru_lockprof_of { MARU_LOCKPROF_WAIT = 0, MARU_LOCKPROF_HOLD, MARU_LOCKPROF_TIMES };

struct maru_lockprof_times {
  MARU_ATOMIC(uint64_t) samples; /* that were timed */
  MARU_ATOMIC(uint64_t) count;   /* that they stand for; so do the next, and the classes */
  MARU_ATOMIC(uint64_t) sum_ns, longest_ns;
  MARU_ATOMIC(uint64_t) octaves_lost;                        /* of `count`, without a class */
  MARU_ATOMIC(uint32_t) octaves[MARU_HISTOGRAM_OCTAVES + 1]; /* number + 1; 0: all zero */
};

struct maru_lockprof_row {
  uint64_t address;     /* of the mutex; 0: all others at the site */
  uint64_t called_from; /* return address in the process */
  uint64_t site;        /* the same as a place */
  uint32_t mutex;       /* its place in the table; ~0: no room */
  uint32_t pace;        /* number + 1 */
  MARU_ATOMIC(uint64_t) acquisitions;
  MARU_ATOMIC(uint64_t) contended;  /* of these, that found it taken */
  MARU_ATOMIC(uint64_t) reacquired; /* of these, on return from a condition variable */
  MARU_ATOMIC(uint64_t) reentered;  /* by who held it already: not among the acquisitions */
  MARU_ATOMIC(uint64_t) refused;    /* trylock found it taken */
  MARU_ATOMIC(uint64_t) timed_out;
  MARU_ATOMIC(uint64_t) near, far; /* contended ones, by the last holder's socket */
  MARU_ATOMIC(uint64_t) longest_bypass;
  uint64_t apart[3];
  struct maru_lockprof_times times[MARU_LOCKPROF_TIMES];
  uint64_t apart_too[2];
};

/* Functions to be looked past: not asked for, found in no process so far, found in one. */
enum maru_lockprof_skips {
  MARU_LOCKPROF_SKIPS_OFF = 0,
  MARU_LOCKPROF_SKIPS_NONE,
  MARU_LOCKPROF_SKIPS
};

enum maru_lockprof_slot {
  MARU_LOCKPROF_FREE = 0, /* or about to be TAKEN, or looked at */
  MARU_LOCKPROF_TAKEN,
  MARU_LOCKPROF_LEFT,
  MARU_LOCKPROF_LEAVING
};

struct maru_lockprof_thread {
  /* LEFT: its thread has ended, and the next of the same process goes on with it.  LEAVING: the
   * same once the thread `tid` is gone. */
  MARU_ATOMIC(uint32_t) state;
  MARU_ATOMIC(uint32_t) process;
  MARU_ATOMIC(uint32_t) tid; /* of the last */
  MARU_ATOMIC(uint32_t) rows;
  MARU_ATOMIC(uint64_t) unmatched; /* holds that were timed, and whose release was not seen */
  MARU_ATOMIC(uint32_t) paces;
  MARU_ATOMIC(uint32_t) larger;    /* number + 1 of the table that it has instead; 0: its own */
  uint64_t random;                 /* the state of its chances */
  MARU_ATOMIC(uint64_t) published; /* of its acquisitions, in "lockwaits" */
  uint64_t apart_too[2];
  struct maru_lockprof_row others;
  MARU_ATOMIC(uint32_t) table[MARU_LOCKPROF_TABLE]; /* a row's number + 1, bits of a hash */
};

struct maru_lockprof {
  /* How many of each were asked for; may be more than there are. */
  MARU_ATOMIC(uint32_t) processes, modules, threads, mutexes, rows, paces, fairnesses, octaves;
  MARU_ATOMIC(uint32_t) largers;
  MARU_ATOMIC(uint32_t) skips; /* enum maru_lockprof_skips */
  MARU_ATOMIC(uint64_t) lost;  /* acquisitions of threads without a slot */
  MARU_ATOMIC(uint64_t) lost_processes;
  uint64_t apart;
  struct maru_lockprof_process process[MARU_LOCKPROF_PROCESSES];
  struct maru_lockprof_module module[MARU_LOCKPROF_MODULES]; /* module m is number m - 1 */
  struct maru_lockprof_mutex mutex[MARU_LOCKPROF_MUTEXES];
  struct maru_lockprof_fairness fairness[MARU_LOCKPROF_FAIRNESSES];
  struct maru_lockprof_pace pace[MARU_LOCKPROF_PACES];
  struct maru_lockprof_thread thread[MARU_LOCKPROF_THREADS];
  struct maru_lockprof_row row[MARU_LOCKPROF_ROWS];
  MARU_ATOMIC(uint64_t) octave[MARU_LOCKPROF_OCTAVES][MARU_OCTAVE_CLASSES];
  MARU_ATOMIC(uint32_t) larger[MARU_LOCKPROF_LARGERS][MARU_LOCKPROF_LARGER];
};

#ifdef __cplusplus
}
#endif
#endif
