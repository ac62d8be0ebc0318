/* program.h: the memory of a program that maru-cc built, of which all is private or shared
 * (internal to libmaru-dsm).
 *
 * What a process has of its own: globals, heap, the stack in use, mappings, thread-local variables.
 * Its stack lies at an address that is free in every process.  So all of it can be copied to the
 * same addresses of another process: at CREATE, and for a checkpoint.
 *
 * One program's in a process.  Thread-safety: none.
 */
#ifndef MARU_DSM_PARMACS_PROGRAM_H
#define MARU_DSM_PARMACS_PROGRAM_H

#include "../node.h"
#include "image.h"
#include "memory.h"

#include <maru/parmacs.h>
#include <sys/types.h>

#define MR_STACK (MR_ARENA + MR_ARENA_SIZE + 4096)
#define MR_STACK_SIZE ((size_t)64 << 20)
#define MR_STREAMS (MR_STACK + MR_STACK_SIZE + 4096)
#define MR_RED_ZONE 256u
/* Of one program's mappings, and of all ranges that mr_program_list may find. */
#define MR_MAPPINGS 1024u
#define MR_PROGRAM_RANGES (3 + MR_MAPPINGS)

/* What the library knows for the program, to MR_PROGRAM_OWN ranges; how many. */
#define MR_PROGRAM_OWN 16
typedef int mr_program_own(struct mr_range *ranges);

/* Right before main: which program it is, and its arguments.  A checkpoint holds what `own` lists
 * as well.  Globals that are shared are no process's own. */
void mr_program_is(const struct maru_parmacs_program *program, int count, char **arguments,
                   bool globals_shared, mr_program_own *own);
/* Where checkpoints are asked for: a place for the streams of the program, which the calling thread
 * is to run (streams.h). */
void mr_program_map_streams(void);
/* Maps the stack, where nothing may lie. */
void mr_program_map_stack(void);
/* Runs `call` on the stack, which does not return.  Its checkpoints may be taken from now on where
 * the node has started. */
_Noreturn void mr_program_enter(void (*call)(void));
/* For a program that has another stack, which it is about to run on: the same holds.  The caller is
 * to be compiled without the stack protector, whose word changes, and so are its callers that
 * return. */
void mr_program_begins(void);
/* The program's main, with copies of arguments and environment in its own memory; its status. */
int mr_program_main(void);

/* Ids and created processes (parmacs.c). */
mr_program_own mr_parmacs_own;

/* Its memory becomes another program's: what the library keeps there is gone. */
void mr_program_forget(void);
/* The process is about to end: what libc does then is in no image. */
void mr_program_leave(void);

/* What the process has of its own, to MR_PROGRAM_RANGES ranges.  `stack`: what of the stack is in
 * use begins there.  How many, or below 0, and `why` says it. */
ssize_t mr_program_list(uint8_t *stack, struct mr_range *ranges, char *why, size_t size);
/* For mr_node_part. */
const struct mr_part *mr_program_part(void);

#endif
