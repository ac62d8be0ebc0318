/* join.pml: how two nodes meet among strangers (native/dsm/handshake.c, join.c).
 *
 * A caller C calls a listener L: first at L, then where a stranger S sits, at L's address or at that of a node J that is
 * gone, then at L again.  It may give up a call but the last.  S has a connection to L, too, in which it says what it likes;
 * everywhere it may say what C or L has said anywhere, but make no proof of its own.  L holds one stranger.  C or L may die.
 *
 * Nonces are numbers; a proof is what it proves: the two nonces and whom it is for.  S may relay all that both say: then it
 * carries their connection, which no proof prevents.  So what holds is agreement: who takes a proof in a connection takes
 * what the other said for just these nonces, and for it; L has met whom C's nod says that C has met.  L says nothing of itself
 * before C's proof.  What C has nodded at, a living L does not give up.  Where both live, both meet (the end states).
 *
 * verify: pass
 * verify: fail -DWITHOUT_CALLER_NONCE
 * verify: fail -DWITHOUT_LISTENER_NONCE
 * verify: fail -DWITHOUT_NAMES
 * verify: fail -DSAYS_FIRST
 * verify: fail -DPROVEN_MAY_GO
 * verify: fail -DMET_WITHOUT_NOD
 * verify: fail -DPLAIN_NOD
 * verify: fail -DREFUSES_AT_LIMIT
 */

#define WIRES 4 /* C's first call, the one that S answers, C's last; S's to L */
#define FIRST 0
#define TRICKED 1
#define LAST 2
#define STRANGE 3
#define NONE 255

#define C_NONCE(w) (1 + (w))
#define L_NONCE(w) (11 + (w))
#define S_NONCE 20

#define AT_J 1
#define AT_L 2

mtype = { OPENING, PROOF, NOD };

/* What, one nonce, the other, for whom.  An opening has one, a nod both. */
chan to_l[WIRES] = [3] of { mtype, byte, byte, byte };
chan to_c[WIRES] = [3] of { mtype, byte, byte, byte };

bool closed[WIRES];  /* by C or S */
bool dropped[WIRES]; /* by L */
byte stage[WIRES];   /* of L: 1 opened, 2 has a proof, 3 met */
byte heard[WIRES];   /* the caller's nonce */

byte called[WIRES] = AT_L; /* whom C calls there */
byte c_said[WIRES] = NONE; /* in a proof, for which nonce of the listener's */
byte l_said[WIRES] = NONE; /* for which nonce of the caller's */
byte c_met = NONE, l_met = NONE;
bool c_dead, l_dead;

#ifdef WITHOUT_CALLER_NONCE /* mutant: the hash leaves it out */
#define SAME_C(x, y) true
#else
#define SAME_C(x, y) ((x) == (y))
#endif
#ifdef WITHOUT_LISTENER_NONCE /* mutant: the hash leaves it out */
#define SAME_L(x, y) true
#else
#define SAME_L(x, y) ((x) == (y))
#endif
#ifdef WITHOUT_NAMES /* mutant: the hash does not say for whom */
#define FOR(x, y) true
#else
#define FOR(x, y) ((x) == (y))
#endif

/* Whether C has said so to L: for those two nonces. */
#define C_SAID_IN(w, c, l) (c == C_NONCE(w) && c_said[w] == l && called[w] == AT_L)
#define C_SAID(c, l) (C_SAID_IN(FIRST, c, l) || C_SAID_IN(TRICKED, c, l) || C_SAID_IN(LAST, c, l))
#define L_SAID_IN(w, c, l) (l == L_NONCE(w) && l_said[w] == c)
#define L_SAID(c, l) (L_SAID_IN(FIRST, c, l) || L_SAID_IN(LAST, c, l) || L_SAID_IN(STRANGE, c, l))

/* ---- the caller --------------------------------------------------------------- */

