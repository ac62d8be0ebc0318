/* crew.c: chunks handed out by claims.
 *
 * A ring of slots.  The chunk with ticket t lives in slot t mod slots.  Each
 * slot has one state word
 *
 *     FREE(t)      waits for the chunk with ticket t
 *     READY(t)     published, unclaimed
 *     TAKEN(t, w)  worker w works on it
 *
 * and goes FREE(t) -> READY(t) -> TAKEN(t, w) -> FREE(t + slots).  The ticket in
 * the word makes every value unique, so a compare-and-swap cannot succeed on a
 * later round of the ring.  Only this word says who owns a chunk: a worker that
 * dies between any two instructions owns it or does not, and a look over the
 * ring tells.  `next` is a hint which anybody helps forward; what a dead worker
 * had left to do there costs the next one a step.  models/crew.pml checks this.
 */
#include <maru/channel.h>

#include "shared.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#define SLOTS_MAX (UINT32_C(1) << 24)
#define WORD_VALUE (~MARU_WAIT_ARMED)

enum { FREE, READY, TAKEN };

#define WORKER_SHIFT 2
#define TICKET_SHIFT 18 /* 16 bits of worker; 2^46 tickets never wrap */

struct slot {
  alignas(MR_CACHE_LINE) _Atomic uint64_t state;
  /* Written while FREE, read while TAKEN; the state orders the two. */
  uint64_t first;
  uint32_t count;
};

struct worker {
  alignas(MR_CACHE_LINE) struct maru_worker_counters counters;
  /* The worker's own memory of its claim: ticket + 1, or 0.  Set only while the
   * slot is TAKEN, so it may be missing but is never wrong. */
  alignas(MR_CACHE_LINE) uint64_t held;
};

struct maru_crew {
  /* Fixed at creation. */
  uint32_t workers;
  uint32_t slots; /* a power of two */
  uint64_t size;

  /* Written by the coordinator. */
  alignas(MR_CACHE_LINE) _Atomic uint64_t published; /* tickets below are READY or later */
  _Atomic uint32_t closed;

  alignas(MR_CACHE_LINE) _Atomic uint32_t work; /* steps with publish and close */
  alignas(MR_CACHE_LINE) _Atomic uint32_t bell; /* steps with ring and done */
  alignas(MR_CACHE_LINE) _Atomic uint64_t next; /* tickets below are claimed */

  struct slot ring[]; /* then one struct worker each */
};

static uint64_t state_of(unsigned phase, uint64_t ticket, uint32_t worker) {
  return ticket << TICKET_SHIFT | (uint64_t)worker << WORKER_SHIFT | phase;
}

static struct slot *slot_of(struct maru_crew *crew, uint64_t ticket) {
  return &crew->ring[ticket & (crew->slots - 1)];
}

static struct worker *worker_of(struct maru_crew *crew, uint32_t worker) {
  return (struct worker *)&crew->ring[crew->slots] + worker;
}

/* Release: results written for this ticket come before its slot's reuse. */
static void free_slot(struct maru_crew *crew, uint64_t ticket) {
  atomic_store_explicit(&slot_of(crew, ticket)->state, state_of(FREE, ticket + crew->slots, 0),
                        memory_order_release);
}

int maru_crew_create(struct maru_crew **crew, uint32_t workers, uint32_t slots) {
  if (workers == 0 || workers > MARU_CREW_MAX_WORKERS || slots == 0 || slots > SLOTS_MAX)
    return -EINVAL;
  uint32_t rounded = 1;
  while (rounded < slots)
    rounded *= 2;
  uint64_t size = mr_page_round(sizeof **crew + (uint64_t)rounded * sizeof(struct slot) +
                                (uint64_t)workers * sizeof(struct worker));
  void *memory;
  int rc = mr_shared_map("maru-crew", size, &memory);
  if (rc < 0)
    return rc;
  struct maru_crew *made = memory;
  made->workers = workers;
  made->slots = rounded;
  made->size = size;
  for (uint32_t i = 0; i < rounded; i++)
    atomic_init(&made->ring[i].state, state_of(FREE, i, 0));
  *crew = made;
  return 0;
}

void maru_crew_destroy(struct maru_crew *crew) { munmap(crew, crew->size); }

/* ---- coordinator ------------------------------------------------------- */

int maru_crew_publish(struct maru_crew *crew, uint64_t first, uint32_t count) {
  /* Relaxed: the coordinator alone writes these two. */
  if (atomic_load_explicit(&crew->closed, memory_order_relaxed))
    return -EPIPE;
  uint64_t ticket = atomic_load_explicit(&crew->published, memory_order_relaxed);
  struct slot *slot = slot_of(crew, ticket);
  /* Acquire: the former owner is done with the slot. */
  if (atomic_load_explicit(&slot->state, memory_order_acquire) != state_of(FREE, ticket, 0))
    return -EAGAIN;
  slot->first = first;
  slot->count = count;
  /* Release: the claimant reads first and count. */
  atomic_store_explicit(&slot->state, state_of(READY, ticket, 0), memory_order_release);
  /* Release: whoever sees the number finds the slot READY or later. */
  atomic_store_explicit(&crew->published, ticket + 1, memory_order_release);
  maru_notify(&crew->work);
  return 0;
}

void maru_crew_close(struct maru_crew *crew) {
  /* Release: who sees the close sees the final `published`. */
  atomic_store_explicit(&crew->closed, 1, memory_order_release);
  maru_notify(&crew->work);
}

