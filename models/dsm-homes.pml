/* dsm-homes.pml: reads see the last write before them although a page's home moves
 * (native/dsm/core.h).
 *
 * Three nodes, one page of two words, one lock, whose manager is node 0.  The page's home is node 0
 * at first.  A home that gets a diff of a writer that is alone may make the writer the home, with
 * the acknowledgement, as it likes: the policies are ways to choose.  Who was the home passes
 * requests on.  What write notices say is one number here, as there is one page: the newest version
 * that was released.
 *
 * X is counted up under the lock by all; U is node 2's, so that its diffs and others' meet.
 *
 * verify: pass
 * verify: fail -DMOVES_TO_ANYBODY
 * verify: fail -DSTILL_HOME
 * verify: fail -DVERSION_STAYS
 * verify: fail -DNO_ACKNOWLEDGEMENT
 */
#define NODES 3
#define X 0
#define U 1
#define NOBODY 9

mtype = { FETCH, COPY, DIFF, KEPT, ASK, GIVE, BACK };

typedef node_t {
  byte word[2];
  byte twin[2];
  byte version; /* home: diffs received; elsewhere: what the copy was fetched at */
  byte needed;  /* by a notice */
  byte told;    /* the newest that a release of this node may tell of */
  byte home;    /* as far as this node knows */
  bit was_home;
  bit dirty;
  bit done
};

node_t node[NODES];
byte holder = NOBODY, newest; /* the lock, and what its release told of */
bit waits[NODES];
byte counted;                 /* X as it has to be */
byte finished;

/* To and from: type, who began it, a version, two words, which of them. */
chan wire[NODES * NODES] = [4] of { mtype, byte, byte, byte, byte, byte };
#define TO(to) wire[me * NODES + (to)]

#define AT_HOME (node[me].home == me)
#define RELEASED(w) (node[me].dirty -> node[me].twin[w] : node[me].word[w])
#define HELD                                                                         \
  ((node[me].word[X] != node[me].twin[X]) + 2 * (node[me].word[U] != node[me].twin[U]))

/* ---- the application ---- */

inline validate() {
  if
  :: AT_HOME || node[me].version >= node[me].needed
  :: else ->
     atomic { node[me].done = 0; TO(node[me].home) ! FETCH(me, 0, 0, 0, 0) };
     (node[me].done)
  fi
}

inline store(w, value) {
  validate();
  d_step {
    if
    :: !node[me].dirty ->
       node[me].twin[X] = node[me].word[X];
       node[me].twin[U] = node[me].word[U];
       node[me].dirty = 1
    :: else
    fi;
    node[me].word[w] = value
  }
}

inline flush() {
  atomic {
    if
    :: node[me].dirty && AT_HOME && HELD != 0 ->
       node[me].version++;
       node[me].told = node[me].version;
       node[me].dirty = 0
    :: node[me].dirty && !AT_HOME && HELD != 0 ->
       TO(node[me].home) ! DIFF(me, node[me].version, node[me].word[X], node[me].word[U], HELD)
    :: else -> node[me].dirty = 0
    fi
  };
#ifndef NO_ACKNOWLEDGEMENT /* mutant: others may hear of it before it is home */
  (!node[me].dirty)
#endif
}

inline lock() {
  atomic { node[me].done = 0; TO(0) ! ASK(me, 0, 0, 0, 0) };
  (node[me].done)
}

inline unlock() {
  flush();
  TO(0) ! BACK(me, node[me].told, 0, 0, 0)
}

inline count_up() {
  lock();
  validate();
  assert(node[me].word[X] == counted);
  store(X, node[me].word[X] + 1);
  counted++;
  unlock()
}

proctype application(byte me) {
  if
  :: me == 2 -> store(U, 1); flush(); count_up()
  :: else -> count_up(); count_up()
  fi;
  finished++;
  (finished == NODES);
  lock();
  validate();
  assert(node[me].word[X] == 5 && node[me].word[U] == 1);
  unlock()
}

/* ---- the server ---- */

#define MAX(a, b) ((a) > (b) -> (a) : (b))

