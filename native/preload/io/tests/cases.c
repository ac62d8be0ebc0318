/* cases.c: what a program can see of its calls for input and output, case by case.
 *
 *   cases --list        the names; behind a name "delegates" where a context can make its calls
 *   cases NAME          prints what the calls of the case returned
 *
 * Run directly and with libmaru-io.so it must print the same (semantics.c compares).
 */
#undef _FILE_OFFSET_BITS
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

#define SIZE 200000

static char data[SIZE], other[SIZE];
static int file, second; /* two temporary files; the first holds `data` */
static volatile sig_atomic_t caught[65];

/* Straight to the pipe that is read by whoever compares: by no call that is being tested. */
static char text[1 << 16];
static size_t said;
static void say(const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  said += (size_t)vsnprintf(text + said, sizeof text - said, format, rest);
  va_end(rest);
}
static void tell(void) {
  for (size_t at = 0; at < said;)
    at += (size_t)syscall(SYS_write, 1, text + at, said - at);
  said = 0;
}

#define DO(call)                                                                                   \
  ({                                                                                               \
    errno = 77;                                                                                    \
    long result_ = (long)(call);                                                                   \
    say("%s -> %ld errno %d\n", #call, result_, errno);                                            \
    result_;                                                                                       \
  })
/* One whose result must be that, or the case cannot be tried. */
#define NEED(call)                                                                                 \
  ({                                                                                               \
    long result_ = (long)(call);                                                                   \
    CHECK(result_ >= 0);                                                                           \
    result_;                                                                                       \
  })

static void show(const char *buffer, size_t size) {
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ (unsigned char)buffer[i]) * 1099511628211u;
  say("  %zu bytes %016llx\n", size, (unsigned long long)hash);
}
static void where(int fd) { say("  at %lld\n", (long long)lseek(fd, 0, SEEK_CUR)); }
static void signals(void) {
  for (int i = 1; i < 65; i++)
    if (caught[i])
      say("  signal %d came %d times\n", i, (int)caught[i]);
}
static void on_signal(int number) { caught[number]++; }
static void handle(int number, int flags) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
  sigaction(number, &action, NULL);
}
static void pause_ms(int ms) { poll(NULL, 0, ms); }

static void pair_of(int type, int pair[2]) { NEED(socketpair(AF_UNIX, type, 0, pair)); }

/* Two connected TCP sockets. */
static void tcp(int pair[2]) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int listener = (int)NEED(socket(AF_INET, SOCK_STREAM, 0));
  NEED(bind(listener, (struct sockaddr *)&at, size));
  NEED(listen(listener, 1));
  NEED(getsockname(listener, (struct sockaddr *)&at, &size));
  pair[0] = (int)NEED(socket(AF_INET, SOCK_STREAM, 0));
  NEED(connect(pair[0], (struct sockaddr *)&at, size));
  pair[1] = (int)NEED(accept(listener, NULL, NULL));
  close(listener);
}

