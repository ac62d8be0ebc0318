/* calls_profiled.c: the program's calls under libmaru-lock-profile.so.  Each does what it does
 * under libmaru-lock.so, and is recorded (profile.h).  A condition variable releases its mutex
 * within libc: the hold ends when the wait begins, and another begins when it is over. */
#define _GNU_SOURCE
#include "locate.h"
#include "lock.h"
#include "profile.h"
#include "skip.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HERE mr_skip(__builtin_return_address(0))

static struct mr_profile profile;

/* ---- the calls ------------------------------------------------------------------- */

static bool got_it(int rc) { return rc == 0 || rc == EOWNERDEAD; }

static bool is_recursive(const pthread_mutex_t *mutex) {
  return (mr_glibc_kind(mutex) & 3) == PTHREAD_MUTEX_RECURSIVE_NP;
}

/* A recursive mutex that the thread holds. */
static inline bool is_held(struct mr_profile_at at, const pthread_mutex_t *mutex) {
  /* Relaxed: only our own number is of interest, and we wrote it. */
  return is_recursive(mutex) && at.row != NULL &&
         __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == mr_own.tid;
}

/* Asks for it at once, as mr_overlay_lock does. */
static inline int try_first(struct mr_overlay *overlay, pthread_mutex_t *mutex) {
  uint32_t until = atomic_load_explicit(&mr_overlay_cell(mutex)->until, memory_order_relaxed);
  if (__builtin_expect(until != 0, 0) && mr_overlay_leaves(overlay, mutex) == 0 &&
      !mr_overlay_barges(overlay, mutex))
    return EBUSY;
  return mr_glibc_trylock(mutex);
}

enum way { LOCK, TIMED, CLOCK };

struct until {
  enum way way;
  clockid_t clock;
  const struct timespec *at;
};

static int wait_for(struct mr_overlay *overlay, pthread_mutex_t *mutex, const struct until *until) {
  switch (until->way) {
  case TIMED:
    return mr_glibc_timedlock(mutex, until->at);
  case CLOCK:
    return mr_glibc_clocklock(mutex, until->clock, until->at);
  default:
    return mr_overlay_wait(overlay, mutex);
  }
}

static __attribute__((noinline)) int lock_taken(struct mr_profile *of, struct mr_profile_at at,
                                                pthread_mutex_t *mutex, const struct until *until) {
  struct mr_profile_wait wait = {.at = at, .mutex = mutex};
  mr_profile_wait(of, &wait);
  int rc = wait_for(&mr_overlay, mutex, until);
  mr_profile_waited(of, &wait, rc);
  return rc;
}

/* Not by glibc's trylock, which keeps a robust mutex that it says cannot be recovered (2.36): the
 * next caller would wait for ever.  One that seems free is asked for as the program asks. */
static __attribute__((noinline)) int lock_robust(struct mr_profile *of, struct mr_profile_at at,
                                                 pthread_mutex_t *mutex,
                                                 const struct until *until) {
  /* Relaxed: advice.  A wait for a thread that comes in between is not timed. */
  if (__atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) & FUTEX_TID_MASK)
    return lock_taken(of, at, mutex, until);
  int rc = wait_for(&mr_overlay, mutex, until);
  if (got_it(rc))
    mr_profile_got(of, at, mutex);
  return rc;
}

static __attribute__((noinline)) int lock_again(struct mr_profile_at at, pthread_mutex_t *mutex) {
  int rc = mr_glibc_trylock(mutex);
  if (rc == 0)
    MR_ADD(at.row->reentered, 1);
  return rc;
}

static inline __attribute__((always_inline)) int lock(struct mr_profile *of, pthread_mutex_t *mutex,
                                                      const void *site, const struct until *until) {
  struct mr_profile_at at = mr_profile_find(of, mutex, site, mr_glibc_kind(mutex));
  if (__builtin_expect(is_held(at, mutex), 0))
    return lock_again(at, mutex);
  if (__builtin_expect(mr_glibc_kind(mutex) & MR_GLIBC_ROBUST, 0))
    return lock_robust(of, at, mutex, until);
  int rc = until->way == LOCK ? try_first(&mr_overlay, mutex) : mr_glibc_trylock(mutex);
  if (__builtin_expect(rc == EBUSY, 0))
    return lock_taken(of, at, mutex, until);
  if (got_it(rc))
    mr_profile_got(of, at, mutex);
  return rc;
}

