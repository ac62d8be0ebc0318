/* dsm-locks.pml: a lock that goes from holder to holder (native/dsm/manager.c, locks.c).
 *
 * One lock, its manager at node 0, and three nodes that take it, try it and give it back.  Turns of
 * the lock have numbers.  The manager knows the last turn and whose it is.  It tells that node who
 * comes next, and after which turn.  A node gives the lock to the next straight from its hand: at
 * once where that turn of its own is over, whatever it has sent to the manager meanwhile.  A node
 * may keep the lock, and then takes it again without a message.  Of such a one the manager asks the
 * lock back before it refuses a trial.
 *
 * `done` counts critical sections.  Who enters one must know of all before: the grants carry that.
 * A trial is refused only if another node had to do with the lock meanwhile.  Nobody waits for
 * ever: that would be an end of the search with a process inside.  The manager's own messages to
 * itself go through a channel too, which allows more than the calls that the C code makes.
 *
 * Left out: other locks (each has its own state), conditions (they lock and unlock), the end of a
 * node (the job ends with it), and when a lock is worth keeping: the model keeps as it likes.
 *
 * verify: pass -DFIRST=1
 * verify: pass -DSTEPS=3 -DN=2
 * verify: fail -DOWN_ORDER
 * verify: fail -DLATE_NEXT_WAITS
 * verify: fail -DANY_TURN
 * verify: fail -DFREED_BY_ANYBODY
 * verify: fail -DKEPT_AND_GIVEN
 * verify: fail -DOLD_NEWS
 * verify: fail -DREFUSED_UNASKED
 * verify: fail -DHOLDER_IS_SILENT
 * verify: fail -DASKED_HOLDER_KEEPS
 */
#ifndef N
#define N 3
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef FIRST /* node 0 does so much */
#define FIRST STEPS
#endif
#define NOBODY N

mtype = { LOCK, TRY, RELEASE, HELD, GRANT, REFUSED, NEXT };

/* Type, node, turn, whether it may be kept, what the sender knows of. */
chan to[9] = [4] of { mtype, byte, byte, bit, byte };
#define CHANNEL(from, there) to[(from) * 3 + (there)]

byte done;         /* critical sections */
bit busy[3];       /* has to do with the lock, a release under way included */
bit met_busy[3];   /* another node was busy while this one tried */
byte finished;

/* The manager. */
bit free = 1, kept, asked;
byte tail = NOBODY, turn, knows, asked_of;
bit tries[3];

inline note_busy(n) {
  busy[n] = 1;
  for (k : 0 .. N - 1) { if :: k != n -> met_busy[k] = 1 :: else fi }
}

inline grant_free(q, keeps) {
  turn++; free = 0; kept = keeps; tail = q;
  CHANNEL(0, q) ! GRANT(q, turn, keeps, knows)
}

/* The trials that waited for an answer: the first takes what is free. */
inline end_trials() {
  for (k : 0 .. N - 1) {
    if
    :: tries[k] && free -> tries[k] = 0; grant_free(k, 0)
    :: tries[k] && !free -> tries[k] = 0; CHANNEL(0, k) ! REFUSED(0, 0, 0, 0)
    :: else
    fi
  }
}

inline manage() {
  if
  :: what == LOCK && free ->
     if :: grant_free(who, 0) :: grant_free(who, 1) fi
  :: what == LOCK && !free ->
#ifndef OWN_ORDER /* mutant: the next one's name is lost */
     CHANNEL(0, tail) ! NEXT(who, turn, 0, 0);
#endif
     turn++; tail = who; kept = 0
  :: what == TRY && free ->
     if :: grant_free(who, 0) :: grant_free(who, 1) fi
#ifdef REFUSED_UNASKED /* mutant: a lock that is kept counts as held */
  :: what == TRY && !free -> CHANNEL(0, who) ! REFUSED(0, 0, 0, 0)
#else
  :: what == TRY && !free && !kept && !asked -> CHANNEL(0, who) ! REFUSED(0, 0, 0, 0)
  :: what == TRY && !free && (kept || asked) ->
     tries[who] = 1;
     if
     :: !asked -> asked = 1; asked_of = tail; CHANNEL(0, tail) ! NEXT(NOBODY, turn, 0, 0)
     :: else
     fi
#endif
  :: what == RELEASE ->
     busy[from] = holding[from] || waiting[from];
     if
#ifdef FREED_BY_ANYBODY /* mutant: a release counts that crossed the next one's name */
     :: free = 1; kept = 0; knows = news
#else
     :: tail == from -> free = 1; kept = 0; knows = news
#endif
     :: tail != from -> skip
     fi;
     if :: asked && asked_of == from -> asked = 0; end_trials() :: else fi
  :: what == HELD ->
     asked = 0;
     if :: number == turn -> kept = 0 :: else fi;
     end_trials()
  fi
}

