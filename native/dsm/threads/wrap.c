/* wrap.c: linked into programs that synchronise threads. The linker sends their calls through here
 * (ld's --wrap).  Where the program creates threads (create.c), they are of a job; else libc's. */
#define _GNU_SOURCE
#include <maru/parmacs.h>
#include <maru/threads.h>

#include "../programs.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <unistd.h>

extern const char maru_threads_here __attribute__((weak));

#define WRAP(type, name, ours, parameters, arguments)                                              \
  type __real_##name parameters;                                                                   \
  type __wrap_##name parameters;                                                                   \
  type __wrap_##name parameters {                                                                  \
    return &maru_threads_here != NULL ? ours arguments : __real_##name arguments;                  \
  }
#define OF_MARU(name, parameters, arguments) WRAP(int, name, maru_##name, parameters, arguments)

OF_MARU(pthread_key_create, (pthread_key_t * k, void (*d)(void *)), (k, d))
OF_MARU(pthread_key_delete, (pthread_key_t k), (k))
OF_MARU(pthread_setspecific, (pthread_key_t k, const void *v), (k, v))
OF_MARU(pthread_once, (pthread_once_t * o, void (*f)(void)), (o, f))
OF_MARU(pthread_mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t *a), (m, a))
OF_MARU(pthread_mutex_destroy, (pthread_mutex_t * m), (m))
OF_MARU(pthread_mutex_lock, (pthread_mutex_t * m), (m))
OF_MARU(pthread_mutex_trylock, (pthread_mutex_t * m), (m))
OF_MARU(pthread_mutex_unlock, (pthread_mutex_t * m), (m))
OF_MARU(pthread_mutex_timedlock, (pthread_mutex_t * m, const struct timespec *t), (m, t))
OF_MARU(pthread_mutex_clocklock, (pthread_mutex_t * m, clockid_t k, const struct timespec *t),
        (m, k, t))
