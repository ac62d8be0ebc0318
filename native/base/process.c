#define _GNU_SOURCE
#include "process.h"

#include "topology.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the inherited world ------------------------------------------------ */

struct entry {
  int fd;
  dev_t device;
  ino_t inode;
};

struct maru_fd_snapshot {
  size_t count, capacity;
  struct entry *entries;
  int *spared;
  size_t spared_count;
  int error; /* why they are not all here */
};

static int push(struct maru_fd_snapshot *s, struct entry e) {
  if (s->count == s->capacity) {
    size_t capacity = s->capacity ? 2 * s->capacity : 64;
    struct entry *grown = realloc(s->entries, capacity * sizeof *grown);
    if (!grown)
      return -ENOMEM;
    s->entries = grown;
    s->capacity = capacity;
  }
  s->entries[s->count++] = e;
  return 0;
}

static int is_spared(const struct maru_fd_snapshot *s, int fd) {
  for (size_t i = 0; i < s->spared_count; i++)
    if (s->spared[i] == fd)
      return 1;
  return 0;
}

/* Event, timer, epoll and process descriptors share one anonymous inode that
 * has no file type. */
static int has_data(const struct stat *st) { return (st->st_mode & S_IFMT) != 0; }

struct maru_fd_snapshot *maru_fd_snapshot_new(void) {
  return calloc(1, sizeof(struct maru_fd_snapshot));
}

void maru_fd_snapshot_free(struct maru_fd_snapshot *s) {
  if (s) {
    free(s->entries);
    free(s->spared);
  }
  free(s);
}

int maru_fd_snapshot_spare(struct maru_fd_snapshot *s, int fd) {
  int *grown = realloc(s->spared, (s->spared_count + 1) * sizeof *grown);
  if (!grown)
    return -ENOMEM;
  s->spared = grown;
  grown[s->spared_count++] = fd;
  return 0;
}

int maru_fd_snapshot_take(struct maru_fd_snapshot *s) {
  if (!s)
    return 0;
  DIR *dir = opendir("/proc/self/fd");
  if (!dir)
    return s->error = -errno;
  struct dirent *d;
  while (!s->error && (d = readdir(dir))) {
    char *end;
    long fd = strtol(d->d_name, &end, 10);
    struct stat st;
    if (end == d->d_name || *end || fd == dirfd(dir) || is_spared(s, (int)fd) ||
        fstat((int)fd, &st) || !has_data(&st))
      continue;
    s->error = push(s, (struct entry){(int)fd, st.st_dev, st.st_ino});
  }
  closedir(dir);
  return s->error;
}

int maru_fd_snapshot_seal(const struct maru_fd_snapshot *s) {
  if (s->error)
    return s->error;
  /* Neither reading nor writing is possible on an O_PATH descriptor. */
  int nothing = open("/", O_PATH | O_CLOEXEC);
  if (nothing < 0)
    return -errno;
  int replaced = 0;
  for (size_t i = 0; i < s->count; i++) {
    struct entry e = s->entries[i];
    struct stat st;
    if (e.fd == STDOUT_FILENO || e.fd == STDERR_FILENO || fstat(e.fd, &st))
      continue;
    /* The child's own runtime may have closed it and opened another. */
    if (st.st_dev != e.device || st.st_ino != e.inode)
      continue;
    if (dup3(nothing, e.fd, O_CLOEXEC) >= 0)
      replaced++;
  }
  close(nothing);
  return replaced;
}

int maru_fd_snapshot_wall(const struct maru_fd_snapshot *s, int wall) {
  struct stat nothing, st;
  if (stat("/", &nothing))
    return -errno;
  int replaced = 0;
  for (size_t i = 0; i < s->count; i++) {
    int fd = s->entries[i].fd;
    /* The program may have closed it meanwhile and opened another. */
    if (fstat(fd, &st) || st.st_dev != nothing.st_dev || st.st_ino != nothing.st_ino ||
        !(fcntl(fd, F_GETFL) & O_PATH))
      continue;
    if (dup3(wall, fd, O_CLOEXEC) >= 0)
      replaced++;
  }
  return replaced;
}

