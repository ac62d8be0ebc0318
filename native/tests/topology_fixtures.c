/* Description: described machines are read as they are; this machine too. */
#define _GNU_SOURCE
#include "../base/topology.h"

#include "check.h"

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int opened;

/* In the place of libc's: each process under maru pays for what is opened here. */
int open(const char *path, int flags, ...) {
  opened++;
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

/* With all folders above it. */
static void add_line(const char *root, const char *path, const char *line) {
  char whole[4096];
  snprintf(whole, sizeof whole, "%s/%s", root, path);
  for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = '\0';
    CHECK(mkdir(whole, 0700) == 0 || errno == EEXIST);
    *slash = '/';
  }
  FILE *file = fopen(whole, "a");
  CHECK(file != NULL);
  fputs(line, file);
  fclose(file);
}

/* A machine is one text: of each line a path, a tab, and a line of the file that is there. */
static void unfold(const char *name, const char *root) {
  char path[4096], *line = NULL;
  size_t room = 0;
  snprintf(path, sizeof path, "%s/%s.machine", FIXTURES, name);
  FILE *machine = fopen(path, "r");
  CHECK(machine != NULL);
  while (getline(&line, &room, machine) > 0) {
    char *tab = strchr(line, '\t');
    CHECK(tab != NULL);
    *tab = '\0';
    add_line(root, line, tab + 1);
  }
  free(line);
  fclose(machine);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status, (void)kind, (void)walk;
  return remove(path);
}

static int read_machine(const char *name, struct maru_topology *topology) {
  char root[] = "/tmp/maru-machine-XXXXXX";
  CHECK(mkdtemp(root) != NULL);
  unfold(name, root);
  int rc = maru_topology_read_root(topology, root);
  nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  return rc;
}

/* Parts of it; how many files were opened. */
static int read_parts(const char *name, unsigned parts, struct maru_topology *topology) {
  char root[] = "/tmp/maru-machine-XXXXXX";
  CHECK(mkdtemp(root) != NULL);
  unfold(name, root);
  CHECK_EQUAL(setenv(MARU_TOPOLOGY_ENV, root, 1), 0);
  opened = 0;
  CHECK_EQUAL(mr_topology_read(topology, parts), 0);
  int files = opened;
  nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  return files;
}

static struct maru_topology read_fixture(const char *name) {
  struct maru_topology topology;
  CHECK_EQUAL(read_machine(name, &topology), 0);
  return topology;
}

static void two_sockets(void) {
  struct maru_topology t = read_fixture("two-sockets");
  CHECK_EQUAL(t.cpu_count, 8);
  CHECK_EQUAL(t.allowed_count, 8);
  CHECK_EQUAL(t.core_count, 4);
  CHECK_EQUAL(t.socket_count, 2);
  CHECK_EQUAL(t.node_count, 2);
  CHECK_EQUAL(t.memory_limit, UINT64_C(16) << 30);
  CHECK_EQUAL(t.quota_millicpus, 0);
  CHECK_EQUAL(t.degraded, 0);
  CHECK_EQUAL(t.virtual_machine, 0);
  for (int i = 0; i < 8; i++) {
    CHECK_EQUAL(t.cpus[i].id, i);
    CHECK_EQUAL(t.cpus[i].socket, i / 4);
    CHECK_EQUAL(t.cpus[i].node, i / 4);
    CHECK_EQUAL(t.cpus[i].llc, i / 4 * 4);
    CHECK_EQUAL(t.cpus[i].core, i / 2 % 2);
  }
  CHECK_EQUAL(maru_topology_workers(&t), 8);
  maru_topology_free(&t);
}

/* CPU 2 is offline, node 1 has memory only, nodes 2 and 3 do not exist. No cache is described,
 * and version 1 cgroups grant 1.5 CPUs further up. */
