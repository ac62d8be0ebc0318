/* dsm-alone.pml: a home that is alone with its page writes it without twin, diff and notice
 * (native/dsm/core.h, pages.c), and nobody misses what it wrote.
 *
 * One page of three words, its home node 0, another node 1, one lock.  A is written by the home and
 * B by node 1, both under the lock.  C is the home's: it writes it outside of the lock, and node 1
 * reads it when the home has ended.  `refer` has what each word should be: a write is done there
 * at once.
 *
 * The home's server takes a fetch in two steps, as the C code does: it takes the right to write
 * away, then it reads the page.  The program may run between them.
 *
 * Left out: pages in part (forgetting the past is a matter of one node; the core's tests have it),
 * homes that move, more nodes, diffs that ride on notices.
 *
 * verify: pass
 * verify: fail -DNEVER_ENDS
 * verify: fail -DFROM_THE_START
 * verify: fail -DREAD_FIRST
 * verify: fail -DALONE_WITH_WRITER
 */
#define TURNS 3
#define A 0
#define B 1
#define C 2

mtype = { FETCH, COPY, DIFF, KEPT };

byte refer[3];
bit held;   /* the lock */
byte told;  /* with it: the newest version that a write notice told of */
bit ended;  /* the home's program, under the lock */

/* The home. */
byte word[3], twin[3];
byte version;
bit dirty;    /* has a twin */
bit writable; /* the program may write without asking */
#ifdef FROM_THE_START /* mutant: node 1 has a copy of version 0 from the start */
bit alone = 1;
#else
bit alone;
#endif

chan to_home = [2] of { mtype, byte };
chan to_one = [2] of { mtype, byte, byte, byte, byte };

inline lock() { atomic { !held -> held = 1 } }
inline unlock() { held = 0 }

/* The program's write; a fault before it where it may not. */
inline store(w) {
  do
  :: atomic { writable -> word[w]++; refer[w]++; break }
  :: atomic {
       !writable ->
       if
       :: !alone && !dirty ->
          twin[A] = word[A]; twin[B] = word[B]; twin[C] = word[C];
          dirty = 1
       :: else
       fi;
       writable = 1
     }
  od
}

inline flush() {
  atomic {
    if
    :: dirty ->
       writable = 0;
       dirty = 0;
       if
       :: word[A] != twin[A] || word[C] != twin[C] -> version++; told = version; alone = 1
       :: else
       fi
    :: else
    fi
  }
}

active proctype program() {
  byte n;
  do
  :: n < TURNS ->
     lock();
     assert(word[B] == refer[B]);
     store(A);
     flush();
     unlock();
     store(C);
     n++
  :: else -> break
  od;
  lock();
  flush();
  ended = 1;
  unlock()
}

inline end_alone() {
  atomic {
    if
    :: alone && writable -> writable = 0
    :: else
    fi;
    alone = 0
  }
}

active proctype server() {
  byte b, seen[3];
end:
  do
  :: to_home ? FETCH(_) ->
#ifdef READ_FIRST /* mutant: what is written between is in no copy and in no notice */
     atomic { seen[A] = word[A]; seen[B] = word[B]; seen[C] = word[C] };
     end_alone();
     to_one ! COPY(version, seen[A], seen[B], seen[C])
#else
#ifndef NEVER_ENDS /* mutant: it gives the page away and goes on alone */
     end_alone();
#endif
     /* What the home has not released goes to nobody. */
     atomic {
       if
       :: dirty -> to_one ! COPY(version, twin[A], twin[B], twin[C])
       :: else -> to_one ! COPY(version, word[A], word[B], word[C])
       fi
     }
#endif
  :: atomic {
       to_home ? DIFF(b) ->
       word[B] = b;
       twin[B] = b;
       version++;
#ifdef ALONE_WITH_WRITER /* mutant: the writer has the newest version, too */
       alone = 1;
#endif
       to_one ! KEPT(version, 0, 0, 0)
     }
  od
}

active proctype other() {
  byte mine[3], have, kept, n;
  bit last;
  do
  :: n < TURNS || !last ->
     lock();
     last = ended;
     if
     :: have < told -> to_home ! FETCH(0); to_one ? COPY(have, mine[A], mine[B], mine[C])
     :: else
     fi;
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
