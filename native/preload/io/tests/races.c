/* races.c: fuzz.c with libmaru-io.so, seed after seed.
 *
 *   races FUZZ LIBRARY MODE SECONDS [SEED]
 */
#include "under.h"

static struct outcome outcome;

int main(int argc, char **argv) {
  CHECK(argc >= 5);
  struct maru_board board;
  make_board(&board);
  int64_t end = now_ms() + atoll(argv[4]) * 1000;
  uint64_t seed = argc > 5 ? strtoull(argv[5], NULL, 0) : (uint64_t)now_ms();
  unsigned runs = 0;
  for (; now_ms() < end; runs++, seed++) {
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)seed);
    /* Twenty times its length, and a busy machine's pause. */
    run_under(argv[2], argv[3], (char *[]){argv[1], number, "2", NULL}, 60, &outcome);
    if (outcome.status != 0 || strcmp(outcome.text, "done\n") != 0) {
      fprintf(stderr, "seed %s: status %x %s\n", number, (unsigned)outcome.status, outcome.text);
      return 1;
    }
  }
  uint64_t delegated = COUNTED(section_of(&board), delegated);
  printf("%u runs, %llu calls delegated, %llu handed back\n", runs, (unsigned long long)delegated,
         (unsigned long long)COUNTED(section_of(&board), handed_back));
  CHECK(delegated > 100);
  return 0;
}
