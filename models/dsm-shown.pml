/* dsm-shown.pml: a node of the same host copies a page straight from the memory of the page's home
 * (native/dsm/shown.h), while the home goes on and may die.
 *
 * One page of three words, its home node 0, a reader node 1, one lock.  A and C are written by the
 * home, B by node 1: A and B under the lock, C outside of it until the home has ended. `refer` has
 * what each word should be: a write is done there at once.
 *
 * The home shows where the page lies and which version that is. The reader looks, copies word by
 * word, and looks again.  Whatever else has the right to run may run in between.  A home that stops
 * for ever is any run in which it does nothing more; then a survivor fences its memory, and only
 * then gives the page another home. No copy counts that was finished later.
 *
 * Left out: more readers than one (each takes a page that the home is alone with by the same
 * exchange), homes that move (they show nothing any more), weak memory (the fences of shown.c).
 *
 * verify: pass
 * verify: fail -DNO_NUMBER
 * verify: fail -DNO_SECOND_LOOK
 * verify: fail -DNOT_HIDDEN
 * verify: fail -DNOT_TAKEN
 * verify: fail -DTAKEN_UNSEEN
 * verify: fail -DSTAYS_SHOWN
 * verify: fail -DMEMORY_FOR_TWIN
 * verify: fail -DFENCE_FIRST_LOOK
 * verify: fail -DFENCED_LATE
 */
#define TURNS 2
#define A 0
#define B 1
#define C 2

mtype = { FETCH, COPY, DIFF, KEPT };
mtype = { HIDDEN, ALONE, SHARED, TWIN };

byte refer[3];
bit held;   /* the lock */
byte told;  /* with it: the newest version that a write notice told of */
bit ended;  /* the home's program, under the lock */

/* The home. */
bit core;     /* the lock of its core */
byte word[3], twin[3];
byte version, newest;
bit dirty, writable, alone;

/* What it shows: `state` and `number` are one word. */
mtype state = HIDDEN;
byte number, shown;

/* What each version is. */
byte is[24];

bit fenced, rebuilt;

chan to_home = [2] of { mtype, byte };
chan to_one = [2] of { mtype, byte, byte, byte, byte };

inline lock() { atomic { !held -> held = 1 } }
inline unlock() { held = 0 }
/* With the lock the home's write notices go. */
inline release() { atomic { if :: newest > told -> told = newest :: else fi; held = 0 } }
inline enter() { atomic { !core -> core = 1 } }
inline leave() { core = 0 }

#ifdef NO_NUMBER /* mutant: what is shown again after a change looks as it did before */
#define SET(s) state = s
#else
#define SET(s) atomic { state = s; number++ }
#endif

/* Shows nothing any more; hears of it if the page was taken meanwhile. */
inline hide() {
  atomic {
#ifndef TAKEN_UNSEEN /* mutant: the home does not hear of it */
    if
    :: state == SHARED -> alone = 0
    :: else
    fi;
#endif
    SET(HIDDEN)
  }
}

inline tell() {
#ifndef NOT_HIDDEN /* mutant: version and place change while the old ones are shown */
  hide();
#endif
  shown = version;
  d_step {
    if
    :: dirty -> is[3 * version] = twin[A]; is[3 * version + 1] = twin[B]; is[3 * version + 2] = twin[C]
    :: else -> is[3 * version] = word[A]; is[3 * version + 1] = word[B]; is[3 * version + 2] = word[C]
    fi
  };
  if
  :: dirty -> SET(TWIN)
  :: !dirty && alone && writable -> skip
  :: !dirty && alone && !writable -> SET(ALONE)
  :: !dirty && !alone -> SET(SHARED)
  fi
}

/* The fault of a program that may not write. */
inline admit() {
  enter();
  if
  :: alone -> hide()
  :: else
  fi;
  if
  :: !alone && !dirty ->
     d_step { twin[A] = word[A]; twin[B] = word[B]; twin[C] = word[C] };
     dirty = 1;
#ifndef STAYS_SHOWN /* mutant: the page itself is shown while the program writes */
     tell()
#endif
  :: else
  fi;
  writable = 1;
  leave()
}

inline store(w) {
  do
  :: atomic { writable -> word[w]++; refer[w]++; break }
  :: !writable -> admit()
  od
}

/* Writes, and writes back what was there: no change, and no version. */
inline flicker() {
  do
  :: atomic { writable -> word[C] = word[C] + 100 }; break
  :: !writable -> admit()
  od;
  do
  :: atomic { writable -> word[C] = word[C] - 100; break }
  :: !writable -> admit()
  od
}

