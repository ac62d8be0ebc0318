/* crew.c: chunks handed out by claims.
 *
 * A ring of slots.  The chunk with ticket t lives in slot t mod slots.  Each
 * slot has one state word
 *
 *     FREE(t)      waits for the chunk with ticket t
 *     READY(t)     published, unclaimed
 *     TAKEN(t, w)  worker w works on it
 *
 * and goes FREE(t) -> READY(t) -> TAKEN(t, w) -> FREE(t + slots).  The round in
 * the word (the first ticket of it) makes every value unique, so a compare-and-swap cannot
 * succeed on a later round of the ring. FREE in the first round is 0: a new ring is fresh
 * pages, and those that no chunk comes to cost nothing. Only this word says who owns a chunk. A
 * worker that dies between any two instructions owns it or does not, and a look over the ring
 * tells. `next` is a hint which anybody helps forward; what a dead worker had left to do there
 * costs the next one a step. models/crew.pml checks this.
 *
 * What is shared holds neither bounds nor pointers: those are in each process's handle,
 * which fork copies, with what the coordinator has offered.  A worker's stray write can
 * keep chunks from being done, not lead the coordinator astray: an impossible state is
 * -EBADMSG.
 *
 * Waiting.  The coordinator waits on one word, all workers on another, both in the crew.
 * In a seated crew (maru_crew_seat) each of them has a channel on the board instead. The
 * coordinator then has many words to ring, and does so only if somebody sits. A worker marks `work`
 * by SITTING after it has looked at its own word and before it waits on that. The coordinator steps
 * `work`, and where it finds the mark, takes it away and then rings all
 * seats. A worker that marks later finds the step and looks at the ring again. One whose mark is
 * taken away is rung, for its look at the word came before. models/seats.pml checks this.
 */
#define _GNU_SOURCE
#include <maru/channel.h>

#include "shared.h"

#include <errno.h>
#include <maru/board.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS_MAX (UINT32_C(1) << 24)
#define WORD_VALUE (~MARU_WAIT_ARMED)
#define SITTING MARU_WAIT_ARMED /* in `work` of a seated crew, on which nobody waits */

enum { FREE, READY, TAKEN };

#define WORKER_SHIFT 2
#define ROUND_SHIFT 18 /* 16 bits of worker; 2^46 tickets never wrap */

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

struct shared {
  /* Written by the coordinator. */
  alignas(MR_CACHE_LINE) _Atomic uint64_t published; /* tickets below are READY or later */
  _Atomic uint32_t closed;

  alignas(MR_CACHE_LINE) _Atomic uint32_t work; /* steps with publish and close */
  alignas(MR_CACHE_LINE) _Atomic uint32_t bell; /* steps with ring and done */
  alignas(MR_CACHE_LINE) _Atomic uint64_t next; /* tickets below are claimed */

  struct slot ring[]; /* then one struct worker each */
};

/* Consecutive indices that were published. */
struct offer {
  uint64_t first;
  uint32_t count;
};

/* A process's own. */
struct maru_crew {
  /* Fixed at creation. */
  struct shared *shared;
  uint32_t workers;
  uint32_t slots; /* a power of two */
  uint64_t size;  /* of what is shared */

  /* Fixed by maru_crew_seat. */
  int32_t seated;                                  /* the process that did it; 0: nobody has */
  struct maru_channel *own;                        /* the coordinator's channel */
  struct maru_channel *seats[MARU_CREW_MAX_SEATS]; /* the workers' */

  /* The coordinator's. */
  uint64_t tickets;       /* that were given */
  struct offer offered[]; /* of each slot, the last */
};

/* The first ticket of the round that the ticket belongs to. */
static uint64_t round_of(const struct maru_crew *crew, uint64_t ticket) {
  return ticket & ~(uint64_t)(crew->slots - 1);
}

static uint64_t state_of(const struct maru_crew *crew, unsigned phase, uint64_t ticket,
                         uint32_t worker) {
  return round_of(crew, ticket) << ROUND_SHIFT | (uint64_t)worker << WORKER_SHIFT | phase;
}

static struct slot *slot_of(struct maru_crew *crew, uint64_t ticket) {
  return &crew->shared->ring[ticket & (crew->slots - 1)];
}

static struct worker *worker_of(struct maru_crew *crew, uint32_t worker) {
  return (struct worker *)&crew->shared->ring[crew->slots] + worker;
}

/* Release: results written for this ticket come before its slot's reuse. */
static void free_slot(struct maru_crew *crew, uint64_t ticket) {
  atomic_store_explicit(&slot_of(crew, ticket)->state,
                        state_of(crew, FREE, ticket + crew->slots, 0), memory_order_release);
}