struct later {
  int ms;
  int fd;
  const char *bytes;
  size_t size;
  pthread_t target;
  pid_t thread;
  int signal;
};
static bool sleeps(pid_t thread) {
  char path[64], status[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
  int fd = (int)NEED(open(path, O_RDONLY));
  ssize_t got = syscall(SYS_read, fd, status, sizeof status - 1);
  close(fd);
  status[got > 0 ? got : 0] = '\0';
  const char *state = strrchr(status, ')');
  return state != NULL && strncmp(state, ") S", 3) == 0;
}
/* In its call: for longer than a context may keep it waiting. */
static void until_it_sleeps(pid_t thread) {
  for (int times = 0; times < 4; times = sleeps(thread) ? times + 1 : 0)
    pause_ms(8);
}
static void *act_later(void *argument) {
  struct later *l = argument;
  pause_ms(l->ms);
  if (l->signal != 0)
    until_it_sleeps(l->thread);
  if (l->signal != 0)
    pthread_kill(l->target, l->signal);
  else
    syscall(SYS_write, l->fd, l->bytes, l->size);
  return NULL;
}
static pthread_t begin_later(struct later *l) {
  pthread_t thread;
  l->target = pthread_self();
  l->thread = gettid();
  NEED(-pthread_create(&thread, NULL, act_later, l));
  return thread;
}

/* ---- files --------------------------------------------------------------- */

static void read_whole(void) {
  for (size_t at = 0; at < SIZE; at += 50000)
    DO(read(file, other + at, 50000));
  show(other, SIZE);
  where(file);
}
static void read_at_end(void) {
  lseek(file, -10, SEEK_END);
  DO(read(file, other, 100));
  DO(read(file, other, 100));
  where(file);
}
static void read_behind_end(void) {
  lseek(file, SIZE + 10, SEEK_SET);
  DO(read(file, other, 100));
  DO(pread(file, other, 100, SIZE * 2));
}
static void read_nothing(void) {
  DO(read(file, other, 0));
  DO(read(file, NULL, 0));
  DO(write(second, other, 0));
}
static void bad_descriptor(void) {
  DO(read(999, other, 10));
  DO(write(-1, other, 10));
  DO(pread(70000, other, 10, 0));
  DO(recv(999, other, 10, 0));
  DO(close(999));
}
static void wrong_direction(void) {
  int reader = open("/proc/self/exe", O_RDONLY), writer = dup(second);
  DO(write(reader, other, 10));
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", second);
  int only = (int)NEED(open(path, O_WRONLY));
  DO(read(only, other, 10));
  DO(pread(only, other, 10, 0));
  DO(write(writer, data, 10));
}
static void read_directory(void) {
  int fd = (int)NEED(open("/tmp", O_RDONLY | O_DIRECTORY));
  DO(read(fd, other, 10));
}
static void bad_address(void) {
  DO(read(file, (void *)8, 100));
  DO(write(second, (void *)8, 100));
  DO(pread(file, (void *)8, 100, 5));
  DO(readv(file, (void *)8, 2));
  where(file);
}
static char *half_page(void) {
  char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
  return page;
}
static void half_bad_address(void) {
  char *page = half_page();
  DO(read(file, page + 4000, 200) >= 0);
  DO(write(second, page + 4000, 200) >= 0);
  where(second);
}
static void write_some(void) {
  DO(write(second, data, 5000));
  DO(write(second, data + 5000, 70000));
  where(second);
  DO(pread(second, other, SIZE, 0));
  show(other, 75000);
}
static void append(void) {
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", second);
  int a = (int)NEED(open(path, O_WRONLY | O_APPEND)), b = (int)NEED(open(path, O_RDWR | O_APPEND));
  DO(write(a, "one", 3));
  DO(write(b, "two", 3));
  DO(pwrite(a, "three", 5, 0));
  where(a);
  where(b);
  show(other, (size_t)DO(pread(b, other, 100, 0)));
}
static void limit(rlim_t bytes) {
  struct rlimit most = {bytes, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &most);
}
static void limit_reached(void) {
  handle(SIGXFSZ, 0);
  limit(1000);
  DO(write(second, data, 900));
  DO(write(second, data, 900));
  DO(write(second, data, 900));
  DO(pwrite(second, data, 1, 5000));
  signals();
  where(second);
}
static void limit_ignored(void) {
  signal(SIGXFSZ, SIG_IGN);
  limit(1000);
  DO(write(second, data, 2000));
  DO(write(second, data, 2000));
}
static void limit_kills(void) {
  pid_t pid = fork();
  if (pid == 0) {
    limit(10);
    for (int i = 0; i < 5; i++)
      (void)!write(second, data, 20);
    _exit(3);
  }
  int status = finish(pid);
  say("signalled %d by %d\n", WIFSIGNALED(status), WTERMSIG(status));
}
static void at_offsets(void) {
  for (int i = 0; i < 20; i++) {
    DO(pread(file, other, 777, i * 9999));
    show(other, 777);
  }
  DO(pread64(file, other, 50, 3));
  where(file);
}
static void bad_offset(void) {
  DO(pread(file, other, 10, -1));
  DO(pwrite(second, other, 10, -5));
  DO(pread(file, other, 10, INT64_MAX));
  DO(pwrite(second, other, 10, INT64_MAX - 5));
}
static void hole(void) {
  DO(pwrite(second, data, 100, 100000));
  DO(read(second, other, 1000));
  show(other, 1000);
  struct stat status;
  fstat(second, &status);
  say("size %lld\n", (long long)status.st_size);
}
static void scattered(void) {
  char a[10], b[300], c[5];
  struct iovec parts[3] = {{a, 10}, {b, 300}, {c, 5}};
  DO(readv(file, parts, 3));
  show(b, 300);
  DO(writev(second, parts, 3));
  where(file);
  where(second);
  DO(preadv(file, parts, 2, 1234));
  show(b, 300);
  DO(pwritev(second, parts, 3, 50));
  DO(preadv2(file, parts, 3, -1, 0));
  where(file);
}
static void bad_parts(void) {
  struct iovec parts[2] = {{other, 10}, {other, (size_t)-1}};
  DO(readv(file, parts, 0));
  DO(readv(file, parts, -1));
  DO(readv(file, parts, 5000));
  DO(readv(file, parts, 2));
  DO(writev(second, parts, 2));
  DO(preadv(file, parts, 1, -3));
  where(file);
}
static void shared_offset(void) {
  int copy = dup(file);
  DO(read(file, other, 10));
  DO(read(copy, other, 10));
  DO(lseek(copy, 100, SEEK_SET));
  DO(read(file, other, 10));
  where(copy);
}
static void offset_over_fork(void) {
  DO(read(file, other, 10));
  pid_t pid = fork();
  if (pid == 0)
    _exit(read(file, other, 30) == 30 ? 0 : 1);
  DO(finish(pid));
  DO(read(file, other, 10));
  where(file);
}
static void truncated(void) {
  DO(write(second, data, 1000));
  DO(ftruncate(second, 10));
  DO(write(second, data, 10));
  show(other, (size_t)DO(pread(second, other, 5000, 0)));
}
static void not_aligned(void) {
  char path[] = "/var/tmp/maru-direct-XXXXXX";
  int plain = (int)NEED(mkstemp(path));
  NEED(write(plain, data, 8192));
  int direct = open(path, O_RDONLY | O_DIRECT);
  unlink(path);
  DO(direct >= 0);
  if (direct < 0)
    return;
  DO(read(direct, other + 1, 100));
  char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  DO(read(direct, page, 4096));
  where(direct);
}
static void reused(void) {
  int fd = dup(file), ends[2], sockets[2];
  DO(read(fd, other, 10));
  close(fd);
  NEED(pipe(ends));
  CHECK_EQUAL(ends[0], fd);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  DO(read(fd, other, 10));
  close(ends[0]);
  close(ends[1]);
  pair_of(SOCK_STREAM, sockets);
  CHECK_EQUAL(sockets[0], fd);
  DO(recv(fd, other, 10, MSG_DONTWAIT));
  close(fd);
  DO(read(fd, other, 10));
}
static void replaced(void) {
  int fd = dup(file), ends[2];
  DO(read(fd, other, 10));
  NEED(pipe2(ends, O_NONBLOCK));
  DO(dup2(ends[0], fd) == fd);
  DO(read(fd, other, 10));
  DO(dup3(file, fd, O_CLOEXEC) == fd);
  DO(read(fd, other, 10));
  DO(dup2(999, fd));
  DO(read(fd, other, 10));
  DO(dup2(fd, fd) == fd);
  DO(dup3(fd, fd, 0));
  where(fd);
}
static void closed_by_stream(void) {
  int fd = dup(file);
  DO(read(fd, other, 10));
  FILE *stream = fdopen(fd, "r");
  fclose(stream);
  int ends[2];
  NEED(syscall(SYS_pipe2, ends, O_NONBLOCK)); /* behind the library's back */
  CHECK_EQUAL(ends[0], fd);
  DO(read(fd, other, 10));
}
static void closed_by_number(void) {
  int fd = dup(file), ends[2];
  DO(read(fd, other, 10));
  syscall(SYS_close, fd);
  NEED(syscall(SYS_pipe2, ends, O_NONBLOCK));
  DO(read(fd, other, 10));
}
static void closed_by_range(void) {
  int fd = dup(file);
  DO(read(fd, other, 10));
  DO(close_range((unsigned)fd, ~0u, 0));
  DO(read(fd, other, 10));
  fd = dup(file);
  DO(read(fd, other, 10));
  closefrom(fd);
  DO(read(fd, other, 10));
}
static void range_unshared(void) {
  int fd = dup(file);
  NEED(pwrite(second, "second", 6, 0));
  DO(pread(fd, other, 6, 0));
  DO(close_range(1000, 1000, CLOSE_RANGE_UNSHARE)); /* the table is this thread's own now */
  DO(dup2(second, fd) == fd);
  DO(pread(fd, other, 6, 0));
  show(other, 6);
}
static void duplicated_by_fcntl(void) {
  int fd = (int)DO(fcntl(file, F_DUPFD, 100));
  DO(read(fd, other, 10));
  DO(fcntl(fd, F_GETFL) & O_ACCMODE);
  DO(fcntl64(file, F_DUPFD_CLOEXEC, 200));
  DO(read(200, other, 10));
}
static void pseudo_file(void) {
  int fd = (int)NEED(open("/proc/thread-self/comm", O_RDWR));
  DO(write(fd, "renamed", 7)); /* is about the thread that calls */
  lseek(fd, 0, SEEK_SET);
  show(other, (size_t)DO(read(fd, other, 100)));
}
static void path_only(void) {
  int fd = (int)NEED(open("/tmp", O_PATH));
  DO(read(fd, other, 10));
}
static void too_much(void) {
  DO(read(file, other, (size_t)-1) < 0);
  DO(pread(file, other, SIZE, 0));
  DO(read(file, other, SIZE * 2 / 2));
  where(file);
}
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
static void fortified(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  DO(__read_chk(file, other, 100, sizeof other));
  DO(__pread_chk(file, other, 100, 7, sizeof other));
  show(other, 100);
  NEED(send(pair[0], data, 50, 0));
  DO(__recv_chk(pair[1], other, 100, sizeof other, 0));
  where(file);
}
static void overflow_found(void) {
  pid_t pid = fork();
  if (pid == 0) {
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 2);
    __read_chk(file, other, 100, 10);
    _exit(0);
  }
  say("killed by %d\n", WTERMSIG(finish(pid)));
}
static void errno_kept(void) {
  errno = 42;
  for (int i = 0; i < 50; i++)
    NEED(pread(file, other, 100, i));
  say("%d\n", errno);
}
static void *read_part(void *argument) {
  size_t part = (size_t)(intptr_t)argument;
  for (int i = 0; i < 200; i++)
    CHECK_EQUAL(pread(file, other + part * 25000, 25000, (off_t)part * 25000), 25000);
  return NULL;
}
static void many_threads(void) {
  pthread_t threads[8];
  for (intptr_t i = 0; i < 8; i++)
    NEED(-pthread_create(&threads[i], NULL, read_part, (void *)i));
  for (int i = 0; i < 8; i++)
    pthread_join(threads[i], NULL);
  show(other, SIZE);
}
static void *read_once(void *unused) {
  (void)unused;
  char bytes[100];
  CHECK_EQUAL(pread(file, bytes, 100, 0), 100);
  return NULL;
}
static void thread_after_thread(void) {
  for (int i = 0; i < 600; i++) { /* more than there are slots */
    pthread_t thread;
    NEED(-pthread_create(&thread, NULL, read_once, NULL));
    pthread_join(thread, NULL);
  }
  say("all ended\n");
}
static void file_to_file(void) {
  off_t from = 100;
  DO(sendfile(second, file, &from, 5000));
  DO((long)from);
  DO(copy_file_range(file, NULL, second, NULL, 3000, 0));
  where(file);
  where(second);
  DO(fsync(second));
  DO(fdatasync(second));
  DO(fsync(999));
  DO(posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL));
  DO(readahead(file, 0, 100000));
}

