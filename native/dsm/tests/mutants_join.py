#!/usr/bin/env python3
"""Seeded faults in how nodes meet, prove themselves and are called lost: each must be caught.

usage: mutants_join.py [WORD]      as mutants.py, by whose means it works

Not caught, and why: SURVIVORS.  They are tried as well, so that the list stays true: one that is
caught after all fails.
"""

import sys

import mutants

mutants.SOURCES = ["hmac.c", "handshake.c", "alive.c", "join.c", "address.c"]
# join_strangers: seconds to meet in, so that a mutant that hangs does not take long.
mutants.TESTS = {"hmac_vectors": "1", "handshake_explore": "20000", "handshake_steps": "1", "alive_signs": "1", "join_strangers": "10"}
mutants.OWN = {"hmac.c": "hmac_vectors", "handshake.c": "handshake_explore", "alive.c": "alive_signs", "join.c": "join_strangers"}
mutants.HELPERS = []

# Without a fault the slowest test takes 10 s, which it waits for the most part.
mutants.SECONDS = 30

mutants.MUTANTS = [
    # These hang, so they begin first.
    ("a stranger stays", "join.c", "return g->handshake.stage != MR_STRANGER;", "return true;"),
    ("nobody's time ends", "join.c", "m->now >= m->deadline ? -ETIMEDOUT : call_all(m)", "call_all(m)"),
    ("the padding is a byte too long", "hmac.c", "(BLOCK + 55 - sha", "(BLOCK + 56 - sha"),
    ("the length counts bytes", "hmac.c", "sha->length * 8;", "sha->length;"),
    ("both hashes begin alike", "hmac.c", "block[i] ^ 0x5c;", "block[i] ^ 0x36;"),
    ("a key of a block is hashed", "hmac.c", "if (length <= BLOCK)", "if (length < BLOCK)"),
    ("the key stays in memory", "hmac.c", "  explicit_bzero(hmac, sizeof *hmac);\n", ""),
    ("half of a proof is compared", "hmac.c", "i < length; i++)\n    differs", "i < length / 2; i++)\n    differs"),
    ("the last byte alone is compared", "hmac.c", "differs |= a", "differs = a"),
    ("a word turns too little", "hmac.c", "right(a, 7)", "right(a, 6)"),
    ("a part that fills a block is not taken in", "hmac.c", "if (sha->length % BLOCK == 0)", "if (sha->length % BLOCK == 0 && length > 0)"),
    ("either side's proof serves for the other", "handshake.c", "  mr_hmac_add(&hmac, &as, sizeof as);\n", ""),
    ("nonces are not proved", "handshake.c", "  mr_hmac_add(&hmac, h->nonces, sizeof h->nonces);\n", ""),
    ("the listener's nonce is not proved", "handshake.c", "&hmac, h->nonces, sizeof h->nonces", "&hmac, h->nonces[0], MR_NONCE"),
    ("the caller's nonce is not proved", "handshake.c", "&hmac, h->nonces, sizeof h->nonces", "&hmac, h->nonces[1], MR_NONCE"),
    ("an introduction is not proved", "handshake.c", "  mr_hmac_add(&hmac, introduction, offsetof(struct mr_introduction, proof));\n", ""),
    ("the secret is not in a proof", "handshake.c", "mr_hmac_begin(&hmac, h->job->secret, MR_SECRET);", 'mr_hmac_begin(&hmac, "", 0);'),
    ("no proof is looked at", "handshake.c", "mr_same_bytes(proof, other->proof, MR_HMAC) && ", ""),
    ("a call for another is answered", "handshake.c", "other->to == job->me &&", "true &&"),
    ("another number of nodes does not count", "handshake.c", "other->nodes == job->nodes && ", ""),
    ("another epoch does not count", "handshake.c", "other->epoch == job->epoch &&", "true &&"),
    ("any node answers for the one that is called", "handshake.c", "? other->from == h->to", "? true"),
    ("a node calls itself", "handshake.c", ": node > job->me;", ": node >= job->me;"),
    ("those that are to be called may call", "handshake.c", "other->from < job->nodes && mr_is_called_by(job, other->from)", "other->from < job->nodes"),
    ("a node that joins again calls itself", "handshake.c", "job->me == job->lost && node != job->me", "job->me == job->lost"),
    ("one that lives is called again", "handshake.c", "job->me == job->lost && node != job->me", "node != job->me"),
    ("those below do not call one that joins again", "handshake.c", "job->me == job->lost && node != job->me", "job->me == job->lost && node > job->me"),
    ("all are called again", "join.c", "node == job->lost && job->me != job->lost", "job->me != job->lost && node != job->me"),
    ("one that joins again calls the others", "join.c", "node == job->lost && job->me != job->lost", "node != job->me"),
    ("there is a node too many", "handshake.c", "other->from < job->nodes", "other->from <= job->nodes"),
    ("any opening is one", "handshake.c", "if (opening.magic != MAGIC)", "if (false)"),
    ("strangers are spoken to", "handshake.c", "  if (role == MR_CALLER)\n    open", "  if (true)\n    open"),
    ("a proof is met at once", "handshake.c", "  return MR_NOD;", "  return MR_MET;"),
    ("any nod is one", "handshake.c", "mr_same_bytes(h->in, h->nod, sizeof h->nod) ?", "true ?"),
    ("a nod may be cut short", "handshake.c", "? sizeof h->nod", "? sizeof h->nod / 2"),
    ("a listener's own proof is a nod", "handshake.c", "  uint8_t as = (uint8_t)role;", "  uint8_t as = (uint8_t)(role == MR_NODS ? MR_LISTENER : role);"),
    ("a listener introduces itself unasked", "handshake.c", "    open_with_nonce(h);\n  return MR_INTRODUCTION;",
     "    open_with_nonce(h), introduce(h, (uint16_t)(h->job->nodes - 1), &said);\n  return MR_INTRODUCTION;"),
    ("a caller has met before it heard the other", "handshake.c", "    introduce(h, h->to, &said);\n  else", "    return introduce(h, h->to, &said), MR_MET;\n  else"),
    ("who is refused may speak again", "handshake.c", "  if (!is_expected(h, &h->other))\n    return MR_STRANGER;", "  if (!is_expected(h, &h->other))\n    return MR_OPENING;"),
    ("who has proved itself is given up", "join.c", "return is_stranger(g) && m->now", "return m->now"),
    ("who has proved itself makes room", "join.c", "if (g->fd >= 0 && is_stranger(g) && (oldest", "if (g->fd >= 0 && (oldest"),
    ("who says nothing is waited for", "join.c", "return is_stranger(g) && m->now", "return false && m->now"),
    ("nobody makes room where descriptors are short", "join.c", "  if (oldest == NULL)\n    return -error;", "  return -error;"),
    ("an error of the caller's ends the join", "join.c", "errno != ENOBUFS && errno != ENOMEM)\n      return 0;", "errno != ENOBUFS && errno != ENOMEM)\n      return -errno;"),
    ("who has not spoken yet is gone", "join.c", "    if (n < 0 && is_passing())\n      return true;\n", ""),
    ("another program that answers is taken for a node", "join.c", "opens ? FOREIGN : UNPROVED", "UNPROVED"),
    ("another node is told to be missing", "join.c", "known = calls(job, node) && m->fds[node] < 0;", "known = m->fds[node] < 0;"),
    ("a node is met twice", "join.c", "if (rc < 0 || m->fds[other->from] >= 0) {", "if (rc < 0) {"),
    ("other settings do not count", "join.c", "other->settings != m->job->settings ", "false "),
    ("another transport does not count", "join.c", "strncmp(other->transport, m->job->transport, MR_TRANSPORT_NAME) != 0 ?", "false ?"),
    ("a call is made once", "join.c", "m->fds[node] < 0 && g->fd < 0 &&", "m->fds[node] < 0 && g->fd < 0 && g->since == 0 &&"),
    ("more than the handshake is read", "join.c", "recv(g->fd, bytes, wants, 0)", "recv(g->fd, bytes, sizeof bytes, 0)"),
    ("incarnations stay unknown", "join.c", "  m->incarnations[other->from] = other->incarnation;\n", ""),
    ("cards stay unknown", "join.c", "  m->cards[other->from] = other->card;\n", ""),
    ("all who call are too many", "join.c", "strangers < MR_STRANGERS && m->held < m->room", "false"),
    ("a caller that goes first is still called", "join.c", "  m->callers -= mr_is_called_by(m->job, other->from);\n", "  m->callers--;\n"),
    ("what was repeated before an answer counts", "alive.c", "    alive->known = signs->repeats;\n", ""),
    ("an acknowledgement is forgotten", "alive.c", "  if (signs->repeats == 0)\n    alive->known = 0;\n", ""),
    ("no answer is heard", "alive.c", "if (answered > alive->answered + TICKS)", "if (false)"),
    ("a tick is an answer", "alive.c", "#define TICKS (20 * MS)", "#define TICKS (-20 * MS)"),
    ("probes do not count", "alive.c", "signs->repeats <= alive->known && signs->probes == 0", "signs->repeats <= alive->known"),
    ("repeats do not count", "alive.c", "signs->repeats <= alive->known && signs->probes == 0", "signs->probes == 0"),
    ("a dead host has twice the time", "alive.c", "(signs->idle ? MR_IDLE_MS : MR_SILENT_MS) * MS", "2 * (signs->idle ? MR_IDLE_MS : MR_SILENT_MS) * MS"),
    ("a short outage loses a host", "alive.c", "(signs->idle ? MR_IDLE_MS : MR_SILENT_MS) * MS", "MR_IDLE_MS * MS"),
    ("an idle host has as much time as a busy one", "alive.c", "(signs->idle ? MR_IDLE_MS : MR_SILENT_MS) * MS", "MR_SILENT_MS * MS"),
    ("a doubt is never lifted", "alive.c", "signs->probes == 0)\n    alive->since = 0;", "signs->probes == 0)\n    ;"),
    ("what one slept through counts against others", "alive.c", "slept < 2 * looks->pause ? slept : looks->pause", "slept"),
]
# What no test can tell from the program as it is.
SURVIVORS = [
    # Then the oldest goes sooner, and a node that it was calls again: it costs tries, as timing does.
    ("the young make room as well", "join.c", "m->now - oldest->since < YOUNG_MS * MS", "false"),
    # One more call in half a second where a kernel's queue is full: as the flood's luck has it.
    ("a full queue is waited for as long as a silent node", "join.c", "g->connecting ? CONNECT_MS : MR_STRANGER_MS", "MR_STRANGER_MS"),
    # Without nonces of 2^-256 chance nobody sees that proofs are compared in equal time.
    ("comparing ends at the first difference", "hmac.c", "    differs |= a[i] ^ b[i];\n  return differs == 0;", "    if (a[i] != b[i])\n      return false;\n  return differs == 0;"),
]


if __name__ == "__main__":
    sys.exit(mutants.main(SURVIVORS))
