/* Two workers square the numbers 1..100; the coordinator prints the sum.
 *
 *   cc channel.c $(pkg-config --cflags --libs maru) && ./a.out
 *
 * Everything is mapped before fork and inherited. Nothing has a name in a file system, so there is
 * nothing to clean up, however the program ends.
 */
#include <errno.h>
#include <maru/channel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 2, ITEMS = 100, CHUNK = 10 };

static void must(int status, const char *what) {
  if (status >= 0)
    return;
  fprintf(stderr, "channel: %s: %s\n", what, strerror(-status));
  exit(1);
}

static void work(struct maru_crew *crew, struct maru_log *log, uint32_t worker) {
  struct maru_wait_policy policy;
  struct maru_chunk chunk;
  must(maru_wait_policy_init(&policy, MARU_WAIT_ADAPTIVE), "policy");
  while (maru_crew_claim(crew, worker, &chunk, &policy, MARU_WAIT_FOREVER) == 1) {
    for (uint64_t i = chunk.first; i < chunk.first + chunk.count; i++) {
      uint64_t square = (i + 1) * (i + 1);
      must(maru_log_append(log, i, 0, &square, sizeof square), "append");
    }
    maru_crew_done(crew, worker);
    maru_crew_ring(crew);
  }
}

/* Has every worker left?  One that died is named and ends the program. */
static int all_left(void) {
  pid_t pid;
  int status;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
    must(status == 0 ? 0 : -ECHILD, "a worker died");
  return pid < 0;
}

/* A worker that dies without a word would not ring: the deadline lets us look.
 * A worker that has left may have left records behind, so we read once more. */
static uint64_t collect(struct maru_crew *crew, struct maru_log **logs) {
  struct maru_wait_policy policy;
  struct maru_record record;
  uint64_t sum = 0;
  must(maru_wait_policy_init(&policy, MARU_WAIT_ADAPTIVE), "policy");
  int left = 0;
  for (int got = 0; got < ITEMS;) {
    uint32_t seen = maru_crew_bell(crew);
    int before = got;
    for (int w = 0; w < WORKERS; w++)
      for (; maru_log_next(logs[w], &record) == 1; got++)
        sum += *(const uint64_t *)record.chunk;
    must(got == before && left ? -ECHILD : 0, "results are missing");
    if (got == before &&
        maru_crew_await(crew, seen, &policy, maru_now_ns() + 1000000000) == -ETIMEDOUT)
      left = all_left();
  }
  return sum;
}

int main(void) {
  struct maru_crew *crew;
  struct maru_log *logs[WORKERS];
  must(maru_crew_create(&crew, WORKERS, ITEMS / CHUNK), "crew");
  for (int w = 0; w < WORKERS; w++)
    must(maru_log_create(&logs[w], 1 << 20), "log");
  for (uint64_t first = 0; first < ITEMS; first += CHUNK)
    must(maru_crew_publish(crew, first, CHUNK), "publish");
  maru_crew_close(crew);
  for (uint32_t w = 0; w < WORKERS; w++) {
    pid_t pid = fork();
    must(pid < 0 ? -errno : 0, "fork");
    if (pid == 0) {
      work(crew, logs[w], w);
      _exit(0);
    }
  }
  printf("%llu\n", (unsigned long long)collect(crew, logs));
  while (wait(NULL) > 0)
    ;
  return 0;
}
