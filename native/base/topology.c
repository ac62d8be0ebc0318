/* topology.c: the CPUs of this machine, or of the one that a sysroot describes.
 *
 * Everything is read relative to a root, so a folder of small files can stand
 * for any machine.  What is missing is replaced by the flattest assumption (one
 * socket, one node, a core per CPU) and noted in `degraded`.
 *
 * Over 500 lines: the kernel tells of a machine in a dozen files of as many forms, and each has one
 * short function here.
 */
#define _GNU_SOURCE
#include "topology.h"
#include "cpulist.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CPUS MARU_TOPOLOGY_MAX_CPUS
#define CACHES 10 /* of a CPU */
/* A list that names each CPU by itself, as where sockets take turns at numbers. */
#define LIST_BYTES (CPUS * 5 + 2)

struct cpu_set {
  uint8_t has[CPUS];
};

/* ---- files ------------------------------------------------------------- */

/* Reads the start of root/path, or of its first line; false when it cannot be read. */
static bool read_file(const char *root, const char *path, bool line, char *text, size_t size) {
  char full[PATH_MAX];
  if ((size_t)snprintf(full, sizeof full, "%s/%s", root, path) >= sizeof full)
    return false;
  int fd = open(full, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  size_t got = 0;
  ssize_t n;
  do {
    n = read(fd, text + got, size - 1 - got);
    got += n > 0 ? (size_t)n : 0;
  } while (n > 0 && !(line && text[got - 1] == '\n'));
  close(fd);
  text[got] = '\0';
  return n >= 0;
}

static bool read_text(const char *root, const char *path, char *text, size_t size) {
  return read_file(root, path, false, text, size);
}

/* A look for the end of a file of one line would be one system call more at each. */
static bool read_line(const char *root, const char *path, char *text, size_t size) {
  return read_file(root, path, true, text, size);
}

static bool read_cpu_text(const char *root, int cpu, const char *name, char *text, size_t size) {
  char path[128];
  snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/%s", cpu, name);
  return read_line(root, path, text, size);
}

static bool read_cpu_number(const char *root, int cpu, const char *name, int32_t *number) {
  char text[64], *end;
  if (!read_cpu_text(root, cpu, name, text, sizeof text))
    return false;
  long value = strtol(text, &end, 10);
  if (end == text || value < 0 || value > INT32_MAX)
    return false; /* some firmware says -1 for "unknown" */
  *number = (int32_t)value;
  return true;
}

static void add_range(void *set, unsigned long first, unsigned long last) {
  memset(&((struct cpu_set *)set)->has[first], 1, last - first + 1);
}

/* False when it is no list or leaves the range; the set then holds what came before. */
static bool parse_list(const char *text, struct cpu_set *set) {
  memset(set, 0, sizeof *set);
  return mr_cpu_list_read(text, CPUS, add_range, set);
}

/* The set that a file lists; false where none is read.  Such a text is too long for the stack of
 * a program's thread. */
static bool read_list(const char *root, const char *path, struct cpu_set *set) {
  char *text = malloc(LIST_BYTES);
  bool read = text != NULL && read_line(root, path, text, LIST_BYTES) && parse_list(text, set);
  free(text);
  return read;
}

static int32_t first_of(const struct cpu_set *set) {
  const uint8_t *found = memchr(set->has, 1, CPUS);
  return found != NULL ? (int32_t)(found - set->has) : -1;
}

/* ---- CPUs -------------------------------------------------------------- */

/* The levels of a CPU's caches; how many there are. */
static int read_levels(const char *root, int cpu, int32_t level[CACHES]) {
  char name[64];
  for (int i = 0; i < CACHES; i++) {
    snprintf(name, sizeof name, "cache/index%d/level", i);
    if (!read_cpu_number(root, cpu, name, &level[i]))
      return i;
  }
  return CACHES;
}

static bool holds_instructions_alone(const char *root, int cpu, int cache) {
  char name[64], text[64];
  snprintf(name, sizeof name, "cache/index%d/type", cache);
  return read_cpu_text(root, cpu, name, text, sizeof text) && strncmp(text, "Instr", 5) == 0;
}

/* The CPUs that share such a cache; false: nobody says. */
static bool read_sharers(const char *root, int cpu, int cache, struct cpu_set *sharers) {
  char path[128];
  snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list", cpu,
           cache);
  return read_list(root, path, sharers);
}

