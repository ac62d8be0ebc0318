/* glibc.h: glibc's own mutex, past whatever is preloaded (internal).
 *
 * What is relied on beyond the public interface: an ordinary mutex never uses the 16 bytes of
 * __list, which all its initialisers set to zero. Ordinary is one that is neither robust nor
 * shared, and neither inherits nor has a priority. mr_glibc_check tries that at start. */
#ifndef MARU_PRELOAD_GLIBC_H
#define MARU_PRELOAD_GLIBC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* The names by which glibc also exports these functions, since its first version for the
 * machine. What is preloaded before the public ones leaves them alone, and nothing must be
 * looked up, however early a call comes. */
#ifndef MR_GLIBC_MODEL /* the explorer brings its own */
#if defined(__x86_64__)
#define MR_GLIBC_FIRST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define MR_GLIBC_FIRST "GLIBC_2.17"
#endif
__asm__(".symver mr_glibc_init, __pthread_mutex_init@" MR_GLIBC_FIRST);
__asm__(".symver mr_glibc_lock, __pthread_mutex_lock@" MR_GLIBC_FIRST);
__asm__(".symver mr_glibc_trylock, __pthread_mutex_trylock@" MR_GLIBC_FIRST);
__asm__(".symver mr_glibc_key_create, __pthread_key_create@" MR_GLIBC_FIRST);
__asm__(".symver mr_glibc_unlock, __pthread_mutex_unlock@" MR_GLIBC_FIRST);
#endif
extern int mr_glibc_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
    __attribute__((visibility("default")));
extern int mr_glibc_lock(pthread_mutex_t *mutex) __attribute__((visibility("default")));
extern int mr_glibc_trylock(pthread_mutex_t *mutex) __attribute__((visibility("default")));

extern int mr_glibc_key_create(pthread_key_t *key, void (*destructor)(void *))
    __attribute__((visibility("default")));
extern int mr_glibc_unlock(pthread_mutex_t *mutex) __attribute__((visibility("default")));

/* Those without a second name are looked up behind us, once, when a library is loaded. */
void mr_glibc_start(void);
int mr_glibc_timedlock(pthread_mutex_t *mutex, const struct timespec *until);
int mr_glibc_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until);
int mr_glibc_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int mr_glibc_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                            const struct timespec *until);
int mr_glibc_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                            const struct timespec *until);

/* Bits of __kind of mutexes that use __list or whose word has other values. */
#define MR_GLIBC_ROBUST 0x10
#define MR_GLIBC_INHERIT 0x20
#define MR_GLIBC_PROTECT 0x40
#define MR_GLIBC_SHARED 0x80
#define MR_GLIBC_OWN 0xf0

static inline int mr_glibc_kind(const pthread_mutex_t *mutex) {
  /* No atomic load: the bits of interest are fixed since the mutex was made, and a compiler
   * makes this one operand of an instruction. */
  return mutex->__data.__kind;
}

/* The number by which glibc's mutexes know the calling thread.  Without a system call: a program
 * may have forbidden itself all that it does not make.  By a checking mutex: glibc may elide the
 * lock of an ordinary one, which then has no owner.  Nobody else sees it, so it stays locked. */
static inline int mr_glibc_self(void) {
  pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  own.__data.__kind = PTHREAD_MUTEX_ERRORCHECK;
  (void)mr_glibc_trylock(&own);
  return own.__data.__owner;
}

/* Of a recursive or checking mutex: does the calling thread hold it? */
bool mr_glibc_holds(const pthread_mutex_t *mutex);

/* NULL, or what this libc does otherwise than the overlay needs. */
const char *mr_glibc_check(void);

#endif
