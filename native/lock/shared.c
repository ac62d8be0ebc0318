/* shared.c: a lock between processes that survives a holder that dies with it.
 *
 * A robust mutex of libc says which thread holds it; the kernel hands it on when a holder
 * dies.  The seats say which waiter is woken next: a waiter takes one, writes when and
 * where it came, raises its flag and sleeps on the seat's word; a releaser picks one of the
 * flags, unlocks, and wakes that one, which then takes the mutex.
 *
 * So the seats decide about order only, and a mistake there never lets two in.  Nor does it
 * keep anybody out: a waiter asks the mutex itself every LOOK_NS.  That is what happens after a
 * waiter died that was meant to be next, and after a holder died before it woke somebody.
 *
 * No lost wake-up: a waiter raises its flag, then tries the mutex; a releaser unlocks, then
 * looks for flags again, also whether the one that it meant still waits.  Either it sees the flag,
 * or the waiter finds the mutex free.  Who gives up after that look calls another itself. */
#define _GNU_SOURCE /* gettid */
#include "chance.h"
#include "kinds.h"
#include "task.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define SEATS MARU_SHARED_LOCK_SEATS
#ifndef LOOK_NS /* the explorer tries others */
#define LOOK_NS 100000000
#endif
#define NOBODY (-1)

static const uint64_t magic = 0x6d6172756c6b0001; /* "marulk", version 1 */

_Static_assert(SEATS == 64, "a flag for each in one word");

/* When and where the waiter in a seat came. */
struct ticket {
  _Atomic uint32_t number; /* wraps */
  _Atomic int32_t socket;
  _Atomic int64_t since_ns;
};

struct segment {
  /* Fixed, but for `ready`. */
  _Atomic uint64_t ready; /* `magic` */
  int32_t kind, wait;
  uint32_t spin_ns, handoff_range;
  uint64_t deadline_ns;

  alignas(64) pthread_mutex_t mutex;

  alignas(64) _Atomic uint64_t flags; /* seats whose waiters may be woken */
  _Atomic uint32_t arrivals;

  /* The holder's. */
  alignas(64) uint64_t random;
  int32_t meant; /* the seat that was woken last, or NOBODY */
  uint32_t meant_number;
  int64_t meant_since_ns;
  struct maru_lock_counts counts;
  /* The thread that was told of a dead holder, until it says that all is well; 0: no thread. */
  pid_t mends;
  bool lost; /* released before that: nobody gets it any more */

  alignas(64) struct ticket tickets[SEATS];
  alignas(64) _Atomic uint64_t owners[SEATS]; /* identities; 0: free */
  struct {
    alignas(64) _Atomic uint32_t word; /* MR_SET: try now */
  } calls[SEATS];
};

struct maru_shared_lock {
  struct segment *segment;
  struct mr_waiting waiting;
  struct mr_place place;
  _Atomic uint64_t identity; /* this process's */
};

size_t maru_shared_lock_size(void) { return sizeof(struct segment); }

/* ---- making it ---------------------------------------------------------- */

static int init_mutex(pthread_mutex_t *mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  int error = pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return -error;
}

static bool serves(enum maru_lock_kind kind) {
  return kind == MARU_LOCK_PTHREAD || kind == MARU_LOCK_MCS || kind == MARU_LOCK_CNA;
}

int maru_shared_lock_init(void *memory, const struct maru_lock_options *options) {
  struct mr_waiting waiting;
  int rc = mr_options_check(options);
  if (rc == 0)
    rc = mr_waiting_init(&waiting, options->wait, options->spin_ns);
  if (rc < 0)
    return rc;
  if (!serves(options->kind) || (uintptr_t)memory % alignof(struct segment) != 0)
    return -EINVAL;
  struct segment *segment = memory;
  *segment = (struct segment){.kind = (int32_t)options->kind,
                              .wait = (int32_t)options->wait,
                              .spin_ns = options->spin_ns,
                              .handoff_range = options->handoff_range,
                              .deadline_ns = options->deadline_ns,
                              .random = options->seed,
                              .meant = NOBODY};
  rc = init_mutex(&segment->mutex);
  /* Release: a process that finds it ready finds all of it. */
  if (rc == 0)
    atomic_store_explicit(&segment->ready, magic, memory_order_release);
  return rc;
}

