#define _GNU_SOURCE
#include "probe.h"

#include "access.h"
#include "policy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <maru/board.h>
#include <maru/overlay.h>
#include <maru/topology.h>
#include <maru/wait.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define HUGE_PAGE ((size_t)2 << 20)

static int result(long returned) { return returned < 0 ? -errno : 0; }

int maru_probe_memfd(void) {
  int fd = memfd_create("maru-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -errno;
  int error = result(ftruncate(fd, HUGE_PAGE));
  if (error == 0)
    error = result(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
  if (error == 0) {
    void *mapped = mmap(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    error = mapped == MAP_FAILED ? -errno : result(munmap(mapped, HUGE_PAGE));
  }
  close(fd);
  return error;
}

int maru_probe_futex(void) {
  uint32_t word = 0;
  return result(syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0));
}

int maru_probe_pidfd(void) {
  int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  return fd < 0 ? -errno : result(close(fd));
}

int maru_probe_access(int way) { return mr_access_probe((enum mr_access_way)way); }

int maru_probe_collapse(void) {
  /* Twice the size holds one aligned huge page wherever it lies. */
  char *mapped =
      mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return -errno;
  char *aligned = mapped + (-(uintptr_t)mapped & (HUGE_PAGE - 1));
  memset(aligned, 1, HUGE_PAGE);
  int error = result(madvise(aligned, HUGE_PAGE, MADV_COLLAPSE));
  munmap(mapped, 2 * HUGE_PAGE);
  return error;
}

int maru_probe_scratch(const char *name) {
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0)
    return -errno;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  int error = high < 0 ? -errno : high;
  close(fd);
  return error;
}

int maru_probe_topology(struct maru_probe_topology *seen) {
  struct maru_topology topology;
  int error = maru_topology_read(&topology);
  if (error < 0)
    return error;
  *seen = (struct maru_probe_topology){
      .cpus = topology.cpu_count,
      .allowed = topology.allowed_count,
      .cores = topology.core_count,
      .nodes = topology.node_count,
      .sockets = topology.socket_count,
      .quota_millicpus = topology.quota_millicpus,
      .memory_limit = topology.memory_limit,
      .workers = maru_topology_workers(&topology),
      .degraded = topology.degraded,
      .described = topology.virtual_machine,
  };
  maru_topology_free(&topology);
  return 0;
}

int maru_probe_policy(int kind, const char **why) {
  struct maru_board board;
  struct maru_channel *channel;
  struct maru_wait_policy policy;
  int error = maru_board_create(&board, sizeof(struct maru_wait_table));
  if (error < 0)
    return error;
  error = maru_channel_register(&board, 0, 0, &channel);
  if (error == 0)
    error = maru_wait_policy_init(&policy, (enum maru_wait_kind)kind);
  if (error == 0)
    error = maru_channel_attach(channel, &policy);
  if (error == 0)
    error = (int)maru_wait_runs_as(&policy, why);
  maru_board_close(&board);
  return error;
}

int maru_probe_word_policy(int kind, const char **why) {
  struct maru_wait_policy policy;
  int error = maru_wait_policy_init(&policy, (enum maru_wait_kind)kind);
  return error < 0 ? error : (int)maru_wait_runs_as(&policy, why);
}

/* ---- hand-over --------------------------------------------------------- */

struct handover {
  _Atomic uint32_t word;  /* changed by the notifier */
  _Atomic uint32_t ready; /* changed by the waiter before each wait */
  _Atomic int64_t changed_ns;
  int64_t pause_ns;
  int64_t deadline_ns;
  int64_t *latency_ns;
  int rounds;
  int done;  /* by the waiter; read after it was joined */
  int error; /* the notifier's; likewise */
  struct maru_wait_policy policy;
};

/* -EINTR is no answer; everything else is. */
static int await_change(_Atomic uint32_t *word, uint32_t seen, struct maru_wait_policy *policy,
                        int64_t deadline_ns) {
  int error;
  do
    error = maru_wait_while(word, seen, ~MARU_WAIT_ARMED, policy, deadline_ns);
  while (error == -EINTR);
  return error;
}

static void *wait_for_changes(void *argument) {
  struct handover *h = argument;
  for (int i = 0; i < h->rounds; i++) {
    /* Only this side's request makes the notifier change the word, so it still
     * has the value read here when the wait begins. */
    uint32_t seen = atomic_load_explicit(&h->word, memory_order_relaxed) & ~MARU_WAIT_ARMED;
    maru_notify(&h->ready);
    if (await_change(&h->word, seen, &h->policy, h->deadline_ns) < 0)
      break;
    /* Ordered behind the word's change by the acquire in the wait. */
    h->latency_ns[i] = maru_now_ns() - atomic_load_explicit(&h->changed_ns, memory_order_relaxed);
    h->done = i + 1;
  }
  return NULL;
}

/* Short pauses are spun: a sleep is 50 us too long. */
static void pause_for(int64_t ns) {
  if (ns >= 200000) {
    struct timespec time = {.tv_nsec = ns};
    nanosleep(&time, NULL);
    return;
  }
  int64_t end = maru_now_ns() + ns;
  while (maru_now_ns() < end)
    ;
}

static void *change_words(void *argument) {
  struct handover *h = argument;
  struct maru_wait_policy policy;
  int error = maru_wait_policy_init(&policy, MARU_WAIT_SPIN_BLOCK);
  uint32_t seen = 0;
  for (int i = 0; i < h->rounds && error == 0; i++) {
    error = await_change(&h->ready, seen, &policy, h->deadline_ns);
    if (error < 0)
      break;
    seen += MARU_WAIT_STEP;
    pause_for(h->pause_ns);
    /* Ordered before the change by the release in the notification. */
    atomic_store_explicit(&h->changed_ns, maru_now_ns(), memory_order_relaxed);
    maru_notify(&h->word);
  }
  h->error = error == -ETIMEDOUT ? 0 : error;
  return NULL;
}

/* The first or the last CPU that this process may use: two threads that share
 * one would measure the scheduler. */
static cpu_set_t one_cpu(int last) {
  cpu_set_t allowed, chosen;
  int found = -1;
  CPU_ZERO(&chosen);
  if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
    CPU_ZERO(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE && (found < 0 || last); cpu++)
    if (CPU_ISSET(cpu, &allowed))
      found = cpu;
  if (found >= 0)
    CPU_SET(found, &chosen);
  return chosen;
}

static int start_on(pthread_t *thread, cpu_set_t cpu, void *(*run)(void *), void *argument) {
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error != 0)
    return -error;
  if (CPU_COUNT(&cpu) > 0)
    error = pthread_attr_setaffinity_np(&attributes, sizeof cpu, &cpu);
  if (error == 0)
    error = pthread_create(thread, &attributes, run, argument);
  pthread_attr_destroy(&attributes);
  return -error;
}