/* The CPUs that share the highest data cache with `cpu`; false: unknown. */
static bool read_last_cache(const char *root, int cpu, struct cpu_set *sharers) {
  int32_t level[CACHES];
  int count = read_levels(root, cpu, level);
  for (int left = count; left > 0; left--) {
    int highest = 0;
    for (int i = 1; i < count; i++)
      if (level[i] > level[highest])
        highest = i;
    /* From the second level on, caches hold data. */
    bool of_data = level[highest] > 1 ||
                   (level[highest] == 1 && !holds_instructions_alone(root, cpu, highest));
    if (of_data && read_sharers(root, cpu, highest, sharers))
      return true;
    level[highest] = 0;
  }
  return false;
}

/* One CPU is asked for all that share its cache: a look at each costs some 15 files. */
static void read_caches(struct maru_topology *topology, const char *root) {
  struct cpu_set sharers;
  for (uint32_t i = 0; i < topology->cpu_count; i++) {
    if (topology->cpus[i].llc >= 0 || !read_last_cache(root, topology->cpus[i].id, &sharers))
      continue;
    sharers.has[topology->cpus[i].id] = 1;
    int32_t first = first_of(&sharers);
    for (uint32_t j = i; j < topology->cpu_count; j++)
      if (sharers.has[topology->cpus[j].id])
        topology->cpus[j].llc = first;
  }
}

static void read_socket_and_core(struct maru_topology *topology, const char *root,
                                 struct maru_cpu *cpu) {
  if (!read_cpu_number(root, cpu->id, "topology/physical_package_id", &cpu->socket)) {
    cpu->socket = 0;
    topology->degraded = 1;
  }
  if (!read_cpu_number(root, cpu->id, "topology/core_id", &cpu->core)) {
    cpu->core = cpu->id;
    topology->degraded = 1;
  }
}

/* Where no cache is described (many virtual machines), a socket shares one. */
static void fill_missing_caches(struct maru_topology *topology) {
  for (uint32_t i = 0; i < topology->cpu_count; i++)
    for (uint32_t j = 0; topology->cpus[i].llc < 0; j++)
      if (topology->cpus[j].socket == topology->cpus[i].socket)
        topology->cpus[i].llc = topology->cpus[j].id;
}

/* Node numbers may have gaps, and nodes may have no CPU (memory only). */
static void read_nodes(struct maru_topology *topology, const char *root) {
  char path[PATH_MAX], rest;
  struct cpu_set members;
  int32_t node;
  snprintf(path, sizeof path, "%.4000s/sys/devices/system/node", root);
  DIR *nodes = opendir(path);
  if (nodes == NULL)
    return;
  for (struct dirent *entry; (entry = readdir(nodes)) != NULL;) {
    if (sscanf(entry->d_name, "node%" SCNd32 "%c", &node, &rest) != 1)
      continue;
    snprintf(path, sizeof path, "sys/devices/system/node/node%" PRId32 "/cpulist", node);
    if (!read_list(root, path, &members))
      continue;
    for (uint32_t i = 0; i < topology->cpu_count; i++)
      if (members.has[topology->cpus[i].id])
        topology->cpus[i].node = node;
  }
  closedir(nodes);
}

/* ---- counts ------------------------------------------------------------ */

static bool same_socket(const struct maru_cpu *a, const struct maru_cpu *b) {
  return a->socket == b->socket;
}

static bool same_node(const struct maru_cpu *a, const struct maru_cpu *b) {
  return a->node == b->node;
}

static bool same_core(const struct maru_cpu *a, const struct maru_cpu *b) {
  return a->core == b->core && a->socket == b->socket;
}

static bool any_cpu(const struct maru_cpu *cpu) { return cpu != NULL; }

