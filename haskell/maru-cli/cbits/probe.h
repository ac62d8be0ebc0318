/* probe.h: what `maru doctor` asks this machine.  Each probe does the thing it
 * asks about; 0 or a positive answer, else a negative errno. */
#ifndef MARU_CLI_PROBE_H
#define MARU_CLI_PROBE_H

#include <stdint.h>

/* A memfd of 2 MiB can be made, sealed against resizing and mapped. */
int maru_probe_memfd(void);
int maru_probe_futex(void);
int maru_probe_pidfd(void);
/* 2 MiB of private memory can be collapsed into a huge page. */
int maru_probe_collapse(void);

/* First accesses to memory can be seen; way: enum mr_access_way, native/dsm/access.h. */
int maru_probe_access(int way);

/* Ignores again what was ignored when this process began; to be called right before it executes
 * another program. */
void maru_probe_ignore_again(void);

/* Dies of the signal, without a core; returns where that cannot be. */
void maru_probe_die_of(int number);

/* Descriptors that this process has opened by itself so far are not for a program that it executes;
 * to be called first of all, when there are only the run-time system's. */
void maru_probe_keep_own_descriptors(void);

/* Columns and lines of the terminal behind `fd`; 0 where it does not know. */
int maru_probe_window(int fd, int *columns, int *lines);

/* A memfd named `name`, close-on-exec, with a number of 10 or above, so that it
 * never takes the place of a closed standard descriptor. */
int maru_probe_scratch(const char *name);

/* Which waiting policy runs here where `kind` is asked for on a channel of a board:
 * its number, or a negative errno; why it is another one, or "". */
int maru_probe_policy(int kind, const char **why);
/* The same at a word that is no channel, as maru's own parts wait. */
int maru_probe_word_policy(int kind, const char **why);

struct maru_probe_topology {
  uint64_t cpus, allowed, cores, nodes, sockets, quota_millicpus, memory_limit, workers;
  uint64_t degraded, described;
};
int maru_probe_topology(struct maru_probe_topology *seen);

/* Measures hand-overs between two threads, on two CPUs if there are two: one waits for a word with
 * the policy `kind`, the other changes it `pause_ns` later.  latency_ns[i] is the time from the
 * change to the return of the wait.  The number of rounds done (at most `rounds`; fewer when 500 ms
 * are over), -ENOTSUP, or another errno. */
int maru_probe_handover(int kind, int64_t pause_ns, int rounds, int64_t *latency_ns);

/* Name `position` of the locks that `maru run --lock` knows; NULL past the last. */
const char *maru_probe_overlay(unsigned position);
/* Key number `key` of that lock; NULL past the last. */
const char *maru_probe_overlay_key(unsigned position, unsigned key);
/* -1: such a lock may be asked for, else where in `text` the mistake is. */
int maru_probe_overlay_options(const char *text);

/* Sets a knob of the section "lock" of the board at `path`: 0 or a negative errno. */
enum { MARU_PROBE_DEADLINE, MARU_PROBE_RANGE, MARU_PROBE_PATIENCE };
int maru_probe_overlay_knob(const char *path, int knob, uint64_t value);

#endif
