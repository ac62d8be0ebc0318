/* options.c: the command line, strict. */
#define _GNU_SOURCE
#include "arguments.h"
#include "daemon.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SLOT_NS INT64_C(20000000)
#define PB_PERIOD_NS INT64_C(20000000)

struct named_rules {
  const char *name;
  struct boost_rules rules;
};

static const struct named_rules policies[] = {
    {"auto", {.restores = true, .raises = true}},
    {"wake", {0}},
    {"restore", {.restores = true}},
    {"pb", {.raises = true, .at_once = true}},
    {"pb+lower", {.raises = true, .at_once = true, .restores = true}},
    {"gang", {.slots = true, .slot_ns = SLOT_NS}},
};

static int refuse(const char *what, const char *about) {
  fprintf(stderr, "maru-boost: %s: %s\n", what, about);
  return -EINVAL;
}

int boost_read_policy(struct daemon *self, const char *name) {
  for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
    if (strcmp(name, policies[i].name) == 0) {
      unsigned cap = self->rules.cap_percent;
      uint32_t cpus = self->rules.cpus;
      self->rules = policies[i].rules;
      self->rules.cap_percent = cap;
      self->rules.cpus = cpus;
      return 0;
    }
  return -EINVAL;
}

static int take_policy(void *context, const char *name) { return boost_read_policy(context, name); }

static int take_how(void *context, const char *name) {
  static const char *const names[] = {"fifo", "nice", "none", "gently"};
  struct daemon *self = context;
  for (int how = BOOST_BY_FIFO; how <= BOOST_GENTLY; how++)
    if (strcmp(name, names[how]) == 0) {
      self->how = (enum boost_how)how;
      self->how_is_said = true;
      return 0;
    }
  return -EINVAL;
}

/* "1000,1001": user or group numbers. */
static int read_ids(const char *text, unsigned *ids, unsigned *count) {
  for (const char *at = text; *at != '\0';) {
    char word[16];
    int64_t id;
    size_t length = strcspn(at, ",");
    snprintf(word, sizeof word, "%.*s", (int)length, at);
    if (length >= sizeof word || mr_whole(word, 0, UINT32_MAX - 1, &id) < 0 ||
        *count == BOOST_NAMES || (at[length] == ',' && at[length + 1] == '\0'))
      return -EINVAL;
    ids[(*count)++] = (unsigned)id;
    at += length + (at[length] == ',');
  }
  return *text != '\0' ? 0 : -EINVAL;
}

static int take_users(void *context, const char *text) {
  struct boost_served *served = context;
  return read_ids(text, served->users, &served->user_count);
}

static int take_groups(void *context, const char *text) {
  struct boost_served *served = context;
  return read_ids(text, served->groups, &served->group_count);
}

static bool is_open(void *context, const struct stat *status) {
  const struct boost_boards *boards = context;
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (boards->slots[i] != NULL && boards->slots[i]->status.st_ino == status->st_ino)
      return true;
  return false;
}

static int open_board(struct daemon *self, const char *path) {
  struct boost_board *made;
  int rc = boost_board_open(&made, path, is_open, &self->boards);
  if (rc == 0 && (rc = boost_boards_put(&self->boards, made)) < 0)
    boost_board_free(made);
  return rc == -EALREADY ? 0 : rc;
}

/* What is named on the command line, until it is opened. */
struct named {
  const char *paths[BOOST_BOARDS];
  unsigned count;
};

static int take_board(void *context, const char *path) {
  struct named *named = context;
  if (named->count == BOOST_BOARDS)
    return -EINVAL;
  named->paths[named->count++] = path;
  return 0;
}

static int open_named(struct daemon *self, const struct named *named) {
  for (unsigned i = 0; i < named->count; i++) {
    int rc = open_board(self, named->paths[i]);
    if (rc < 0) {
      fprintf(stderr, "maru-boost: cannot use this board: %s: %s\n", named->paths[i],
              strerror(-rc));
      return rc == -EINVAL ? -EPROTO : rc;
    }
  }
  self->finds = named->count == 0;
  return 0;
}

/* As root others' threads are raised beside everybody's: gently, unless the administrator says
 * otherwise. */
static int choose_how(struct daemon *self) {
  bool by_turns = self->rules.slots || self->rules.at_once;
  if (!self->how_is_said && geteuid() == 0 && self->how != BOOST_BY_NOTHING) {
    if (by_turns)
      return refuse("as root pb, pb+lower and gang need it", "--boost fifo or --boost nice");
    self->how = BOOST_GENTLY;
  }
  if (self->how == BOOST_GENTLY && by_turns)
    return refuse("of pb, pb+lower and gang by fifo or nice alone", "--boost gently");
  self->rules.gently = self->how == BOOST_GENTLY && self->rules.raises;
  return 0;
}

#define LIST "list of up to 64 user or group numbers"

int boost_read_options(struct daemon *self, int argc, char **argv) {
  struct named named = {.count = 0};
  struct mr_each policy = {take_policy, self}, how = {take_how, self}, board = {take_board, &named},
                 users = {take_users, &self->served}, groups = {take_groups, &self->served};
  int64_t period_us = 0, cap = self->rules.cap_percent, for_ms = 0;
  const struct mr_option options[] = {
      {"--policy", MR_EACH, &policy, "policy: auto, wake, restore, pb, pb+lower, gang", 0, 0},
      {"--boost", MR_EACH, &how, "way to boost: gently, fifo, nice, none", 0, 0},
      {"--users", MR_EACH, &users, LIST, 0, 0},
      {"--groups", MR_EACH, &groups, LIST, 0, 0},
      {"--board", MR_EACH, &board, "board: there are 64 at most", 0, 0},
      {"--period-us", MR_WHOLE, &period_us, "microseconds", 0, 50000},
      {"--cap", MR_WHOLE, &cap, "percent", 0, 100},
      {"--for-ms", MR_WHOLE, &for_ms, "milliseconds", 1, 1e9},
      {"--dry-run", MR_FLAG, &self->dry_run, NULL, 0, 0},
      {"--json", MR_FLAG, &self->json, NULL, 0, 0},
      {"--until-input-ends", MR_FLAG, &self->with_input, NULL, 0, 0},
  };
  int at = mr_arguments("maru-boost", options, sizeof options / sizeof *options, argc, argv);
  if (at < argc)
    return refuse("no such argument", argv[at]);
  if (period_us != 0 && period_us < 100)
    return refuse("a period is 100 us to 50 ms", "--period-us");
  self->period_ns = period_us * 1000;
  self->rules.cap_percent = (unsigned)cap;
  self->until_ns = for_ms > 0 ? maru_now_ns() + for_ms * 1000000 : self->until_ns;
  int rc = open_named(self, &named);
  if (rc < 0)
    return rc;
  if (geteuid() != 0 && self->served.user_count + self->served.group_count > 0)
    return refuse("only root serves others", "--users, --groups");
  if (choose_how(self) < 0)
    return -EINVAL;
  if (self->rules.slots && self->period_ns > 0)
    self->rules.slot_ns = self->period_ns;
  if (self->rules.at_once && self->period_ns == 0)
    self->period_ns = PB_PERIOD_NS;
  return 0;
}
