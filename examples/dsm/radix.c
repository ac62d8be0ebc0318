/* Radix sort. In each pass a node counts the digits of its band of keys. All counts together say
 * where each of its keys goes. It puts them there, mostly into pages that other nodes write
 * too.  Checked: the keys are in order, and they are the keys that there were.
 *
 *     maru launch -n 4 -- ./radix [-n 262144] [-t 1]        n keys of 32 bits
 */
#include "example.h"

#define DIGITS 256
#define PASSES 4

static unsigned digit(uint32_t key, int pass) { return key >> 8 * pass & (DIGITS - 1); }

/* Where this node's first key of each digit goes: after all smaller digits, and after the
 * same digit's keys of the nodes before. */
static void place(const uint32_t (*counts)[DIGITS], uint32_t *place) {
  uint32_t at = 0, me = maru_dsm_node();
  for (unsigned d = 0; d < DIGITS; d++)
    for (uint32_t node = 0; node < maru_dsm_nodes(); node++) {
      if (node == me)
        place[d] = at;
      at += counts[node][d];
    }
}

static void sort_by(int pass, const uint32_t *from, uint32_t *to, long keys,
                    uint32_t (*counts)[DIGITS]) {
  struct band mine = band(keys);
  uint32_t places[DIGITS], found[DIGITS] = {0};
  for (long i = mine.first; i < mine.last; i++)
    found[digit(from[i], pass)]++;
  memcpy(counts[maru_dsm_node()], found, sizeof found);
  maru_dsm_barrier(0);
  place((const uint32_t(*)[DIGITS])counts, places);
  for (long i = mine.first; i < mine.last; i++)
    to[places[digit(from[i], pass)]++] = from[i];
  maru_dsm_barrier(0);
}

static uint32_t key(long i) { return (uint32_t)scatter((uint64_t)i); }

/* The sum and the sum of squares: other keys have other ones. */
static void check(const uint32_t *sorted, long keys) {
  uint64_t sum = 0, squares = 0;
  for (long i = 0; i < keys; i++) {
    uint64_t was = key(i), is = sorted[i];
    insist(i == 0 || sorted[i - 1] <= sorted[i], "keys are out of order");
    sum += was - is;
    squares += was * was - is * is;
  }
  insist(sum == 0 && squares == 0, "the keys are not those that there were");
}

int main(int count, char **arguments) {
  long keys = flag(count, arguments, "-n", 262144, 2, 1L << 30);
  maru_dsm_init();
  uint32_t *from = SHARED(sizeof *from * (size_t)keys), *to = SHARED(sizeof *to * (size_t)keys);
  uint32_t(*counts)[DIGITS] = SHARED(sizeof *counts * maru_dsm_nodes());
  struct band mine = band(keys);
  double begin = seconds();
  for (long i = mine.first; i < mine.last; i++)
    from[i] = key(i);
  maru_dsm_barrier(0);
  /* An even number of passes: the result is where the keys were. */
  for (int pass = 0; pass < PASSES; pass += 2) {
    sort_by(pass, from, to, keys, counts);
    sort_by(pass + 1, to, from, keys, counts);
  }
  took(count, arguments, begin);
  if (maru_dsm_node() == 0) {
    check(from, keys);
    printf("radix, %ld keys: median %08x, %016llx\n", keys, from[keys / 2],
           (unsigned long long)checksum(from, sizeof *from * (size_t)keys));
  }
  maru_dsm_exit();
  return 0;
}
