/* boost.pml: nobody stays lowered or boosted, nobody waits for ever
 * (native/wait/coop.c, lowered.c and channel.c, native/boost).
 *
 * A waiter waits ROUNDS times for one message each, lowered while it waits or asleep
 * without a doorbell (coop). A sender posts the messages and never wakes. The daemon
 * wakes, restores and boosts; its worker may be killed between any two steps, and so
 * may the guard, which puts things back when the worker is dead. The waiter's own
 * rules: it leaves a wait only after it has looked that it is not lowered, and when
 * the daemon has died it ends a boost as it waits next. One more wait, without a
 * message and out of time, follows the last one: a program goes on.
 *
 * A sleeper's slice is SLICE: without it a sleeper whose wakers have died sleeps for
 * ever. The daemon's marks are set before its deeds and taken after the undoing.
 *
 * Left out, and tested instead (native/boost/tests/places.c, kills.c, attack.c): a second daemon (a
 * lock of the kernel's excludes it), a daemon that is started again and finds a raise,
 * two lines of one thread (raised through one at a time), an end that the kernel refuses (tried
 * again at each tick), a stopped worker (killed by the guard, so as -DKILL_WORKER). A waiter
 * whose last wait never ends is not in it: with worker and guard dead it stays boosted, as
 * docs/man/maru-boost.1 says.
 *
 * verify: pass
 * verify: pass -DCOOP
 * verify: pass -DCOOP -DNO_SLICE
 * verify: pass -DKILL_WORKER
 * verify: pass -DKILL_WORKER -DKILL_GUARD
 * verify: pass -DCOOP -DKILL_WORKER -DKILL_GUARD
 * verify: fail -DKILL_WORKER -DKILL_GUARD -DMARK_LATE
 * verify: fail -DNO_LOOK_BACK
 * verify: fail -DCOOP -DKILL_WORKER -DNO_SLICE
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif

mtype = { own, lowered, boosted };
mtype place = own;      /* the waiter's, as the kernel has it */
byte posted;            /* messages sent */
byte taken;             /* messages received */
bit asleep;             /* in the kernel */
bit shows_sleep;        /* the line's state is ASLEEP */
bit waits;              /* the line's state is not IDLE */
bit marked;             /* the line's and the guard's mark */
bit worker_dead, guard_dead, ended;

#define pending (waits && posted > taken)

/* Between any two steps of the daemon. */
#ifdef KILL_WORKER
#define MAY_DIE if :: goto dead :: skip fi;
#else
#define MAY_DIE
#endif

proctype worker() {
again:
  do
  :: ended -> break
  :: !ended && pending && shows_sleep ->
     atomic { if :: shows_sleep -> shows_sleep = 0 :: else -> goto again fi }
     MAY_DIE
     asleep = 0
  :: !ended && pending && place == lowered ->
     MAY_DIE
     atomic { if :: place == lowered -> place = own :: else fi }
  :: !ended && pending && !marked ->
#ifdef MARK_LATE /* mutant: the deed before the mark */
     place = boosted;
     MAY_DIE
     marked = 1;
#else
     marked = 1;
     MAY_DIE
     place = boosted;
#endif
     MAY_DIE
     /* its time is over, or it has served; a thread that lowered itself stays so */
     atomic { if :: place == boosted -> place = own :: else fi }
     MAY_DIE
     marked = 0
  od;
  /* it leaves everything in its place */
  atomic { if :: place == boosted -> place = own :: else fi; marked = 0 }
dead:
  worker_dead = 1
}

proctype guard() {
#ifdef KILL_GUARD
  if
  :: goto dead
  :: worker_dead
  fi;
#else
  worker_dead;
#endif
  atomic { if :: marked || place == lowered -> place = own :: else fi };
dead:
  guard_dead = 1
}

proctype sender() {
  byte i;
  for (i : 1 .. ROUNDS) {
    taken == i - 1; /* it answers */
    posted++
  }
}

/* The entry of every wait: the daemon is dead, and a mark of its is there. */
inline end_stale_boost() {
  if
  :: worker_dead && marked -> atomic { place = own; marked = 0 }
  :: else
  fi
}

inline wait_once() {
  end_stale_boost();
  waits = 1;
#ifdef COOP
  do
  :: shows_sleep = 1;
     atomic { if :: posted > taken :: else -> asleep = 1 fi };
#ifdef NO_SLICE
     !asleep;
#else
     asleep = 0; /* woken, or at the end of its slice */
#endif
     if
     :: posted > taken -> break
     :: else
     fi
  od;
  shows_sleep = 0;
#else
  place = lowered;
  posted > taken;
#ifndef NO_LOOK_BACK /* mutant: it trusts the daemon to restore it */
  atomic { if :: place == lowered -> place = own :: else fi };
#endif
#endif
  assert(place != lowered);
  waits = 0;
  taken++
}

proctype waiter() {
  byte i;
  for (i : 1 .. ROUNDS) {
    wait_once()
  }
  ended = 1;
  /* What the daemon may still do comes before its end. */
  worker_dead && guard_dead;
  end_stale_boost();
  assert(place == own)
}

init {
  atomic {
    run worker();
    run guard();
    run sender();
    run waiter()
  }
}