static void odd_nodes(void) {
  struct maru_topology t = read_fixture("odd-nodes");
  CHECK_EQUAL(t.cpu_count, 3);
  CHECK_EQUAL(t.cpus[2].id, 3);
  CHECK_EQUAL(t.cpus[1].node, 0);
  CHECK_EQUAL(t.cpus[2].node, 4);
  CHECK_EQUAL(t.cpus[2].llc, 0);
  CHECK_EQUAL(t.node_count, 2);
  CHECK_EQUAL(t.socket_count, 1);
  CHECK_EQUAL(t.core_count, 3);
  CHECK_EQUAL(t.quota_millicpus, 1500);
  CHECK_EQUAL(t.memory_limit, UINT64_C(256) << 20);
  CHECK_EQUAL(t.degraded, 0);
  CHECK_EQUAL(maru_topology_workers(&t), 2);
  maru_topology_free(&t);
}

/* No CPU description at all; version 2 cgroups with half a CPU. */
static void sandbox(void) {
  struct maru_topology t = read_fixture("sandbox");
  CHECK_EQUAL(t.degraded, 1);
  CHECK_EQUAL(t.cpu_count, 1);
  CHECK_EQUAL(t.socket_count, 1);
  CHECK_EQUAL(t.node_count, 1);
  CHECK_EQUAL(t.core_count, 1);
  CHECK_EQUAL(t.cpus[0].llc, 0);
  CHECK_EQUAL(t.quota_millicpus, 500);
  CHECK_EQUAL(t.memory_limit, UINT64_C(128) << 20);
  CHECK_EQUAL(maru_topology_workers(&t), 1);
  maru_topology_free(&t);
}

static int read_named(const char *value, struct maru_topology *topology) {
  CHECK_EQUAL(setenv(MARU_TOPOLOGY_ENV, value, 1), 0);
  return maru_topology_read(topology);
}

static void overridden(void) {
  static const char *const malformed[] = {
      "virtual:",     "virtual:2",   "virtual:2x",   "virtual:0x4",         "virtual:2x4x2",
      "virtual:-2x4", "virtual:2x0", "virtual: 2x4", "virtual:99999x99999", "virtual:65x64"};
  struct maru_topology t;
  for (unsigned i = 0; i < sizeof malformed / sizeof *malformed; i++)
    CHECK_EQUAL(read_named(malformed[i], &t), -EINVAL);
  CHECK_EQUAL(read_named("/nowhere", &t), -ENOENT);
  CHECK_EQUAL(read_named("virtual:2x12", &t), 0);
  CHECK_EQUAL(t.virtual_machine, 1);
  CHECK_EQUAL(t.cpu_count, 24);
  CHECK_EQUAL(t.core_count, 24);
  CHECK_EQUAL(t.socket_count, 2);
  CHECK_EQUAL(t.node_count, 2);
  CHECK_EQUAL(t.cpus[23].llc, 12);
  CHECK_EQUAL(maru_topology_workers(&t), 24);
  maru_topology_free(&t);
  char root[] = "/tmp/maru-machine-XXXXXX";
  CHECK(mkdtemp(root) != NULL);
  unfold("two-sockets", root);
  CHECK_EQUAL(read_named(root, &t), 0);
  nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  CHECK_EQUAL(t.virtual_machine, 1);
  CHECK_EQUAL(t.cpu_count, 8);
  maru_topology_free(&t);
}

static int files_for(unsigned parts) {
  struct maru_topology t;
  int files = read_parts("two-sockets", parts, &t);
  CHECK_EQUAL(t.cpu_count, 8);
  maru_topology_free(&t);
  return files;
}

