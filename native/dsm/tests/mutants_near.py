#!/usr/bin/env python3
"""Seeded faults in how nodes of one host share memory: each must be caught.

usage: mutants_near.py [WORD]      as mutants.py, by whose means it works

What takes two exchanges at one instant to show is planted in models/dsm-shown.pml and dsm-room.pml.
"""

import sys

import mutants

mutants.SOURCES = ["shown.c", "ring.c", "near.c", "host.c", "theirs.c", "transport.c", "join.c", "handshake.c", "hmac.c", "alive.c", "address.c", "buffer.c", "link.c", "fabric_open.c"]
mutants.TESTS = {"near_deaths": "48"}
mutants.OWN = {}
# A mutant that hangs is seen by this; the test takes a second.
mutants.SECONDS = 20
mutants.HELPERS = []
mutants.FLAGS.append(f"-I{mutants.HERE.parent.parent}/base")

mutants.MUTANTS = [
    ("an end is taken for a refusal", "near.c", "    answer->ended = n <= 0;", "    answer->came += n <= 0 ? sizeof answer->word : 0;"),
    ("nobody looks whose memory it is", "near.c", "card->token, TOKEN) == 0 ? 0 : -ESRCH", "card->token, TOKEN) == 0 ? 0 : 0"),
    ("who has ended is refused", "transport.c", " || mr_near_ended(t->near, node))", ")"),
    ("there is no second look", "shown.c", "return atomic_load_explicit(&shown->word, memory_order_relaxed) == word ? 0 : -EAGAIN;", "return 0;"),
    ("a page is shown while it changes", "shown.c", "  word = atomic_exchange_explicit(&shown->word, after(word, MR_HIDDEN), memory_order_acq_rel);\n", ""),
    ("a dead home's page counts", "near.c", "return rc == 0 && atomic_load_explicit(&n->segment->fenced, memory_order_acquire) != 0 ? -ESTALE", "return false ? -ESTALE"),
    ("nobody fences", "near.c", "    atomic_store(&n->segment->fenced, 1);", "    ;"),
    ("nobody rings", "near.c", "  if (write(n->bell, \"\", 1) != 1)", "  if (false)"),
    ("a sleeper does not say so", "near.c", "    atomic_store_explicit(&near->own->asleep, ++near->sleeps, memory_order_relaxed);", "    ;"),
    ("a node rings once for all sleeps", "near.c", "sleep == n->rang)", "n->rang != 0)"),
    ("a sleeper does not look once more", "near.c", "  if (!mr_near_glance(near))\n    return 0;", "  return 0;"),
    ("nobody tells of room", "near.c", "    wake(&near->neighbours[from]);", "    ;"),
    ("what finds no room is lost", "transport.c", "mr_buffer_append(&link->out, (const uint8_t *)frame[i].iov_base + part,\n                         frame[i].iov_len - part) < 0", "false"),
    ("a ring's end is not its beginning", "ring.c", "  memcpy(ring->bytes, (const uint8_t *)bytes + first, size - first);\n", ""),
]


if __name__ == "__main__":
    sys.exit(mutants.main([]))
