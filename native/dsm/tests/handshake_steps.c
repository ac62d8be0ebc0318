/* Description: two nodes that know one secret meet, however their bytes are cut. Nobody else
 * meets either: not one with another secret, nor one that changes a bit, sends back what it
 * hears, or repeats what it has heard. Nothing that is sent holds the secret. */
#define _GNU_SOURCE
#include "../handshake.h"

#include "check.h"

#include <maru/wait.h>

#define OPENING (4 + MR_NONCE)
#define WHOLE sizeof(struct mr_introduction)
#define NODES 5

static struct mr_job caller_job, listener_job;
static struct mr_card caller_card, listener_card;
static uint64_t seed = 1;

static uint32_t draw(void) {
  seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(seed >> 33);
}

static void fill(uint8_t *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    bytes[i] = (uint8_t)draw();
}

static void renew(void) {
  caller_job = (struct mr_job){.nodes = NODES,
                               .me = 3,
                               .epoch = 1,
                               .incarnation = draw(),
                               .settings = draw(),
                               .transport = "tcp"};
  fill(caller_job.secret, MR_SECRET);
  fill(caller_card.bytes, MR_CARD);
  fill(listener_card.bytes, MR_CARD);
  listener_job = caller_job;
  listener_job.me = 2;
  listener_job.incarnation = draw();
}

static void begin(struct mr_handshake *h, enum mr_role role) {
  uint8_t nonce[MR_NONCE];
  fill(nonce, sizeof nonce);
  bool calls = role == MR_CALLER;
  mr_handshake_begin(h, calls ? &caller_job : &listener_job, calls ? &caller_card : &listener_card,
                     role, calls ? 2 : 0, nonce);
}

static bool holds_secret(const struct mr_handshake *h) {
  return memmem(h->out, h->left, caller_job.secret, 8) != NULL;
}

/* Up to `most` bytes from one to the other, in at most as many as that one wants; what went. */
static size_t pass(struct mr_handshake *from, struct mr_handshake *to, size_t most) {
  size_t wants = mr_handshake_wants(to), n = from->left < wants ? from->left : wants;
  n = n < most ? n : most;
  CHECK(!holds_secret(from));
  if (n > 0) {
    mr_handshake_hear(to, from->out, n);
    mr_handshake_sent(from, n);
  }
  return n;
}

/* Until nothing goes any more. */
static void exchange(struct mr_handshake *a, struct mr_handshake *b, bool cut) {
  for (size_t went = 1; went > 0;)
    went =
        pass(a, b, cut ? 1 + draw() % 50 : SIZE_MAX) + pass(b, a, cut ? 1 + draw() % 50 : SIZE_MAX);
}

static void check_meet(bool cut) {
  struct mr_handshake caller, listener;
  begin(&caller, MR_CALLER);
  begin(&listener, MR_LISTENER);
  CHECK(listener.left == 0); /* strangers hear nothing */
  exchange(&caller, &listener, cut);
  CHECK(caller.stage == MR_MET && listener.stage == MR_MET);
  CHECK(caller.left == 0 && listener.left == 0);
  CHECK(caller.other.from == 2 && listener.other.from == caller_job.me);
  CHECK(caller.other.incarnation == listener_job.incarnation);
  CHECK(listener.other.settings == caller_job.settings);
  CHECK(memcmp(&caller.other.card, &listener_card, MR_CARD) == 0);
  CHECK(strcmp(listener.other.transport, "tcp") == 0);
}

/* What follows a nod is the job's. */
static void check_appetite(void) {
  struct mr_handshake caller, listener;
  begin(&caller, MR_CALLER);
  begin(&listener, MR_LISTENER);
  CHECK_EQUAL(mr_handshake_wants(&listener), OPENING);
  pass(&caller, &listener, 5);
  CHECK_EQUAL(mr_handshake_wants(&listener), OPENING - 5);
  pass(&caller, &listener, SIZE_MAX);
  CHECK_EQUAL(mr_handshake_wants(&listener), WHOLE);
  pass(&listener, &caller, SIZE_MAX);
  pass(&caller, &listener, SIZE_MAX);
  CHECK(listener.stage == MR_NOD && mr_handshake_wants(&listener) == MR_HMAC);
  CHECK_EQUAL(listener.left, WHOLE);
  pass(&listener, &caller, SIZE_MAX);
  CHECK(caller.stage == MR_MET && mr_handshake_wants(&caller) == 0);
  pass(&caller, &listener, SIZE_MAX);
  CHECK(listener.stage == MR_MET && mr_handshake_wants(&listener) == 0);
}

