/* Description: what a lock answers: taken, busy, timed out, given up, refused; what its text says.
 */
#include <maru/lock.h>

#include "check.h"
#include "locks.h"

#include <malloc.h>
#include <pthread.h>

#define MS INT64_C(1000000)

static struct maru_lock *make(const char *text) {
  struct maru_lock_options options;
  struct maru_lock *lock;
  CHECK_EQUAL(maru_lock_options_parse(&options, text, NULL), 0);
  CHECK_EQUAL(maru_lock_create(&lock, &options), 0);
  return lock;
}

/* ---- options ------------------------------------------------------------ */

static void names(void) {
  for (int kind = 0; kind < MARU_LOCK_KINDS; kind++)
    CHECK_EQUAL(maru_lock_kind_of(maru_lock_kind_name((enum maru_lock_kind)kind)), kind);
  CHECK(maru_lock_kind_name(MARU_LOCK_KINDS) == NULL);
  CHECK_EQUAL(maru_lock_kind_of("best"), -EINVAL);
}

static void texts(void) {
  struct maru_lock_options options;
  CHECK_EQUAL(maru_lock_options_parse(
                  &options,
                  "cna:wait=spin-block,spin=3us,handoff_range=0x100,shuffle_reduction=128,"
                  "deadline=25us,max_bypass=7,seed=9",
                  NULL),
              0);
  CHECK_EQUAL(options.kind, MARU_LOCK_CNA);
  CHECK_EQUAL(options.wait, MARU_WAIT_SPIN_BLOCK);
  CHECK_EQUAL(options.spin_ns, 3000);
  CHECK_EQUAL(options.handoff_range, 0x100);
  CHECK_EQUAL(options.shuffle_reduction, 128);
  CHECK_EQUAL(options.deadline_ns, 25000);
  CHECK_EQUAL(options.max_bypass, 7);
  CHECK_EQUAL(options.seed, 9);
  CHECK_EQUAL(maru_lock_options_parse(&options, "hmcs:passes=5", NULL), 0);
  CHECK_EQUAL(options.passes, 5);
  CHECK_EQUAL(maru_lock_options_parse(&options, "ticket", NULL), 0);
  CHECK_EQUAL(options.handoff_range, MARU_LOCK_RANGE_MAX);
  CHECK(options.max_bypass == MARU_LOCK_UNBOUNDED);
  CHECK_EQUAL(maru_lock_options_parse(&options, "default:spin=3us", NULL), 0);
  CHECK_EQUAL(options.kind, MARU_LOCK_DEFAULT);
  CHECK_EQUAL(options.spin_ns, 3000);
  CHECK_EQUAL(maru_lock_options_parse(&options, "defaults", NULL), -EINVAL);
}

static void wrong_texts(void) {
  static const struct {
    const char *text;
    int at;
  } cases[] = {{"", 0},
               {"cnA", 0},
               {"cna,handoff_range=2", 0},
               {"cna:", 4},
               {"cna:range", 4},
               {"cna:rang=2", 4},
               {"cna:handoff_range=", 18},
               {"cna:handoff_range=3", 18},
               {"cna:handoff_range=0", 18},
               {"cna:handoff_range=0x20000", 18},
               {"cna:handoff_range=2x", 18},
               {"cna:handoff_range=-2", 18},
               {"cna:deadline=25", 13},
               {"cna:deadline=25 us", 13},
               {"cna:deadline=99999999999999999999ns", 13},
               {"cna:deadline=9999999999999s", 13},
               {"cna:wait=often", 9},
               {"cna:wait=block,spin=3us", 20},
               {"cna:spin=3us,wait=spin", 9},
               {"cna:max_bypass=1,,", 17},
               {"cna:seed=0", 9},
               {"cna:deadline=25us,deadline=30us", 18},
               {"cna:seed=2,deadline=25us,seed=2", 25},
               {"hmcs:passes=0", 12}};
  struct maru_lock_options options;
  const char *wrong;
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK_EQUAL(maru_lock_options_parse(&options, cases[i].text, &wrong), -EINVAL);
    CHECK_EQUAL(wrong - cases[i].text, cases[i].at);
  }
}

