/* policy.c: the kinds of waiting, and which of them really runs. */
#define _GNU_SOURCE
#include "priority.h"
#include "ways.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

#define DEFAULT_SPIN_NS 20000u
#define CPUS_MOST 8192u

_Static_assert(sizeof(struct maru_wait_policy) == 40,
               "Maru.Native.Channel and Maru.Wait allocate so much");
_Static_assert(offsetof(struct maru_wait_policy, spin_ns) == 4, "Maru.Native.Channel writes there");

enum why { AS_ASKED, CANNOT_RESTORE, NO_CHANNEL, NO_DOORBELL, NO_SLOTS };

static const char *const reasons[] = {
    [AS_ASKED] = "",
    [CANNOT_RESTORE] = "a lowered thread could not come back: CAP_SYS_NICE or ulimit -e is missing",
    [NO_CHANNEL] = "the word is not a channel on a board, so other waiters cannot see it",
    [NO_DOORBELL] = "the sender of this channel rings no doorbell",
    [NO_SLOTS] = "no `maru boost --policy gang` gives time slots",
};

static const char *const names[MARU_WAIT_KINDS] = {
    [MARU_WAIT_ADAPTIVE] = "adaptive",
    [MARU_WAIT_SPIN] = "spin",
    [MARU_WAIT_YIELD] = "yield",
    [MARU_WAIT_BLOCK] = "block",
    [MARU_WAIT_SPIN_BLOCK] = "spin-block",
    [MARU_WAIT_SPIN_LOWER] = "spin-lower",
    [MARU_WAIT_LOWER_YIELD] = "lower-yield",
    [MARU_WAIT_SLEEP_POLL] = "sleep-poll",
    [MARU_WAIT_COOP] = "coop",
    [MARU_WAIT_GANG] = "gang",
    [MARU_WAIT_DCS] = "dcs",
};

const char *maru_wait_kind_name(enum maru_wait_kind kind) {
  return (unsigned)kind < MARU_WAIT_KINDS ? names[kind] : NULL;
}

int maru_wait_kind_of(const char *name) {
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++)
    if (strcmp(name, names[kind]) == 0)
      return kind;
  return -EINVAL;
}

int maru_wait_takes_spin(enum maru_wait_kind kind) {
  return kind != MARU_WAIT_SPIN && kind != MARU_WAIT_BLOCK && kind != MARU_WAIT_GANG &&
         kind != MARU_WAIT_DCS;
}

uint32_t mr_cpus_allowed(void) {
  unsigned long mask[CPUS_MOST / 8 / sizeof(unsigned long)] = {0};
  if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask) < 0)
    return CPUS_MOST; /* the mask does not fit: a large machine */
  return (uint32_t)CPU_COUNT_S(sizeof mask, (cpu_set_t *)mask);
}

static void run_instead(struct maru_wait_policy *policy, enum maru_wait_kind kind, enum why why) {
  policy->runs = kind;
  policy->why = (uint16_t)why;
}

static bool may_lower(const struct maru_wait_policy *policy) {
  struct mr_sched own;
  int rc = 0;
  if (policy->channel != NULL)
    own = mr_channel_normal(policy->channel);
  else
    rc = mr_sched_get(0, &own);
  return rc == 0 && mr_sched_can_restore(&own) == 0;
}

void mr_wait_decide(struct maru_wait_policy *policy) {
  bool shared = policy->channel != NULL;
  bool silent = shared && mr_channel_silent(policy->channel);
  run_instead(policy, (enum maru_wait_kind)policy->kind, AS_ASKED);
  switch (policy->kind) {
  case MARU_WAIT_SPIN_LOWER:
  case MARU_WAIT_LOWER_YIELD:
    if (!may_lower(policy))
      run_instead(policy, shared ? MARU_WAIT_COOP : MARU_WAIT_YIELD, CANNOT_RESTORE);
    break;
  case MARU_WAIT_COOP:
  case MARU_WAIT_GANG:
    if (!shared)
      run_instead(policy, MARU_WAIT_SPIN_BLOCK, NO_CHANNEL);
    break;
  case MARU_WAIT_BLOCK:
  case MARU_WAIT_SPIN_BLOCK:
  case MARU_WAIT_DCS:
    if (silent)
      run_instead(policy, MARU_WAIT_COOP, NO_DOORBELL);
    break;
  default:
    break;
  }
}

int maru_wait_policy_init(struct maru_wait_policy *policy, enum maru_wait_kind kind) {
  if ((unsigned)kind >= MARU_WAIT_KINDS)
    return -EINVAL;
  *policy = (struct maru_wait_policy){.kind = kind,
                                      .spin_ns = DEFAULT_SPIN_NS,
                                      .learned = DEFAULT_SPIN_NS,
                                      .spare = mr_cpus_allowed() > 1};
  mr_wait_decide(policy);
  return 0;
}

void mr_wait_cannot_restore(struct maru_wait_policy *policy) {
  run_instead(policy, policy->channel != NULL ? MARU_WAIT_COOP : MARU_WAIT_YIELD, CANNOT_RESTORE);
}

enum maru_wait_kind maru_wait_runs_as(const struct maru_wait_policy *policy, const char **why) {
  /* Whether there are time slots changes while the thread waits. */
  bool slotless = policy->runs == MARU_WAIT_GANG && !mr_daemon_slots(policy->table);
  if (why != NULL)
    *why = reasons[slotless ? (uint32_t)NO_SLOTS : policy->why];
  return slotless ? MARU_WAIT_COOP : (enum maru_wait_kind)policy->runs;
}