/* A process that is not a node of this job learns at most a nonce, and is nobody's peer. */
static void check_refused(const char *why) {
  struct mr_handshake caller, listener;
  snprintf(check_note, sizeof check_note, "(%s)", why);
  begin(&caller, MR_CALLER);
  begin(&listener, MR_LISTENER);
  exchange(&caller, &listener, false);
  CHECK(listener.stage == MR_STRANGER && caller.stage == MR_INTRODUCTION);
  CHECK(listener.left == 0);
}

static void check_other_jobs(void) {
  renew();
  listener_job.secret[31] ^= 1;
  check_refused("another secret");
  renew();
  listener_job.nodes++;
  check_refused("another number of nodes");
  renew();
  listener_job.epoch++;
  check_refused("another epoch");
  renew();
  caller_job.me = 2;
  check_refused("the listener's own number");
  renew();
  caller_job.me = 1;
  check_refused("one that is to be called");
  renew();
  caller_job.me = caller_job.nodes;
  check_refused("one too many");
  renew();
  listener_job.me = 1;
  check_refused("a call for another node");
  renew();
}

/* As that one, of a node that was lost and joins again: another process, which all others call. */
static void renew_as(uint16_t caller, uint16_t lost) {
  renew();
  caller_job.me = caller;
  caller_job.again = listener_job.again = true;
  caller_job.lost = listener_job.lost = lost;
}

static void check_again(void) {
  for (uint16_t caller = 0; caller < NODES; caller++) {
    renew_as(caller, 2);
    if (caller != 2)
      check_meet(caller % 2 == 0);
    else
      check_refused("the lost one's own number");
  }
  renew_as(NODES, 2);
  check_refused("again, one too many");
  renew_as(3, 4);
  check_refused("again, a call for one that lives");
  renew_as(1, 2);
  caller_job.secret[0] ^= 1;
  check_refused("again, another secret");
  renew_as(1, 2);
  caller_job.epoch++;
  check_refused("again, an epoch that nobody has yet");
  renew_as(1, 2);
  listener_job.again = false;
  check_refused("who joins for the first time");
  renew();
}

/* What the header says a proof is, once more. */
static void prove_by_hand(const struct mr_handshake *h, uint8_t role,
                          struct mr_introduction *said) {
  struct mr_hmac hmac;
  mr_hmac_begin(&hmac, caller_job.secret, MR_SECRET);
  mr_hmac_add(&hmac, "maru-dsm: a node joins", 23);
  mr_hmac_add(&hmac, &role, 1);
  mr_hmac_add(&hmac, h->nonces, sizeof h->nonces);
  mr_hmac_add(&hmac, said, offsetof(struct mr_introduction, proof));
  mr_hmac_end(&hmac, said->proof);
}

/* A node that knows the secret, and is another than the one that was called. */
static void check_wrong_answer(void) {
  for (int lie = 0; lie < 6; lie++) {
    struct mr_handshake caller, listener;
    struct mr_introduction said;
    begin(&caller, MR_CALLER);
    begin(&listener, MR_LISTENER);
    pass(&caller, &listener, SIZE_MAX);
    pass(&listener, &caller, SIZE_MAX);
    pass(&caller, &listener, SIZE_MAX);
    CHECK(listener.stage == MR_NOD && listener.left == WHOLE);
    memcpy(&said, listener.out, WHOLE);
    said.from += lie == 1;
    said.to += lie == 2;
    said.nodes += lie == 3;
    said.epoch += lie == 4;
    prove_by_hand(&caller, lie == 5 ? MR_CALLER : MR_LISTENER, &said);
    CHECK(lie != 0 || memcmp(&said, listener.out, WHOLE) == 0);
    mr_handshake_hear(&caller, &said, WHOLE);
    snprintf(check_note, sizeof check_note, "(lie %d)", lie);
    CHECK(caller.stage == (lie == 0 ? MR_MET : MR_STRANGER));
    CHECK_EQUAL(caller.left, lie == 0 ? MR_HMAC : 0);
  }
}