static bool is_allowed(const struct maru_cpu *cpu) { return cpu->allowed; }

/* How many classes of `same` there are among the CPUs that count. */
static uint32_t count_classes(const struct maru_topology *topology,
                              bool (*same)(const struct maru_cpu *, const struct maru_cpu *),
                              bool (*counts)(const struct maru_cpu *)) {
  uint32_t classes = 0;
  for (uint32_t i = 0; i < topology->cpu_count; i++) {
    const struct maru_cpu *cpu = &topology->cpus[i];
    bool fresh = counts(cpu);
    for (uint32_t j = 0; fresh && j < i; j++)
      fresh = !(counts(&topology->cpus[j]) && same(&topology->cpus[j], cpu));
    classes += fresh;
  }
  return classes;
}

static void count(struct maru_topology *topology) {
  topology->allowed_count = 0;
  for (uint32_t i = 0; i < topology->cpu_count; i++)
    topology->allowed_count += topology->cpus[i].allowed;
  topology->socket_count = count_classes(topology, same_socket, any_cpu);
  topology->node_count = count_classes(topology, same_node, any_cpu);
  topology->core_count = count_classes(topology, same_core, is_allowed);
}

/* ---- limits ------------------------------------------------------------ */

static void lower_quota(struct maru_topology *topology, double quota, double period) {
  if (quota <= 0 || period <= 0)
    return;
  double millicpus = quota / period * 1000;
  uint32_t rounded = millicpus >= UINT32_MAX ? UINT32_MAX : (uint32_t)millicpus;
  if (rounded < millicpus)
    rounded++;
  if (topology->quota_millicpus == 0 || rounded < topology->quota_millicpus)
    topology->quota_millicpus = rounded;
}

static void lower_memory(struct maru_topology *topology, const char *text) {
  char *end;
  unsigned long long limit = strtoull(text, &end, 10); /* "max" is no number */
  if (end != text && limit < topology->memory_limit)
    topology->memory_limit = limit;
}

/* Which limits a hierarchy of groups may hold. What is not there takes a system call, too. */
enum {
  CPU_MAX = 1,
  CPU_QUOTA = 2,
  MEMORY_MAX = 4,
  MEMORY_LIMIT = 8,
  OF_CPUS = CPU_MAX | CPU_QUOTA,
  OF_MEMORY = MEMORY_MAX | MEMORY_LIMIT
};

/* One file of a folder. */
static bool read_limit(const char *root, const char *folder, const char *name, char text[128]) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%.4000s/%s", folder, name);
  return read_text(root, path, text, 128);
}

/* Applies these limits of one cgroup folder. */
static void read_group(struct maru_topology *topology, const char *root, const char *folder,
                       int limits) {
  char text[128], period[128];
  double quota_us, period_us;
  if (limits & CPU_MAX && read_limit(root, folder, "cpu.max", text) &&
      sscanf(text, "%lf %lf", &quota_us, &period_us) == 2)
    lower_quota(topology, quota_us, period_us);
  if (limits & CPU_QUOTA && read_limit(root, folder, "cpu.cfs_quota_us", text) &&
      read_limit(root, folder, "cpu.cfs_period_us", period))
    lower_quota(topology, strtod(text, NULL), strtod(period, NULL)); /* -1: no limit */
  if (limits & MEMORY_MAX && read_limit(root, folder, "memory.max", text))
    lower_memory(topology, text);
  if (limits & MEMORY_LIMIT && read_limit(root, folder, "memory.limit_in_bytes", text))
    lower_memory(topology, text);
}

/* Applies a group's limits and those of its ancestors.  In a container the path
 * may name folders that only its host sees; the walk reaches the mount's root. */
static void walk_group(struct maru_topology *topology, const char *root, const char *mount,
                       const char *group, int limits) {
  char folder[PATH_MAX];
  if (!limits)
    return;
  snprintf(folder, sizeof folder, "%s%.3900s", mount, strcmp(group, "/") == 0 ? "" : group);
  size_t end = strlen(mount);
  for (;;) {
    read_group(topology, root, folder, limits);
    char *slash = strrchr(folder + end, '/');
    if (slash == NULL)
      return;
    *slash = '\0';
  }
}

