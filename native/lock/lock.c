/* lock.c: one type for all algorithms; those of a few lines are here. */
#include "kinds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- pthread ------------------------------------------------------------ */

static int pthread_create_lock(struct maru_lock *lock, const struct maru_lock_options *options) {
  (void)options;
  return -pthread_mutex_init(&lock->mutex, NULL);
}

static void pthread_destroy(struct maru_lock *lock) { pthread_mutex_destroy(&lock->mutex); }

static int pthread_acquire(struct maru_lock *lock, struct maru_hold *hold,
                           const struct mr_deadline *deadline) {
  (void)hold;
  return mr_mutex_acquire(&lock->mutex, deadline);
}

static int pthread_try(struct maru_lock *lock, struct maru_hold *hold) {
  (void)hold;
  return -pthread_mutex_trylock(&lock->mutex);
}

static void pthread_release(struct maru_lock *lock, struct maru_hold *hold) {
  (void)hold;
  pthread_mutex_unlock(&lock->mutex);
}

static const struct mr_lock_kind pthread_kind = {.name = "pthread",
                                                 .hold_moves = true,
                                                 .create = pthread_create_lock,
                                                 .destroy = pthread_destroy,
                                                 .acquire = pthread_acquire,
                                                 .try = pthread_try,
                                                 .release = pthread_release};

/* ---- ttas --------------------------------------------------------------- */

static int ttas_create(struct maru_lock *lock, const struct maru_lock_options *options) {
  (void)options;
  atomic_init(&lock->word, 0);
  return 0;
}

static int ttas_acquire(struct maru_lock *lock, struct maru_hold *hold,
                        const struct mr_deadline *deadline) {
  (void)hold;
  return mr_word_acquire(&lock->word, &lock->waiting, deadline);
}

static int ttas_try(struct maru_lock *lock, struct maru_hold *hold) {
  (void)hold;
  return mr_word_try(&lock->word) ? 0 : -EBUSY;
}

static void ttas_release(struct maru_lock *lock, struct maru_hold *hold) {
  (void)hold;
  mr_word_release(&lock->word);
}

static const struct mr_lock_kind ttas_kind = {.name = "ttas",
                                              .hold_moves = true,
                                              .create = ttas_create,
                                              .acquire = ttas_acquire,
                                              .try = ttas_try,
                                              .release = ttas_release};

/* ---- ticket ------------------------------------------------------------- */

#define NUMBER (~MARU_WAIT_ARMED)

static uint32_t slot_of(uint32_t number) { return number / MARU_WAIT_STEP % MR_TURN_SLOTS; }

static int ticket_create(struct maru_lock *lock, const struct maru_lock_options *options) {
  (void)options;
  atomic_init(&lock->ticket.next, 0);
  atomic_init(&lock->ticket.serving, 0);
  return 0;
}

/* True: it was free and is ours; else *serving is the holder's number. */
static bool ticket_take(struct maru_lock *lock, uint32_t *serving) {
  /* Acquire: what the last holder did is visible. */
  *serving = atomic_load_explicit(&lock->ticket.serving, memory_order_acquire) & NUMBER;
  uint32_t next = *serving;
  /* Relaxed: nothing is published by taking a number; it is `serving` that orders. */
  return atomic_compare_exchange_strong_explicit(&lock->ticket.next, &next, next + MARU_WAIT_STEP,
                                                 memory_order_relaxed, memory_order_relaxed);
}

static int ticket_try(struct maru_lock *lock, struct maru_hold *hold) {
  uint32_t serving;
  hold->turn.counted = 0;
  return ticket_take(lock, &serving) ? 0 : -EBUSY;
}

/* A number cannot be given back, so who may give up takes none before its turn. */
static int ticket_acquire_until(struct maru_lock *lock, const struct mr_deadline *deadline) {
  uint32_t serving;
  int rc = 0;
  while (rc == 0 && !ticket_take(lock, &serving))
    rc = mr_waiting_while(&lock->waiting, &lock->ticket.serving, serving, NUMBER, deadline);
  return rc;
}

/* In the slot of its own number, which the one before it knows. */
static int ticket_wait(struct maru_lock *lock, struct maru_hold *hold, uint32_t mine) {
  _Atomic uint32_t *serving = &lock->ticket.serving;
  /* Acquire: what the last holder did is visible. */
  if ((atomic_load_explicit(serving, memory_order_acquire) & NUMBER) == mine)
    return 0;
  mr_turn_begin(&lock->turns, &hold->turn);
  hold->turn.slot = slot_of(mine);
  return mr_waiting_turn(&lock->waiting, &lock->turns, &hold->turn, serving, mine, NUMBER,
                         &mr_forever);
}

static int ticket_acquire(struct maru_lock *lock, struct maru_hold *hold,
                          const struct mr_deadline *deadline) {
  hold->turn.counted = 0;
  if (deadline->ns != MARU_WAIT_FOREVER)
    return ticket_acquire_until(lock, deadline);
  uint32_t mine =
      atomic_fetch_add_explicit(&lock->ticket.next, MARU_WAIT_STEP, memory_order_relaxed);
  if (mr_waits_by_turns(&lock->waiting, &lock->turns))
    return ticket_wait(lock, hold, mine);
  return mr_waiting_for(&lock->waiting, &lock->ticket.serving, mine, NUMBER, deadline);
}

static void ticket_release(struct maru_lock *lock, struct maru_hold *hold) {
  /* Relaxed: the holder alone changes the number. */
  uint32_t mine = atomic_load_explicit(&lock->ticket.serving, memory_order_relaxed) & NUMBER;
  uint32_t next = mine + MARU_WAIT_STEP;
  maru_notify_store(&lock->ticket.serving, next);
  if (!mr_waits_by_turns(&lock->waiting, &lock->turns))
    return;
  mr_turn_call(&lock->turns, slot_of(next));
  mr_waiting_end(&lock->waiting, &lock->turns, &hold->turn);
}