/* One bit of all that goes, changed: at the end not both have met, and the node that has seen
 * the change has not. A nod's other bits count, too. */
static void check_bit(size_t bit) {
  struct mr_handshake caller, listener;
  size_t at = 0;
  snprintf(check_note, sizeof check_note, "(bit %zu)", bit);
  begin(&caller, MR_CALLER);
  begin(&listener, MR_LISTENER);
  for (size_t went = 1; went > 0;) {
    went = 0;
    for (int turn = 0; turn < 2; turn++) {
      struct mr_handshake *from = turn == 0 ? &caller : &listener,
                          *to = turn == 0 ? &listener : &caller;
      if (from->left > 0 && at <= bit / 8 && bit / 8 < at + from->left)
        from->out[bit / 8 - at] ^= (uint8_t)(1u << bit % 8);
      at += from->left;
      went += pass(from, to, SIZE_MAX);
    }
  }
  CHECK(listener.stage != MR_MET);
  CHECK(caller.stage != MR_MET || bit / 8 >= 2 * (OPENING + WHOLE));
}

/* A mirror: what a caller says, back to it; and one connection's words into another's. */
static void check_reflection(void) {
  struct mr_handshake caller, mirror;
  begin(&caller, MR_CALLER);
  for (int i = 0; i < 3; i++) {
    size_t n = caller.left;
    uint8_t said[sizeof caller.out];
    memcpy(said, caller.out, n);
    mr_handshake_sent(&caller, n);
    if (n > 0)
      mr_handshake_hear(&caller, said, n);
  }
  CHECK(caller.stage == MR_STRANGER);
  /* Two callers of each other's: neither takes a caller's proof for a listener's. */
  struct mr_job back = caller_job;
  back.me = 2;
  uint8_t nonce[MR_NONCE];
  fill(nonce, sizeof nonce);
  begin(&caller, MR_CALLER);
  mr_handshake_begin(&mirror, &back, &listener_card, MR_CALLER, 3, nonce);
  exchange(&caller, &mirror, false);
  CHECK(caller.stage == MR_STRANGER && mirror.stage == MR_STRANGER);
}

static void check_replay(void) {
  struct mr_handshake caller, listener, later;
  uint8_t said[OPENING + WHOLE + MR_HMAC], *at = said;
  begin(&caller, MR_CALLER);
  begin(&listener, MR_LISTENER);
  for (int i = 0; i < 3; i++) {
    memcpy(at, caller.out, caller.left);
    at += caller.left;
    pass(&caller, &listener, SIZE_MAX);
    pass(&listener, &caller, SIZE_MAX);
  }
  CHECK(listener.stage == MR_MET && at == said + sizeof said);
  begin(&later, MR_LISTENER);
  mr_handshake_hear(&later, said, OPENING);
  mr_handshake_hear(&later, said + OPENING, WHOLE);
  CHECK(later.stage == MR_STRANGER);
  /* And the listener's words to a later caller. */
  begin(&listener, MR_LISTENER);
  begin(&caller, MR_CALLER);
  uint8_t answer[OPENING + WHOLE];
  pass(&caller, &listener, SIZE_MAX);
  memcpy(answer, listener.out, OPENING);
  pass(&listener, &caller, SIZE_MAX);
  pass(&caller, &listener, SIZE_MAX);
  memcpy(answer + OPENING, listener.out, WHOLE);
  begin(&caller, MR_CALLER);
  mr_handshake_hear(&caller, answer, OPENING);
  mr_handshake_hear(&caller, answer + OPENING, WHOLE);
  CHECK(caller.stage == MR_STRANGER);
}

int main(void) {
  renew();
  check_meet(false);
  for (int i = 0; i < 200; i++) {
    renew();
    check_meet(true);
  }
  check_appetite();
  check_other_jobs();
  check_again();
  check_wrong_answer();
  for (size_t bit = 0; bit < 8 * (2 * (OPENING + WHOLE) + MR_HMAC); bit++)
    check_bit(bit);
  check_reflection();
  check_replay();
  return 0;
}