/* Is that one of a list with commas? */
static bool is_listed(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
    if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
      return true;
  return false;
}

/* One line of /proc/self/cgroup: "id:controllers:path". */
static void read_group_line(struct maru_topology *topology, const char *root, char *line,
                            int wanted) {
  char mount[256];
  char *controllers = strchr(line, ':');
  char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
  if (group == NULL)
    return;
  *group++ = '\0';
  controllers++;
  if (*controllers == '\0') { /* version 2, alone or beside version 1 */
    walk_group(topology, root, "sys/fs/cgroup", group, wanted & (CPU_MAX | MEMORY_MAX));
    walk_group(topology, root, "sys/fs/cgroup/unified", group, wanted & (CPU_MAX | MEMORY_MAX));
    return;
  }
  int limits = (is_listed(controllers, "cpu") ? CPU_QUOTA : 0) |
               (is_listed(controllers, "memory") ? MEMORY_LIMIT : 0);
  snprintf(mount, sizeof mount, "sys/fs/cgroup/%.200s", controllers);
  walk_group(topology, root, mount, group, wanted & limits);
}

/* These limits of the groups that such a file names; false: not all of them could be read. */
static bool read_groups(struct maru_topology *topology, const char *root, const char *path,
                        int wanted) {
  static const size_t bytes = 16384;
  char *text = malloc(bytes), *rest = text;
  bool whole = text != NULL && read_text(root, path, text, bytes);
  if (whole) {
    whole = strlen(text) < bytes - 1;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
      read_group_line(topology, root, line, wanted);
  }
  free(text);
  return whole;
}

uint32_t mr_cpu_quota(pid_t pid) {
  struct maru_topology limits = {0};
  char path[32];
  snprintf(path, sizeof path, "proc/%d/cgroup", (int)pid);
  if (!read_groups(&limits, "", path, OF_CPUS) && access("/proc/self/cgroup", F_OK) == 0)
    return UINT32_MAX;
  return limits.quota_millicpus;
}

static void read_limits(struct maru_topology *topology, const char *root, unsigned parts) {
  char text[128];
  unsigned long long kib;
  topology->memory_limit = UINT64_MAX;
  if (parts & MR_MEMORY && read_line(root, "proc/meminfo", text, sizeof text) &&
      sscanf(text, "MemTotal: %llu", &kib) == 1)
    topology->memory_limit = (uint64_t)kib * 1024;
  read_groups(topology, root, "proc/self/cgroup",
              (parts & MR_QUOTA ? OF_CPUS : 0) | (parts & MR_MEMORY ? OF_MEMORY : 0));
}

/* ---- the whole --------------------------------------------------------- */

static int allocate(struct maru_topology *topology, const struct cpu_set *online,
                    const struct cpu_set *allowed) {
  uint32_t cpus = 0;
  for (int id = 0; id < CPUS; id++)
    cpus += online->has[id];
  topology->cpus = calloc(cpus, sizeof *topology->cpus);
  if (topology->cpus == NULL)
    return -ENOMEM;
  for (int id = 0; id < CPUS; id++)
    if (online->has[id])
      topology->cpus[topology->cpu_count++] = (struct maru_cpu){
          .id = id, .core = id, .llc = -1, .allowed = allowed == NULL || allowed->has[id]};
  return 0;
}

static bool lacks_a_cache(const struct maru_topology *topology) {
  for (uint32_t i = 0; i < topology->cpu_count; i++)
    if (topology->cpus[i].llc < 0)
      return true;
  return false;
}

