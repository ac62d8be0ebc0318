/* threads.h: threads of a program on the nodes of a job (internal to libmaru-dsm); what the program
 * calls is in maru/threads.h.
 *
 * A node runs one thread at a time, to its end.  A created thread begins on a node that is idle.
 * Where none is, it begins as soon as one is, or on a node whose thread waits for another's end:
 * the waiting one goes on when both have ended.  So N nodes run N threads at once, and the first
 * thread's node is not lost while it waits for those that it created.
 *
 * The *table* of threads is in shared memory, under a lock of the job.
 */
#ifndef MARU_DSM_THREADS_THREADS_H
#define MARU_DSM_THREADS_THREADS_H

#include "carried.h"
#include "own.h"
#include "place.h"

#include "../node.h"

#include <maru/dsm.h>
#include <pthread.h>
#include <ucontext.h>
#include <unwind.h>

/* In shared memory; a pthread_t is its address. */
struct mr_thread {
  void *(*body)(void *);
  void *argument, *result;
  size_t stack_size;
  struct mr_thread *next; /* of those that no node has */
  uint16_t joiner;        /* 1 more than the node that waits for its end */
  bool ended, detached;
};

struct mr_numbers; /* where libc's random numbers are (numbers.c) */

struct mr_table {
  void *libraries;
  struct mr_keys keys;
  struct mr_numbers *numbers;     /* NULL: nobody has drawn any */
  struct mr_carried *carried;     /* NULL: threads take nothing along */
  struct mr_thread *first, *last; /* that no node has */
  uint32_t live, most;            /* created, not ended; so many at once */
  bool input_is_empty;            /* node 0's */
  uint16_t idle_count, lender_count;
  uint16_t all_waiter; /* 1 more than the node that waits for all to end */
  /* Nodes that do nothing, and nodes whose thread waits for another's end. */
  uint16_t idle[MR_JOB_NODES_MAX], lenders[MR_JOB_NODES_MAX];
  struct mr_thread *given[MR_JOB_NODES_MAX];
  uint32_t spare_count, spare[MARU_DSM_IDS]; /* ids that no object has (ids.c) */
  uint64_t object_at[MARU_DSM_IDS];          /* where the object of an id lies; 0: not known */
};

/* What runs on this node; in this process's own memory, as the kernel reads contexts. */
struct mr_running {
  struct mr_thread *thread;
  struct mr_running *below; /* waits for it */
  struct mr_own own;
  struct mr_place_of_stack *stack;
  ucontext_t context, back;
  struct _Unwind_Exception leaving; /* pthread_exit: no frame of the thread's lasts so long */
};

/* Before the node starts: keys may be made.  Then where the table is. */
struct mr_table *mr_threads_table(void);
void mr_threads_begin(struct mr_table *table);
void mr_threads_lock(void);
void mr_threads_unlock(void);

struct mr_running *mr_threads_now(void);
/* The first thread, which runs `body`, and does not return.  Where it runs the caller goes on after
 * mr_threads_leave. */
void mr_threads_make_first(void *(*body)(void *));
void mr_threads_run_first(void);
void mr_threads_leave(void) __attribute__((noreturn));
/* Runs threads on this node until the job ends, on a stack of MR_SERVE_STACK bytes there: as above.
 */
#define MR_SERVE_STACK ((size_t)256 << 10)
void mr_threads_serve(uint8_t *stack);
/* In a process that goes on in another's place: there, until mr_threads_leave. */
void mr_threads_go_on(const ucontext_t *context);
/* The first pages of stacks in use are here again. */
void mr_threads_came_back(void);
/* What this node knows of its threads, for a checkpoint; of signals (signals.c). */
struct mr_range mr_threads_state(void);
struct mr_range mr_signals_state(void);
/* Where the first thread waits: whether threads that it created had no node; and runs one of them,
 * if so, or says that none was left. */
bool mr_threads_may_lend(void);
bool mr_threads_lend(void);
/* Where every node waits: what to do, if threads are more than nodes.  Reads no shared memory. */
void mr_threads_advise(char *words, size_t size);
/* What this process has to say is said. */
void mr_threads_say(void);

#endif
