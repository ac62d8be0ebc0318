/* maru-bench-lock: a lock under the load of FxMark's MWRL, in user space.  Prints JSON.
 *
 *     maru-bench-lock [-t THREADS] [-s SECONDS] [-w MICROSECONDS] [-p] [-v SxC] [-l] [LOCK...]
 *                                                                 default: 24, 1, 0, all
 *
 * MWRL: each process renames its one file within its own directory, again and again; in
 * the kernel all meet at rename_lock. Here each thread has one name in one table. A rename formats
 * the old and the new name and hashes them outside of the lock. Under it, the rename moves the
 * entry from one bucket to another between two steps of a sequence number.
 * -w: so long a thread computes between two renames; without it the lock is saturated.
 * `waited`: the share of the requests that waited for more than 1 us.
 * -p: processes instead of threads, the table in memory that they share. The locks are those
 *   that serve between processes.
 * LOCK is as maru/lock.h reads it; -l prints the default list.
 * -v: on a machine with one socket, threads are told that they are on one of S
 *   (MARU_TOPOLOGY=virtual:SxC). Then the locks do what they would do there, and nothing costs
 *   what it would.
 *
 * Waits are timed from the request to the acquisition, so two looks at the clock are part of
 * every operation.  `overtaken`: acquisitions by others between a request and its own; one
 * that loses its CPU before it has queued is overtaken under any lock.
 * Each lock is measured in a process of its own. It is killed when it has not ended LATE seconds
 * after it was told to. Spinning threads in a queue may not come to an end.
 */
#define _GNU_SOURCE
#include "mwrl_load.h"

#include "arguments.h"
#include "json.h"

#include <errno.h>
#include <maru/topology.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 1024
#define SECONDS_MAX 3600
#define PAUSE_MAX_US 1000000
#define LATE 20

static const char *const all_locks[] = {
    "pthread", "ttas", "ticket", "mcs", "clh", "qspin", "malthusian", "shfl", "fissile", "c-bo-mcs",
    "hmcs",
    /* seed 5's ranges */
    "cna:handoff_range=0x10000", "cna:handoff_range=0x1000", "cna:handoff_range=0x800",
    "cna:handoff_range=0x400", "cna:handoff_range=0x200", "cna:handoff_range=0x100",
    /* the same with Linux v15's rule for few waiters */
    "cna:shuffle_reduction=128", "cna:shuffle_reduction=128,handoff_range=0x1000",
    "cna:shuffle_reduction=128,handoff_range=0x100",
    /* bounds */
    "cna:deadline=1ms", "cna:deadline=100us", "cna:deadline=25us", "cna:max_bypass=100",
    /* pure spinning */
    "ttas:wait=spin", "ticket:wait=spin", "mcs:wait=spin", "cna:wait=spin"};

static const char *const locks_between_processes[] = {"pthread",
                                                      "mcs",
                                                      "cna:handoff_range=0x10000",
                                                      "cna:handoff_range=0x1000",
                                                      "cna:handoff_range=0x800",
                                                      "cna:handoff_range=0x400",
                                                      "cna:handoff_range=0x200",
                                                      "cna:handoff_range=0x100",
                                                      "cna:deadline=1ms",
                                                      "cna:deadline=100us",
                                                      "cna:deadline=25us"};

void mwrl_fail(int status, const char *what, const char *why) {
  fprintf(stderr, "maru: maru-bench-lock: %s: %s\n", what, why);
  exit(status);
}

/* ---- one lock -------------------------------------------------------------- */

static void print(struct mr_json *json, const char *lock, const struct result *result) {
  const struct histogram *waits = &result->waits;
  mr_json_object(json, NULL);
  mr_json_text(json, "lock", lock);
  mr_json_bool(json, "finished", result->finished);
  if (result->finished) {
    mr_json_real(json, "seconds", result->seconds, 6);
    mr_json_whole(json, "operations", result->renames);
    mr_json_real(json, "per_second", (double)result->renames / result->seconds, 1);
    mr_json_object(json, "wait_ns");
    mr_json_real(json, "p50", mwrl_quantile(waits, 0.5), 0);
    mr_json_real(json, "p99", mwrl_quantile(waits, 0.99), 0);
    mr_json_real(json, "p99_9", mwrl_quantile(waits, 0.999), 0);
    mr_json_real(json, "p99_99", mwrl_quantile(waits, 0.9999), 0);
    mr_json_whole(json, "max", waits->largest);
    mr_json_real(json, "cvar_1", mwrl_mean_of_worst(waits), 0);
    mr_json_end_object(json);
    mr_json_real(json, "jain", result->jain, 4);
    mr_json_real(json, "waited", mwrl_share_above(waits, 1000), 4);
    mr_json_whole(json, "longest_overtaken", result->overtaken);
    mr_json_whole(json, "handoffs", result->counts.handoffs);
    mr_json_whole(json, "left_socket", result->counts.left_socket);
    mr_json_whole(json, "longest_bypass", result->counts.longest_bypass);
  }
  mr_json_end_object(json);
}

/* False: its process failed, and has said so. */
static bool run(struct mr_json *json, const char *lock, const struct maru_lock_options *options,
                const struct plan *plan) {
  struct result *result =
      mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (result == MAP_FAILED)
    mwrl_fail(70, "measuring", strerror(errno));
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0)
    mwrl_fail(70, "fork", strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever is ended ends its run, too */
    alarm((unsigned)plan->seconds + LATE);
    mwrl_measure(options, plan, result);
    _exit(0);
  }
  int status;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      mwrl_fail(70, "waitpid", strerror(errno));
  bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  bool good = late || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (good)
    print(json, lock, result);
  else if (WIFSIGNALED(status))
    fprintf(stderr, "maru: maru-bench-lock: measuring %s: killed by signal %d\n", lock,
            WTERMSIG(status));
  munmap(result, sizeof *result);
  return good;
}

