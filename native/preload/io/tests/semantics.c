/* semantics.c: each case of cases.c prints the same with libmaru-io.so as without.
 *
 *   semantics CASES LIBRARY MODE
 *
 * In the mode "always" what can be delegated must have been, and neighbours made by one call. A
 * suite in which everything went direct would show nothing. */
#include "under.h"

static struct outcome listed, direct, with;

static bool differs(const char *name) {
  if (direct.status == with.status && direct.size == with.size &&
      memcmp(direct.text, with.text, direct.size) == 0 && direct.status == 0)
    return false;
  fprintf(stderr, "FAILED %s: status %x and %x\n--- direct\n%s--- with the library\n%s", name,
          (unsigned)direct.status, (unsigned)with.status, direct.text, with.text);
  return true;
}

/* Its contexts are told that it goes: they need not find out, which takes five seconds.  A busy
 * machine may take that long once, not each time. */
static bool ends_soon(char **argv, char *const *command) {
  bool soon = false;
  for (int turn = 0; turn < 3 && !soon; turn++) {
    int64_t begun = now_ms();
    run_under(argv[2], argv[3], command, 60, &with);
    soon = now_ms() - begun < 4000;
  }
  return soon;
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  bool always = strcmp(argv[3], "always") == 0;
  struct maru_board board;
  make_board(&board);
  run_under(NULL, NULL, (char *[]){argv[1], "--list", NULL}, 10, &listed);
  /* Ahead of each case a few calls start the contexts. */
  run_under(argv[2], argv[3], (char *[]){argv[1], "read_nothing", NULL}, 60, &with);
  CHECK_EQUAL(COUNTED(section_of(&board), holder), 0); /* who ends gives its line back */
  uint64_t warm = COUNTED(section_of(&board), delegated);
  unsigned number = 0, failed = 0, delegating = 0, delegated = 0;
  for (char *rest = listed.text, *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
    char *name = strsep(&line, " ");
    char *command[] = {argv[1], name, NULL};
    run_under(NULL, NULL, command, 60, &direct);
    uint64_t before = COUNTED(section_of(&board), delegated);
    run_under(argv[2], argv[3], command, 60, &with);
    uint64_t now = COUNTED(section_of(&board), delegated) - before;
    failed += differs(name);
    CHECK(strcmp(name, "main_thread_leaves") != 0 || ends_soon(argv, command));
    if (line != NULL) {
      delegating++;
      delegated += now > warm;
      if (always && now <= warm)
        fprintf(stderr, "note: %s delegated nothing\n", name);
    }
    number++;
  }
  printf("%u cases, %u differ; of %u that can delegate %u did (a case's own start: %d)\n", number,
         failed, delegating, delegated, (int)warm);
  uint64_t merged = COUNTED(section_of(&board), merged);
  printf("%llu calls made with a neighbour\n", (unsigned long long)merged);
  CHECK(number >= 60);
  /* A busy machine may take a request back here and there. */
  if (always)
    CHECK(delegated * 10 >= delegating * 8 && merged > 0);
  return failed != 0;
}
