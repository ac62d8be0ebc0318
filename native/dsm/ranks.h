/* ranks.h: the processes that mpirun or srun started, as the parallel map uses them: each talks to
 * the first alone (private to maru).
 *
 * Errors are negative errno. Not thread-safe: one thread of a process meets, and later leaves.
 * Nothing here is for a forked child.
 */
#ifndef MARU_DSM_RANKS_H
#define MARU_DSM_RANKS_H

#include "hmac.h"
#include "launcher.h"

/* As the Haskell side reads it. */
struct maru_ranks {
  uint32_t count, me;
  int32_t listener; /* of rank 0, where there are others; else -1 */
  int32_t first;    /* of the others: connected to rank 0; else -1 */
  uint8_t secret[MR_SECRET];
  char why[256]; /* what went wrong */
};

/* As mr_launcher_find. */
int maru_ranks_launcher(void);
/* How many of so many workers are this process's, at least 1. Processes of one host share them, as
 * many as the launcher says. One that is bound to fewer CPUs than there are shares with nobody. */
unsigned maru_ranks_share(unsigned workers);
/* For at most so many seconds, and some for the launcher's answer.  Rank 0 listens on the loopback
 * interface where the launcher says that all are here, else where MARU_DSM_ADDRESS or the host's
 * name says.  Nobody has proved anything yet.  Variables by which a process takes itself for a rank
 * are unset, but in a program with MPI_Init: what it starts is no rank.  The descriptors are the
 * caller's, close-on-exec. */
int maru_ranks_meet(struct maru_ranks *ranks, int seconds);
/* A descriptor, or -EAGAIN: nobody calls.  A connection whose other host is silent ends after some
 * 15 s, or after the kernel's last retry where bytes are under way to it; so it is with `first`. */
int maru_ranks_accept(int listener);
/* Starts a program, found by PATH, in a process group of its own. Its descriptors from 0 on are the
 * `count` given ones of this process, which others must not inherit. Its process, or an error.
 * A program that reads ends by itself when the other end of its input is closed; maru_ranks_end
 * ends any. */
int maru_ranks_spawn(char *const *command, const int *given, unsigned count);
/* Waits for that process for at most so many ms, then kills its group, whatever is left of it, and
 * reaps it. Its exit status, or 128 + signal, if it ended by itself; else -EAGAIN. Once for a
 * process. */
int maru_ranks_end(int process, int ms);
/* After the meeting. The launcher may count this process as done. */
int maru_ranks_leave(void);
/* Tells the launcher that the job ends with that status, as this process is to do then. */
void maru_ranks_abort(int status);

/* HMAC-SHA-256 by the secret. */
void maru_ranks_proof(const uint8_t *secret, const void *bytes, size_t length,
                      uint8_t proof[MR_HMAC]);

/* What this process runs: the same for two that come from one link of one program, Haskell's shared
 * libraries included.  By the build IDs that the linker leaves; what has none is read and hashed,
 * whole. */
int maru_ranks_program(uint8_t identity[MR_HMAC]);
/* The same, and where it lies in memory: two processes of equal layout can exchange code's
 * addresses. */
int maru_ranks_layout(uint8_t identity[MR_HMAC]);

#endif