/* Acquire: whatever the state says happened is visible. */
static bool is_ready(struct maru_crew *crew, uint64_t ticket) {
  return atomic_load_explicit(&slot_of(crew, ticket)->state, memory_order_acquire) ==
         state_of(READY, ticket, 0);
}

uint32_t maru_crew_backlog(const struct maru_crew *crew) {
  struct maru_crew *c = (struct maru_crew *)crew; /* for slot_of; nothing is written */
  uint64_t end = atomic_load_explicit(&c->published, memory_order_acquire);
  /* Relaxed: a hint. */
  uint64_t first = atomic_load_explicit(&c->next, memory_order_relaxed);
  /* Tickets are claimed in order; the hint may lag behind. */
  while (first < end && !is_ready(c, first))
    first++;
  return first < end ? (uint32_t)(end - first) : 0;
}

/* The worker's TAKEN slot, or NULL. */
static struct slot *find_claim(struct maru_crew *crew, uint32_t worker, uint64_t *ticket) {
  for (uint32_t i = 0; i < crew->slots; i++) {
    /* Acquire: with the claim come the worker's records before it. */
    uint64_t state = atomic_load_explicit(&crew->ring[i].state, memory_order_acquire);
    *ticket = state >> TICKET_SHIFT;
    if (state == state_of(TAKEN, *ticket, worker))
      return &crew->ring[i];
  }
  return NULL;
}

int maru_crew_claim_of(struct maru_crew *crew, uint32_t worker, struct maru_chunk *chunk) {
  uint64_t ticket;
  struct slot *slot = find_claim(crew, worker, &ticket);
  if (slot == NULL)
    return 0;
  *chunk = (struct maru_chunk){.ticket = ticket, .first = slot->first, .count = slot->count};
  return 1;
}

void maru_crew_forfeit(struct maru_crew *crew, uint32_t worker) {
  uint64_t ticket;
  if (worker >= crew->workers)
    return;
  worker_of(crew, worker)->held = 0;
  if (find_claim(crew, worker, &ticket) != NULL)
    free_slot(crew, ticket);
}

uint32_t maru_crew_bell(const struct maru_crew *crew) {
  /* Acquire: what was done before the ring is visible. */
  return atomic_load_explicit(&crew->bell, memory_order_acquire) & WORD_VALUE;
}

void maru_crew_ring(struct maru_crew *crew) { maru_notify(&crew->bell); }

int maru_crew_await(struct maru_crew *crew, uint32_t seen, struct maru_wait_policy *policy,
                    int64_t deadline_ns) {
  return maru_wait_while(&crew->bell, seen, WORD_VALUE, policy, deadline_ns);
}

/* ---- worker ------------------------------------------------------------ */

/* Tickets below `ticket` + 1 are claimed; say so unless somebody has. */
static void help_next(struct maru_crew *crew, uint64_t ticket) {
  /* Relaxed: a hint; the slots' states carry the order. */
  atomic_compare_exchange_strong_explicit(&crew->next, &ticket, ticket + 1, memory_order_relaxed,
                                          memory_order_relaxed);
}

/* Takes the first READY chunk, if there is one. */
static bool take(struct maru_crew *crew, uint32_t worker, struct maru_chunk *chunk) {
  /* Acquire: tickets below are READY or later. */
  uint64_t end = atomic_load_explicit(&crew->published, memory_order_acquire);
  uint64_t ticket = atomic_load_explicit(&crew->next, memory_order_relaxed);
  for (; ticket < end; ticket++) {
    struct slot *slot = slot_of(crew, ticket);
    uint64_t ready = state_of(READY, ticket, 0);
    /* Acquire: first and count.  Release: our records of an earlier chunk come
     * before this claim, for whoever finds it after our death. */
    bool mine = atomic_compare_exchange_strong_explicit(&slot->state, &ready,
                                                        state_of(TAKEN, ticket, worker),
                                                        memory_order_acq_rel, memory_order_relaxed);
    help_next(crew, ticket);
    if (mine) {
      worker_of(crew, worker)->held = ticket + 1;
      *chunk = (struct maru_chunk){.ticket = ticket, .first = slot->first, .count = slot->count};
      return true;
    }
  }
  return false;
}

int maru_crew_claim(struct maru_crew *crew, uint32_t worker, struct maru_chunk *chunk,
                    struct maru_wait_policy *policy, int64_t deadline_ns) {
  if (worker >= crew->workers)
    return -EINVAL;
  if (worker_of(crew, worker)->held != 0)
    return -EBUSY;
  for (;;) {
    /* Acquire, both: the last look at the ring must come after them, so that
     * neither a chunk nor the close can slip between the look and the wait. */
    uint32_t seen = atomic_load_explicit(&crew->work, memory_order_acquire) & WORD_VALUE;
    bool closed = atomic_load_explicit(&crew->closed, memory_order_acquire);
    if (take(crew, worker, chunk))
      return 1;
    if (closed)
      return 0;
    int rc = maru_wait_while(&crew->work, seen, WORD_VALUE, policy, deadline_ns);
    if (rc < 0)
      return rc;
  }
}

void maru_crew_done(struct maru_crew *crew, uint32_t worker) {
  struct worker *self = worker_of(crew, worker);
  if (self->held == 0)
    return;
  uint64_t ticket = self->held - 1;
  self->held = 0; /* first: see struct worker */
  free_slot(crew, ticket);
  maru_crew_ring(crew);
}

struct maru_worker_counters *maru_crew_counters(struct maru_crew *crew, uint32_t worker) {
  return worker < crew->workers ? &worker_of(crew, worker)->counters : NULL;
}
