/* dsm-latch.pml: locks of nodes that have one memory (native/dsm/latch.h, node.c, deadlock.c).
 *
 * Each node takes latches, one or two at a time, in any order.  Who finds one taken asks for the
 * protocol's lock; its owner is the first, and alone waits at the latch.  The first may become
 * impatient at any time.  Another node looks in two waves whether every node waits.
 *
 * One at a time has a latch.  Past an impatient first each other node comes at most once.  Nobody
 * waits for what is free.  A job that the look calls stuck is stuck.
 *
 * Left out: how a first sleeps (wait.pml), the order of the protocol's lock (dsm-locks.pml) and
 * spinning, which is one more try.
 *
 * verify: pass
 * verify: fail -DTAKES_IN_TWO_STEPS
 * verify: fail -DPUSHES_IN -DROUNDS=3
 * verify: fail -DSTAYS_IMPATIENT
 * verify: fail -DKEEPS_QUEUE
 * verify: fail -DCOUNTS_NOTHING
 * verify: fail -DWAITS_FOR_FREE
 * verify: fail -DWAITS_FOR_OWN
 */
#define NODES 2
#define LATCHES 2
#ifndef ROUNDS
#define ROUNDS 2
#endif

byte holder[LATCHES], owner[LATCHES]; /* of the latch, of the protocol's lock: 1 up; 0: nobody */
bit impatient[LATCHES];
byte past[LATCHES]; /* nodes that went past the impatient first */
byte asks[NODES], first[NODES]; /* for the protocol's lock, at the latch: 1 up; 0: not */
byte counts[NODES]; /* waits that are over */
bit ended[NODES];

#define OF_ANOTHER(n, l) (holder[l] != 0 && holder[l] != n + 1)
#define TRULY(n) \
  (ended[n] || (asks[n] != 0 && owner[asks[n] - 1] != 0) || (first[n] != 0 && OF_ANOTHER(n, first[n] - 1)))
#ifdef WAITS_FOR_FREE
#define WAITS(n) (ended[n] || asks[n] != 0 || first[n] != 0)
#elif defined(WAITS_FOR_OWN) /* mutant: it has taken the latch, and has not said yet that it went on */
#define WAITS(n) (TRULY(n) || (first[n] != 0 && holder[first[n] - 1] != 0))
#else
#define WAITS(n) TRULY(n)
#endif

inline went_on(n) {
#ifndef COUNTS_NOTHING
  counts[n]++
#else
  skip
#endif
}

inline lock(l) {
  seen = impatient[l];
#ifdef PUSHES_IN
  seen = 0;
#endif
  if
#ifdef TAKES_IN_TWO_STEPS
  :: !seen && holder[l] == 0 -> holder[l] = me + 1
#else
  :: atomic {
       !seen && holder[l] == 0 ->
       holder[l] = me + 1;
       if
       :: impatient[l] -> past[l]++; assert(past[l] < NODES)
       :: else
       fi
     }
#endif
  :: seen || holder[l] != 0 ->
     asks[me] = l + 1;
end_asks:
     atomic {
       owner[l] == 0 ->
       owner[l] = me + 1;
       asks[me] = 0;
       first[me] = l + 1;
       went_on(me)
     };
end_first:
     do
     :: atomic { holder[l] == 0 -> holder[l] = me + 1; break }
     :: atomic { !impatient[l] -> impatient[l] = 1; past[l] = 0 }
     od;
#ifndef STAYS_IMPATIENT
     impatient[l] = 0;
#endif
     atomic { first[me] = 0; went_on(me) };
#ifndef KEEPS_QUEUE
     owner[l] = 0
#endif
  fi;
  assert(holder[l] == me + 1)
}

inline unlock(l) {
  assert(holder[l] == me + 1);
  holder[l] = 0
}

proctype node(byte me) {
  byte round, a;
  bit seen;
  do
  :: round < ROUNDS ->
     round++;
     if
     :: a = 0
     :: a = 1
     fi;
     lock(a);
     if
     :: lock(1 - a); unlock(1 - a)
     :: skip
     fi;
     unlock(a)
  :: else -> break
  od;
  ended[me] = 1
}

proctype look() {
  byte n, before[NODES];
  bit all = 1;
  for (n : 0 .. NODES - 1) {
    atomic { all = all && WAITS(n); before[n] = counts[n] }
  };
  for (n : 0 .. NODES - 1) {
    atomic { all = all && WAITS(n) && before[n] == counts[n] }
  };
  atomic {
    if
    :: all -> assert(TRULY(0) && TRULY(1))
    :: else
    fi
  }
}

/* Nobody goes on. */
proctype over() {
  atomic {
    timeout ->
    assert(TRULY(0) && TRULY(1));
    assert(!(ended[0] && ended[1]) || (!impatient[0] && !impatient[1] && owner[0] == 0 && owner[1] == 0))
  }
}

init {
  atomic {
    run node(0);
    run node(1);
    run look();
    run over()
  }
}
