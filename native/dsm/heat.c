#include "heat.h"

#include "diff.h"
#include "heat_locks.h"
#include "message.h"
#include "stand.h"

#include <maru/wait.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE 64u

struct page {
  uint64_t lines;
  uint32_t reads, writes;
  bool writable;
};

struct site {
  size_t offset, size;
  const char *name;
};

struct mr_heat {
  int64_t wall, processor;                /* when the program began */
  int64_t wait_wall, wait_processor;      /* when the wait began */
  int64_t waited[MR_HEAT_WAITS], waiting; /* wall; of the processor, in all waits */
  int64_t longest[MR_HEAT_WAITS];         /* wall */
  uint64_t waits[MR_HEAT_WAITS], faults[MR_REASONS];
  struct mr_heat_locks locks;
  struct page *pages;
  struct site *sites;
  uint32_t page_count;
  uint16_t me;
  size_t site_count, site_room;
};

static void destroy(struct mr_heat *heat) {
  mr_heat_locks_destroy(&heat->locks);
  free(heat->pages);
  free(heat->sites);
  free(heat);
}

struct mr_heat *mr_heat_create(uint32_t pages, uint16_t me) {
  if (getenv("MARU_DSM_REPORT") == NULL && getenv("MARU_DSM_RACES") == NULL)
    return NULL;
  struct mr_heat *heat = calloc(1, sizeof *heat);
  if (heat == NULL)
    return NULL;
  heat->page_count = pages;
  heat->me = me;
  heat->pages = calloc(pages, sizeof *heat->pages);
  if (heat->pages != NULL)
    return heat;
  destroy(heat);
  return NULL;
}

/* Of this thread, in ns. */
static int64_t processor_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void mr_heat_start(struct mr_heat *heat) {
  if (heat == NULL)
    return;
  heat->wall = maru_now_ns();
  heat->processor = processor_now();
  heat->waiting = 0;
  memset(heat->waited, 0, sizeof heat->waited);
  memset(heat->longest, 0, sizeof heat->longest);
  memset(heat->waits, 0, sizeof heat->waits);
}

void mr_heat_waits(struct mr_heat *heat) {
  if (heat == NULL)
    return;
  heat->wait_wall = maru_now_ns();
  heat->wait_processor = processor_now();
}

void mr_heat_waited(struct mr_heat *heat, enum mr_heat_wait what) {
  if (heat == NULL)
    return;
  int64_t waited = maru_now_ns() - heat->wait_wall;
  heat->waited[what] += waited;
  heat->longest[what] = waited > heat->longest[what] ? waited : heat->longest[what];
  heat->waits[what]++;
  heat->waiting += processor_now() - heat->wait_processor;
}

void mr_heat_fault(struct mr_heat *heat, const struct mr_core *core, uint32_t page, bool write) {
  if (heat == NULL)
    return;
  heat->faults[mr_reason_of(core, page)]++;
  heat->pages[page].reads += !write;
  heat->pages[page].writes += write;
}

void mr_heat_allow(struct mr_heat *heat, uint32_t page, enum mr_access access,
                   const uint8_t *memory, const uint8_t *twin) {
  if (heat == NULL)
    return;
  struct page *p = &heat->pages[page];
  /* The twin is as the page was when writing began. */
  if (p->writable && access != MR_READ_WRITE)
    for (unsigned i = 0; i < MR_PAGE / LINE; i++)
      if (memcmp(memory + i * LINE, twin + i * LINE, LINE) != 0)
        p->lines |= UINT64_C(1) << i;
  p->writable = access == MR_READ_WRITE;
}

void mr_heat_locked(struct mr_heat *heat, uint32_t id, uint16_t giver, bool behind, uint64_t ns) {
  if (heat != NULL)
    mr_heat_locks_note(&heat->locks, id, giver, giver == heat->me, behind, ns);
}

void mr_heat_site(struct mr_heat *heat, size_t offset, size_t size, const char *site) {
  if (heat == NULL)
    return;
  if (heat->site_count == heat->site_room) {
    size_t room = heat->site_room != 0 ? 2 * heat->site_room : 64;
    struct site *more = realloc(heat->sites, room * sizeof *more);
    if (more == NULL)
      return; /* the report says less */
    heat->sites = more;
    heat->site_room = room;
  }
  heat->sites[heat->site_count++] = (struct site){offset, size, site};
}

const char *mr_heat_site_of(const struct mr_heat *heat, size_t offset, size_t *begin) {
  for (size_t i = 0; i < heat->site_count; i++)
    if (offset >= heat->sites[i].offset && offset - heat->sites[i].offset < heat->sites[i].size) {
      *begin = heat->sites[i].offset;
      return heat->sites[i].name;
    }
  *begin = 0;
  return "?";
}

static void tell_sums(const struct mr_heat *heat, const struct mr_core_counters *counters,
                      FILE *stream) {
  fprintf(stream, "maru: heat: waits");
  for (int i = 0; i < MR_HEAT_WAITS; i++)
    fprintf(stream, " %llu %lld", (unsigned long long)heat->waits[i], (long long)heat->longest[i]);
  fprintf(stream, "\nmaru: heat: faults");
  for (int i = 0; i < MR_REASONS; i++)
    fprintf(stream, " %llu", (unsigned long long)heat->faults[i]);
  fputc('\n', stream);
  for (int i = 1; i < MR_MESSAGE_TYPES; i++)
    if (counters->kinds[i].messages != 0)
      fprintf(stream, "maru: heat: sent %s %llu %llu\n", mr_message_name((enum mr_message_type)i),
              (unsigned long long)counters->kinds[i].messages,
              (unsigned long long)counters->kinds[i].bytes);
}

static void tell(const struct mr_heat *heat, const struct mr_core_counters *counters) {
  fflush(stderr);
  FILE *stream = fdopen(dup(STDERR_FILENO), "w");
  int64_t computing = processor_now() - heat->processor - heat->waiting;
  if (stream != NULL)
    fprintf(stream, "maru: heat: node %lld %lld %lld %lld %lld\n",
            (long long)(maru_now_ns() - heat->wall), (long long)computing,
            (long long)heat->waited[MR_HEAT_FETCH], (long long)heat->waited[MR_HEAT_LOCK],
            (long long)heat->waited[MR_HEAT_BARRIER]);
  if (stream != NULL)
    tell_sums(heat, counters, stream);
  if (stream != NULL)
    mr_heat_locks_tell(&heat->locks, stream);
  for (size_t i = 0; stream != NULL && i < heat->site_count; i++)
    fprintf(stream, "maru: heat: site %zu %zu %s\n", heat->sites[i].offset, heat->sites[i].size,
            heat->sites[i].name);
  for (uint32_t i = 0; stream != NULL && i < heat->page_count; i++) {
    const struct page *p = &heat->pages[i];
    if (p->reads != 0 || p->writes != 0)
      fprintf(stream, "maru: heat: page %u %u %u %llx\n", i, p->reads, p->writes,
              (unsigned long long)p->lines);
  }
  if (stream != NULL)
    fclose(stream);
}

void mr_heat_tell(struct mr_heat *heat, const struct mr_core_counters *counters) {
  if (heat == NULL)
    return;
  if (getenv("MARU_DSM_REPORT") != NULL)
    tell(heat, counters);
  destroy(heat);
}
