#include "comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static int key = MPI_KEYVAL_INVALID;
static MPI_Group world = MPI_GROUP_NULL;
/* Two threads may meet a communicator for the first time together. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

_Thread_local struct mr_comm_last mr_comm_last;
_Atomic uint32_t mr_comms_freed;

static int comm_forget(MPI_Comm comm, int keyval, void *value, void *extra) {
  (void)comm, (void)keyval, (void)extra;
  struct mr_comm *c = value;
  atomic_fetch_add_explicit(&mr_comms_freed, 1, memory_order_relaxed); /* as in mr_comm_of */
  free(c->member);
  free(c);
  return MPI_SUCCESS;
}

int mr_comm_start(void) {
  int rc = PMPI_Comm_group(MPI_COMM_WORLD, &world);
  if (rc != MPI_SUCCESS)
    return rc;
  return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, comm_forget, &key, NULL);
}

void mr_comm_stop(void) {
  if (key != MPI_KEYVAL_INVALID)
    PMPI_Comm_free_keyval(&key); /* the attributes go with their communicators */
  if (world != MPI_GROUP_NULL)
    PMPI_Group_free(&world);
  key = MPI_KEYVAL_INVALID;
  atomic_fetch_add_explicit(&mr_comms_freed, 1, memory_order_relaxed); /* as in mr_comm_of */
}

/* Ranks of the group in MPI_COMM_WORLD, into ranks[0 .. size - 1]. */
static int translate(MPI_Group group, int size, int *ranks) {
  int *own = malloc((size_t)size * sizeof *own + 1);
  if (own == NULL)
    return MPI_ERR_NO_MEM;
  for (int i = 0; i < size; i++)
    own[i] = i;
  int rc = PMPI_Group_translate_ranks(group, size, own, world, ranks);
  free(own);
  return rc;
}

static int fill(struct mr_comm *c, MPI_Group local, MPI_Group remote) {
  int locals, remotes = 0;
  int rc = PMPI_Group_size(local, &locals);
  if (rc == MPI_SUCCESS && remote != MPI_GROUP_NULL)
    rc = PMPI_Group_size(remote, &remotes);
  if (rc != MPI_SUCCESS)
    return rc;
  c->members = locals + remotes;
  c->member = malloc((size_t)c->members * sizeof *c->member + 1);
  if (c->member == NULL)
    return MPI_ERR_NO_MEM;
  c->peer = remotes > 0 ? c->member + locals : c->member;
  c->peers = remotes > 0 ? remotes : locals;
  rc = translate(local, locals, c->member);
  if (rc == MPI_SUCCESS && remotes > 0)
    rc = translate(remote, remotes, c->member + locals);
  return rc;
}

/* The same whichever side of an intercommunicator counts: a sum. */
static void sign(struct mr_comm *c) {
  c->inside = true;
  for (int i = 0; i < c->members; i++) {
    uint32_t rank = (uint32_t)c->member[i];
    c->inside = c->inside && c->member[i] != MPI_UNDEFINED;
    c->hash += (rank + 1) * 0x9e3779b9u ^ (rank + 1) << 7;
  }
  c->hash |= 1u << 31; /* not what a fresh line holds */
}

static int gather(MPI_Comm comm, struct mr_comm *c) {
  MPI_Group local = MPI_GROUP_NULL, remote = MPI_GROUP_NULL;
  int inter, rc = PMPI_Comm_test_inter(comm, &inter);
  c->inter = rc == MPI_SUCCESS && inter;
  if (rc == MPI_SUCCESS)
    rc = PMPI_Comm_group(comm, &local);
  if (rc == MPI_SUCCESS && c->inter)
    rc = PMPI_Comm_remote_group(comm, &remote);
  if (rc == MPI_SUCCESS)
    rc = fill(c, local, remote);
  if (local != MPI_GROUP_NULL)
    PMPI_Group_free(&local);
  if (remote != MPI_GROUP_NULL)
    PMPI_Group_free(&remote);
  if (rc == MPI_SUCCESS)
    sign(c);
  return rc;
}

static struct mr_comm *make(MPI_Comm comm) {
  struct mr_comm *c = calloc(1, sizeof *c);
  if (c == NULL)
    return NULL;
  if (gather(comm, c) == MPI_SUCCESS && PMPI_Comm_set_attr(comm, key, c) == MPI_SUCCESS)
    return c;
  free(c->member);
  free(c);
  return NULL;
}

static struct mr_comm *kept(MPI_Comm comm, int *refused) {
  void *value;
  int found;
  *refused = PMPI_Comm_get_attr(comm, key, &value, &found);
  return *refused == MPI_SUCCESS && found ? value : NULL;
}

/* A handle that is refused is asked about once: each question calls the program's handler. */
static struct mr_comm *find(MPI_Comm comm, int *refused) {
  struct mr_comm *c = kept(comm, refused);
  if (c != NULL || *refused != MPI_SUCCESS)
    return c;
  pthread_mutex_lock(&making);
  c = kept(comm, refused);
  if (c == NULL && *refused == MPI_SUCCESS)
    c = make(comm);
  pthread_mutex_unlock(&making);
  return c;
}

struct mr_comm *mr_comm_look_up(MPI_Comm comm) {
  struct mr_comm_last look = {.comm = comm, .refused = MPI_SUCCESS};
  look.freed = atomic_load_explicit(&mr_comms_freed, memory_order_relaxed);
  if (key != MPI_KEYVAL_INVALID && comm != MPI_COMM_NULL)
    look.found = find(comm, &look.refused);
  mr_comm_last = look;
  return look.found;
}
