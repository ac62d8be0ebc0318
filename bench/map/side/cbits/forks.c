/* What it costs to fork this process as it is, and nothing else: what a worker's birth cannot cost
   less than. */
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds until this process goes on after so many forks, one after the other, all children
   alive (they wait). Negative: one was refused. */
int64_t maru_bench_forks(int count) {
  pid_t children[256];
  int made = 0;
  int64_t start = now_ns(), total;
  sigset_t all, before;
  if (count > 256)
    return -1;
  sigfillset(&all); /* the ticker's signal would restart a long fork for ever */
  sigprocmask(SIG_BLOCK, &all, &before);
  for (; made < count; made++) {
    children[made] = fork();
    if (children[made] == 0)
      for (;;)
        pause();
    if (children[made] < 0)
      break;
  }
  total = now_ns() - start;
  sigprocmask(SIG_SETMASK, &before, NULL);
  for (int i = 0; i < made; i++) {
    kill(children[i], SIGKILL);
    waitpid(children[i], NULL, 0);
  }
  return made == count ? total : -1;
}
