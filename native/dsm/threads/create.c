/* create.c: linked into programs that create threads: it is what makes them programs of threads
 * (wrap.c).  C++'s std::thread calls libc within libstdc++, where the linker sends nothing here; so
 * its own functions are taken, by the names that compilers give them.  No C++ is needed to build
 * it. */
#define _GNU_SOURCE
#include <maru/threads.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

extern const char maru_threads_here;
const char maru_threads_here = 1;

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x);
int __wrap_pthread_join(pthread_t t, void **r);
int __wrap_pthread_detach(pthread_t t);
void __wrap_pthread_exit(void *r) __attribute__((noreturn));

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) {
  return maru_pthread_create(t, a, f, x);
}
int __wrap_pthread_join(pthread_t t, void **r) { return maru_pthread_join(t, r); }
int __wrap_pthread_detach(pthread_t t) { return maru_pthread_detach(t); }
void __wrap_pthread_exit(void *r) { maru_pthread_exit(r); }

/* ---- C++ ---------------------------------------------------------------------------------- */

/* Of libstdc++: an object whose third virtual function runs the thread, and whose second destroys
 * and frees it. */
struct state {
  void (*const *functions)(struct state *);
};

/* Of libstdc++: a std::unique_lock. */
struct unique_lock {
  pthread_mutex_t *mutex;
  bool held;
};

#define TAKES(name) __asm__("__wrap_" name)
void start(pthread_t *thread, struct state **state, void (*depend)(void))
    TAKES("_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE");
void join(pthread_t *thread) TAKES("_ZNSt6thread4joinEv");
void detach(pthread_t *thread) TAKES("_ZNSt6thread6detachEv");
void notify_at_end(pthread_cond_t *condition, struct unique_lock *lock)
    TAKES("_ZSt25notify_all_at_thread_exitRSt18condition_variableSt11unique_lockISt5mutexE");
extern void throw_system_error(int error) __asm__("_ZSt20__throw_system_errori")
    __attribute__((weak));

static void destroy(void *argument) {
  struct state *state = argument;
  state->functions[1](state);
}

static void *run(void *argument) {
  struct state *state = argument;
  maru_pthread_cleanup_push(destroy, state);
  state->functions[2](state);
  maru_pthread_cleanup_pop(1);
  return NULL;
}

static void check(int rc) {
  if (rc == 0)
    return;
  if (throw_system_error != NULL)
    throw_system_error(rc);
  abort();
}

void start(pthread_t *thread, struct state **state, void (*depend)(void)) {
  (void)depend;
  check(maru_pthread_create(thread, NULL, run, *state));
  *state = NULL; /* the thread's */
}

void join(pthread_t *thread) {
  check(*thread != 0 ? maru_pthread_join(*thread, NULL) : EINVAL);
  *thread = 0;
}

void detach(pthread_t *thread) {
  check(*thread != 0 ? maru_pthread_detach(*thread) : EINVAL);
  *thread = 0;
}

void notify_at_end(pthread_cond_t *condition, struct unique_lock *lock) {
  maru_threads_notify_at_end(condition, lock->mutex);
  lock->held = false; /* the thread's */
}
