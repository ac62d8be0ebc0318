/* races.c: fuzz.c with libmaru-io.so, seed after seed.
 *
 *   races FUZZ LIBRARY MODE SECONDS [SEED]
 */
#include "under.h"

#include <linux/magic.h>
#include <sys/statfs.h>

static struct outcome outcome;

static bool on_disk(const char *folder) {
  struct statfs fs;
  CHECK_EQUAL(statfs(folder, &fs), 0);
  return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
         fs.f_type == BTRFS_SUPER_MAGIC;
}

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
  struct maru_io_section *section = section_of(&board);
  uint64_t delegated = COUNTED(section, delegated), hints = COUNTED(section, hints);
  printf("%u runs, %llu calls delegated, %llu handed back, %llu windows read ahead\n", runs,
         (unsigned long long)delegated, (unsigned long long)COUNTED(section, handed_back),
         (unsigned long long)hints);
  /* Where /var/tmp is in memory nothing can be read ahead. */
  CHECK(strcmp(argv[3], "always") == 0 ? delegated > 100 : hints > 0 || !on_disk("/var/tmp"));
  return 0;
}