int maru_probe_handover(int kind, int64_t pause_ns, int rounds, int64_t *latency_ns) {
  struct handover h = {.pause_ns = pause_ns, .latency_ns = latency_ns, .rounds = rounds};
  pthread_t waiter, notifier;
  int error = maru_wait_policy_init(&h.policy, (enum maru_wait_kind)kind);
  if (error < 0)
    return error;
  h.deadline_ns = maru_now_ns() + 500000000;
  error = start_on(&waiter, one_cpu(0), wait_for_changes, &h);
  if (error < 0)
    return error;
  error = start_on(&notifier, one_cpu(1), change_words, &h);
  if (error == 0)
    pthread_join(notifier, NULL);
  pthread_join(waiter, NULL);
  if (error == 0)
    error = h.error;
  return error < 0 ? error : h.done;
}

const char *maru_probe_overlay(unsigned position) {
  const struct mr_policy *policy = mr_policy_at(position);
  return policy != NULL ? policy->name : NULL;
}

const char *maru_probe_overlay_key(unsigned position, unsigned key) {
  const struct mr_policy *policy = mr_policy_at(position);
  return policy != NULL && key < MR_POLICY_KEYS ? policy->keys[key] : NULL;
}

int maru_probe_overlay_options(const char *text) {
  const struct mr_policy *policy;
  struct maru_lock_options options;
  const char *wrong;
  return mr_policy_read(text, &policy, &options, &wrong) == 0 ? -1 : (int)(wrong - text);
}

/* Relaxed: each knob stands for itself. */
static int set_knob(struct maru_overlay_knobs *knobs, int knob, uint64_t value) {
  switch (knob) {
  case MARU_PROBE_DEADLINE:
    atomic_store_explicit(&knobs->deadline_ns, value, memory_order_relaxed);
    return 0;
  case MARU_PROBE_RANGE:
    atomic_store_explicit(&knobs->handoff_range, (uint32_t)value, memory_order_relaxed);
    return 0;
  case MARU_PROBE_PATIENCE:
    atomic_store_explicit(&knobs->patience_ns, value, memory_order_relaxed);
    return 0;
  default:
    return -EINVAL;
  }
}

int maru_probe_overlay_knob(const char *path, int knob, uint64_t value) {
  struct maru_board board;
  void *section;
  int error = maru_board_open(&board, path);
  if (error < 0)
    return error;
  error = maru_board_find(&board, MARU_OVERLAY_SECTION, MARU_OVERLAY_VERSION,
                          sizeof(struct maru_overlay), &section);
  if (error == 0)
    error = set_knob(&((struct maru_overlay *)section)->knobs, knob, value);
  maru_board_close(&board);
  return error;
}
