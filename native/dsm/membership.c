#define _GNU_SOURCE
#include "membership.h"

#include "address.h"
#include "fabric.h"
#include "node.h"
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#define JOIN_SECONDS 30
#define WHY 256
#define NOT_SET "%s is not set; start jobs with 'maru launch'"
#define PROGRAMS_FIRST 67   /* a program has 64 files at most (parmacs/files.h), and its streams */
#define PROGRAMS_MOST 1024u /* descriptors below are the program's, where so many are allowed */

static const char *needed(const char *name) {
  const char *text = getenv(name);
  if (text == NULL)
    mr_node_die(STATUS_USAGE, NOT_SET, name);
  return text;
}

/* "ADDRESS:PORT,..." one per node; an IPv6 address in brackets. */
static void read_addresses(struct sockaddr_storage *addresses, uint16_t nodes) {
  const char *text = needed("MARU_DSM_ADDRESSES");
  for (uint16_t i = 0; i < nodes; i++) {
    int used = mr_address_read(text, &addresses[i]);
    if (used == 0 || text[used] != (i + 1 < nodes ? ',' : 0))
      mr_node_die(STATUS_USAGE, "MARU_DSM_ADDRESSES does not hold %u addresses", nodes);
    text += used + 1;
  }
}

/* ---- descriptors ----------------------------------------------------------------- */

static const char *const names[MR_INHERITED] = {
    [MR_INHERITED_LISTENER] = "MARU_DSM_LISTENER",
    [MR_INHERITED_SECRET] = "MARU_DSM_SECRET_FD",
    [MR_INHERITED_OVER] = "MARU_DSM_OVER_FD",
};

static void take_inherited(struct mr_membership *m) {
  for (unsigned i = 0; i < MR_INHERITED; i++) {
    m->inherited[i] = (int)mr_environment_number(names[i], 0, 3, INT32_MAX);
    unsetenv(names[i]);
  }
}

void mr_membership_make_room(struct mr_membership *m) {
  struct rlimit most;
  if (getrlimit(RLIMIT_NOFILE, &most) < 0 || most.rlim_cur <= MR_INHERITED)
    return;
  int least = (int)(most.rlim_cur < PROGRAMS_MOST ? most.rlim_cur : PROGRAMS_MOST) - MR_INHERITED;
  for (unsigned i = 0; i < MR_INHERITED; i++) {
    int fd = m->inherited[i], to = fd > 0 && fd < least ? fcntl(fd, F_DUPFD_CLOEXEC, least) : -1;
    if (to < 0)
      continue; /* it stays: a file of that number cannot be opened again, and that is said */
    close(fd);
    m->inherited[i] = to;
  }
}

/* Those below PROGRAMS_FIRST that were free. */
static struct {
  int each[PROGRAMS_FIRST];
  unsigned count;
} held;

void mr_membership_hold_room(uint16_t nodes) {
  struct rlimit most;
  if (getrlimit(RLIMIT_NOFILE, &most) < 0 || most.rlim_cur < 4u * PROGRAMS_FIRST + 4u * nodes)
    return;
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (; fd >= 0 && fd < PROGRAMS_FIRST; fd = fcntl(fd, F_DUPFD_CLOEXEC, 3))
    held.each[held.count++] = fd;
  if (fd >= 0)
    close(fd);
}

void mr_membership_give_room(void) {
  while (held.count > 0)
    close(held.each[--held.count]);
}

static int need_inherited(const struct mr_membership *m, enum mr_inherited which) {
  if (m->inherited[which] == 0)
    mr_node_die(STATUS_USAGE, NOT_SET, names[which]);
  return m->inherited[which];
}

static void read_secret(const struct mr_membership *m, uint8_t *secret) {
  int fd = need_inherited(m, MR_INHERITED_SECRET);
  ssize_t length = pread(fd, secret, MR_SECRET, 0);
  if (length != MR_SECRET)
    mr_node_die(STATUS_USAGE, "MARU_DSM_SECRET_FD is %d: no secret of %d bytes there%s%s", fd,
                MR_SECRET, length < 0 ? ": " : "", length < 0 ? strerror(errno) : "");
  close(fd);
}

/* ---- joining ----------------------------------------------------------------------- */

static bool is_transport(const char *name) {
  const char *rest = strncmp(name, "shm+", 4) == 0 ? name + 4 : name;
  const char *provider = mr_fabric_provider(rest);
  return strcmp(name, "shm") == 0 || strcmp(rest, "tcp") == 0 ||
         (provider != NULL && *provider != 0 && strlen(name) < MR_TRANSPORT_NAME);
}

/* A described network is between all nodes: none goes round it through memory. */
static const char *choose_transport(void) {
  const char *asked = getenv("MARU_DSM_TRANSPORT");
  bool described = getenv("MARU_DSM_LINK") != NULL;
  if (asked == NULL)
    return described ? "tcp" : "shm+tcp";
  if (!is_transport(asked))
    mr_node_die(STATUS_USAGE,
                "MARU_DSM_TRANSPORT is '%s'; known: shm+tcp, shm, tcp, shm+ofi:PROVIDER, "
                "ofi:PROVIDER",
                asked);
  if (described && strncmp(asked, "shm", 3) == 0)
    mr_node_die(STATUS_USAGE,
                "MARU_DSM_LINK describes a network between all nodes; "
                "MARU_DSM_TRANSPORT is '%s', which goes round it",
                asked);
  return asked;
}