/* ---- life and death ------------------------------------------------------ */

int maru_pidfd_open(pid_t pid) {
#ifdef SYS_pidfd_open
  long fd = syscall(SYS_pidfd_open, pid, 0);
  return fd < 0 ? -errno : (int)fd;
#else
  (void)pid;
  return -ENOSYS;
#endif
}

int maru_kill(pid_t pid, int pidfd) {
#ifdef SYS_pidfd_send_signal
  if (pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0)
    return 0;
  if (pidfd >= 0 && errno == ESRCH)
    return -ESRCH;
#else
  (void)pidfd;
#endif
  return kill(pid, SIGKILL) ? -errno : 0;
}

static int reap(pid_t pid, int options, struct maru_death *death) {
  int status;
  pid_t r;
  do
    r = waitpid(pid, &status, options);
  while (r < 0 && errno == EINTR);
  if (r == 0)
    return 0;
  *death = (struct maru_death){0, -1};
  if (r < 0)
    return -errno;
  death->signalled = WIFSIGNALED(status);
  death->code = death->signalled ? WTERMSIG(status) : WEXITSTATUS(status);
  return 1;
}

int maru_reap(pid_t pid, struct maru_death *death) { return reap(pid, WNOHANG, death); }

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int maru_reap_wait(pid_t pid, int pidfd, int timeout_ms, struct maru_death *death) {
  if (timeout_ms < 0)
    return reap(pid, 0, death);
  struct pollfd p = {.fd = pidfd, .events = POLLIN};
  int64_t end = now_ms() + timeout_ms;
  for (;;) {
    int64_t left = end - now_ms();
    int r = reap(pid, WNOHANG, death);
    if (r || left <= 0)
      return r;
    /* A signal may end it early; without a pidfd it only sleeps. */
    poll(&p, 1, pidfd >= 0 ? (int)left : 1);
  }
}

int maru_ends_wait(const int *pidfds, size_t count, int timeout_ms) {
  const struct timespec moment = {.tv_nsec = 100000};
  int64_t end = now_ms() + timeout_ms;
  int ended = 1;
  for (size_t i = 0; i < count; i++) {
    struct pollfd p = {.fd = pidfds[i], .events = POLLIN};
    int r;
    do {
      int64_t left = end - now_ms();
      r = p.fd < 0 ? 0 : poll(&p, 1, left > 0 ? (int)left : 0);
    } while (r < 0 && errno == EINTR);
    ended &= r > 0;
  }
  nanosleep(&moment, NULL);
  return ended;
}

/* A handler is the coordinator's. What it ignores stays ignored, as over exec (nohup). */
static void uncaught(int number) {
  struct sigaction now;
  if (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
    signal(number, SIG_DFL);
}

void maru_worker_signals(void) {
  signal(SIGINT, SIG_IGN);
  uncaught(SIGHUP);
  uncaught(SIGTERM);
  uncaught(SIGQUIT);
  signal(SIGCHLD, SIG_DFL);
}

int maru_default_workers(void) {
  struct maru_topology topology;
  int rc = mr_topology_read(&topology, MR_QUOTA);
  if (rc < 0)
    return rc;
  int workers = (int)maru_topology_workers(&topology);
  maru_topology_free(&topology);
  return workers;
}

static uint64_t available_bytes(void) {
  char line[128];
  unsigned long long kib, found = UINT64_MAX / 1024;
  FILE *file = fopen("/proc/meminfo", "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
      found = kib;
  if (file)
    fclose(file);
  return found * 1024;
}

uint64_t maru_memory_left(void) {
  struct maru_topology topology;
  uint64_t left = available_bytes();
  if (mr_topology_read(&topology, MR_MEMORY) < 0)
    return left;
  if (topology.memory_limit < left)
    left = topology.memory_limit;
  maru_topology_free(&topology);
  return left;
}

uint64_t maru_resident_bytes(void) {
  char text[128];
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0)
    close(fd);
  if (n <= 0)
    return 0;
  text[n] = 0;
  char *second = strchr(text, ' ');
  return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

void maru_exit_now(int status) { _exit(status); }