OF_MARU(pthread_cond_init, (pthread_cond_t * c, const pthread_condattr_t *a), (c, a))
OF_MARU(pthread_cond_destroy, (pthread_cond_t * c), (c))
OF_MARU(pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
OF_MARU(pthread_cond_timedwait, (pthread_cond_t * c, pthread_mutex_t *m, const struct timespec *t),
        (c, m, t))
OF_MARU(pthread_cond_clockwait,
        (pthread_cond_t * c, pthread_mutex_t *m, clockid_t k, const struct timespec *t),
        (c, m, k, t))
OF_MARU(pthread_cond_signal, (pthread_cond_t * c), (c))
OF_MARU(pthread_cond_broadcast, (pthread_cond_t * c), (c))
OF_MARU(pthread_barrier_init, (pthread_barrier_t * b, const pthread_barrierattr_t *a, unsigned n),
        (b, a, n))
OF_MARU(pthread_barrier_destroy, (pthread_barrier_t * b), (b))
OF_MARU(pthread_barrier_wait, (pthread_barrier_t * b), (b))
OF_MARU(pthread_rwlock_init, (pthread_rwlock_t * l, const pthread_rwlockattr_t *a), (l, a))
OF_MARU(pthread_rwlock_destroy, (pthread_rwlock_t * l), (l))
OF_MARU(pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
OF_MARU(pthread_rwlock_tryrdlock, (pthread_rwlock_t * l), (l))
OF_MARU(pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
OF_MARU(pthread_rwlock_trywrlock, (pthread_rwlock_t * l), (l))
OF_MARU(pthread_rwlock_timedrdlock, (pthread_rwlock_t * l, const struct timespec *t), (l, t))
OF_MARU(pthread_rwlock_timedwrlock, (pthread_rwlock_t * l, const struct timespec *t), (l, t))
OF_MARU(pthread_rwlock_clockrdlock, (pthread_rwlock_t * l, clockid_t k, const struct timespec *t),
        (l, k, t))
OF_MARU(pthread_rwlock_clockwrlock, (pthread_rwlock_t * l, clockid_t k, const struct timespec *t),
        (l, k, t))
OF_MARU(pthread_rwlock_unlock, (pthread_rwlock_t * l), (l))
OF_MARU(pthread_spin_init, (pthread_spinlock_t * l, int p), (l, p))
OF_MARU(pthread_spin_destroy, (pthread_spinlock_t * l), (l))
OF_MARU(pthread_spin_lock, (pthread_spinlock_t * l), (l))
OF_MARU(pthread_spin_trylock, (pthread_spinlock_t * l), (l))
OF_MARU(pthread_spin_unlock, (pthread_spinlock_t * l), (l))
OF_MARU(sem_init, (sem_t * s, int p, unsigned v), (s, p, v))
OF_MARU(sem_destroy, (sem_t * s), (s))
OF_MARU(sem_wait, (sem_t * s), (s))
OF_MARU(sem_trywait, (sem_t * s), (s))
OF_MARU(sem_post, (sem_t * s), (s))
OF_MARU(sem_timedwait, (sem_t * s, const struct timespec *t), (s, t))
OF_MARU(sem_clockwait, (sem_t * s, clockid_t k, const struct timespec *t), (s, k, t))
OF_MARU(sem_getvalue, (sem_t * s, int *v), (s, v))
WRAP(void *, pthread_getspecific, maru_pthread_getspecific, (pthread_key_t k), (k))
WRAP(pthread_t, pthread_self, maru_pthread_self, (void), ())
WRAP(long, sysconf, maru_threads_sysconf, (int name), (name))
WRAP(int, get_nprocs, maru_threads_processors, (void), ())
WRAP(int, get_nprocs_conf, maru_threads_processors, (void), ())
WRAP(int, fork, maru_threads_fork, (void), ())

/* The child of a vfork may not return from here. */
int __wrap_vfork(void);
int __wrap_vfork(void) { return __wrap_fork(); }

int __real_timer_create(clockid_t clock, struct sigevent *event, timer_t *timer);
int __wrap_timer_create(clockid_t clock, struct sigevent *event, timer_t *timer);
int __wrap_timer_create(clockid_t clock, struct sigevent *event, timer_t *timer) {
  if (&maru_threads_here != NULL && event != NULL && event->sigev_notify == SIGEV_THREAD)
    maru_threads_timer();
  return __real_timer_create(clock, event, timer);
}

/* Where a thread runs is the node's affair. */
#define NO_EFFECT(name, parameters, arguments)                                                     \
  int __real_##name parameters;                                                                    \
  int __wrap_##name parameters;                                                                    \
  int __wrap_##name parameters { return &maru_threads_here != NULL ? 0 : __real_##name arguments; }
NO_EFFECT(pthread_setname_np, (pthread_t t, const char *n), (t, n))
NO_EFFECT(pthread_setschedparam, (pthread_t t, int p, const struct sched_param *s), (t, p, s))
NO_EFFECT(pthread_setschedprio, (pthread_t t, int p), (t, p))
NO_EFFECT(pthread_setaffinity_np, (pthread_t t, size_t n, const cpu_set_t *s), (t, n, s))

/* A thread hears of its own node's alone. */
static int affinity(pthread_t t, size_t size, cpu_set_t *set) {
  if (t != maru_pthread_self())
    return ESRCH;
  return sched_getaffinity(0, size, set) < 0 ? errno : 0;
}
WRAP(int, pthread_getaffinity_np, affinity, (pthread_t t, size_t n, cpu_set_t *s), (t, n, s))

static void end_now(int status) {
  if (&maru_threads_here != NULL)
    maru_threads_exit_now(status);
}

#define EXIT(name)                                                                                 \
  void __real_##name(int status) __attribute__((noreturn));                                        \
  void __wrap_##name(int status) __attribute__((noreturn));                                        \
  void __wrap_##name(int status) {                                                                 \
    end_now(status);                                                                               \
    __real_##name(status);                                                                         \
  }
EXIT(_exit)
EXIT(_Exit)

void __real_quick_exit(int status) __attribute__((noreturn));
void __wrap_quick_exit(int status) __attribute__((noreturn));
void __wrap_quick_exit(int status) {
  if (&maru_threads_here != NULL)
    maru_threads_quick_exit(status);
  __real_quick_exit(status);
}

/* ---- random numbers ----------------------------------------------------------------------- */

#define NUMBER(type, name, parameters, arguments)                                                  \
  type __real_##name parameters;                                                                   \
  type __wrap_##name parameters;                                                                   \
  type __wrap_##name parameters {                                                                  \
    return &maru_threads_here != NULL && !mr_is_programs((uintptr_t)&__real_##name)                \
               ? maru_##name arguments                                                             \
               : __real_##name arguments;                                                          \
  }
NUMBER(int, rand, (void), ())
NUMBER(void, srand, (unsigned s), (s))
NUMBER(long, random, (void), ())
NUMBER(void, srandom, (unsigned s), (s))
NUMBER(char *, initstate, (unsigned s, char *t, size_t n), (s, t, n))
NUMBER(char *, setstate, (char *t), (t))
NUMBER(double, drand48, (void), ())
NUMBER(long, lrand48, (void), ())
NUMBER(long, mrand48, (void), ())
NUMBER(void, srand48, (long s), (s))
NUMBER(unsigned short *, seed48, (unsigned short s[3]), (s))
NUMBER(void, lcong48, (unsigned short p[7]), (p))

/* C++'s, there or not. */
#define GUARD(type, name)                                                                          \
  type __real___cxa_guard_##name(uint32_t *guard) __attribute__((weak));                           \
  type __wrap___cxa_guard_##name(uint32_t *guard);                                                 \
  type __wrap___cxa_guard_##name(uint32_t *guard) {                                                \
    return &maru_threads_here != NULL ? maru_threads_guard_##name(guard)                           \
                                      : __real___cxa_guard_##name(guard);                          \
  }
GUARD(int, acquire)
GUARD(void, release)
GUARD(void, abort)

int __real___cxa_thread_atexit(void (*call)(void *), void *object, void *file)
    __attribute__((weak));
int __wrap___cxa_thread_atexit(void (*call)(void *), void *object, void *file);
int __wrap___cxa_thread_atexit(void (*call)(void *), void *object, void *file) {
  if (&maru_threads_here != NULL)
    return maru_threads_at_end(call, object, file);
  int kept = maru_parmacs_at_thread_exit(call, object);
  return kept == 0 ? __real___cxa_thread_atexit(call, object, file) : kept < 0 ? -1 : 0;
}

/* ---- C++ ---------------------------------------------------------------------------------- */

/* These call libc within libstdc++, where the linker sends nothing here. */
struct lock {
  pthread_mutex_t *mutex;
};
#define CXX(type, name, symbol, ours, parameters, arguments)                                       \
  type real_##name parameters __asm__("__real_" symbol) __attribute__((weak));                     \
  type wrap_##name parameters __asm__("__wrap_" symbol);                                           \
  type wrap_##name parameters { return &maru_threads_here != NULL ? ours : real_##name arguments; }
CXX(unsigned, concurrency, "_ZNSt6thread20hardware_concurrencyEv",
    (unsigned)maru_threads_processors(), (void), ())
CXX(void, wait, "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
    (void)maru_pthread_cond_wait(c, l->mutex), (pthread_cond_t * c, struct lock *l), (c, l))
CXX(void, notify_one, "_ZNSt18condition_variable10notify_oneEv", (void)maru_pthread_cond_signal(c),
    (pthread_cond_t * c), (c))
CXX(void, notify_all, "_ZNSt18condition_variable10notify_allEv",
    (void)maru_pthread_cond_broadcast(c), (pthread_cond_t * c), (c))

/* ---- signals ------------------------------------------------------------------------------ */

WRAP(int, sigaction, maru_threads_sigaction,
     (int number, const struct sigaction *action, struct sigaction *old), (number, action, old))
WRAP(int, sigaltstack, maru_threads_sigaltstack, (const stack_t *stack, stack_t *old), (stack, old))

/* Also where the program has no threads, but memory of maru/dsm.h or of the macros. */
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old) {
  return maru_threads_sigmask(how, set, old);
}
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
  return maru_threads_sigmask(how, set, old) < 0 ? errno : 0;
}

#define SIGNAL(name, flags)                                                                        \
  __sighandler_t __real_##name(int number, __sighandler_t handler);                                \
  __sighandler_t __wrap_##name(int number, __sighandler_t handler);                                \
  __sighandler_t __wrap_##name(int number, __sighandler_t handler) {                               \
    if (&maru_threads_here == NULL)                                                                \
      return __real_##name(number, handler);                                                       \
    struct sigaction old, action = {.sa_handler = handler, .sa_flags = flags};                     \
    sigemptyset(&action.sa_mask);                                                                  \
    return __wrap_sigaction(number, &action, &old) < 0 ? SIG_ERR : old.sa_handler;                 \
  }
SIGNAL(signal, SA_RESTART)
SIGNAL(__sysv_signal, (int)(SA_RESETHAND | SA_NODEFER)) /* what ISO C's signal is */
