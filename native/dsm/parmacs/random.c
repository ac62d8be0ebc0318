#define _GNU_SOURCE
#include "random.h"

#include <stdlib.h>
#include <string.h>

/* Of 124 bytes that random draws from, and a word before them that says where it is: as libc's. */
static char other[MR_RANDOM_TABLE];
static char *libcs;

/* The table that is in use. Where it is, libc writes there once it has another; and reads there
 * when it gets it back. */
static char *set_aside(void) { return initstate(1, other, sizeof other); }

void mr_random_begin(void) {
  libcs = set_aside();
  setstate(libcs);
}

struct mr_random mr_random_take(void) {
  struct mr_random random = {.table = set_aside()};
  uint16_t any[3] = {0};
  if (random.table == libcs) {
    memcpy(random.bytes, libcs, sizeof random.bytes);
    random.table = NULL;
  }
  setstate(random.table != NULL ? random.table : libcs);
  memcpy(random.product, seed48(any), sizeof random.product);
  uint16_t again[3];
  memcpy(again, random.product, sizeof again);
  seed48(again);
  return random;
}

void mr_random_put(const struct mr_random *random) {
  uint16_t product[3];
  set_aside();
  if (random->table == NULL)
    memcpy(libcs, random->bytes, sizeof random->bytes);
  setstate(random->table != NULL ? random->table : libcs);
  memcpy(product, random->product, sizeof product);
  seed48(product);
}
