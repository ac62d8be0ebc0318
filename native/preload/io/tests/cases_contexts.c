/* cases_contexts.c: cases of programs that switch stacks, perhaps out of a handler over a call, or
 * make stacks of their own; see cases.c. */
#include "cases.h"

#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#define LARGE (4u << 20)
#define LEAVES 100

static ucontext_t back, interrupted, scheduler;
static volatile int handled, wrong;
static char *large; /* LARGE bytes, what `second` holds */
static sigset_t none;

static void after_us(int us) { setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, us}}, NULL); }

static void fill_second(void) {
  large = malloc(LARGE);
  CHECK(large != NULL);
  for (unsigned i = 0; i < LARGE; i++)
    large[i] = (char)(i * 2654435761u >> 13);
  NEED(pwrite(second, large, LARGE, 0));
  sigemptyset(&none);
}

/* One after the other; the handler runs in them alone. */
static void in_threads(int number, void *(*run)(void *)) {
  sigset_t alarm;
  fill_second();
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, NULL);
  for (int i = 0; i < number; i++) {
    pthread_t thread;
    NEED(-pthread_create(&thread, NULL, run, NULL));
    pthread_join(thread, NULL);
  }
}

static void on_alarm(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
}

/* ---- a handler that never comes back -------------------------------------- */

static void leave(int number) {
  handled = handled + (number == SIGALRM);
  back.uc_sigmask = none;
  setcontext(&back);
}
static void __attribute__((noinline)) reads_for_ever(void) {
  char bytes[LARGE];
  for (;;) {
    (void)!pread(second, bytes, LARGE, 0);
    __asm__ volatile("" ::"r"(bytes) : "memory");
  }
}
/* Where the other one's buffer was. */
static void __attribute__((noinline)) looks_at_the_stack(void) {
  char bytes[LARGE];
  memset(bytes, 1, LARGE);
  __asm__ volatile("" ::"r"(bytes) : "memory");
  pause_ms(3);
  for (unsigned i = 0; i < LARGE; i++)
    if (bytes[i] != 1) {
      wrong = wrong + 1;
      break;
    }
}
static void *leaves(void *unused) {
  volatile int before = handled;
  on_alarm(leave);
  getcontext(&back);
  if (handled > before)
    looks_at_the_stack();
  if (handled < before + 2) {
    after_us(200 + handled * 137 % 3000);
    reads_for_ever();
  }
  int state = PTHREAD_CANCEL_DISABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
  wrong = wrong + (state != PTHREAD_CANCEL_ENABLE);
  return unused;
}
static void handler_sets_context(void) {
  in_threads(LEAVES / 2, leaves);
  say("left %d times, wrong %d\n", handled, wrong);
  DO(pread(file, other, 100, 5));
}

/* ---- a handler that comes back later --------------------------------------- */

static void preempt(int number) {
  handled = handled + (number == SIGALRM);
  if (swapcontext(&interrupted, &scheduler) < 0)
    wrong = wrong + 1;
}
/* Its own calls come between those of who was interrupted, whose answers are other ones. */
static void schedules(void) {
  static char bytes[1000];
  while (handled < LEAVES) {
    if (pread(file, bytes, sizeof bytes, 77) != sizeof bytes ||
        memcmp(bytes, data + 77, sizeof bytes) != 0)
      wrong = wrong + 1;
    after_us(100 + handled * 37 % 1000);
    swapcontext(&scheduler, &interrupted);
  }
}
/* Reads and writes in turn: what is made twice shows in where the file is. */
static void worker(void) {
  static char bytes[LARGE];
  long at = 0;
  while (handled < LEAVES) {
    if (pread(second, bytes, LARGE, 0) != LARGE || memcmp(bytes, large, LARGE) != 0)
      wrong = wrong + 1;
    if (write(file, data, 5000) != 5000 || (at += 5000) != lseek(file, 0, SEEK_CUR))
      wrong = wrong + 1;
    if (at >= SIZE - 5000)
      at = lseek(file, 0, SEEK_SET);
  }
}
static void *preempted(void *unused) {
  static char stack[1 << 18];
  on_alarm(preempt);
  lseek(file, 0, SEEK_SET);
  memset(data, 3, SIZE); /* the same bytes wherever the worker writes them */
  NEED(pwrite(file, data, SIZE, 0));
  ucontext_t end;
  getcontext(&scheduler);
  scheduler.uc_stack.ss_sp = stack;
  scheduler.uc_stack.ss_size = sizeof stack;
  scheduler.uc_link = &end;
  sigaddset(&scheduler.uc_sigmask, SIGALRM); /* the worker alone is interrupted */
  makecontext(&scheduler, schedules, 0);
  after_us(1000);
  volatile bool ended = false;
  getcontext(&end); /* the scheduler's end comes here */
  if (!ended) {
    ended = true;
    worker();
  }
  int state = PTHREAD_CANCEL_DISABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
  say("enough %d, wrong %d, may be cancelled %d\n", handled >= LEAVES, wrong,
      state == PTHREAD_CANCEL_ENABLE);
  DO(pread(file, other, 100, 5));
  return unused;
}
static void handler_swaps_context(void) { in_threads(1, preempted); }

/* ---- a handler whose thread is another when it comes back ------------------------ */

#define MOVES 1000
static ucontext_t task, home[2];
static sem_t turn[2];
static __thread int self;
static volatile int moves;
static char task_stack[1 << 16];

