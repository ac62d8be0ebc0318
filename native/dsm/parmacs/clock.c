/* clock.c: linked into programs that look at the time. The linker sends their calls through here
 * (ld's
 * --wrap): a program that is repeated sees what it saw (replay.h). Its libraries see the time. */
#include <maru/parmacs.h>

#include <sys/time.h>
#include <time.h>

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_gettimeofday(struct timeval *now, void *zone);
time_t __wrap_time(time_t *now);
int __real_gettimeofday(struct timeval *now, void *zone);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  return maru_parmacs_gettime(clock, now);
}

/* The zone is obsolete, and libc's. */
int __wrap_gettimeofday(struct timeval *now, void *zone) {
  struct timespec is;
  if (zone != NULL)
    return __real_gettimeofday(now, zone);
  int rc = maru_parmacs_gettime(CLOCK_REALTIME, &is);
  if (rc == 0)
    *now = (struct timeval){is.tv_sec, is.tv_nsec / 1000};
  return rc;
}

time_t __wrap_time(time_t *now) {
  struct timespec is;
  if (maru_parmacs_gettime(CLOCK_REALTIME, &is) < 0)
    return -1;
  if (now != NULL)
    *now = is.tv_sec;
  return is.tv_sec;
}