inline flush() {
  enter();
  if
  :: dirty ->
     writable = 0;
#ifndef NOT_HIDDEN
     hide();
#endif
     dirty = 0;
     if
     :: word[A] != twin[A] || word[C] != twin[C] -> version++; newest = version; alone = 1
     :: else
     fi;
     tell()
  :: else
  fi;
  leave()
}

active proctype program() {
  byte n;
  do
  :: n < TURNS ->
     lock();
     assert(word[B] == refer[B]);
     store(A);
     flush();
     release();
     if
     :: store(C)
     :: !dirty && !writable -> flicker(); flush()
     fi;
     n++
  :: else -> break
  od;
  lock();
  flush();
  ended = 1;
  release()
}

active proctype server() {
  byte b;
end:
  do
  :: to_home ? FETCH(_) ->
     enter();
     if
     :: alone && writable -> writable = 0
     :: else
     fi;
     if
     :: alone -> alone = 0; tell()
     :: else
     fi;
     if
     :: dirty -> to_one ! COPY(version, twin[A], twin[B], twin[C])
     :: else -> to_one ! COPY(version, word[A], word[B], word[C])
     fi;
     leave()
  :: to_home ? DIFF(b) ->
     enter();
     hide();
     word[B] = b;
     twin[B] = b;
     version++;
     tell();
     to_one ! KEPT(version, 0, 0, 0);
     leave()
  od
}

/* The node that takes the home for dead lets its memory count no more, first of all. */
active proctype survivor() {
#ifdef FENCED_LATE /* mutant: the page has a new home before the old one's memory is fenced */
  rebuilt = 1;
  fenced = 1
#else
  fenced = 1;
  rebuilt = 1
#endif
}

active proctype other() {
  byte mine[3], copy[3], have, kept, n, looked, v;
  mtype s;
  bit last, done, early;
  do
  :: n < TURNS || !last ->
     lock();
     last = ended;
     /* A copy that is new enough may be fetched again, as where the page was dropped. */
     if
     :: have >= told -> done = 1
     :: n < TURNS -> done = 0
     :: have < told -> done = 0
     fi;
     if
     :: !done ->
#ifdef FENCE_FIRST_LOOK /* mutant: whether the home counts is asked before the copy */
        early = fenced;
#endif
        atomic { s = state; looked = number };
#ifndef NOT_TAKEN /* mutant: the home does not hear that somebody has the page */
        if
        :: s == ALONE ->
           atomic {
             if
             :: state == ALONE && number == looked -> state = SHARED; s = SHARED
             :: else -> s = HIDDEN
             fi
           }
        :: else
        fi;
#endif
        if
        :: s != HIDDEN ->
           v = shown;
           if
#ifdef MEMORY_FOR_TWIN /* mutant: what the home has not released is copied */
           :: true ->
#else
           :: s != TWIN ->
#endif
              copy[A] = word[A]; copy[C] = word[C]; copy[B] = word[B]
#ifndef MEMORY_FOR_TWIN
           :: s == TWIN -> copy[A] = twin[A]; copy[C] = twin[C]; copy[B] = twin[B]
#endif
           fi;
#ifdef NO_SECOND_LOOK /* mutant */
           done = 1;
#else
           atomic { done = (state == s && number == looked) };
#endif
           if
           :: done ->
#ifdef FENCE_FIRST_LOOK
              atomic { done = !early; assert(!done || !rebuilt) };
#else
              atomic { done = !fenced; assert(!done || !rebuilt) };
#endif
           :: else
           fi;
           if
           :: done ->
              atomic {
                assert(copy[A] == is[3 * v] && copy[B] == is[3 * v + 1] && copy[C] == is[3 * v + 2]);
                have = v; mine[A] = copy[A]; mine[B] = copy[B]; mine[C] = copy[C]
              }
           :: else
           fi
        :: else
        fi;
        if
        :: !done -> to_home ! FETCH(0); to_one ? COPY(have, mine[A], mine[B], mine[C])
        :: else
        fi
     :: else
     fi;
     assert(have >= told);
     assert(mine[A] == refer[A] && mine[B] == refer[B]);
     assert(!last || mine[C] == refer[C]);
     if
     :: n < TURNS ->
        mine[B]++;
        refer[B]++;
        to_home ! DIFF(mine[B]);
        to_one ? KEPT(kept, _, _, _);
        told = kept;
        if
        :: kept == have + 1 -> have = kept
        :: else
        fi;
        n++
     :: else
     fi;
     unlock()
  :: else -> break
  od
}
