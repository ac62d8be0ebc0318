#define _GNU_SOURCE
#include "program.h"

#include "../../base/variables.h"
#include "../checkpoint.h"
#include "../streams.h"
#include "environment.h"
#include "guard.h"
#include "last.h"
#include "maps.h"
#include "part.h"
#include "start.h"
#include "statics.h"

#include <ucontext.h>
#include <unistd.h>

static struct {
  struct maru_parmacs_program file;
  pid_t owner;
  char **arguments;
  int count;
  bool shared; /* globals are */
  mr_program_own *own;
  struct mr_variables variables; /* the program's own */
  ucontext_t begin;
} program;

void mr_program_is(const struct maru_parmacs_program *file, int count, char **arguments,
                   bool globals_shared, mr_program_own *own) {
  program.file = *file;
  program.owner = getpid();
  program.count = count;
  program.arguments = arguments;
  program.shared = globals_shared;
  program.own = own;
  program.variables = mr_variables_find();
  mr_part_runs(arguments);
  mr_environment_prepare();
  mr_last_prepare();
}

void mr_program_map_stack(void) { mr_memory_map(MR_STACK, MR_STACK_SIZE, "stack"); }

void mr_program_map_streams(void) {
  if (!mr_checkpoints_asked())
    return;
  mr_memory_map(MR_STREAMS, MR_STREAMS_SIZE, "streams");
  mr_streams_prepare(MR_STREAMS);
}

__attribute__((no_stack_protector)) void mr_program_begins(void) {
  mr_node_captures(true);
  uint64_t word = mr_node_guard_word(mr_guard());
  if (mr_guard_set(word))
    mr_part_guarded(word);
}

/* Created processes get the program's stack: one that repeats this one has to send the same. */
__attribute__((no_stack_protector)) _Noreturn void mr_program_enter(void (*call)(void)) {
  getcontext(&program.begin);
  program.begin.uc_stack.ss_sp = MR_STACK;
  program.begin.uc_stack.ss_size = MR_STACK_SIZE;
  program.begin.uc_link = NULL;
  makecontext(&program.begin, call, 0);
  mr_program_begins();
  setcontext(&program.begin);
  mr_node_die(STATUS_INTERNAL, "cannot change to the program's stack");
}

/* Pointers to those may be in the program's memory. */
int mr_program_main(void) {
  char **arguments = mr_start_copy(program.arguments);
  environ = mr_start_copy(environ);
  return program.file.main(program.count, arguments, environ);
}

void mr_program_forget(void) {
  mr_environment_forget();
  mr_last_forget();
}

void mr_program_leave(void) {
  if (program.owner == getpid() && mr_node_started())
    mr_node_no_more_checkpoints();
}

/* ---- what it has of its own ---------------------------------------------------------- */

ssize_t mr_program_list(uint8_t *stack, struct mr_range *ranges, char *why, size_t size) {
  uint8_t *globals = (uint8_t *)program.file.globals,
          *globals_end = (uint8_t *)program.file.globals_end;
  ranges[0] = (struct mr_range){.from = globals, .to = program.shared ? globals : globals_end};
  ranges[1] = mr_memory_heap();
  ranges[2] = (struct mr_range){.from = stack, .to = MR_STACK + MR_STACK_SIZE};
  ssize_t mappings = mr_maps_list(ranges + 3, MR_MAPPINGS, why, size);
  return mappings < 0 ? mappings : 3 + mappings;
}

/* A process that runs nothing has nothing but what this library knows. */
static int list_part(uint8_t *sp, struct mr_range *ranges, size_t most, char *why, size_t size) {
  int count = 0;
  _Static_assert(MR_PROGRAM_RANGES + MR_PROGRAM_OWN + 5 <= MR_PART_RANGES, "all have room");
  (void)most;
  count += program.own(ranges);
  ranges[count++] = mr_memory_state();
  if (sp == NULL)
    return count;
  ranges[count++] = mr_environment_state();
  ranges[count++] = mr_last_state();
  ranges[count++] = mr_statics_state();
  ranges[count++] = (struct mr_range){.from = program.variables.at,
                                      .to = program.variables.at + program.variables.size};
  ssize_t more = mr_program_list(sp, ranges + count, why, size);
  return more < 0 ? (int)more : count + (int)more;
}

const struct mr_part *mr_program_part(void) {
  static const struct mr_part_ranges ranges = {list_part};
  return mr_part_of(&ranges);
}
