/* explore.c: the scheduler, the futex and the memory of explore.h. */
#define _GNU_SOURCE
#include "explore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#undef aligned_alloc /* ours is real memory */
#undef free
#undef malloc
#undef calloc

#define STACK_BYTES 65536
#define POINTS_MAX 100000 /* of one schedule */
#define IDLE_MAX 20000    /* points in a row without a write */
#define BLOCKS_MAX 256
#define CHANGES 3 /* of priority, in one schedule */
#define CLOCK_STEP_NS 1000
#define POISON 0xdb

enum task_state { READY, ASLEEP, DONE };

struct task {
  ucontext_t context;
  void *stack;
  enum task_state state;
  const volatile void *word; /* ASLEEP on it */
  int64_t until_ns;
  bool timed_out;
  const volatile void *last_object; /* of its last access */
  uint64_t last_writes;             /* `writes` then */
  bool repeats;                     /* it reads that again while nobody has written */
  bool late;                        /* so it goes on until it looks at the clock */
  bool dead;                        /* DONE, and not by itself */
  uint64_t priority;
  uint64_t mark;
};

/* One point of an exhaustive search. */
struct choice {
  uint8_t taken, count;
  uint8_t free;   /* the options from here on are preemptions or early deadlines */
  unsigned spent; /* preemptions before */
};

struct block {
  void *memory;
  uint64_t size;
  bool freed;
};

enum style { UNIFORM, STICKY, PRIORITY, STYLES };

static struct {
  const struct explore_scene *scene;
  const struct explore_plan *plan;
  struct explore_report *report;
  struct task tasks[EXPLORE_TASKS_MAX];
  ucontext_t outside;
  int current; /* -1: outside of a schedule */
  uint64_t points, writes, idle, marks;
  int64_t now_ns;
  uint64_t print; /* of this schedule */
  /* random */
  uint64_t random;
  enum style style;
  uint64_t change_at[CHANGES];
  uint64_t least_priority;
  uint64_t kill_at; /* UINT64_MAX: nobody is killed */
  unsigned victim;
  uint64_t last_length;
  /* exhaustive */
  struct choice *path;
  uint64_t path_length;
  /* memory */
  struct block blocks[BLOCKS_MAX];
  unsigned block_count;
  /* prints seen: a hash table, 0 is free */
  uint64_t *prints;
  uint64_t prints_mask;
} x;

static uint64_t next_random(void) {
  x.random ^= x.random << 13;
  x.random ^= x.random >> 7;
  x.random ^= x.random << 17;
  return x.random >> 11;
}

/* ---- failing ------------------------------------------------------------ */

static void fail(const char *what) {
  if (x.report->failure == NULL) {
    x.report->failure = what;
    x.report->failed_schedule = x.report->schedules;
  }
  if (x.current >= 0) {
    x.current = -1;
    setcontext(&x.outside);
  }
}

void explore_check(bool good, const char *what) {
  if (!good)
    fail(what);
}

/* ---- who goes on -------------------------------------------------------- */

struct options {
  int tasks[EXPLORE_TASKS_MAX];
  unsigned count;
  unsigned awake; /* the first so many; the others' deadlines would pass */
  bool current_first;
};

static bool is_stalled(const struct task *task) {
  return task->repeats && !task->late && task->last_writes == x.writes;
}

static bool may_time_out(const struct task *task) {
  return task->state == ASLEEP && task->until_ns - x.now_ns < SHORTEST_FOREVER_NS;
}

/* A spinner that is not among `options` already. */
static bool may_be_late(const struct options *options, unsigned task) {
  if (x.tasks[task].state != READY || !is_stalled(&x.tasks[task]))
    return false;
  for (unsigned i = 0; i < options->count; i++)
    if (options->tasks[i] == (int)task)
      return false;
  return true;
}

