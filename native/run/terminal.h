/* terminal.h: which process group owns the controlling terminal's foreground.
 *
 * The command stays in the supervisor's process group, so that Ctrl-C, Ctrl-Z
 * and pipelines work as without maru and nothing has to be handed over.  Some
 * commands make a group of their own (interactive shells, timeout). Such a group is lent the
 * terminal when it asks. A group that died while it had the terminal gives it back.
 */
#ifndef MARU_RUN_TERMINAL_H
#define MARU_RUN_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
  int fd;     /* -1: no controlling terminal, or we started in the background */
  pid_t home; /* our process group, in the foreground at the start */
};

/* Opens the controlling terminal, if there is one and it is ours. */
struct terminal terminal_open(void);
/* Makes `group` the foreground group if ours is it now; whether it was done. */
bool terminal_lend(const struct terminal *terminal, pid_t group);
/* Makes our group the foreground group again, unless the one that has the
 * terminal is alive and not `lent_to` (a shell has moved us to the background). */
void terminal_take_back(const struct terminal *terminal, pid_t lent_to);

#endif
