#define _GNU_SOURCE
#include "settings.h"

#include "diff.h"
#include "membership.h"
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <maru/wait.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOME_RUN 16u
#define SPIN_US 200u
#define LOST_AFTER_MOST 86400u
/* Of a host from its start to its end, in all its containers and network namespaces. */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
/* Clocks of one namespace show the same time; its name is read as a link. */
#define TIME_NAMESPACE "/proc/self/ns/time"

/* A server that keeps its processor need not be woken, which on an idle machine takes longest.
 * Where there are fewer processors than nodes it would keep it from those that compute. */
static uint64_t default_spin(uint16_t nodes) {
  cpu_set_t cpus;
  bool enough = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= nodes;
  return enough ? SPIN_US : 0;
}

uint64_t mr_settings_spin_us(uint16_t nodes) {
  return mr_environment_number("MARU_DSM_SPIN_US", default_spin(nodes), 0, 1000000);
}

enum mr_access_way mr_settings_way(char *slower, size_t size) {
  const char *asked = getenv("MARU_DSM_ACCESS");
  int rc = -EINVAL;
  *slower = 0;
  for (int way = 0; way < MR_ACCESS_WAYS; way++) {
    const char *name = mr_access_way_name((enum mr_access_way)way);
    if (asked != NULL && strcmp(asked, name) != 0)
      continue;
    int before = rc;
    rc = mr_access_probe((enum mr_access_way)way);
    if (rc == 0 && asked == NULL && way > 0)
      snprintf(slower, size, "accesses are seen by %s, which is slower; %s: %s", name,
               mr_access_way_name((enum mr_access_way)(way - 1)), strerror(-before));
    if (rc == 0)
      return (enum mr_access_way)way;
  }
  if (rc == -EINVAL)
    mr_node_die(STATUS_USAGE, "MARU_DSM_ACCESS is '%s'; known: userfaultfd, mprotect", asked);
  mr_node_die(STATUS_UNAVAILABLE, "accesses to memory cannot be seen here%s%s: %s",
              asked != NULL ? " by " : "", asked != NULL ? asked : "", strerror(-rc));
}

/* Where homes are: at first in turns of so many pages, and how they move then. */
static enum mr_homes choose_homes(uint16_t nodes, uint32_t pages, uint32_t *home_run) {
  static const char *const names[] = {"cyclic", "block", "first-writer", "migrate"};
  static const enum mr_homes homes[] = {MR_HOMES_STAY, MR_HOMES_STAY, MR_HOMES_FIRST_WRITER,
                                        MR_HOMES_MIGRATE};
  const char *asked = getenv("MARU_DSM_HOMES");
  *home_run = (uint32_t)mr_environment_number("MARU_DSM_HOME_RUN", HOME_RUN, 1, 1u << 20);
  for (unsigned i = 0; i < sizeof homes / sizeof *homes; i++)
    if (strcmp(asked != NULL ? asked : "migrate", names[i]) == 0) {
      if (i == 1)
        *home_run = (pages + nodes - 1) / nodes;
      return homes[i];
    }
  mr_node_die(STATUS_USAGE, "MARU_DSM_HOMES is '%s'; known: cyclic, block, first-writer, migrate",
              asked);
}

static enum mr_fetch choose_fetch(void) {
  const char *asked = getenv("MARU_DSM_FETCH");
  for (int fetch = 0; fetch < MR_FETCH_POLICIES; fetch++)
    if (asked == NULL || strcmp(asked, mr_fetch_name((enum mr_fetch)fetch)) == 0)
      return (enum mr_fetch)fetch;
  mr_node_die(STATUS_USAGE, "MARU_DSM_FETCH is '%s'; known: adaptive, page, range, stamp", asked);
}

/* What it costs here to send an eighth of a page and to take it in, in ns: the quickest of some. */
static uint32_t measure_part(void) {
  static struct mr_diff diff;
  static alignas(64) uint8_t page[MR_PAGE], packed[MR_DIFF_PACKED_MAX];
  const struct mr_diff_code *code = mr_diff_best();
  int64_t best = INT64_MAX;
  for (int turn = 0; turn < 32; turn++) {
    int64_t begin = maru_now_ns();
    memset(diff.bitmap, 0x10, sizeof diff.bitmap);
    code->gather(&diff, page);
    size_t length = mr_diff_pack(&diff, packed);
    if (mr_diff_unpack(&diff, packed, length) == 0)
      code->apply(&diff, page);
    int64_t took = maru_now_ns() - begin;
    best = took < best ? took : best;
  }
  return best < 1 ? 1 : best < 100000 ? (uint32_t)best : 100000;
}

