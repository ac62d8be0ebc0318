#define _GNU_SOURCE
#include "fabric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "ofi:"

const char *mr_fabric_provider(const char *transport) {
  const size_t size = sizeof PREFIX - 1;
  return strncmp(transport, PREFIX, size) == 0 ? transport + size : NULL;
}

#ifdef MARU_FABRIC

#include "address.h"
#include "fabric_state.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define API FI_VERSION(1, 9)
#define SLAB (1u << 20)
#define SIGNALS 32 /* those after it have no meaning of their own */

/* What a partner has to know. */
struct card {
  uint64_t token;
  uint32_t piece_size, length;
  uint8_t address[MR_CARD - 16];
};
_Static_assert(sizeof(struct card) == MR_CARD, "a card is a card");

/* ---- the library ------------------------------------------------------------- */

static struct {
  void *handle;
  int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                 struct fi_info **);
  void (*freeinfo)(struct fi_info *);
  struct fi_info *(*dupinfo)(const struct fi_info *);
  int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
  const char *(*strerror)(int);
  uint32_t (*version)(void);
} library;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The symbols of these headers' version, whatever a newer library calls its own. */
static void *symbol(const char *name, const char *version) {
  void *found = dlvsym(library.handle, name, version);
  return found != NULL ? found : dlsym(library.handle, name);
}

static void find_symbols(void) {
  library.handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library.handle == NULL)
    return;
  *(void **)&library.getinfo = symbol("fi_getinfo", "FABRIC_1.3");
  *(void **)&library.freeinfo = symbol("fi_freeinfo", "FABRIC_1.3");
  *(void **)&library.dupinfo = symbol("fi_dupinfo", "FABRIC_1.3");
  *(void **)&library.fabric = symbol("fi_fabric", "FABRIC_1.1");
  *(void **)&library.strerror = symbol("fi_strerror", "FABRIC_1.0");
  *(void **)&library.version = symbol("fi_version", "FABRIC_1.0");
  if (library.getinfo == NULL || library.freeinfo == NULL || library.dupinfo == NULL ||
      library.fabric == NULL || library.strerror == NULL || library.version == NULL)
    library.handle = NULL;
}

/* Libraries of providers (PSM's) set handlers of signals when they are loaded, which are not
 * theirs to set: faults in shared memory are such signals. */
static void load(void) {
  struct sigaction before[SIGNALS];
  for (int signal = 1; signal < SIGNALS; signal++)
    sigaction(signal, NULL, &before[signal]);
  find_symbols();
  /* The first question loads them. */
  struct fi_info *found = NULL;
  if (library.handle != NULL && library.getinfo(API, NULL, NULL, 0, NULL, &found) == 0)
    library.freeinfo(found);
  for (int signal = 1; signal < SIGNALS; signal++)
    sigaction(signal, &before[signal], NULL);
}

static bool loaded(char *why, size_t size) {
  pthread_once(&once, load);
  if (library.handle != NULL)
    return true;
  const char *error = dlerror();
  snprintf(why, size, "libfabric cannot be loaded: %s",
           error != NULL ? error : "libfabric.so.1 lacks what is needed");
  return false;
}

/* ---- providers ------------------------------------------------------------------ */

static struct fi_info *hints(const char *provider) {
  struct fi_info *wanted = library.dupinfo(NULL);
  if (wanted == NULL)
    return NULL;
  wanted->caps = FI_MSG;
  wanted->mode = FI_CONTEXT | FI_CONTEXT2;
  wanted->ep_attr->type = FI_EP_RDM;
  wanted->tx_attr->msg_order = wanted->rx_attr->msg_order = FI_ORDER_SAS;
  wanted->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
  wanted->domain_attr->threading = FI_THREAD_DOMAIN; /* we exclude each other */
  wanted->fabric_attr->prov_name = provider != NULL ? strdup(provider) : NULL;
  return wanted;
}

/* Over IP, at this node's address and no other.  What has other addresses finds its own. */
static int find_provider(struct mr_fabric *f, const char *provider, const struct mr_job *job) {
  char host[MR_ADDRESS_TEXT];
  mr_address_write(&job->addresses[job->me], 0, host);
  struct fi_info *wanted = hints(provider);
  if (wanted == NULL)
    return -ENOMEM;
  int rc = library.getinfo(API, host, NULL, FI_SOURCE, wanted, &f->info);
  if (rc != 0 && library.getinfo(API, NULL, NULL, 0, wanted, &f->info) == 0) {
    uint32_t format = f->info->addr_format;
    bool internet = format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
    rc = internet ? rc : 0;
  }
  library.freeinfo(wanted);
  return rc;
}

