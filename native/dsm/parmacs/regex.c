/* regex.c: regular expressions of a program (maru/parmacs.h).
 *
 * What regcomp makes is memory of libc's, which no other node has.  So the program's regex_t refers
 * to the pattern, in the program's memory.  Each process compiles it for itself where it first
 * needs it, and keeps that by the pattern's place.  Another pattern may lie there later: hence a
 * copy.
 *
 * A library's own thread may use one as well: a lock guards what the process has.
 */
#define _GNU_SOURCE
#include <maru/parmacs.h>

#include <pthread.h>
#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u
/* In `used` of the program's; libc has a size there. */
#define OURS SIZE_MAX

struct pattern {
  int flags;
  char text[];
};

struct compiled {
  const struct pattern *of;
  int flags;
  char *text;
  regex_t regex;
  struct compiled *next;
};

static struct {
  pthread_mutex_t lock;
  struct compiled *first[BUCKETS];
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_ours(const regex_t *regex) { return regex->used == OURS; }
static struct pattern *pattern_of(const regex_t *regex) { return (void *)regex->buffer; }

/* ---- under the lock ---------------------------------------------------------------------- */

static struct compiled **place_of(const struct pattern *pattern) {
  struct compiled **at = &own.first[((uintptr_t)pattern >> 4) % BUCKETS];
  while (*at != NULL && (*at)->of != pattern)
    at = &(*at)->next;
  return at;
}

static void forget(struct compiled **at) {
  struct compiled *old = *at;
  *at = old->next;
  regfree(&old->regex);
  free(old->text);
  free(old);
}

static int compile(struct compiled **at, const struct pattern *pattern) {
  struct compiled *made = malloc(sizeof *made);
  char *text = strdup(pattern->text);
  int rc = made != NULL && text != NULL ? regcomp(&made->regex, text, pattern->flags) : REG_ESPACE;
  if (rc != 0) {
    free(text);
    free(made);
    return rc;
  }
  made->of = pattern;
  made->flags = pattern->flags;
  made->text = text;
  made->next = *at;
  *at = made;
  return 0;
}

/* NULL: why is in `rc`. */
static const regex_t *here(const struct pattern *pattern, int *rc) {
  struct compiled **at = place_of(pattern);
  if (*at != NULL && ((*at)->flags != pattern->flags || strcmp((*at)->text, pattern->text) != 0))
    forget(at);
  *rc = *at != NULL ? 0 : compile(at, pattern);
  return *rc == 0 ? &(*at)->regex : NULL;
}

/* ---- what the program calls ---------------------------------------------------------------- */

int maru_parmacs_regcomp(regex_t *regex, const char *text, int flags) {
  struct pattern *pattern = maru_parmacs_malloc(sizeof *pattern + strlen(text) + 1);
  int rc;
  if (pattern == NULL)
    return REG_ESPACE;
  pattern->flags = flags;
  strcpy(pattern->text, text);
  pthread_mutex_lock(&own.lock);
  const regex_t *made = here(pattern, &rc);
  if (made != NULL)
    *regex = (regex_t){.buffer = (void *)pattern, .used = OURS, .re_nsub = made->re_nsub};
  pthread_mutex_unlock(&own.lock);
  if (rc != 0)
    maru_parmacs_free(pattern);
  return rc;
}

int maru_parmacs_regexec(const regex_t *regex, const char *text, size_t count, void *matches,
                         int flags) {
  int rc;
  if (!is_ours(regex))
    return regexec(regex, text, count, matches, flags);
  pthread_mutex_lock(&own.lock);
  const regex_t *made = here(pattern_of(regex), &rc);
  if (made != NULL)
    rc = regexec(made, text, count, matches, flags);
  pthread_mutex_unlock(&own.lock);
  return rc;
}

void maru_parmacs_regfree(regex_t *regex) {
  if (!is_ours(regex)) {
    regfree(regex);
    return;
  }
  struct pattern *pattern = pattern_of(regex);
  pthread_mutex_lock(&own.lock);
  struct compiled **at = place_of(pattern);
  if (*at != NULL)
    forget(at);
  pthread_mutex_unlock(&own.lock);
  maru_parmacs_free(pattern);
  *regex = (regex_t){.buffer = NULL};
}
