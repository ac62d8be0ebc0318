/* calm.c: when a rank takes the machine for calm: synthetic run delays against the rule's promises.
 */
#define _GNU_SOURCE
#include "calm.h"
#include "check.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define LOOK (10 * MS)

/* Looks for `ms` at a rank that is kept from running for `kept` of 1000; how long it was calm. */
static int64_t calm_ms(struct mr_looks *looks, int64_t *now, int64_t *delay, int64_t *busy, int ms,
                       int kept) {
  int64_t calm = 0;
  for (int64_t end = *now + ms * MS; *now < end; *now += LOOK) {
    int64_t until = mr_looks_note(looks, *now, *delay += LOOK * kept / 1000);
    if (until > *busy)
      *busy = until;
    calm += *now >= *busy ? LOOK / MS : 0;
  }
  return calm;
}

/* In the place of libc's: a machine of 2048 CPUs, of which we may use three. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus) {
  (void)pid;
  if (size < 2048 / 8) {
    errno = EINVAL;
    return -1;
  }
  memset(cpus, 0, size);
  CPU_SET_S(3, size, cpus);
  CPU_SET_S(1030, size, cpus);
  CPU_SET_S(2047, size, cpus);
  return 0;
}

static void large_machine(void) {
  static struct mr_mpi section;
  if (access("/proc/thread-self/schedstat", R_OK) < 0)
    return; /* nowhere calm */
  mr_self.section = &section;
  mr_self.kind = MARU_WAIT_ADAPTIVE;
  CHECK(mr_calm_join());
  for (mr_self.here = 1; mr_self.here <= 4; mr_self.here++)
    CHECK(mr_more_ranks_than_cpus() == (mr_self.here > 3));
}

int main(void) {
  large_machine();
  for (int64_t first = 0; first < 5000; first += 1250) { /* whatever was before the first look */
    struct mr_looks looks = {0};
    int64_t now = 77 * MS, delay = first * MS, busy = 0;
    /* A daemon's turn of 3 ms in each 200 ms is no reason. */
    for (int i = 0; i < 20; i++) {
      delay += 3 * MS;
      CHECK(calm_ms(&looks, &now, &delay, &busy, 200, 0) == 200);
    }
    /* A hog takes half: seen in 50 ms, and hardly calm from then on. */
    CHECK(calm_ms(&looks, &now, &delay, &busy, 50, 500) < 50);
    CHECK(calm_ms(&looks, &now, &delay, &busy, 10000, 500) < 500);
    /* It has gone: calm again in two seconds, and for good. */
    (void)calm_ms(&looks, &now, &delay, &busy, 2000, 0);
    CHECK(calm_ms(&looks, &now, &delay, &busy, 5000, 0) == 5000);
    /* A rank that sleeps beside the hog sees little of it: then trying is dear, and rare.  Each
     * time that it is calm it is kept waiting. */
    int64_t calm = 0;
    for (int i = 0; i < 1000; i++)
      calm += calm_ms(&looks, &now, &delay, &busy, LOOK / MS, now >= busy ? 800 : 0);
    CHECK(calm < 10000 / 25);
    /* A program that looks each 2 s, kept waiting for half of it: the hold grows. */
    struct mr_looks rare = {0};
    int64_t longest = 0;
    for (int i = 0; i < 10; i++) {
      int64_t until = mr_looks_note(&rare, now += 2000 * MS, delay += 1000 * MS);
      CHECK((i == 0) == (until == 0));
      CHECK(i == 0 || until - now >= 1000 * MS);
      longest = until - now > longest ? until - now : longest;
    }
    CHECK(longest >= 1500 * MS);
    /* Unknown is not calm, and no run delay. */
    CHECK(mr_looks_note(&rare, now + LOOK, -1) > now + LOOK);
    CHECK(mr_looks_note(&rare, now + 2 * LOOK, delay += 5000 * MS) == 0);
    now += 2 * LOOK;
  }
  return 0;
}
