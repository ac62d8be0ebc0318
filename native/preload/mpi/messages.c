/* messages.c: sends, receives, probes. */
#include "shim.h"

#include <limits.h>
#include <stdlib.h>

/* ---- sending ------------------------------------------------------------- */

static int finish_send(MPI_Request *request, MPI_Comm comm, int rank) {
  struct mr_rank *partner = mr_line_of(comm, rank);
  mr_ring(partner, MR_NEED_MESSAGE);
  int rc = mr_wait_one(request, MPI_STATUS_IGNORE, 1u << MR_NEED_RECEIVER, partner);
  mr_ring(partner, MR_NEED_MESSAGE); /* its last piece */
  return rc;
}

#define SEND(name, start)                                                                          \
  EXPORT int MPI_##name(const void *buffer, int count, MPI_Datatype type, int rank, int tag,       \
                        MPI_Comm comm) {                                                           \
    MPI_Request request;                                                                           \
    if (mr_by_itself(1u << MR_NEED_MESSAGE))                                                       \
      return mr_done_by_itself(PMPI_##name(buffer, count, type, rank, tag, comm));                 \
    int rc = PMPI_##start(buffer, count, type, rank, tag, comm, &request);                         \
    return rc == MPI_SUCCESS ? finish_send(&request, comm, rank) : rc;                             \
  }
SEND(Send, Isend)
SEND(Ssend, Issend)
SEND(Rsend, Irsend)

EXPORT int MPI_Bsend(const void *buffer, int count, MPI_Datatype type, int rank, int tag,
                     MPI_Comm comm) {
  int rc = PMPI_Bsend(buffer, count, type, rank, tag, comm);
  if (rc == MPI_SUCCESS)
    mr_sent_to(comm, rank);
  return rc;
}

#define START_SEND(name)                                                                           \
  EXPORT int MPI_##name(const void *buffer, int count, MPI_Datatype type, int rank, int tag,       \
                        MPI_Comm comm, MPI_Request *request) {                                     \
    int rc = PMPI_##name(buffer, count, type, rank, tag, comm, request);                           \
    if (rc == MPI_SUCCESS)                                                                         \
      mr_sent_to(comm, rank);                                                                      \
    return rc;                                                                                     \
  }
START_SEND(Isend)
START_SEND(Ibsend)
START_SEND(Issend)
START_SEND(Irsend)

/* Persistent requests do not say whom they are for. */
EXPORT int MPI_Start(MPI_Request *request) {
  mr_request_started();
  int rc = PMPI_Start(request);
  if (mr_started)
    mr_ring_all(MR_NEED_MESSAGE);
  mr_received();
  return rc;
}

EXPORT int MPI_Startall(int count, MPI_Request request[]) {
  mr_request_started();
  int rc = PMPI_Startall(count, request);
  if (mr_started)
    mr_ring_all(MR_NEED_MESSAGE);
  mr_received();
  return rc;
}

/* ---- receiving ----------------------------------------------------------- */

static int finish_receive(MPI_Request *request, MPI_Comm comm, int rank, MPI_Status *status) {
  struct mr_rank *partner = mr_line_of(comm, rank);
  mr_ring(partner, MR_NEED_RECEIVER);
  int rc = mr_wait_one(request, status, 1u << MR_NEED_MESSAGE, partner);
  mr_received();
  return rc;
}

/* From MPI_PROC_NULL: a request would lose the source. */
EXPORT int MPI_Recv(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
                    MPI_Status *status) {
  MPI_Request request;
  if (rank == MPI_PROC_NULL || mr_by_itself(1u << MR_NEED_RECEIVER))
    return mr_done_by_itself(PMPI_Recv(buffer, count, type, rank, tag, comm, status));
  int rc = PMPI_Irecv(buffer, count, type, rank, tag, comm, &request);
  return rc == MPI_SUCCESS ? finish_receive(&request, comm, rank, status) : rc;
}

EXPORT int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
                     MPI_Request *request) {
  int rc = PMPI_Irecv(buffer, count, type, rank, tag, comm, request);
  mr_received();
  return rc;
}

EXPORT int MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message,
                     MPI_Status *status) {
  MPI_Request request;
  if (message == NULL || *message == MPI_MESSAGE_NO_PROC || mr_by_itself(1u << MR_NEED_RECEIVER))
    return mr_done_by_itself(PMPI_Mrecv(buffer, count, type, message, status));
  int rc = PMPI_Imrecv(buffer, count, type, message, &request);
  if (rc != MPI_SUCCESS)
    return rc;
  mr_received();
  rc = mr_wait_one(&request, status, 1u << MR_NEED_MESSAGE, NULL);
  mr_received();
  return rc;
}

struct probe {
  struct mr_waiting waiting; /* first: a question gets its address */
  int rank, tag;
  MPI_Comm comm;
  MPI_Message *message; /* NULL: none is taken */
  MPI_Status *status;
  int flag, rc;
};

static bool probed(struct mr_waiting *waiting) {
  struct probe *p = (struct probe *)waiting;
  if (!p->flag && p->rc == MPI_SUCCESS)
    p->rc = p->message == NULL
                ? PMPI_Iprobe(p->rank, p->tag, p->comm, &p->flag, p->status)
                : PMPI_Improbe(p->rank, p->tag, p->comm, &p->flag, p->message, p->status);
  return p->flag || p->rc != MPI_SUCCESS;
}

