/* dsm.pml: reads see the last write before them (native/dsm/core.h).
 *
 * Three nodes, two pages of two words, two locks, one barrier.  Page p has its
 * home at node p, lock l its manager at node l, the barrier at node 2.  A node
 * is an application, which reads and writes, and a server, which takes messages from
 * channels in order, one per pair of nodes.  What a write notice says is kept
 * once for all (it never changes); which notices a node has, its vector time says.
 * One word here is what a byte is in the C code: diffs are always exact.
 *
 * A home answers a fetch with the page or with the words that changed since the copy's
 * version, as it likes: the policies are ways to choose.
 *
 * Left out: homes that move (dsm-homes.pml has them) and homes alone with a page (dsm-alone.pml); diffs that ride on notices; asking for a diff again with masks; batches of
 * pages; the log of intervals and when it is trimmed
 * (dsm-rounds.pml has the floor); semaphores, flags, counters and conditions;
 * barriers of some nodes; epochs and incarnations.  The core's own tests have these.
 *
 * X (page 0) is counted up under lock 0 by nodes 0 and 2, Y (page 1) under lock
 * 1 by nodes 1 and 2.  V (page 0) is node 0's alone, U (page 1) node 2's, until the
 * barrier: both pages have several writers at once.  Node 1 reads X, and Y then carries
 * whether node 1 came after node 0: if so, node 2 must see V.
 *
 * verify: pass
 * verify: fail -DNO_ACKNOWLEDGEMENT
 * verify: fail -DNO_NOTICES
 * verify: fail -DNOT_TRANSITIVE
 * verify: fail -DWHOLE_PAGE
 * verify: fail -DNO_MERGE
 * verify: fail -DALWAYS_NEW
 * verify: fail -DEARLY_BARRIER
 * verify: fail -DSTAMP_MISSED
 * verify: fail -DPART_TOO_SMALL
 */
#define NODES 3
#define INTERVALS 4 /* numbers of a node's intervals are below it */
#define X 0
#define V 1
#define Y 2
#define U 3
#define PAGE(word) ((word) / 2)
#define MEETING 2
#define NOBODY 9

mtype = { FETCH, COPY, DIFF, KEPT, ASK, GIVE, BACK, ARRIVE, OPEN };

typedef node_t {
  byte word[4];    /* two pages of two */
  byte twin[4];
  byte version[2]; /* home: diffs received; elsewhere: what the copy was fetched at */
  byte stamp[4];   /* home: the version that changed the word last */
  byte needed[2];
  byte time[NODES];
  byte changed[2]; /* versions of the pages that the ending interval changed; 0: not */
  byte awaited;    /* acknowledgements */
  bit dirty[2];    /* has a twin */
  bit done         /* what the application waits for has come */
};

typedef interval_t { byte version[2] }; /* of the pages it changed; 0: not */

typedef object_t {
  byte time[NODES];
  byte holder;
  byte arrived;
  bit waits[NODES]
};

node_t node[NODES];
interval_t interval[NODES * INTERVALS];
object_t object[3];

/* To and from: type, page or object, three numbers (a time, or a version and two words),
 * and for a diff which words it holds. */
chan wire[NODES * NODES] = [3] of { mtype, byte, byte, byte, byte, byte };
#define TO(to) wire[me * NODES + (to)]

#define VALID(page) (me == (page) || node[me].version[page] >= node[me].needed[page])

/* ---- the application ---- */

inline validate(page) {
  if
  :: VALID(page)
  :: else ->
     atomic { node[me].done = 0; TO(page) ! FETCH(page, node[me].version[page], 0, 0, 0) };
     (node[me].done)
  fi
}

inline store(w, value) {
  validate(PAGE(w));
  d_step {
    if
    :: !node[me].dirty[PAGE(w)] ->
       node[me].twin[2 * PAGE(w)] = node[me].word[2 * PAGE(w)];
       node[me].twin[2 * PAGE(w) + 1] = node[me].word[2 * PAGE(w) + 1];
       node[me].dirty[PAGE(w)] = 1
    :: else
    fi;
    node[me].word[w] = value
  }
}

#ifdef WHOLE_PAGE /* mutant: no twin, the page goes home as it is */
#define HELD(page) 3
#else
#define HELD(page)                                                                   \
  ((node[me].word[2 * (page)] != node[me].twin[2 * (page)]) +                         \
   2 * (node[me].word[2 * (page) + 1] != node[me].twin[2 * (page) + 1]))
#endif

/* As a home: these words are of the page's newest version. */
inline mark(p, held_) {
  if
  :: (held_) & 1 -> node[me].stamp[2 * (p)] = node[me].version[p]
  :: else
  fi;
  if
  :: (held_) & 2 -> node[me].stamp[2 * (p) + 1] = node[me].version[p]
  :: else
  fi
}

