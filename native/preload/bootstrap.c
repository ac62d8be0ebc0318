#define _GNU_SOURCE /* program_invocation_short_name */
#include "bootstrap.h"
#include "../board/note.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_MAX_BYTES 256

/* Its words would be the program's own; the run's end says it. */
static void say_no_room(const char *room) {
  char line[LINE_MAX_BYTES];
  snprintf(line, sizeof line,
           "process %d (%.32s) is not counted, nor profiled: its addresses have no room for the "
           "run's board; raise ulimit -v",
           (int)getpid(), program_invocation_short_name);
  mr_board_note(getenv(MARU_BOARD_ENV), room, line);
}

void mr_preload_start(struct mr_preload *preload, const char *room) {
  *preload = (struct mr_preload){.room = room};
  int error = maru_board_open_env(&preload->board);
  preload->on_board = error == 0;
  if (error == -ENOMEM)
    say_no_room(room);
  /* The program may close all descriptors that it does not know. */
  if (preload->on_board)
    maru_board_forget_fd(&preload->board);
}

void *mr_preload_section(struct mr_preload *preload, const char *name, uint32_t version,
                         size_t size) {
  void *section = NULL;
  if (!preload->on_board)
    return NULL;
  return maru_board_share(&preload->board, name, version, size, &section) == 0 ? section : NULL;
}

void mr_preload_warn(struct mr_preload *preload, _Atomic uint32_t *said, const char *format, ...) {
  char text[LINE_MAX_BYTES], line[LINE_MAX_BYTES + 32];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (preload->on_board)
    maru_board_say(&preload->board, preload->room, "%s", text);
  /* Relaxed: whichever thread comes first. */
  if (atomic_exchange_explicit(said, 1, memory_order_relaxed) != 0)
    return;
  int length = snprintf(line, sizeof line, "maru: %s: %s\n", preload->room, text);
  (void)!write(STDERR_FILENO, line, (size_t)length);
}
