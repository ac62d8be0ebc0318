/* requests.c: waits for requests. */
#include "shim.h"

enum how_many { ONE, ALL, ANY, SOME };

struct requests {
  struct mr_waiting waiting; /* first: a question gets its address */
  enum how_many enough;
  int count;
  MPI_Request *request;
  MPI_Status *status;
  int *index;              /* ANY: which one; SOME: how many */
  int *indices;            /* SOME */
  struct mr_rank *partner; /* NULL: several, or unknown */
  int flag, rc;
};

static int test(struct requests *r) {
  int rc;
  switch (r->enough) {
  case ALL:
    return PMPI_Testall(r->count, r->request, &r->flag, r->status);
  case ANY:
    return PMPI_Testany(r->count, r->request, r->index, &r->flag, r->status);
  case SOME:
    rc = PMPI_Testsome(r->count, r->request, r->index, r->indices, r->status);
    r->flag = rc == MPI_SUCCESS && *r->index != 0; /* undefined: none is active */
    return rc;
  default:
    return PMPI_Test(r->request, &r->flag, r->status);
  }
}

/* Asked once more after the end it must not ask the MPI: the requests are gone. */
static bool enough_complete(struct mr_waiting *waiting) {
  struct requests *r = (struct requests *)waiting;
  if (!r->flag && r->rc == MPI_SUCCESS)
    r->rc = test(r);
  return r->flag || r->rc != MPI_SUCCESS;
}

static void answer_partners(struct mr_waiting *waiting) {
  struct requests *r = (struct requests *)waiting;
  if (r->partner != NULL) {
    mr_ring(r->partner, MR_NEED_MESSAGE);
    mr_ring(r->partner, MR_NEED_RECEIVER);
    return;
  }
  mr_ring_all(MR_NEED_MESSAGE);
  mr_ring_all(MR_NEED_RECEIVER);
}

static int wait_for(struct requests r, unsigned needs) {
  r.waiting = (struct mr_waiting){.needs = needs,
                                  .known = r.partner != NULL,
                                  .done = enough_complete,
                                  .pass_on = answer_partners};
  mr_wait_until(&r.waiting);
  return r.rc;
}

int mr_wait_one(MPI_Request *request, MPI_Status *status, unsigned needs, struct mr_rank *partner) {
  return wait_for((struct requests){.enough = ONE,
                                    .count = 1,
                                    .request = request,
                                    .status = status,
                                    .partner = partner,
                                    .rc = MPI_SUCCESS},
                  needs);
}

static int wait_many(enum how_many enough, int count, MPI_Request *request, int *index,
                     int *indices, MPI_Status *status) {
  int rc = wait_for((struct requests){.enough = enough,
                                      .count = count,
                                      .request = request,
                                      .status = status,
                                      .index = index,
                                      .indices = indices,
                                      .rc = MPI_SUCCESS},
                    FOR_MESSAGES);
  mr_received();
  return rc;
}

/* Waitall's.  Written by mr_requests_start, before threads can call. */
static const struct mr_entry *all_listed;
/* Relaxed: a thread that waits for a request comes after the start of it, by the program's own
 * order. */
static _Atomic bool any_started;

void mr_requests_start(void) { all_listed = mr_shim_listed("Waitall"); }

void mr_request_started(void) { atomic_store_explicit(&any_started, true, memory_order_relaxed); }

static bool all_replaceable(void) {
  if (all_listed == NULL)
    return false;
  if (!(all_listed->shapes & MR_NOT_STARTED) ||
      !atomic_load_explicit(&any_started, memory_order_relaxed))
    return true;
  mr_say_once(MR_SAY_WAITALL, "MPI_Waitall passes: with persistent requests not on the list for %s",
              mr_mpi_name);
  return false;
}

EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status) {
  if (mr_by_itself(FOR_MESSAGES))
    return mr_done_by_itself(PMPI_Wait(request, status));
  int rc = mr_wait_one(request, status, FOR_MESSAGES, NULL);
  mr_received();
  return rc;
}

EXPORT int MPI_Waitall(int count, MPI_Request request[], MPI_Status status[]) {
  return mr_by_itself(FOR_MESSAGES) || !all_replaceable()
             ? mr_done_by_itself(PMPI_Waitall(count, request, status))
             : wait_many(ALL, count, request, NULL, NULL, status);
}

EXPORT int MPI_Waitany(int count, MPI_Request request[], int *index, MPI_Status *status) {
  return mr_by_itself(FOR_MESSAGES) ? mr_done_by_itself(PMPI_Waitany(count, request, index, status))
                                    : wait_many(ANY, count, request, index, NULL, status);
}

EXPORT int MPI_Waitsome(int count, MPI_Request request[], int *done, int indices[],
                        MPI_Status status[]) {
  return mr_by_itself(FOR_MESSAGES)
             ? mr_done_by_itself(PMPI_Waitsome(count, request, done, indices, status))
             : wait_many(SOME, count, request, done, indices, status);
}
