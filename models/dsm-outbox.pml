/* dsm-outbox.pml: a node that was lost does again what it did, and the other does not go back
 * (native/dsm/outbox.h, journal.h, replay.h).
 *
 * Two nodes and a launcher.  Node 0 asks now and then, and node 1 tells it something now and then.
 * With each request, and with each message that it hears, node 0 sends a message. What that says
 * follows from all that node 0 did before it: so another order would say something else.  Messages
 * come in order, and have numbers. With each goes the number up to which its sender has kept what
 * came the other way; that may be said without a message as well, as number 0.
 *
 * Node 0 may be lost between any two of its steps. Then what was on its way to it is lost, and of
 * what it sent nothing or all comes. A new process joins when the other has seen the end. It has the
 * journal, or the image of a checkpoint and the journal from there on. Both greet with what they have
 * kept, and send the rest. The new one does again what is in the journal; meanwhile what it hears goes
 * to the journal's end. A loss while it does so has all go back, and is not in here.
 *
 * Once, when nothing is on its way and both stand still, there is a cut. Both write their images, and
 * the launcher commits; or it gives up before.  Its word of that comes to each node by itself, so that
 * a message from behind the cut may come first.
 *
 * Node 1 acts on each message once, in order. In the end what it acted on is what node 0's process
 * did, whichever that is, and node 0 has all that node 1 told it. A message is acted on in the history
 * in which it was sent, also when it is repeated.
 *
 * verify: pass
 * verify: pass -DLOSSES=2 -DSAYS=1
 * verify: fail -DTOLD_EARLY
 * verify: fail -DTAKEN_EARLY
 * verify: fail -DASKED_EARLY
 * verify: fail -DNEW_FIRST
 * verify: fail -DGREETS_LATE
 * verify: fail -DSENT_AGAIN
 * verify: fail -DFORGETS
 * verify: fail -DOLD_HISTORY
 * verify: fail -DCUT_UNWRITTEN
 * verify: fail -DNOT_RENEWED
 */
#ifndef SAYS
#define SAYS 2 /* messages that node 1 sends */
#endif
#ifndef ASKS
#define ASKS 2 /* requests of node 0 */
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#define SENDS (SAYS + ASKS)
#define ROOM (SENDS + SAYS + 2)
#define EVENTS (SENDS + 2)

chan to_0 = [ROOM] of { byte, byte, bit };       /* number, kept, mark */
chan to_1 = [ROOM] of { byte, byte, byte, bit }; /* number, kept, what it says, mark */

/* ---- node 0 ---- */
mtype = { asked, told, cut_here };
mtype journal[EVENTS];
bit marks[EVENTS]; /* for the property alone: the history in which it was sent */
byte events;

byte life = 1, losses;
bit begun; /* this life has joined */
byte asks, tells; /* done, in this life's program */
byte at;          /* of the journal: so far it is done */
bit history, noted; /* the core's; the last in the journal */
byte sent, heard, kept, said; /* its outbox, of node 1 */
byte says[SENDS + 1];         /* what it sent, by number: what is not kept waits there */
bit greeted;
bit hears, asking; /* it is in the middle of a step */
#ifdef NEW_FIRST
byte lasts; /* what a life found in the journal */
#endif
/* Its image of the cut. */
byte image_asks, image_tells, image_at, image_sent, image_kept;
bit written;

#define LIVE (at == events)
#define WHAT (asks * (SAYS + 1) + tells)

/* ---- node 1 ---- */
byte sent_1, heard_1, kept_1, said_1;
bit greeted_1 = 1, noted_1, written_1;
bit mark_1[SAYS + 1];
byte acted[SENDS + 1]; /* on what it acted, by order */
bit waits_1, done; /* waits: for the one that is to join */

/* ---- the launcher ---- */
bit cut, committed, over;
bit word_0, word_1; /* that it is over; with it comes that there was a cut */

#ifdef FORGETS /* mutant: what is sent is not kept for another process */
#define WAITS(number, from) false
#else
#define WAITS(number, from) (number > from)
#endif

inline send_0(what) {
  sent++;
  says[sent] = what;
  if
#ifndef SENT_AGAIN /* mutant: also what the other has kept */
  :: sent <= heard -> skip
#endif
  :: else ->
     if
     :: greeted ->
        assert(history == noted);
        said = kept;
        to_1 ! sent, kept, says[sent], noted
     :: else
     fi
  fi
}

/* A message takes effect, or a request does: each is answered. */
inline takes(mark) {
  assert(history == mark);
  tells++;
  send_0(WHAT)
}

inline write(what, mark) {
  journal[events] = what;
  marks[events] = mark;
  events++
}

