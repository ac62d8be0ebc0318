/* serve.h: the thread that looks after what other nodes send (internal to libmaru-dsm).
 *
 * While the program computes, a thread of the library's own does: the *server*.  While the program
 * waits for an answer, its own thread does, and the server is not woken. An answer costs one change
 * of threads less, and a spinning node takes one processor.
 *
 * The thread that looks keeps its processor for a while after each message, then sleeps. The
 * program's thread has nothing else to do. It does so for up to 100 us whatever was asked for. The
 * condition is that what came before, a message or a piece of one, was waited for no longer. It
 * gives way to others that want the processor, and beside such a one it sleeps.
 *
 * Why this waits by itself, and not by maru_wait: that looks at a word, which somebody else
 * changes. The thread that serves changes what is awaited here, the waiting thread first of all. It
 * looks at descriptors and sleeps on them, of which the kernel alone knows.  A thread that made a
 * word of them would cost each message the change of threads that this spares.
 */
#ifndef MARU_DSM_SERVE_H
#define MARU_DSM_SERVE_H

#include "ready.h"
#include "transport.h"

#include <pthread.h>

struct mr_server_config {
  struct mr_transport *transport;
  /* Is told who listens; the server is attached there while its thread runs. */
  struct mr_ready *ready;
  /* Excludes what transport and core do; the thread that calls the sink holds it. */
  pthread_mutex_t *lock;
  const struct mr_transport_sink *sink;
  void *context;
  /* How long after a message it keeps its processor before it sleeps; 0: not at all. */
  int64_t spin_ns;
  /* Asked with the lock held: no peer is left. */
  bool (*over)(void *context);
  /* The program's thread, which waits, has looked in vain, and holds no lock; NULL: nothing is done
   * then. */
  void (*pauses)(void);
  /* The transport cannot go on, negative errno; does not return. */
  void (*failed)(void *context, int error);
};

struct mr_server;

/* Starts the thread, which ends when `over` says so.  Negative errno. */
int mr_server_start(struct mr_server **server, const struct mr_server_config *config);
/* Waits for the thread, and frees what it had. */
void mr_server_join(struct mr_server *server);

/* Called by the program's thread alone, in the handler of a fault too, without the lock. Serves
 * until *done is true, which the serving thread sets with the lock held. */
void mr_server_await(struct mr_server *server, const bool *done);
/* Called before it, if at all, with the lock held, by the same thread. Messages are to be sent
 * that it will await the answers of. Neither the answers wake the server, nor what is sent where
 * the transport's descriptor tells of that, too. */
void mr_server_expect(struct mr_server *server);
/* The program's thread, if it waits, looks once more. Any thread. */
void mr_server_wake(struct mr_server *server);

#endif
