/* dsm-rounds.pml: what a node takes for acquired by all is (native/dsm/progress.c, rounds).
 *
 * Three nodes; `time` is how much of one node's intervals each has acquired, and only
 * grows.  Each sends to the next, in a ring.  Every message carries the sender's floor and round.  Intervals up to the floor are
 * dropped: a floor above anybody's time would lose what that node still needs.
 *
 * verify: pass
 * verify: fail -DONE_MISSING
 * verify: fail -DWITHOUT_OWN
 * verify: fail -DOLD_ROUNDS
 * verify: fail -DWITHOUT_OTHERS
 */
#define NODES 3
#define MOST 2   /* time */
#define ROUNDS 2 /* then the search ends */
#define ALL 7

typedef node_t {
  byte time;
  byte floor;
  byte round;
  byte in;   /* a bit per node */
  byte least /* of those that are in it */
};

node_t node[NODES];
/* From node n to the next: floor, round, in, least. */
chan wire[NODES] = [2] of { byte, byte, byte, byte };

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

inline enter(number) {
  node[me].round = number;
  node[me].in = 1 << me;
#ifdef WITHOUT_OWN /* mutant: its own part is left out */
  node[me].least = 255
#else
  node[me].least = node[me].time
#endif
}

#ifdef ONE_MISSING /* mutant: the last is not waited for */
#define COMPLETE (node[me].in == 7 || node[me].in == 6 || node[me].in == 5 || node[me].in == 3)
#else
#define COMPLETE (node[me].in == ALL)
#endif

inline hear() {
  node[me].floor = MAX(node[me].floor, floor);
  assert(round <= node[me].round + 1);
  if
  :: round > node[me].round -> enter(round)
  :: else
  fi;
  if
#ifdef OLD_ROUNDS /* mutant: who was in a round counts in the next */
  :: true ->
#else
  :: round == node[me].round ->
#endif
     node[me].in = node[me].in | in;
#ifndef WITHOUT_OTHERS /* mutant: the others' part is left out */
     node[me].least = MIN(node[me].least, least);
#endif
     if
     :: COMPLETE && node[me].round < ROUNDS ->
        node[me].floor = MAX(node[me].floor, node[me].least);
        enter(node[me].round + 1)
     :: else
     fi
  :: else
  fi;
  assert(node[me].floor <= node[0].time && node[me].floor <= node[1].time &&
         node[me].floor <= node[2].time)
}

proctype run_node(byte me) {
  byte floor, round, in, least;
end:
  do
  :: atomic { node[me].time < MOST -> node[me].time++ }
  :: wire[me] ! node[me].floor, node[me].round, node[me].in, node[me].least
  :: atomic {
       wire[(me + NODES - 1) % NODES] ? floor, round, in, least;
       hear();
       floor = 0; round = 0; in = 0; least = 0
     }
  od
}

init {
  atomic {
    node[0].in = 1;
    node[1].in = 2;
    node[2].in = 4;
    run run_node(0);
    run run_node(1);
    run run_node(2)
  }
}