static void add_ready(struct options *options) {
  for (unsigned i = 0; i < x.scene->tasks; i++) {
    const struct task *task = &x.tasks[i];
    if (task->state != READY || is_stalled(task))
      continue;
    options->tasks[options->count++] = (int)i;
    if ((int)i == x.current) { /* to the front */
      options->tasks[options->count - 1] = options->tasks[0];
      options->tasks[0] = (int)i;
      options->current_first = true;
    }
  }
}

/* When all repeat themselves they take turns: one may be about to do something else. */
static void add_stalled(struct options *options) {
  for (unsigned i = 1; i <= x.scene->tasks && options->count == 0; i++) {
    unsigned task = ((unsigned)x.current + i) % x.scene->tasks;
    if (x.tasks[task].state == READY)
      options->tasks[options->count++] = (int)task;
  }
}

static struct options list_options(void) {
  struct options options = {.count = 0};
  add_ready(&options);
  if (options.count == 0)
    add_stalled(&options);
  options.awake = options.count;
  for (unsigned i = 0; i < x.scene->tasks; i++)
    if (may_time_out(&x.tasks[i]) || (!x.plan->exhaustive && may_be_late(&options, i)))
      options.tasks[options.count++] = (int)i;
  return options;
}

static unsigned by_priority(const struct options *options) {
  unsigned best = 0;
  for (unsigned i = 0; i < CHANGES; i++)
    if (x.change_at[i] == x.points && x.current >= 0)
      x.tasks[x.current].priority = --x.least_priority;
  /* Deadlines pass early now and then. */
  bool all = options->awake == 0 || next_random() % 8 == 0;
  for (unsigned i = 1; i < (all ? options->count : options->awake); i++)
    if (x.tasks[options->tasks[i]].priority > x.tasks[options->tasks[best]].priority)
      best = i;
  return best;
}

static unsigned at_random(const struct options *options) {
  if (x.style == PRIORITY)
    return by_priority(options);
  if (x.style == STICKY && options->current_first && next_random() % 4 != 0)
    return 0;
  return (unsigned)(next_random() % options->count);
}

/* Along the path where there is one, then always the first option. */
static unsigned in_order(const struct options *options) {
  struct choice *choice = &x.path[x.points];
  if (x.points >= x.path_length) {
    const struct choice *before = x.points > 0 ? choice - 1 : NULL;
    unsigned free = options->awake > 0 ? options->awake : options->count;
    *choice = (struct choice){
        .count = (uint8_t)options->count,
        .free = (uint8_t)(options->current_first ? 1 : free),
        .spent = before != NULL ? before->spent + (before->taken >= before->free) : 0};
    x.path_length = x.points + 1;
  }
  return choice->taken;
}

/* The next path within the bound; false: that was all. */
static bool next_path(void) {
  while (x.path_length > 0) {
    struct choice *last = &x.path[x.path_length - 1];
    unsigned next = last->taken + 1u;
    if (next < last->count && last->spent + (next >= last->free) <= x.plan->preemptions) {
      last->taken++;
      return true;
    }
    x.path_length--;
  }
  return false;
}

static bool all_done(void) {
  for (unsigned i = 0; i < x.scene->tasks; i++)
    if (x.tasks[i].state != DONE)
      return false;
  return true;
}

static void kill_one(void) {
  struct task *victim = &x.tasks[x.victim];
  if (x.points != x.kill_at || victim->state == DONE)
    return;
  victim->state = DONE;
  victim->dead = true;
  if (x.scene->died != NULL)
    x.scene->died(x.scene->world, x.victim);
}

/* Not from the outside, where nobody is done yet. */
static void leave(void) {
  x.current = -1;
  setcontext(&x.outside);
}

static struct task *choose(void) {
  kill_one();
  if (all_done())
    leave();
  struct options options = list_options();
  if (options.count == 0)
    fail("nobody can go on");
  if (x.points + 1 >= POINTS_MAX || x.idle > IDLE_MAX)
    fail("somebody spins without end");
  unsigned option = x.plan->exhaustive ? in_order(&options) : at_random(&options);
  int chosen = options.tasks[option];
  x.points++;
  x.idle++;
  x.print = (x.print ^ (uint64_t)(chosen + 1)) * UINT64_C(0x100000001b3);
  struct task *task = &x.tasks[chosen];
  if (task->state == ASLEEP) {
    task->state = READY;
    task->timed_out = true;
    if (x.now_ns < task->until_ns)
      x.now_ns = task->until_ns;
  } else if (option >= options.awake) {
    task->late = true;
  }
  x.current = chosen;
  return task;
}