static size_t handle_bytes(uint32_t slots) {
  return sizeof(struct maru_crew) + slots * sizeof(struct offer);
}

int maru_crew_create(struct maru_crew **crew, uint32_t workers, uint32_t slots) {
  if (workers == 0 || workers > MARU_CREW_MAX_WORKERS || slots == 0 || slots > SLOTS_MAX)
    return -EINVAL;
  uint32_t rounded = 1;
  while (rounded < slots)
    rounded *= 2;
  /* Pages of its own, of which a short run touches one: calloc may clear them all. */
  struct maru_crew *made = mmap(NULL, handle_bytes(rounded), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED)
    return -errno;
  made->workers = workers;
  made->slots = rounded;
  made->size = mr_page_round(sizeof(struct shared) + (uint64_t)rounded * sizeof(struct slot) +
                             (uint64_t)workers * sizeof(struct worker));
  void *memory;
  int rc = mr_shared_map("maru-crew", made->size, &memory);
  if (rc < 0) {
    munmap(made, handle_bytes(rounded));
    return rc;
  }
  made->shared = memory;
  *crew = made;
  return 0;
}

/* ---- seats ------------------------------------------------------------- */

/* NULL: the crew is not seated. */
static struct maru_channel *seat_of(struct maru_crew *crew, uint32_t worker) {
  return crew->seated ? crew->seats[worker] : NULL;
}

int maru_crew_seat(struct maru_crew *crew, struct maru_board *board, uint32_t job) {
  if (crew->seated)
    return -EALREADY;
  if (crew->workers > MARU_CREW_MAX_SEATS)
    return -E2BIG;
  int rc =
      maru_channel_register(board, job, MARU_CHANNEL_RESULTS | MARU_CHANNEL_WORKING, &crew->own);
  if (rc < 0)
    return rc;
  rc = maru_channels_register(board, job, MARU_CHANNEL_WORK | MARU_CHANNEL_WORKING, crew->seats,
                              crew->workers);
  if (rc < 0) {
    maru_channel_release(crew->own);
    return rc;
  }
  crew->seated = getpid();
  return 0;
}

/* The threads of this side may take turns: attached is who waits now. */
static int sit(struct maru_channel *seat, uint32_t seen, struct maru_wait_policy *policy,
               int64_t deadline_ns) {
  /* Relaxed: our own side wrote it. */
  bool ours =
      policy->channel == seat && atomic_load_explicit(&seat->tid, memory_order_relaxed) == gettid();
  if (!ours)
    (void)maru_channel_attach(seat, policy); /* unattached it waits as for any word */
  return maru_wait_while(&seat->word, seen, WORD_VALUE, policy, deadline_ns);
}

void maru_crew_destroy(struct maru_crew *crew) {
  /* A process that was forked meanwhile has inherited the crew, not the lines. */
  if (crew->seated == getpid()) {
    for (uint32_t i = 0; i < crew->workers; i++)
      maru_channel_release(seat_of(crew, i));
    maru_channel_release(crew->own);
  }
  munmap(crew->shared, crew->size);
  munmap(crew, handle_bytes(crew->slots));
}

/* ---- coordinator ------------------------------------------------------- */

/* Release, all: a worker that sees a step sees what was published. */
static void announce(struct maru_crew *crew) {
  if (!crew->seated) {
    maru_notify(&crew->shared->work);
    return;
  }
  if (!(atomic_fetch_add_explicit(&crew->shared->work, MARU_WAIT_STEP, memory_order_release) &
        SITTING))
    return;
  /* Acquire: the worker that left the mark had looked at its own word before we ring it. */
  atomic_fetch_and_explicit(&crew->shared->work, WORD_VALUE, memory_order_acq_rel);
  for (uint32_t i = 0; i < crew->workers; i++)
    maru_notify(&seat_of(crew, i)->word);
}

/* The chunk that had the slot before is READY or TAKEN. */
static bool may_become_free(const struct maru_crew *crew, uint64_t state, uint64_t ticket) {
  uint64_t phase = state & ((UINT64_C(1) << WORKER_SHIFT) - 1);
  return (phase == READY || phase == TAKEN) &&
         state >> ROUND_SHIFT == round_of(crew, ticket - crew->slots);
}

