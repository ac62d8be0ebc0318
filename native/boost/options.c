/* options.c: the command line, strict. */
#define _GNU_SOURCE
#include "daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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
  return refuse("unknown policy (auto, wake, restore, pb, pb+lower, gang)", name);
}

static int read_how(struct daemon *self, const char *name) {
  static const char *const names[] = {"fifo", "nice", "none", "gently"};
  for (int how = BOOST_BY_FIFO; how <= BOOST_GENTLY; how++)
    if (strcmp(name, names[how]) == 0) {
      self->how = (enum boost_how)how;
      self->how_is_said = true;
      return 0;
    }
  return refuse("unknown boost (gently, fifo, nice, none)", name);
}

static int read_number(const char *text, long least, long most, long *number) {
  char *end;
  errno = 0;
  *number = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || *number < least || *number > most)
    return refuse("not a number in range", text);
  return 0;
}

/* "1000,1001": user or group numbers. */
static int read_ids(const char *text, unsigned *ids, unsigned *count) {
  char *end = NULL;
  for (const char *at = text;; at = end + 1) {
    errno = 0;
    unsigned long long id = strtoull(at, &end, 10);
    if (errno != 0 || end == at || *at < '0' || *at > '9' || id >= UINT32_MAX)
      return refuse("no list of user or group numbers", text);
    if (*count == BOOST_NAMES)
      return refuse("more users or groups than there is room for (64)", text);
    ids[(*count)++] = (unsigned)id;
    if (*end == '\0')
      return 0;
    if (*end != ',')
      return refuse("no list of user or group numbers", text);
  }
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

static int read_option(struct daemon *self, const char *name, const char *value) {
  long number = 0;
  int rc = 0;
  if (strcmp(name, "--policy") == 0)
    return boost_read_policy(self, value);
  if (strcmp(name, "--boost") == 0)
    return read_how(self, value);
  if (strcmp(name, "--users") == 0)
    return read_ids(value, self->served.users, &self->served.user_count);
  if (strcmp(name, "--groups") == 0)
    return read_ids(value, self->served.groups, &self->served.group_count);
  if (strcmp(name, "--period-us") == 0) {
    rc = read_number(value, 0, 50000, &number);
    if (rc == 0 && number != 0 && number < 100)
      return refuse("a period is 100 us to 50 ms", value);
    self->period_ns = number * 1000;
  } else if (strcmp(name, "--cap") == 0) {
    rc = read_number(value, 0, 100, &number);
    self->rules.cap_percent = (unsigned)number;
  } else if (strcmp(name, "--for-ms") == 0) {
    rc = read_number(value, 1, 1000000000, &number);
    self->until_ns = maru_now_ns() + number * 1000000;
  } else if (strcmp(name, "--board") == 0) {
    self->finds = false;
    rc = open_board(self, value);
    if (rc < 0) {
      fprintf(stderr, "maru-boost: cannot use this board: %s: %s\n", value, strerror(-rc));
      return rc == -EINVAL ? -EPROTO : rc;
    }
    return 0;
  } else
    return refuse("unknown option", name);
  return rc;
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

int boost_read_options(struct daemon *self, int argc, char **argv) {
  self->finds = true;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--dry-run") == 0)
      self->dry_run = true;
    else if (strcmp(argv[i], "--json") == 0)
      self->json = true;
    else if (strcmp(argv[i], "--until-input-ends") == 0)
      self->with_input = true;
    else if (i + 1 == argc)
      return refuse("unknown option, or without a value", argv[i]);
    else {
      int rc = read_option(self, argv[i], argv[i + 1]);
      if (rc < 0)
        return rc;
      i++;
    }
  }
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