inline call(w) {
  atomic { to_l[w]!OPENING(C_NONCE(w), 0, 0); other = NONE };
  do
  :: atomic { other == NONE && to_c[w]?[OPENING, _, _, _] -> to_c[w]?OPENING(other, _, _); c_said[w] = other;
       to_l[w]!PROOF(C_NONCE(w), other, called[w]) }
  :: atomic { other != NONE && to_c[w]?[PROOF, _, _, _] -> to_c[w]?PROOF(c, l, whose);
       if
       :: SAME_C(c, C_NONCE(w)) && SAME_L(l, other) && FOR(whose, called[w]) ->
            assert(called[w] == AT_L && L_SAID(C_NONCE(w), other));
            c_met = w;
            to_l[w]!NOD(C_NONCE(w), other, 0);
            other = 0; c = 0; l = 0; whose = 0;
            goto met
       :: else -> closed[w] = true; c = 0; l = 0; whose = 0; break
       fi }
  :: atomic { w != LAST -> closed[w] = true; break }
  :: w == LAST && dropped[w] -> break
  :: c_dead -> closed[w] = true; goto met
  :: l_dead -> goto met
  od;
  other = 0
}

active proctype caller() {
  byte other, c, l, whose;
  if
  :: called[TRICKED] = AT_J
  :: called[TRICKED] = AT_L
  fi;
  call(FIRST);
  call(TRICKED);
  call(LAST);
  assert(l_dead);
met:
  skip
}

/* ---- the listener ----------------------------------------------------------------- */

#define LISTENS(w) (!dropped[w] && stage[w] < 3)

/* A call that goes so is made again; the last is the one behind which no stranger comes in time. */
inline make_room(w) {
  if
  :: w != FIRST && stage[FIRST] == 1 -> dropped[FIRST] = true
  :: w != STRANGE && stage[STRANGE] == 1 -> dropped[STRANGE] = true
  :: else
  fi
}

inline open(w) {
#ifdef REFUSES_AT_LIMIT /* mutant: whoever came first stays */
  if
  :: (stage[FIRST] == 1 && !dropped[FIRST]) || (stage[STRANGE] == 1 && !dropped[STRANGE]) -> dropped[w] = true
  :: else ->
#else
  make_room(w);
#endif
  stage[w] = 1;
  to_c[w]!OPENING(L_NONCE(w), 0, 0);
#ifdef SAYS_FIRST /* mutant: it introduces itself to anybody */
  l_said[w] = heard[w];
  assert(C_SAID(heard[w], L_NONCE(w)));
#endif
#ifdef REFUSES_AT_LIMIT
  fi
#endif
}

inline take_proof(w) {
  if
  :: SAME_C(c, heard[w]) && SAME_L(l, L_NONCE(w)) && FOR(whose, AT_L) ->
       assert(C_SAID(heard[w], L_NONCE(w)));
       l_said[w] = heard[w];
       stage[w] = 2;
       to_c[w]!PROOF(heard[w], L_NONCE(w), AT_L);
#ifdef MET_WITHOUT_NOD /* mutant: the proof is enough */
       l_met = w;
       stage[w] = 3
#endif
  :: else -> dropped[w] = true
  fi
}

#ifdef PLAIN_NOD /* mutant: a nod is no proof */
#define NODDED true
#else
#define NODDED (c == heard[w] && l == L_NONCE(w))
#endif

inline take_nod(w) {
  if
  :: NODDED ->
       assert(c_met != NONE && c_said[c_met] == L_NONCE(w) && heard[w] == C_NONCE(c_met));
       l_met = w;
       stage[w] = 3
  :: else -> dropped[w] = true
  fi
}

inline serve(w) {
  if
  :: LISTENS(w) && stage[w] == 0 && nempty(to_l[w]) -> to_l[w]?OPENING(heard[w], _, _); open(w)
  :: LISTENS(w) && stage[w] == 1 && nempty(to_l[w]) -> to_l[w]?PROOF(c, l, whose); take_proof(w)
  :: LISTENS(w) && stage[w] == 2 && nempty(to_l[w]) -> to_l[w]?NOD(c, l, _); take_nod(w)
  /* What was sent comes before its end. */
  :: LISTENS(w) && closed[w] && empty(to_l[w]) -> dropped[w] = true
  /* Of its patience, before a proof. */
  :: LISTENS(w) && stage[w] == 1 && w != LAST -> dropped[w] = true
#ifdef PROVEN_MAY_GO /* mutant: of its patience, and after it */
  :: LISTENS(w) && stage[w] == 2 -> dropped[w] = true
#endif
  fi;
  c = 0; l = 0; whose = 0
}

