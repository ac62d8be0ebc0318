/* alike.c: programs of maru/dsm.h that maru-cc built: every node runs main (maru/parmacs.h).
 *
 * They need nothing of this but for checkpoints.  What a process has of its own lies where it lies
 * in every process (program.h).  A process that goes on from a checkpoint does not begin main: it
 * joins the job, and goes on where another stopped.
 */
#define _GNU_SOURCE
#include <maru/parmacs.h>

#include "part.h"
#include "program.h"
#include "start.h"

#include <stdbool.h>
#include <ucontext.h>

static bool begun; /* main is ours */

static void join(void (*init)(void)) {
  mr_part_joins();
  mr_node_part(mr_program_part());
  init();
}

static int list_own(struct mr_range *ranges) {
  uint8_t *allocated = (uint8_t *)mr_node_allocated();
  ranges[0] = (struct mr_range){.from = allocated, .to = allocated + sizeof(size_t)};
  return 1;
}

static void run_main(void) { maru_parmacs_exit(mr_program_main()); }

/* In the place of another process.  The stack protector's word changes here. */
__attribute__((no_stack_protector)) static _Noreturn void go_on(void) {
  join(maru_dsm_init);
  const ucontext_t *context = mr_node_resume();
  mr_node_captures(true);
  if (context != NULL)
    setcontext(context);
  mr_node_die(STATUS_DATA, "the checkpoint is of another sort of program");
}

int maru_alike_main(const struct maru_parmacs_program *program, int count, char **arguments) {
  mr_start_steadily(arguments);
  begun = true;
  mr_program_is(program, count, arguments, false, list_own);
  mr_part_given();
  mr_program_map_stack();
  if (mr_node_will_restore())
    go_on();
  mr_program_enter(run_main);
}

void maru_alike_init(int watched) {
  if (!begun)
    mr_node_die(STATUS_USAGE, "maru_dsm_init before main, or in a program that creates threads: "
                              "maru-cc's have their node already; use one of both");
  if (!watched) {
    maru_dsm_init_unwatched();
    return;
  }
  join(maru_dsm_init);
  mr_node_captures(true);
}
