#define _GNU_SOURCE
#include "handshake.h"

#include <string.h>

#define MAGIC UINT32_C(0x344d5344) /* "DSM4" */

struct opening {
  uint32_t magic;
  uint8_t nonce[MR_NONCE];
};

_Static_assert(sizeof(struct mr_introduction) ==
                   8 + 8 + 8 + MR_TRANSPORT_NAME + sizeof(struct mr_card) + MR_HMAC,
               "no padding");
_Static_assert(sizeof(struct opening) == 4 + MR_NONCE, "no padding");

static void say(struct mr_handshake *h, const void *bytes, size_t length) {
  memcpy(h->out + h->left, bytes, length);
  h->left += length;
}

static uint8_t *nonce_of(struct mr_handshake *h, enum mr_role role) {
  return h->nonces[role == MR_CALLER ? 0 : 1];
}

static enum mr_role other_role(const struct mr_handshake *h) {
  return h->role == MR_CALLER ? MR_LISTENER : MR_CALLER;
}

static void prove(const struct mr_handshake *h, enum mr_role role,
                  const struct mr_introduction *introduction, uint8_t proof[MR_HMAC]) {
  static const char what[] = "maru-dsm: a node joins";
  struct mr_hmac hmac;
  uint8_t as = (uint8_t)role;
  mr_hmac_begin(&hmac, h->job->secret, MR_SECRET);
  mr_hmac_add(&hmac, what, sizeof what);
  mr_hmac_add(&hmac, &as, sizeof as);
  mr_hmac_add(&hmac, h->nonces, sizeof h->nonces);
  mr_hmac_add(&hmac, introduction, offsetof(struct mr_introduction, proof));
  mr_hmac_end(&hmac, proof);
}

static void open_with_nonce(struct mr_handshake *h) {
  struct opening opening = {.magic = MAGIC};
  memcpy(opening.nonce, nonce_of(h, h->role), MR_NONCE);
  say(h, &opening, sizeof opening);
}

static void introduce(struct mr_handshake *h, uint16_t to, struct mr_introduction *said) {
  const struct mr_job *job = h->job;
  struct mr_introduction mine = {.from = job->me,
                                 .to = to,
                                 .nodes = job->nodes,
                                 .epoch = job->epoch,
                                 .incarnation = job->incarnation,
                                 .settings = job->settings,
                                 .card = *h->card};
  memcpy(mine.transport, job->transport, strlen(job->transport));
  prove(h, h->role, &mine, mine.proof);
  say(h, &mine, sizeof mine);
  *said = mine;
}

bool mr_is_called_by(const struct mr_job *job, uint16_t node) {
  return job->again ? job->me == job->lost && node != job->me : node > job->me;
}

/* A node of this job, the one that is called or one that is to call. */
static bool is_expected(const struct mr_handshake *h, const struct mr_introduction *other) {
  const struct mr_job *job = h->job;
  uint8_t proof[MR_HMAC];
  prove(h, other_role(h), other, proof);
  return mr_same_bytes(proof, other->proof, MR_HMAC) && other->to == job->me &&
         other->nodes == job->nodes && other->epoch == job->epoch &&
         (h->role == MR_CALLER ? other->from == h->to
                               : other->from < job->nodes && mr_is_called_by(job, other->from));
}

static enum mr_stage hear_opening(struct mr_handshake *h) {
  struct opening opening;
  memcpy(&opening, h->in, sizeof opening);
  if (opening.magic != MAGIC)
    return MR_STRANGER;
  memcpy(nonce_of(h, other_role(h)), opening.nonce, MR_NONCE);
  struct mr_introduction said;
  if (h->role == MR_CALLER)
    introduce(h, h->to, &said);
  else
    open_with_nonce(h);
  return MR_INTRODUCTION;
}

static enum mr_stage hear_introduction(struct mr_handshake *h) {
  struct mr_introduction said;
  memcpy(&h->other, h->in, sizeof h->other);
  if (!is_expected(h, &h->other))
    return MR_STRANGER;
  if (h->role == MR_CALLER) {
    prove(h, MR_NODS, &h->other, h->nod);
    say(h, h->nod, sizeof h->nod);
    return MR_MET;
  }
  introduce(h, h->other.from, &said);
  prove(h, MR_NODS, &said, h->nod);
  return MR_NOD;
}

void mr_handshake_begin(struct mr_handshake *h, const struct mr_job *job,
                        const struct mr_card *card, enum mr_role role, uint16_t to,
                        const uint8_t *nonce) {
  *h = (struct mr_handshake){.job = job, .card = card, .role = role, .to = to};
  memcpy(nonce_of(h, role), nonce, MR_NONCE);
  if (role == MR_CALLER)
    open_with_nonce(h);
}

size_t mr_handshake_wants(const struct mr_handshake *h) {
  size_t whole = h->stage == MR_OPENING        ? sizeof(struct opening)
                 : h->stage == MR_INTRODUCTION ? sizeof(struct mr_introduction)
                 : h->stage == MR_NOD          ? sizeof h->nod
                                               : h->came;
  return whole - h->came;
}

void mr_handshake_hear(struct mr_handshake *h, const void *bytes, size_t length) {
  memcpy(h->in + h->came, bytes, length);
  h->came += length;
  if (mr_handshake_wants(h) > 0)
    return;
  h->came = 0;
  if (h->stage == MR_OPENING)
    h->stage = hear_opening(h);
  else if (h->stage == MR_INTRODUCTION)
    h->stage = hear_introduction(h);
  else if (h->stage == MR_NOD)
    h->stage = mr_same_bytes(h->in, h->nod, sizeof h->nod) ? MR_MET : MR_STRANGER;
}

void mr_handshake_sent(struct mr_handshake *h, size_t length) {
  h->left -= length;
  memmove(h->out, h->out + length, h->left);
}
