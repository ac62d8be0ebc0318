/* cna.pml: nobody is lost between the two queues (native/lock/queue.c).
 *
 * THREADS threads of two sockets take the lock ROUNDS times each.  Whether a hand-off
 * prefers the holder's socket is not determined, nor is where a waiter is when it is
 * looked for: a holder may find a successor that has not linked itself yet.  Each C
 * atomic operation is one atomic step; what only the holder touches goes with the
 * step before it.  A lost waiter is an invalid end state.
 *
 * At each grant: the secondary queue followed by the main queue is in order of arrival
 * (what max_bypass builds on).  Arrivals are numbered where they happen, at the swap of
 * the tail.
 *
 * GIVE_UP: thread 1 may leave while it waits; its node is passed over.
 *
 * verify: pass -DTHREADS=3 -DROUNDS=2
 * verify: pass -DTHREADS=4 -DROUNDS=1
 * verify: pass -DTHREADS=3 -DROUNDS=1 -DGIVE_UP
 * verify: pass -DTHREADS=4 -DROUNDS=1 -DGIVE_UP
 * verify: fail -DTHREADS=3 -DROUNDS=2 -DDROP_ASIDE
 * verify: fail -DTHREADS=3 -DROUNDS=2 -DNO_AWAIT_LINK
 * verify: fail -DTHREADS=4 -DROUNDS=1 -DKEEP_CHAIN
 * verify: fail -DTHREADS=3 -DROUNDS=1 -DGIVE_UP -DNO_CLAIM
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define NOBODY 0
#define NODES (THREADS + 1) /* thread i has node i */
#define SOCKET(node) ((node) % 2)

byte tail;
byte next[NODES];
bit linked[NODES];
bit granted[NODES];
byte arrival[NODES];
byte arrivals;
byte inside;

/* The holder's. */
byte aside_first, aside_last;

#ifdef GIVE_UP
bit left[NODES], offered[NODES];
#endif

inline acquire() {
  d_step { next[me] = NOBODY; linked[me] = 0; granted[me] = 0 }
  atomic {
    before = tail;
    tail = me;
    arrivals++;
    arrival[me] = arrivals;
    arrived = arrivals;
  }
  if
  :: before == NOBODY -> holds = 1
  :: else ->
     d_step { next[before] = me; linked[before] = 1 }
     if
     :: granted[me] -> holds = 1
#ifdef GIVE_UP
     :: me == 1 ->
        atomic { /* one exchange of `claim` */
          if
#ifdef NO_CLAIM /* mutant: it leaves though it was offered the lock */
          :: true -> left[me] = 1; holds = 0
#else
          :: offered[me] -> holds = 1
          :: else -> left[me] = 1; holds = 0
#endif
          fi
        }
        if
        :: holds -> granted[me]
        :: else
        fi
#endif
     fi
  fi
}

/* Looks for the first waiter of this socket: `found`, `last` before it. */
inline find_local() {
  found = succ;
  last = NOBODY;
  do
  :: found != NOBODY && SOCKET(found) != SOCKET(me) ->
     last = found;
     if
     :: linked[found] -> found = next[found]
     :: else -> found = NOBODY
     fi
  :: else -> break
  od
}

inline set_aside() {
  d_step {
#ifndef KEEP_CHAIN /* mutant: the last one set aside still leads to the main queue */
    next[last] = NOBODY;
    linked[last] = 0;
#endif
    if
    :: aside_first == NOBODY -> aside_first = succ
    :: else -> next[aside_last] = succ; linked[aside_last] = 1
    fi;
    aside_last = last
  }
}

/* The invariant: walks the secondary queue, then the main queue from `from` on. */
inline check_order(from) {
  d_step {
    walk = aside_first;
    if
    :: walk == NOBODY -> walk = from; in_main = 1
    :: else -> in_main = 0
    fi;
    newest = 0;
    do
    :: walk != NOBODY ->
       assert(arrival[walk] > newest);
       newest = arrival[walk];
       if
       :: linked[walk] -> walk = next[walk]
       :: !linked[walk] && !in_main -> walk = from; in_main = 1
       :: else -> walk = NOBODY
       fi
    :: else -> break
    od;
    walk = 0; newest = 0; in_main = 0
  }
}

/* `succ` follows `node`, or NOBODY: `node` was the last one and the lock is free. */
inline successor() {
  if
  :: linked[node] -> succ = next[node]
  :: else ->
     atomic {
       if
       :: tail == node && aside_first == NOBODY -> tail = NOBODY; succ = NOBODY
       :: tail == node && aside_first != NOBODY ->
#ifdef DROP_ASIDE /* mutant: those set aside are forgotten */
          tail = NOBODY; succ = NOBODY
#else
          tail = aside_last; succ = aside_first
#endif
          ;
          aside_first = NOBODY; aside_last = NOBODY
       :: else -> succ = node
       fi
     }
     if
     :: succ == node ->
#ifndef NO_AWAIT_LINK /* mutant: takes the successor before it has said who it is */
        linked[node];
#endif
        succ = next[node]
     :: else
     fi
  fi;
  if
  :: succ == NOBODY
  :: else ->
     check_order(succ);
     if
     :: find_local() /* the chance says: stay */
     :: found = NOBODY /* leave */
     fi;
     if
     :: found != NOBODY ->
        if
        :: last != NOBODY -> set_aside()
        :: else
        fi;
        succ = found
     :: found == NOBODY && aside_first != NOBODY ->
        d_step {
          next[aside_last] = succ; linked[aside_last] = 1;
          succ = aside_first;
          aside_first = NOBODY; aside_last = NOBODY
        }
     :: else
     fi
  fi
}

inline release() {
  node = me;
  do
  :: successor();
     if
     :: succ == NOBODY -> break
     :: else ->
#ifdef GIVE_UP
        atomic {
          if
          :: left[succ] -> node = succ; succ = NOBODY
          :: else -> offered[succ] = 1
          fi
        }
        if
        :: succ != NOBODY -> granted[succ] = 1; break
        :: else
        fi
#else
        granted[succ] = 1;
        break
#endif
     fi
  od
}

proctype thread(byte me) {
  byte before, succ, found, last, node, arrived, round, walk, newest;
  bit holds, in_main;
  do
  :: round < ROUNDS ->
     acquire();
     if
     :: holds ->
        inside++;
        assert(inside == 1);
        inside--;
        release();
        round++
     :: else -> break /* its node belongs to the queue */
     fi;
     before = 0; succ = 0; found = 0; last = 0; node = 0; arrived = 0
  :: else -> break
  od
}

init {
  byte i;
  atomic {
    for (i : 1 .. THREADS) {
      run thread(i)
    }
  }
  _nr_pr == 1;
  assert(tail == NOBODY && aside_first == NOBODY)
}