/* ---- pipes and other things that block ----------------------------------- */

static void pipe_waits(void) {
  int ends[2];
  NEED(pipe(ends));
  struct later l = {.ms = 30, .fd = ends[1], .bytes = "hello", .size = 5};
  pthread_t thread = begin_later(&l);
  DO(read(ends[0], other, 100));
  pthread_join(thread, NULL);
  close(ends[1]);
  DO(read(ends[0], other, 100));
}
static void interrupted(void) {
  int ends[2];
  NEED(pipe(ends));
  handle(SIGUSR1, 0);
  struct later l = {.ms = 30, .signal = SIGUSR1};
  pthread_t thread = begin_later(&l);
  DO(read(ends[0], other, 100));
  pthread_join(thread, NULL);
  signals();
}
static void restarted(void) {
  int ends[2];
  NEED(pipe(ends));
  handle(SIGUSR1, SA_RESTART);
  struct later signal = {.ms = 20, .signal = SIGUSR1},
               write = {.ms = 60, .fd = ends[1], .bytes = "x", .size = 1};
  pthread_t a = begin_later(&signal), b = begin_later(&write);
  DO(read(ends[0], other, 100));
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  signals();
}
static void pipe_empty(void) {
  int ends[2];
  NEED(pipe2(ends, O_NONBLOCK));
  DO(read(ends[0], other, 10));
  long total = 0, got;
  while ((got = write(ends[1], data, 4096)) > 0)
    total += got;
  say("full at %ld errno %d\n", total, errno);
  DO(pread(ends[0], other, 10, 0));
}
static void pipe_broken(void) {
  int ends[2];
  NEED(pipe(ends));
  close(ends[0]);
  handle(SIGPIPE, 0);
  DO(write(ends[1], data, 10));
  signals();
}
static void event(void) {
  int fd = eventfd(3, EFD_NONBLOCK);
  uint64_t value = 7;
  DO(read(fd, &value, 8));
  DO((long)value);
  DO(read(fd, &value, 8));
  DO(read(fd, &value, 4));
}
static void terminal(void) {
  int fd = posix_openpt(O_RDWR | O_NOCTTY);
  DO(fd >= 0);
  if (fd < 0)
    return;
  fcntl(fd, F_SETFL, O_NONBLOCK);
  DO(read(fd, other, 10) < 0);
}

