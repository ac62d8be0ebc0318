/* requests.c: waits for requests. */
#include "shim.h"

#include <stdlib.h>

enum how_many { ONE, ALL, ANY, SOME };

/* What MPI_Testsome said of the requests of one MPI_Waitall, which are many. */
struct ended {
  bool *is;           /* by request: it is one of them, and came to `status` */
  MPI_Status *status; /* by request */
  int *index;         /* of one question */
  MPI_Status *told;
};

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
  unsigned looks; /* ALL: until now */
  struct ended ended;
};

/* ---- all, of which one may fail ----------------------------------------------------------------
 */

/* MPI_Testall says that a request has failed once all are complete.  Open MPI's MPI_Waitall says so
 * at once, and what the others wait for may be what the program does then.  MPI_Testsome says it at
 * once, too, but ends what is complete: what that came to is kept until the wait is over.  MPICH's
 * MPI_Waitall waits for all. */
#ifdef OPEN_MPI
#define FAILS_AT_ONCE true
#else
#define FAILS_AT_ONCE false
#endif
#define LOOKS_BETWEEN 64u /* to ask so costs more than a look at all */

/* Without memory all are waited for. */
static bool may_ask_some(struct requests *r) {
  if (!FAILS_AT_ONCE || ++r->looks % LOOKS_BETWEEN != 0)
    return false;
  struct ended *e = &r->ended;
  size_t count = (size_t)r->count;
  if (e->is == NULL)
    *e = (struct ended){.is = calloc(count, sizeof *e->is),
                        .status = calloc(count, sizeof *e->status),
                        .index = calloc(count, sizeof *e->index),
                        .told = calloc(count, sizeof *e->told)};
  return e->is != NULL && e->status != NULL && e->index != NULL && e->told != NULL;
}

static void forget_ended(struct ended *e) {
  free(e->is);
  free(e->status);
  free(e->index);
  free(e->told);
}

static int ask_some(struct requests *r) {
  struct ended *e = &r->ended;
  int count = 0, rc = PMPI_Testsome(r->count, r->request, &count, e->index, e->told);
  for (int i = 0; i < count; i++) { /* MPI_UNDEFINED is below 0 */
    e->is[e->index[i]] = true;
    e->status[e->index[i]] = e->told[i];
    if (rc == MPI_SUCCESS)
      e->status[e->index[i]].MPI_ERROR = MPI_SUCCESS;
  }
  return rc;
}

/* The statuses of those that ended before the others, as if all had ended together. */
static void tell_ended(struct requests *r) {
  if (r->ended.is == NULL || r->status == MPI_STATUSES_IGNORE)
    return;
  for (int i = 0; i < r->count; i++)
    if (r->ended.is[i])
      r->status[i] = r->ended.status[i];
}

static void tell_pending(struct requests *r) {
  MPI_Request none = MPI_REQUEST_NULL;
  int flag;
  for (int i = 0; i < r->count && r->status != MPI_STATUSES_IGNORE; i++) {
    bool waits = r->request[i] != MPI_REQUEST_NULL;
    if (!waits)
      PMPI_Test(&none, &flag, &r->status[i]);
    r->status[i].MPI_ERROR = waits ? MPI_ERR_PENDING : MPI_SUCCESS;
  }
}

static int test_all(struct requests *r) {
  int rc = PMPI_Testall(r->count, r->request, &r->flag, r->status);
  if (rc == MPI_SUCCESS && !r->flag && may_ask_some(r)) {
    rc = ask_some(r);
    if (rc != MPI_SUCCESS)
      tell_pending(r);
  }
  if (rc != MPI_SUCCESS || r->flag)
    tell_ended(r);
  return rc;
}

/* ---- any of them -------------------------------------------------------------------------------
 */

static int test(struct requests *r) {
  int rc;
  switch (r->enough) {
  case ALL:
    return test_all(r);
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
  if (r.enough == ALL)
    forget_ended(&r.ended);
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

/* Open MPI's MPI_Testsome refuses wrong arguments without a call of the handler. */
EXPORT int MPI_Waitsome(int count, MPI_Request request[], int *done, int indices[],
                        MPI_Status status[]) {
  bool wrong = count < 0 || done == NULL || indices == NULL;
  return wrong || mr_by_itself(FOR_MESSAGES)
             ? mr_done_by_itself(PMPI_Waitsome(count, request, done, indices, status))
             : wait_many(SOME, count, request, done, indices, status);
}