static const struct mr_lock_kind ticket_kind = {.name = "ticket",
                                                .hold_moves = true,
                                                .create = ticket_create,
                                                .acquire = ticket_acquire,
                                                .try = ticket_try,
                                                .release = ticket_release};

/* ---- mcs, cna, malthusian ----------------------------------------------------------- */

static int mcs_create(struct maru_lock *lock, const struct maru_lock_options *options) {
  mr_queue_init(&lock->queue, MR_IN_TURN, &lock->waiting, &lock->turns, NULL, options);
  return 0;
}

static int cna_create(struct maru_lock *lock, const struct maru_lock_options *options) {
  mr_queue_init(&lock->queue, MR_NEAR, &lock->waiting, &lock->turns, &lock->place, options);
  return 0;
}

static int malthusian_create(struct maru_lock *lock, const struct maru_lock_options *options) {
  mr_queue_init(&lock->queue, MR_FEW, &lock->waiting, &lock->turns, NULL, options);
  return 0;
}

static int queue_acquire(struct maru_lock *lock, struct maru_hold *hold,
                         const struct mr_deadline *deadline) {
  return mr_queue_acquire(&lock->queue, hold, deadline);
}

static int queue_try(struct maru_lock *lock, struct maru_hold *hold) {
  return mr_queue_try(&lock->queue, hold) ? 0 : -EBUSY;
}

static void queue_release(struct maru_lock *lock, struct maru_hold *hold) {
  mr_queue_release(&lock->queue, hold);
}

static const struct mr_lock_kind mcs_kind = {.name = "mcs",
                                             .create = mcs_create,
                                             .acquire = queue_acquire,
                                             .try = queue_try,
                                             .release = queue_release};

static const struct mr_lock_kind cna_kind = {.name = "cna",
                                             .needs_place = true,
                                             .create = cna_create,
                                             .acquire = queue_acquire,
                                             .try = queue_try,
                                             .release = queue_release};

static const struct mr_lock_kind malthusian_kind = {.name = "malthusian",
                                                    .create = malthusian_create,
                                                    .acquire = queue_acquire,
                                                    .try = queue_try,
                                                    .release = queue_release};

/* ---- all ---------------------------------------------------------------- */

static const struct mr_lock_kind *const kinds[MARU_LOCK_KINDS] = {
    [MARU_LOCK_PTHREAD] = &pthread_kind, [MARU_LOCK_TTAS] = &ttas_kind,
    [MARU_LOCK_TICKET] = &ticket_kind,   [MARU_LOCK_MCS] = &mcs_kind,
    [MARU_LOCK_CLH] = &mr_clh,           [MARU_LOCK_CNA] = &cna_kind,
    [MARU_LOCK_QSPIN] = &mr_qspin,       [MARU_LOCK_MALTHUSIAN] = &malthusian_kind,
    [MARU_LOCK_SHFL] = &mr_shfl,         [MARU_LOCK_FISSILE] = &mr_fissile,
    [MARU_LOCK_C_BO_MCS] = &mr_c_bo_mcs, [MARU_LOCK_HMCS] = &mr_hmcs,
};

const char *maru_lock_kind_name(enum maru_lock_kind kind) {
  return (unsigned)kind < MARU_LOCK_KINDS ? kinds[kind]->name : NULL;
}

int maru_lock_kind_of(const char *name) {
  for (int kind = 0; kind < MARU_LOCK_KINDS; kind++)
    if (strcmp(name, kinds[kind]->name) == 0)
      return kind;
  return -EINVAL;
}

int maru_lock_create(struct maru_lock **lock, const struct maru_lock_options *options) {
  int rc = mr_options_check(options);
  if (rc < 0)
    return rc;
  struct maru_lock *made = aligned_alloc(alignof(struct maru_lock), sizeof *made);
  if (made == NULL)
    return -ENOMEM;
  *made = (struct maru_lock){.kind = kinds[options->kind]};
  rc = mr_waiting_init(&made->waiting, options->wait, options->spin_ns);
  if (rc == 0 && made->kind->needs_place)
    rc = mr_place_read(&made->place);
  if (rc == 0)
    rc = made->kind->create(made, options);
  if (rc < 0) {
    mr_place_free(&made->place);
    free(made);
    return rc;
  }
  *lock = made;
  return 0;
}

void maru_lock_destroy(struct maru_lock *lock) {
  if (lock->kind->destroy != NULL)
    lock->kind->destroy(lock);
  mr_place_free(&lock->place);
  free(lock);
}

int maru_lock_acquire(struct maru_lock *lock, struct maru_hold *hold) {
  return lock->kind->acquire(lock, hold, &mr_forever);
}

int maru_lock_try(struct maru_lock *lock, struct maru_hold *hold) {
  return lock->kind->try(lock, hold);
}

int maru_lock_acquire_until(struct maru_lock *lock, struct maru_hold *hold, clockid_t clock,
                            const struct timespec *deadline) {
  struct mr_deadline until;
  int rc = mr_deadline_read(&until, clock, deadline);
  return rc < 0 ? rc : lock->kind->acquire(lock, hold, &until);
}

void maru_lock_release(struct maru_lock *lock, struct maru_hold *hold) {
  lock->kind->release(lock, hold);
}

void maru_lock_counts(const struct maru_lock *lock, struct maru_lock_counts *counts) {
  *counts = lock->kind == &cna_kind ? lock->queue.counts : (struct maru_lock_counts){0};
}
