/* wait.pml: no wake-up is lost (native/wait/asleep.c).
 *
 * Two waiters wait until the counter has reached WANT, two notifiers step it.
 * Each C atomic operation is one atomic step here, each futex call one too: the
 * kernel compares and queues under one lock.  A lost wake-up is a state in which
 * nobody can move and somebody sleeps: an invalid end state.
 *
 * KILL: one notifier may die between any two steps; SLICE: sleeps end by
 * themselves now and then.
 *
 * verify: pass
 * verify: pass -DSTEPS=2 -DWANT=4
 * verify: pass -DKILL -DSLICE -DWANT=1
 * verify: fail -DNO_RECHECK
 * verify: fail -DLOOK_FIRST
 * verify: fail -DCLEAR_AFTER_WAKE
 * verify: fail -DKILL -DWANT=1
 */
#ifndef STEPS
#define STEPS 1 /* by each notifier */
#endif
#ifndef WANT
#define WANT 2
#endif

byte value;
bit armed;
bit asleep[2];

proctype waiter(byte me) {
  byte seen;
  do
  :: atomic { seen = value; armed = 1 }
     if
     :: seen >= WANT -> break
     :: else
     fi;
     /* FUTEX_WAIT(seen | ARMED) */
#ifdef NO_RECHECK /* mutant: it sleeps without comparing */
     asleep[me] = 1;
#else
     atomic {
       if
       :: value == seen && armed -> asleep[me] = 1
       :: else
       fi
     }
#endif
     if
     :: !asleep[me]
#ifdef SLICE
     :: asleep[me] = 0
#endif
     fi
  od
}

inline wake_all() {
  d_step { asleep[0] = 0; asleep[1] = 0 }
}

#ifdef KILL
#define MAY_DIE :: mortal -> goto dead
#else
#define MAY_DIE
#endif

proctype notifier(bit mortal) {
  byte step;
  bit was;
  for (step : 1 .. STEPS) {
#ifdef LOOK_FIRST /* mutant: looks for sleepers before the step, apart from it */
    was = armed;
    value++;
#else
    atomic { was = armed; value++ }
#endif
    if
    :: was ->
#ifdef CLEAR_AFTER_WAKE /* mutant: who arms in between sleeps unseen */
       wake_all();
       armed = 0
#else
       if
       :: armed = 0
       MAY_DIE
       fi;
       if
       :: wake_all()
       MAY_DIE
       fi
#endif
    :: else
    fi
  }
dead:
  skip
}

init {
  atomic {
    run waiter(0);
    run waiter(1);
    run notifier(1);
    run notifier(0)
  }
}
