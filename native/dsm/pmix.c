/* PMIx (Open MPI's mpirun, srun --mpi=pmix), by a libpmix that is loaded when it is needed. */
#include "launcher.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef MARU_PMIX

#include <dlfcn.h>
#include <pmix.h>

static struct {
  pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t);
  pmix_status_t (*finalize)(const pmix_info_t *, size_t);
  pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *);
  pmix_status_t (*commit)(void);
  pmix_status_t (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t);
  pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
                       pmix_value_t **);
  pmix_status_t (*abort)(int, const char *, pmix_proc_t *, size_t);
  pmix_proc_t me;
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
  *(void **)&pmix.abort = dlsym(handle, "PMIx_Abort");
  return pmix.init != NULL && pmix.abort != NULL && pmix.finalize != NULL && pmix.put != NULL &&
         pmix.commit != NULL && pmix.fence != NULL && pmix.get != NULL;
}

/* Its own numbers are told by name nowhere here. */
static int translate(pmix_status_t status) {
  return status == PMIX_SUCCESS       ? 0
         : status == PMIX_ERR_TIMEOUT ? -ETIMEDOUT
         : status == PMIX_ERR_NOMEM   ? -ENOMEM
                                      : -EREMOTEIO;
}

static pmix_info_t info(const char *key) {
  pmix_info_t made;
  memset(&made, 0, sizeof made);
  strncpy(made.key, key, PMIX_MAX_KEYLEN);
  return made;
}

static int open_table(unsigned *nodes, unsigned *me, int seconds, char *why, size_t size) {
  pmix_value_t *found = NULL;
  pmix.seconds = seconds;
  if (!load()) {
    const char *error = dlerror();
    snprintf(why, size, "the launcher speaks PMIx, and libpmix cannot be loaded: %s",
             error != NULL ? error : "it lacks what is needed");
    return -ENOSYS;
  }
  pmix_status_t status = pmix.init(&pmix.me, NULL, 0);
  if (status == PMIX_SUCCESS) {
    pmix_proc_t all = pmix.me;
    all.rank = PMIX_RANK_WILDCARD;
    status = pmix.get(&all, PMIX_JOB_SIZE, NULL, 0, &found);
  }
  if (status != PMIX_SUCCESS || found->type != PMIX_UINT32) {
    snprintf(why, size, "the launcher does not answer by PMIx (%d)", (int)status);
    return -EREMOTEIO;
  }
  *nodes = found->data.uint32;
  *me = pmix.me.rank;
  return 0;
}

static int put(const char *key, const char *text) {
  pmix_value_t value;
  memset(&value, 0, sizeof value);
  value.type = PMIX_STRING;
  value.data.string = (char *)text; /* copied */
  return translate(pmix.put(PMIX_GLOBAL, key, &value));
}

static int pmix_meet(void) {
  pmix_info_t wishes[2] = {info(PMIX_COLLECT_DATA), info(PMIX_TIMEOUT)};
  wishes[0].value.type = PMIX_BOOL;
  wishes[0].value.data.flag = true;
  wishes[1].value.type = PMIX_INT;
  wishes[1].value.data.integer = pmix.seconds;
  pmix_status_t status = pmix.commit();
  return translate(status == PMIX_SUCCESS ? pmix.fence(NULL, 0, wishes, 2) : status);
}

static int get(unsigned node, const char *key, char value[MR_BOARD_VALUE]) {
  pmix_proc_t whose = pmix.me;
  pmix_value_t *found = NULL;
  whose.rank = node;
  int rc = translate(pmix.get(&whose, key, NULL, 0, &found));
  if (rc < 0)
    return rc;
  if (found->type != PMIX_STRING || strlen(found->data.string) >= MR_BOARD_VALUE)
    return -EBADMSG;
  strcpy(value, found->data.string); /* a few bytes that are never given back */
  return 0;
}

static void close_table(void) { pmix.finalize(NULL, 0); }
static void abort_job(int status) { pmix.abort(status, "maru", NULL, 0); }

#else

static int open_table(unsigned *nodes, unsigned *me, int seconds, char *why, size_t size) {
  (void)nodes, (void)me, (void)seconds;
  snprintf(
      why, size,
      "the launcher speaks PMIx, and maru was built without it (its headers were not installed)");
  return -ENOSYS;
}
static int put(const char *key, const char *value) {
  (void)key, (void)value;
  return -ENOSYS;
}
static int pmix_meet(void) { return -ENOSYS; }
static int get(unsigned node, const char *key, char value[MR_BOARD_VALUE]) {
  (void)node, (void)key, (void)value;
  return -ENOSYS;
}
static void close_table(void) {}
static void abort_job(int status) { (void)status; }

#endif

const struct mr_board_way mr_pmix_way = {open_table, put, pmix_meet, get, close_table, abort_job};