/* ---- sockets ------------------------------------------------------------- */

static void stream(void) {
  int pair[2];
  tcp(pair);
  for (int i = 1; i < 10; i++) {
    DO(send(pair[0], data, (size_t)i * 100, 0));
    DO(recv(pair[1], other, (size_t)i * 100, MSG_WAITALL));
    DO(write(pair[1], data, 20));
    while (poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, -1) != 1)
      ;
    DO(read(pair[0], other, 100));
  }
  close(pair[0]);
  DO(read(pair[1], other, 100));
  DO(recv(pair[1], other, 100, 0));
}
static void socket_empty(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  DO(recv(pair[0], other, 10, MSG_DONTWAIT));
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  DO(read(pair[0], other, 10));
  DO(recv(pair[0], other, 10, 0));
  DO(readv(pair[0], &(struct iovec){other, 10}, 1));
}
static void socket_waits(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  struct later l = {.ms = 30, .fd = pair[1], .bytes = "hello", .size = 5};
  pthread_t thread = begin_later(&l);
  DO(recv(pair[0], other, 100, 0));
  pthread_join(thread, NULL);
  thread = begin_later(&l);
  DO(read(pair[0], other, 100));
  pthread_join(thread, NULL);
}
static void socket_interrupted(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  handle(SIGUSR1, 0);
  struct later l = {.ms = 30, .signal = SIGUSR1};
  pthread_t thread = begin_later(&l);
  DO(recv(pair[0], other, 100, 0));
  pthread_join(thread, NULL);
  thread = begin_later(&l);
  DO(read(pair[0], other, 100));
  pthread_join(thread, NULL);
  signals();
}
static void socket_times_out(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  struct timeval time = {.tv_usec = 30000};
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  DO(recv(pair[0], other, 100, 0));
  DO(read(pair[0], other, 100));
}
static void no_reader(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  close(pair[1]);
  handle(SIGPIPE, 0);
  DO(write(pair[0], data, 10));
  DO(send(pair[0], data, 10, 0));
  DO(writev(pair[0], &(struct iovec){data, 10}, 1));
  signals();
  DO(send(pair[0], data, 10, MSG_NOSIGNAL));
  signals();
}
static void no_reader_kills(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  close(pair[1]);
  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 5; i++)
      (void)!write(pair[0], data, 20);
    _exit(3);
  }
  say("killed by %d\n", WTERMSIG(finish(pid)));
}
static void no_reader_ignored(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  close(pair[1]);
  signal(SIGPIPE, SIG_IGN);
  DO(write(pair[0], data, 10));
  DO(write(pair[0], data, 10));
}
static void no_reader_blocked(void) {
  int pair[2];
  sigset_t set;
  pair_of(SOCK_STREAM, pair);
  close(pair[1]);
  DO(send(pair[0], data, 10, MSG_NOSIGNAL));
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  DO(write(pair[0], data, 10));
  sigpending(&set);
  say("pending %d\n", sigismember(&set, SIGPIPE));
}
static void datagram_no_reader(void) {
  int pair[2];
  pair_of(SOCK_DGRAM, pair);
  close(pair[1]);
  handle(SIGPIPE, 0);
  DO(write(pair[0], data, 10));
  DO(shutdown(pair[0], SHUT_WR));
  DO(write(pair[0], data, 10));
  signals();
}
static void *drain(void *argument) {
  int fd = *(int *)argument;
  static char sink[70000];
  long total = 0, got;
  while ((got = syscall(SYS_read, fd, sink, sizeof sink)) > 0)
    total += got;
  return (void *)total;
}
static void sends_all(void) {
  int pair[2];
  static char much[3000000];
  tcp(pair);
  pthread_t reader;
  void *total;
  NEED(-pthread_create(&reader, NULL, drain, &pair[1]));
  DO(send(pair[0], much, sizeof much, 0));
  DO(write(pair[0], much, sizeof much));
  DO(writev(pair[0], (struct iovec[2]){{much, 1000000}, {much, 2000000}}, 2));
  close(pair[0]);
  pthread_join(reader, &total);
  say("%ld bytes came\n", (long)total);
}
static void sends_part(void) {
  int pair[2];
  static char much[3000000];
  pair_of(SOCK_STREAM, pair);
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  long sent = send(pair[0], much, sizeof much, 0);
  DO(sent > 0 && sent < (long)sizeof much);
  DO(send(pair[0], much, sizeof much, 0));
}
static void peeks(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  NEED(send(pair[0], "abcdef", 6, 0));
  DO(recv(pair[1], other, 3, MSG_PEEK));
  DO(recv(pair[1], other, 100, 0));
  NEED(send(pair[0], "abcdef", 6, 0));
  DO(recv(pair[1], other, 6, MSG_WAITALL));
}
static void datagrams(void) {
  int pair[2];
  pair_of(SOCK_DGRAM, pair);
  DO(send(pair[0], data, 100, 0));
  DO(recv(pair[1], other, 10, MSG_TRUNC));
  DO(send(pair[0], data, 0, 0));
  DO(recv(pair[1], other, 10, 0));
  DO(write(pair[0], data, 0));
  DO(write(pair[0], data, 33));
  DO(read(pair[1], other, 100));
  DO(write(pair[0], data, 44));
  DO(read(pair[1], other, 0));
  struct iovec parts[2] = {{other, 20}, {other + 20, 100}};
  DO(readv(pair[1], parts, 2));
  DO(writev(pair[0], parts, 2));
  DO(recv(pair[1], other, 1000, 0));
  struct iovec whole = {other, 10};
  struct msghdr message = {.msg_iov = &whole, .msg_iovlen = 1};
  DO(send(pair[0], data, 50, 0));
  DO(recvmsg(pair[1], &message, 0));
  DO(message.msg_flags);
}
static void addresses(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
  socklen_t size = sizeof at, from_size = sizeof from;
  int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
  NEED(bind(a, (struct sockaddr *)&at, size));
  NEED(getsockname(a, (struct sockaddr *)&at, &size));
  DO(sendto(b, data, 70, 0, (struct sockaddr *)&at, size));
  DO(recvfrom(a, other, 100, 0, (struct sockaddr *)&from, &from_size));
  DO(from_size);
  DO(from.sin_family);
  DO(send(b, data, 10, 0));
  close(a);
  NEED(connect(b, (struct sockaddr *)&at, size));
  DO(send(b, data, 10, 0));
  pause_ms(10);
  DO(recv(b, other, 10, MSG_DONTWAIT));
}
static void not_connected(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  handle(SIGPIPE, 0);
  DO(recv(fd, other, 10, 0));
  DO(read(fd, other, 10));
  DO(send(fd, data, 10, 0));
  signals();
}
static void shut_down(void) {
  int pair[2];
  tcp(pair);
  handle(SIGPIPE, 0);
  DO(shutdown(pair[0], SHUT_WR));
  DO(write(pair[0], data, 10));
  DO(read(pair[1], other, 10));
  DO(shutdown(pair[1], SHUT_RD));
  signals();
}
static void reset(void) {
  int pair[2];
  tcp(pair);
  struct linger linger = {1, 0};
  setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
  close(pair[1]);
  pause_ms(10);
  handle(SIGPIPE, 0);
  DO(read(pair[0], other, 10));
  DO(read(pair[0], other, 10));
  DO(write(pair[0], data, 10));
  signals();
}
static void low_water(void) {
  int pair[2], bytes = 8;
  pair_of(SOCK_STREAM, pair);
  DO(setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes));
  NEED(send(pair[1], "1234", 4, 0));
  struct later l = {.ms = 40, .fd = pair[1], .bytes = "567890", .size = 6};
  pthread_t thread = begin_later(&l);
  DO(read(pair[0], other, 100));
  pthread_join(thread, NULL);
}
/* The mark is the socket's, not the descriptor's. */
static void low_water_of_copies(void) {
  int pair[2], bytes = 8;
  pair_of(SOCK_STREAM, pair);
  int before = dup(pair[0]);
  DO(recv(before, other, 1, MSG_DONTWAIT));
  DO(setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes));
  int copies[2] = {before, dup(pair[0])};
  for (int i = 0; i < 2; i++) {
    NEED(send(pair[1], "1234", 4, 0));
    struct later l = {.ms = 40, .fd = pair[1], .bytes = "567890", .size = 6};
    pthread_t thread = begin_later(&l);
    DO(read(copies[i], other, 100));
    pthread_join(thread, NULL);
    recv(pair[0], other, 100, MSG_DONTWAIT);
  }
}
static void sequenced(void) {
  int pair[2];
  pair_of(SOCK_SEQPACKET, pair);
  DO(write(pair[0], data, 10));
  DO(send(pair[0], data, 20, MSG_EOR));
  DO(read(pair[1], other, 100));
  DO(recv(pair[1], other, 5, 0));
  DO(recv(pair[1], other, 5, MSG_DONTWAIT));
}
static void odd_flags(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  DO(send(pair[0], data, 10, MSG_OOB) >= -1);
  DO(recv(pair[1], other, 10, MSG_ERRQUEUE) >= -1);
  DO(send(file, data, 10, 0));
  DO(recv(file, other, 10, 0));
  DO(recvmsg(pair[1], (void *)8, MSG_DONTWAIT));
  DO(sendmsg(pair[0], (void *)8, 0));
  fcntl(pair[1], F_SETFL, O_NONBLOCK);
  DO(readv(pair[1], (void *)8, 2));
  DO(writev(pair[0], (void *)8, 2));
  DO(read(pair[1], (void *)8, 10));
  DO(write(pair[0], (void *)8, 10));
  DO(readv(pair[1], &(struct iovec){other, 0}, 1));
  DO(writev(pair[0], &(struct iovec){other, 0}, 1));
}
static void descriptors_travel(void) {
  int pair[2];
  pair_of(SOCK_DGRAM, pair);
  char room[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {data, 5};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(header), &file, sizeof file);
  DO(sendmsg(pair[0], &message, 0));
  part.iov_base = other;
  DO(recvmsg(pair[1], &message, 0));
  int came = -1;
  memcpy(&came, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof came);
  DO(pread(came, other, 100, 0));
  show(other, 100);
}
static void several_messages(void) {
  int pair[2];
  pair_of(SOCK_DGRAM, pair);
  struct iovec part = {data, 10};
  struct mmsghdr messages[3] = {0};
  for (int i = 0; i < 3; i++)
    messages[i].msg_hdr = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
  DO(sendmmsg(pair[0], messages, 3, 0));
  part.iov_base = other;
  DO(recvmmsg(pair[1], messages, 3, 0, NULL));
  DO(recvmmsg(pair[1], messages, 3, MSG_DONTWAIT, NULL));
}
static void file_to_socket(void) {
  int pair[2];
  tcp(pair);
  off_t from = 0;
  DO(sendfile(pair[0], file, &from, 10000));
  DO(recv(pair[1], other, 10000, MSG_WAITALL));
  show(other, 10000);
}

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

