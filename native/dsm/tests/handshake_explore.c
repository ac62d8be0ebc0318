/* Description: two nodes and a stranger take turns in any way, and any of them dies. A node that
 * takes a proof takes what the other said for just that connection. A listener has met the node
 * that the caller has met. It says nothing of itself before, and where both live they meet.
 *
 * All interleavings of the handshake's core at the size of models/join.pml: a caller C calls a
 * listener L, then where a stranger S sits, then L again. It may give up a call but the last. S has
 * a connection to L, too. S may say there, and to C, all that anybody has said, and what it can cut
 * out of that; L drops who has proved nothing. Bytes of the first call may come one ahead.
 *
 * In some L was lost and joins again: then C has the lower number.
 *
 * MARU_DSM_SCHEDULES bounds the states of one such world.  The default leaves out most of the
 * largest alone, which has a million. */
#define _GNU_SOURCE
#include "../handshake.h"

#include "check.h"

#include <stdlib.h>
#include <string.h>

#define OPENING (4 + MR_NONCE)
#define WHOLE sizeof(struct mr_introduction)
#define WIRE (OPENING + WHOLE + MR_HMAC)
#define SAID 24
#define TABLE (1u << 22)
#define STATES 60000

enum { FIRST, TRICKED, LAST, STRANGE, WIRES };
enum { CALLER, LISTENER };

/* A connection.  A side that is closed keeps what it was: what it has said stays said. */
struct wire {
  struct mr_handshake side[2];
  bool begun[2], open[2];
  size_t count[2]; /* of the bytes that are on the way to CALLER, to LISTENER */
  uint8_t bytes[2][WIRE];
};

struct message {
  size_t length;
  uint8_t bytes[WHOLE];
};

struct world {
  struct wire wires[WIRES];
  bool dead[2];
  int next; /* the call that C makes next */
  size_t said_count;
  struct message said[SAID]; /* what S knows */
};

/* What of all that is possible here. */
struct size {
  const char *name;
  uint16_t tricked; /* whose place S has taken */
  int first, last;  /* the calls that C makes */
  bool stranger, splits, again;
};

static struct mr_job jobs[2];
static struct mr_card cards[2];
static const struct size *size;
static uint64_t *seen, states, most;
static char path[4096];

/* ---- what there is -------------------------------------------------------------------- */

static bool is_honest(int w) { return w == FIRST || w == LAST; }

static void learn(struct world *world, const void *bytes, size_t length) {
  for (size_t i = 0; i < world->said_count; i++)
    if (world->said[i].length == length && memcmp(world->said[i].bytes, bytes, length) == 0)
      return;
  CHECK(world->said_count < SAID && length <= WHOLE);
  struct message *message = &world->said[world->said_count++];
  message->length = length;
  memcpy(message->bytes, bytes, length);
}

/* What one says is on the way at once; S hears it everywhere, and can cut a proof out of it. */
static void flush(struct world *world, int w, int who) {
  struct wire *wire = &world->wires[w];
  struct mr_handshake *h = &wire->side[who];
  size_t length = h->left;
  CHECK(length <= sizeof h->out);
  if (length == 0)
    return;
  CHECK(memmem(h->out, length, jobs[0].secret, 8) == NULL);
  learn(world, h->out, length);
  if (length == WHOLE)
    learn(world, h->out + WHOLE - MR_HMAC, MR_HMAC);
  if (who == LISTENER && h->stage < MR_NOD) /* nothing of itself */
    CHECK_EQUAL(length, OPENING);
  if (is_honest(w)) {
    CHECK(wire->count[!who] + length <= WIRE);
    memcpy(wire->bytes[!who] + wire->count[!who], h->out, length);
    wire->count[!who] += length;
  }
  mr_handshake_sent(h, length);
}

static void begin(struct world *world, int w, int who, uint16_t to) {
  struct wire *wire = &world->wires[w];
  uint8_t nonce[MR_NONCE];
  memset(nonce, 1 + 2 * w + who, sizeof nonce);
  mr_handshake_begin(&wire->side[who], &jobs[who], &cards[who],
                     who == CALLER ? MR_CALLER : MR_LISTENER, to, nonce);
  wire->begun[who] = wire->open[who] = true;
  flush(world, w, who);
}

static enum mr_stage stage(const struct world *world, int w, int who) {
  return world->wires[w].side[who].stage;
}

/* As join.c: a peer that says something wrong goes. */
static void hear(struct world *world, int w, int who, const void *bytes, size_t length) {
  mr_handshake_hear(&world->wires[w].side[who], bytes, length);
  flush(world, w, who);
  if (stage(world, w, who) == MR_STRANGER)
    world->wires[w].open[who] = false;
}