/* All of it is before: whatever happens now is after it. */
inline note(number) {
  if
  :: number && !noted ->
     if
     :: LIVE -> history = 1
     :: else
     fi;
#ifdef CUT_UNWRITTEN /* mutant: the history is new, and the journal does not say so */
     noted = 1
#else
     noted = 1;
     if
     :: LIVE -> write(cut_here, 1); at++
     :: else -> write(cut_here, 1)
     fi
#endif
  :: else
  fi
}

/* The other has kept so many. */
inline hears_kept(k) {
  if
  :: greeted -> assert(k <= sent || k <= heard)
  :: else
  fi;
  if
  :: k > heard -> heard = k
  :: else
  fi;
  if
  :: !greeted ->
     greeted = 1;
     said = kept;
     number = heard + 1;
#ifdef SENT_AGAIN
     number = 1;
#endif
     do
     :: number <= sent && WAITS(number, heard) -> to_1 ! number, kept, says[number], noted; number++
     :: number <= sent && !WAITS(number, heard) -> number++
     :: number > sent -> break
     od
  :: else
  fi
}

/* What is on its way to node 0, and to node 1. */
inline lose_0() {
  do
  :: nempty(to_0) -> to_0 ? _, _, _
  :: empty(to_0) -> break
  od
}

inline lose_1() {
  do
  :: nempty(to_1) -> to_1 ? _, _, _, _
  :: empty(to_1) -> break
  od
}

#define ALIVE (mine == life)

proctype process() {
  byte mine = life, number, k;
  bit mark;
  /* It joins when the other is there. */
  atomic { mine == 1 || waits_1 ->
    begun = 1;
    waits_1 = 0;
    if
    :: mine > 1 -> lose_0() /* what went into the old connection */
    :: else
    fi;
#ifndef GREETS_LATE
    if
    :: mine > 1 -> to_1 ! 0, kept, 0, 0; said = kept
    :: else
    fi
#endif
  }
end:
  do
  :: !ALIVE -> break
  /* It hears: written first, then it takes effect, then it counts as kept. */
  :: atomic { ALIVE && !hears && !asking && nempty(to_0) ->
       to_0 ? number, k, mark;
       if
       :: number == 0 -> hears_kept(k)
       :: else ->
          assert(number == kept + 1);
          hears_kept(k);
          hears = 1
       fi
     }
#ifdef TOLD_EARLY /* mutant: it says what it has kept before that is written */
  :: atomic { ALIVE && hears && greeted && said == kept -> said = kept + 1; to_1 ! 0, said, 0, 0 }
#endif
  :: atomic { ALIVE && hears ->
       note(word_0);
#ifndef OLD_HISTORY /* mutant: only the launcher's word counts */
       note(mark);
#endif
#ifdef TAKEN_EARLY /* mutant: it takes effect before it is written */
       if
       :: LIVE -> takes(mark); asking = 0
       :: else
       fi
     }
     atomic { if
       :: ALIVE -> skip
       :: else -> break
       fi;
#endif
       hears = 0;
       kept++;
       if
       :: LIVE ->
          write(told, mark);
          at++;
#ifndef TAKEN_EARLY
          takes(mark)
#endif
#ifdef NEW_FIRST /* mutant: what comes while it repeats takes effect at once */
       :: else ->
          write(told, mark);
          tells++;
          send_0(WHAT)
#else
       :: else -> write(told, mark)
#endif
       fi
     }
  /* It says what it has kept. */
  :: atomic { ALIVE && begun && greeted && !hears && said < kept -> said = kept; to_1 ! 0, kept, 0, 0 }
  /* A request.  At a cut it stands still until that is over. */
  :: atomic { ALIVE && begun && LIVE && !hears && !asking && asks < ASKS && (!cut || word_0) ->
       note(word_0);
#ifdef ASKED_EARLY /* mutant: a request is written when it has taken effect */
       asks++;
       send_0(WHAT);
       asking = 1
#else
       write(asked, history);
       asking = 1
#endif
     }
  :: atomic { ALIVE && asking ->
       asking = 0;
#ifdef ASKED_EARLY
       write(asked, history);
       at++
#else
       at++;
       asks++;
       send_0(WHAT)
#endif
     }
  /* It does again what comes next. */
  :: atomic { ALIVE && begun && !LIVE && !asking && !hears ->
       mark = marks[at];
       if
       :: journal[at] == cut_here -> history = 1
       :: journal[at] == asked ->
          asks++;
          assert(mark == history);
          send_0(WHAT)
#ifdef NEW_FIRST
       :: journal[at] == told && at >= lasts -> skip
       :: journal[at] == told && at < lasts -> takes(mark)
#else
       :: journal[at] == told -> takes(mark)
#endif
       fi;
       at++;
       mark = 0;
       if
       :: LIVE -> note(word_0)
       :: else
       fi
     }
  /* Its image. */
  :: atomic { ALIVE && cut && !over && LIVE && !written && !hears && !asking ->
       image_asks = asks; image_tells = tells; image_sent = sent; image_kept = kept;
       image_at = events;
#ifdef NOT_RENEWED /* mutant: who writes an image does not begin a history anew */
       noted = 1;
       write(cut_here, 1);
       at++;
#else
       note(1);
#endif
       written = 1
     }
  od
}

