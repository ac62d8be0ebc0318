/* What the kernel counted for this process (0) or its reaped children (1). */
#include <stdint.h>
#include <sys/resource.h>

int64_t maru_bench_cpu_ns(int children) {
  struct rusage use;
  if (getrusage(children ? RUSAGE_CHILDREN : RUSAGE_SELF, &use) != 0)
    return -1;
  return (int64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000000 +
         (int64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000;
}

/* The largest resident size so far: of this process, or of its largest child. */
int64_t maru_bench_peak_kib(int children) {
  struct rusage use;
  if (getrusage(children ? RUSAGE_CHILDREN : RUSAGE_SELF, &use) != 0)
    return -1;
  return use.ru_maxrss;
}
