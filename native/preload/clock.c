#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
bool mr_clock_may_count(void) {
  char name[16] = {0};
  int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t got = read(fd, name, sizeof name - 1);
  close(fd);
  return got > 0 && strcmp(name, "tsc\n") == 0;
}

/* Of several tries the one in which least time passed between the two readings. */
struct mr_clock_mark mr_clock_mark(void) {
  struct mr_clock_mark best = {0};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    uint64_t before = __rdtsc();
    int64_t ns = maru_now_ns();
    uint64_t after = __rdtsc();
    if (after - before < least) {
      least = after - before;
      best = (struct mr_clock_mark){.ticks = before + (after - before) / 2, .ns = ns};
    }
  }
  return best;
}
#else
bool mr_clock_may_count(void) { return false; }
struct mr_clock_mark mr_clock_mark(void) {
  return (struct mr_clock_mark){.ns = maru_now_ns()};
}
#endif

struct mr_clock mr_clock_between(struct mr_clock_mark from, struct mr_clock_mark to) {
  if (to.ticks <= from.ticks || to.ns <= from.ns)
    return (struct mr_clock){0};
  return (struct mr_clock){.ns_per_tick = (uint64_t)(((unsigned __int128)(to.ns - from.ns) << 32) /
                                                     (to.ticks - from.ticks))};
}