/* It does not tell of dead nodes, and takes few. */
static bool refused(const char *provider) { return strcmp(provider, "shm") == 0; }

int mr_fabric_list(char *names, size_t size, char *why, size_t why_size) {
  struct fi_info *found = NULL, *wanted;
  *names = 0;
  if (!loaded(why, why_size))
    return -ENOSYS;
  if ((wanted = hints(NULL)) == NULL)
    return -ENOMEM;
  int rc = library.getinfo(API, NULL, NULL, 0, wanted, &found);
  library.freeinfo(wanted);
  for (struct fi_info *each = found; rc == 0 && each != NULL; each = each->next) {
    const char *name = each->fabric_attr->prov_name;
    bool left_out = refused(name);
    for (struct fi_info *other = found; other != each; other = other->next)
      left_out |= strcmp(other->fabric_attr->prov_name, name) == 0;
    size_t length = strlen(names);
    if (!left_out)
      snprintf(names + length, size - length, "%s%s", length > 0 ? ", " : "", name);
  }
  if (rc == 0 && *names == 0)
    rc = -FI_ENODATA;
  if (rc != 0)
    snprintf(why, why_size, "libfabric %u.%u has no provider that serves here: %s",
             FI_MAJOR(library.version()), FI_MINOR(library.version()), library.strerror(-rc));
  if (found != NULL)
    library.freeinfo(found);
  return rc != 0 ? -ENODATA : 0;
}

static int refuse(const char *provider, char *why, size_t size) {
  char names[256], unused[8];
  int rc = mr_fabric_list(names, sizeof names, unused, sizeof unused);
  snprintf(why, size, "libfabric has no provider '%s' for this node's address%s%s", provider,
           rc == 0 ? "; it has: " : "", names);
  return -ENODATA;
}

/* ---- memory ------------------------------------------------------------------------ */

/* Slots of a slab. */
static unsigned slots_of(const struct mr_fabric *f) {
  return (SLAB + f->piece_size - 1) / f->piece_size;
}

