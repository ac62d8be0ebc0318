/* Description: every policy returns on the change, the deadline and (where it sleeps) a signal. */
#include <maru/wait.h>

#include "check.h"

#include <sys/mman.h>
#include <sys/time.h>

static const enum maru_wait_kind kinds[] = {MARU_WAIT_ADAPTIVE, MARU_WAIT_SPIN, MARU_WAIT_BLOCK,
                                            MARU_WAIT_SPIN_BLOCK};
#define KIND_COUNT (sizeof kinds / sizeof *kinds)
#define MS INT64_C(1000000)

static void names(void) {
  struct maru_wait_policy policy;
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++)
    CHECK_EQUAL(maru_wait_kind_of(maru_wait_kind_name((enum maru_wait_kind)kind)), kind);
  CHECK_EQUAL(maru_wait_kind_of("spin-block"), MARU_WAIT_SPIN_BLOCK);
  CHECK_EQUAL(maru_wait_kind_of("fast"), -EINVAL);
  CHECK(maru_wait_kind_name(MARU_WAIT_KINDS) == NULL);
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_KINDS), -EINVAL);
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_GANG), -ENOTSUP);
}

static void bad_arguments(void) {
  _Atomic uint32_t word = 4;
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  CHECK_EQUAL(maru_wait(&word, 4, ~0u, &policy, 0), -EINVAL);
  CHECK_EQUAL(maru_wait(&word, 5, ~1u, &policy, 0), -EINVAL);
  CHECK_EQUAL(maru_wait_while(&word, 5, ~1u, &policy, 0), -EINVAL);
  policy.kind = MARU_WAIT_COOP;
  CHECK_EQUAL(maru_wait(&word, 4, ~1u, &policy, 0), -ENOTSUP);
  policy.kind = 99;
  CHECK_EQUAL(maru_wait(&word, 4, ~1u, &policy, 0), -EINVAL);
}

static void met_and_timed_out(struct maru_wait_policy *policy) {
  _Atomic uint32_t word = 6;
  CHECK_EQUAL(maru_wait(&word, 6, ~1u, policy, 0), 0);
  CHECK_EQUAL(maru_wait(&word, 4, 4, policy, 0), 0);
  CHECK_EQUAL(maru_wait_while(&word, 4, ~1u, policy, 0), 0);
  CHECK_EQUAL(maru_wait(&word, 8, ~1u, policy, 0), -ETIMEDOUT);
  CHECK_EQUAL(maru_wait_while(&word, 6, ~1u, policy, 0), -ETIMEDOUT);
  /* 120 ms: longer than one slice of sleep. */
  int64_t begin = maru_now_ns();
  CHECK_EQUAL(maru_wait(&word, 8, ~1u, policy, begin + 120 * MS), -ETIMEDOUT);
  CHECK(maru_now_ns() - begin >= 120 * MS);
  maru_notify(&word);
  CHECK_EQUAL(atomic_load(&word), 8); /* stepped, disarmed */
  atomic_store(&word, UINT32_MAX - 1);
  maru_notify(&word);
  CHECK_EQUAL(atomic_load(&word), 0); /* wraps */
  maru_notify_store(&word, 10);
  CHECK_EQUAL(maru_wait(&word, 10, ~1u, policy, 0), 0);
}

static void on_alarm(int signal) { (void)signal; }

static void interrupted(struct maru_wait_policy *policy) {
  _Atomic uint32_t word = 0;
  /* SA_RESTART must not hide the signal. */
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  CHECK_EQUAL(sigaction(SIGALRM, &action, NULL), 0);
  struct itimerval soon = {.it_value.tv_usec = 20000};
  CHECK_EQUAL(setitimer(ITIMER_REAL, &soon, NULL), 0);
  CHECK_EQUAL(maru_wait(&word, 2, ~1u, policy, maru_now_ns() + 10000 * MS), -EINTR);
}

/* A notifier that was killed between its change and its wake. */
static void change_silently(void *word) {
  usleep(10000);
  atomic_fetch_add((_Atomic uint32_t *)word, MARU_WAIT_STEP);
}

static void killed_notifier(struct maru_wait_policy *policy) {
  _Atomic uint32_t *word =
      mmap(NULL, sizeof *word, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(word != MAP_FAILED);
  pid_t pid = start(change_silently, word);
  CHECK_EQUAL(maru_wait(word, 2, ~1u, policy, maru_now_ns() + 10000 * MS), 0);
  CHECK_EQUAL(finish(pid), 0);
  munmap(word, sizeof *word);
}

/* A budget that a deadline cut short has not been shown not to pay. */
static void cut_short(void) {
  _Atomic uint32_t word = 0;
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_ADAPTIVE), 0);
  policy.spare = 1;
  policy.spin_ns = policy.learned = 50 * MS;
  CHECK_EQUAL(maru_wait(&word, 2, ~1u, &policy, maru_now_ns() + MS), -ETIMEDOUT);
  CHECK_EQUAL(policy.learned, 50 * MS);
  policy.spin_ns = policy.learned = 20000;
  CHECK_EQUAL(maru_wait(&word, 2, ~1u, &policy, maru_now_ns() + 20 * MS), -ETIMEDOUT);
  CHECK_EQUAL(policy.learned, 10000);
}

int main(void) {
  names();
  bad_arguments();
  cut_short();
  for (unsigned i = 0; i < KIND_COUNT; i++) {
    struct maru_wait_policy policy;
    CHECK_EQUAL(maru_wait_policy_init(&policy, kinds[i]), 0);
    met_and_timed_out(&policy);
    killed_notifier(&policy);
    if (kinds[i] != MARU_WAIT_SPIN)
      interrupted(&policy);
  }
  return 0;
}
