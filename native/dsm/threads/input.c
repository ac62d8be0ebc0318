#define _GNU_SOURCE
#include "input.h"

#include "../node.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Linux's number of /dev/null. */
#define NOTHING makedev(1, 3)

static void (*refuses)(void); /* NULL: on node 0 */

bool mr_input_is_empty(void) {
  struct stat input;
  return fstat(STDIN_FILENO, &input) < 0 || (S_ISCHR(input.st_mode) && input.st_rdev == NOTHING);
}

void mr_input_begin(void (*refuse)(void)) {
  if (!mr_input_is_empty()) /* another launcher's node may have one */
    return;
  refuses = refuse;
  mr_node_on_input_end(refuse);
}

void mr_input_look(void) {
  if (refuses != NULL && feof_unlocked(stdin))
    refuses();
}
