/* leave.c: the symbols of libc by which a program leaves a request behind, makes threads, or
 * restricts itself; and syscall(3). */
#include "calls.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* ---- who leaves a request behind ----------------------------------------- */

#define JUMPS(name, buffer)                                                                        \
  EXPORT void name(buffer environment, int value) {                                                \
    NEXT(name, void, (buffer, int))                                                                \
    io_settle();                                                                                   \
    next(environment, value);                                                                      \
    __builtin_unreachable();                                                                       \
  }
JUMPS(longjmp, jmp_buf)
JUMPS(_longjmp, jmp_buf)
JUMPS(siglongjmp, sigjmp_buf)
void __longjmp_chk(jmp_buf environment, int value) __attribute__((noreturn));
JUMPS(__longjmp_chk, jmp_buf)

/* To another stack; the call goes on if the program switches back. */
EXPORT int setcontext(const ucontext_t *to) {
  NEXT(setcontext, int, (const ucontext_t *))
  io_settle();
  return next(to);
}

EXPORT int swapcontext(ucontext_t *restrict from, const ucontext_t *restrict to) {
  NEXT(swapcontext, int, (ucontext_t *, const ucontext_t *))
  io_settle();
  return next(from, to);
}

/* In a handler: what the call reads into, and its answer, may be on the stack that is left. */
#define ENDS_THREAD(name, type)                                                                    \
  EXPORT void name(type result) {                                                                  \
    NEXT(name, void, (type))                                                                       \
    io_settle();                                                                                   \
    next(result);                                                                                  \
    __builtin_unreachable();                                                                       \
  }
ENDS_THREAD(pthread_exit, void *)
ENDS_THREAD(thrd_exit, int)

/* Not in a handler, so contexts may be started: servers block signals in the threads they make. */
EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument) {
  NEXT(pthread_create, int, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))
  if (io_process.mode == MARU_IO_ALWAYS)
    io_contexts_start();
  return next(thread, attributes, run, argument);
}

EXPORT pid_t _Fork(void) {
  NEXT(_Fork, pid_t, (void))
  io_forked(false);
  pid_t pid = next();
  if (pid == 0)
    io_forked(true);
  return pid;
}

/* ---- who restricts itself ------------------------------------------------ */

/* What a thread may no longer do, a context must not do for it. Threads inherit it, so the whole
 * process is direct from then on. */
#define RESTRICTS(name, result, parameters, arguments)                                             \
  EXPORT result name parameters {                                                                  \
    NEXT(name, result, parameters)                                                                 \
    io_go_direct("delegates nothing any more: it called " #name);                                  \
    return next arguments;                                                                         \
  }
RESTRICTS(setfsuid, int, (uid_t id), (id))
RESTRICTS(setfsgid, int, (gid_t id), (id))
RESTRICTS(capset, int, (void *header, const void *data), (header, data))
/* Each thread has its own rights to memory with a key: a context has none to a buffer there. */
RESTRICTS(pkey_alloc, int, (unsigned flags, unsigned rights), (flags, rights))

/* Some want a process of one thread. */
#define LEAVES(name, parameters, arguments)                                                        \
  EXPORT int name parameters {                                                                     \
    NEXT(name, int, parameters)                                                                    \
    io_go_direct("delegates nothing any more: it called " #name);                                  \
    io_contexts_retire();                                                                          \
    return next arguments;                                                                         \
  }
LEAVES(unshare, (int flags), (flags))
LEAVES(setns, (int fd, int type), (fd, type))

static bool restricts(int option) {
  switch (option) {
  case PR_SET_SECCOMP:
  case PR_CAPBSET_DROP:
  case PR_CAP_AMBIENT:
  case PR_SET_SECUREBITS:
  case 57: /* PR_SET_IO_FLUSHER */
  case 59: /* PR_SET_SYSCALL_USER_DISPATCH */
    return true;
  default:
    return false;
  }
}

EXPORT int prctl(int option, ...) {
  NEXT(prctl, int, (int, ...))
  va_list rest;
  va_start(rest, option);
  unsigned long a = va_arg(rest, unsigned long), b = va_arg(rest, unsigned long),
                c = va_arg(rest, unsigned long), d = va_arg(rest, unsigned long);
  va_end(rest);
  if (restricts(option))
    io_go_direct("delegates nothing any more: it called prctl to restrict itself");
  if (option == PR_SET_SECCOMP)
    io_seal();
  return next(option, a, b, c, d);
}

static void scheduling_changes(void) {
  atomic_fetch_add_explicit(&io_process.epoch, 1, memory_order_relaxed); /* threads look again */
}

#define SCHEDULES(name, parameters, arguments)                                                     \
  EXPORT int name parameters {                                                                     \
    NEXT(name, int, parameters)                                                                    \
    int rc = next arguments;                                                                       \
    scheduling_changes();                                                                          \
    return rc;                                                                                     \
  }
SCHEDULES(sched_setscheduler, (pid_t pid, int policy, const struct sched_param *how),
          (pid, policy, how))
SCHEDULES(pthread_setschedparam, (pthread_t thread, int policy, const struct sched_param *how),
          (thread, policy, how))

/* ---- syscall(3) ---------------------------------------------------------- */

static void forget_raw(long number, long a, long b) {
  switch (number) {
  case SYS_close:
    io_forget((int)a);
    break;
#ifdef SYS_dup2
  case SYS_dup2:
#endif
  case SYS_dup3:
    io_forget((int)b);
    break;
  case SYS_close_range:
    io_forget_from((unsigned)a, (unsigned)b);
    break;
  default:
    break;
  }
}

static void before_raw(long number, long a, long c) {
  switch (number) {
  case SYS_close_range:
    if (c & (long)CLOSE_RANGE_UNSHARE)
      io_go_direct("delegates nothing any more: a thread has descriptors of its own");
    break;
  case SYS_unshare:
  case SYS_setns:
  case SYS_seccomp: /* a filter may be for all threads, and kill who calls what contexts do */
    io_go_direct("delegates nothing any more: it called unshare, setns or seccomp by syscall");
    io_contexts_retire();
    if (number == SYS_seccomp)
      io_seal();
    break;
  case SYS_capset:
  case SYS_pkey_alloc:
  case SYS_setuid:
  case SYS_setgid:
  case SYS_setresuid:
  case SYS_setresgid:
  case SYS_setreuid:
  case SYS_setregid:
  case SYS_setgroups:
  case SYS_setfsuid:
  case SYS_setfsgid:
  case SYS_ioprio_set:
  case SYS_set_mempolicy:
    io_go_direct("delegates nothing any more: it changed its rights or policy by syscall");
    break;
  case SYS_prctl:
    if (restricts((int)a))
      io_go_direct("delegates nothing any more: it restricted itself by syscall");
    if ((int)a == PR_SET_SECCOMP)
      io_seal();
    break;
  case SYS_sched_setscheduler:
  case SYS_sched_setattr:
    scheduling_changes();
    break;
  default:
    break;
  }
}

EXPORT long syscall(long number, ...) {
  NEXT(syscall, long, (long, ...))
  va_list rest;
  va_start(rest, number);
  long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long),
       d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
  va_end(rest);
  before_raw(number, a, c);
  forget_raw(number, a, b);
  long result = next(number, a, b, c, d, e, f);
  forget_raw(number, a, b);
  return result;
}
