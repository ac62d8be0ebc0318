#include "policy.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 256

/* What needs memory for each socket, or a word of its own, cannot be laid over a mutex. */
static const struct mr_policy policies[] = {
    {.name = "pass", .kind = MARU_LOCK_PTHREAD},
    {.name = "fifo",
     .keys = {"wait", "spin"},
     .kind = MARU_LOCK_MCS,
     .order = MR_IN_TURN,
     .queues = true},
    {.name = "cna",
     .keys = {"deadline", "handoff_range", "shuffle_reduction", "max_bypass", "wait", "spin"},
     .kind = MARU_LOCK_CNA,
     .order = MR_NEAR,
     .queues = true,
     .places = true},
    {.name = "shfl",
     .keys = {"passes", "wait", "spin"},
     .kind = MARU_LOCK_SHFL,
     .order = MR_IN_TURN,
     .queues = true,
     .shuffles = true,
     .places = true},
    {.name = "malthusian",
     .keys = {"handoff_range", "wait", "spin"},
     .kind = MARU_LOCK_MALTHUSIAN,
     .order = MR_FEW,
     .queues = true},
};

const struct mr_policy *mr_policy_at(unsigned position) {
  return position < sizeof policies / sizeof *policies ? &policies[position] : NULL;
}

static const struct mr_policy *find(const char *text, size_t length) {
  const struct mr_policy *policy;
  for (unsigned i = 0; (policy = mr_policy_at(i)) != NULL; i++)
    if (strlen(policy->name) == length && strncmp(policy->name, text, length) == 0)
      return policy;
  return NULL;
}

/* Waits that are no cancellation points and ask nobody's leave. */
static bool may_wait(enum maru_wait_kind kind) {
  return kind == MARU_WAIT_ADAPTIVE || kind == MARU_WAIT_SPIN || kind == MARU_WAIT_BLOCK ||
         kind == MARU_WAIT_SPIN_BLOCK;
}

static bool has_key(const struct mr_policy *policy, const char *key, size_t length) {
  for (const char *const *known = policy->keys; *known != NULL; known++)
    if (strlen(*known) == length && strncmp(*known, key, length) == 0)
      return true;
  return false;
}

/* NULL, or the first key in ":KEY=VALUE,..." that the policy does not have. */
static const char *foreign_key(const struct mr_policy *policy, const char *rest) {
  for (const char *at = rest; *at != '\0'; at += strcspn(at, ",")) {
    size_t length = strcspn(++at, "=,");
    if (!has_key(policy, at, length))
      return at;
  }
  return NULL;
}

int mr_policy_read(const char *text, const struct mr_policy **policy,
                   struct maru_lock_options *options, const char **wrong) {
  size_t length = strcspn(text, ":");
  const char *rest = text + length;
  *policy = find(text, length);
  *wrong = text;
  if (*policy == NULL || strlen(rest) >= TEXT_MAX / 2)
    return -EINVAL;
  *wrong = foreign_key(*policy, rest);
  if (*wrong != NULL)
    return -EINVAL;
  const char *name = maru_lock_kind_name((*policy)->kind);
  char library[TEXT_MAX];
  const char *mistake;
  snprintf(library, sizeof library, "%s%s", name, rest);
  if (maru_lock_options_parse(options, library, &mistake) < 0) {
    *wrong = rest + (mistake - library - (ptrdiff_t)strlen(name));
    return -EINVAL;
  }
  if (!may_wait(options->wait)) {
    *wrong = strstr(rest, "wait=") + strlen("wait=");
    return -EINVAL;
  }
  return 0;
}
