/* maru/threads.h: what programs of POSIX threads run on, when `maru-cc` has built them and `maru
 * launch` starts them.  No program calls these functions: maru-cc sends its calls of pthread_create
 * and so on here.  docs/dsm.md says what such a program may do.
 *
 * Each function is as the one of libc that its name ends in, on the nodes of a job: a thread runs
 * on a node, and globals, malloc's blocks, mappings and stacks are shared memory (maru/dsm.h).
 * Failure: as the function of libc says; else one line on standard error and the end of the
 * process, as maru/dsm.h.
 */
#ifndef MARU_THREADS_H
#define MARU_THREADS_H

#include <maru/parmacs.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For the code that maru-cc links in: before the program's first line; main of every node; what
 * replaces calls of _exit, fork, sysconf, get_nprocs, sigaction, sigaltstack, sigprocmask,
 * pthread_sigmask and of what C++ registers for the end of a thread. */
void maru_threads_prepare(void);
int maru_threads_main(const struct maru_parmacs_program *program, int count, char **arguments);
void maru_threads_exit_now(int status) __attribute__((noreturn));
/* The program calls quick_exit: the job ends behind its handlers. */
void maru_threads_quick_exit(int status);
int maru_threads_fork(void);
/* Ends the process (64): a timer is to call a function in a thread of libc's own. */
void maru_threads_timer(void) __attribute__((noreturn));
long maru_threads_sysconf(int name);
int maru_threads_processors(void);
/* 1: all threads see an atomic operation, as they have one memory. */
int maru_threads_one_memory(void);
/* 1: the caller is a thread of the job, and no library's own. */
int maru_threads_is_one(void);
/* 1: the block is of the memory that threads share; 0: of this process's. */
int maru_threads_gave(const void *block);
/* The program has changed what a new thread takes along; of the environment the variable `name`,
 * which "=" may follow. */
enum { MARU_THREADS_FOLDER, MARU_THREADS_MASK, MARU_THREADS_LOCALE, MARU_THREADS_ENVIRONMENT };
void maru_threads_changed(int what, const char *name);
/* What std::shared_ptr counts its holders by: the count's value before. */
int maru_threads_exchange_and_add(volatile int *count, int more);
/* 1: it was as expected, and is as wanted now; 0: `expected` is what it is. */
int maru_threads_compare_exchange(volatile int *count, int *expected, int wanted);
int maru_threads_sigaction(int number, const struct sigaction *action, struct sigaction *old);
int maru_threads_sigaltstack(const stack_t *stack, stack_t *old);
/* As sigprocmask, for the thread; SIGBUS and SIGSEGV are never blocked. */
int maru_threads_sigmask(int how, const sigset_t *set, sigset_t *old);
int maru_threads_at_end(void (*call)(void *), void *object, void *file);
/* As std::notify_all_at_thread_exit: after all destructors, those of keys too. */
void maru_threads_notify_at_end(pthread_cond_t *condition, pthread_mutex_t *mutex);

/* For objects of C++ within functions, as `__cxa_guard_acquire` and so on: the object is made once,
 * on some node, and is seen here.  `guard`: its 8 bytes.  The first 4 stay 0, so that the program
 * always asks.  1: the caller makes it, and then calls one of the others. */
int maru_threads_guard_acquire(uint32_t *guard);
void maru_threads_guard_release(uint32_t *guard);
void maru_threads_guard_abort(uint32_t *guard);

/* Libc's random numbers: one sequence for all nodes.  Each call takes a lock of the job. */
int maru_rand(void);
void maru_srand(unsigned seed);
long maru_random(void);
void maru_srandom(unsigned seed);
char *maru_initstate(unsigned seed, char *table, size_t size);
char *maru_setstate(char *table);
double maru_drand48(void);
long maru_lrand48(void);
long maru_mrand48(void);
void maru_srand48(long seed);
unsigned short *maru_seed48(unsigned short seed[3]);
void maru_lcong48(unsigned short parameters[7]);

