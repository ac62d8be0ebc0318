#define _GNU_SOURCE
#include "cpus.h"

#include "cpulist.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(struct mr_cpus *set, unsigned cpu) {
  set->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

static bool has(const struct mr_cpus *set, unsigned cpu) {
  return set->bits[cpu / 64] >> cpu % 64 & 1;
}

static void add_range(void *set, unsigned long first, unsigned long last) {
  for (unsigned long cpu = first; cpu <= last; cpu++)
    add(set, (unsigned)cpu);
}

bool mr_cpus_parse_list(const char *text, struct mr_cpus *set) {
  memset(set, 0, sizeof *set);
  return mr_cpu_list_read(text, MR_CPUS_MAX, add_range, set);
}

bool mr_cpus_parse_mask(const char *text, struct mr_cpus *set) {
  memset(set, 0, sizeof *set);
  unsigned bit = 0;
  for (size_t i = strlen(text); i-- > 0;) {
    unsigned char c = (unsigned char)text[i];
    if (c == ',' || isspace(c))
      continue;
    if (!isxdigit(c) || bit + 4 > MR_CPUS_MAX)
      return false;
    unsigned digit = (unsigned)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    set->bits[bit / 64] |= (uint64_t)digit << bit % 64;
    bit += 4;
  }
  return true;
}

void mr_cpus_list(const struct mr_cpus *set, char text[MR_CPUS_TEXT]) {
  size_t at = 0;
  text[0] = '\0';
  for (unsigned cpu = 0; cpu < MR_CPUS_MAX; cpu++) {
    if (!has(set, cpu))
      continue;
    unsigned last = cpu;
    while (last + 1 < MR_CPUS_MAX && has(set, last + 1))
      last++;
    at += (size_t)snprintf(text + at, MR_CPUS_TEXT - at, last > cpu ? "%s%u-%u" : "%s%u",
                           at > 0 ? "," : "", cpu, last);
    cpu = last;
  }
}

bool mr_cpus_empty(const struct mr_cpus *set) {
  static const struct mr_cpus none;
  return mr_cpus_equal(set, &none);
}

bool mr_cpus_equal(const struct mr_cpus *a, const struct mr_cpus *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

void mr_cpus_keep(struct mr_cpus *set, const struct mr_cpus *others) {
  for (size_t i = 0; i < MR_CPUS_MAX / 64; i++)
    set->bits[i] &= others->bits[i];
}

int mr_cpus_get(pid_t tid, struct mr_cpus *set) {
  memset(set, 0, sizeof *set);
  return sched_getaffinity(tid, sizeof *set, (cpu_set_t *)set->bits) < 0 ? -errno : 0;
}

int mr_cpus_set(pid_t tid, const struct mr_cpus *set) {
  return sched_setaffinity(tid, sizeof *set, (const cpu_set_t *)set->bits) < 0 ? -errno : 0;
}
