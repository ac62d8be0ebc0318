/* dsm-room.pml: a writer of a ring that is full sleeps until there is room (native/dsm/near.h).
 *
 * One ring with room for two, its writer and its reader. The writer puts what there is room for.
 * Where there is not enough it asks to hear of room, and tries once more. Before it sleeps it says
 * that it does, asks again, and looks. The reader takes what there is, one or all, then looks
 * whether it was asked. If so it takes the wish back and, if the writer sleeps, rings.
 *
 * The reader never sleeps here: its own sleep is the same with the roles changed, without a wish.
 * So a writer that nobody rings is a run that cannot go on.  Left out: weak memory (the fences and
 * the release and acquire of near.c).
 *
 * verify: pass
 * verify: fail -DASKS_ONCE
 * verify: fail -DASKS_FIRST
 * verify: fail -DNO_LOOK
 * verify: fail -DRINGS_NOBODY
 */
#define ROOM 2
#define ALL 7

byte written, read;
bit wish, asleep, bell;

inline put() {
  /* Only the reader changes `read`, and upwards. */
  space = ROOM - (written - read);
  written = written + (space < ALL - written -> space : ALL - written)
}

active proctype writer() {
  byte space;
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
        asleep = 1;
#else
        asleep = 1;
#ifndef ASKS_ONCE /* mutant: it has asked when it found no room */
        wish = 1;
#endif
#endif
        if
#ifndef NO_LOOK /* mutant: it does not look before it sleeps */
        :: written - read < ROOM -> asleep = 0
        :: written - read == ROOM ->
#else
        :: true ->
#endif
           bell == 1; bell = 0
        fi
     :: else
     fi
  :: else -> break
  od
}

active proctype reader() {
  bit asked, sleeps;
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
           atomic { sleeps = asleep; asleep = 0 };
           if
#ifndef RINGS_NOBODY /* mutant */
           :: sleeps -> bell = 1
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