/* ---- the command ------------------------------------------------------------ */

static struct maru_lock_options *read_locks(const char *const *locks, int count, bool processes) {
  struct maru_lock_options *options = calloc((size_t)count, sizeof *options);
  void *scratch = processes ? mwrl_memory(false, maru_shared_lock_size()) : NULL;
  const char *wrong;
  if (options == NULL)
    mwrl_fail(70, "reading the locks", strerror(ENOMEM));
  for (int i = 0; i < count; i++) {
    if (maru_lock_options_parse(&options[i], locks[i], &wrong) < 0) {
      fprintf(stderr, "maru: maru-bench-lock: no such lock: '%s', at '%s'\n", locks[i], wrong);
      exit(MR_USAGE);
    }
    if (processes && maru_shared_lock_init(scratch, &options[i]) < 0)
      mwrl_fail(MR_USAGE, "not a lock between processes", locks[i]);
  }
  free(scratch);
  return options;
}

/* What the locks mean by a socket: the CPUs that share a last-level cache. */
static unsigned count_sockets(const struct maru_topology *topology) {
  unsigned sockets = 0;
  for (uint32_t i = 0; i < topology->cpu_count; i++) {
    uint32_t first = 0;
    while (topology->cpus[first].llc != topology->cpus[i].llc)
      first++;
    sockets += first == i;
  }
  return sockets;
}

/* Unless the machine has several, or MARU_TOPOLOGY says what it has. */
static void imagine_sockets(const char *shape) {
  struct maru_topology topology;
  char text[64];
  const char *given = getenv(MARU_TOPOLOGY_ENV);
  if (given != NULL && (given = strdup(given)) == NULL)
    mwrl_fail(70, "reading the topology", strerror(ENOMEM));
  int rc = maru_topology_read(&topology);
  if (rc < 0)
    mwrl_fail(given != NULL ? MR_USAGE : 70, "reading the topology", strerror(-rc));
  bool several = count_sockets(&topology) > 1;
  maru_topology_free(&topology);
  int length = snprintf(text, sizeof text, "virtual:%s", shape);
  setenv(MARU_TOPOLOGY_ENV, text, 1);
  if (length >= (int)sizeof text || maru_topology_read(&topology) < 0)
    mwrl_fail(MR_USAGE, "no such shape (SxC)", shape);
  maru_topology_free(&topology);
  if (given != NULL)
    setenv(MARU_TOPOLOGY_ENV, given, 1);
  else if (several)
    unsetenv(MARU_TOPOLOGY_ENV);
  free((char *)given);
}

static void print_head(struct mr_json *json, const struct plan *plan) {
  struct maru_topology topology;
  int rc = maru_topology_read(&topology);
  if (rc < 0)
    mwrl_fail(MR_USAGE, MARU_TOPOLOGY_ENV, strerror(-rc));
  mr_json_text(json, "schema", "maru-bench-lock/1");
  mr_json_text(json, "workload", "mwrl");
  mr_json_whole(json, "threads", plan->threads);
  mr_json_bool(json, "processes", plan->processes);
  mr_json_real(json, "pause_us", (double)plan->pause_ns / 1e3, 3);
  mr_json_whole(json, "cpus", topology.allowed_count);
  mr_json_whole(json, "sockets", count_sockets(&topology));
  mr_json_bool(json, "virtual", topology.virtual_machine);
  maru_topology_free(&topology);
}

struct request {
  struct plan plan;
  bool list; /* of locks is all that is wanted */
  int first; /* argument that is a lock */
};

static void read_request(struct request *request, int argc, char **argv) {
  int64_t threads = 24;
  double pause_us = 0;
  const char *sockets = NULL;
  const struct mr_option options[] = {
      {"-t", MR_WHOLE, &threads, "threads", 1, THREADS_MAX},
      {"-s", MR_REAL, &request->plan.seconds, "seconds", 0.01, SECONDS_MAX},
      {"-w", MR_REAL, &pause_us, "microseconds", 0, PAUSE_MAX_US},
      {"-p", MR_FLAG, &request->plan.processes, NULL, 0, 0},
      {"-v", MR_TEXT, &sockets, NULL, 0, 0},
      {"-l", MR_FLAG, &request->list, NULL, 0, 0},
  };
  request->first =
      mr_arguments("maru-bench-lock", options, sizeof options / sizeof *options, argc, argv);
  request->plan.threads = (unsigned)threads;
  request->plan.pause_ns = (int64_t)(1e3 * pause_us);
  if (sockets != NULL)
    imagine_sockets(sockets);
}

int main(int argc, char **argv) {
  struct request request = {.plan.seconds = 1};
  read_request(&request, argc, argv);
  const struct plan *plan = &request.plan;
  const char *const *locks = plan->processes ? locks_between_processes : all_locks;
  int count = plan->processes ? sizeof locks_between_processes / sizeof *locks_between_processes
                              : sizeof all_locks / sizeof *all_locks;
  if (request.list) {
    for (int i = 0; i < count; i++)
      puts(locks[i]);
    return 0;
  }
  if (request.first < argc) {
    locks = (const char *const *)argv + request.first;
    count = argc - request.first;
  }
  struct maru_lock_options *options = read_locks(locks, count, plan->processes);
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  print_head(&json, plan);
  mr_json_array(&json, "runs");
  for (int i = 0; i < count; i++)
    if (!run(&json, locks[i], &options[i], plan))
      return 70;
  mr_json_end_array(&json);
  mr_json_end_object(&json);
  putchar('\n');
  free(options);
  return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 70;
}