/* swapcontext lets signals in while it is on its caller's stack: there the task is not begun. */
static __attribute__((noinline)) void goes_home(int number) {
  char *here = __builtin_frame_address(0);
  if (here < task_stack || here >= task_stack + sizeof task_stack) {
    after_us(50);
    return;
  }
  handled = handled + (number == SIGALRM);
  if (swapcontext(&task, &home[self]) < 0)
    wrong = wrong + 1;
}
/* It is the task's other thread's turn; meanwhile this one calls, too. */
static void takes_over(int me) {
  static char own[2][1000];
  while (moves < MOVES) {
    for (int i = 0; sem_trywait(&turn[me]) < 0; i++)
      if (pread(file, own[me], 1000, i % 50) != 1000 || memcmp(own[me], data + i % 50, 1000) != 0)
        wrong = wrong + 1;
    if (moves < MOVES) {
      after_us(50 + moves * 37 % 400);
      swapcontext(&home[me], &task);
      moves = moves + 1;
    }
    sem_post(&turn[1 - me]);
  }
}
static void moved_task(void) {
  static char bytes[3000];
  for (int i = 0;; i = i < 100 ? i + 1 : 0)
    if (pread(file, bytes, sizeof bytes, i) != sizeof bytes ||
        memcmp(bytes, data + i, sizeof bytes) != 0)
      wrong = wrong + 1;
}
static void *other_home(void *unused) {
  self = 1;
  takes_over(1);
  return unused;
}
static void resumed_elsewhere(void) {
  struct sigaction action = {.sa_handler = goes_home, .sa_flags = SA_RESTART};
  pthread_t second_home;
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* the task alone is interrupted */
  sigaction(SIGALRM, &action, NULL);
  getcontext(&task);
  task.uc_stack.ss_sp = task_stack;
  task.uc_stack.ss_size = sizeof task_stack;
  sigdelset(&task.uc_sigmask, SIGALRM);
  makecontext(&task, moved_task, 0);
  NEED(sem_init(&turn[0], 0, 1) | sem_init(&turn[1], 0, 0));
  NEED(-pthread_create(&second_home, NULL, other_home, NULL));
  takes_over(0);
  pthread_join(second_home, NULL);
  say("moved %d times, wrong %d\n", moves, wrong);
  DO(pread(file, other, 100, 5));
}

/* ---- without handlers ------------------------------------------------------ */

static ucontext_t of[3];
static void takes_turns(int self) {
  for (int i = 0; i < 20; i++) {
    char bytes[500];
    if (pread(file, bytes, sizeof bytes, self * 1000 + i) != sizeof bytes ||
        memcmp(bytes, data + self * 1000 + i, sizeof bytes) != 0)
      wrong = wrong + 1;
    swapcontext(&of[self], &of[3 - self]);
  }
}
static void coroutines(void) {
  static char stacks[2][1 << 16];
  for (int i = 1; i <= 2; i++) {
    getcontext(&of[i]);
    of[i].uc_stack.ss_sp = stacks[i - 1];
    of[i].uc_stack.ss_size = sizeof stacks[0];
    of[i].uc_link = &of[0];
    makecontext(&of[i], (void (*)(void))takes_turns, 1, i);
  }
  DO(swapcontext(&of[0], &of[1]));
  say("wrong %d\n", wrong);
}

/* ---- a stack that the kernel extends ---------------------------------------- */

#define GROWN (256u << 10)
#define PRESENT (64u << 10)
/* The kernel keeps a growing stack that far from its neighbour below, unless it was told
 * otherwise. */
#define GAP (1u << 20)

static char *until; /* below the stack's top */
static void __attribute__((noinline)) descend(void) {
  volatile char frame[1024];
  frame[0] = 1;
  if ((char *)frame > until)
    descend();
  frame[1] = frame[0]; /* no tail call */
}
static void *descends(void *unused) {
  descend();
  return unused;
}
/* Where mappings were: whatever is mapped next may come to lie there. */
static char *growing_stack(void) {
  char *space = mmap(NULL, GAP + GROWN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(space != MAP_FAILED);
  munmap(space, GAP + GROWN);
  char *present = space + GAP + GROWN - PRESENT;
  CHECK(mmap(present, PRESENT, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN, -1, 0) == present);
  return space + GAP;
}
static void run_on_growing_stack(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  char *stack = growing_stack();
  until = stack + (16u << 10);
  NEED(-pthread_attr_init(&attributes));
  NEED(-pthread_attr_setstack(&attributes, stack, GROWN));
  for (int i = 0; i < 20; i++) /* what starts contexts, or the helper */
    NEED(pread(file, other, 100, 0));
  NEED(-pthread_create(&thread, &attributes, descends, NULL));
  pthread_join(thread, NULL);
}
static void stack_grows(void) {
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) {
    run_on_growing_stack();
    _exit(0);
  }
  DO(waitpid(pid, &status, 0) == pid);
  say("status %x\n", (unsigned)status);
  run_on_growing_stack();
}

/* As after SECCOMP_MODE_STRICT, which permits no exit_group: the status is its own. */
static void exit_handler(void) { (void)!pwrite(second, "handler", 7, 0); }
static void first_thread_ends_by_system_call(void) {
  pid_t pid = fork();
  if (pid == 0) {
    atexit(exit_handler);
    (void)!pread(file, other, 100, 0);
    syscall(SYS_exit, 3);
  }
  DO(finish(pid));
  DO(pread(second, other, 100, 0));
}

const struct test_case context_cases[] = {
    D(handler_sets_context),    D(handler_swaps_context),
    D(resumed_elsewhere),       D(coroutines),
    COLD(stack_grows),          D(first_thread_ends_by_system_call),
    {NULL, NULL, false, false},
};
