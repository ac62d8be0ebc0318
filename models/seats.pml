/* seats.pml: a seated crew loses no wake-up (native/channel/crew.c, announce and await_work).
 *
 * Two workers take chunks until the coordinator has closed; each waits on a word of its
 * own. Each C atomic operation is one atomic step; a wait is left when the word is no longer
 * what was seen (wait.pml shows that maru_wait keeps that). A lost wake-up is a state in
 * which nobody can move and a worker waits: an invalid end state.
 *
 * verify: pass
 * verify: pass -DCHUNKS=3
 * verify: fail -DNO_RECHECK
 * verify: fail -DLOOK_LATE
 * verify: fail -DCLEAR_AFTER
 */
#ifndef CHUNKS
#define CHUNKS 2
#endif

byte ready, work, taken;
bit sitting, closed;
byte word[2];

proctype worker(byte me) {
  byte rung, seen;
  bit over, again;
  do
  :: rung = word[me];
     seen = work;
     over = closed;
     again = 0;
     if
     :: atomic { ready > 0 -> ready--; taken++ }
        again = 1
     :: atomic { ready == 0 -> skip }
     fi;
     if
     :: again
     :: !again && over -> break
     :: !again && !over ->
        atomic { sitting = 1; again = (work != seen) };
#ifdef NO_RECHECK /* mutant: waits whatever was published since the look */
        again = 0;
#endif
#ifdef LOOK_LATE /* mutant: what it waits for is read behind the mark */
        rung = word[me];
#endif
        if
        :: again
        :: !again -> word[me] != rung
        fi
     fi
  od
}

inline announce() {
  atomic { was = sitting; work++ }
  if
  :: was ->
#ifndef CLEAR_AFTER
     sitting = 0;
#endif
     word[0]++;
     word[1]++;
#ifdef CLEAR_AFTER /* mutant: takes marks away that came while it rang */
     sitting = 0
#endif
  :: else
  fi
}

proctype coordinator() {
  byte chunk;
  bit was;
  for (chunk : 1 .. CHUNKS) {
    ready++;
    announce()
  }
  closed = 1;
  announce()
}

init {
  atomic { run worker(0); run worker(1); run coordinator() }
  (_nr_pr == 1);
  assert(taken == CHUNKS)
}