static __attribute__((noinline)) int unlock_timed(const struct mr_profile *of,
                                                  pthread_mutex_t *mutex) {
  if (is_recursive(mutex) && mutex->__data.__count > 1)
    return mr_glibc_unlock(mutex); /* it stays held */
  struct mr_profile_release release = mr_profile_release(of, mutex);
  int rc = mr_glibc_unlock(mutex);
  if (rc == 0)
    mr_profile_released(of, &release);
  return rc;
}

static inline int unlock(const struct mr_profile *of, pthread_mutex_t *mutex) {
  return __builtin_expect(mr_profile_holds(), 0) ? unlock_timed(of, mutex) : mr_glibc_unlock(mutex);
}

MR_EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex) {
  static const struct until forever = {.way = LOCK};
  return lock(&profile, mutex, HERE, &forever);
}

MR_EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex) { return unlock(&profile, mutex); }

MR_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *at) {
  struct until until = {.way = TIMED, .at = at};
  MR_COUNT(mr_overlay_counts(&mr_overlay)->timed);
  return lock(&profile, mutex, HERE, &until);
}

/* A clock that glibc may refuse, before it looks at the mutex: it is asked at once. */
static __attribute__((noinline)) int lock_by_other_clock(pthread_mutex_t *mutex, const void *site,
                                                         const struct until *until) {
  struct mr_profile_at at = mr_profile_find(&profile, mutex, site, mr_glibc_kind(mutex));
  bool again = is_held(at, mutex);
  int rc = mr_glibc_clocklock(mutex, until->clock, until->at);
  if (got_it(rc) && again)
    MR_ADD(at.row->reentered, 1);
  else if (got_it(rc))
    mr_profile_got(&profile, at, mutex);
  return rc;
}

MR_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                      const struct timespec *at) {
  struct until until = {.way = CLOCK, .clock = clock, .at = at};
  MR_COUNT(mr_overlay_counts(&mr_overlay)->timed);
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
    return lock_by_other_clock(mutex, HERE, &until);
  return lock(&profile, mutex, HERE, &until);
}

MR_EXPORT int pthread_mutex_trylock(pthread_mutex_t *mutex) {
  struct mr_profile_at at = mr_profile_find(&profile, mutex, HERE, mr_glibc_kind(mutex));
  if (is_held(at, mutex))
    return lock_again(at, mutex);
  int rc = mr_glibc_trylock(mutex);
  if (got_it(rc))
    mr_profile_got(&profile, at, mutex);
  else if (rc == EBUSY && at.row != NULL)
    MR_ADD(at.row->refused, 1);
  return rc;
}

/* ---- condition variables --------------------------------------------------------- */

/* Around a wait.  One that is cancelled takes the mutex back unseen, and one that was none keeps
 * it: such holds are not timed. */
static void before_wait(pthread_mutex_t *mutex) {
  if (mr_profile_holds()) {
    struct mr_profile_release release = mr_profile_release(&profile, mutex);
    mr_profile_released(&profile, &release);
  }
  MR_COUNT(mr_overlay_counts(&mr_overlay)->reacquired);
}

static int after_wait(pthread_mutex_t *mutex, const void *site, int rc) {
  if (rc == 0 || rc == ETIMEDOUT || rc == EOWNERDEAD)
    mr_profile_returned(&profile, mr_profile_find(&profile, mutex, site, mr_glibc_kind(mutex)),
                        mutex);
  return rc;
}

MR_EXPORT int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  before_wait(mutex);
  return after_wait(mutex, HERE, mr_glibc_cond_wait(condition, mutex));
}

MR_EXPORT int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                     const struct timespec *until) {
  before_wait(mutex);
  return after_wait(mutex, HERE, mr_glibc_cond_timedwait(condition, mutex, until));
}

MR_EXPORT int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                     clockid_t clock, const struct timespec *until) {
  before_wait(mutex);
  return after_wait(mutex, HERE, mr_glibc_cond_clockwait(condition, mutex, clock, until));
}

/* ---- keys of threads ------------------------------------------------------------- */

/* The last one may be ours. */
MR_EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
  int rc = mr_glibc_key_create(key, destructor);
  return rc == EAGAIN && mr_profile_give_key(&profile) ? mr_glibc_key_create(key, destructor) : rc;
}

