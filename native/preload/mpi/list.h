/* list.h: which blocking calls a shim replaces, for which versions of its MPI, in which shapes.
 *
 * A call that is not listed for the version at hand passes: it goes to the MPI as the program
 * made it.  A listed call passes too where it has a shape that its entry leaves out.
 *
 * MPI forbids that a blocking collective operation meets a non-blocking one.  So all ranks of a
 * communicator must decide alike, and a shape may only be what MPI makes them know alike: the
 * communicator's kind, and the op of a reduction.  A rank's own counts, buffers, MPI_IN_PLACE and
 * datatypes are no shapes.  An operation whose non-blocking form errs by these is not listed at
 * all.
 *
 * Point-to-point calls and waits for requests are not in the list: MPI has each of their parts
 * meet any form of the other, and a rank decides alone.  The one exception is MPI_Waitall.
 *
 * docs/wait.md has these tables for readers; a test compares the two.
 */
#ifndef MARU_PRELOAD_MPI_LIST_H
#define MARU_PRELOAD_MPI_LIST_H

#include <stdbool.h>
#include <stddef.h>

enum mr_mpi_kind { MR_OPEN_MPI, MR_MPICH, MR_MPI_KINDS };

/* Major * 10000 + minor * 100 + patch; 0: not known. */
typedef unsigned mr_version;
#define MR_VERSION(major, minor, patch) ((major)*10000u + (minor)*100u + (patch))
#define MR_ANY_VERSION ~0u

/* What a call's arguments must be like; several are all asked for. */
enum mr_shape {
  MR_INTRA = 1u << 0,         /* an intracommunicator; all entries of collectives ask for it */
  MR_PREDEFINED_OP = 1u << 1, /* no op of the program's own */
  MR_NOT_STARTED = 1u << 2,   /* the process has started no persistent request */
};

struct mr_entry {
  const char *call;       /* without MPI_ */
  mr_version first, last; /* both included; last MR_ANY_VERSION: first is 0, all versions */
  unsigned shapes;
};

/* The entry for that call in that version; NULL: the call passes.  Async-signal-safe; costs a walk
 * of the table. */
const struct mr_entry *mr_listed(enum mr_mpi_kind kind, mr_version version, const char *call);

/* The version in what MPI_Get_library_version says; 0: not understood. */
mr_version mr_version_in(const char *text);

#endif
