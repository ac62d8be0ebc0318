/* skip.h: functions whose callers are the places that take a mutex: wrappers, looked past on
 * request (internal).
 *
 * Finding a caller walks the stack by its tables of unwinding, once for each acquisition in such a
 * function: some microseconds.  All else pays a comparison. */
#ifndef MARU_PRELOAD_SKIP_H
#define MARU_PRELOAD_SKIP_H

#include <stdbool.h>
#include <stddef.h>

/* Read by the next two; set before any of them.  How many functions are looked past. */
extern size_t mr_skips __attribute__((visibility("hidden")));

/* Finds the functions with these names (separated by commas) in the files that the process has
 * loaded so far, by their symbol tables. C++'s are found by their names without classes and
 * arguments. How many there are; 0 too where the stack cannot be walked. Once, while there is
 * one thread. */
size_t mr_skip_start(const char *names);

/* For the return address of a call: the same. Where it lies in one of the functions, that of the
 * call of it, and so on. Async-signal-safe if libgcc's unwinder is (glibc 2.35). */
const void *mr_skip_from(const void *site);

static inline const void *mr_skip(const void *site) {
  return __builtin_expect(mr_skips != 0, 0) ? mr_skip_from(site) : site;
}

#endif