/* ---- start ---------------------------------------------------------------------------- */

#define ROUNDS 8
#define TIMES 500
#define CALIBRATION_NS 1000000

/* Picoseconds for a lock and an unlock; the best of several rounds.  NULL: glibc's alone. */
static uint64_t cost_of(struct mr_profile *of) {
  static const struct until forever = {.way = LOCK};
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  uint64_t best = UINT64_MAX;
  for (int round = 0; round < ROUNDS; round++) {
    int64_t began = maru_now_ns();
    for (int i = 0; i < TIMES; i++)
      if (of == NULL) {
        mr_glibc_lock(&mutex);
        mr_glibc_unlock(&mutex);
      } else {
        lock(of, &mutex, cost_of, &forever);
        unlock(of, &mutex);
      }
    uint64_t took = (uint64_t)(maru_now_ns() - began) * 1000 / TIMES;
    best = took < best ? took : best;
  }
  return best;
}

/* In memory that is thrown away. */
static void measure_cost(void) {
  static _Atomic uint32_t process[2];
  size_t size = sizeof(struct maru_lockprof);
  void *memory =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return; /* then it is unknown: 0 */
  struct mr_profile scratch = profile;
  scratch.records.board = memory;
  scratch.waits = NULL;
  scratch.process = process;
  profile.cost_plain_ps = cost_of(NULL);
  profile.cost_profiled_ps = cost_of(&scratch);
  mr_profile_leave(&scratch);
  munmap(memory, size);
}

static void read_clock(void) {
  struct mr_clock_mark from = mr_clock_mark();
  if (!mr_clock_may_count())
    return;
  while (maru_now_ns() - from.ns < CALIBRATION_NS)
    ;
  profile.clock = mr_clock_between(from, mr_clock_mark());
}

static void read_place(void) {
  static struct mr_place place;
  const struct mr_place *known = mr_overlay.place;
  if (known == NULL && mr_place_read(&place) == 0)
    known = &place;
  profile.sockets = known != NULL ? known->sockets : 0;
  profile.place = profile.sockets > 1 ? known : NULL;
}

static void unable(struct mr_preload *preload, const char *why) {
  mr_preload_warn(preload, &mr_overlay.board->warned, "process %d is not in the profile: %s",
                  (int)getpid(), why);
}

static void look_past(struct maru_lockprof *board) {
  const char *names = getenv(MARU_LOCKPROF_SKIP_ENV);
  uint32_t none = 0;
  if (names == NULL || *names == '\0')
    return;
  if (mr_skip_start(names) > 0)
    atomic_store_explicit(&board->skips, MARU_LOCKPROF_SKIPS, memory_order_relaxed);
  else
    atomic_compare_exchange_strong_explicit(&board->skips, &none, MARU_LOCKPROF_SKIPS_NONE,
                                            memory_order_relaxed, memory_order_relaxed);
}

void mr_calls_start(struct mr_preload *preload, bool fit) {
  struct maru_lockprof *board =
      mr_preload_section(preload, MARU_LOCKPROF_SECTION, MARU_LOCKPROF_VERSION, sizeof *board);
  if (!fit)
    return; /* it is said that the mutexes are left alone */
  /* A process that cannot open the board, as another user's, is not counted.  Said by each of them,
   * that would be lines in the command's own words. */
  if (board == NULL && preload->on_board)
    unable(preload, "there is no room for it on the board");
  if (board == NULL)
    return;
  mr_locate_start();
  profile.records.locate = mr_locate;
  read_place();
  _Static_assert(3 * sizeof *mr_overlay.process <= MR_PROCESS_BYTES, "the turns lie behind all");
  profile.process = mr_overlay.process + 1; /* in the memory that a fork wipes */
  /* Now: a program may forbid itself to ask.  Relaxed: one thread is here. */
  MR_STORE(profile.process[1], (uint32_t)getpid());
  profile.waits = mr_overlay.waits;
  mr_overlay.waits = NULL; /* counted by the profile */
  read_clock();
  look_past(board);
  mr_profile_init(&profile);
  measure_cost();
  if (profile.waits != NULL)
    atomic_store_explicit(&profile.waits->counted, 1, memory_order_relaxed);
  /* From here on it is recorded. */
  profile.records.board = board;
}
