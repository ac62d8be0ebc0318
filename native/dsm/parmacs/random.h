/* random.h: where libc's sequences of random numbers are, for a checkpoint (internal to
 * libmaru-dsm).
 *
 * Those of random and rand, and of drand48 and its like with the multiplier that they have at
 * first. A program that goes on draws the numbers that it would have drawn.
 *
 * Thread-safety: none; the program's thread stands still meanwhile.
 */
#ifndef MARU_DSM_RANDOM_H
#define MARU_DSM_RANDOM_H

#include <stdint.h>

#define MR_RANDOM_TABLE 128

struct mr_random {
  char *table; /* the program's own, which its memory has; NULL: libc's: */
  char bytes[MR_RANDOM_TABLE];
  uint16_t product[3]; /* of drand48 */
};

/* Before the program draws any. */
void mr_random_begin(void);
struct mr_random mr_random_take(void);
/* In another process, whose memory is as it was. */
void mr_random_put(const struct mr_random *random);

#endif
