/* dsm-ft.pml: a job that loses nodes goes on from a checkpoint that is whole, and shows each line
 * once (native/dsm/checkpoint.h, launch/keep.h).
 *
 * Two nodes and a launcher.  The nodes add to each other's numbers by messages.  What one adds, the
 * other must have added in the end, or neither: at a cut the sums agree.  Each step says a line.  The
 * launcher wants a checkpoint now and then: nodes park, answer in waves whether they rest and how
 * many messages they have sent and received, write their images in turns to two places, and the
 * launcher commits by one word.  A node may be lost at any moment, also while it writes.  Then the
 * others are ended, and all go on from the committed images.  Messages of the old epoch may still
 * come: they are dropped.
 *
 * A node may also wait in a request, and rests then without parking.  A node that goes on has the
 * core's part of its image at once, and the program's part (`step`) a moment later.  One that was
 * parked may go on late, when the next checkpoint is wanted.
 *
 * Node 0 may wait with a step whose message it has not sent: what it wrote is not home.  A wave finds
 * that, and then it sends it.  What it waits for may come before that is home, and takes effect
 * after.
 *
 * verify: pass
 * verify: fail -DCOMMIT_EARLY
 * verify: fail -DONE_WAVE
 * verify: fail -DOLD_EPOCH
 * verify: fail -DONE_PLACE
 * verify: fail -DSHOWN_AT_ONCE
 * verify: fail -DNOT_PARKED
 * verify: fail -DPARKED_BEFORE
 * verify: fail -DRESTS_BEFORE_RESUMED
 * verify: fail -DRESTS_DIRTY
 * verify: fail -DGRANT_AT_ONCE
 */
#define NODES 2
#define STEPS 2
#define LOSSES 1
#define OTHER (1 - me)

typedef image_t { /* what a checkpoint holds of a node */
  byte step;
  byte sum;
  byte number; /* of the checkpoint; 0: torn */
  bit waits
};

typedef node_t {
  byte step; /* done: so many messages were sent */
  byte sum;  /* received */
  byte sent, received, done;
  byte parked; /* for that checkpoint, until it goes on; 0: for none */
  bit rests, answered;
  bit waits, resumed;
  bit dirty;          /* a step's message is not sent, or not known to be received */
  bit cleans, granted /* it sends that while it waits; what it waits for has come meanwhile */
};

node_t node[NODES];
image_t image[NODES * 2];
chan wire[NODES] = [4] of { byte }; /* to that node: an epoch */

byte epoch = 1, lives = NODES, losses;
byte wanted, cut, over, committed;
byte held, shown; /* lines */
byte at_commit;   /* lines before that cut */
bit starting;     /* the launcher brings a new epoch up */
bit ended;

#ifdef ONE_PLACE /* mutant: a new image takes the place of the last whole one */
#define PLACE(me, n) image[(me) * 2]
#else
#define PLACE(me, n) image[(me) * 2 + (n) % 2]
#endif

#ifdef OLD_EPOCH /* mutant: what an earlier incarnation sent counts */
#define COUNTS(from) true
#else
#define COUNTS(from) (from == epoch)
#endif

inline hear() {
  wire[me] ? old;
  if
  :: COUNTS(old) ->
     node[me].sum++;
     node[me].received++
  :: else
  fi
}

inline send() {
  wire[OTHER] ! epoch;
  node[me].sent++
}

