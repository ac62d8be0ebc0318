/* journal_lines.c: what a journal holds, and the lines that say so. */
#define _GNU_SOURCE
#include "journal_parts.h"

#include "numbers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES (3 * MR_VALUE_MAX)
#define NO_CPU "-"

/* ---- what it holds ------------------------------------------------------------- */

struct mr_change *mr_journal_find(const struct mr_journal *journal,
                                  const struct mr_target *target) {
  for (size_t i = journal->count; i-- > 0;)
    if (!journal->changes[i].back && mr_target_same(&journal->changes[i].target, target))
      return &journal->changes[i];
  return NULL;
}

struct mr_change *mr_journal_add_change(struct mr_journal *journal, const struct mr_target *target,
                                        const char *found) {
  struct mr_change *grown =
      reallocarray(journal->changes, journal->count + 1, sizeof *journal->changes);
  if (grown == NULL)
    return NULL;
  journal->changes = grown;
  struct mr_change *change = &grown[journal->count];
  *change = (struct mr_change){.target = *target, .found = strdup(found)};
  if (change->found == NULL)
    return NULL;
  journal->count++;
  return change;
}

bool mr_journal_shows(const char *value, const char *now, const struct mr_cpus *usable) {
  char text[MR_CPUS_TEXT];
  struct mr_cpus set;
  if (strcmp(value, now) == 0)
    return true;
  if (usable == NULL || !mr_cpus_parse_list(value, &set))
    return false;
  mr_cpus_keep(&set, usable);
  mr_cpus_list(&set, text);
  return strcmp(text, now) == 0;
}

bool mr_journal_wrote(const struct mr_change *change, const char *now,
                      const struct mr_cpus *usable) {
  for (size_t i = 0; i < change->wrote_count; i++)
    if (mr_journal_shows(change->wrote[i], now, usable))
      return true;
  return false;
}

static int add_wrote(struct mr_change *change, const char *value) {
  if (mr_journal_wrote(change, value, NULL))
    return 0;
  char **grown = reallocarray(change->wrote, change->wrote_count + 1, sizeof *grown);
  if (grown == NULL)
    return -ENOMEM;
  change->wrote = grown;
  grown[change->wrote_count] = strdup(value);
  if (grown[change->wrote_count] == NULL)
    return -ENOMEM;
  change->wrote_count++;
  return 0;
}

bool mr_journal_wrote_to_threads(const struct mr_journal *journal, const char *now,
                                 const struct mr_cpus *usable) {
  for (size_t i = 0; i < journal->mask_count; i++)
    if (mr_journal_shows(journal->masks[i], now, usable))
      return true;
  return false;
}

static int add_mask(struct mr_journal *journal, const char *value) {
  if (mr_journal_wrote_to_threads(journal, value, NULL))
    return 0;
  char **grown = reallocarray(journal->masks, journal->mask_count + 1, sizeof *grown);
  if (grown == NULL)
    return -ENOMEM;
  journal->masks = grown;
  grown[journal->mask_count] = strdup(value);
  if (grown[journal->mask_count] == NULL)
    return -ENOMEM;
  journal->mask_count++;
  return 0;
}

int mr_journal_add_value(struct mr_journal *journal, struct mr_change *change, const char *value) {
  int error = change->target.tid != 0 ? add_mask(journal, value) : 0;
  return error < 0 ? error : add_wrote(change, value);
}

int mr_journal_add_group(struct mr_journal *journal, const char *path, const char *cpus) {
  struct mr_group *grown =
      reallocarray(journal->groups, journal->group_count + 1, sizeof *journal->groups);
  if (grown == NULL)
    return -ENOMEM;
  journal->groups = grown;
  struct mr_group *group = &grown[journal->group_count];
  *group = (struct mr_group){.path = strdup(path), .cpus = strdup(cpus)};
  if (group->path == NULL || group->cpus == NULL) {
    free(group->path);
    free(group->cpus);
    return -ENOMEM;
  }
  journal->group_count++;
  return 0;
}

void mr_journal_forget_change(struct mr_change *change) {
  for (size_t i = 0; i < change->wrote_count; i++)
    free(change->wrote[i]);
  free(change->wrote);
  free(change->found);
}

