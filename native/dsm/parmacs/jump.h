/* jump.h: setjmp's places, for a process that goes on in another's place (internal to libmaru-dsm).
 *
 * Libc keeps three words of a place mixed with one that the kernel draws for each process. So a
 * place in the memory of a program that goes on is another process's. A *drawn* word of each of
 * those goes with the image; where the program jumps, the place is mixed anew with this process's
 * own.
 *
 * x86-64 alone: elsewhere nothing is drawn that libc tells of, and nothing is done.
 *
 * Thread-safety: none; the program's thread stands still, or calls it.
 */
#ifndef MARU_DSM_JUMP_H
#define MARU_DSM_JUMP_H

#include <stdint.h>

/* Of so many processes, the last ones. A place of an older one is none any more. */
#define MR_JUMP_PROCESSES 64u

struct mr_jumps {
  uint64_t drawn[MR_JUMP_PROCESSES];
  uint64_t count;
};

/* Of this process and those before it. */
struct mr_jumps mr_jumps_take(void);
/* Of those before it. */
void mr_jumps_put(const struct mr_jumps *jumps);

#endif
