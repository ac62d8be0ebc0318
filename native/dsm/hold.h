/* hold.h: the program's thread is held while its image is written (internal to libmaru-dsm).
 *
 * A program that stands still may run handlers of signals.  One that runs while the image is
 * written would be in it by half.  So the thread that writes asks the program's to be held: that
 * looks wherever it waits.  It blocks its signals, and goes on when the image is written. It cannot
 * look while it runs a handler: then the asking thread gives up in time.
 *
 * Thread-safety: mr_hold_here is for the program's thread, the rest for one other.
 */
#ifndef MARU_DSM_HOLD_H
#define MARU_DSM_HOLD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mr_hold {
  _Atomic uint32_t state; /* a futex; zeroed: nobody asks */
  sigset_t waiting;       /* signals that waited for the program's thread when it was held */
};

/* Nothing where nobody asks. */
void mr_hold_here(struct mr_hold *hold);

/* Asks.  The program's thread is woken then by whoever knows where it waits. */
void mr_hold_ask(struct mr_hold *hold);
/* Whether it is held; false: it was not until `until_ns` of the monotonic clock, and is asked no
 * more. */
bool mr_hold_await(struct mr_hold *hold, int64_t until_ns);
void mr_hold_end(struct mr_hold *hold);

#endif