int maru_shared_lock_attach(struct maru_shared_lock **lock, void *memory) {
  struct segment *segment = memory;
  /* Acquire: see maru_shared_lock_init. */
  if ((uintptr_t)memory % alignof(struct segment) != 0 ||
      atomic_load_explicit(&segment->ready, memory_order_acquire) != magic)
    return -EINVAL;
  struct maru_shared_lock *made = aligned_alloc(alignof(struct maru_shared_lock), sizeof *made);
  if (made == NULL)
    return -ENOMEM;
  *made = (struct maru_shared_lock){.segment = segment};
  int rc = mr_waiting_init(&made->waiting, (enum maru_wait_kind)segment->wait, segment->spin_ns);
  if (rc == 0 && segment->kind == MARU_LOCK_CNA)
    rc = mr_place_read(&made->place);
  if (rc < 0) {
    maru_shared_lock_detach(made);
    return rc;
  }
  *lock = made;
  return 0;
}

void maru_shared_lock_detach(struct maru_shared_lock *lock) {
  mr_place_free(&lock->place);
  free(lock);
}

/* ---- seats -------------------------------------------------------------- */

/* A process is its pid and, since those come again, when it started. */
static uint64_t identity_of(pid_t pid) {
  return (uint64_t)pid << 32 | (uint32_t)mr_start_time(pid);
}

/* Relaxed, both: a child that finds a parent's identity writes its own over it, and all of
 * its threads write the same. */
static uint64_t identity(struct maru_shared_lock *lock) {
  uint64_t known = atomic_load_explicit(&lock->identity, memory_order_relaxed);
  if (known >> 32 == (uint64_t)getpid())
    return known;
  known = identity_of(getpid());
  atomic_store_explicit(&lock->identity, known, memory_order_relaxed);
  return known;
}

/* The signal tells where /proc does not say when a process started. */
static bool lives(uint64_t owner) {
  pid_t pid = (pid_t)(owner >> 32);
  return (kill(pid, 0) == 0 || errno != ESRCH) && identity_of(pid) == owner;
}

static uint64_t flag(int seat) { return UINT64_C(1) << seat; }

/* Acquire: with a flag, its ticket. */
static uint64_t raised(struct segment *segment) {
  return atomic_load_explicit(&segment->flags, memory_order_acquire);
}

/* The same, ordered against raise_flag: of two read-modify-writes of one word either the first
 * is seen by the second, and what was done before it, or the other way round. */
static uint64_t raised_by_now(struct segment *segment) {
  return atomic_fetch_or_explicit(&segment->flags, 0, memory_order_acq_rel);
}

static void raise_flag(struct segment *segment, int seat) {
  atomic_fetch_or_explicit(&segment->flags, flag(seat), memory_order_acq_rel);
}

static void lower_flag(struct segment *segment, int seat) {
  atomic_fetch_and_explicit(&segment->flags, ~flag(seat), memory_order_acq_rel);
}

/* Release: the next one in the seat comes after all that we did there. */
static void stand_up(struct segment *segment, int seat) {
  atomic_store_explicit(&segment->owners[seat], 0, memory_order_release);
}

static bool sit_down(struct maru_shared_lock *lock, int seat, uint64_t before) {
  return atomic_compare_exchange_strong_explicit(&lock->segment->owners[seat], &before,
                                                 identity(lock), memory_order_acq_rel,
                                                 memory_order_relaxed);
}

/* Frees the seats of those who died.  Whoever does it owns the seat meanwhile, so that it is
 * found again if it dies too. */