/* Nodes that `maru launch` started find all of it in their environment. */
static void read_job(const struct mr_membership *m, struct mr_job *job,
                     struct sockaddr_storage *addresses) {
  job->listener = need_inherited(m, MR_INHERITED_LISTENER);
  read_addresses(addresses, job->nodes);
  read_secret(m, job->secret);
}

void mr_membership_find(struct mr_membership *m) {
  char why[WHY];
  take_inherited(m);
  m->seconds = (int)mr_environment_number("MARU_DSM_JOIN", JOIN_SECONDS, 1, 3600);
  if (getenv("MARU_DSM_NODES") == NULL)
    m->launcher = mr_launcher_find();
  if (m->launcher == MR_LAUNCHER_NONE) {
    m->nodes = (uint16_t)mr_environment_number("MARU_DSM_NODES", 1, 1, MR_JOB_NODES_MAX);
    m->me = (uint16_t)mr_environment_number("MARU_DSM_NODE", 0, 0, m->nodes - 1u);
    return;
  }
  if (m->launcher == MR_LAUNCHER_MUTE &&
      mr_environment_number("SLURM_PROCID", 0, 0, UINT32_MAX) != 0)
    _exit(STATUS_UNAVAILABLE); /* process 0 says why */
  if (mr_launcher_meet(m->launcher, &m->meeting, MR_JOB_NODES_MAX, m->seconds, why, sizeof why) < 0)
    mr_node_die(STATUS_UNAVAILABLE, "%s", why);
  m->nodes = m->meeting.nodes;
  m->me = m->meeting.me;
  m->met = true;
  mr_end_tells(m->launcher);
}

void mr_membership_join(struct mr_membership *m, const struct mr_joining *how,
                        struct mr_transport **transport, uint32_t *incarnations) {
  static struct sockaddr_storage addresses[MR_JOB_NODES_MAX];
  struct mr_job job = {.nodes = m->nodes,
                       .me = m->me,
                       .addresses = addresses,
                       .epoch = how->epoch,
                       .transport = choose_transport(),
                       .share = how->share,
                       .settings = how->settings,
                       .lost_after = mr_settings_lost_after(),
                       .again = how->again,
                       .lost = m->me};
  uint32_t epoch = how->epoch;
  if (m->met) {
    job.listener = m->meeting.listener;
    job.addresses = m->meeting.addresses;
    memcpy(job.secret, m->meeting.secret, sizeof job.secret);
  } else {
    read_job(m, &job, addresses);
  }
  /* Who takes a node's place goes on with what that has sent. */
  job.incarnation = how->epoch;
  if (!how->replays &&
      getrandom(&job.incarnation, sizeof job.incarnation, 0) != sizeof job.incarnation)
    mr_node_die(STATUS_UNAVAILABLE, "no random numbers: %s", strerror(errno));
  char why[WHY], missing[MR_MISSING] = "";
  job.missing = missing;
  int rc = mr_transport_join(transport, &job, incarnations, m->seconds, why, sizeof why);
  job.missing = NULL;
  if (how->replays)
    m->job = job;
  m->job.again = true;
  explicit_bzero(job.secret, sizeof job.secret);
  explicit_bzero(m->meeting.secret, sizeof m->meeting.secret);
  if (rc < 0 && *why != 0)
    mr_node_die(STATUS_UNAVAILABLE, "%s", why);
  /* Where a job begins again, one that comes too late is lost as any other. */
  if (rc == -ETIMEDOUT)
    mr_node_die(
        epoch == MR_FIRST_EPOCH ? STATUS_UNAVAILABLE : STATUS_LOST,
        "cannot join the job: not all its %u nodes were there, with its secret, in %d s%s%s",
        m->nodes, m->seconds, *missing != 0 ? ": " : "", missing);
  if (rc == -EPROTO)
    mr_node_die(STATUS_USAGE, "MARU_DSM_MIB, MARU_DSM_HOME_RUN, MARU_DSM_HOMES=block, "
                              "MARU_DSM_LOST_AFTER, MARU_DSM_RACES and MARU_DSM_LINK must be the "
                              "same on all nodes; "
                              "with MARU_DSM_LINK all nodes must be on one host and in one time "
                              "namespace");
  if (rc == -EPROTOTYPE)
    mr_node_die(STATUS_USAGE, "MARU_DSM_TRANSPORT must be the same on all nodes");
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot join the job: %s", strerror(-rc));
  /* No last words, so it does not begin as they do (launch/job.c). */
  if (*why != 0)
    fprintf(stderr, "maru: %s; messages go over the network\n", why);
  free(m->meeting.addresses);
  m->meeting.addresses = NULL;
}
