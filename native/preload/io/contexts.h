/* contexts.h: the threads that make calls for others, as contexts.c (which starts and ends them),
 * slots.c (the callers) and serve.c (the calls) share them (internal). */
#ifndef MARU_PRELOAD_IO_CONTEXTS_H
#define MARU_PRELOAD_IO_CONTEXTS_H

#include "io.h"

#include <pthread.h>
#include <stdalign.h>

#define IO_SLOTS 256u
#define IO_SLOT_WORDS (IO_SLOTS / 64)
#define IO_NODES 8u
#define IO_UNARMED (~(uint32_t)MARU_WAIT_ARMED) /* what a word that is waited for says */

/* ENDED: by itself, and nobody has joined its thread yet. */
enum { NONE = 0, ENDED, READY };

struct context {
  alignas(64) _Atomic uint32_t bell;
  alignas(64) _Atomic uint64_t queued[IO_SLOT_WORDS]; /* slots with a request for it */
  _Atomic uint32_t state;
  _Atomic uint32_t stop;
  unsigned node;
  enum io_context_class class;
  pthread_t thread;
  _Atomic pid_t tid; /* the thread's, as it says when it begins */
};

/* That of the class near the caller, or NULL: this call is direct, the next one need not be. */
struct context *io_context_of(enum io_context_class class);
/* Of all: a ring may have been left between disarming and waking. */
void io_contexts_ring(void);

#endif