proctype computer(byte me) {
  byte mine = epoch, old;
  do
  :: epoch != mine || starting || ended -> break /* killed, or done */
  /* A step: a message, and a line. */
  :: atomic { epoch == mine && !starting && node[me].step < STEPS && !node[me].parked && !node[me].waits && node[me].resumed ->
       node[me].step++;
       if
       :: node[me].cleans -> node[me].dirty = 1 /* counts as sent */
       :: else -> send()
       fi;
#ifdef SHOWN_AT_ONCE /* mutant: a repeated step says its line again */
       shown++
#else
       held++
#endif
     }
  :: atomic { epoch == mine && !starting && nempty(wire[me]) -> hear() }
  /* It has asked for something, and has it.  Node 0 alone, between
   * its steps: that is enough. */
  :: atomic { me == 0 && epoch == mine && !starting && node[me].step == 1 && !node[me].parked && !node[me].waits && node[me].resumed ->
       node[me].waits = 1
     }
  :: atomic { me == 0 && epoch == mine && !starting && node[me].step == 0 && !node[me].parked && !node[me].waits && node[me].resumed ->
       node[me].step++;
#ifdef SHOWN_AT_ONCE
       shown++;
#else
       held++;
#endif
       node[me].dirty = 1;
       node[me].waits = 1
     }
  :: atomic { epoch == mine && !starting && node[me].waits && node[me].resumed && wanted == over && !node[me].cleans ->
       node[me].waits = 0;
       if
       :: node[me].dirty -> send(); node[me].dirty = 0
       :: else
       fi
     }
  :: atomic { epoch == mine && !starting && node[me].cleans && node[me].waits && !node[me].granted ->
#ifdef GRANT_AT_ONCE /* mutant: the program goes on before all is home */
       node[me].waits = 0
#else
       node[me].granted = 1
#endif
     }
  /* All is home. */
  :: atomic { epoch == mine && !starting && node[me].cleans && node[OTHER].received == node[me].sent ->
       node[me].cleans = 0;
       node[me].dirty = 0;
       node[me].waits = node[me].waits && !node[me].granted;
       node[me].granted = 0
     }
  /* The program's memory comes back. */
  :: atomic { epoch == mine && !starting && !node[me].resumed ->
       node[me].step = PLACE(me, committed).step;
       node[me].resumed = 1
     }
  :: atomic { epoch == mine && !starting && wanted != over && !node[me].parked && !node[me].waits && node[me].resumed ->
#ifndef NOT_PARKED /* mutant: the program goes on while it is asked */
       node[me].parked = wanted
#else
       skip
#endif
     }
  /* Late, perhaps: another may be wanted. */
  :: atomic { epoch == mine && !starting && node[me].parked && node[me].parked <= over -> node[me].parked = 0 }
  /* A wave's answer. */
  :: atomic { epoch == mine && !starting && wanted != over && cut != wanted && !node[me].answered ->
#ifdef RESTS_BEFORE_RESUMED /* mutant: a core that waits is enough */
       node[me].rests = node[me].parked == wanted || node[me].waits;
#else
       node[me].rests = node[me].parked == wanted || (node[me].waits && node[me].resumed && !node[me].dirty);
#endif
#ifdef RESTS_DIRTY /* mutant: whoever waits rests */
       node[me].rests = node[me].rests || (node[me].waits && node[me].resumed);
#else
       if
       :: node[me].waits && node[me].dirty && !node[me].cleans ->
          node[me].cleans = 1;
          send()
       :: else
       fi;
#endif
#ifdef PARKED_BEFORE /* mutant: a node that stands for the one before is taken for parked */
       node[me].rests = node[me].rests || node[me].parked;
#endif
#ifdef NOT_PARKED
       node[me].rests = 1;
#endif
       node[me].answered = 1
     }
  /* The image, in two steps: the loss may come between. */
  :: atomic { epoch == mine && !starting && cut == wanted && wanted != over && node[me].done != wanted ->
       PLACE(me, wanted).number = 0;
       PLACE(me, wanted).step = node[me].step;
       PLACE(me, wanted).waits = node[me].waits;
     }
     atomic {
       if
       :: epoch == mine && !starting ->
          PLACE(me, wanted).sum = node[me].sum;
          PLACE(me, wanted).number = wanted;
          node[me].done = wanted
       :: else
       fi
     }
  od
}

/* What was sent has been received. */
#define ONE_CUT (PLACE(0, committed).step == PLACE(1, committed).sum && PLACE(1, committed).step == PLACE(0, committed).sum)

inline begin_epoch() {
  byte i = 0;
  do
  :: i < NODES ->
     node[i].step = 0;
     node[i].resumed = (committed == 0);
     node[i].waits = (committed == 0 -> 0 : PLACE(i, committed).waits);
     node[i].sum = (committed == 0 -> 0 : PLACE(i, committed).sum);
     node[i].sent = 0; node[i].received = 0;
     node[i].dirty = 0; node[i].cleans = 0; node[i].granted = 0;
     node[i].parked = 0; node[i].rests = 0; node[i].done = 0; node[i].answered = 0;
     assert(committed == 0 || PLACE(i, committed).number == committed);
     run computer(i);
     i++
  :: else -> break
  od;
  assert(committed == 0 || ONE_CUT);
  starting = 0
}

/* The first wave's counts. */
byte before[NODES];
bit alike;

#define ANSWERED (node[0].answered && node[1].answered)
#define ANOTHER_WAVE node[0].answered = 0; node[1].answered = 0
#define RESTS (node[0].rests && node[1].rests)
#define BALANCE (node[0].sent + node[1].sent == node[0].received + node[1].received)
#define SAME (before[0] == node[0].received && before[1] == node[1].received)

active proctype launcher() {
  atomic { starting = 1; begin_epoch() }
  do
  /* A checkpoint is wanted. */
  :: atomic { wanted == over && wanted < 2 -> wanted++; ANOTHER_WAVE; alike = 0 }
  :: atomic { wanted != over && cut != wanted && ANSWERED ->
       if
#ifdef ONE_WAVE /* mutant: whether all rest is enough */
       :: RESTS -> cut = wanted
       :: else -> ANOTHER_WAVE
#else
       :: RESTS && BALANCE && alike && SAME -> cut = wanted
       :: else ->
          alike = RESTS && BALANCE;
          before[0] = node[0].received; before[1] = node[1].received;
          ANOTHER_WAVE
#endif
       fi
     }
#ifdef COMMIT_EARLY /* mutant: the first image is enough */
  :: atomic { cut == wanted && wanted != over && (node[0].done == wanted || node[1].done == wanted) ->
#else
  :: atomic { cut == wanted && wanted != over && node[0].done == wanted && node[1].done == wanted ->
#endif
       committed = wanted;
       assert(ONE_CUT);
       shown = shown + held; held = 0;
       over = wanted
     }
  /* A node is lost; the others are ended. What is on its way may come yet. */
  :: atomic { losses < LOSSES && !(node[0].step == STEPS && node[1].step == STEPS && wanted == over) ->
       losses++;
       starting = 1;
       alike = 0;
       epoch++;
       held = 0;
       over = wanted;
       begin_epoch()
     }
  :: atomic { node[0].step == STEPS && node[1].step == STEPS && wanted == over &&
       node[0].sum == STEPS && node[1].sum == STEPS ->
       /* The end. */
       assert(shown + held == 2 * STEPS);
       ended = 1;
       break
     }
  od
}