/* Diffs go home; then the interval gets its number. */
inline flush() {
  page = 0;
  do
  :: page < 2 && node[me].dirty[page] && me == page ->
     d_step {
       node[me].version[page]++;
#ifndef STAMP_MISSED /* mutant: the home's own changes leave no trace */
       mark(page, HELD(page));
#endif
       node[me].dirty[page] = 0;
       node[me].changed[page] = node[me].version[page];
       page++
     }
  :: page < 2 && node[me].dirty[page] && me != page ->
     atomic {
       node[me].awaited++;
       TO(page) ! DIFF(page, node[me].version[page], node[me].word[2 * page],
                       node[me].word[2 * page + 1], HELD(page));
#ifdef NO_ACKNOWLEDGEMENT
       node[me].changed[page] = node[me].version[page] + 1;
#endif
       page++
     }
  :: page < 2 && !node[me].dirty[page] -> page++
  :: page == 2 -> break
  od;
#ifndef NO_ACKNOWLEDGEMENT /* mutant: others may hear of it before it is home */
  (node[me].awaited == 0);
#else
  skip;
#endif
  d_step {
    if
    :: node[me].changed[0] + node[me].changed[1] > 0 ->
       node[me].time[me]++;
       interval[me * INTERVALS + node[me].time[me]].version[0] = node[me].changed[0];
       interval[me * INTERVALS + node[me].time[me]].version[1] = node[me].changed[1];
       node[me].changed[0] = 0;
       node[me].changed[1] = 0
    :: else
    fi;
    page = 0
  }
}

#define MY_TIME node[me].time[0], node[me].time[1], node[me].time[2]

inline lock(l) {
  atomic { node[me].done = 0; TO(l) ! ASK(l, MY_TIME, 0) };
  (node[me].done)
}

inline unlock(l) {
  flush();
  TO(l) ! BACK(l, MY_TIME, 0)
}

inline meet() {
  flush();
  atomic { node[me].done = 0; TO(MEETING) ! ARRIVE(MEETING, MY_TIME, 0) };
  (node[me].done)
}

#define WORD(w) node[me].word[w]

proctype application(byte me) {
  byte page;
  byte after; /* node 1: came after node 0 */
  if
  :: me == 0 ->
     store(V, 1);
     lock(0);
     validate(0);
     store(X, WORD(X) + 1);
     unlock(0)
  :: me == 1 ->
     lock(0);
     validate(0);
     after = WORD(X) & 1;
     unlock(0);
     lock(1);
     validate(1);
     store(Y, WORD(Y) + 1 + 4 * after);
     unlock(1)
  :: me == 2 ->
     store(U, 1);
     lock(0);
     validate(0);
     store(X, WORD(X) + 2);
     unlock(0);
     store(U, 2);
     lock(1);
     validate(1);
     if
     :: WORD(Y) >= 4 -> validate(0); assert(WORD(V) == 1)
     :: else
     fi;
     store(Y, WORD(Y) + 1);
     unlock(1)
  fi;
  meet();
  validate(0);
  assert(WORD(X) == 3 && WORD(V) == 1);
  validate(1);
  assert(WORD(Y) % 4 == 2 && WORD(U) == 2)
}

/* ---- the server ---- */

#define MAX(a, b) ((a) > (b) -> (a) : (b))

inline join(into, t0, t1, t2) {
  into.time[0] = MAX(into.time[0], t0);
  into.time[1] = MAX(into.time[1], t1);
  into.time[2] = MAX(into.time[2], t2)
}

inline learn(q, upto) {
  do
  :: q != me && node[me].time[q] < upto ->
     node[me].time[q]++;
#ifndef NO_NOTICES /* mutant: what was written is not told */
     node[me].needed[0] =
         MAX(node[me].needed[0], interval[q * INTERVALS + node[me].time[q]].version[0]);
     node[me].needed[1] =
         MAX(node[me].needed[1], interval[q * INTERVALS + node[me].time[q]].version[1])
#endif
  :: else -> break
  od
}

/* mutant: only the releaser's own intervals are passed on */
inline forget(q) {
  if
  :: q != from -> a[q] = 0
  :: else
  fi
}

#ifdef EARLY_BARRIER
#define ALL 2
#else
#define ALL 3
#endif

#define OBJECT_TIME object[about].time[0], object[about].time[1], object[about].time[2]

/* Own words that differ from the twin stay; twin and page become the copy. */
inline take_copy(w, fresh) {
#ifndef NO_MERGE /* mutant: a fresh copy buries own changes */
  if
  :: node[me].dirty[about] && node[me].word[w] != node[me].twin[w]
  :: else -> node[me].word[w] = fresh
  fi;
#else
  node[me].word[w] = fresh;
#endif
  node[me].twin[w] = fresh
}

