/* Description: every policy returns on the change, the deadline and (where it sleeps) a signal. */
#define _GNU_SOURCE
#include <maru/wait.h>

#include "check.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#define MS INT64_C(1000000)

static void names(void) {
  struct maru_wait_policy policy;
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++)
    CHECK_EQUAL(maru_wait_kind_of(maru_wait_kind_name((enum maru_wait_kind)kind)), kind);
  CHECK_EQUAL(maru_wait_kind_of("spin-block"), MARU_WAIT_SPIN_BLOCK);
  CHECK_EQUAL(maru_wait_kind_of("fast"), -EINVAL);
  CHECK(maru_wait_kind_name(MARU_WAIT_KINDS) == NULL);
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_KINDS), -EINVAL);
}

/* A limit that would do nothing is refused. */
static void ways_as_written(void) {
  int64_t spin_ns;
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++) {
    char text[64];
    bool ignores = kind == MARU_WAIT_SPIN || kind == MARU_WAIT_BLOCK || kind == MARU_WAIT_GANG ||
                   kind == MARU_WAIT_DCS;
    CHECK_EQUAL(maru_wait_parse(maru_wait_kind_name((enum maru_wait_kind)kind), &spin_ns), kind);
    CHECK_EQUAL(spin_ns, -1);
    snprintf(text, sizeof text, "%s:spin=40us", maru_wait_kind_name((enum maru_wait_kind)kind));
    CHECK_EQUAL(maru_wait_parse(text, &spin_ns), ignores ? -EINVAL : kind);
    CHECK(ignores || spin_ns == 40000);
  }
  CHECK_EQUAL(maru_wait_parse("spin-block:spin=0ns", &spin_ns), MARU_WAIT_SPIN_BLOCK);
  CHECK_EQUAL(spin_ns, 0);
  CHECK_EQUAL(maru_wait_parse("spin-block:spin=100ms", &spin_ns), MARU_WAIT_SPIN_BLOCK);
  CHECK_EQUAL(spin_ns, 100 * MS);
  static const char *const wrong[] = {"spin-block:",
                                      "spin-block:spin=",
                                      "spin-block:spin=40",
                                      "spin-block:spin=-1us",
                                      "spin-block:spin=101ms",
                                      "spin-block:spin=40us,",
                                      "spin-block:spun=40us",
                                      "fast:spin=40us",
                                      "block:",
                                      ":spin=40us"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    CHECK_EQUAL(maru_wait_parse(wrong[i], &spin_ns), -EINVAL);
}

static void bad_arguments(void) {
  _Atomic uint32_t word = 4;
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  CHECK_EQUAL(maru_wait(&word, 4, ~0u, &policy, 0), -EINVAL);
  CHECK_EQUAL(maru_wait(&word, 5, ~1u, &policy, 0), -EINVAL);
  CHECK_EQUAL(maru_wait_while(&word, 5, ~1u, &policy, 0), -EINVAL);
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
  /* Again and again: the first may come before we wait. */
  struct itimerval often = {.it_value.tv_usec = 20000, .it_interval.tv_usec = 20000}, never = {0};
  CHECK_EQUAL(setitimer(ITIMER_REAL, &often, NULL), 0);
  CHECK_EQUAL(maru_wait(&word, 2, ~1u, policy, maru_now_ns() + 10000 * MS), -EINTR);
  CHECK_EQUAL(setitimer(ITIMER_REAL, &never, NULL), 0);
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

/* Where notifiers die with us a sleep is one sleep: half a second would be ten slices. */
static void slept_through(void) {
  _Atomic uint32_t word = 0;
  struct maru_wait_policy policy;
  struct rusage before, after;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  policy.own = 1;
  CHECK_EQUAL(getrusage(RUSAGE_THREAD, &before), 0);
  CHECK_EQUAL(maru_wait(&word, 2, ~1u, &policy, maru_now_ns() + 500 * MS), -ETIMEDOUT);
  CHECK_EQUAL(getrusage(RUSAGE_THREAD, &after), 0);
  CHECK(after.ru_nvcsw - before.ru_nvcsw < 5);
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

/* The others may be awake when the signal comes. */
static bool sleeps(enum maru_wait_kind kind) {
  return kind != MARU_WAIT_SLEEP_POLL && kind != MARU_WAIT_SPIN && kind != MARU_WAIT_YIELD &&
         kind != MARU_WAIT_SPIN_LOWER && kind != MARU_WAIT_LOWER_YIELD;
}

/* A word that is no channel: what runs instead is said, with a reason. */
static void stand_ins(const struct maru_wait_policy *policy) {
  const char *why;
  enum maru_wait_kind runs = maru_wait_runs_as(policy, &why);
  CHECK_EQUAL(runs == policy->kind, why[0] == '\0');
  CHECK_EQUAL(maru_wait_runs_as(policy, NULL), runs);
  if (policy->kind == MARU_WAIT_COOP || policy->kind == MARU_WAIT_GANG)
    CHECK_EQUAL(runs, MARU_WAIT_SPIN_BLOCK);
  else if (policy->kind != MARU_WAIT_SPIN_LOWER && policy->kind != MARU_WAIT_LOWER_YIELD)
    CHECK_EQUAL(runs, policy->kind);
}

/* A hand-over wakes somebody who sleeps: that takes a multiple of waking nobody. */
static void handover(void) {
  _Atomic uint32_t word = 0;
  int64_t nobody = INT64_MAX;
  for (int i = 0; i < 100; i++) {
    atomic_store(&word, MARU_WAIT_ARMED);
    int64_t begin = maru_now_ns();
    maru_notify(&word);
    int64_t time = maru_now_ns() - begin;
    nobody = time < nobody ? time : nobody;
  }
  for (int i = 0; i < 20; i++) {
    int64_t measured = maru_wait_measure_handover();
    if (measured < 0)
      CHECK_EQUAL(measured, -ETIMEDOUT);
    else
      CHECK(measured > 3 * nobody);
  }
}

int main(void) {
  names();
  ways_as_written();
  handover();
  bad_arguments();
  cut_short();
  slept_through();
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++) {
    struct maru_wait_policy policy;
    CHECK_EQUAL(maru_wait_policy_init(&policy, (enum maru_wait_kind)kind), 0);
    stand_ins(&policy);
    met_and_timed_out(&policy);
    killed_notifier(&policy);
    if (sleeps((enum maru_wait_kind)kind))
      interrupted(&policy);
    CHECK_EQUAL(getpriority(PRIO_PROCESS, 0), 0);
  }
  return 0;
}