/* A node's side; `after` is the turn that `next` comes after. */
bit holding[3], waiting[3], keeps[3];
byte had[3], next[3], knew[3];

inline give(q) {
  CHANNEL(me, q) ! GRANT(q, had[me] + 1, 0, knew[me]);
#ifndef KEPT_AND_GIVEN /* mutant: a node that gave a lock away takes it again */
  keeps[me] = 0;
#endif
  busy[me] = waiting[me]
}

inline give_back() {
  keeps[me] = 0;
  CHANNEL(me, 0) ! RELEASE(me, had[me], 0, knew[me])
}

inline hear_next() {
  if
  :: who == NOBODY && holding[me] ->
#ifndef ASKED_HOLDER_KEEPS /* mutant: it says that it holds the lock, and keeps it afterwards */
     keeps[me] = 0;
#endif
#ifndef HOLDER_IS_SILENT /* mutant: a holder that is asked says nothing */
     CHANNEL(me, 0) ! HELD(me, number, 0, 0)
#endif
  :: who == NOBODY && !holding[me] -> give_back()
#ifdef LATE_NEXT_WAITS /* mutant: what was given back is not given to the next */
  :: who != NOBODY -> next[me] = who
#else
#ifdef ANY_TURN /* mutant: whatever turn it is after */
  :: who != NOBODY && !holding[me] -> give(who)
  :: who != NOBODY && holding[me] -> next[me] = who
#else
  :: who != NOBODY && number == had[me] && !holding[me] -> give(who)
  :: who != NOBODY && (number != had[me] || holding[me]) -> next[me] = who
#endif
#endif
  fi
}

inline enter() {
  assert(knew[me] == done);
  for (k : 0 .. N - 1) { assert(!holding[k]) }
  holding[me] = 1;
  done++; knew[me] = done
}

inline unlock() {
  holding[me] = 0;
  if
  :: next[me] != NOBODY ->
     give(next[me]); next[me] = NOBODY
  :: next[me] == NOBODY && keeps[me] -> busy[me] = 0
  :: next[me] == NOBODY && !keeps[me] -> give_back()
  fi
}

proctype node(byte me) {
  mtype what; byte who, number, news, from, k, steps = (me == 0 -> FIRST : STEPS); bit keep, tried, ended;
  next[me] = NOBODY;
  do
  :: atomic { steps > 0 && !holding[me] && !waiting[me] ->
       steps--; note_busy(me);
       if
       :: keeps[me] -> enter()
       :: !keeps[me] -> waiting[me] = 1; tried = 0; CHANNEL(me, 0) ! LOCK(me, 0, 0, 0)
       fi;
       k = 0 }
  :: atomic { steps > 0 && !holding[me] && !waiting[me] ->
       steps--;
       met_busy[me] = 0;
       for (k : 0 .. N - 1) { if :: k != me && busy[k] -> met_busy[me] = 1 :: else fi };
       note_busy(me);
       if
       :: keeps[me] -> enter()
       :: !keeps[me] -> waiting[me] = 1; tried = 1; CHANNEL(me, 0) ! TRY(me, 0, 0, 0)
       fi;
       k = 0 }
  :: atomic { holding[me] -> unlock(); k = 0 }
  :: atomic { steps == 0 && !ended && !holding[me] && !waiting[me] -> ended = 1; finished++ }
  :: atomic { finished == N && empty(CHANNEL(0, me)) && empty(CHANNEL(1, me)) && empty(CHANNEL(2, me)) -> break }
  :: atomic {
       if
       :: CHANNEL(0, me) ? what(who, number, keep, news) -> from = 0
       :: CHANNEL(1, me) ? what(who, number, keep, news) -> from = 1
       :: CHANNEL(2, me) ? what(who, number, keep, news) -> from = 2
       fi;
       if
       :: what == GRANT ->
          assert(waiting[me]);
          waiting[me] = 0; tried = 0; met_busy[me] = 0; had[me] = number; keeps[me] = keep;
#ifndef OLD_NEWS /* mutant: a grant does not say what was done before it */
          knew[me] = news;
#endif
          enter()
       :: what == REFUSED ->
          assert(waiting[me] && tried && met_busy[me]);
          waiting[me] = 0; busy[me] = 0; tried = 0; met_busy[me] = 0
       :: what == NEXT -> hear_next()
       :: else -> manage()
       fi;
       what = 0; who = 0; number = 0; news = 0; from = 0; keep = 0; k = 0 }
  od
}

init { atomic { byte i; for (i : 0 .. N - 1) { run node(i) } } }