int mr_fabric_grow(struct mr_fabric *f, bool receives) {
  unsigned slots = slots_of(f);
  size_t size = (size_t)slots * f->piece_size;
  struct mr_slots *more = calloc(1, sizeof *more + slots * sizeof(struct mr_slot));
  if (more == NULL || posix_memalign((void **)&more->bytes, 4096, size) != 0) {
    free(more);
    return -ENOMEM;
  }
  void *description = NULL;
  if ((f->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
    int rc = fi_mr_reg(f->domain, more->bytes, size, receives ? FI_RECV : FI_SEND, 0, 0, 0,
                       &more->registered, NULL);
    if (rc != 0) {
      free(more->bytes);
      free(more);
      return rc;
    }
    description = fi_mr_desc(more->registered);
  }
  more->next = f->memory;
  f->memory = more;
  for (unsigned i = 0; i < slots; i++) {
    struct mr_slot *slot = &more->slots[i];
    slot->bytes = more->bytes + i * (size_t)f->piece_size;
    slot->description = description;
    slot->receives = receives;
    if (receives) {
      mr_queue_put(&f->idle, slot);
    } else {
      slot->next = f->unused;
      f->unused = slot;
    }
  }
  return 0;
}

/* ---- life ----------------------------------------------------------------------------- */

static int open_queue_with(struct mr_fabric *f, enum fi_wait_obj object) {
  struct fi_cq_attr attributes = {.format = FI_CQ_FORMAT_MSG, .wait_obj = object};
  return fi_cq_open(f->domain, &attributes, &f->cq, NULL);
}

/* One descriptor for all that the provider waits for. */
static bool open_with_one(struct mr_fabric *f) {
  if (open_queue_with(f, FI_WAIT_FD) != 0)
    return false;
  f->fd_count = fi_control(&f->cq->fid, FI_GETWAIT, f->fds) == 0;
  return true;
}

/* Each by itself: net's one, in libfabric 1.17, is never silent, because one of them is not. */
static bool open_with_each(struct mr_fabric *f) {
  struct pollfd polled[MR_FABRIC_FDS];
  struct fi_wait_pollfd all = {.nfds = MR_FABRIC_FDS, .fd = polled};
  struct fi_cq_msg_entry none;
  if (open_queue_with(f, FI_WAIT_POLLFD) != 0)
    return false;
  /* There they all are once somebody has waited; there is nothing to come yet. */
  (void)fi_cq_sread(f->cq, &none, 1, NULL, 1);
  if (fi_control(&f->cq->fid, FI_GETWAIT, &all) == 0 && all.nfds <= MR_FABRIC_FDS)
    for (; f->fd_count < (int)all.nfds; f->fd_count++)
      f->fds[f->fd_count] = polled[f->fd_count].fd;
  return true;
}

/* Older headers have no name for it. */
static bool over_stream(const struct mr_fabric *f) {
#if FI_VERSION_GE(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(1, 17))
  return f->info->ep_attr->protocol == FI_PROTO_XNET;
#else
  (void)f;
  return false;
#endif
}

/* Two for each partner, which is enough where a stream makes its sender wait. They are used in
 * turn, and soon no cache would hold them all. Others have room for long messages, too. */
static int grow_to_receive(struct mr_fabric *f) {
  unsigned slots = 2u * f->nodes + (over_stream(f) ? 0 : 2 * slots_of(f));
  int rc = 0;
  for (unsigned room = 0; rc == 0 && room < slots; room += slots_of(f))
    rc = mr_fabric_grow(f, true);
  return rc;
}

static int open_queue(struct mr_fabric *f) {
  if ((over_stream(f) && open_with_each(f)) || open_with_one(f))
    return 0;
  return open_queue_with(f, FI_WAIT_NONE);
}

static int open_endpoint(struct mr_fabric *f) {
  struct fi_av_attr addresses = {.type = FI_AV_UNSPEC, .count = f->nodes};
  int rc = library.fabric(f->info->fabric_attr, &f->fabric, NULL);
  if (rc == 0)
    rc = fi_domain(f->fabric, f->info, &f->domain, NULL);
  if (rc == 0)
    rc = fi_av_open(f->domain, &addresses, &f->av, NULL);
  if (rc == 0)
    rc = open_queue(f);
  if (rc == 0)
    rc = fi_endpoint(f->domain, f->info, &f->ep, NULL);
  if (rc == 0)
    rc = fi_ep_bind(f->ep, &f->av->fid, 0);
  if (rc == 0)
    rc = fi_ep_bind(f->ep, &f->cq->fid, FI_TRANSMIT | FI_RECV);
  if (rc == 0)
    rc = fi_enable(f->ep);
  return rc;
}

static int write_card(struct mr_fabric *f, struct mr_card *mine) {
  struct card card = {.token = f->token, .piece_size = f->piece_size};
  size_t length = sizeof card.address;
  int rc = fi_getname(&f->ep->fid, card.address, &length);
  card.length = (uint32_t)length;
  memcpy(mine, &card, sizeof card);
  return rc;
}

int mr_fabric_open(struct mr_fabric **fabric, const char *provider, const struct mr_job *job,
                   struct mr_card *mine, char *why, size_t size) {
  if (refused(provider)) {
    snprintf(why, size,
             "libfabric's provider 'shm' does not tell of dead nodes, and takes few; "
             "maru's own shared memory is MARU_DSM_TRANSPORT=shm");
    return -ENODATA;
  }
  if (!loaded(why, size))
    return -ENOSYS;
  struct mr_fabric *f = calloc(1, sizeof *f + job->nodes * sizeof(struct mr_partner));
  if (f == NULL)
    return -ENOMEM;
  f->nodes = job->nodes;
  f->me = job->me;
  f->idle.end = &f->idle.first;
  f->held.end = &f->held.first;
  for (uint16_t node = 0; node < f->nodes; node++)
    f->partners[node].out.end = &f->partners[node].out.first;
  int rc = getrandom(&f->token, sizeof f->token, 0) == sizeof f->token ? 0 : -errno;
  if (rc == 0 && find_provider(f, provider, job) != 0)
    rc = refuse(provider, why, size);
  else if (rc == 0) {
    f->piece_size = over_stream(f) ? MR_PIECE_OF_STREAM : MR_PIECE;
    rc = open_endpoint(f);
    if (rc == 0)
      rc = grow_to_receive(f);
    if (rc == 0)
      rc = write_card(f, mine);
    if (rc != 0)
      snprintf(why, size, "libfabric's provider '%s' cannot be used: %s", provider,
               library.strerror(-rc));
  }
  if (rc == 0)
    *fabric = f;
  else
    mr_fabric_close(f);
  return rc;
}

static void close_one(struct fid *fid) { fi_close(fid); }

void mr_fabric_close(struct mr_fabric *f) {
  if (f->ep != NULL)
    close_one(&f->ep->fid);
  for (struct mr_slots *next, *each = f->memory; each != NULL; each = next) {
    next = each->next;
    if (each->registered != NULL)
      close_one(&each->registered->fid);
    free(each->bytes);
    free(each);
  }
  if (f->cq != NULL)
    close_one(&f->cq->fid);
  if (f->av != NULL)
    close_one(&f->av->fid);
  if (f->domain != NULL)
    close_one(&f->domain->fid);
  if (f->fabric != NULL)
    close_one(&f->fabric->fid);
  if (f->info != NULL)
    library.freeinfo(f->info);
  for (uint16_t node = 0; node < f->nodes; node++)
    free(f->partners[node].part);
  free(f);
}

int mr_fabric_meet(struct mr_fabric *f, const struct mr_card *cards) {
  for (uint16_t node = 0; node < f->nodes; node++) {
    struct card card;
    memcpy(&card, &cards[node], sizeof card);
    if (node == f->me)
      continue;
    f->partners[node].token = card.token;
    if (card.piece_size != f->piece_size)
      return -EPROTONOSUPPORT;
    if (fi_av_insert(f->av, card.address, 1, &f->partners[node].address, 0, NULL) != 1)
      return -EADDRNOTAVAIL;
  }
  return 0;
}

const char *mr_fabric_error(int error) { return library.strerror(-error); }

#else

static int absent(char *why, size_t size) {
  snprintf(why, size, "maru was built without libfabric (its headers were not installed)");
  return -ENOSYS;
}

int mr_fabric_open(struct mr_fabric **fabric, const char *provider, const struct mr_job *job,
                   struct mr_card *card, char *why, size_t size) {
  (void)fabric, (void)provider, (void)job, (void)card;
  return absent(why, size);
}

int mr_fabric_list(char *names, size_t size, char *why, size_t why_size) {
  (void)size;
  *names = 0;
  return absent(why, why_size);
}

/* Nobody has a fabric. */
int mr_fabric_connect(struct mr_fabric *fabric, const struct mr_card *cards, int64_t deadline,
                      char *why, size_t size) {
  (void)fabric, (void)cards, (void)deadline;
  return absent(why, size);
}
void mr_fabric_close(struct mr_fabric *fabric) { (void)fabric; }
int mr_fabric_send(struct mr_fabric *fabric, uint16_t to, const void *message, size_t length) {
  (void)fabric, (void)to, (void)message, (void)length;
  return -ENOSYS;
}
int mr_fabric_farewell(struct mr_fabric *fabric, uint16_t to) {
  (void)fabric, (void)to;
  return -ENOSYS;
}
int mr_fabric_serve(struct mr_fabric *fabric, const struct mr_transport_sink *sink, void *context) {
  (void)fabric, (void)sink, (void)context;
  return -ENOSYS;
}
int mr_fabric_leaver(struct mr_fabric *fabric) {
  (void)fabric;
  return -1;
}
bool mr_fabric_spoke(struct mr_fabric *fabric, uint16_t node) {
  (void)fabric, (void)node;
  return false;
}
void mr_fabric_forget(struct mr_fabric *fabric, uint16_t node) { (void)fabric, (void)node; }
int mr_fabric_descriptors(const struct mr_fabric *fabric, int fds[MR_FABRIC_FDS]) {
  (void)fabric, (void)fds;
  return 0;
}
int mr_fabric_rest(struct mr_fabric *fabric) {
  (void)fabric;
  return 0;
}
int64_t mr_fabric_patience(const struct mr_fabric *fabric) {
  (void)fabric;
  return -1;
}

#endif
