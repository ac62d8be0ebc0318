/* interpreter.h: by what a file is run: a script's first line, a program's dynamic loader. */
#ifndef MARU_RUN_INTERPRETER_H
#define MARU_RUN_INTERPRETER_H

#include <stdbool.h>

#define INTERPRETER_BYTES 256

/* Of the file that exec finds by this name, in PATH where it has no slash; for a terminal. False:
 * there is no such file, or it names none that we can read. */
bool interpreter_of(const char *name, char interpreter[INTERPRETER_BYTES]);

#endif
