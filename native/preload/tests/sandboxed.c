/* sandboxed.c: a program that forbids itself every system call that it does not make.
 *
 *   sandboxed mutexes      threads take mutexes of each type from each other
 *   sandboxed file PATH    two threads read a file
 *   sandboxed known-file PATH   the same, and it was read a little before
 *
 * A call of maru's that the program does not make ends it with status 99, after one line. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 4
#define TURNS 20000
#define TYPES 4
#define CALLS (sizeof allowed / sizeof *allowed)

/* Its own and those by which glibc starts, holds and ends a thread. */
static const unsigned allowed[] = {SYS_futex,          SYS_read,           SYS_write,
                                   SYS_close,          SYS_exit,           SYS_exit_group,
                                   SYS_mmap,           SYS_munmap,         SYS_brk,
                                   SYS_mprotect,       SYS_madvise,        SYS_clone3,
                                   SYS_clone,          SYS_rseq,           SYS_getrandom,
                                   SYS_rt_sigaction,   SYS_rt_sigprocmask, SYS_rt_sigreturn,
                                   SYS_set_robust_list};

static const int types[TYPES] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
                                 PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
static pthread_mutex_t mutexes[TYPES];
static long counted[TYPES];
static pthread_barrier_t all;
static int file = -1;

static void on_forbidden(int signal, siginfo_t *info, void *context) {
  char line[64];
  int length = snprintf(line, sizeof line, "system call %d is forbidden\n", info->si_syscall);
  (void)signal;
  (void)context;
  (void)!write(STDERR_FILENO, line, (size_t)length);
  _exit(99);
}

static int forbid(void) {
  struct sock_filter filter[CALLS + 3];
  struct sigaction action = {.sa_sigaction = on_forbidden, .sa_flags = SA_SIGINFO};
  size_t at = 0;
  filter[at++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < CALLS; i++)
    filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i],
                                                (unsigned char)(CALLS - i), 0);
  filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {(unsigned short)at, filter};
  if (sigaction(SIGSYS, &action, NULL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *take(void *unused) {
  pthread_barrier_wait(&all);
  for (int i = 0; i < TURNS; i++) {
    int of = i % TYPES;
    pthread_mutex_lock(&mutexes[of]);
    counted[of]++;
    /* Long enough now and then that others queue. */
    for (volatile int work = 0; i % 100 == of && work < 10000; work++)
      ;
    pthread_mutex_unlock(&mutexes[of]);
  }
  return unused;
}

static void *read_some(void *unused) {
  char bytes[65536];
  long sum = 0;
  ssize_t got;
  for (int i = 0; i < 64 && (got = read(file, bytes, sizeof bytes)) > 0; i++)
    sum += got;
  char line[32];
  int length = snprintf(line, sizeof line, "%ld\n", sum);
  (void)!write(STDOUT_FILENO, line, (size_t)length);
  return unused;
}

static int mutexes_are_taken(void) {
  pthread_t threads[THREADS];
  long sum = 0;
  pthread_barrier_init(&all, NULL, THREADS);
  for (int i = 0; i < TYPES; i++) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, types[i]);
    pthread_mutex_init(&mutexes[i], &attributes);
  }
  if (forbid() < 0)
    return 77;
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, take, NULL) != 0)
      return 1;
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < TYPES; i++)
    sum += counted[i];
  return sum != (long)THREADS * TURNS;
}

static int file_is_read(const char *path, bool early) {
  pthread_t thread;
  char few[10];
  file = open(path, O_RDONLY);
  for (int i = 0; early && i < 20; i++) /* what a library finds out of it, it has by then */
    (void)!read(file, few, sizeof few);
  if (file < 0 || forbid() < 0)
    return 77;
  if (pthread_create(&thread, NULL, read_some, NULL) != 0)
    return 1;
  pthread_join(thread, NULL);
  read_some(NULL);
  return close(file) != 0;
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "mutexes") == 0)
    return mutexes_are_taken();
  if (count == 3 && strcmp(words[1], "file") == 0)
    return file_is_read(words[2], false);
  return count == 3 && strcmp(words[1], "known-file") == 0 ? file_is_read(words[2], true) : 64;
}
