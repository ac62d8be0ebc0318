/* explore.h: runs the shipped C under a scheduler of our own.
 *
 * Sources compiled with `shim` first among the include folders call us before each
 * atomic operation and futex call, read our clock and take their memory from us.
 * Tasks are coroutines of one thread: between two such points nothing else runs. So a schedule is
 * the list of the tasks that went on at each point, and can be repeated.  The memory is
 * sequentially consistent: what weaker orders allow is the thread sanitizer's.
 *
 * The futex is a model: a wait compares and sleeps in one step, a wake wakes all. A wait with a
 * deadline may end at any point. A lost wake-up is a state in which nobody can go on. A task may
 * read one word again and again, while none writes any. It runs only when no other can, or, at
 * random, because its time has come. Then it finds LATE_NS gone at its next look at the clock.
 * SHORTEST_FOREVER_NS of waiting counts as waiting for ever.
 *
 * A schedule fails when a check does, when nobody can go on, or when a task spins without end. It
 * also fails when memory is freed twice, written after it was freed, or never freed.
 *
 * Not thread-safe; for tests.  Source: depth-first search with bounded preemption:
 * Musuvathi and Qadeer 2007; random priorities: Burckhardt et al. 2010 (PCT).
 */
#ifndef MARU_EXPLORE_H
#define MARU_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#define EXPLORE_TASKS_MAX 8
#define SHORTEST_FOREVER_NS INT64_C(1000000000000)
#define LATE_NS INT64_C(100000)

struct explore_scene {
  unsigned tasks;
  void *world;
  /* Before and after each schedule, outside of it; the number is the schedule's. */
  void (*begin)(void *world, uint64_t schedule);
  void (*end)(void *world); /* may check; not called after a failure */
  void (*run)(void *world, unsigned task);
  void (*died)(void *world, unsigned task); /* what the kernel does then; no point; or NULL */
};

struct explore_plan {
  uint64_t schedules; /* at most */
  uint64_t seed;      /* random schedules: uniform, sticky and by priority in turn */
  /* Instead: all schedules with up to `preemptions` switches from a task that could go
   * on, or deadlines that pass early; in a fixed order. */
  bool exhaustive;
  unsigned preemptions;
  bool memory_fails; /* one allocation in eight, at random; not exhaustive */
  bool kills;        /* one task stops for ever at some point, at random; not exhaustive */
  unsigned cpus;     /* the tasks are on so many by turns; 0: one */
};

struct explore_report {
  uint64_t schedules;
  uint64_t distinct;
  uint64_t points;
  bool complete;       /* exhaustive, and not cut off */
  const char *failure; /* NULL: none; else the first, which ended the exploration */
  uint64_t failed_schedule;
};

/* The memory that a failed schedule leaves behind is lost. */
void explore(const struct explore_scene *scene, const struct explore_plan *plan,
             struct explore_report *report);

/* Whether it failed, or something is missing that it had to reach (NULL: nothing).  Then that is
 * printed, with the seed and the schedule that repeat it. */
bool explore_failed(const struct explore_plan *plan, const struct explore_report *report,
                    const char *missing);

/* ---- within a task ------------------------------------------------------ */

void explore_point(void);
/* The schedule fails, and the task does not go on, unless `good`.  Also in end(). */
void explore_check(bool good, const char *what);
unsigned explore_task(void);
int explore_cpu(void);
bool explore_is_dead(unsigned task);
/* The order of tasks' first read-modify-writes since their last explore_mark: 1 up,
 * 0: none yet.  An arrival in a queue, for a check of who came first. */
void explore_mark(void);
uint64_t explore_marked(unsigned task);

/* ---- for the shim ------------------------------------------------------- */

enum explore_access { EXPLORE_READ, EXPLORE_WRITE, EXPLORE_MODIFY };

void explore_access(const volatile void *object, enum explore_access access);
int explore_futex_wait(const volatile void *word, uint32_t expected, int64_t until_ns);
void explore_futex_wake(const volatile void *word);
void explore_futex_woken(const volatile void *word); /* by the kernel: no point of a task */
int64_t explore_now_ns(void);                        /* each look takes 1 us */
int64_t explore_time_ns(void);
void *explore_alloc(uint64_t size);
void explore_free(void *memory);

#endif