int maru_crew_publish(struct maru_crew *crew, uint64_t first, uint32_t count) {
  /* Relaxed: the coordinator alone writes it. */
  if (atomic_load_explicit(&crew->shared->closed, memory_order_relaxed))
    return -EPIPE;
  uint64_t ticket = crew->tickets;
  struct slot *slot = slot_of(crew, ticket);
  /* Acquire: the former owner is done with the slot. */
  uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
  if (state != state_of(crew, FREE, ticket, 0))
    return may_become_free(crew, state, ticket) ? -EAGAIN : -EBADMSG;
  crew->offered[ticket & (crew->slots - 1)] = (struct offer){first, count};
  crew->tickets = ticket + 1;
  slot->first = first;
  slot->count = count;
  /* Release: the claimant reads first and count. */
  atomic_store_explicit(&slot->state, state_of(crew, READY, ticket, 0), memory_order_release);
  /* Release: a worker that sees the number finds the slot READY or later. */
  atomic_store_explicit(&crew->shared->published, ticket + 1, memory_order_release);
  announce(crew);
  return 0;
}

void maru_crew_close(struct maru_crew *crew) {
  /* Release: a worker that sees the close sees the final `published`. */
  atomic_store_explicit(&crew->shared->closed, 1, memory_order_release);
  announce(crew);
}

/* Acquire: whatever the state says happened is visible. */
static bool is_ready(struct maru_crew *crew, uint64_t ticket) {
  return atomic_load_explicit(&slot_of(crew, ticket)->state, memory_order_acquire) ==
         state_of(crew, READY, ticket, 0);
}

/* What the hint says, but no more than a ring before `end`: the rest is claimed. */
static uint64_t first_to_look_at(const struct maru_crew *crew, uint64_t end) {
  uint64_t least = end > crew->slots ? end - crew->slots : 0;
  /* Relaxed: a hint. */
  uint64_t next = atomic_load_explicit(&crew->shared->next, memory_order_relaxed);
  return next < least || next > end ? least : next;
}

uint32_t maru_crew_backlog(const struct maru_crew *crew) {
  struct maru_crew *c = (struct maru_crew *)crew; /* for slot_of; nothing is written */
  uint64_t end = crew->tickets, first = first_to_look_at(crew, end);
  /* Tickets are claimed in order; the hint may lag behind. */
  while (first < end && !is_ready(c, first))
    first++;
  return first < end ? (uint32_t)(end - first) : 0;
}

/* The ticket of the worker's TAKEN slot, if it has one. */
static bool find_claim(struct maru_crew *crew, uint32_t worker, uint64_t *ticket) {
  for (uint32_t i = 0; i < crew->slots && i < crew->tickets; i++) {
    /* Acquire: with the claim come the worker's records before it. */
    uint64_t state = atomic_load_explicit(&crew->shared->ring[i].state, memory_order_acquire);
    *ticket = round_of(crew, state >> ROUND_SHIFT) | i;
    if (state == state_of(crew, TAKEN, *ticket, worker) && *ticket < crew->tickets)
      return true;
  }
  return false;
}

int maru_crew_claim_of(struct maru_crew *crew, uint32_t worker, struct maru_chunk *chunk) {
  uint64_t ticket;
  if (!find_claim(crew, worker, &ticket))
    return 0;
  /* As it was offered: what the slot says may have been overwritten. */
  const struct offer *offer = &crew->offered[ticket & (crew->slots - 1)];
  *chunk = (struct maru_chunk){.ticket = ticket, .first = offer->first, .count = offer->count};
  return 1;
}

void maru_crew_forfeit(struct maru_crew *crew, uint32_t worker) {
  uint64_t ticket;
  if (worker >= crew->workers)
    return;
  worker_of(crew, worker)->held = 0;
  if (crew->seated)
    maru_channel_vacate(seat_of(crew, worker));
  if (find_claim(crew, worker, &ticket))
    free_slot(crew, ticket);
}

static _Atomic uint32_t *bell_of(const struct maru_crew *crew) {
  struct maru_crew *c = (struct maru_crew *)crew; /* the word alone is written */
  return c->seated ? &c->own->word : &c->shared->bell;
}

uint32_t maru_crew_bell(const struct maru_crew *crew) {
  /* Acquire: what was done before the ring is visible. */
  return atomic_load_explicit(bell_of(crew), memory_order_acquire) & WORD_VALUE;
}

void maru_crew_ring(struct maru_crew *crew) { maru_notify(bell_of(crew)); }

int maru_crew_await(struct maru_crew *crew, uint32_t seen, struct maru_wait_policy *policy,
                    int64_t deadline_ns) {
  if (crew->seated)
    return sit(crew->own, seen, policy, deadline_ns);
  return maru_wait_while(&crew->shared->bell, seen, WORD_VALUE, policy, deadline_ns);
}

