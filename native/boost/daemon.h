/* daemon.h: what the parts of the daemon share.
 *
 *   options.c    the command line
 *   admission.c  which boards and threads are looked after (with the clerk's help)
 *   look.c       what the engine is shown at a tick
 *   act.c        what is done then
 *   worker.c     the ticks
 *   rescuer.c      the process that watches the worker
 */
#ifndef MARU_BOOST_DAEMON_H
#define MARU_BOOST_DAEMON_H

#include "channel.h"
#include "clerk.h"

#include <signal.h>

#define BOOST_HELD 1024u /* threads raised at once */

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)

struct totals {
  uint64_t ticks, wakes, restores, raises, ends, refused, failed;
};

/* In memory that the rescuer sees. */
struct shared {
  _Atomic uint64_t beats;   /* of the worker: one a tick, more in a long pause */
  _Atomic uint32_t rests;   /* nobody waits, nobody is raised */
  _Atomic uint32_t outcome; /* 1 + the worker's status: it has done all and goes; 0: not yet */
  struct boost_subject subjects[(size_t)BOOST_BOARDS * MARU_WAIT_CHANNELS];
};

struct daemon {
  struct shared *shared;
  int stirs; /* an eventfd: the worker rests no more */
  struct boost_state state;
  struct boost_clerk *clerk;
  struct boost_view *views; /* of all boards */
  uint8_t *actions;
  uint32_t count;
  uint32_t quietly_waiting;               /* without a view in this tick */
  int64_t began_ns;                       /* the newest wait that was seen, or message */
  struct boost_subject *held[BOOST_HELD]; /* that are raised, or whose end has failed */
  unsigned held_count;
  unsigned turn;        /* the board to begin with */
  unsigned seats;       /* read in this tick */
  unsigned quiet_ticks; /* in a row, in which nobody waited */
  int64_t check_ns;     /* when those without a message are looked at too */
  bool checks;          /* now */
  bool asks;            /* the clerk takes a list in this tick */
  bool said_full, said_taken;
  struct boost_rules rules;
  struct boost_boards boards;
  struct totals totals;
  enum boost_how how;
  bool how_is_said;
  struct boost_served served;
  int64_t period_ns; /* 0: by itself */
  int64_t until_ns;
  bool finds, with_input, dry_run, json;
};

/* ---- options.c ------------------------------------------------------------ */

int boost_read_policy(struct daemon *self, const char *name);
/* Opens the boards that are named.  -EINVAL: usage; else a board cannot be used; said. */
int boost_read_options(struct daemon *self, int argc, char **argv);

/* ---- admission.c ---------------------------------------------------------- */

/* The line's thread was checked.  When it is new, and now and then again, the clerk is asked. */
bool boost_is_known(struct daemon *self, struct boost_board *one, uint32_t i, int64_t now_ns);
/* The line's thread has ended.  While the line still names it, it does not wait, and nothing is
 * pending there: it has no time slot, costs nobody a boost, and does not hurry the daemon. */
void boost_bury(struct boost_board *one, uint32_t i);
bool boost_is_gone(const struct boost_board *one, uint32_t i);
/* Takes the answers, if they are there, and begins a new list.  `*find_ns`: when the next
 * search is due. */
void boost_begin_list(struct daemon *self, int64_t now_ns, int64_t *find_ns);
void boost_hand_list(struct daemon *self);

/* ---- look.c --------------------------------------------------------------- */

/* Appends views of what anything is to be done about on that board. */
void boost_look_at(struct daemon *self, struct boost_board *one, int64_t now_ns);
static inline uint32_t boost_line_of(const struct boost_board *one, const struct boost_view *view) {
  return (uint32_t)(view->line - one->lines);
}

/* ---- act.c ---------------------------------------------------------------- */

/* A thread that waits by turns on several channels is raised through one at a time. While it is,
 * the kernel does not say where it belongs. */
bool boost_is_raised(const struct daemon *self, int32_t tid);
int boost_end_line(struct boost_board *one, uint32_t i);
/* Forgets whom it holds no more; tries again the ends that failed. */
void boost_end_again(struct daemon *self);
/* What the engine decided for that board. */
void boost_act_on(struct daemon *self, struct boost_board *one, int64_t now_ns);

/* ---- worker.c, rescuer.c ---------------------------------------------------- */

/* By SCHED_FIFO; without the right this process stays an ordinary one, late when the CPU is
 * taken. */
int boost_stand(int priority);
/* Nobody is raised any more: this process's way out costs nobody a CPU. */
void boost_step_down(void);
/* The worker's life; its exit status.  `requests` are blocked at first. */
int boost_work(struct daemon *self, pid_t rescuer, const sigset_t *requests);
/* How a worker ended. */
struct boost_end {
  int status;             /* as waitpid has it */
  const char *killed_for; /* NULL: it was not the rescuer that ended it */
};
/* Passes requests to end on, and ends a worker that hangs. */
struct boost_end boost_rescuer(const struct daemon *self, pid_t worker, const sigset_t *signals);
/* The worker failed: puts everybody back; the exit status. */
int boost_after_death(const struct daemon *self, struct boost_end end);

#endif