static bool has_met(const struct world *world, int who) {
  for (int w = 0; w < WIRES; w++)
    if (world->wires[w].begun[who] && stage(world, w, who) == MR_MET)
      return true;
  return false;
}

/* ---- what must hold --------------------------------------------------------------------- */

/* The connection of the other's in which both heard the same nonces; -1. */
static int partner(const struct world *world, int w, int who) {
  const struct mr_handshake *h = &world->wires[w].side[who];
  for (int other = 0; other < WIRES; other++)
    if (world->wires[other].begun[!who] &&
        memcmp(world->wires[other].side[!who].nonces, h->nonces, sizeof h->nonces) == 0)
      return other;
  return -1;
}

static void agree(const struct world *world, int w, int who) {
  const struct mr_handshake *h = &world->wires[w].side[who];
  bool believes = who == CALLER ? h->stage == MR_MET : h->stage == MR_NOD || h->stage == MR_MET;
  if (!world->wires[w].begun[who] || !believes)
    return;
  int other = partner(world, w, who);
  CHECK(other >= 0);
  const struct mr_handshake *theirs = &world->wires[other].side[!who];
  CHECK(h->other.from == jobs[!who].me && h->other.to == jobs[who].me);
  CHECK(memcmp(&h->other.card, &cards[!who], sizeof h->other.card) == 0 &&
        h->other.incarnation == jobs[!who].incarnation);
  CHECK((who == CALLER ? h : theirs)->to == jobs[LISTENER].me);
  if (who == LISTENER && h->stage == MR_MET)
    CHECK(theirs->stage == MR_MET);
  /* What it counts on no listener gives up; where S carries the bytes, S may spoil them. */
  if (who == CALLER && !world->dead[CALLER] && is_honest(other)) {
    CHECK(theirs->stage == MR_NOD || theirs->stage == MR_MET);
    CHECK(world->wires[other].open[LISTENER] || world->dead[LISTENER]);
  }
}

/* Nothing goes on by itself any more. */
static void check_end(const struct world *world) {
  if (world->dead[CALLER] || world->dead[LISTENER])
    return;
  CHECK(has_met(world, CALLER));
  for (int w = 0; w < WIRES; w++)
    if (is_honest(w) && world->wires[w].begun[CALLER] && stage(world, w, CALLER) == MR_MET)
      CHECK(stage(world, w, LISTENER) == MR_MET);
}

/* ---- all interleavings -------------------------------------------------------------------- */

static void explore(const struct world *world);

/* In a world that is the next: `change`, and all that can follow. */
#define NEXT(what, change)                                                                         \
  do {                                                                                             \
    struct world *after = malloc(sizeof *after);                                                   \
    CHECK(after != NULL);                                                                          \
    *after = *world;                                                                               \
    size_t length = strlen(path);                                                                  \
    snprintf(path + length, sizeof path - length, " %s%d", what, w);                               \
    change;                                                                                        \
    explore(after);                                                                                \
    path[length] = 0;                                                                              \
    free(after);                                                                                   \
  } while (0)

static bool deliver(const struct world *world, int w, int to) {
  const struct wire *wire = &world->wires[w];
  size_t wants = wire->open[to] ? mr_handshake_wants(&wire->side[to]) : 0,
         now = wants < wire->count[to] ? wants : wire->count[to];
  bool splits = size->splits && now > 1 && wire->side[to].came == 0;
  for (size_t n = splits ? 1 : now; n > 0 && n <= now; n = n < now ? now : now + 1)
    NEXT(to == CALLER ? "hears" : "heard", {
      struct wire *next = &after->wires[w];
      uint8_t piece[WIRE];
      memcpy(piece, next->bytes[to], n);
      next->count[to] -= n;
      memmove(next->bytes[to], next->bytes[to] + n, next->count[to]);
      memset(next->bytes[to] + next->count[to], 0, WIRE - next->count[to]);
      hear(after, w, to, piece, n);
    });
  return now > 0;
}

/* One sees that the other has closed, behind all that it said. */
static bool see_end(const struct world *world, int w, int who) {
  const struct wire *wire = &world->wires[w];
  if (!wire->open[who] || !wire->begun[!who] || wire->open[!who] || wire->count[who] > 0)
    return false;
  NEXT(who == CALLER ? "ended" : "ends", after->wires[w].open[who] = false);
  return true;
}

static void deceive(const struct world *world, int w, int to) {
  const struct wire *wire = &world->wires[w];
  if (!wire->open[to])
    return;
  for (size_t i = 0; i < world->said_count; i++)
    if (world->said[i].length == mr_handshake_wants(&wire->side[to]))
      NEXT(to == CALLER ? "tells" : "told",
           hear(after, w, to, world->said[i].bytes, world->said[i].length));
}