void mr_journal_forget(struct mr_journal *journal) {
  for (size_t i = 0; i < journal->count; i++)
    mr_journal_forget_change(&journal->changes[i]);
  for (size_t i = 0; i < journal->mask_count; i++)
    free(journal->masks[i]);
  for (size_t i = 0; i < journal->group_count; i++) {
    free(journal->groups[i].path);
    free(journal->groups[i].cpus);
  }
  free(journal->changes);
  free(journal->masks);
  free(journal->groups);
  free(journal->base);
  journal->changes = NULL;
  journal->masks = NULL;
  journal->groups = NULL;
  journal->base = NULL;
  journal->count = journal->mask_count = journal->group_count = 0;
}

/* ---- lines ----------------------------------------------------------------- */

static uint32_t checksum(const char *text, size_t length) {
  uint32_t sum = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < length; i++)
    sum = (sum ^ (unsigned char)text[i]) * 16777619u;
  return sum;
}

/* In one write: a reader sees all of it, or a part that its checksum tells.  A part is cut off
 * again: what follows it would not be read. */
static int append(struct mr_journal *journal, const char *line) {
  char *whole;
  off_t before = lseek(journal->fd, 0, SEEK_END);
  if (journal->broken || before < 0)
    return -EIO;
  int length = asprintf(&whole, "%s #%08" PRIx32 "\n", line, checksum(line, strlen(line)));
  if (length < 0)
    return -ENOMEM;
  ssize_t written = write(journal->fd, whole, (size_t)length);
  int error = written == length ? 0 : written < 0 ? -errno : -ENOSPC;
  free(whole);
  if (error < 0 && ftruncate(journal->fd, before) < 0)
    journal->broken = true;
  return error;
}

static const char *shown(const char *value) { return *value != '\0' ? value : NO_CPU; }

static const char *meant(const char *text) { return strcmp(text, NO_CPU) == 0 ? "" : text; }

int mr_journal_append_set(struct mr_journal *journal, const struct mr_change *change,
                          const char *value) {
  char line[LINE_MAX_BYTES];
  const struct mr_target *target = &change->target;
  int length = target->tid != 0
                   ? snprintf(line, sizeof line, "set %d %" PRIu64 " %d %" PRIu64 " %s %s",
                              (int)target->tid, target->start, (int)change->process,
                              change->process_start, shown(change->found), shown(value))
                   : snprintf(line, sizeof line, "set %s %s %s", target->path, shown(change->found),
                              shown(value));
  return (size_t)length < sizeof line ? append(journal, line) : -E2BIG;
}

int mr_journal_append_group(struct mr_journal *journal, const struct mr_group *group) {
  char line[MR_GROUP_PATH + MR_VALUE_MAX + 64];
  snprintf(line, sizeof line, "group %s %s", group->path, group->cpus);
  return append(journal, line);
}

int mr_journal_append_served(struct mr_journal *journal) {
  char line[MR_GROUP_PATH + 64];
  snprintf(line, sizeof line, "cpusets %s", journal->home);
  return append(journal, line);
}

int mr_journal_append_back_path(struct mr_journal *journal, const char *path) {
  char line[MR_GROUP_PATH + 64];
  snprintf(line, sizeof line, "back %s", path);
  return append(journal, line);
}

int mr_journal_append_back(struct mr_journal *journal, const struct mr_target *target) {
  char line[64];
  if (target->tid == 0)
    return mr_journal_append_back_path(journal, target->path);
  snprintf(line, sizeof line, "back %d %" PRIu64, (int)target->tid, target->start);
  return append(journal, line);
}

static int append_tree(struct mr_journal *journal) {
  char line[MR_VALUE_MAX + 64];
  snprintf(line, sizeof line, "tree %d %" PRIu64 " %s", (int)journal->tree, journal->tree_start,
           shown(journal->base));
  return append(journal, line);
}

int mr_journal_append_all(struct mr_journal *journal) {
  char line[MR_VALUE_MAX + 64];
  int error = append_tree(journal);
  for (size_t i = 0; error == 0 && i < journal->mask_count; i++) {
    snprintf(line, sizeof line, "mask %s", journal->masks[i]);
    error = append(journal, line);
  }
  for (size_t i = 0; error == 0 && i < journal->count; i++)
    for (size_t j = 0; error == 0 && j < journal->changes[i].wrote_count; j++)
      error = mr_journal_append_set(journal, &journal->changes[i], journal->changes[i].wrote[j]);
  if (error == 0 && journal->serves)
    error = mr_journal_append_served(journal);
  for (size_t i = 0; error == 0 && i < journal->group_count; i++)
    if (!journal->groups[i].back)
      error = mr_journal_append_group(journal, &journal->groups[i]);
  return error;
}

/* ---- reading a journal ------------------------------------------------------- */