static void bury(struct maru_shared_lock *lock) {
  struct segment *segment = lock->segment;
  for (int seat = 0; seat < SEATS; seat++) {
    /* Relaxed: sit_down looks again. */
    uint64_t owner = atomic_load_explicit(&segment->owners[seat], memory_order_relaxed);
    if (owner == 0 || owner == identity(lock) || lives(owner) || !sit_down(lock, seat, owner))
      continue;
    lower_flag(segment, seat);
    stand_up(segment, seat);
  }
}

static int free_seat(struct maru_shared_lock *lock) {
  for (int seat = 0; seat < SEATS; seat++)
    /* Relaxed: sit_down looks again. */
    if (atomic_load_explicit(&lock->segment->owners[seat], memory_order_relaxed) == 0 &&
        sit_down(lock, seat, 0))
      return seat;
  return NOBODY;
}

static int take_seat(struct maru_shared_lock *lock) {
  int seat = free_seat(lock);
  if (seat != NOBODY)
    return seat;
  bury(lock);
  return free_seat(lock);
}

/* Relaxed: published by the flag. */
static void write_ticket(struct maru_shared_lock *lock, int seat) {
  struct segment *segment = lock->segment;
  struct ticket *ticket = &segment->tickets[seat];
  bool near = segment->kind == MARU_LOCK_CNA;
  uint32_t number = atomic_fetch_add_explicit(&segment->arrivals, 1, memory_order_relaxed);
  atomic_store_explicit(&ticket->number, number, memory_order_relaxed);
  atomic_store_explicit(&ticket->socket, near ? (int32_t)mr_place_here(&lock->place) : 0,
                        memory_order_relaxed);
  atomic_store_explicit(&ticket->since_ns, segment->deadline_ns > 0 ? maru_now_ns() : 0,
                        memory_order_relaxed);
}

/* ---- choosing ----------------------------------------------------------- */

/* Relaxed: the flag has brought it. */
static uint32_t number_of(struct segment *segment, int seat) {
  return atomic_load_explicit(&segment->tickets[seat].number, memory_order_relaxed);
}

static int32_t socket_of(struct segment *segment, int seat) {
  return atomic_load_explicit(&segment->tickets[seat].socket, memory_order_relaxed);
}

static bool came_before(struct segment *segment, int left, int right) {
  return (int32_t)(number_of(segment, left) - number_of(segment, right)) < 0;
}

/* The one among `flags` that came first. */
static int oldest(struct segment *segment, uint64_t flags) {
  int best = NOBODY;
  for (; flags != 0; flags &= flags - 1) {
    int seat = __builtin_ctzll(flags);
    if (best == NOBODY || came_before(segment, seat, best))
      best = seat;
  }
  return best;
}

static uint64_t of_socket(struct segment *segment, uint64_t flags, int32_t socket) {
  uint64_t near = 0;
  for (; flags != 0; flags &= flags - 1) {
    int seat = __builtin_ctzll(flags);
    if (socket_of(segment, seat) == socket)
      near |= flag(seat);
  }
  return near;
}

static bool overdue(struct segment *segment, int seat) {
  return segment->deadline_ns > 0 &&
         /* Relaxed: as its number. */
         maru_now_ns() -
                 atomic_load_explicit(&segment->tickets[seat].since_ns, memory_order_relaxed) >=
             (int64_t)segment->deadline_ns;
}

static int choose_near(struct maru_shared_lock *lock, uint64_t flags) {
  struct segment *segment = lock->segment;
  int32_t here = (int32_t)mr_place_here(&lock->place);
  int first = oldest(segment, flags), seat = first;
  if (mr_probably(&segment->random, segment->handoff_range) && !overdue(segment, first)) {
    int near = oldest(segment, of_socket(segment, flags, here));
    seat = near != NOBODY ? near : first;
  }
  return seat;
}

/* Woken, and not there yet?  Somebody else may have come to its seat. */
static bool on_its_way(struct segment *segment, uint64_t flags, int seat, uint32_t number) {
  return seat != NOBODY && flags & flag(seat) && number_of(segment, seat) == number;
}

