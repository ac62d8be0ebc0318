/* crew.pml: each chunk is done or has an owner (native/channel/crew.c).
 *
 * A coordinator publishes CHUNKS chunks through a ring of SLOTS; two workers
 * claim, append, say done.  Either worker may be killed, between any two atomic
 * steps; the coordinator then asks claim_of, forfeits, publishes the chunk again
 * and starts a new worker.  The coordinator ends only when all
 * results have come: a chunk that is lost is an invalid end state.  A chunk
 * that runs again without having been attributed is a violated assertion.
 *
 * verify: pass
 * verify: pass -DSLOTS=1
 * verify: fail -DCLAIM_IN_TWO
 * verify: fail -DDONE_FIRST
 * verify: fail -DNO_HELP
 */
#ifndef SLOTS
#define SLOTS 2
#endif
#define CHUNKS 2
#define NOBODY 9

mtype = { FREE, READY, TAKEN };

/* A slot's state word; its parts change together. */
typedef slot {
  mtype phase;
  byte ticket;
  byte owner;
  byte chunk /* what `first` and `count` say */
}

slot ring[SLOTS];
byte published, next;
bit closed;
bit result[CHUNKS];  /* the record is in a log */
bit attributed[CHUNKS]; /* was found with a dead worker */
bit kill[2], dead[2];

#define SLOT ring[ticket % SLOTS]

#define FREE_SLOT(number)                                                  \
  d_step {                                                                 \
    ring[(number) % SLOTS].phase = FREE;                                   \
    ring[(number) % SLOTS].owner = NOBODY;                                 \
    ring[(number) % SLOTS].ticket = ring[(number) % SLOTS].ticket + SLOTS  \
  }

proctype worker(byte me) {
  byte ticket, end, chunk;
  bit mine, last;
  {
    do
    :: last = closed;
       end = published;
       ticket = next;
       mine = 0;
       do
       :: ticket < end && !mine ->
#ifdef CLAIM_IN_TWO /* mutant: taken first, signed second */
          atomic {
            if
            :: SLOT.phase == READY && SLOT.ticket == ticket -> SLOT.phase = TAKEN; mine = 1
            :: else
            fi
          }
          if
          :: mine -> SLOT.owner = me
          :: else
          fi;
#else
          atomic {
            if
            :: SLOT.phase == READY && SLOT.ticket == ticket ->
               SLOT.phase = TAKEN; SLOT.owner = me; mine = 1
            :: else
            fi
          }
#endif
#ifdef NO_HELP /* mutant: only the winner moves the hint; the others trust it */
          if
          :: mine -> next = ticket + 1
          :: else -> (next != ticket); ticket = next
          fi;
#else
          atomic {
            if
            :: next == ticket -> next = ticket + 1
            :: else
            fi
          }
          if
          :: mine
          :: else -> ticket++
          fi
#endif
       :: else -> break
       od;
       if
       :: mine ->
          chunk = SLOT.chunk;
#ifdef DONE_FIRST /* mutant: the slot is given back before the record is there */
          FREE_SLOT(ticket);
          result[chunk] = 1
#else
          d_step { assert(!result[chunk] || attributed[chunk]); result[chunk] = 1 }
          FREE_SLOT(ticket)
#endif
       :: !mine && last -> break
       :: !mine && !last -> (published != end || closed) /* the wait on `work` */
       fi;
       d_step { ticket = 0; end = 0; chunk = 0; last = 0; mine = 0 } /* fewer states */
    od
  } unless { kill[me] };
  if
  :: kill[me] -> d_step { kill[me] = 0; dead[me] = 1 }
  :: else
  fi
}

proctype killer() {
  if
  :: kill[0] = 1
  :: kill[1] = 1
  fi
}

#define PUBLISH(what)                        \
  d_step {                                   \
    ring[published % SLOTS].chunk = what;    \
    ring[published % SLOTS].phase = READY    \
  }                                          \
  published++

#define ROOM (ring[published % SLOTS].phase == FREE && ring[published % SLOTS].ticket == published)

inline bury(w) {
  atomic {
    dead[w] = 0;
    scan = 0;
    do
    :: scan < SLOTS ->
       if
       :: ring[scan].phase == TAKEN && ring[scan].owner == w ->
          attributed[ring[scan].chunk] = 1;
          again[ring[scan].chunk] = 1;
          FREE_SLOT(scan)
       :: else
       fi;
       scan++
    :: else -> break
    od;
    scan = 0;
    run worker(w)
  }
}

proctype coordinator() {
  byte fresh, scan;
  bit again[CHUNKS];
  do
  :: fresh < CHUNKS && ROOM -> PUBLISH(fresh); fresh++
  :: again[0] && ROOM -> again[0] = 0; PUBLISH(0)
  :: again[1] && ROOM -> again[1] = 0; PUBLISH(1)
  :: dead[0] -> bury(0)
  :: dead[1] -> bury(1)
  :: result[0] && result[1] -> break
  od;
  closed = 1
}

init {
  atomic {
    byte i;
    for (i : 0 .. SLOTS - 1) {
      ring[i].phase = FREE;
      ring[i].owner = NOBODY;
      ring[i].ticket = i
    }
    run coordinator();
    run worker(0);
    run worker(1);
    run killer()
  }
}