static struct mr_fetch_limits read_limits(void) {
  return (struct mr_fetch_limits){
      .range_bytes =
          (uint32_t)mr_environment_number("MARU_DSM_RANGE_BYTES", MR_RANGE_BYTES, 1, MR_PAGE),
      .range_gap =
          (uint32_t)mr_environment_number("MARU_DSM_RANGE_GAP", MR_RANGE_GAP, 1, MR_RANGE_GAP_MAX),
      .batch = (uint32_t)mr_environment_number("MARU_DSM_BATCH", MR_BATCH, 1, MR_BATCH_MAX),
      .part_ns = measure_part()};
}

unsigned mr_settings_lost_after(void) {
  return (unsigned)mr_environment_number("MARU_DSM_LOST_AFTER", 0, 1, LOST_AFTER_MOST);
}

bool mr_settings_races(void) { return getenv("MARU_DSM_RACES") != NULL; }

struct mr_core_config mr_settings_core(uint16_t nodes, uint16_t me, uint32_t pages) {
  uint32_t home_run;
  enum mr_homes homes = choose_homes(nodes, pages, &home_run);
  uint32_t grant_bytes = (uint32_t)mr_environment_number("MARU_DSM_GRANT_BYTES", MR_GRANT_BYTES, 0,
                                                         MR_GRANT_BYTES_MAX);
  return (struct mr_core_config){
      .nodes = nodes,
      .me = me,
      .pages = pages,
      .home_run = home_run,
      /* Races are looked for at a page's home, in each diff as its writer sent it. */
      .homes = mr_settings_races() ? MR_HOMES_STAY : homes,
      .migrate_after = (uint32_t)mr_environment_number("MARU_DSM_MIGRATE_AFTER", MR_MIGRATE_AFTER,
                                                       1, MR_MIGRATE_AFTER_MAX),
      /* 1 is none as well: no diff is so short. */
      .prefetch = mr_environment_number("MARU_DSM_PREFETCH", 1, 0, 1) != 0,
      .grant_bytes = grant_bytes != 0 && !mr_settings_races() ? grant_bytes : 1,
      .objects = MR_OBJECTS,
      .fetch = choose_fetch(),
      .limits = read_limits()};
}

struct mr_link *mr_settings_link(void) {
  struct mr_link *link;
  int rc = mr_link_create(&link);
  if (rc == -EINVAL)
    mr_node_die(STATUS_USAGE, "MARU_DSM_LINK is '%s'; LATENCY_NS,PS_PER_BYTE is needed",
                getenv("MARU_DSM_LINK"));
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot describe the network: %s", strerror(-rc));
  return link;
}

static uint64_t add_to(uint64_t sum, const void *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    sum = (sum ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
  return sum;
}

uint64_t mr_file_sum(const char *path) {
  uint8_t bytes[16384];
  uint64_t sum = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = -1;
  while (fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0)
    sum = add_to(sum, bytes, (size_t)n);
  if (n < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot read %s: %s", path, strerror(errno));
  close(fd);
  return sum;
}

/* On a described network messages bear times.  By the clock of another host, or of another time
 * namespace, they might be kept for hours, so these count as settings. */
static uint64_t network(void) {
  const char *link = getenv("MARU_DSM_LINK");
  char name[64];
  if (link == NULL)
    return 0;
  /* None: a kernel without them. */
  ssize_t length = readlink(TIME_NAMESPACE, name, sizeof name);
  return add_to(add_to(mr_file_sum(BOOT_ID), link, strlen(link)), name,
                length > 0 ? (size_t)length : 0);
}

uint64_t mr_settings_common(const struct mr_core_config *core) {
  uint64_t memory = (uint64_t)core->pages << 32 | (uint64_t)mr_settings_races() << 31;
  unsigned lost_after = mr_settings_lost_after();
  return add_to((memory | core->home_run) ^ network(), &lost_after, sizeof lost_after);
}
