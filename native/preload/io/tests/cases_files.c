/* cases_files.c: cases of files, pipes and other things that block; see cases.c.
 *
 * Over 500 lines: a list of cases, each of which stands alone. */
#define _GNU_SOURCE
#include "cases.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

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
/* By a library that makes its system calls past us. */
static void replaced_unheard(void) {
  int fd = dup(file), other_fd, ends[2], sockets[2];
  int (*replace)(int, int) = (int (*)(int, int))dlsym(dlopen("libc.so.6", RTLD_LAZY), "dup2");
  NEED(pipe2(ends, O_NONBLOCK));
  pair_of(SOCK_STREAM, sockets);
  other_fd = dup(sockets[0]);
  DO(pread(fd, other, 10, 0));
  DO(recv(other_fd, other, 10, MSG_DONTWAIT));
  NEED(replace(ends[0], fd));
  NEED(replace(file, other_fd));
  DO(pread(fd, other, 10, 8)); /* a pipe refuses that, and nobody waits for what is not there */
  DO(pread(fd, other, 10, 0));
  NEED(write(ends[1], "pipe", 4));
  DO(pread(fd, other, 10, 0));
  DO(read(ends[0], other, 10));
  DO(read(other_fd, other, 10));
  DO(write(other_fd, "x", 1));
  DO(recv(other_fd, other, 10, 0));
  where(other_fd);
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

const struct test_case file_cases[] = {
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
    D(replaced_unheard),
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
    {NULL, NULL, false, false},
};
