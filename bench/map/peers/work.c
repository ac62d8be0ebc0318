#include "work.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static long long thread_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

void peers_spin(long us) {
  if (us <= 0)
    return;
  long long end = thread_ns() + 1000LL * us;
  while (thread_ns() < end)
    ;
}

void peers_die_once(const char *path) {
  int mark = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (mark >= 0)
    kill(getpid(), SIGKILL);
}

long peers_place(long item, long look, long size) { return (item * 1000003 + look * 65537) % size; }

long long peers_cpu_ns(int children) {
  struct rusage use;
  if (getrusage(children ? RUSAGE_CHILDREN : RUSAGE_SELF, &use) != 0)
    return -1;
  return (long long)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000000 +
         (long long)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000;
}

void peers_spin_r(const int *us) { peers_spin(*us); }

void peers_die_once_r(char **path) { peers_die_once(*path); }