static void count_handoff(struct maru_shared_lock *lock, int seat) {
  struct segment *segment = lock->segment;
  segment->counts.handoffs++;
  if (segment->kind == MARU_LOCK_CNA)
    segment->counts.left_socket += socket_of(segment, seat) != (int32_t)mr_place_here(&lock->place);
}

/* By the holder: whom to wake, or NOBODY. */
static int choose(struct maru_shared_lock *lock) {
  struct segment *segment = lock->segment;
  uint64_t flags = raised(segment);
  if (flags == 0)
    return NOBODY;
  int64_t now = maru_now_ns();
  if (on_its_way(segment, flags, segment->meant, segment->meant_number)) {
    if (now - segment->meant_since_ns < LOOK_NS)
      return NOBODY;
    bury(lock);
    flags = raised(segment);
    if (flags == 0)
      return NOBODY;
  }
  int seat = segment->kind == MARU_LOCK_CNA ? choose_near(lock, flags) : oldest(segment, flags);
  segment->meant_number = number_of(segment, seat);
  /* The number may be that of somebody who sat down meanwhile and has no flag yet: once it has
   * one, it would seem to be on its way, and nobody has called it. */
  segment->meant = raised_by_now(segment) & flag(seat) ? seat : NOBODY;
  segment->meant_since_ns = now;
  if (segment->meant != NOBODY)
    count_handoff(lock, seat);
  return segment->meant;
}

/* The waiter that sits there now tries the mutex: at worst for nothing. */
static void call(struct segment *segment, int seat) {
  maru_notify_store(&segment->calls[seat].word, MR_SET);
}

static void call_oldest(struct segment *segment) {
  uint64_t flags = raised(segment);
  if (flags != 0)
    call(segment, oldest(segment, flags));
}

/* ---- acquiring ---------------------------------------------------------- */

static int try_mutex(struct segment *segment) { return -pthread_mutex_trylock(&segment->mutex); }

/* The same; unlike trylock it tells a thread that it has the lock already. */
static int ask_mutex(struct segment *segment) {
  static const struct timespec past = {0, 0};
  return -pthread_mutex_timedlock(&segment->mutex, &past);
}

/* In a seat, until it is called or a slice of time has passed. */
static bool is_called(struct maru_shared_lock *lock, int seat, const struct mr_deadline *deadline) {
  int64_t left = mr_deadline_left(deadline);
  struct mr_deadline slice = {CLOCK_MONOTONIC, maru_now_ns() + (left < LOOK_NS ? left : LOOK_NS)};
  return mr_waiting_for(&lock->waiting, &lock->segment->calls[seat].word, MR_SET, MR_SET, &slice) ==
         0;
}

/* What an attempt at the mutex may say while somebody else has it. */
static bool goes_on(int rc) { return rc == -EBUSY || rc == -ETIMEDOUT; }

static int wait_seated(struct maru_shared_lock *lock, int seat,
                       const struct mr_deadline *deadline) {
  struct segment *segment = lock->segment;
  int rc = try_mutex(segment);
  while (goes_on(rc)) {
    if (is_called(lock, seat, deadline))
      return mr_mutex_acquire(&segment->mutex, deadline);
    rc = ask_mutex(segment);
    if (rc == 0 || rc == -EOWNERDEAD)
      bury(lock);
    else if (rc == -ETIMEDOUT && mr_deadline_passed(deadline))
      return rc;
  }
  return rc;
}

static int acquire_seated(struct maru_shared_lock *lock, int seat,
                          const struct mr_deadline *deadline) {
  struct segment *segment = lock->segment;
  /* Relaxed: published by the flag; a late call of the seat's last owner does no harm. */
  atomic_store_explicit(&segment->calls[seat].word, 0, memory_order_relaxed);
  write_ticket(lock, seat);
  raise_flag(segment, seat);
  int rc = wait_seated(lock, seat, deadline);
  lower_flag(segment, seat);
  stand_up(segment, seat);
  /* We may have been the one that was meant. */
  if (rc != 0 && rc != -EOWNERDEAD)
    call_oldest(segment);
  return rc;
}

