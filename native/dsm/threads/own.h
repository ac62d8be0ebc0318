/* own.h: what a thread has of its own (internal to libmaru-dsm): thread-local variables of the
 * program, values of keys, what is to be called at its end, errno.
 *
 * A node runs its threads one at a time, all on one thread of the system.  So its thread-local
 * variables are put away where a thread begins, and come back where it ends: each thread finds them
 * as the program's file has them.  A pointer to one means another thread's variable elsewhere.
 *
 * Thread-safety: none.  Where it fails the process ends with a line (mr_node_die).
 */
#ifndef MARU_DSM_THREADS_OWN_H
#define MARU_DSM_THREADS_OWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_KEYS 1024

/* The keys of the job, in shared memory.  A key's place, its number modulo MR_KEYS, serves again
 * when it was deleted; the next key there has another number, by which a thread knows a value of
 * the last. */
struct mr_keys {
  uint32_t count; /* places that ever had one */
  uint32_t numbers[MR_KEYS];
  bool used[MR_KEYS];
  void (*destructors[MR_KEYS])(void *); /* also NULL, and NULL where the key was deleted */
};

struct mr_last; /* what is called in the end */

struct mr_own {
  void *values[MR_KEYS];
  uint32_t keys[MR_KEYS]; /* whose they are */
  struct mr_last *objects, *notices, *cleanups;
  uint8_t *put_away; /* the variables of the thread before */
  int error;
};

/* A new thread begins; the one before does not run until mr_own_end. */
void mr_own_begin(struct mr_own *own);
void mr_own_end(struct mr_own *own);

/* To be called when the thread ends: objects' destructors, then those of the keys, then notices. */
void mr_own_object(struct mr_own *own, void (*call)(void *), void *object);
void mr_own_notice(struct mr_own *own, void (*call)(void *), void *argument);
void mr_own_finish(struct mr_own *own, const struct mr_keys *keys);

/* Of pthread_cleanup_push, in a function whose frame lies above `frame`.  It is called when the
 * thread leaves that by pthread_exit.  mr_own_clean_up calls those of all frames below `left`. */
void mr_own_push(struct mr_own *own, void (*call)(void *), void *argument, uintptr_t frame);
void mr_own_pop(struct mr_own *own, bool call);
void mr_own_clean_up(struct mr_own *own, uintptr_t left);

#endif
