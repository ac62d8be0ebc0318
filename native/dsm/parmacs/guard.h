/* guard.h: the word that the stack protector compares with (internal to libmaru-dsm).
 *
 * The kernel draws one for each process. A stack that another process made has that one's.
 * A function that sets it does not return: its own frames have the old one. So it is to be compiled
 * without the protector. Where the word is read-only memory (aarch64) it stays.
 */
#ifndef MARU_PARMACS_GUARD_H
#define MARU_PARMACS_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
static inline uint64_t mr_guard(void) {
  uint64_t word;
  __asm__ volatile("mov %%fs:0x28, %0" : "=r"(word));
  return word;
}
/* False: it is another, and cannot be set. */
static inline __attribute__((always_inline)) bool mr_guard_set(uint64_t word) {
  __asm__ volatile("mov %0, %%fs:0x28" : : "r"(word) : "memory");
  return true;
}
#else
extern uintptr_t __stack_chk_guard __attribute__((weak));
static inline uint64_t mr_guard(void) { return &__stack_chk_guard != NULL ? __stack_chk_guard : 0; }
static inline __attribute__((always_inline)) bool mr_guard_set(uint64_t word) {
  return word == mr_guard();
}
#endif

#endif
