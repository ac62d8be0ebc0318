/* dsm-room.pml: a writer of a ring that is full sleeps until there is room (native/dsm/near.h).
 *
 * One ring with room for two, its writer and its reader. The writer puts what there is room for.
 * Where there is not enough it asks to hear of room, and tries once more. Before it sleeps it says
 * which sleep that is, asks again, and looks. The reader takes what there is, one or all, then looks
 * whether it was asked. If so it takes the wish back and, if the writer sleeps, rings once a sleep: it
 * counts the byte, then puts it into the pipe. Another node that would ring, too, may be stopped for
 * ever before it does.
 *
 * The reader never sleeps here: its own sleep is the same with the roles changed, without a wish.
 * So a writer that nobody rings is a run that cannot go on.  A byte in the pipe is always counted:
 * else it would ring for ever.  Left out: weak memory (the fences and the release and acquire of
 * near.c), and a sleep that goes on as nobody has rung.
 *
 * verify: pass
 * verify: fail -DASKS_ONCE
 * verify: fail -DASKS_FIRST
 * verify: fail -DNO_LOOK
 * verify: fail -DRINGS_NOBODY
 * verify: fail -DONE_RINGS
 * verify: fail -DSAME_SLEEP
 * verify: fail -DCOUNTS_LATE
 */
#define ROOM 2
#define ALL 7

byte written, read;
bit wish;
byte asleep, sleeps; /* 0: the writer is awake */
byte bell, rung, heard; /* bytes in the pipe, ever counted, ever read */

inline put() {
  /* Only the reader changes `read`, and upwards. */
  space = ROOM - (written - read);
  written = written + (space < ALL - written -> space : ALL - written)
}

inline hear() {
  atomic { owed = rung - heard; assert(bell <= owed) };
  atomic { owed = (owed < bell -> owed : bell); bell = bell - owed; heard = heard + owed }
}

inline say_asleep() {
#ifdef SAME_SLEEP /* mutant: all sleeps are one */
  sleeps = 1;
#else
  sleeps++;
#endif
  asleep = sleeps
}

/* Whether it rings for that sleep. */
inline find_asleep(into) {
#ifdef ONE_RINGS /* mutant: the writer that finds it asleep takes that, and alone rings */
  atomic { into = asleep; asleep = 0 }
#else
  into = asleep
#endif
}

active proctype writer() {
  byte space, owed;
  do
  :: written < ALL ->
     put();
     if
     :: written < ALL ->
        wish = 1;
        put()
     :: else
     fi;
     if
     :: written < ALL ->
#ifdef ASKS_FIRST /* mutant: it asks, then says that it sleeps */
        wish = 1;
        say_asleep();
#else
        say_asleep();
#ifndef ASKS_ONCE /* mutant: it has asked when it found no room */
        wish = 1;
#endif
#endif
        if
#ifndef NO_LOOK /* mutant: it does not look before it sleeps */
        :: written - read < ROOM
        :: written - read == ROOM ->
#else
        :: true ->
#endif
           bell > 0
        fi;
        asleep = 0;
        hear()
     :: else
     fi
  :: else -> break
  od
}

active proctype reader() {
  bit asked;
  byte sleep, rang;
  do
  :: read < ALL ->
     if
     :: written > read -> read++
     :: written > read -> read = written
     fi;
     if
     :: wish ->
        atomic { asked = wish; wish = 0 };
        if
        :: asked ->
           find_asleep(sleep);
           if
#ifndef RINGS_NOBODY /* mutant */
           :: sleep != 0 && sleep != rang ->
              rang = sleep;
#ifdef COUNTS_LATE /* mutant */
              bell++;
              rung++
#else
              rung++;
              bell++
#endif
#endif
           :: else
           fi
        :: else
        fi
     :: else
     fi
  :: else -> break
  od
}

active proctype other() {
  byte sleep;
  find_asleep(sleep)
}