/* A created thread begins on an idle node; docs/dsm.md says where, if there is none. */
int maru_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                        void *argument);
int maru_pthread_join(pthread_t thread, void **result);
int maru_pthread_detach(pthread_t thread);
pthread_t maru_pthread_self(void);
void maru_pthread_exit(void *result) __attribute__((noreturn));

/* Values of a thread go with it to its node; destructors run on that. */
int maru_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int maru_pthread_key_delete(pthread_key_t key);
int maru_pthread_setspecific(pthread_key_t key, const void *value);
void *maru_pthread_getspecific(pthread_key_t key);
/* For the macros of these names. */
void maru_pthread_cleanup_push(void (*call)(void *), void *argument);
void maru_pthread_cleanup_pop(int call);
/* The routine has run once, on some node, and is seen here.  One that throws has not run. */
int maru_pthread_once(pthread_once_t *control, void (*routine)(void));

/* ENOTSUP: robust mutexes, and those that hand priorities on. */
int maru_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int maru_pthread_mutex_destroy(pthread_mutex_t *mutex);
int maru_pthread_mutex_lock(pthread_mutex_t *mutex);
int maru_pthread_mutex_trylock(pthread_mutex_t *mutex);
int maru_pthread_mutex_unlock(pthread_mutex_t *mutex);
/* Waits with an end look once a millisecond. */
int maru_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until);
int maru_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                 const struct timespec *until);

/* A signal wakes a thread that waits, whatever node each is on. */
int maru_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int maru_pthread_cond_destroy(pthread_cond_t *condition);
int maru_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
/* As above; wakes up without cause each time. */
int maru_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                const struct timespec *until);
int maru_pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                const struct timespec *until);
int maru_pthread_cond_signal(pthread_cond_t *condition);
int maru_pthread_cond_broadcast(pthread_cond_t *condition);

/* Ends the process (64) where the job has fewer nodes than threads are to meet. */
int maru_pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes,
                              unsigned parties);
int maru_pthread_barrier_destroy(pthread_barrier_t *barrier);
int maru_pthread_barrier_wait(pthread_barrier_t *barrier);

/* Readers go first, as glibc has it, so that one may lock again; writers where the program asks for
 * PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP.  Waits with an end as those of mutexes. */
int maru_pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes);
int maru_pthread_rwlock_destroy(pthread_rwlock_t *lock);
int maru_pthread_rwlock_rdlock(pthread_rwlock_t *lock);
int maru_pthread_rwlock_tryrdlock(pthread_rwlock_t *lock);
int maru_pthread_rwlock_wrlock(pthread_rwlock_t *lock);
int maru_pthread_rwlock_trywrlock(pthread_rwlock_t *lock);
int maru_pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *until);
int maru_pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *until);
int maru_pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock,
                                    const struct timespec *until);
int maru_pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock,
                                    const struct timespec *until);
int maru_pthread_rwlock_unlock(pthread_rwlock_t *lock);

/* As mutexes: a thread that waits sleeps. */
int maru_pthread_spin_init(pthread_spinlock_t *lock, int shared);
int maru_pthread_spin_destroy(pthread_spinlock_t *lock);
int maru_pthread_spin_lock(pthread_spinlock_t *lock);
int maru_pthread_spin_trylock(pthread_spinlock_t *lock);
int maru_pthread_spin_unlock(pthread_spinlock_t *lock);

/* Of all nodes, whether shared or not.  Without names. */
int maru_sem_init(sem_t *semaphore, int shared, unsigned value);
int maru_sem_destroy(sem_t *semaphore);
int maru_sem_wait(sem_t *semaphore);
int maru_sem_trywait(sem_t *semaphore);
int maru_sem_timedwait(sem_t *semaphore, const struct timespec *until);
int maru_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until);
int maru_sem_post(sem_t *semaphore);
int maru_sem_getvalue(sem_t *semaphore, int *value);

#ifdef __cplusplus
}
#endif
#endif
