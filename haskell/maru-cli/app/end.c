/* end.c: GHC's run-time system aborts, or ends with status 1, and asks for a report to its makers.
 * Nearly always a limit of the caller's is too small: the line says which, and what to do.
 *
 * Open files are counted before.  With some of those that it needs the run-time system goes on
 * without a part of itself, or ends at a moment that differs from run to run.
 */
#define _GNU_SOURCE /* O_PATH */
#include "end.h"

#include "Rts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
  LINE_BYTES = 1024,
  FILES_NEEDED = 16, /* GHC 9.0 opens 10 for its timer and its two event managers */
  UNAVAILABLE = 69,
  MARU_FAILED = 125
};

extern RtsMsgFunction *sysErrorMsgFn; /* GHC's headers do not name it */
void maru_probe_die_of(int number);

static int status;          /* below 0: the signal to die of */
static const char *missing; /* what the caller loses */
static atomic_flag ending = ATOMIC_FLAG_INIT;
static atomic_bool said;

static bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }

/* As each command has it.  `maru run` and its like have the command's own statuses.  The last words
 * of a run are said with the status that it had. */
static void note_status(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  bool last_words = argc > 3 && (is(command, "report-run") || is(command, "report-launch"));
  missing = last_words ? "cannot say what was measured" : "cannot go on";
  if (last_words)
    status = atoi(argv[3]);
  else
    status = is(command, "run") || is(command, "launch") ? MARU_FAILED : UNAVAILABLE;
}

static _Noreturn void end(void) {
  if (status < 0) {
    maru_probe_die_of(-status);
    _exit(128 - status);
  }
  _exit(status);
}

/* One write: lines of several threads do not mix. */
static void say(const char *format, ...) {
  char line[LINE_BYTES];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(line, sizeof line, format, values);
  va_end(values);
  if (length >= (int)sizeof line) {
    length = sizeof line;
    line[length - 1] = '\n';
  }
  if (length > 0)
    (void)!write(STDERR_FILENO, line, (size_t)length);
}

static bool is_limited(int resource, unsigned long long *limit) {
  struct rlimit now;
  if (getrlimit(resource, &now) < 0 || now.rlim_cur == RLIM_INFINITY)
    return false;
  *limit = now.rlim_cur;
  return true;
}

/* What to do about it, from "; " on; empty where nothing is known. */
static void advise(int error, char text[LINE_BYTES]) {
  unsigned long long limit;
  *text = '\0';
  if (error == EMFILE && is_limited(RLIMIT_NOFILE, &limit))
    snprintf(text, LINE_BYTES, "; raise the limit of open files (ulimit -n), which is %llu", limit);
  else if (error == EAGAIN && is_limited(RLIMIT_NPROC, &limit))
    snprintf(text, LINE_BYTES,
             "; raise the limit of processes (ulimit -u), which is %llu, or the container's",
             limit);
  else if (is_limited(RLIMIT_AS, &limit))
    snprintf(text, LINE_BYTES, "; raise the limit of memory (ulimit -v), which is %llu KiB",
             limit >> 10);
}

static void tell(int error, const char *why, const char *format, va_list values) {
  char words[LINE_BYTES / 2], advice[LINE_BYTES];
  vsnprintf(words, sizeof words, format, values);
  size_t length = strcspn(words, "\n");
  words[length - (length > 0 && words[length - 1] == '.')] = '\0';
  advise(error, advice);
  say("maru: %s: the run-time system: %s%s%s%s\n", missing, words, *why != '\0' ? ": " : "", why,
      advice);
}

static _Noreturn void on_fatal(const char *format, va_list values) {
  int error = errno;
  if (atomic_flag_test_and_set(&ending))
    for (;;) /* another thread ends the process */
      pause();
  tell(error, "", format, values);
  end();
}

/* Where it does not go on after these it calls on_exit. */
static void on_error(const char *format, va_list values) {
  /* INT came before the command could ask for it: it ends as by that signal. */
  if (is(format, "interrupted"))
    maru_probe_die_of(SIGINT);
  tell(errno, "", format, values);
  atomic_store(&said, true);
}

static void on_system_error(const char *format, va_list values) {
  int error = errno;
  tell(error, strerror(error), format, values);
  atomic_store(&said, true);
}

static void on_its_end(int own) {
  if (atomic_load(&said) &&
      (own == EXIT_FAILURE || own == EXIT_HEAPOVERFLOW || own == EXIT_INTERNAL_ERROR))
    end();
}

static int files_left(void) {
  int opened[FILES_NEEDED], count = 0;
  while (count < FILES_NEEDED && (opened[count] = open("/", O_PATH | O_CLOEXEC)) >= 0)
    count++;
  for (int i = 0; i < count; i++)
    close(opened[i]);
  return count;
}

void end_in_our_words(int argc, char **argv) {
  note_status(argc, argv);
  fatalInternalErrorFn = on_fatal;
  errorMsgFn = on_error;
  sysErrorMsgFn = on_system_error;
  exitFn = on_its_end;
  int left = files_left();
  if (left < FILES_NEEDED) {
    char advice[LINE_BYTES];
    advise(errno, advice);
    say("maru: %s: %d more open files are needed, and %d can be had%s\n", missing, FILES_NEEDED,
        left, advice);
    end();
  }
}
