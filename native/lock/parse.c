/* parse.c: what a lock is made of, as it is written: "cna:deadline=25us,handoff_range=0x100". */
#include "kinds.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct word {
  const char *text;
  size_t length;
};

static bool is_word(struct word word, const char *expected) {
  return strlen(expected) == word.length && strncmp(word.text, expected, word.length) == 0;
}

static struct word until(const char *text, const char *stops) {
  return (struct word){text, strcspn(text, stops)};
}

/* Decimal or 0x..., the whole of the word but for `unit`. */
static bool read_number(struct word word, uint64_t *number, struct word *unit) {
  char *end;
  if (word.length == 0 || !isdigit((unsigned char)*word.text))
    return false;
  errno = 0;
  *number = strtoull(word.text, &end, word.text[1] == 'x' ? 16 : 10);
  size_t read = (size_t)(end - word.text);
  if (errno != 0 || read > word.length)
    return false;
  *unit = (struct word){end, word.length - read};
  return true;
}

static bool read_plain(struct word word, uint64_t most, uint64_t *number) {
  struct word unit;
  return read_number(word, number, &unit) && unit.length == 0 && *number <= most;
}

static bool read_time(struct word word, uint64_t most, uint64_t *ns) {
  static const struct {
    const char *name;
    uint64_t ns;
  } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  struct word unit;
  uint64_t number;
  if (!read_number(word, &number, &unit))
    return false;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (is_word(unit, units[i].name) && number <= most / units[i].ns) {
      *ns = number * units[i].ns;
      return true;
    }
  return false;
}

static bool read_wait(struct word word, enum maru_wait_kind *wait) {
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++)
    if (is_word(word, maru_wait_kind_name((enum maru_wait_kind)kind))) {
      *wait = (enum maru_wait_kind)kind;
      return true;
    }
  return false;
}

static bool read_range(struct word word, uint32_t *range) {
  uint64_t number;
  if (!read_plain(word, MARU_LOCK_RANGE_MAX, &number) || !mr_is_lock_range(number))
    return false;
  *range = (uint32_t)number;
  return true;
}

/* False: `value` is none of `key`'s; *known: there is such a key. */
static bool set(struct maru_lock_options *options, struct word key, struct word value,
                bool *known) {
  uint64_t number = 0;
  *known = true;
  if (is_word(key, "wait"))
    return read_wait(value, &options->wait);
  if (is_word(key, "spin")) {
    bool good = read_time(value, UINT32_MAX, &number);
    options->spin_ns = (uint32_t)number;
    return good;
  }
  if (is_word(key, "handoff_range"))
    return read_range(value, &options->handoff_range);
  if (is_word(key, "shuffle_reduction"))
    return read_range(value, &options->shuffle_reduction);
  if (is_word(key, "deadline"))
    return read_time(value, INT64_MAX, &options->deadline_ns);
  if (is_word(key, "max_bypass"))
    return read_plain(value, UINT64_MAX, &options->max_bypass);
  if (is_word(key, "passes")) {
    bool good = read_plain(value, UINT32_MAX, &number) && number > 0;
    options->passes = (uint32_t)number;
    return good;
  }
  if (is_word(key, "seed"))
    return read_plain(value, UINT64_MAX, &options->seed) && options->seed > 0;
  *known = false;
  return false;
}

/* MARU_LOCK_KINDS: it is none's name. */
static enum maru_lock_kind read_kind(struct word name) {
  if (is_word(name, "default"))
    return MARU_LOCK_DEFAULT;
  int kind = 0;
  while (kind < MARU_LOCK_KINDS && !is_word(name, maru_lock_kind_name((enum maru_lock_kind)kind)))
    kind++;
  return (enum maru_lock_kind)kind;
}

/* Whether it stands before, too; `keys` begins with a key. Of two values one would be ignored. */
static bool is_repeated(const char *keys, struct word key) {
  for (const char *at = keys; at < key.text; at += strcspn(at, ",") + 1)
    if (strncmp(at, key.text, key.length) == 0 && at[key.length] == '=')
      return true;
  return false;
}

/* NULL, or where the mistake is. */
static const char *read_options(struct maru_lock_options *options, const char *text) {
  struct word name = until(text, ":");
  if (maru_lock_options_init(options, read_kind(name)) < 0)
    return text;
  const char *at = text + name.length, *spin = NULL;
  while (*at != '\0') {
    struct word key = until(at + 1, "=,");
    struct word value = until(key.text + key.length, ",");
    bool known;
    if (*value.text != '=' || is_repeated(text + name.length + 1, key))
      return key.text;
    value.text++, value.length--;
    if (!set(options, key, value, &known))
      return known ? value.text : key.text;
    spin = is_word(key, "spin") ? value.text : spin;
    at = value.text + value.length;
  }
  return maru_wait_takes_spin(options->wait) ? NULL : spin;
}

int maru_lock_options_parse(struct maru_lock_options *options, const char *text,
                            const char **wrong) {
  const char *mistake = read_options(options, text);
  if (wrong != NULL)
    *wrong = mistake;
  return mistake == NULL ? 0 : -EINVAL;
}
