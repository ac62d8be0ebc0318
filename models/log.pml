/* log.pml: what the consumer takes for a record is one (native/channel/log.c).
 *
 * A producer reserves room, fills all of it, commits a shorter record, twice;
 * it may be killed between any two stores.  Memory is a row of cells; a record
 * is a word and then its chunk.  The chunk's stale bytes look like a committed
 * word, which is the worst they can do.  The consumer asserts that each record
 * it finds is the next one, complete.
 *
 * verify: pass
 * verify: fail -DNO_CLEAR
 * verify: fail -DWORD_FIRST
 */
#define CELLS 8
#define RESERVED 3 /* cells of chunk offered, of which 1 is used */
#define RECORDS 2
#define STALE 99 /* "committed" */
#define WORD(n) (10 + (n))
#define CHUNK(n) (20 + (n))

byte cell[CELLS];

proctype producer() {
  byte last, record, i;
  do
  :: record < RECORDS ->
     i = 1;
     do
     :: i <= RESERVED && last + i < CELLS -> cell[last + i] = STALE; i++
     :: else -> break
     od;
     if
     :: break /* killed, or closed */
     :: true
     fi;
#ifdef WORD_FIRST /* mutant: visible before it is complete */
     cell[last + 2] = 0;
     cell[last] = WORD(record);
     cell[last + 1] = CHUNK(record);
#else
     cell[last + 1] = CHUNK(record);
#ifndef NO_CLEAR /* mutant: the next word keeps what the reserve left there */
     cell[last + 2] = 0;
#endif
     cell[last] = WORD(record);
#endif
     last = last + 2;
     record++
  :: else -> break
  od
}

proctype consumer() {
  byte next, record, word;
  do
  :: word = cell[next];
     if
     :: word == 0 ->
end:    (cell[next] != 0) /* for ever, after a killed producer */
     :: else ->
        assert(word == WORD(record) && cell[next + 1] == CHUNK(record));
        next = next + 2;
        record++;
        if
        :: record == RECORDS -> break
        :: else
        fi
     fi
  od
}

init {
  atomic {
    run producer();
    run consumer()
  }
}
