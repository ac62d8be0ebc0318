/* numbers.c: libc's random numbers for a program of threads (maru/threads.h).
 *
 * Libc keeps where its sequences are in each process.  Here that is one for all nodes, in the
 * program's memory: what static constructors have drawn or seeded counts, too.  Each call takes the
 * lock of the table of threads.
 */
#define _GNU_SOURCE
#include "threads.h"

#include <maru/parmacs.h>
#include <maru/threads.h>
#include <stdlib.h>

/* As libc begins: as if seeded with 1, from a table of that size. */
#define FIRST_SEED 1
#define TABLE_SIZE 128

struct mr_numbers {
  struct random_data random;
  struct drand48_data product;
  char table[TABLE_SIZE];
};

static struct mr_numbers *enter(void) {
  mr_threads_lock();
  struct mr_numbers **all = &mr_threads_table()->numbers;
  if (*all != NULL)
    return *all;
  *all = maru_parmacs_calloc(1, sizeof **all);
  if (*all == NULL)
    mr_node_die(STATUS_UNAVAILABLE, "no memory for random numbers");
  initstate_r(FIRST_SEED, (*all)->table, TABLE_SIZE, &(*all)->random);
  return *all;
}

static void leave(void) { mr_threads_unlock(); }

/* ---- random and rand --------------------------------------------------------------------- */

long maru_random(void) {
  int32_t number = 0;
  random_r(&enter()->random, &number);
  leave();
  return number;
}

void maru_srandom(unsigned seed) {
  srandom_r(seed, &enter()->random);
  leave();
}

int maru_rand(void) { return (int)maru_random(); }
void maru_srand(unsigned seed) { maru_srandom(seed); }

/* A table begins with a word that says where its sequence is. */
static char *table_of(const struct mr_numbers *all) { return (char *)(all->random.state - 1); }

char *maru_initstate(unsigned seed, char *table, size_t size) {
  struct mr_numbers *all = enter();
  char *before = table_of(all);
  int rc = initstate_r(seed, table, size, &all->random);
  leave();
  return rc < 0 ? NULL : before;
}

char *maru_setstate(char *table) {
  struct mr_numbers *all = enter();
  char *before = table_of(all);
  int rc = setstate_r(table, &all->random);
  leave();
  return rc < 0 ? NULL : before;
}

/* ---- drand48 and its like ------------------------------------------------------------------ */

double maru_drand48(void) {
  double number = 0;
  drand48_r(&enter()->product, &number);
  leave();
  return number;
}

long maru_lrand48(void) {
  long number = 0;
  lrand48_r(&enter()->product, &number);
  leave();
  return number;
}

long maru_mrand48(void) {
  long number = 0;
  mrand48_r(&enter()->product, &number);
  leave();
  return number;
}

void maru_srand48(long seed) {
  srand48_r(seed, &enter()->product);
  leave();
}

unsigned short *maru_seed48(unsigned short seed[3]) {
  struct mr_numbers *all = enter();
  seed48_r(seed, &all->product);
  leave();
  return all->product.__old_x;
}

void maru_lcong48(unsigned short parameters[7]) {
  lcong48_r(parameters, &enter()->product);
  leave();
}
