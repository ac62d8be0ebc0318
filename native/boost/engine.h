/* engine.h: what the daemon decides in one tick.  Pure: views of the channels and
 * its own memory in, actions out; no clock, no system call.
 *
 * What comes from a board may be a lie; CPU, user and `known` come from the kernel.  The engine
 * bounds what a lie can buy, over all boards together. One thread a CPU is boosted; one that moves
 * to another's CPU loses its boost at the next tick. Each is boosted for two ticks or a slot at
 * most, and not again for two ticks. Of each CPU's time boosts have `cap_percent` in each second.
 * Users that want some of the sum over the CPUs get equal parts. A gentle raise (one nice) needs no
 * such bounds: however many threads have it, one that has none keeps 0.8 of its fair share.
 */
#ifndef MARU_BOOST_ENGINE_H
#define MARU_BOOST_ENGINE_H

#include <maru/wait.h>
#include <stdbool.h>

#define BOOST_USERS 32

struct boost_line;

/* A channel at this tick. */
struct boost_view {
  bool waits;    /* its state is not IDLE */
  bool asleep;   /* ... but ASLEEP */
  bool lowered;  /* ... but LOWERED */
  bool pending;  /* what it waits for is there */
  bool known;    /* its thread was checked: it may be restored */
  bool seated;   /* ... and `cpu` was read: it may be boosted */
  uint32_t cpu;  /* where it is or was last, below MARU_WAIT_CPUS; of the known */
  uint32_t user; /* below BOOST_USERS */
  uint64_t job;
  uint32_t number; /* of the line, the same in every tick: not all lines are in each */
  struct boost_line *line;
};

enum boost_action {
  BOOST_WAKE = 1,
  BOOST_RESTORE = 2, /* a lowered thread to its own place */
  BOOST_RAISE = 4,
  BOOST_END = 8 /* a raised thread back to its own place */
};

/* What the daemon remembers of a channel.  Zero: nothing. */
struct boost_line {
  int64_t pending_since_ns; /* 0: not pending */
  int64_t raised_until_ns;  /* 0: not raised */
  int64_t rests_until_ns;   /* it was raised and made nothing of it */
  uint32_t raised_cpu;      /* at the last tick */
};

struct boost_rules {
  bool restores;
  bool raises;
  bool at_once; /* raise what is pending now (the published scheme), not what has
                   been pending for a whole period and did not run */
  bool slots;   /* gang: raise one job after the other */
  bool gently;  /* a raise is one nice: of all that are stuck, for as long as that happens again */
  int64_t slot_ns;
  unsigned cap_percent;
  uint32_t cpus;
};

struct boost_state {
  uint32_t next; /* the number of the line to begin with: everybody's turn comes */
  int64_t window_began_ns;
  int64_t raised_ns[MARU_WAIT_CPUS]; /* in this window */
  int64_t user_ns[BOOST_USERS];      /* the same, of the user's threads */
  uint64_t user_job[BOOST_USERS];    /* + 1; the user's last with a slot; 0: none yet */
  uint32_t slot_user;
  uint64_t slot_job; /* + 1; 0: none yet */
  int64_t slot_until_ns;
};

/* What a tick saw, for the choice of the next period. */
struct boost_seen {
  uint32_t waiting; /* channels */
  uint32_t stuck;   /* pending for a period or more */
  uint32_t pending;
};

/* One tick.  actions[i]: a set of enum boost_action for views[i].  The views are in the order of
 * their numbers, but may begin anywhere in it.  O(count). */
struct boost_seen boost_step(const struct boost_rules *rules, struct boost_state *state,
                             const struct boost_view *views, uint32_t count, int64_t now_ns,
                             int64_t period_ns, uint8_t *actions);

/* The next period when it is chosen by itself: 5 ms, shorter (down to 250 us) while
 * messages lie unread, longer while none do. */
int64_t boost_next_period(int64_t period_ns, struct boost_seen seen);

/* How long the daemon sleeps: the period, or longer while no wait begins and no message lies
 * unread. After `quiet_ns` of that it sleeps a 32nd of them, BOOST_LONGEST_NS at most.  So a
 * message is late by a period, or by 3 % of the time for which nothing had happened. */
int64_t boost_pause(int64_t period_ns, int64_t quiet_ns);

/* How long after a search for boards that took so much CPU time the next one begins. A second, or
 * so much longer that searches take no more than one part in 200 of a CPU. */
int64_t boost_find_pause(int64_t took_ns);

#define BOOST_LONGEST_NS INT64_C(5000000)
#define BOOST_SHORTEST_NS INT64_C(250000)

#endif
