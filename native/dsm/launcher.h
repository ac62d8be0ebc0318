/* launcher.h: nodes that another launcher than `maru launch` started: mpirun, srun (internal).
 *
 * They find each other through what the launcher offers its processes: PMIx (Open MPI's mpirun,
 * srun --mpi=pmix; libpmix is loaded when it is needed) or PMI-1 (MPICH's mpiexec, srun
 * --mpi=pmi2).  There node 0 leaves the job's secret, and each node its address; the launcher
 * shows them to the processes of this job alone.
 */
#ifndef MARU_DSM_LAUNCHER_H
#define MARU_DSM_LAUNCHER_H

#include "transport.h"

#include <stdbool.h>

enum mr_launcher { MR_LAUNCHER_NONE, MR_LAUNCHER_PMIX, MR_LAUNCHER_PMI, MR_LAUNCHER_MUTE };

/* What the environment says.  MUTE: srun, which offers no way to meet. */
enum mr_launcher mr_launcher_find(void);

/* A number that a launcher says by this variable; 0: it says none. */
int64_t mr_launcher_said(const char *name);

struct mr_meeting {
  uint16_t nodes, me;
  int listener;
  struct sockaddr_storage *addresses; /* to be freed */
  uint8_t secret[MR_SECRET];
};

/* Meets the other nodes of the job, at most `most`, for some `seconds`.  Negative errno, and `why`
 * says what happened; also where the launcher does not answer. */
int mr_launcher_meet(enum mr_launcher launcher, struct mr_meeting *meeting, uint16_t most,
                     int seconds, char *why, size_t size);

/* The same where all talk to node 0 alone: it listens, the others learn its address and no other.
 * So what is exchanged grows with the number of nodes, not with its square. */
int mr_launcher_meet_first(enum mr_launcher launcher, struct mr_meeting *meeting, uint16_t most,
                           int seconds, char *why, size_t size);

/* The launcher still knows the nodes that have met: one of these ends that. The second tells it the
 * job's status, where it has a word for that; the caller exits with that status then. It returns in
 * some seconds, or not at all. */
int mr_launcher_leave(enum mr_launcher launcher); /* -ETIMEDOUT: it does not answer */
void mr_launcher_abort(enum mr_launcher launcher, int status);

/* ---- the ways, for launcher.c ---- */

#define MR_BOARD_VALUE 256

/* A table that all processes of the job see.  Each step: 0 or negative errno, then `why` says it.
 */
struct mr_board_way {
  int (*open)(unsigned *nodes, unsigned *me, int seconds, char *why, size_t size);
  int (*put)(const char *key, const char *value);
  /* What all have put can be read by all. */
  int (*meet)(void);
  int (*get)(unsigned node, const char *key, char value[MR_BOARD_VALUE]);
  void (*close)(void);
  void (*abort)(int status); /* NULL: the launcher goes by the exit status alone */
};

extern const struct mr_board_way mr_pmi_way, mr_pmix_way;

#endif