/* A process or thread, and when it started; false: the words are no such numbers. */
static bool load_identity(char **words, pid_t *id, uint64_t *start) {
  int64_t number = 0, since = 0;
  if (mr_whole(words[0], 0, INT32_MAX, &number) < 0 || mr_whole(words[1], 0, INT64_MAX, &since) < 0)
    return false;
  *id = (pid_t)number;
  *start = (uint64_t)since;
  return true;
}

/* `words` are of one line; they hold what some version of us wrote and nothing else. */
static int load_set(struct mr_journal *journal, char **words, size_t count) {
  struct mr_target target = {0};
  struct mr_change read = {0};
  if (count == 7) {
    if (!load_identity(words + 1, &target.tid, &target.start) ||
        !load_identity(words + 3, &read.process, &read.process_start))
      return -EINVAL;
  } else if (count == 4 && strlen(words[1]) < sizeof target.path && mr_target_permitted(words[1]))
    strcpy(target.path, words[1]);
  else
    return -EINVAL;
  struct mr_change *change = mr_journal_find(journal, &target);
  if (change == NULL)
    change = mr_journal_add_change(journal, &target, meant(words[count - 2]));
  if (change == NULL)
    return -ENOMEM;
  change->process = read.process;
  change->process_start = read.process_start;
  return mr_journal_add_value(journal, change, meant(words[count - 1]));
}

/* Its home is where its threads go back to. */
static int load_group(struct mr_journal *journal, const char *path, const char *cpus) {
  const char *slash = strrchr(path, '/');
  if (slash == NULL || strlen(path) >= MR_GROUP_PATH)
    return -EINVAL;
  snprintf(journal->home, sizeof journal->home, "%.*s", (int)(slash - path), path);
  return mr_journal_add_group(journal, path, cpus);
}

static int load_served(struct mr_journal *journal, const char *home) {
  if (strlen(home) >= MR_GROUP_PATH)
    return -EINVAL;
  strcpy(journal->home, home);
  journal->serves = true;
  return 0;
}

static void load_back_path(struct mr_journal *journal, const char *path) {
  if (strcmp(path, journal->home) == 0)
    journal->serves = false;
  for (size_t i = 0; i < journal->group_count; i++)
    if (strcmp(path, journal->groups[i].path) == 0)
      journal->groups[i].back = true;
}

static int load_line(struct mr_journal *journal, char *line) {
  char *words[8], *rest = line;
  size_t count = 0;
  for (char *word; count < 8 && (word = strsep(&rest, " ")) != NULL;)
    words[count++] = word;
  if (count == 4 && strcmp(words[0], "tree") == 0) {
    if (!load_identity(words + 1, &journal->tree, &journal->tree_start))
      return -EINVAL;
    journal->base = strdup(meant(words[3]));
    return journal->base != NULL ? 0 : -ENOMEM;
  }
  if (count == 2 && strcmp(words[0], "mask") == 0)
    return add_mask(journal, words[1]);
  if (strcmp(words[0], "set") == 0)
    return load_set(journal, words, count);
  if (count == 3 && strcmp(words[0], "group") == 0)
    return load_group(journal, words[1], words[2]);
  if (count == 2 && strcmp(words[0], "cpusets") == 0)
    return load_served(journal, words[1]);
  if (count == 2 && strcmp(words[0], "back") == 0)
    load_back_path(journal, words[1]);
  if (strcmp(words[0], "back") != 0 || (count != 2 && count != 3))
    return -EINVAL;
  struct mr_target target = {0};
  if (count == 3) {
    if (!load_identity(words + 1, &target.tid, &target.start))
      return -EINVAL;
  } else
    snprintf(target.path, sizeof target.path, "%s", words[1]);
  struct mr_change *change = mr_journal_find(journal, &target);
  if (change != NULL)
    change->back = true;
  return 0;
}

int mr_journal_load(struct mr_journal *journal) {
  char *line = NULL;
  size_t room = 0;
  int error = 0;
  int copy = dup(journal->fd);
  FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
  if (file == NULL)
    return -errno;
  rewind(file);
  for (ssize_t length; error == 0 && (length = getline(&line, &room, file)) > 0;) {
    char *mark = strrchr(line, '#');
    if (mark == NULL || mark == line || line[length - 1] != '\n' ||
        strtoul(mark + 1, NULL, 16) != checksum(line, (size_t)(mark - 1 - line)))
      break;
    mark[-1] = '\0';
    error = load_line(journal, line);
  }
  free(line);
  fclose(file);
  return error;
}
