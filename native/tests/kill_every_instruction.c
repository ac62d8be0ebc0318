/* Description: a worker killed after any single instruction leaves a valid log and exact claims.
 *
 * A child claims one of two chunks, appends two records, says done.  It runs one
 * machine instruction at a time.  After each, the shared pages are what a kill
 * at this instant would leave: they are judged, worked with to the end, put back as they were.
 * Then the child takes its next step. */
#define _GNU_SOURCE
#include <maru/channel.h>

#include "check.h"

#include <sys/ptrace.h>

#define CREW_BYTES 4096 /* of one worker and two slots */
#define LOG_BYTES 8192

struct scene {
  struct maru_crew *crew;
  struct maru_log *log;
  void *crew_pages, *log_pages;
};

static const char *const texts[] = {"the first record", "the second, longer than the first"};
static struct maru_wait_policy policy;

static void act(void *argument) {
  struct scene *scene = argument;
  struct maru_chunk chunk;
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
    _exit(77);
  raise(SIGSTOP);
  if (maru_crew_claim(scene->crew, 0, &chunk, &policy, 0) != 1)
    _exit(1);
  for (unsigned i = 0; i < 2; i++)
    if (maru_log_append(scene->log, chunk.first + i, 5, texts[i], strlen(texts[i])) != 0)
      _exit(1);
  maru_crew_done(scene->crew, 0);
}

/* One instruction.  False: the child has ended, well. */
static bool step(pid_t pid) {
  CHECK_EQUAL(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
  int status = finish(pid);
  if (!WIFSTOPPED(status))
    CHECK_EQUAL(status, 0);
  return WIFSTOPPED(status);
}

/* Whole records only, from the first; how many. */
static unsigned read_log(struct maru_log *log) {
  struct maru_record record;
  unsigned count = 0;
  int rc;
  while ((rc = maru_log_next(log, &record)) == 1) {
    CHECK(count < 2);
    CHECK_EQUAL(record.index, 10 + count);
    CHECK_EQUAL(record.kind, 5);
    CHECK_EQUAL(record.length, strlen(texts[count]));
    CHECK(memcmp(record.chunk, texts[count], record.length) == 0);
    count++;
  }
  CHECK_EQUAL(rc, 0);
  return count;
}

/* The chunk is unclaimed, or its owner is known, or all its records are there. */
static void judge(struct scene *scene) {
  struct maru_chunk chunk;
  unsigned records = read_log(scene->log);
  uint32_t backlog = maru_crew_backlog(scene->crew);
  int claimed = maru_crew_claim_of(scene->crew, 0, &chunk);
  if (claimed) {
    CHECK_EQUAL(chunk.first, 10);
    CHECK_EQUAL(chunk.count, 2);
    CHECK_EQUAL(backlog, 1);
    maru_crew_forfeit(scene->crew, 0);
    CHECK_EQUAL(maru_crew_publish(scene->crew, chunk.first, chunk.count), 0);
  } else {
    CHECK(backlog == 2 ? records == 0 : records == 2);
  }
}

/* A new worker of the same number finishes what is left. */
static void go_on(struct scene *scene) {
  struct maru_chunk chunk;
  maru_crew_forfeit(scene->crew, 0);
  uint32_t left = maru_crew_backlog(scene->crew);
  maru_crew_close(scene->crew);
  for (uint32_t i = 0; i < left; i++) {
    CHECK_EQUAL(maru_crew_claim(scene->crew, 0, &chunk, &policy, 0), 1);
    maru_crew_done(scene->crew, 0);
  }
  CHECK_EQUAL(maru_crew_claim(scene->crew, 0, &chunk, &policy, 0), 0);
}

static void survive(void *argument) {
  judge(argument);
  go_on(argument);
}

/* The pages that it shares with the child. */
static void *pages_of(const char *name, size_t expected) {
  size_t size;
  void *pages = mapping_of(name, &size);
  CHECK_EQUAL(size, expected);
  return pages;
}

/* As if the child had been killed now.  A copy of us goes on without it: our own memory stays as
 * it is, and what is shared is put back. */
static void try_kill(struct scene *scene) {
  static char crew[CREW_BYTES], log[LOG_BYTES];
  memcpy(crew, scene->crew_pages, sizeof crew);
  memcpy(log, scene->log_pages, sizeof log);
  CHECK_EQUAL(finish(start(survive, scene)), 0);
  memcpy(scene->crew_pages, crew, sizeof crew);
  memcpy(scene->log_pages, log, sizeof log);
}

int main(void) {
  struct scene scene;
  uint64_t steps = 0;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  CHECK_EQUAL(maru_crew_create(&scene.crew, 1, 2), 0);
  CHECK_EQUAL(maru_log_create(&scene.log, 4096), 0);
  scene.crew_pages = pages_of("memfd:maru-crew ", CREW_BYTES);
  scene.log_pages = pages_of("memfd:maru-log ", LOG_BYTES);
  CHECK_EQUAL(maru_crew_publish(scene.crew, 10, 2), 0);
  CHECK_EQUAL(maru_crew_publish(scene.crew, 20, 2), 0);
  pid_t pid = start(act, &scene);
  int status = finish(pid); /* the SIGSTOP */
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    skip("ptrace is not permitted");
  CHECK(WIFSTOPPED(status));
  do {
    try_kill(&scene);
    steps++;
  } while (step(pid));
  try_kill(&scene);
  CHECK(steps > 100);
  printf("%llu instructions\n", (unsigned long long)steps);
  maru_log_destroy(scene.log);
  maru_crew_destroy(scene.crew);
  return 0;
}