static void reschedule(void) {
  struct task *from = &x.tasks[x.current], *to = choose();
  if (from != to)
    swapcontext(&from->context, &to->context);
}

static void enter(void) {
  x.scene->run(x.scene->world, (unsigned)x.current);
  x.tasks[x.current].state = DONE;
  setcontext(&choose()->context);
}

/* ---- points ------------------------------------------------------------- */

void explore_access(const volatile void *object, enum explore_access access) {
  if (x.current < 0)
    return;
  struct task *task = &x.tasks[x.current];
  task->repeats = access == EXPLORE_READ && task->last_object == object && //
                  task->last_writes == x.writes;
  reschedule();
  if (access != EXPLORE_READ) {
    x.writes++;
    x.idle = 0;
  }
  if (access == EXPLORE_MODIFY && task->mark == 0)
    task->mark = ++x.marks;
  task->last_object = object;
  task->last_writes = x.writes;
  task->repeats = false;
}

void explore_point(void) { explore_access(NULL, EXPLORE_WRITE); }

unsigned explore_task(void) { return (unsigned)x.current; }

int explore_cpu(void) { return x.plan->cpus > 0 ? (int)((unsigned)x.current % x.plan->cpus) : 0; }

bool explore_is_dead(unsigned task) { return task < x.scene->tasks && x.tasks[task].dead; }

void explore_mark(void) { x.tasks[x.current].mark = 0; }

uint64_t explore_marked(unsigned task) { return x.tasks[task].mark; }

int64_t explore_now_ns(void) {
  x.now_ns += CLOCK_STEP_NS;
  if (x.current >= 0 && x.tasks[x.current].late) {
    x.tasks[x.current].late = false;
    x.now_ns += LATE_NS;
  }
  return x.now_ns;
}

int64_t explore_time_ns(void) { return x.now_ns; }

int explore_futex_wait(const volatile void *word, uint32_t expected, int64_t until_ns) {
  explore_access(word, EXPLORE_WRITE);
  if (*(const volatile uint32_t *)word != expected)
    return -EAGAIN;
  struct task *task = &x.tasks[x.current];
  task->state = ASLEEP;
  task->word = word;
  task->until_ns = until_ns;
  task->timed_out = false;
  reschedule();
  return task->timed_out ? -ETIMEDOUT : 0;
}

void explore_futex_wake(const volatile void *word) {
  explore_access(word, EXPLORE_WRITE);
  explore_futex_woken(word);
}

void explore_futex_woken(const volatile void *word) {
  for (unsigned i = 0; i < x.scene->tasks; i++)
    if (x.tasks[i].state == ASLEEP && x.tasks[i].word == word)
      x.tasks[i].state = READY;
}

/* ---- memory ------------------------------------------------------------- */

void *explore_alloc(uint64_t size) {
  if (x.block_count == BLOCKS_MAX) {
    fail("too many blocks of memory");
    return NULL;
  }
  if (x.plan->memory_fails && x.current >= 0 && next_random() % 8 == 0)
    return NULL;
  void *memory = aligned_alloc(64, size);
  if (memory != NULL)
    x.blocks[x.block_count++] = (struct block){.memory = memory, .size = size};
  return memory;
}

void explore_free(void *memory) {
  if (memory == NULL)
    return;
  for (unsigned i = 0; i < x.block_count; i++)
    if (x.blocks[i].memory == memory) {
      explore_check(!x.blocks[i].freed, "memory is freed twice");
      x.blocks[i].freed = true;
      memset(memory, POISON, x.blocks[i].size);
      return;
    }
  fail("memory is freed that is no block");
}