/* The journal says what was kept since; what was sent comes again. */
inline start_again() {
  byte i;
  d_step {
    asks = (committed -> image_asks : 0);
    tells = (committed -> image_tells : 0);
    at = (committed -> image_at : 0);
    sent = (committed -> image_sent : 0);
    kept = (committed -> image_kept : 0);
    heard = sent;
    history = 0; noted = 0;
    i = at;
    do
    :: i < events ->
       kept = kept + (journal[i] == told);
       noted = noted || journal[i] == cut_here;
       i++
    :: else -> break
    od;
    said = kept;
    hears = 0; asking = 0;
#ifdef NEW_FIRST
    lasts = events;
#endif
    i = 0;
#ifdef GREETS_LATE /* mutant: it sends before it knows what the other has kept */
    greeted = 1
#else
    greeted = 0
#endif
  }
}

active proctype node_1() {
  byte number, k, what;
  bit mark;
  do
  :: atomic { nempty(to_1) ->
       to_1 ? number, k, what, mark;
       if
       :: number > 0 ->
#ifndef SENT_AGAIN
          assert(number == kept_1 + 1);
#endif
          noted_1 = noted_1 || mark || word_1;
          assert(mark == noted_1);
          kept_1++;
          assert(kept_1 <= SENDS);
          acted[kept_1] = what
       :: else
       fi;
       assert(k <= sent_1);
       if
       :: k > heard_1 -> heard_1 = k
       :: else
       fi;
       if
       :: !greeted_1 ->
          greeted_1 = 1;
          said_1 = kept_1;
          k = heard_1 + 1;
          do
          :: k <= sent_1 && WAITS(k, heard_1) -> to_0 ! k, kept_1, mark_1[k]; k++
          :: k <= sent_1 && !WAITS(k, heard_1) -> k++
          :: k > sent_1 -> break
          od
       :: else
       fi;
       number = 0; k = 0; what = 0; mark = 0
     }
  :: atomic { sent_1 < SAYS && (!cut || word_1) ->
       noted_1 = noted_1 || word_1;
       sent_1++;
       mark_1[sent_1] = noted_1;
       if
       :: greeted_1 -> said_1 = kept_1; to_0 ! sent_1, kept_1, noted_1
       :: else
       fi
     }
  :: atomic { greeted_1 && said_1 < kept_1 && !(life > 1 && !begun) -> said_1 = kept_1; to_0 ! 0, kept_1, 0 }
  :: atomic { cut && !over && !written_1 -> noted_1 = 1; written_1 = 1 }
  /* It has seen the other's end: it waits, and then greets. */
  :: atomic { !begun && life > 1 && empty(to_1) && !waits_1 ->
       greeted_1 = 0;
       waits_1 = 1
     }
     atomic { !waits_1 -> said_1 = kept_1; to_0 ! 0, kept_1, 0 }
  /* All is done, and known. */
  :: atomic { begun && LIVE && asks == ASKS && sent_1 == SAYS && tells == SAYS && kept_1 == SENDS &&
       empty(to_0) && empty(to_1) -> done = 1; break }
  od;
  k = 1;
  do
  :: k <= SENDS -> assert(acted[k] == says[k]); k++
  :: else -> break
  od
}

#define STILL (begun && LIVE && !hears && !asking && greeted && greeted_1 && empty(to_0) && empty(to_1))

active proctype launcher() {
  atomic { begun = 0; greeted = 1; run process() }
end:
  do
  :: atomic { !cut && STILL -> cut = 1 }
  :: atomic { cut && !over && written && written_1 -> committed = 1; over = 1 }
  :: atomic { cut && !over -> over = 1 }
  :: over && !word_0 -> word_0 = 1
  :: over && !word_1 -> word_1 = 1
  :: atomic { losses < LOSSES && begun && LIVE && !done ->
       losses++;
       life++;
       begun = 0;
       over = cut;
       word_0 = over;
       lose_0();
       if
       :: skip
       :: lose_1()
       fi;
       start_again();
       run process()
     }
  od
}
