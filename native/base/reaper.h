/* reaper.h: a process that is killed leaves none of its commands behind.
 *
 * A reaper is a process beside its owner.  It outlives an owner that is killed by so much that it
 * kills the process groups that it was told of, however many.  Internal to maru (not installed): of
 * maru-launch, and of tuners and benches through maru-reaper.
 */
#ifndef MARU_BASE_REAPER_H
#define MARU_BASE_REAPER_H

/* At a time: as many as Linux has process ids (PID_MAX_LIMIT), so that none is left out. */
#define MR_REAPER_GROUPS (4u << 20)

/* Becomes the reaper; `from` is a pipe or socket that its owner alone, or who speaks for it, writes
 * to. What can be said there, each a pid_t. A group. -GROUP: nobody is left in it, and its
 * number may become a stranger's; 0: nothing is left to end. */
_Noreturn void mr_reaper(int from);

#endif