static void refused(void) {
  struct maru_lock_options options;
  struct maru_lock *lock;
  CHECK_EQUAL(maru_lock_options_init(&options, MARU_LOCK_KINDS), -EINVAL);
  CHECK_EQUAL(maru_lock_options_init(&options, MARU_LOCK_CNA), 0);
  options.handoff_range = 24;
  CHECK_EQUAL(maru_lock_create(&lock, &options), -EINVAL);
  options.handoff_range = 1;
  options.wait = MARU_WAIT_KINDS;
  CHECK_EQUAL(maru_lock_create(&lock, &options), -EINVAL);
  options.wait = MARU_WAIT_BLOCK;
  options.spin_ns = 3000; /* would be ignored */
  CHECK_EQUAL(maru_lock_create(&lock, &options), -EINVAL);
  options.spin_ns = 0;
  CHECK_EQUAL(setenv("MARU_TOPOLOGY", "virtual:2", 1), 0);
  CHECK_EQUAL(maru_lock_create(&lock, &options), -EINVAL);
  CHECK_EQUAL(setenv("MARU_TOPOLOGY", "virtual:2x1", 1), 0);
  CHECK_EQUAL(maru_lock_create(&lock, &options), 0);
  maru_lock_destroy(lock);
}

/* ---- answers ------------------------------------------------------------ */

static void free_lock(struct maru_lock *lock) {
  struct maru_hold hold;
  struct timespec past = {.tv_sec = -1}, far = {.tv_sec = INT64_MAX / 2};
  CHECK_EQUAL(maru_lock_acquire(lock, &hold), 0);
  maru_lock_release(lock, &hold);
  CHECK_EQUAL(maru_lock_try(lock, &hold), 0);
  maru_lock_release(lock, &hold);
  CHECK_EQUAL(maru_lock_acquire_until(lock, &hold, CLOCK_MONOTONIC, &past), 0);
  maru_lock_release(lock, &hold);
  CHECK_EQUAL(maru_lock_acquire_until(lock, &hold, CLOCK_REALTIME, &far), 0);
  maru_lock_release(lock, &hold);
}

static void held_lock(struct maru_lock *lock) {
  struct maru_hold hold, other;
  struct timespec until = {.tv_nsec = 1000000000};
  CHECK_EQUAL(maru_lock_acquire(lock, &hold), 0);
  CHECK_EQUAL(maru_lock_try(lock, &other), -EBUSY);
  CHECK_EQUAL(maru_lock_acquire_until(lock, &other, CLOCK_MONOTONIC, &until), -EINVAL);
  until.tv_nsec = 0;
  CHECK_EQUAL(maru_lock_acquire_until(lock, &other, CLOCK_PROCESS_CPUTIME_ID, &until), -EINVAL);
  CHECK_EQUAL(maru_lock_acquire_until(lock, &other, CLOCK_REALTIME, &until), -ETIMEDOUT);
  int64_t begin = maru_now_ns();
  until = in_us(CLOCK_MONOTONIC, 20000);
  CHECK_EQUAL(maru_lock_acquire_until(lock, &other, CLOCK_MONOTONIC, &until), -ETIMEDOUT);
  CHECK(maru_now_ns() - begin >= 20 * MS);
  begin = maru_now_ns();
  until = in_us(CLOCK_REALTIME, 70000); /* longer than one slice */
  CHECK_EQUAL(maru_lock_acquire_until(lock, &other, CLOCK_REALTIME, &until), -ETIMEDOUT);
  CHECK(maru_now_ns() - begin >= 69 * MS);
  maru_lock_release(lock, &hold);
}

static void give_up(struct maru_lock *lock, struct maru_hold *hold) {
  struct timespec soon = in_us(CLOCK_MONOTONIC, 100);
  CHECK_EQUAL(maru_lock_acquire_until(lock, hold, CLOCK_MONOTONIC, &soon), -ETIMEDOUT);
}

/* What those who gave up leave behind is bounded, and nothing when they never waited.  (Under a
 * sanitizer the C library knows of no memory, and this says nothing.) */
