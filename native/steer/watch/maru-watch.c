/* maru-watch: which disks and interfaces each thread moves bytes to and from, counted in the kernel
 * by BPF. For maru top and the controller of --io; see watch.h for what is counted where.
 *
 * Says "ready TRACEPOINT..." once it counts (those that this kernel has), then, for each line on
 * standard input, lines "THREAD KIND MAJOR:MINOR|INDEX BYTES EVENTS", ended by ".". Counts grow
 * from the start; of a very busy machine the least recently moving entries may start again at 0.
 * Ends with its input. Where it may not count: one line on standard error, status 69.
 *
 * Needs CAP_BPF and CAP_PERFMON (or root) and a kernel with BTF, 5.16 or later. Changes nothing;
 * the kernel removes the programs when this process ends, however it ends. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "watch.h"
#include "watch_object.h"

enum { EX_UNAVAILABLE = 69, PROGRAMS_AT_MOST = 16 };

static int unavailable(const char *what, int error) {
  fprintf(stderr, "maru-watch: %s: %s\n", what, strerror(error));
  return EX_UNAVAILABLE;
}

/* libbpf explains at length; the one line above is what is told. */
static int silent(enum libbpf_print_level level, const char *format, va_list arguments) {
  (void)level, (void)format, (void)arguments;
  return 0;
}

static struct bpf_object *open_object(const struct stat *namespace) {
  struct {
    unsigned long long device, inode;
  } constants = {namespace->st_dev, namespace->st_ino};
  struct bpf_object *object = bpf_object__open_mem(watch_object, sizeof watch_object, NULL);
  if (!object)
    return NULL;
  struct bpf_map *map;
  bpf_object__for_each_map(map, object) if (strstr(bpf_map__name(map), ".rodata") != NULL) {
    int error = bpf_map__set_initial_value(map, &constants, sizeof constants);
    if (error) {
      bpf_object__close(object);
      errno = -error;
      return NULL;
    }
  }
  return object;
}

/* Leaves out what this kernel has no tracepoint for; how many are left. */
static int choose(struct bpf_object *object) {
  int chosen = 0;
  struct bpf_program *program;
  bpf_object__for_each_program(program, object) {
    const char *tracepoint = strchr(bpf_program__section_name(program), '/') + 1;
    bool there = libbpf_find_vmlinux_btf_id(tracepoint, BPF_TRACE_RAW_TP) > 0;
    bpf_program__set_autoload(program, there);
    chosen += there;
  }
  return chosen;
}

/* 0, or negative errno. The links live as long as the process. */
static int attach(struct bpf_object *object) {
  struct bpf_program *program;
  bpf_object__for_each_program(program, object) {
    if (bpf_program__autoload(program) && !bpf_program__attach(program))
      return -errno;
  }
  return 0;
}

/* Last: what fails before has its reason read. */
static int say_ready(struct bpf_object *object) {
  fputs("ready", stdout);
  struct bpf_program *program;
  bpf_object__for_each_program(program, object) {
    if (bpf_program__autoload(program))
      printf(" %s", strchr(bpf_program__section_name(program), '/') + 1);
  }
  puts("");
  return fflush(stdout) == 0 ? 0 : -EPIPE;
}

static void tell_entry(const struct watched_key *key, const struct watched_count *of_each_cpu,
                       int cpus) {
  static const char *const names[] = {"read", "written", "dirtied", "sent", "received"};
  struct watched_count sum = {0, 0};
  for (int cpu = 0; cpu < cpus; cpu++)
    sum.bytes += of_each_cpu[cpu].bytes, sum.events += of_each_cpu[cpu].events;
  printf("%u %s ", key->thread, names[key->kind]);
  if (key->kind <= WATCHED_DIRTIED)
    printf("%u:%u", key->device >> 20, key->device & 0xfffff);
  else
    printf("%u", key->device);
  printf(" %llu %llu\n", sum.bytes, sum.events);
}

/* An entry that is pushed out while this walks may end the walk early or be told twice. The walk
 * is bounded all the same, and the reader takes the greatest. 0, or negative errno. */
static int tell(int counts, struct watched_count *of_each_cpu, int cpus) {
  struct watched_key key;
  bool more = bpf_map_get_next_key(counts, NULL, &key) == 0;
  for (int told = 0; more && told < WATCHED_ENTRIES; told++) {
    if (bpf_map_lookup_elem(counts, &key, of_each_cpu) == 0)
      tell_entry(&key, of_each_cpu, cpus);
    more = bpf_map_get_next_key(counts, &key, &key) == 0;
  }
  puts(".");
  return fflush(stdout) == 0 ? 0 : -EPIPE;
}

int main(void) {
  libbpf_set_print(silent);
  struct stat namespace;
  if (stat("/proc/self/ns/pid", &namespace) != 0)
    return unavailable("/proc/self/ns/pid", errno);
  struct bpf_object *object = open_object(&namespace);
  if (!object)
    return unavailable("the programs cannot be opened", errno);
  if (choose(object) == 0)
    return unavailable("the kernel describes none of the tracepoints (it needs BTF)", ENOTSUP);
  int error = bpf_object__load(object);
  if (error)
    return unavailable("the kernel takes no BPF programs from this process", -error);
  error = attach(object);
  if (error)
    return unavailable("the tracepoints cannot be used", -error);
  int counts = bpf_object__find_map_fd_by_name(object, "counts"), cpus = libbpf_num_possible_cpus();
  struct watched_count *of_each_cpu = cpus > 0 ? calloc((size_t)cpus, sizeof *of_each_cpu) : NULL;
  if (counts < 0 || !of_each_cpu)
    return unavailable("no memory for counts", ENOMEM);
  if (say_ready(object) != 0)
    return 0; /* its reader is gone */
  char line[16];
  while (fgets(line, sizeof line, stdin))
    if (tell(counts, of_each_cpu, cpus) != 0)
      break; /* its reader is gone */
  free(of_each_cpu);
  bpf_object__close(object);
  return 0;
}