/* The MPI sees the communicator first: one that it refuses is not looked up. */
static int probe(int rank, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
  struct probe p = {.waiting = {.needs = 1u << MR_NEED_MESSAGE, .done = probed},
                    .rank = rank,
                    .tag = tag,
                    .comm = comm,
                    .message = message,
                    .status = status,
                    .rc = MPI_SUCCESS};
  if (probed(&p.waiting))
    return p.rc;
  p.waiting.known = mr_line_of(comm, rank) != NULL;
  mr_wait_until(&p.waiting);
  return p.rc;
}

EXPORT int MPI_Probe(int rank, int tag, MPI_Comm comm, MPI_Status *status) {
  return mr_by_itself(0) ? mr_done_by_itself(PMPI_Probe(rank, tag, comm, status))
                         : probe(rank, tag, comm, NULL, status);
}

EXPORT int MPI_Mprobe(int rank, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
  return message == NULL || mr_by_itself(0)
             ? mr_done_by_itself(PMPI_Mprobe(rank, tag, comm, message, status))
             : probe(rank, tag, comm, message, status);
}

/* ---- both ---------------------------------------------------------------- */

static void withdraw(MPI_Request *receive) {
  PMPI_Cancel(receive);
  PMPI_Wait(receive, MPI_STATUS_IGNORE);
}

/* MPI_Sendrecv_replace says in the status, too, what became of the message. */
#ifdef OPEN_MPI
#define REPLACING_SAYS_ERROR false
#else
#define REPLACING_SAYS_ERROR true
#endif

static int finish_both(MPI_Request request[2], MPI_Comm comm, int to, MPI_Status *status,
                       bool says_error) {
  mr_sent_to(comm, to);
  /* Each question makes progress for both. */
  int received_rc = mr_wait_one(&request[0], status, FOR_MESSAGES, NULL);
  mr_received();
  if (says_error && status != MPI_STATUS_IGNORE)
    status->MPI_ERROR = received_rc;
  int sent_rc = mr_wait_one(&request[1], MPI_STATUS_IGNORE, FOR_MESSAGES, NULL);
  mr_sent_to(comm, to);
  return received_rc != MPI_SUCCESS ? received_rc : sent_rc;
}

EXPORT int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag,
                        void *in, int in_count, MPI_Datatype in_type, int from, int in_tag,
                        MPI_Comm comm, MPI_Status *status) {
  MPI_Request request[2];
  if (to == MPI_PROC_NULL || from == MPI_PROC_NULL || mr_by_itself(FOR_MESSAGES))
    goto pass;
  int rc = PMPI_Irecv(in, in_count, in_type, from, in_tag, comm, &request[0]);
  if (rc != MPI_SUCCESS)
    return rc;
  rc = PMPI_Isend(out, out_count, out_type, to, out_tag, comm, &request[1]);
  if (rc == MPI_SUCCESS)
    return finish_both(request, comm, to, status, false);
  withdraw(&request[0]);
  return rc;
pass:
  rc = mr_done_by_itself(PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type,
                                       from, in_tag, comm, status));
  if (rc == MPI_SUCCESS)
    mr_sent_to(comm, to);
  return rc;
}

/* Takes the message as it was, for the buffer is received into.  `copy` stays NULL: an unknown
 * communicator, no memory, or too large.  An error has had its handler called. */
static int pack(const void *buffer, int count, MPI_Datatype type, MPI_Comm comm, void **copy,
                int *size) {
  if (mr_comm_of(comm) == NULL)
    return mr_comm_last.refused;
  int room, bytes, rc = PMPI_Type_size(type, &bytes);
  /* MPI_Pack counts in int. */
  if (rc != MPI_SUCCESS || bytes < 0 || (long long)bytes * count > INT_MAX / 2)
    return rc;
  rc = PMPI_Pack_size(count, type, comm, &room);
  if (rc != MPI_SUCCESS)
    return rc;
  *copy = malloc((size_t)room + 1);
  *size = 0;
  if (*copy == NULL)
    return MPI_SUCCESS;
  rc = PMPI_Pack(buffer, count, type, *copy, room, size, comm);
  if (rc != MPI_SUCCESS)
    free(*copy);
  return rc;
}

static int replace(void *buffer, int count, MPI_Datatype type, int to, int out_tag, int from,
                   int in_tag, MPI_Comm comm, MPI_Status *status, void *copy, int size) {
  MPI_Request request[2];
  int rc = PMPI_Irecv(buffer, count, type, from, in_tag, comm, &request[0]);
  if (rc != MPI_SUCCESS)
    return rc;
  rc = PMPI_Isend(copy, size, MPI_PACKED, to, out_tag, comm, &request[1]);
  if (rc == MPI_SUCCESS)
    return finish_both(request, comm, to, status, REPLACING_SAYS_ERROR);
  withdraw(&request[0]);
  return rc;
}

EXPORT int MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int to, int out_tag,
                                int from, int in_tag, MPI_Comm comm, MPI_Status *status) {
  int size, rc = MPI_SUCCESS;
  void *copy = NULL;
  /* MPICH does not pack from MPI_BOTTOM. */
  if (buffer != MPI_BOTTOM && to >= 0 && (from >= 0 || from == MPI_ANY_SOURCE) && count >= 0 &&
      type != MPI_DATATYPE_NULL && !mr_by_itself(FOR_MESSAGES))
    rc = pack(buffer, count, type, comm, &copy, &size);
  if (rc != MPI_SUCCESS)
    return rc;
  if (copy == NULL)
    return mr_done_by_itself(
        PMPI_Sendrecv_replace(buffer, count, type, to, out_tag, from, in_tag, comm, status));
  rc = replace(buffer, count, type, to, out_tag, from, in_tag, comm, status, copy, size);
  free(copy);
  return rc;
}