#define ANY(w) (LISTENS(w) && (nempty(to_l[w]) || closed[w] || (stage[w] == 1 && w != LAST)))

active proctype listener() {
  byte c, l, whose;
end:
  do
  :: atomic { l_met == NONE && !l_dead && ANY(FIRST) -> serve(FIRST) }
  :: atomic { l_met == NONE && !l_dead && ANY(LAST) -> serve(LAST) }
  :: atomic { l_met == NONE && !l_dead && ANY(STRANGE) -> serve(STRANGE) }
#ifdef PROVEN_MAY_GO
  :: atomic { l_met == NONE && !l_dead && LISTENS(FIRST) && stage[FIRST] == 2 -> serve(FIRST) }
  :: atomic { l_met == NONE && !l_dead && LISTENS(LAST) && stage[LAST] == 2 -> serve(LAST) }
#endif
  /* It goes on without the rest. */
  :: atomic { l_met != NONE ->
       dropped[FIRST] = dropped[FIRST] || l_met != FIRST;
       dropped[LAST] = dropped[LAST] || l_met != LAST;
       break }
  od;
  /* What C counts on stands: relayed by S it may have come by S's. */
  assert(c_met == NONE || c_met == TRICKED || !dropped[c_met] || l_met == STRANGE)
}

/* ---- the stranger --------------------------------------------------------------------- */

/* Any proof of C's, with any opening, to L; any of L's to C. */
inline choose_of_c() {
  if
  :: c_said[FIRST] != NONE -> c = C_NONCE(FIRST); l = c_said[FIRST]; whose = called[FIRST]
  :: c_said[TRICKED] != NONE -> c = C_NONCE(TRICKED); l = c_said[TRICKED]; whose = called[TRICKED]
  :: c_said[LAST] != NONE -> c = C_NONCE(LAST); l = c_said[LAST]; whose = called[LAST]
  :: c = S_NONCE; l = S_NONCE; whose = 0 /* rubbish */
  fi
}

inline choose_of_l() {
  if
  :: l_said[FIRST] != NONE -> c = l_said[FIRST]; l = L_NONCE(FIRST); whose = AT_L
  :: l_said[STRANGE] != NONE -> c = l_said[STRANGE]; l = L_NONCE(STRANGE); whose = AT_L
  :: c = S_NONCE; l = S_NONCE; whose = 0
  fi
}

/* In its own connection.  Nonces of its own would serve it less than these. */
active proctype stranger() {
  byte c, l, whose;
  if
  :: to_l[STRANGE]!OPENING(C_NONCE(FIRST), 0, 0)
  :: to_l[STRANGE]!OPENING(C_NONCE(TRICKED), 0, 0)
  fi;
  if
  :: atomic { choose_of_c(); to_l[STRANGE]!PROOF(c, l, whose); c = 0; l = 0; whose = 0 }
  :: goto silent
  fi;
  if
  :: to_l[STRANGE]!NOD(S_NONCE, S_NONCE, 0)
  :: c_met != NONE -> to_l[STRANGE]!NOD(C_NONCE(c_met), c_said[c_met], 0)
  :: skip
  fi;
silent:
  skip /* and holds it for ever */
}

/* Where C calls and S sits. */
active proctype impostor() {
  byte c, l, whose;
  if
  :: to_c[TRICKED]!OPENING(L_NONCE(FIRST), 0, 0)
  :: to_c[TRICKED]!OPENING(L_NONCE(STRANGE), 0, 0)
  fi;
  if
  :: atomic { choose_of_l(); to_c[TRICKED]!PROOF(c, l, whose); c = 0; l = 0; whose = 0 }
  :: skip
  fi
}

active proctype death() {
end:
  if
  :: c_dead = true
  :: l_dead = true
  :: skip
  fi
}

/* At the end, where both live: they have met, in one connection. */
active proctype judge() {
  timeout ->
  assert(c_dead || l_dead || (c_met != NONE && (l_met == c_met || (c_met == TRICKED && l_met == STRANGE) || l_met == NONE && c_met == TRICKED)))
}