static void close_block(const struct block *block) {
  explore_check(block->freed, "memory is never freed");
  for (uint64_t i = 0; block->freed && i < block->size; i++)
    explore_check(((const uint8_t *)block->memory)[i] == POISON, "freed memory is written");
  free(block->memory);
}

/* ---- schedules ---------------------------------------------------------- */

/* False: it has been seen. */
static bool is_new_print(uint64_t print) {
  print |= 1;
  uint64_t at = (print * UINT64_C(0x9e3779b97f4a7c15)) & x.prints_mask;
  while (x.prints[at] != 0 && x.prints[at] != print)
    at = (at + 1) & x.prints_mask;
  if (x.prints[at] == print)
    return false;
  x.prints[at] = print;
  return true;
}

static void prepare_tasks(void) {
  for (unsigned i = 0; i < x.scene->tasks; i++) {
    struct task *task = &x.tasks[i];
    void *stack = task->stack;
    *task = (struct task){.stack = stack, .priority = UINT64_C(1) << 32 | next_random() >> 32};
    getcontext(&task->context);
    task->context.uc_stack.ss_sp = stack;
    task->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&task->context, enter, 0);
  }
}

static void prepare(void) {
  x.points = x.writes = x.idle = x.marks = 0;
  x.now_ns = 1000000000;
  x.print = UINT64_C(0xcbf29ce484222325);
  x.block_count = 0;
  x.style = (enum style)(x.report->schedules % STYLES);
  x.least_priority = UINT64_C(1) << 32;
  for (unsigned i = 0; i < CHANGES; i++)
    x.change_at[i] = next_random() % (x.last_length + 1);
  x.kill_at = x.plan->kills ? next_random() % (x.last_length + 1) : UINT64_MAX;
  x.victim = x.plan->kills ? (unsigned)(next_random() % x.scene->tasks) : 0;
  prepare_tasks();
}

static void run_schedule(void) {
  prepare();
  x.scene->begin(x.scene->world, x.report->schedules);
  if (swapcontext(&x.outside, &choose()->context) < 0)
    abort();
  if (x.report->failure == NULL)
    x.scene->end(x.scene->world);
  for (unsigned i = 0; x.report->failure == NULL && i < x.block_count; i++)
    close_block(&x.blocks[i]);
  x.last_length = x.points;
  x.report->schedules++;
  x.report->points += x.points;
  x.report->distinct += is_new_print(x.print);
}

void explore(const struct explore_scene *scene, const struct explore_plan *plan,
             struct explore_report *report) {
  *report = (struct explore_report){0};
  x.scene = scene;
  x.plan = plan;
  x.report = report;
  x.current = -1;
  x.random = plan->seed * 2 + 1;
  x.last_length = 100;
  x.path_length = 0;
  x.path = calloc(POINTS_MAX, sizeof *x.path);
  x.prints_mask = 1;
  while (x.prints_mask < 2 * plan->schedules)
    x.prints_mask = x.prints_mask * 2 + 1;
  x.prints = calloc(x.prints_mask + 1, sizeof *x.prints);
  if (x.path == NULL || x.prints == NULL)
    abort();
  for (unsigned i = 0; i < scene->tasks; i++)
    if ((x.tasks[i].stack = malloc(STACK_BYTES)) == NULL)
      abort();
  while (report->failure == NULL && report->schedules < plan->schedules && !report->complete) {
    run_schedule();
    report->complete = plan->exhaustive && report->failure == NULL && !next_path();
  }
  for (unsigned i = 0; i < scene->tasks; i++)
    free(x.tasks[i].stack);
  free(x.path);
  free(x.prints);
}

bool explore_failed(const struct explore_plan *plan, const struct explore_report *report,
                    const char *missing) {
  const char *failure = report->failure != NULL ? report->failure : missing;
  if (failure != NULL)
    printf("FAILED: %s (schedule %llu, seed %llu)\n", failure,
           (unsigned long long)report->failed_schedule, (unsigned long long)plan->seed);
  return failure != NULL;
}
