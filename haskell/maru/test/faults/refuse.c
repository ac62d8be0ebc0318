/* refuse.c: takes from this process what a sandbox or a limit would. Errors are errno. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int faults_refuse(int what);
int faults_refuse_threads(void);
int faults_refuse_forks(void);
int faults_refuse_second(void);
void faults_refuse_first(void);
void faults_open_in_between(void);
int faults_hung_up(int milliseconds);
int faults_occupy(void);
int faults_space(int mebibytes);
int faults_descriptors(int more);
int faults_processes(void);
int faults_files(int kibibytes);
int faults_deaf_child(void);

static int install(struct sock_filter *code, unsigned short length) {
  struct sock_fprog program = {length, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    return errno;
  /* For all threads of this process. */
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ? errno
                                                                                            : 0;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (n))
#define REFUSE(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int refuse_one(uint32_t number) {
  struct sock_filter code[] = {LOAD(nr), SKIP_UNLESS(number, 1), REFUSE(EPERM), ALLOW};
  return install(code, sizeof code / sizeof *code);
}

/* glibc ends a process whose private futexes are refused. */
static int refuse_shared_futexes(void) {
  struct sock_filter code[] = {
      LOAD(nr),      SKIP_UNLESS(SYS_futex, 3),
      LOAD(args[1]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, FUTEX_PRIVATE_FLAG, 1, 0),
      REFUSE(EPERM), ALLOW};
  return install(code, sizeof code / sizeof *code);
}

/* New ones, of this process; processes may be forked. */
int faults_refuse_threads(void) {
  struct sock_filter code[] = {
      LOAD(nr),       SKIP_UNLESS(SYS_clone3, 1),
      REFUSE(ENOSYS), SKIP_UNLESS(SYS_clone, 3),
      LOAD(args[0]),  BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
      REFUSE(EAGAIN), ALLOW};
  return install(code, sizeof code / sizeof *code);
}

/* Processes may be forked no more; threads may be had. */
int faults_refuse_forks(void) {
  struct sock_filter code[] = {
      LOAD(nr),       SKIP_UNLESS(SYS_clone3, 1),
      REFUSE(ENOSYS), SKIP_UNLESS(SYS_clone, 3),
      LOAD(args[0]),  BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
      REFUSE(EAGAIN), ALLOW};
  return install(code, sizeof code / sizeof *code);
}

static _Atomic int forked;

static void refuse_the_next(void) {
  (void)faults_refuse_forks();
  forked = 1;
}

/* One process may still be forked. */
int faults_refuse_second(void) { return pthread_atfork(NULL, refuse_the_next, NULL); }

static _Atomic int refused_first;

static _Atomic int opens_in_between;
static int between[2] = {-1, -1};

/* In the place of the C library's, for the run-time system too. */
pid_t fork(void) {
  pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
  if (opens_in_between) {
    opens_in_between = 0;
    (void)!pipe2(between, O_CLOEXEC); /* without it the poll says so */
  }
  if (refused_first == 0)
    return next();
  refused_first--;
  usleep(20000); /* a large heap takes long, also where it is refused */
  errno = EAGAIN;
  return -1;
}

/* The next process is refused, slowly, and once more when it is tried again; those behind it may be
   forked. */
void faults_refuse_first(void) { refused_first = 2; }

/* A pipe is opened just before the next fork, as another thread might. */
void faults_open_in_between(void) { opens_in_between = 1; }

/* Closes our writing end: 0 when it was the last one, ETIMEDOUT while another process has it. */
int faults_hung_up(int milliseconds) {
  struct pollfd reading = {between[0], 0, 0};
  close(between[1]);
  int n = poll(&reading, 1, milliseconds);
  if (n < 0)
    return errno;
  if (n == 0)
    return ETIMEDOUT;
  return reading.revents & POLLHUP ? 0 : EBADF;
}

/* From then on each number that becomes free is soon that of a socket of the program, for some 50
   milliseconds. */
int faults_occupy(void) {
  int ends[2];
  while (!forked)
    usleep(50);
  for (int i = 0; i < 300; i++) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
      return errno == EMFILE ? 0 : errno;
    usleep(100);
  }
  return 0;
}

int faults_refuse(int what) {
  switch (what) {
  case 0:
    return refuse_one(SYS_memfd_create);
  case 1:
    return refuse_one(SYS_pidfd_open);
  case 2:
    return refuse_shared_futexes();
  case 3: {
    int error = refuse_one(SYS_eventfd2);
    return error ? error : refuse_one(SYS_socketpair);
  }
  case 4: { /* pages of a file in the place of others */
    struct sock_filter code[] = {LOAD(nr),
                                 SKIP_UNLESS(SYS_mremap, 1),
                                 REFUSE(EPERM),
                                 SKIP_UNLESS(SYS_mmap, 4),
                                 LOAD(args[3]),
                                 BPF_STMT(BPF_ALU | BPF_AND | BPF_K, MAP_FIXED | MAP_ANONYMOUS),
                                 SKIP_UNLESS(MAP_FIXED, 1),
                                 REFUSE(EPERM),
                                 ALLOW};
    return install(code, sizeof code / sizeof *code);
  }
  case 5:
    return refuse_one(SYS_socketpair);
  case 6:
    return refuse_one(SYS_process_vm_readv);
  default:
    return EINVAL;
  }
}

static int limit(int resource, rlim_t value) {
  struct rlimit r = {value, value};
  return setrlimit(resource, &r) ? errno : 0;
}

/* Address space: so many MiB beyond what is in use. */
int faults_space(int mebibytes) {
  FILE *f = fopen("/proc/self/statm", "re");
  unsigned long pages;
  if (!f)
    return errno;
  int got = fscanf(f, "%lu", &pages);
  fclose(f);
  if (got != 1)
    return EIO;
  return limit(RLIMIT_AS, pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)mebibytes << 20));
}

/* Whether a descriptor is the clock of GHC's run-time system. */
static int is_clock(int fd) {
  char path[32], name[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(path, name, sizeof name - 1);
  name[length > 0 ? length : 0] = 0;
  return strstr(name, "timerfd") != NULL;
}

/* A thread of GHC's opens its clock some time after the start, and aborts where it cannot: after
   our line, if that was quick. */
static void await_clock(void) {
  for (int looks = 0; looks < 1000; looks++) {
    for (int fd = 0; fd < 64; fd++)
      if (is_clock(fd))
        return;
    usleep(1000);
  }
}

/* So many more descriptors than are open: the limit bounds new numbers only, and a high one may
   have been inherited. */
int faults_descriptors(int more) {
  int next = 0;
  await_clock();
  for (int left = more;; next++)
    if (fcntl(next, F_GETFD) < 0 && left-- == 0)
      break;
  return limit(RLIMIT_NOFILE, (rlim_t)next);
}

/* Files longer than so many KiB, as `ulimit -f` does: a longer one ends its process by SIGXFSZ. */
int faults_files(int kibibytes) {
  signal(SIGXFSZ, SIG_DFL);
  return limit(RLIMIT_FSIZE, (rlim_t)kibibytes << 10);
}

/* The limit does not bind root. */
int faults_processes(void) {
  int error = limit(RLIMIT_NPROC, 0);
  if (!error && geteuid() == 0 && setuid(65534))
    error = errno;
  return error;
}

static int next_is_deaf = 1;

static void in_parent(void) { next_is_deaf = 0; }

static void in_child(void) {
  while (next_is_deaf)
    pause();
}

/* The next process that is forked never gets to its first instruction. */
int faults_deaf_child(void) { return pthread_atfork(NULL, in_parent, in_child); }
