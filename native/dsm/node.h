/* node.h: what other parts of libmaru-dsm may ask of this process's node (internal).
 *
 * Objects of the core have one number space: MR_KINDS kinds of MARU_DSM_IDS ids each, which belong
 * to the program, and after them the library's own.
 */
#ifndef MARU_DSM_NODE_H
#define MARU_DSM_NODE_H

#include <maru/dsm.h>

#include "end.h"
#include "manager.h"

#include <stdbool.h>
#include <time.h>
#include <ucontext.h>

#define MR_JOB_NODES_MAX 256u
/* Where the shared memory lies: far from where the system, the heap and the address sanitizer put
 * things; the thread sanitizer allows few places. */
#if defined(__SANITIZE_THREAD__)
#define MR_ADDRESS ((uint8_t *)UINT64_C(0x004000000000))
#else
#define MR_ADDRESS ((uint8_t *)UINT64_C(0x300000000000))
#endif

enum {
  MR_LOCKS = 0,
  MR_BARRIERS = MARU_DSM_IDS,
  MR_COUNTERS = 2 * MARU_DSM_IDS,
  MR_SEMAPHORES = 3 * MARU_DSM_IDS,
  MR_FLAGS = 4 * MARU_DSM_IDS,
  MR_CONDITIONS = 5 * MARU_DSM_IDS,
  MR_LEAVING = 6 * MARU_DSM_IDS, /* barrier */
  MR_JOINED,                     /* barrier */
  MR_PROGRAM,                    /* counter: node 0's program */
  MR_ONE_MEMORY,                 /* counter: nodes that can use node 0's memory as it is */
  MR_FENCE,                      /* counter */
  MR_HEAP,                       /* counter: bytes of shared memory given out (parmacs.c) */
  MR_NAMES,                      /* counter: ids given out */
  MR_TAKEN,                      /* semaphore: a process has taken its image */
  MR_TABLE,                      /* lock: of the threads that there are (threads.c) */
  MR_FIRST_USE,                  /* lock: objects of threads that get their ids when first used */
  MR_START,                      /* semaphores, one per node: it has something to do */
  MR_ENDED = MR_START + MR_JOB_NODES_MAX, /* semaphores, one per node: it has done it */
  MR_OBJECTS = MR_ENDED + MR_JOB_NODES_MAX
};

/* Program memory that becomes shared: whole pages, the same on every node. */
struct mr_globals {
  void *address;
  size_t size;
};

/* maru_dsm_init; `globals`: NULL or what becomes shared; `mib`: how much memory where
 * MARU_DSM_MIB is not set. */
void mr_node_start(const struct mr_globals *globals, unsigned mib);
bool mr_node_started(void);
/* The program says what it accesses. */
bool mr_node_unwatched(void);
/* Nobody has to know what it accesses: it is alone, or all nodes use one memory. */
bool mr_node_lone(void);
int64_t mr_node_request(enum mr_op op, uint32_t object, int64_t argument);
/* MR_COMPARE_SWAP of a counter; its value before. */
int64_t mr_node_swap(uint32_t object, int64_t expected, int64_t value);
/* The shared memory that maru_dsm_alloc gives out. */
uint8_t *mr_node_memory(size_t *size);
/* An access to the page is seen (mr_stack_end_at), where others are not, too. */
void mr_node_guard(const void *page);
/* The site that allocated that, for the report. */
void mr_node_site(const void *from, size_t size, const char *site);
/* ---- checkpoints (checkpoint.h) ---- */

/* As clock_gettime, for the program: where it is repeated it sees what it saw (replay.h). By its
 * thread alone. */
int mr_node_clock(clockid_t clock, struct timespec *now);

struct mr_checkpoint_head;
struct mr_store;
/* How the program stands still for its image. */
struct mr_stood {
  const ucontext_t *context; /* where; NULL: it does not run */
  int how;                   /* what `read` is to say */
  const sigset_t *waiting;   /* signals, when its thread was held (hold.h); NULL: it was not */
};
/* The program's own part of checkpoints; parmacs/part.h says what each does. */
struct mr_part {
  void (*begin)(void);
  bool (*handles)(void);
  int (*write)(int file, struct mr_store *store, struct mr_checkpoint_head *head,
               const struct mr_stood *stood, char *why, size_t size);
  void (*found)(const struct mr_checkpoint_head *head, const uint8_t *pages);
  const ucontext_t *(*read)(int *how, ucontext_t *context);
  void (*open)(const struct mr_checkpoint_head *head);
  void (*flush)(void);
  int (*on_restore)(void (*call)(void *), void *argument);
  void (*restored)(void);
  bool (*reads_ahead)(void);
  void (*owns)(int fd);
};
/* Before mr_node_start: what a checkpoint holds of the program itself. */
void mr_node_part(const struct mr_part *part);
/* Before mr_node_start, or never: whether the process is to go on from a checkpoint. */
bool mr_node_will_restore(void);
/* How much of maru_dsm_alloc's memory is given out: a checkpoint of a program that calls it holds
 * that. */
size_t *mr_node_allocated(void);
/* The program runs, on a stack that its part holds: it may be stopped in requests, and go on from
 * there in another process.  While it does not, a node that waits for a request holds nothing. */
void mr_node_captures(bool captures);
/* A word for the stack protector. Where other processes may take this node's place (replay.h) they
 * have the same: it is by the job's secret, so that nobody guesses it. Else it is the one that was
 * drawn. */
uint64_t mr_node_guard_word(uint64_t drawn);
/* After mr_node_start: whether this process goes on from a checkpoint. */
bool mr_node_restores(void);
/* The program's memory is as it was.  Where to go on; NULL: it did not run, and the next request
 * of this process is the one in which it waits already. */
const ucontext_t *mr_node_resume(void);
/* Where an image was taken in a request, `call` is called behind it: here, and in a process that
 * goes on there.  So both do the same. */
void mr_node_on_return(void (*call)(void));
/* Before the program runs: `call` is called where a `read` of the standard input finds its end
 * (syscalls.c). */
void mr_node_on_input_end(void (*call)(void));
/* Before mr_node_start: where every node waits `advise` writes what the program's user may do, with
 * "; " before it, or nothing.  Any thread may call it. */
void mr_node_on_stuck(void (*advise)(char *words, size_t size));
/* The program is about to leave what can be saved: its end. */
void mr_node_no_more_checkpoints(void);

/* Whether a byte of the range is shared memory. */
bool mr_node_shares(const void *from, size_t size);

#endif