static bool call(const struct world *world) {
  int w = world->next;
  bool busy = w > size->first && world->wires[w - 1].open[CALLER];
  if (w > size->last || busy || world->dead[CALLER] || has_met(world, CALLER))
    return false;
  NEXT("calls", {
    after->next++;
    begin(after, w, CALLER, w == TRICKED ? size->tricked : jobs[LISTENER].me);
    if (is_honest(w) && !after->dead[LISTENER])
      begin(after, w, LISTENER, 0);
    else if (is_honest(w))
      after->wires[w].open[CALLER] = false;
  });
  return true;
}

static void die(const struct world *world, int who) {
  int w = who;
  if (!world->dead[who])
    NEXT("dies", {
      after->dead[who] = true;
      for (int i = 0; i < WIRES; i++)
        after->wires[i].open[who] = false;
    });
}

/* Those that may do it at any time: C gives up, L drops, S begins. */
static void leave(const struct world *world, int w) {
  const struct wire *wire = &world->wires[w];
  if (w < size->last && wire->open[CALLER] && stage(world, w, CALLER) < MR_NOD)
    NEXT("gives-up", after->wires[w].open[CALLER] = false);
  if (w != LAST && size->first < size->last && wire->open[LISTENER] &&
      stage(world, w, LISTENER) < MR_NOD)
    NEXT("drops", after->wires[w].open[LISTENER] = false);
  if (w == STRANGE && size->stranger && !wire->begun[LISTENER] && !world->dead[LISTENER])
    NEXT("comes", begin(after, w, LISTENER, 0));
}

static bool is_new(const struct world *world) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i + 8 <= sizeof *world; i += 8) {
    uint64_t word;
    memcpy(&word, (const uint8_t *)world + i, sizeof word);
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
  }
  hash |= hash == 0;
  for (size_t at = hash % TABLE;; at = (at + 1) % TABLE) {
    if (seen[at] == hash)
      return false;
    if (seen[at] != 0)
      continue;
    seen[at] = hash;
    CHECK(++states < TABLE / 2);
    return true;
  }
}

static void explore(const struct world *world) {
  if (states >= most || !is_new(world))
    return;
  size_t length = strlen(path), from = length > 80 ? length - 80 : 0;
  snprintf(check_note, sizeof check_note, "(%.35s:%.80s)", size->name, path + from);
  for (int w = 0; w < WIRES; w++)
    for (int who = 0; who < 2; who++)
      agree(world, w, who);
  bool goes_on = call(world);
  for (int w = 0; w < WIRES; w++) {
    for (int who = 0; who < 2; who++) {
      goes_on |= deliver(world, w, who);
      goes_on |= see_end(world, w, who);
    }
    leave(world, w);
  }
  if (size->stranger) {
    deceive(world, TRICKED, CALLER);
    deceive(world, STRANGE, LISTENER);
  }
  die(world, CALLER);
  die(world, LISTENER);
  bool tricked = world->wires[TRICKED].open[CALLER];
  if (!goes_on && !tricked)
    check_end(world);
}

/* ---- sizes -------------------------------------------------------------------------------- */

static void prepare(bool again) {
  for (int who = 0; who < 2; who++) {
    jobs[who] = (struct mr_job){.nodes = 3,
                                .me = (who == CALLER) != again ? 2 : 0,
                                .again = again,
                                .lost = 2,
                                .epoch = 1,
                                .incarnation = 7u + (unsigned)who,
                                .transport = "tcp"};
    memset(jobs[who].secret, 0x5e, MR_SECRET);
    memset(cards[who].bytes, 0xc0 + who, MR_CARD);
  }
}

int main(void) {
  static const struct size sizes[] = {
      {"one call, cut", 0, FIRST, FIRST, false, true, false},
      {"a stranger in the place of another", 1, TRICKED, LAST, true, false, false},
      {"a stranger in the listener's place", 0, TRICKED, LAST, true, false, false},
      {"a stranger where one joins again", 2, TRICKED, LAST, true, false, true},
      {"three calls", 0, FIRST, LAST, true, false, false},
  };
  const char *asked = getenv("MARU_DSM_SCHEDULES");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct world *world = calloc(1, sizeof *world);
    seen = calloc(TABLE, sizeof *seen);
    CHECK(world != NULL && seen != NULL);
    size = &sizes[i];
    prepare(size->again);
    states = 0;
    most = asked != NULL ? strtoull(asked, NULL, 10) : STATES;
    world->next = size->first;
    explore(world);
    printf("%s: %llu states\n", size->name, (unsigned long long)states);
    free(seen);
    free(world);
  }
  return 0;
}