#define RELEASED(w) (node[me].dirty[(w) / 2] -> node[me].twin[w] : node[me].word[w])

#ifdef PART_TOO_SMALL /* mutant: what came with the next version is left out */
#define SINCE(have) ((have) + 1)
#else
#define SINCE(have) (have)
#endif
#define CHANGED(p, have)                                                             \
  ((node[me].stamp[2 * (p)] > SINCE(have)) + 2 * (node[me].stamp[2 * (p) + 1] > SINCE(have)))

proctype server(byte me) {
  byte a[3];
  byte about, held, from, n;
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
       :: wire[from * NODES + me] ? FETCH(about, a[0], a[1], a[2], held) ->
          /* What the home has not released goes to nobody. */
          if
          :: TO(from) ! COPY(about, node[me].version[about], RELEASED(2 * about),
                             RELEASED(2 * about + 1), 3)
          :: TO(from) ! COPY(about, node[me].version[about], RELEASED(2 * about),
                             RELEASED(2 * about + 1), CHANGED(about, a[0]))
          fi
       :: wire[from * NODES + me] ? COPY(about, a[0], a[1], a[2], held) ->
          assert(a[0] >= node[me].needed[about]);
          if
          :: held & 1 -> take_copy(2 * about, a[1])
          :: else
          fi;
          if
          :: held & 2 -> take_copy(2 * about + 1, a[2])
          :: else
          fi;
          node[me].version[about] = a[0];
          node[me].done = 1
       :: wire[from * NODES + me] ? DIFF(about, a[0], a[1], a[2], held) ->
          n = 0;
          do
          :: n < 2 ->
             if
             :: held & (1 << n) ->
                node[me].word[2 * about + n] = a[1 + n];
                node[me].twin[2 * about + n] = a[1 + n]
             :: else
             fi;
             n++
          :: else -> break
          od;
          node[me].version[about]++;
          mark(about, held);
          TO(from) ! KEPT(about, node[me].version[about], 0, 0, 0)
       :: wire[from * NODES + me] ? KEPT(about, a[0], a[1], a[2], held) ->
#ifndef NO_ACKNOWLEDGEMENT
          node[me].changed[about] = a[0];
#endif
          node[me].dirty[about] = 0;
          node[me].awaited--;
          if
#ifdef ALWAYS_NEW /* mutant: others' changes between are overlooked */
          :: true -> node[me].version[about] = a[0]
#else
          :: a[0] == node[me].version[about] + 1 -> node[me].version[about] = a[0]
          :: else
#endif
          fi
       :: wire[from * NODES + me] ? ASK(about, a[0], a[1], a[2], held) ->
          if
          :: object[about].holder == NOBODY ->
             object[about].holder = from;
             TO(from) ! GIVE(about, OBJECT_TIME, 0)
          :: else -> object[about].waits[from] = 1
          fi
       :: wire[from * NODES + me] ? BACK(about, a[0], a[1], a[2], held) ->
          assert(object[about].holder == from);
#ifdef NOT_TRANSITIVE
          forget(0); forget(1); forget(2);
#endif
          join(object[about], a[0], a[1], a[2]);
          object[about].holder = NOBODY;
          n = 0;
          do
          :: n < NODES && object[about].waits[n] ->
             object[about].waits[n] = 0;
             object[about].holder = n;
             TO(n) ! GIVE(about, OBJECT_TIME, 0);
             break
          :: n < NODES && !object[about].waits[n] -> n++
          :: n == NODES -> break
          od
       :: wire[from * NODES + me] ? ARRIVE(about, a[0], a[1], a[2], held) ->
          join(object[about], a[0], a[1], a[2]);
          object[about].arrived++;
          if
          :: object[about].arrived == ALL ->
             TO(0) ! OPEN(about, OBJECT_TIME, 0);
             TO(1) ! OPEN(about, OBJECT_TIME, 0);
             TO(2) ! OPEN(about, OBJECT_TIME, 0)
          :: else
          fi
       :: wire[from * NODES + me] ? GIVE(about, a[0], a[1], a[2], held) ->
          learn(0, a[0]); learn(1, a[1]); learn(2, a[2]);
          node[me].done = 1
       :: wire[from * NODES + me] ? OPEN(about, a[0], a[1], a[2], held) ->
          learn(0, a[0]); learn(1, a[1]); learn(2, a[2]);
          node[me].done = 1
       fi;
       d_step { a[0] = 0; a[1] = 0; a[2] = 0; about = 0; held = 0; from = 0; n = 0 } /* fewer states */
     }
  od
}

init {
  atomic {
    object[0].holder = NOBODY;
    object[1].holder = NOBODY;
    run server(0);
    run server(1);
    run server(2);
    run application(0);
    run application(1);
    run application(2)
  }
}