/* ---- worker ------------------------------------------------------------ */

/* Tickets below `ticket` + 1 are claimed; say so unless somebody has. */
static void help_next(struct maru_crew *crew, uint64_t ticket) {
  /* Relaxed: a hint; the slots' states carry the order. */
  atomic_compare_exchange_strong_explicit(&crew->shared->next, &ticket, ticket + 1,
                                          memory_order_relaxed, memory_order_relaxed);
}

/* Takes the first READY chunk, if there is one. */
static bool crew_take(struct maru_crew *crew, uint32_t worker, struct maru_chunk *chunk) {
  /* Acquire: tickets below are READY or later. */
  uint64_t end = atomic_load_explicit(&crew->shared->published, memory_order_acquire);
  for (uint64_t ticket = first_to_look_at(crew, end); ticket < end; ticket++) {
    struct slot *slot = slot_of(crew, ticket);
    uint64_t ready = state_of(crew, READY, ticket, 0);
    /* Acquire: first and count.  Release: our records of an earlier chunk come
     * before this claim, for whoever finds it after our death. */
    bool mine = atomic_compare_exchange_strong_explicit(&slot->state, &ready,
                                                        state_of(crew, TAKEN, ticket, worker),
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

/* What was there before the last look at the ring. */
struct look {
  uint32_t rung; /* the worker's own word */
  uint32_t work;
  bool closed;
};

/* Acquire, all: the look at the ring comes after them, so that neither a chunk nor the
 * close can slip between it and the wait. */
static struct look look_around(struct maru_crew *crew, const struct maru_channel *seat) {
  struct look look = {.rung = 0};
  if (seat != NULL)
    look.rung = atomic_load_explicit(&seat->word, memory_order_acquire) & WORD_VALUE;
  look.work = atomic_load_explicit(&crew->shared->work, memory_order_acquire) & WORD_VALUE;
  look.closed = atomic_load_explicit(&crew->shared->closed, memory_order_acquire);
  return look;
}

/* 0: look at the ring again. */
static int await_work(struct maru_crew *crew, struct maru_channel *seat, const struct look *look,
                      struct maru_wait_policy *policy, int64_t deadline_ns) {
  if (seat == NULL)
    return maru_wait_while(&crew->shared->work, look->work, WORD_VALUE, policy, deadline_ns);
  if (deadline_ns <= 0) /* a try */
    return -ETIMEDOUT;
  /* Release: the look at our own word comes before whoever finds the mark rings it.
   * Acquire: a step that we did not know comes with its chunk. */
  uint32_t work = atomic_fetch_or_explicit(&crew->shared->work, SITTING, memory_order_acq_rel);
  return (work & WORD_VALUE) == look->work ? sit(seat, look->rung, policy, deadline_ns) : 0;
}

int maru_crew_claim(struct maru_crew *crew, uint32_t worker, struct maru_chunk *chunk,
                    struct maru_wait_policy *policy, int64_t deadline_ns) {
  if (worker >= crew->workers)
    return -EINVAL;
  if (worker_of(crew, worker)->held != 0)
    return -EBUSY;
  struct maru_channel *seat = seat_of(crew, worker);
  for (;;) {
    struct look look = look_around(crew, seat);
    if (crew_take(crew, worker, chunk))
      return 1;
    if (look.closed)
      return 0;
    int rc = await_work(crew, seat, &look, policy, deadline_ns);
    if (rc < 0)
      return rc;
  }
}

/* Of what is published little is unclaimed: two chunks a worker.  `next` lags behind by no more
 * than one chunk a worker, so at one chunk a worker this is true. */
static bool runs_low(const struct maru_crew *crew) {
  /* Relaxed, both: what they count was claimed before the chunk that is done now.  Or a worker
   * claims it at this moment, who comes here later. */
  uint64_t published = atomic_load_explicit(&crew->shared->published, memory_order_relaxed);
  uint64_t next = atomic_load_explicit(&crew->shared->next, memory_order_relaxed);
  return published <= next + 2 * (uint64_t)crew->workers;
}

void maru_crew_done(struct maru_crew *crew, uint32_t worker) {
  struct worker *self = worker_of(crew, worker);
  if (self->held == 0)
    return;
  uint64_t ticket = self->held - 1;
  self->held = 0; /* first: see struct worker */
  free_slot(crew, ticket);
  if (runs_low(crew))
    maru_crew_ring(crew);
}

struct maru_worker_counters *maru_crew_counters(struct maru_crew *crew, uint32_t worker) {
  return worker < crew->workers ? &worker_of(crew, worker)->counters : NULL;
}