static int acquire(struct maru_shared_lock *lock, const struct mr_deadline *deadline) {
  struct segment *segment = lock->segment;
  if (segment->kind == MARU_LOCK_PTHREAD)
    return mr_mutex_acquire(&segment->mutex, deadline);
  /* First come, first to go.  Relaxed: a guess. */
  if (atomic_load_explicit(&segment->flags, memory_order_relaxed) == 0) {
    int rc = try_mutex(segment);
    if (rc != -EBUSY)
      return rc;
  }
  int seat = take_seat(lock);
  return seat == NOBODY ? mr_mutex_acquire(&segment->mutex, deadline)
                        : acquire_seated(lock, seat, deadline);
}

/* ---- releasing ---------------------------------------------------------- */

static int release(struct maru_shared_lock *lock) {
  struct segment *segment = lock->segment;
  bool ordered = segment->kind != MARU_LOCK_PTHREAD;
  int seat = ordered ? choose(lock) : NOBODY;
  int32_t meant = segment->meant;
  uint32_t number = segment->meant_number;
  int rc = -pthread_mutex_unlock(&segment->mutex);
  if (rc < 0 || !ordered)
    return rc;
  /* Between our look and the unlock somebody may have raised a flag, or who was meant, now or
   * before, have given up. */
  uint64_t flags = raised_by_now(segment);
  bool waits = on_its_way(segment, flags, meant, number);
  if (waits && seat != NOBODY)
    call(segment, seat);
  else if (!waits && flags != 0)
    call_oldest(segment);
  return 0;
}

/* Libc's mutex is never left to say that it cannot be recovered: glibc's trylock (2.36) answers so
 * and keeps the mutex, so that the next caller would wait for ever.  Before the mutex is
 * consistent, so that a death in between leaves the lock lost. */
static void lose(struct segment *segment) {
  segment->lost = true;
  segment->mends = 0;
  pthread_mutex_consistent(&segment->mutex);
}

int maru_shared_lock_release(struct maru_shared_lock *lock) {
  struct segment *segment = lock->segment;
  if (segment->mends != 0 && segment->mends == gettid())
    lose(segment);
  return release(lock);
}

int maru_shared_lock_consistent(struct maru_shared_lock *lock) {
  struct segment *segment = lock->segment;
  int rc = -pthread_mutex_consistent(&segment->mutex);
  if (rc == 0)
    segment->mends = 0;
  return rc;
}

/* ---- what the caller gets ------------------------------------------------- */

/* `rc`: what the mutex said. */
static int admit(struct maru_shared_lock *lock, int rc) {
  struct segment *segment = lock->segment;
  if (rc != 0 && rc != -EOWNERDEAD)
    return rc;
  if (rc == -EOWNERDEAD)
    segment->mends = gettid();
  if (!segment->lost)
    return rc;
  rc = maru_shared_lock_release(lock);
  return rc < 0 ? rc : -ENOTRECOVERABLE;
}

int maru_shared_lock_acquire(struct maru_shared_lock *lock) {
  return admit(lock, acquire(lock, &mr_forever));
}

int maru_shared_lock_acquire_until(struct maru_shared_lock *lock, clockid_t clock,
                                   const struct timespec *deadline) {
  struct mr_deadline until;
  int rc = mr_deadline_read(&until, clock, deadline);
  return rc < 0 ? rc : admit(lock, acquire(lock, &until));
}

int maru_shared_lock_try(struct maru_shared_lock *lock) {
  return admit(lock, try_mutex(lock->segment));
}

void maru_shared_lock_counts(const struct maru_shared_lock *lock, struct maru_lock_counts *counts) {
  *counts = lock->segment->counts;
}
