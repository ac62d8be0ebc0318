/* cases_threads.c: cases of threads and processes; see cases.c. */
#define _GNU_SOURCE
#include "cases.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>

/* ---- threads and processes ----------------------------------------------- */

static int ends_of_cancelled[2];
static void *read_pipe(void *unused) {
  (void)unused;
  (void)!read(ends_of_cancelled[0], other, 10);
  return "not cancelled";
}
static void cancelled(void) {
  NEED(pipe(ends_of_cancelled));
  pthread_t thread;
  void *how;
  NEED(-pthread_create(&thread, NULL, read_pipe, NULL));
  pause_ms(20);
  pthread_cancel(thread);
  pthread_join(thread, &how);
  say("%s\n", how == PTHREAD_CANCELED ? "cancelled" : (char *)how);
}
static void *cancel_self(void *disabled) {
  if (disabled != NULL)
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  (void)!pread(file, other, 10, 0);
  pthread_cancel(pthread_self());
  (void)!pread(file, other, 10, 0);
  return "not cancelled";
}
static void cancel_pending(void) {
  for (intptr_t disabled = 0; disabled < 2; disabled++) {
    pthread_t thread;
    void *how;
    NEED(-pthread_create(&thread, NULL, cancel_self, (void *)disabled));
    pthread_join(thread, &how);
    say("%s\n", how == PTHREAD_CANCELED ? "cancelled" : (char *)how);
  }
}
static volatile int handled, wrong;
static void read_in_handler(int number) {
  char bytes[100];
  int saved = errno;
  handled = handled + (number == SIGALRM);
  if (pread(file, bytes, 100, 500) != 100 || memcmp(bytes, data + 500, 100) != 0)
    wrong = wrong + 1;
  errno = saved;
}
static void tick(void (*handler)(int), int us) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  struct itimerval every = {{0, us}, {0, us}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
}
static void no_ticks(void) { setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL); }
static void handler_reads(void) {
  tick(read_in_handler, 300);
  for (int i = 0; i < 200000 && handled < 100; i++)
    CHECK_EQUAL(pread(file, other, 20000, 0), 20000);
  no_ticks();
  say("enough %d, wrong %d\n", handled >= 100, wrong);
}
/* Where the library is just about to do something: it calls these by our names.  A program that
 * runs without it comes by none of them. */
