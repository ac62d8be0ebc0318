/* overlay.pml: a futex mutex with an admission queue in front of it: native/preload.
 *
 * The word is glibc's: 0 free, 1 taken, 2 taken and somebody may sleep on it.  Its
 * release (glibc's own) stores 0 and wakes one sleeper if it was 2.  Two threads come
 * through us: one of them is the queue's head at a time, and only the head competes for
 * the word.  One is hidden from us: a condition variable's waiter that takes the mutex
 * again inside of glibc, always with 2.  The rule under test: a thread that has slept
 * on the word takes it with 2, for somebody else may sleep there too and its own wake-up
 * was the only one.
 *
 * A lost wake-up is an invalid end state.
 *
 * Left out: waits with a deadline, tries, mutexes that are shared, robust or inherit a
 * priority, weak memory orders.
 *
 * verify: pass
 * verify: pass -DHIDDEN=2
 * verify: fail -DHIDDEN=2 -DRETAKE_WITH_1
 * verify: fail -DNO_MARK
 * verify: fail -DRELEASE_FIRST
 */
#ifndef HIDDEN
#define HIDDEN 1
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define OURS 2
#define ALL (OURS + HIDDEN)

byte word;
bit asleep[ALL];
bit head; /* somebody is the queue's head */
byte inside;

/* FUTEX_WAIT(word, 2): compares and sleeps in one step. */
inline sleep() {
  atomic {
    if
    :: word == 2 -> asleep[me] = 1
    :: else
    fi
  }
  !asleep[me]
}

/* FUTEX_WAKE(1): any one. */
inline wake_one() {
  atomic {
    if
    :: asleep[0] -> asleep[0] = 0
    :: asleep[1] -> asleep[1] = 0
    :: asleep[2] -> asleep[2] = 0
#if HIDDEN > 1
    :: asleep[3] -> asleep[3] = 0
#endif
    :: else
    fi
  }
}

inline unlock() {
#ifdef RELEASE_FIRST /* mutant: looks whether to wake before it releases, apart from it */
  was = word;
  word = 0;
#else
  atomic { was = word; word = 0 }
#endif
  if
  :: was == 2 -> wake_one()
  :: else
  fi
}

inline critical() {
  inside++;
  assert(inside == 1);
  inside--
}

/* Takes the word with 2 until it was free. */
inline lock_with_2() {
  do
  :: atomic { was = word; word = 2 }
     if
     :: was == 0 -> break
     :: else -> sleep()
     fi
  od
}

proctype ours(byte me) {
  byte was, round;
  for (round : 1 .. ROUNDS) {
    atomic { !head -> head = 1 }
    /* Takes it with 1 if it is free at once, */
    atomic {
      was = word;
      if
      :: word == 0 -> word = 1
      :: else
      fi
    }
    if
    :: was == 0
    :: else ->
#ifdef RETAKE_WITH_1 /* mutant: marks it once, sleeps, takes it with 1 */
       do
       :: atomic {
            was = word;
            if
            :: word == 0 -> word = 1
            :: else -> word = 2
            fi
          }
          if
          :: was == 0 -> break
          :: else -> sleep()
          fi
       od
#else
#ifdef NO_MARK /* mutant: sleeps without having marked the word */
       do
       :: atomic {
            was = word;
            if
            :: word == 0 -> word = 1
            :: else
            fi
          }
          if
          :: was == 0 -> break
          :: else -> asleep[me] = 1; !asleep[me]
          fi
       od
#else
       lock_with_2()
#endif
#endif
    fi;
    head = 0; /* hands head-ship on: only now, and it holds the word */
    critical();
    unlock()
  }
}

proctype inner(byte me) {
  byte was;
  lock_with_2();
  critical();
  unlock()
}

init {
  atomic {
    run ours(0);
    run ours(1);
    run inner(2);
#if HIDDEN > 1
    run inner(3);
#endif
  }
  _nr_pr == 1;
  assert(word == 0)
}
