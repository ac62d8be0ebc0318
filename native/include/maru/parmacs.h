/* maru/parmacs.h: what programs in the ANL macros (PARMACS) run on; maru.m4 expands
 * the macros to these calls.  A program is built by `maru-cc` and started by
 * `maru launch`.
 *
 * Processes are created as by fork; node 0 alone runs main.  A created process begins with a copy
 * of node 0's memory at the same addresses: its globals, its stack, and what malloc, C++'s new and
 * mmap gave it.  It shares what G_MALLOC and anonymous shared mappings gave.  With
 * MARU_PARMACS_GLOBALS=shared, globals and what malloc gives are shared memory as well, as they are
 * between threads.
 *
 * Not copied: open files and other state of the system or of libraries, memory that libraries
 * allocate for themselves, thread-local variables.
 *
 * Ids stand for locks and so on; 0, what fresh memory holds, is none.  One thread a process.
 * Failure: one line on standard error and the end of the process, as maru/dsm.h.
 */
#ifndef MARU_PARMACS_H
#define MARU_PARMACS_H

#include <assert.h>
#include <maru/dsm.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifndef PAGE_SIZE
#define PAGE_SIZE 4096
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* `count` new processes run `body` and then end.  Where too few nodes are idle, waits until the
 * oldest processes have ended; status 64 where the job has too few nodes. */
void maru_parmacs_create(void (*body)(void), long count);
void maru_parmacs_create_with(void (*body)(void *), void *argument, long count);
/* Until `count` of those not yet waited for have ended, or all if there are fewer. */
void maru_parmacs_wait(long count);

/* `size` bytes of zeros that all processes share; a page or more begins a page.  Not given back.
 * Ends the process (69) where no more is left.  `site`: as in maru_dsm_alloc_at. */
void *maru_parmacs_share(size_t size, const char *site);

/* A new id, for whatever kind. */
uint32_t maru_parmacs_id(void);
/* A lock of maru/dsm.h. */
void maru_parmacs_lock(uint32_t id);
void maru_parmacs_unlock(uint32_t id);
/* So many processes meet. */
void maru_parmacs_barrier(uint32_t id, long processes);
/* A flag of maru/dsm.h: sets it to `on`; waits until it is 1. */
void maru_parmacs_set(uint32_t id, int on);
void maru_parmacs_await(uint32_t id);
/* A condition of maru/dsm.h. */
void maru_parmacs_condition_wait(uint32_t id, uint32_t lock);
void maru_parmacs_signal(uint32_t id);
void maru_parmacs_broadcast(uint32_t id);
/* The next number of a loop 0 … last that `processes` processes share.  When there is none, each
 * of them gets -1, and the loop begins anew. */
long maru_parmacs_next(uint32_t id, long last, long processes);
/* Microseconds since 1970. */
unsigned long maru_parmacs_clock(void);
/* As clock_gettime. In a job where only a lost node repeats (maru launch --recover lost) a clock
 * goes on in steps of 10 us, and the repeated program sees what it saw. */
int maru_parmacs_gettime(int clock, struct timespec *now);

/* For the code that maru-cc links in: main of every node, and what replaces calls of malloc,
 * mmap and exit, C++'s new included. */
struct maru_parmacs_program {
  int (*main)(int, char **, char **);
  char *globals, *globals_end;
};
/* Joins the job.  Node 0 runs the program's main; the others run the processes that it creates. */
int maru_parmacs_main(const struct maru_parmacs_program *program, int count, char **arguments,
                      char **environment);
/* The same of a program that calls maru_dsm_init, of which every node runs main: it joins where the
 * program does, or goes on from a checkpoint.  Such calls: `watched` 0 for
 * maru_dsm_init_unwatched. */
int maru_alike_main(const struct maru_parmacs_program *program, int count, char **arguments);
void maru_alike_init(int watched);
/* As the functions of libc of these names. */
void *maru_parmacs_malloc(size_t size);
void *maru_parmacs_calloc(size_t count, size_t size);
void *maru_parmacs_realloc(void *old, size_t size);
void *maru_parmacs_memalign(size_t alignment, size_t size);
void maru_parmacs_free(void *block);
/* A regex_t serves on every node, whichever compiled it; `matches`: of regmatch_t. */
struct re_pattern_buffer;
int maru_parmacs_regcomp(struct re_pattern_buffer *regex, const char *text, int flags);
int maru_parmacs_regexec(const struct re_pattern_buffer *regex, const char *text, size_t count,
                         void *matches, int flags);
void maru_parmacs_regfree(struct re_pattern_buffer *regex);
/* Of anonymous shared mappings too: those are shared memory. */
void *maru_parmacs_mmap(void *address, size_t length, int protection, int flags, int fd,
                        int64_t offset);
int maru_parmacs_munmap(void *address, size_t length);
void *maru_parmacs_mremap(void *old, size_t old_length, size_t length, int flags, void *address);
int maru_parmacs_mprotect(void *address, size_t length, int protection);
/* Before the program's first line, static constructors included: what they allocate is copied. */
void maru_parmacs_prepare(void);
/* What the program wants called at its end, or at its thread's: in a job with checkpoints that is
 * kept in the program's memory. 1: it is; 0: libc is to be asked; -1: no memory. */
int maru_parmacs_at_exit(void (*call)(void *), void *argument);
int maru_parmacs_on_exit(void (*call)(int, void *), void *argument);
int maru_parmacs_at_thread_exit(void (*call)(void *), void *object);
/* As the functions of libc of these names. */
int maru_parmacs_setenv(const char *name, const char *value, int replaces);
int maru_parmacs_unsetenv(const char *name);
int maru_parmacs_putenv(char *line);
int maru_parmacs_clearenv(void);
/* What the program keeps of a library's memory: of iconv_open, newlocale, std::locale(NAME). */
enum maru_parmacs_made {
  MARU_PARMACS_ICONV,
  MARU_PARMACS_LOCALE,
  MARU_PARMACS_CXX_LOCALE,
  MARU_PARMACS_MADE
};
/* What libc's functions of these names keep, in memory that a checkpoint has: strtok; localtime and
 * gmtime; asctime and ctime.  How much of that there is, which no checkpoint has. */
#define MARU_PARMACS_ZONES 16
struct maru_parmacs_statics {
  char *rest;
  struct tm time;
  char zones[MARU_PARMACS_ZONES][16], text[128];
  long made[MARU_PARMACS_MADE];
};
struct maru_parmacs_statics *maru_parmacs_statics(void);
/* A place of setjmp's that the program is about to jump to, maybe set by a process in whose place
 * this one is: becomes one of this process. */
struct __jmp_buf_tag;
void maru_parmacs_jump(struct __jmp_buf_tag *place);
/* A created process with status 0 leaves its node to the next.  Else the process ends; the first
 * one waits for those that it created. */
void maru_parmacs_exit(int status) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
#endif
