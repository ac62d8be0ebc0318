/* dsm-meet.pml: two nodes that meet at barriers tell each other (native/dsm/sync.c).
 *
 * Each node computes, tells the other that it is there, and goes on when it has heard the same of
 * the other.  What it hears while it computes it keeps.  At most one word is kept, as who is at the
 * next barrier has left the one before.  Who leaves knows all that the other did before it came.
 *
 * An image of the job is taken where no message is under way.  It does not say what a node has
 * heard: that follows from the other, which waits (native/dsm/save.c).
 *
 * Left out: what else the nodes send each other, of which channels keep the order; a barrier of one
 * node of two, which its manager has (dsm.pml).
 *
 * verify: pass
 * verify: fail -DLEAVES_ALONE
 * verify: fail -DHEARS_ONCE_FOR_ALL
 * verify: fail -DTELLS_LATE
 * verify: fail -DTELLS_TOO_LITTLE
 */
#define BARRIERS 4

chan to[2] = [2] of { byte }; /* how much the sender has done */
byte did[2], came[2], knows[2], told[2];
bit heard[2], waits[2];

inline hear(n) {
  atomic {
    to[n] ? told[n];
    assert(!heard[n]);
    heard[n] = 1
  }
}

proctype node(byte n) {
  byte barrier;
  do
  :: barrier < BARRIERS ->
     barrier++;
#ifndef TELLS_TOO_LITTLE
     did[n]++;
#endif
     do
     :: hear(n)
     :: atomic {
#ifdef TELLS_LATE /* who has heard of the other goes on, and says nothing */
          if :: !heard[n] -> to[1 - n] ! did[n] :: else fi;
#else
          to[1 - n] ! did[n];
#endif
          came[n] = barrier;
          waits[n] = 1
        };
        break
     od;
#ifdef TELLS_TOO_LITTLE
     did[n]++;
#endif
#ifndef LEAVES_ALONE
     do
     :: heard[n] -> break
     :: !heard[n] -> hear(n)
     od;
#endif
     atomic {
#ifndef HEARS_ONCE_FOR_ALL
       heard[n] = 0;
#endif
       waits[n] = 0;
       knows[n] = told[n];
       assert(came[1 - n] >= barrier);
       assert(knows[n] >= barrier)
     }
  :: else -> break
  od
}

/* At rest what a node has heard follows from the other.  Who has heard while it waits is about to
 * leave. */
active proctype image() {
  atomic {
    empty(to[0]) && empty(to[1]) && !(waits[0] && heard[0]) && !(waits[1] && heard[1]) ->
    assert(heard[0] == (waits[1] && !waits[0]));
    assert(heard[1] == (waits[0] && !waits[1]))
  }
}

init { atomic { run node(0); run node(1) } }
