/* count-calls COMMAND [ARGUMENT]...: how many system calls a command and all that it starts make, a
 * line for each program that one of their processes executed:
 *
 *   CALLS PROGRAM
 *
 * in the order in which the programs began.  A call counts for the program that made it; the
 * execve is its first.  Descriptors 1 and 2 of the command are closed.  Status: the command's;
 * 77: the kernel traces nothing here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 4096 }; /* threads that live at a time; programs */

static struct {
  pid_t tid;
  int program;
  bool inside; /* of a call */
} threads[MOST];
static struct {
  char path[PATH_MAX];
  unsigned long calls;
} programs[MOST];
static int thread_count, program_count;

static int find(pid_t tid) {
  for (int i = 0; i < thread_count; i++)
    if (threads[i].tid == tid)
      return i;
  if (thread_count == MOST)
    exit(70);
  threads[thread_count].tid = tid;
  threads[thread_count].program = 0;
  threads[thread_count].inside = false;
  return thread_count++;
}

static int new_program(pid_t tid) {
  char link[64];
  if (program_count == MOST)
    exit(70);
  snprintf(link, sizeof link, "/proc/%d/exe", (int)tid);
  ssize_t size = readlink(link, programs[program_count].path, PATH_MAX - 1);
  programs[program_count].path[size > 0 ? size : 0] = '\0';
  return program_count++;
}

/* A new thread or process begins in its maker's program. */
static void follow(int event, pid_t tid) {
  unsigned long message = 0;
  ptrace(PTRACE_GETEVENTMSG, tid, NULL, &message);
  if (event == PTRACE_EVENT_EXEC) {
    /* Of several threads the first goes on, under whatever number made the call. */
    int at = find(tid), by = find((pid_t)message);
    unsigned long *old = &programs[threads[by].program].calls;
    *old -= *old > 0;
    threads[at].program = new_program(tid);
    threads[at].inside = true;
    programs[threads[at].program].calls = 1;
  } else if (event != 0) {
    int program = threads[find(tid)].program;
    threads[find((pid_t)message)].program = program;
  }
}

static void stopped(pid_t tid, int status) {
  int signal = WSTOPSIG(status), deliver = 0, at = find(tid);
  if (signal == (SIGTRAP | 0x80)) {
    threads[at].inside = !threads[at].inside;
    programs[threads[at].program].calls += threads[at].inside;
  } else if (signal == SIGTRAP && status >> 16 != 0)
    follow(status >> 16, tid);
  else if (signal != SIGSTOP)
    deliver = signal;
  ptrace(PTRACE_SYSCALL, tid, NULL, (void *)(long)deliver);
}

static void become(char **argv) {
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
    _exit(77);
  raise(SIGSTOP);
  close(1);
  close(2);
  execvp(argv[0], argv);
  _exit(127);
}

int main(int argc, char **argv) {
  if (argc < 2)
    return 64;
  pid_t child = fork();
  if (child == 0)
    become(argv + 1);
  int status, result = 70;
  if (child < 0 || waitpid(child, &status, 0) != child)
    return 70;
  if (!WIFSTOPPED(status))
    return 77;
  programs[program_count++].path[0] = '\0'; /* before the first execve */
  find(child);
  if (ptrace(PTRACE_SETOPTIONS, child, NULL,
             PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                 PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) < 0)
    return 77;
  ptrace(PTRACE_SYSCALL, child, NULL, NULL);
  for (pid_t tid; (tid = waitpid(-1, &status, __WALL)) > 0;) {
    if (WIFSTOPPED(status))
      stopped(tid, status);
    else {
      threads[find(tid)] = threads[thread_count - 1];
      thread_count--;
      if (tid == child)
        result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
  }
  for (int i = 1; i < program_count; i++)
    printf("%lu %s\n", programs[i].calls, programs[i].path);
  return result;
}