/* `allowed` NULL: all CPUs are. */
static int read_machine(struct maru_topology *topology, const char *root,
                        const struct cpu_set *allowed, unsigned parts) {
  struct cpu_set online = {0};
  *topology = (struct maru_topology){0};
  if (!read_list(root, "sys/devices/system/cpu/online", &online) || first_of(&online) < 0) {
    topology->degraded = 1;
    if (allowed != NULL)
      online = *allowed;
    if (first_of(&online) < 0)
      online.has[0] = 1;
  }
  int rc = allocate(topology, &online, allowed);
  if (rc < 0)
    return rc;
  if (parts & MR_CACHES)
    read_caches(topology, root);
  /* In the place of a cache that nobody describes stands the socket. */
  bool by_socket = parts & MR_CACHES && lacks_a_cache(topology);
  for (uint32_t i = 0; (parts & MR_CORES || by_socket) && i < topology->cpu_count; i++)
    read_socket_and_core(topology, root, &topology->cpus[i]);
  fill_missing_caches(topology);
  if (parts & MR_NODES)
    read_nodes(topology, root);
  if (parts & (MR_QUOTA | MR_MEMORY))
    read_limits(topology, root, parts);
  count(topology);
  return 0;
}

/* False: the kernel's mask cannot be read. */
static bool read_affinity(struct cpu_set *allowed) {
  static const size_t bytes = 8192 / 8;
  uint8_t mask[8192 / 8] __attribute__((aligned(sizeof(long)))) = {0};
  if (sched_getaffinity(0, bytes, (cpu_set_t *)mask) < 0)
    return false;
  for (int id = 0; id < CPUS; id++)
    allowed->has[id] = CPU_ISSET_S((size_t)id, bytes, (cpu_set_t *)mask);
  return first_of(allowed) >= 0;
}

/* "2x12" after "virtual:". */
static int make_virtual(struct maru_topology *topology, const char *shape) {
  unsigned sockets, cpus;
  char rest;
  struct cpu_set online = {0};
  if (!isdigit((unsigned char)*shape) || sscanf(shape, "%5ux%5u%c", &sockets, &cpus, &rest) != 2 ||
      sockets == 0 || cpus == 0 || sockets * cpus > CPUS)
    return -EINVAL;
  memset(online.has, 1, sockets * cpus);
  *topology = (struct maru_topology){.virtual_machine = 1};
  int rc = allocate(topology, &online, NULL);
  if (rc < 0)
    return rc;
  for (uint32_t i = 0; i < topology->cpu_count; i++) {
    int32_t socket = (int32_t)(i / cpus);
    struct maru_cpu *cpu = &topology->cpus[i];
    cpu->socket = cpu->node = socket;
    cpu->llc = socket * (int32_t)cpus;
  }
  read_limits(topology, "", MR_MEMORY); /* the quota is of this machine's time */
  count(topology);
  return 0;
}

static int read_root(struct maru_topology *topology, const char *sysroot, unsigned parts) {
  struct stat status;
  if (stat(sysroot, &status) < 0)
    return -errno;
  if (!S_ISDIR(status.st_mode))
    return -ENOTDIR;
  return read_machine(topology, sysroot, NULL, parts);
}

int maru_topology_read_root(struct maru_topology *topology, const char *sysroot) {
  return read_root(topology, sysroot, MR_ALL);
}

int mr_topology_read(struct maru_topology *topology, unsigned parts) {
  const char *override = getenv(MARU_TOPOLOGY_ENV);
  if (override != NULL && *override != '\0') {
    if (strncmp(override, "virtual:", 8) == 0)
      return make_virtual(topology, override + 8);
    int rc = read_root(topology, override, parts);
    if (rc == 0)
      topology->virtual_machine = 1;
    return rc;
  }
  struct cpu_set allowed;
  bool known = read_affinity(&allowed);
  int rc = read_machine(topology, "", known ? &allowed : NULL, parts);
  if (rc == 0 && !known)
    topology->degraded = 1;
  return rc;
}

int maru_topology_read(struct maru_topology *topology) {
  return mr_topology_read(topology, MR_ALL);
}

void maru_topology_free(struct maru_topology *topology) {
  free(topology->cpus);
  *topology = (struct maru_topology){0};
}

uint32_t maru_topology_workers(const struct maru_topology *topology) {
  uint32_t workers = topology->allowed_count;
  uint32_t quota = (topology->quota_millicpus + 999) / 1000;
  if (quota > 0 && quota < workers)
    workers = quota;
  return workers > 0 ? workers : 1;
}
