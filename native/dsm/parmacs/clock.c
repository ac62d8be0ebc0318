/* clock.c: linked into programs that look at the time. The linker sends their calls through here
 * (ld's --wrap): a program that is repeated sees what it saw (replay.h). Its libraries see the
 * time.
 */
#include <maru/parmacs.h>

#include <stdio.h>
#include <sys/time.h>
#include <time.h>

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_gettimeofday(struct timeval *now, void *zone);
time_t __wrap_time(time_t *now);
struct tm *__wrap_localtime(const time_t *at);
struct tm *__wrap_gmtime(const time_t *at);
char *__wrap_asctime(const struct tm *time);
char *__wrap_ctime(const time_t *at);
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

/* ---- results that a loss does not take away ------------------------------------------------ */

/* The zone's name is libc's, too. */
static struct tm *kept(struct tm *is) {
  struct maru_parmacs_statics *statics = maru_parmacs_statics();
  if (is == NULL)
    return NULL;
  snprintf(statics->zone, sizeof statics->zone, "%s", is->tm_zone);
  is->tm_zone = statics->zone;
  return is;
}

struct tm *__wrap_localtime(const time_t *at) {
  tzset();
  return kept(localtime_r(at, &maru_parmacs_statics()->time));
}
struct tm *__wrap_gmtime(const time_t *at) {
  return kept(gmtime_r(at, &maru_parmacs_statics()->time));
}
char *__wrap_asctime(const struct tm *time) {
  return asctime_r(time, maru_parmacs_statics()->text);
}
char *__wrap_ctime(const time_t *at) {
  const struct tm *is = __wrap_localtime(at);
  return is != NULL ? __wrap_asctime(is) : NULL;
}