/* Nothing is looked for by number, and one CPU speaks for all that share its cache. */
static void costs(void) {
  struct maru_topology t;
  CHECK(files_for(MR_CACHES) <= 1 + 2 * 10);
  CHECK(files_for(MR_QUOTA) <= 1 + 1);
  CHECK(files_for(MR_ALL) <= 1 + 2 * 10 + 2 * 8 + 2 + 10);
  CHECK(read_parts("two-sockets", MR_CACHES, &t) > 0);
  for (int i = 0; i < 8; i++)
    CHECK_EQUAL(t.cpus[i].llc, i / 4 * 4);
  maru_topology_free(&t);
  /* The first call of a map: no file is read for nothing. */
  int all = read_parts("odd-nodes", MR_QUOTA | MR_MEMORY, &t);
  maru_topology_free(&t);
  CHECK(read_parts("odd-nodes", MR_QUOTA, &t) < all - 2);
  CHECK_EQUAL(maru_topology_workers(&t), 2);
  CHECK_EQUAL(t.memory_limit, UINT64_MAX);
  maru_topology_free(&t);
}

static void this_machine(void) {
  struct maru_topology t;
  cpu_set_t one;
  CHECK_EQUAL(read_named("", &t), 0);
  CHECK_EQUAL(t.virtual_machine, 0);
  CHECK(t.cpu_count >= 1 && t.allowed_count >= 1 && t.core_count >= 1);
  CHECK(t.memory_limit > 0);
  int32_t id = -1;
  for (uint32_t i = 0; i < t.cpu_count; i++)
    if (t.cpus[i].allowed)
      id = t.cpus[i].id;
  maru_topology_free(&t);
  CPU_ZERO(&one);
  CPU_SET(id, &one);
  CHECK_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
  CHECK_EQUAL(maru_topology_read(&t), 0);
  CHECK_EQUAL(t.allowed_count, 1);
  CHECK_EQUAL(t.core_count, 1);
  CHECK_EQUAL(maru_topology_workers(&t), 1);
  maru_topology_free(&t);
}

/* Nodes take turns at the numbers of CPUs: their lists are as long as lists get. */
static void long_lists(void) {
  enum { MANY = 2048, NODES = 2, LONGEST = MANY * 5 };
  char root[] = "/tmp/maru-machine-XXXXXX", path[80], lists[NODES][LONGEST] = {"", ""};
  struct maru_topology t;
  size_t at[NODES] = {0};
  CHECK(mkdtemp(root) != NULL);
  for (int cpu = 0; cpu < MANY; cpu++) {
    int node = cpu % NODES;
    at[node] += (size_t)snprintf(lists[node] + at[node], LONGEST - at[node], "%s%d",
                                 at[node] > 0 ? "," : "", cpu);
  }
  snprintf(path, sizeof path, "0-%d\n", MANY - 1);
  add_line(root, "sys/devices/system/cpu/online", path);
  for (int node = 0; node < NODES; node++) {
    snprintf(path, sizeof path, "sys/devices/system/node/node%d/cpulist", node);
    add_line(root, path, lists[node]);
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/cache/index0/level", node);
    add_line(root, path, "3\n");
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/cache/index0/shared_cpu_list", node);
    add_line(root, path, lists[node]);
  }
  CHECK_EQUAL(maru_topology_read_root(&t, root), 0);
  nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  CHECK_EQUAL(t.cpu_count, MANY);
  for (int cpu = 0; cpu < MANY; cpu++) {
    CHECK_EQUAL(t.cpus[cpu].node, cpu % NODES);
    CHECK_EQUAL(t.cpus[cpu].llc, cpu % NODES);
  }
  maru_topology_free(&t);
}

static void *reads(void *unused) {
  struct maru_topology t;
  CHECK_EQUAL(maru_topology_read(&t), 0);
  maru_topology_free(&t);
  return unused;
}

/* A program's thread may have little. */
static void small_stack(void) {
  pthread_attr_t small;
  pthread_t thread;
  CHECK_EQUAL(pthread_attr_init(&small), 0);
  CHECK_EQUAL(pthread_attr_setstacksize(&small, 64 << 10), 0);
  CHECK_EQUAL(pthread_create(&thread, &small, reads, NULL), 0);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&small);
}

int main(void) {
  two_sockets();
  long_lists();
  odd_nodes();
  sandbox();
  overridden();
  costs();
  this_machine();
  small_stack();
  return 0;
}
