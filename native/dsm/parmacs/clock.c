/* clock.c: linked into programs that look at the time. The linker sends their calls through here
 * (ld's --wrap): a program that is repeated sees what it saw (replay.h). Its libraries see the
 * time.
 */
#include <maru/parmacs.h>

#include "../programs.h"

#include <stdio.h>
#include <string.h>
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

/* ---- results that a loss does not take away ------------------------------------------------ */

/* The zone's name, which is libc's, at a place that does not change: copies of a time have it, too.
 * Beyond so many zones it stays libc's. */
static struct tm *kept(struct tm *is) {
  struct maru_parmacs_statics *statics = maru_parmacs_statics();
  if (is == NULL)
    return NULL;
  for (unsigned i = 0; i < MARU_PARMACS_ZONES; i++) {
    char *zone = statics->zones[i];
    if (*zone == 0)
      snprintf(zone, sizeof statics->zones[i], "%s", is->tm_zone);
    if (strncmp(zone, is->tm_zone, sizeof statics->zones[i] - 1) == 0) {
      is->tm_zone = zone;
      break;
    }
  }
  return is;
}

static struct tm *ours(void) { return &maru_parmacs_statics()->time; }

/* As libc's, with any year. */
static char *text_of(const struct tm *is) {
  static const char days[] = "SunMonTueWedThuFriSat???",
                    months[] = "JanFebMarAprMayJunJulAugSepOctNovDec???";
  struct maru_parmacs_statics *statics = maru_parmacs_statics();
  int day = is->tm_wday >= 0 && is->tm_wday < 7 ? is->tm_wday : 7,
      month = is->tm_mon >= 0 && is->tm_mon < 12 ? is->tm_mon : 12;
  snprintf(statics->text, sizeof statics->text, "%.3s %.3s%3d %.2d:%.2d:%.2d %ld\n", days + 3 * day,
           months + 3 * month, is->tm_mday, is->tm_hour, is->tm_min, is->tm_sec,
           1900L + is->tm_year);
  return statics->text;
}

static struct tm *local_time(const time_t *at) {
  tzset();
  return kept(localtime_r(at, ours()));
}
static struct tm *greenwich_time(const time_t *at) { return kept(gmtime_r(at, ours())); }
static char *local_text(const time_t *at) {
  const struct tm *is = local_time(at);
  return is != NULL ? text_of(is) : NULL;
}

/* A program may have a function of that name itself. */
#define KEPT(type, name, parameter, is)                                                            \
  type __real_##name(parameter);                                                                   \
  type __wrap_##name(parameter);                                                                   \
  type __wrap_##name(parameter) {                                                                  \
    return mr_is_programs((uintptr_t)&__real_##name) ? __real_##name(at) : (is);                   \
  }

KEPT(struct tm *, localtime, const time_t *at, local_time(at))
KEPT(struct tm *, gmtime, const time_t *at, greenwich_time(at))
KEPT(char *, asctime, const struct tm *at, text_of(at))
KEPT(char *, ctime, const time_t *at, local_text(at))
