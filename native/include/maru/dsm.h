/* maru/dsm.h: memory that several processes share by load and store.
 *
 * Every node is a process that runs the same program from its beginning (`maru
 * launch -n 4 -- ./program`).  A program started alone is a job of one node.  What
 * maru_dsm_alloc returns lies at the same address on every node.  Programs whose conflicting
 * accesses are ordered by the operations below see sequential consistency.  C11
 * atomics on shared memory order nothing between nodes.
 *
 * One thread of a process may use the shared memory and call these functions.  A child
 * process (fork) may do neither.  System calls do not see shared memory that the thread
 * has not touched: read(2) and the like fail with EFAULT.  Signals used: SIGBUS, or
 * SIGSEGV where userfaultfd is missing.  While that signal is blocked (sigprocmask,
 * pthread_sigmask, a handler's mask) no shared memory may be used: the kernel ends a process
 * that does, without a word.  In programs of maru-cc the calls leave both signals unblocked.
 *
 * Failure: the job cannot go on, as a node was lost or a lock is misused.  Then the
 * process says one line ("maru: ...") on standard error and ends.  The status is 75 if a
 * node was lost, 70 otherwise.
 */
#ifndef MARU_DSM_H
#define MARU_DSM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ids of locks, barriers and so on are below it, each kind by itself. */
#define MARU_DSM_IDS 262144u

/* Joins the job.  The library does not watch its only node, nor nodes of one host, which have one
 * memory. It does so where MARU_DSM_ACCESS is set, or a report, races or checkpoints are wanted.
 * Waits at most 30 s for the other nodes.  Ends the process where it cannot join the job: 64 wrong
 * environment, 65 node 0 runs another program, 69 something needed is not available here. */
void maru_dsm_init(void);
/* The same for a program that says before each access what it will access, by
 * maru_dsm_read_range and maru_dsm_write_range.  The library does not watch accesses, and uses no
 * signal.  What the program does not say it reads as it was at some time, and loses where it
 * writes.  MARU_DSM_ACCESS (userfaultfd, mprotect) watches all the same. */
void maru_dsm_init_unwatched(void);
/* Waits for all nodes, then leaves.  All nodes call it. */
void maru_dsm_exit(void);

uint32_t maru_dsm_node(void); /* from 0 */
uint32_t maru_dsm_nodes(void);

/* `size` bytes of zeros, 64-byte aligned.  Every node must make the same calls in the same
 * order.  NULL: not so much is left of MARU_DSM_MIB (default 256) MiB. */
void *maru_dsm_alloc(size_t size);
/* The same; `site`, a string that stays, names the caller for `maru launch --report`. */
void *maru_dsm_alloc_at(size_t size, const char *site);
#define MARU_DSM_TEXT_(x) #x
#define MARU_DSM_TEXT(x) MARU_DSM_TEXT_(x)
#define MARU_DSM_SITE __FILE__ ":" MARU_DSM_TEXT(__LINE__)
#define maru_dsm_alloc(size) maru_dsm_alloc_at(size, MARU_DSM_SITE)

struct maru_dsm_heap;

/* A heap in shared memory: any node takes blocks from it at any time, and any node gives them back.
 * Its own memory is of `size` bytes, from maru_dsm_alloc: so every node calls it in the same order
 * with that.  It uses lock `id` from then on, and barrier `id` in this call; the program uses that
 * lock for nothing else.  For programs whose accesses are watched.  NULL: as maru_dsm_alloc. */
struct maru_dsm_heap *maru_dsm_heap_create(size_t size, uint32_t id);
/* At least `size` bytes, aligned to `alignment` (a power of two), not zeroed.  NULL: the heap has
 * no block of that size.  Sizes are rounded up to one of four per power of two. */
void *maru_dsm_heap_take(struct maru_dsm_heap *heap, size_t size, size_t alignment);
/* The block serves a later request of its size.  NULL is allowed. */
void maru_dsm_heap_give(struct maru_dsm_heap *heap, void *block);

/* A lock makes what was done under it before visible to its next holder.  Not recursive: status 70
 * where a node takes a lock that it holds, or gives back one that it does not hold. */
void maru_dsm_lock(uint32_t id);
void maru_dsm_unlock(uint32_t id);
/* 1 if the lock was free: this node holds it now.  Else 0, also where this node holds it. */
int maru_dsm_trylock(uint32_t id);
/* All nodes meet. */
void maru_dsm_barrier(uint32_t id);
/* Adds to a counter that starts at 0; its value before.  Orders as a lock does. */
int64_t maru_dsm_fetch_add(uint32_t id, int64_t delta);
/* Sets the same counter to `value` if it is `expected`; its value before, which is `expected` then
 * and only then.  Orders as a lock does in both cases. */
int64_t maru_dsm_compare_swap(uint32_t id, int64_t expected, int64_t value);

/* A semaphore starts at 0; waiting takes one, as soon as there is one.  To post 0 does nothing. */
void maru_dsm_semaphore_wait(uint32_t id);
void maru_dsm_semaphore_post(uint32_t id, uint32_t count);

/* A flag starts at 0.  Waits until it has that value. */
void maru_dsm_flag_set(uint32_t id, int64_t value);
void maru_dsm_flag_await(uint32_t id, int64_t value);

/* Gives the lock, which this node holds, back; waits until signalled; takes it again.  A
 * signal that finds no waiter is lost. */
void maru_dsm_condition_wait(uint32_t id, uint32_t lock);
void maru_dsm_condition_signal(uint32_t id);
void maru_dsm_condition_broadcast(uint32_t id);

/* The node that is the home of the page at `at`, as far as this node knows: its accesses cost no
 * messages.  -1: that is no shared memory.  Orders nothing. */
int maru_dsm_home(const void *at);

/* Orders all before it, of this node, before all after later fences, of any node. */
void maru_dsm_fence(void);

/* A place where a checkpoint may be taken (maru launch --ckpt-every; of programs that maru-cc
 * built), as all calls above are: for a program that computes for long without one.  Costs two
 * looks at the clock; nothing where nobody asked for checkpoints. */
void maru_checkpoint(void);
/* From now on `call` is called with `argument` in each process that goes on from a checkpoint in
 * place of this one, before it goes on: to open again what no checkpoint holds.  It may use
 * private memory alone, and call nothing of this header.  In the order of these calls, at most
 * MARU_DSM_RESTORERS; -1: there are so many.  Nothing where nobody asked for checkpoints. */
#define MARU_DSM_RESTORERS 16
int maru_on_restore(void (*call)(void *), void *argument);

/* Brings the pages of a range in, in batches, to be read, or to be read and written.  That holds
 * until this node's next call of a function above.  Optional where accesses are watched, and
 * quicker than faults in turn.  Leaves alone what of the range is not shared memory. */
void maru_dsm_read_range(const void *from, size_t size);
void maru_dsm_write_range(void *from, size_t size);

/* Makes the range readable, or writable, for system calls too, until this node's next call of
 * a function above.  Leaves alone what of the range is not shared memory.  The kernel may ask for
 * it again under memory pressure (EFAULT). */
void maru_dsm_touch(const void *from, size_t size, int write);

#ifdef __cplusplus
}
#endif
#endif
