/* main.c: what `maru` does before it is a Haskell program.
 *
 * `maru run [--quiet] [--] COMMAND...` without another flag or a profile asks no room for anything,
 * so nothing is to be planned: this process becomes the supervisor at once, which says the last
 * word, too.  The Haskell run-time system would start twice, before the command and after it, and
 * cost several times what the rest does.  All else, and what cannot be done here, is for Haskell
 * to do or to refuse.
 */
#include "end.h"

#include "Rts.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PLACE "/bin/maru" /* below the prefix */

extern StgClosure ZCMain_main_closure;

static bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }

/* The command of a run for which nothing is asked; NULL: this is no such run. */
static char **plain_command(int argc, char **argv, bool *quiet) {
  if (argc < 3 || !is(argv[1], "run"))
    return NULL;
  *quiet = is(argv[2], "--quiet");
  char **command = argv + 2 + *quiet;
  command += *command != NULL && is(*command, "--");
  bool another = *command == NULL || **command == '\0' || **command == '-' || **command == '@';
  return another ? NULL : command;
}

/* As Maru.Cli.Installed finds it; false: it is for that to find. */
static bool supervisor_path(const char *own, char path[PATH_MAX]) {
  const char *asked = getenv("MARU_PREFIX");
  size_t length = strlen(own), below = sizeof PLACE - 1;
  int prefix = (int)(length - below);
  if (asked == NULL || *asked == '\0') {
    if (length <= below || !is(own + prefix, PLACE))
      return false;
    asked = own;
  } else
    prefix = (int)strlen(asked);
  return snprintf(path, PATH_MAX, "%.*s/libexec/maru/maru-supervise", prefix, asked) < PATH_MAX;
}

/* Returns if it is not to be done here, or cannot be. */
static void run_plainly(int argc, char **argv) {
  char own[PATH_MAX], supervisor[PATH_MAX];
  bool quiet = false;
  char **command = plain_command(argc, argv, &quiet);
  ssize_t size = command != NULL ? readlink("/proc/self/exe", own, sizeof own - 1) : -1;
  if (size < 0)
    return;
  own[size] = '\0';
  if (!supervisor_path(own, supervisor))
    return;
  char *words[argc + 6];
  int at = 0;
  words[at++] = supervisor;
  words[at++] = "--reporter";
  words[at++] = own;
  if (quiet) {
    words[at++] = "--verdict";
    words[at++] = "no";
  }
  words[at++] = "--";
  while ((words[at++] = *command++) != NULL)
    ;
  execv(supervisor, words);
}

int main(int argc, char *argv[]) {
  run_plainly(argc, argv);
  end_in_our_words(argc, argv);
  RtsConfig config = defaultRtsConfig;
  config.rts_hs_main = HS_BOOL_TRUE;
  /* GHCRTS and +RTS are for the command: here the run-time system would end us before the command
   * runs, and with a status of its own after it. */
  config.rts_opts_enabled = RtsOptsIgnoreAll;
  return hs_main(argc, argv, &ZCMain_main_closure, config);
}