static void left_behind(struct maru_lock *lock) {
  struct maru_hold hold, other;
  struct timespec past = {0};
  CHECK_EQUAL(maru_lock_acquire(lock, &hold), 0);
  give_up(lock, &other); /* what malloc keeps from then on is no growth */
  size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 100; i++)
    CHECK_EQUAL(maru_lock_acquire_until(lock, &other, CLOCK_MONOTONIC, &past), -ETIMEDOUT);
  CHECK(mallinfo2().uordblks - before < 160); /* not 100 nodes */
  for (int i = 0; i < 3 * MARU_LOCK_LEFT_MAX; i++)
    give_up(lock, &other);
  /* 64 bytes aligned to 64, and what malloc adds. */
  CHECK(mallinfo2().uordblks - before <= MARU_LOCK_LEFT_MAX * 160);
  maru_lock_release(lock, &hold);
  /* malloc keeps some at hand, and counts them as used. */
  CHECK(mallinfo2().uordblks <= before + 8 * 160);
}

/* Three gave up between a holder and a waiter: the lock still gets there. */
struct patient {
  struct maru_lock *lock;
  _Atomic bool done;
};

static void *be_patient(void *argument) {
  struct patient *self = argument;
  struct maru_hold hold;
  CHECK_EQUAL(maru_lock_acquire(self->lock, &hold), 0);
  maru_lock_release(self->lock, &hold);
  atomic_store(&self->done, true);
  return NULL;
}

static void passed_over(struct maru_lock *lock) {
  struct maru_hold hold, other;
  struct patient patient = {.lock = lock};
  pthread_t thread;
  CHECK_EQUAL(maru_lock_acquire(lock, &hold), 0);
  for (int i = 0; i < 2; i++)
    give_up(lock, &other);
  CHECK_EQUAL(pthread_create(&thread, NULL, be_patient, &patient), 0);
  usleep(2000); /* it queues behind them; where it does not, the test is only weaker */
  give_up(lock, &other);
  maru_lock_release(lock, &hold);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  CHECK(atomic_load(&patient.done));
  CHECK_EQUAL(maru_lock_try(lock, &hold), 0); /* nothing that was left holds it */
  maru_lock_release(lock, &hold);
}

/* A try that fails leaves no mark for which the release would make a system call. */
static void clh_try_only_looks(void) {
  struct maru_lock *lock = make("clh");
  struct maru_hold hold, other;
  CHECK_EQUAL(maru_lock_acquire(lock, &hold), 0);
  CHECK_EQUAL(maru_lock_try(lock, &other), -EBUSY);
  CHECK_EQUAL(atomic_load(&hold.used->state), 0);
  maru_lock_release(lock, &hold);
  maru_lock_destroy(lock);
}

/* Any thread may release. */
struct errand {
  struct maru_lock *lock;
  struct maru_hold *hold;
};

static void *release_for(void *argument) {
  struct errand *errand = argument;
  maru_lock_release(errand->lock, errand->hold);
  return NULL;
}

static void released_by_another(struct maru_lock *lock) {
  struct maru_hold hold;
  struct errand errand = {lock, &hold};
  pthread_t thread;
  CHECK_EQUAL(maru_lock_acquire(lock, &hold), 0);
  CHECK_EQUAL(pthread_create(&thread, NULL, release_for, &errand), 0);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  CHECK_EQUAL(maru_lock_try(lock, &hold), 0);
  maru_lock_release(lock, &hold);
}

int main(void) {
  static const char *const waits[] = {"block", "adaptive", "spin", "gang"};
  names();
  texts();
  wrong_texts();
  refused();
  clh_try_only_looks();
  for (int kind = FIRST_KIND; kind < MARU_LOCK_KINDS; kind++)
    for (unsigned i = 0; i < sizeof waits / sizeof *waits; i++) {
      char text[64];
      snprintf(text, sizeof text, "%s:wait=%s", maru_lock_kind_name((enum maru_lock_kind)kind),
               waits[i]);
      struct maru_lock *lock = make(text);
      free_lock(lock);
      held_lock(lock);
      left_behind(lock);
      passed_over(lock);
      released_by_another(lock);
      maru_lock_destroy(lock);
    }
  return 0;
}