static volatile int disturb_hand_over, disturb_start;
static _Atomic int in_getcpu; /* 1: the thread is there; 2: it may go on */
static __thread bool waits_in_getcpu;
/* Looked up once: dlsym is nothing for a handler. */
#define NEXT(name)                                                                                 \
  ({                                                                                               \
    static __typeof__(&name) next_;                                                                \
    next_ = next_ != NULL ? next_ : (__typeof__(&name))dlsym(RTLD_NEXT, #name);                    \
    next_;                                                                                         \
  })
int pthread_setcancelstate(int state, int *before) {
  int rc = NEXT(pthread_setcancelstate)(state, before);
  if (disturb_hand_over && state == PTHREAD_CANCEL_DISABLE) {
    disturb_hand_over = 0;
    raise(SIGUSR1);
  }
  return rc;
}
int pthread_attr_init(pthread_attr_t *attributes) {
  if (disturb_start) {
    disturb_start = 0;
    raise(SIGUSR1);
  }
  return NEXT(pthread_attr_init)(attributes);
}
int getcpu(unsigned *cpu, unsigned *node) {
  if (waits_in_getcpu) {
    waits_in_getcpu = false;
    in_getcpu = 1;
    while (in_getcpu != 2)
      pause_ms(1);
  }
  return NEXT(getcpu)(cpu, node);
}
static void *disturbed(void *unused) {
  (void)unused;
  disturb_hand_over = 1;
  (void)!pread(file, other, 10, 0);
  disturb_hand_over = 0;
  pthread_cancel(pthread_self());
  pthread_testcancel();
  return "not cancelled";
}
static void handler_while_handed_over(void) {
  struct sigaction action = {.sa_handler = read_in_handler};
  sigaction(SIGUSR1, &action, NULL);
  pthread_t thread;
  void *how;
  NEED(-pthread_create(&thread, NULL, disturbed, NULL));
  pthread_join(thread, &how);
  say("%s, wrong %d\n", how == PTHREAD_CANCELED ? "cancelled" : (char *)how, wrong);
}
static sigjmp_buf back;
static void jump(int number) {
  handled = handled + (number == SIGALRM);
  siglongjmp(back, 1);
}
static void handler_jumps(void) {
  if (sigsetjmp(back, 1) == 0)
    tick(jump, 500);
  while (handled < 50) {
    char bytes[20000]; /* on a stack that the jump leaves */
    long got = pread(file, bytes, sizeof bytes, 0);
    if (got != sizeof bytes || memcmp(bytes, data, sizeof bytes) != 0)
      wrong = wrong + 1;
  }
  no_ticks();
  say("enough %d, wrong %d\n", handled >= 50, wrong);
  DO(pread(file, other, 100, 5));
}
/* The first call of a process starts what makes calls; a thread that ends that must not wait for
 * one that left. */
static void handler_leaves_the_start(void) {
  pid_t pid = fork();
  if (pid == 0) {
    struct sigaction action = {.sa_handler = jump};
    sigaction(SIGUSR1, &action, NULL);
    disturb_start = 1;
    if (sigsetjmp(back, 1) == 0)
      for (int i = 0; i < 3; i++)
        (void)!pread(file, other, 10, 0);
    disturb_start = 0;
    _exit(unshare(CLONE_FILES) != 0);
  }
  DO(finish(pid));
}
static volatile bool by_standard_c;
static void end_thread(int number) {
  (void)number;
  if (by_standard_c)
    thrd_exit(0);
  pthread_exit(NULL);
}
static _Atomic bool has_read;
static void *reads_until_ended(void *unused) {
  char bytes[20000]; /* on the stack that ends with it */
  for (;; has_read = true)
    if (pread(file, bytes, sizeof bytes, 0) != sizeof bytes ||
        memcmp(bytes, data, sizeof bytes) != 0)
      wrong = wrong + 1;
  return unused;
}
static void handler_ends_thread(void) {
  struct sigaction action = {.sa_handler = end_thread};
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < 50; i++) {
    pthread_t thread;
    has_read = false;
    by_standard_c = i % 2 == 1;
    NEED(-pthread_create(&thread, NULL, reads_until_ended, NULL));
    while (!has_read)
      pause_ms(1);
    NEED(-pthread_kill(thread, SIGUSR1));
    pthread_join(thread, NULL);
  }
  say("wrong %d\n", wrong);
  DO(pread(file, other, 100, 5));
}
/* A jump that does not leave the handler: the call that it interrupted goes on. */
static void jump_within(int number) {
  sigjmp_buf here;
  char bytes[100];
  handled = handled + (number == SIGALRM);
  if (sigsetjmp(here, 0) == 0)
    siglongjmp(here, 1);
  if (pread(file, bytes, 100, 500) != 100 || memcmp(bytes, data + 500, 100) != 0)
    wrong = wrong + 1;
}
static void handler_jumps_within(void) {
  long written = 0;
  tick(jump_within, 300);
  while (handled < 200) {
    CHECK_EQUAL(write(second, data, 5000), 5000);
    written += 5000;
    if (lseek(second, 0, SEEK_CUR) != written)
      wrong = wrong + 1;
    written = lseek(second, 0, SEEK_SET);
  }
  no_ticks();
  say("enough %d, wrong %d\n", handled >= 200, wrong);
}
static void forked_child_reads(void) {
  for (int i = 0; i < 20; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      for (int j = 0; j < 20; j++)
        if (pread(file, other, 5000, j * 100) != 5000 || memcmp(other, data + j * 100, 5000) != 0)
          _exit(1);
      _exit(0);
    }
    if (finish(pid) != 0)
      wrong = wrong + 1;
  }
  say("wrong %d\n", wrong);
}
/* By _Fork, which runs no handlers.  What libc knows of threads is whole: setuid asks all. */
static void child_without_handlers_reads(void) {
  pid_t pid = _Fork();
  if (pid == 0) {
    bool good = true;
    for (int i = 0; i < 20; i++)
      good = pread(file, other, 100, i) == 100 && memcmp(other, data + i, 100) == 0 && good;
    good = setuid(getuid()) == 0 && good;
    _exit(good ? 0 : 1);
  }
  DO(finish(pid));
}
static void fork_in_handler(int number) {
  handled = handled + (number == SIGALRM);
  pid_t pid = fork();
  if (pid == 0) {
    char bytes[100];
    _exit(pread(file, bytes, 100, 0) == 100 ? 0 : 1);
  }
  int status;
  while (waitpid(pid, &status, 0) < 0)
    ;
  wrong = wrong + (status != 0);
}
static void handler_forks(void) {
  tick(fork_in_handler, 20000);
  while (handled < 10)
    CHECK_EQUAL(pread(file, other, 20000, 0), 20000);
  no_ticks();
  say("wrong %d\n", wrong);
}
static void handler_ends_child(int number) {
  handled = handled + (number == SIGALRM);
  if (fork() == 0)
    return; /* the child goes on in the middle of the call */
}
static void child_goes_on(void) {
  struct sigaction action = {.sa_handler = handler_ends_child};
  sigaction(SIGALRM, &action, NULL);
  pid_t self = getpid();
  struct itimerval once = {{0, 0}, {0, 3000}};
  setitimer(ITIMER_REAL, &once, NULL);
  while (!handled)
    CHECK_EQUAL(pread(file, other, 100000, 0), 100000);
  CHECK_EQUAL(pread(file, other, 100000, 0), 100000);
  CHECK(memcmp(other, data, 100000) == 0);
  if (getpid() != self)
    _exit(0);
  int status = 1;
  while (waitpid(-1, &status, 0) < 0)
    CHECK(errno == EINTR);
  say("child %d\n", status);
}
static void vforked_child_writes(void) {
  int ends[2];
  NEED(pipe(ends));
  int fd = dup(second);
  DO(write(fd, "parent", 6));
  pid_t pid = vfork();
  if (pid == 0) {
    dup2(ends[1], fd);
    (void)!write(fd, "child", 5);
    close(fd);
    _exit(0);
  }
  DO(finish(pid));
  DO(read(ends[0], other, 100));
  DO(write(fd, "parent", 6));
  where(second);
}
extern char **environ;
static void spawned(void) {
  posix_spawn_file_actions_t actions;
  pid_t pid;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, second, 1);
  DO(posix_spawn(&pid, "/bin/echo", &actions, NULL, (char *[]){"echo", "hello", NULL}, environ));
  DO(finish(pid));
  show(other, (size_t)DO(pread(second, other, 100, 0)));
  FILE *pipe = popen("echo out", "r");
  show(other, fread(other, 1, 100, pipe));
  DO(pclose(pipe));
}
static void executed(void) {
  DO(read(file, other, 10));
  pid_t pid = fork();
  if (pid == 0) {
    dup2(file, 0);
    dup2(second, 1);
    execl("/bin/cat", "cat", (char *)NULL);
    _exit(9);
  }
  DO(finish(pid));
  show(other, (size_t)DO(pread(second, other, SIZE, 0)));
  where(file);
}
static void unshared(void) {
  /* Refused to a process of several threads. */
  DO(pread(file, other, 10, 0));
  DO(unshare(CLONE_SIGHAND | CLONE_THREAD));
  DO(pread(file, other, 10, 0));
}
static void *reads_once(void *unused) {
  waits_in_getcpu = true;
  (void)!pread(file, other, 10, 0);
  in_getcpu = 2;
  return unused;
}
static int helpers(void) {
  int number = 0;
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char path[300], name[16] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    int fd = open(path, O_RDONLY);
    (void)!syscall(SYS_read, fd, name, sizeof name - 1);
    close(fd);
    number += strncmp(name, "maru", 4) == 0;
  }
  closedir(folder);
  return number;
}
/* Another thread is just about to have a call made. */
static void unshared_meanwhile(void) {
  pthread_t thread;
  NEED(-pthread_create(&thread, NULL, reads_once, NULL));
  while (in_getcpu == 0)
    pause_ms(1);
  DO(unshare(CLONE_FILES));
  in_getcpu = 2;
  pthread_join(thread, NULL);
  for (int i = 0; i < 200 && helpers() > 0; i++)
    pause_ms(10); /* one that has ended is listed for a moment */
  DO(helpers());
}
static void filtered(void) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {4, program};
  DO(pread(file, other, 10, 0));
  DO(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  DO(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
  DO(pread(file, other, 10, 0));
}
static void other_user(void) {
  DO(pread(file, other, 10, 0));
  DO(setfsuid((uid_t)getuid()) >= 0);
  DO(pread(file, other, 10, 0));
}
/* Which this thread may touch, and threads that are there already may not. */
static void memory_with_a_key(void) {
  DO(pread(file, other, 10, 0));
  int key = pkey_alloc(0, 0);
  char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  if (key >= 0)
    NEED(pkey_mprotect(page, 4096, PROT_READ | PROT_WRITE, key));
  DO(pread(file, page, 4096, 0));
  show(page, 100);
}
static void *last_to_go(void *unused) {
  (void)unused;
  pause_ms(50);
  (void)!pread(file, other, 100, 0);
  say("last thread\n");
  tell();
  return NULL;
}
static void main_thread_leaves(void) {
  pthread_t thread;
  NEED(-pthread_create(&thread, NULL, last_to_go, NULL));
  tell();
  pthread_exit(NULL);
}
static void *as_real_time(void *unused) {
  (void)unused;
  struct sched_param how = {.sched_priority = 1};
  sched_setscheduler(0, SCHED_FIFO, &how); /* may be refused */
  DO(pread(file, other, 100, 0));
  return NULL;
}
static void real_time(void) {
  pthread_t thread;
  NEED(-pthread_create(&thread, NULL, as_real_time, NULL));
  pthread_join(thread, NULL);
}
/* While a library is loaded, a thread of its makes a call for the first time. */
static void loaded_library_waits(void) {
  char path[4096];
  long length = NEED(readlink("/proc/self/exe", path, sizeof path - 32));
  path[length] = '\0';
  strcpy(strrchr(path, '/') + 1, "libio-waits.so");
  DO(dlopen(path, RTLD_NOW) != NULL);
}
static void like_a_daemon(void) {
  pid_t pid = fork();
  if (pid == 0) {
    int kept = dup(file);
    (void)!daemon(0, 0);
    _exit(pread(kept, other, 100, 0) == 100 ? 0 : 1);
  }
  DO(finish(pid));
}
static void blocked_signals(void) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  DO(pread(file, other, 100, 0));
}
static void at_exit_writes_at(void) { (void)!pwrite(second, "bye", 3, 0); }
static void at_exit_writes(void) {
  pid_t pid = fork();
  if (pid == 0) {
    atexit(at_exit_writes_at);
    (void)!pwrite(second, "hello", 5, 0);
    exit(0);
  }
  DO(finish(pid));
  show(other, (size_t)DO(pread(second, other, 100, 0)));
}

const struct test_case thread_cases[] = {
    N(cancelled),
    D(cancel_pending),
    D(handler_reads),
    D(handler_while_handed_over),
    D(handler_jumps),
    N(handler_leaves_the_start),
    D(handler_ends_thread),
    D(handler_jumps_within),
    D(forked_child_reads),
    D(child_without_handlers_reads),
    D(handler_forks),
    D(child_goes_on),
    D(vforked_child_writes),
    D(spawned),
    D(executed),
    D(unshared),
    N(unshared_meanwhile),
    D(filtered),
    D(other_user),
    D(memory_with_a_key),
    D(main_thread_leaves),
    N(loaded_library_waits),
    N(real_time),
    N(like_a_daemon),
    D(blocked_signals),
    D(at_exit_writes),
    {NULL, NULL, false, false},
};