inline take_copy(w, fresh) {
  if
  :: node[me].dirty && node[me].word[w] != node[me].twin[w]
  :: else -> node[me].word[w] = fresh
  fi;
  node[me].twin[w] = fresh
}

inline take_diff(w, fresh) {
  if
  :: held & (1 << w) -> node[me].word[w] = fresh; node[me].twin[w] = fresh
  :: else
  fi
}

#ifdef MOVES_TO_ANYBODY /* mutant: also to who lacks others' changes */
#define ALONE true
#else
#define ALONE (!node[me].dirty && version == node[me].version)
#endif

#ifdef VERSION_STAYS /* mutant: the new home counts from where its copy was */
#define COUNTS (a == 0)
#else
#define COUNTS true
#endif

proctype server(byte me) {
  byte origin, version, held, from, n, a, b;
end:
  do
  :: atomic {
       len(wire[0 * NODES + me]) + len(wire[1 * NODES + me]) + len(wire[2 * NODES + me]) > 0;
       if
       :: nempty(wire[0 * NODES + me]) -> from = 0
       :: nempty(wire[1 * NODES + me]) -> from = 1
       :: nempty(wire[2 * NODES + me]) -> from = 2
       fi;
       if
       :: wire[from * NODES + me] ? FETCH(origin, version, a, b, held) ->
          assert(AT_HOME || node[me].was_home);
          if
          :: AT_HOME -> TO(origin) ! COPY(me, node[me].version, RELEASED(X), RELEASED(U), 0)
          :: else -> TO(node[me].home) ! FETCH(origin, version, a, b, held)
          fi
       :: wire[from * NODES + me] ? COPY(origin, version, a, b, held) ->
          assert(version >= node[me].needed);
          take_copy(X, a);
          take_copy(U, b);
          node[me].version = version;
          node[me].home = from;
          node[me].done = 1
       :: wire[from * NODES + me] ? DIFF(origin, version, a, b, held) ->
          assert(AT_HOME || node[me].was_home);
          if
          :: AT_HOME ->
             n = 0;
             if
             :: ALONE -> n = 1 /* it moves */
             :: true
             fi;
             take_diff(X, a);
             take_diff(U, b);
             node[me].version++;
             TO(origin) ! KEPT(me, node[me].version, n, 0, 0);
#ifndef STILL_HOME /* mutant: who was the home goes on answering */
             if
             :: n -> node[me].home = origin; node[me].was_home = 1
             :: else
             fi
#endif
          :: else -> TO(node[me].home) ! DIFF(origin, version, a, b, held)
          fi
       :: wire[from * NODES + me] ? KEPT(origin, version, a, b, held) ->
          node[me].home = (a -> me : from);
          if
          :: version == node[me].version + 1 && COUNTS -> node[me].version = version
          :: else
          fi;
          node[me].told = MAX(node[me].told, version);
          node[me].dirty = 0
       :: wire[from * NODES + me] ? ASK(origin, version, a, b, held) ->
          if
          :: holder == NOBODY -> holder = origin; TO(origin) ! GIVE(me, newest, 0, 0, 0)
          :: else -> waits[origin] = 1
          fi
       :: wire[from * NODES + me] ? BACK(origin, version, a, b, held) ->
          newest = MAX(newest, version);
          holder = NOBODY;
          n = 0;
          do
          :: n < NODES && waits[n] ->
             waits[n] = 0;
             holder = n;
             TO(n) ! GIVE(me, newest, 0, 0, 0);
             break
          :: n < NODES && !waits[n] -> n++
          :: n == NODES -> break
          od
       :: wire[from * NODES + me] ? GIVE(origin, version, a, b, held) ->
          node[me].told = MAX(node[me].told, version);
          if /* a home has what it is told of */
          :: AT_HOME
          :: else -> node[me].needed = MAX(node[me].needed, version)
          fi;
          node[me].done = 1
       fi;
       d_step { origin = 0; version = 0; a = 0; b = 0; held = 0; from = 0; n = 0 }
     }
  od
}

init {
  atomic {
    run server(0);
    run server(1);
    run server(2);
    run application(0);
    run application(1);
    run application(2)
  }
}
