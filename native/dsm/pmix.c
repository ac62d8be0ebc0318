/* PMIx (Open MPI's mpirun, srun --mpi=pmix), by a libpmix that is loaded when it is needed. */
#include "launcher.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What is used of the interface of libpmix.so.2, which is the same in Open MPI 4 and 5 and needs no
 * headers here; where there are any, the compiler compares. */
typedef int status_t;

struct proc {
  char space[256];
  uint32_t rank;
};

struct value {
  uint16_t type;
  union {
    bool flag;
    char *string;
    int integer;
    uint32_t number;
    uint64_t room[3]; /* of its widest member */
  } data;
};

struct info {
  char key[512];
  uint32_t flags;
  struct value value;
};

#define SUCCESS 0
#define TIMED_OUT (-24)
#define NO_MEMORY (-32)
#define EVERY_RANK (UINT32_MAX - 1)
#define GLOBAL 3
#define A_BOOL 1
#define A_STRING 3
#define AN_INT 6
#define A_UINT32 14
#define KEY_JOB_SIZE "pmix.job.size"
#define KEY_COLLECT "pmix.collect"
#define KEY_TIMEOUT "pmix.timeout"

#ifdef MARU_PMIX
#include <pmix.h>
_Static_assert(sizeof(struct proc) == sizeof(pmix_proc_t) &&
                   offsetof(struct proc, rank) == offsetof(pmix_proc_t, rank),
               "a process");
_Static_assert(sizeof(struct value) == sizeof(pmix_value_t) &&
                   offsetof(struct value, data) == offsetof(pmix_value_t, data),
               "a value");
_Static_assert(sizeof(struct info) == sizeof(pmix_info_t) &&
                   offsetof(struct info, value) == offsetof(pmix_info_t, value),
               "a wish");
_Static_assert(SUCCESS == PMIX_SUCCESS && TIMED_OUT == PMIX_ERR_TIMEOUT &&
                   NO_MEMORY == PMIX_ERR_NOMEM && EVERY_RANK == PMIX_RANK_WILDCARD &&
                   GLOBAL == PMIX_GLOBAL && A_BOOL == PMIX_BOOL && A_STRING == PMIX_STRING &&
                   AN_INT == PMIX_INT && A_UINT32 == PMIX_UINT32,
               "its numbers");
_Static_assert(sizeof(pmix_scope_t) == sizeof(uint8_t) && sizeof(pmix_status_t) == sizeof(status_t),
               "its types");
#endif

static struct {
  status_t (*init)(struct proc *, struct info *, size_t);
  status_t (*finalize)(const struct info *, size_t);
  status_t (*put)(uint8_t, const char *, struct value *);
  status_t (*commit)(void);
  status_t (*fence)(const struct proc *, size_t, const struct info *, size_t);
  status_t (*get)(const struct proc *, const char *, const struct info *, size_t, struct value **);
  struct proc me;
  int seconds;
} pmix;

static bool load(void) {
  void *handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL)
    return false;
  *(void **)&pmix.init = dlsym(handle, "PMIx_Init");
  *(void **)&pmix.finalize = dlsym(handle, "PMIx_Finalize");
  *(void **)&pmix.put = dlsym(handle, "PMIx_Put");
  *(void **)&pmix.commit = dlsym(handle, "PMIx_Commit");
  *(void **)&pmix.fence = dlsym(handle, "PMIx_Fence");
  *(void **)&pmix.get = dlsym(handle, "PMIx_Get");
  return pmix.init != NULL && pmix.finalize != NULL && pmix.put != NULL && pmix.commit != NULL &&
         pmix.fence != NULL && pmix.get != NULL;
}

/* Its own numbers are told by name nowhere here. */
static int translate(status_t status) {
  return status == SUCCESS     ? 0
         : status == TIMED_OUT ? -ETIMEDOUT
         : status == NO_MEMORY ? -ENOMEM
                               : -EREMOTEIO;
}

static struct info wish(const char *key) {
  struct info made;
  memset(&made, 0, sizeof made);
  strncpy(made.key, key, sizeof made.key - 1);
  return made;
}

static int open_table(unsigned *nodes, unsigned *me, int seconds, char *why, size_t size) {
  struct value *found = NULL;
  pmix.seconds = seconds;
  if (!load()) {
    const char *error = dlerror();
    snprintf(why, size, "the launcher speaks PMIx, and libpmix cannot be loaded: %s",
             error != NULL ? error : "it lacks what is needed");
    return -ENOSYS;
  }
  status_t status = pmix.init(&pmix.me, NULL, 0);
  if (status == SUCCESS) {
    struct proc all = pmix.me;
    all.rank = EVERY_RANK;
    status = pmix.get(&all, KEY_JOB_SIZE, NULL, 0, &found);
  }
  if (status != SUCCESS || found->type != A_UINT32) {
    snprintf(why, size, "the launcher does not answer by PMIx (%d)", (int)status);
    return -EREMOTEIO;
  }
  *nodes = found->data.number;
  *me = pmix.me.rank;
  return 0;
}

static int put(const char *key, const char *text) {
  struct value value;
  memset(&value, 0, sizeof value);
  value.type = A_STRING;
  value.data.string = (char *)text; /* copied */
  return translate(pmix.put(GLOBAL, key, &value));
}

static int pmix_meet(void) {
  struct info wishes[2] = {wish(KEY_COLLECT), wish(KEY_TIMEOUT)};
  wishes[0].value.type = A_BOOL;
  wishes[0].value.data.flag = true;
  wishes[1].value.type = AN_INT;
  wishes[1].value.data.integer = pmix.seconds;
  status_t status = pmix.commit();
  return translate(status == SUCCESS ? pmix.fence(NULL, 0, wishes, 2) : status);
}

static int get(unsigned node, const char *key, char value[MR_BOARD_VALUE]) {
  struct proc whose = pmix.me;
  struct value *found = NULL;
  whose.rank = node;
  int rc = translate(pmix.get(&whose, key, NULL, 0, &found));
  if (rc < 0)
    return rc;
  if (found->type != A_STRING || strlen(found->data.string) >= MR_BOARD_VALUE)
    return -EBADMSG;
  strcpy(value, found->data.string); /* a few bytes that are never given back */
  return 0;
}

static void close_table(void) { pmix.finalize(NULL, 0); }

/* No abort: rank 0 was killed, and `mpirun --continuous` of Open MPI 5.0.7 stayed for good in 3 of
 * 42 tries in which others called PMIx_Abort, in none of 42 in which they only exited.  It told
 * neither Open MPI 4 nor 5 a status that their exit does not tell. */
const struct mr_board_way mr_pmix_way = {open_table, put, pmix_meet, get, close_table, NULL};