/* ---- the list ------------------------------------------------------------ */

static const struct {
  const char *name;
  void (*run)(void);
  bool delegates;
} cases[] = {
#define D(name)                                                                                    \
  { #name, name, true }
#define N(name)                                                                                    \
  { #name, name, false }
    D(read_whole),
    D(read_at_end),
    D(read_behind_end),
    N(read_nothing),
    N(bad_descriptor),
    D(wrong_direction),
    N(read_directory),
    D(bad_address),
    D(half_bad_address),
    D(write_some),
    D(append),
    D(limit_reached),
    D(limit_ignored),
    D(limit_kills),
    D(at_offsets),
    D(bad_offset),
    D(hole),
    D(scattered),
    D(bad_parts),
    D(shared_offset),
    D(offset_over_fork),
    D(truncated),
    D(not_aligned),
    D(reused),
    D(replaced),
    D(closed_by_stream),
    D(closed_by_number),
    D(closed_by_range),
    D(range_unshared),
    D(duplicated_by_fcntl),
    N(pseudo_file),
    N(path_only),
    D(too_much),
    D(fortified),
    N(overflow_found),
    D(errno_kept),
    D(many_threads),
    D(thread_after_thread),
    N(file_to_file),
    N(pipe_waits),
    N(interrupted),
    N(restarted),
    N(pipe_empty),
    N(pipe_broken),
    N(event),
    N(terminal),
    D(stream),
    D(socket_empty),
    D(socket_waits),
    D(socket_interrupted),
    D(socket_times_out),
    D(no_reader),
    N(no_reader_kills),
    D(no_reader_ignored),
    D(no_reader_blocked),
    D(datagram_no_reader),
    D(sends_all),
    D(sends_part),
    D(peeks),
    D(datagrams),
    D(addresses),
    D(not_connected),
    D(shut_down),
    D(reset),
    N(low_water),
    N(low_water_of_copies),
    N(sequenced),
    D(odd_flags),
    D(descriptors_travel),
    N(several_messages),
    N(file_to_socket),
    N(cancelled),
    D(cancel_pending),
    D(handler_reads),
    D(handler_jumps),
    D(handler_jumps_within),
    D(forked_child_reads),
    D(handler_forks),
    D(child_goes_on),
    D(vforked_child_writes),
    D(spawned),
    D(executed),
    D(unshared),
    D(filtered),
    D(other_user),
    D(main_thread_leaves),
    N(loaded_library_waits),
    N(real_time),
    N(like_a_daemon),
    D(blocked_signals),
    D(at_exit_writes),
};

static int temporary(void) {
  char path[] = "/tmp/maru-cases-XXXXXX";
  int fd = (int)NEED(mkstemp(path));
  unlink(path);
  return fd;
}

/* After these the contexts are there, if there are to be any. */
static void warm(void) {
  int pair[2];
  char byte;
  pair_of(SOCK_STREAM, pair);
  for (int i = 0; i < 3; i++) {
    NEED(pread(file, &byte, 1, 0));
    NEED(send(pair[0], "x", 1, 0));
    NEED(recv(pair[1], &byte, 1, 0));
  }
  close(pair[0]);
  close(pair[1]);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  size_t number = sizeof cases / sizeof *cases;
  if (strcmp(name, "--list") == 0) {
    for (size_t i = 0; i < number; i++)
      printf("%s%s\n", cases[i].name, cases[i].delegates ? " delegates" : "");
    return 0;
  }
  for (size_t i = 0; i < SIZE; i++)
    data[i] = (char)(i * 2654435761u >> 13);
  file = temporary();
  second = temporary();
  NEED(pwrite(file, data, SIZE, 0));
  warm();
  for (size_t i = 0; i < number; i++)
    if (strcmp(name, cases[i].name) == 0)
      cases[i].run();
  tell();
  return 0;
}
