/* maru-bench-lock: a lock under the load of FxMark's MWRL, in user space.  Prints JSON.
 *
 *     maru-bench-lock [-t THREADS] [-s SECONDS] [-w MICROSECONDS] [-p] [-v SxC] [-l] [LOCK...]
 *                                                                 default: 24, 1, 0, all
 *
 * MWRL: each process renames its one file within its own directory, again and again; in
 * the kernel all meet at rename_lock.  Here each thread has one name in one table; a
 * rename formats the old and the new name and hashes them outside of the lock, and under it
 * moves the entry from one bucket to another between two steps of a sequence number.
 * -w: so long a thread computes between two renames; without it the lock is saturated.  `waited`:
 * the share of the requests that waited for more than 1 us.  -p: processes instead of threads, the
 * table in memory that they share, and the locks that serve between processes.
 * LOCK is as maru/lock.h reads it; -l prints the default list.  -v: on a machine with one
 * socket, threads are told that they are on one of S (MARU_TOPOLOGY=virtual:SxC): then the
 * locks do what they would do there, and nothing costs what it would.
 *
 * Waits are timed from the request to the acquisition, so two looks at the clock are part of
 * every operation.  `overtaken`: acquisitions by others between a request and its own; one
 * that loses its CPU before it has queued is overtaken under any lock.
 * Each lock is measured in a process of its own, which is killed when it has not ended
 * LATE seconds after it was told to: spinning threads in a queue may not come to an end.
 */
#define _GNU_SOURCE
#include <maru/lock.h>
#include <maru/topology.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
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
#define BUCKETS 1024 /* of the table of names */
#define NAME 48
#define USAGE 64

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

/* What is measured, but for the lock. */
struct plan {
  unsigned threads; /* or processes */
  double seconds;
  int64_t pause_ns; /* between two renames */
  bool processes;
};

static _Noreturn void fail(int status, const char *what, const char *why) {
  fprintf(stderr, "maru: maru-bench-lock: %s: %s\n", what, why);
  exit(status);
}

/* ---- histogram ----------------------------------------------------------- */

/* Nanoseconds; from 256 on 128 classes an octave: the middle of a class is at most 0.4 %
 * off. */
#define CLASSES (256 + 56 * 128)

struct histogram {
  uint64_t counts[CLASSES];
  uint64_t total, largest;
};

static unsigned class_of(uint64_t value) {
  if (value < 256)
    return (unsigned)value;
  unsigned octave = 63 - (unsigned)__builtin_clzll(value);
  return 256 + (octave - 8) * 128 + (unsigned)(value >> (octave - 7) & 127);
}

static double middle_of(unsigned class) {
  if (class < 256)
    return class;
  unsigned octave = (class - 256) / 128 + 8;
  double width = (double)(UINT64_C(1) << (octave - 7));
  return (128 + (class - 256) % 128 + 0.5) * width;
}

static void note(struct histogram *histogram, uint64_t value) {
  histogram->counts[class_of(value)]++;
  histogram->total++;
  if (value > histogram->largest)
    histogram->largest = value;
}

static void merge(struct histogram *into, const struct histogram *from) {
  for (unsigned i = 0; i < CLASSES; i++)
    into->counts[i] += from->counts[i];
  into->total += from->total;
  if (from->largest > into->largest)
    into->largest = from->largest;
}

/* The value that a share of `part` is not above; no larger than the largest. */
static double quantile(const struct histogram *histogram, double part) {
  double wanted = part * (double)histogram->total, seen = 0;
  for (unsigned i = 0; i < CLASSES; i++) {
    seen += (double)histogram->counts[i];
    if (seen >= wanted && seen > 0)
      return middle_of(i) < (double)histogram->largest ? middle_of(i) : (double)histogram->largest;
  }
  return 0;
}

/* The mean of the largest hundredth (CVaR 1 %). */
static double mean_of_worst(const struct histogram *histogram) {
  double left = (double)histogram->total / 100, wanted = left, sum = 0;
  for (unsigned i = CLASSES; i-- > 0 && left > 0;) {
    double taken = (double)histogram->counts[i] < left ? (double)histogram->counts[i] : left;
    sum += taken * middle_of(i);
    left -= taken;
  }
  return wanted > 0 ? sum / wanted : 0;
}

static double share_above(const struct histogram *histogram, double limit) {
  uint64_t above = 0;
  for (unsigned i = CLASSES; i-- > 0 && middle_of(i) > limit;)
    above += histogram->counts[i];
  return histogram->total > 0 ? (double)above / (double)histogram->total : 0;
}

/* ---- the workload --------------------------------------------------------- */

struct entry {
  struct entry *next;
  uint64_t hash;
  char name[NAME];
};

struct table {
  struct maru_lock *lock;
  struct maru_shared_lock *shared; /* in its place between processes; else NULL */
  int64_t pause_ns;
  _Atomic uint32_t go; /* 2 once all may begin */
  _Atomic uint32_t stop;
  _Alignas(64) struct entry *buckets[BUCKETS];
  _Alignas(64) _Atomic uint64_t sequence; /* two steps a rename */
};

struct worker {
  struct table *table;
  unsigned number;
  pthread_t thread;
  pid_t process;      /* in its place, or 0 */
  struct entry entry; /* others walk over it until the last of them has ended */
  uint64_t renames, overtaken;
  struct histogram waits;
};

/* FNV-1a. */
static uint64_t hash_of(const char *name) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *name != '\0'; name++)
    hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
  return hash;
}

static struct entry **bucket_of(struct table *table, uint64_t hash) {
  return &table->buckets[hash % BUCKETS];
}

static void move_entry(struct table *table, struct entry *entry, uint64_t hash, const char *name) {
  /* Relaxed, and release at the end, as a sequence lock's writer; readers here only look how
   * far it has come. */
  uint64_t sequence = atomic_load_explicit(&table->sequence, memory_order_relaxed);
  atomic_store_explicit(&table->sequence, sequence + 1, memory_order_relaxed);
  struct entry **at = bucket_of(table, entry->hash);
  while (*at != entry)
    at = &(*at)->next;
  *at = entry->next;
  memcpy(entry->name, name, NAME);
  entry->hash = hash;
  at = bucket_of(table, hash);
  entry->next = *at;
  *at = entry;
  atomic_store_explicit(&table->sequence, sequence + 2, memory_order_release);
}

/* A process that died in here would have ended us. */
static void take(struct table *table, struct maru_hold *hold) {
  int rc = table->shared != NULL ? maru_shared_lock_acquire(table->shared)
                                 : maru_lock_acquire(table->lock, hold);
  if (rc < 0)
    abort(); /* out of memory */
}

static void give(struct table *table, struct maru_hold *hold) {
  if (table->shared == NULL)
    maru_lock_release(table->lock, hold);
  else if (maru_shared_lock_release(table->shared) < 0)
    abort();
}

static void rename_once(struct worker *self) {
  struct table *table = self->table;
  struct entry *entry = &self->entry;
  struct maru_hold hold;
  char old[NAME], new[NAME];
  snprintf(old, sizeof old, "%u/n_file_rename-%llu", self->number,
           (unsigned long long)self->renames);
  snprintf(new, sizeof new, "%u/n_file_rename-%llu", self->number,
           (unsigned long long)self->renames + 1);
  uint64_t hash = hash_of(new);
  if (hash_of(old) != entry->hash)
    abort();
  /* Relaxed, both looks: a count, no order. */
  uint64_t before = atomic_load_explicit(&table->sequence, memory_order_relaxed) / 2;
  int64_t asked = maru_now_ns();
  take(table, &hold);
  uint64_t waited = (uint64_t)(maru_now_ns() - asked);
  uint64_t passed = atomic_load_explicit(&table->sequence, memory_order_relaxed) / 2 - before;
  move_entry(table, entry, hash, new);
  give(table, &hold);
  note(&self->waits, waited);
  if (passed > self->overtaken)
    self->overtaken = passed;
  self->renames++;
}

static void compute(int64_t ns) {
  if (ns == 0)
    return;
  for (int64_t end = maru_now_ns() + ns; maru_now_ns() < end;)
    ;
}

static void *work(void *argument) {
  struct worker *self = argument;
  struct table *table = self->table;
  struct entry *entry = &self->entry;
  struct maru_hold hold;
  struct maru_wait_policy policy;
  snprintf(entry->name, sizeof entry->name, "%u/n_file_rename-0", self->number);
  entry->hash = hash_of(entry->name);
  maru_wait_policy_init(&policy, MARU_WAIT_BLOCK);
  take(table, &hold);
  entry->next = *bucket_of(table, entry->hash);
  *bucket_of(table, entry->hash) = entry;
  give(table, &hold);
  while (maru_wait(&table->go, 2, 2, &policy, MARU_WAIT_FOREVER) < 0)
    ; /* a signal */
  /* Relaxed: nothing is read that it announces. */
  while (!atomic_load_explicit(&table->stop, memory_order_relaxed)) {
    rename_once(self);
    compute(table->pause_ns);
  }
  return NULL;
}

/* ---- one lock -------------------------------------------------------------- */

struct result {
  bool finished;
  double seconds, jain;
  uint64_t renames, overtaken;
  struct histogram waits;
  struct maru_lock_counts counts;
};

static void sum_up(struct result *result, const struct worker *workers, unsigned threads) {
  double sum = 0, squares = 0;
  for (unsigned i = 0; i < threads; i++) {
    double renames = (double)workers[i].renames;
    sum += renames;
    squares += renames * renames;
    result->renames += workers[i].renames;
    if (workers[i].overtaken > result->overtaken)
      result->overtaken = workers[i].overtaken;
    merge(&result->waits, &workers[i].waits);
  }
  result->jain = squares > 0 ? sum * sum / (threads * squares) : 0;
}

/* Zeroes; of a cache line's alignment. */
static void *memory_of(bool shared, size_t size) {
  void *memory = NULL;
  if (shared)
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  else if ((memory = aligned_alloc(64, (size + 63) / 64 * 64)) != NULL)
    memset(memory, 0, size);
  if (memory == NULL || memory == MAP_FAILED)
    fail(70, "measuring", strerror(ENOMEM));
  return memory;
}

static void make_lock(struct table *table, const struct maru_lock_options *options,
                      const struct plan *plan) {
  int rc;
  if (plan->processes) {
    void *memory = memory_of(true, maru_shared_lock_size());
    rc = maru_shared_lock_init(memory, options);
    if (rc == 0)
      rc = maru_shared_lock_attach(&table->shared, memory);
  } else
    rc = maru_lock_create(&table->lock, options);
  if (rc < 0)
    fail(70, "making the lock", strerror(-rc));
}

static void start(struct worker *worker, bool process) {
  int error = 0;
  pid_t parent = getpid();
  pid_t child = process ? fork() : -1;
  if (!process)
    error = pthread_create(&worker->thread, NULL, work, worker);
  else if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever is ended ends its workers, too */
    if (getppid() == parent)
      work(worker);
    _exit(0);
  } else if (child < 0)
    error = errno;
  else
    worker->process = child; /* by the parent alone: a child that wrote there would write its 0 */
  if (error != 0)
    fail(70, "starting a worker", strerror(error));
}

static void await_end(const struct worker *worker) {
  int status;
  if (worker->process == 0)
    pthread_join(worker->thread, NULL);
  else if (waitpid(worker->process, &status, 0) < 0 || status != 0)
    fail(70, "a worker", "its process did not come to its end");
}

/* In a process of its own. */
static void measure(const struct maru_lock_options *options, const struct plan *plan,
                    struct result *result) {
  struct table *table = memory_of(plan->processes, sizeof *table);
  struct worker *workers = memory_of(plan->processes, plan->threads * sizeof *workers);
  struct maru_hold hold;
  make_lock(table, options, plan);
  table->pause_ns = plan->pause_ns;
  for (unsigned i = 0; i < plan->threads; i++) {
    workers[i].table = table;
    workers[i].number = i;
    start(&workers[i], plan->processes);
  }
  int64_t begin = maru_now_ns();
  maru_notify_store(&table->go, 2);
  usleep((useconds_t)(plan->seconds * 1e6));
  atomic_store_explicit(&table->stop, 1, memory_order_relaxed);
  for (unsigned i = 0; i < plan->threads; i++)
    await_end(&workers[i]);
  result->seconds = (double)(maru_now_ns() - begin) / 1e9;
  sum_up(result, workers, plan->threads);
  take(table, &hold);
  if (plan->processes)
    maru_shared_lock_counts(table->shared, &result->counts);
  else
    maru_lock_counts(table->lock, &result->counts);
  give(table, &hold);
  result->finished = true;
}

static void print(const char *lock, const struct result *result, bool last) {
  if (!result->finished) {
    printf("    {\"lock\": \"%s\", \"finished\": false}%s\n", lock, last ? "" : ",");
    return;
  }
  const struct histogram *waits = &result->waits;
  printf("    {\"lock\": \"%s\", \"finished\": true, \"seconds\": %.6f, \"operations\": %llu, "
         "\"per_second\": %.1f,\n     \"wait_ns\": {\"p50\": %.0f, \"p99\": %.0f, "
         "\"p99_9\": %.0f, \"p99_99\": %.0f, \"max\": %llu, \"cvar_1\": %.0f},\n"
         "     \"jain\": %.4f, \"waited\": %.4f, \"longest_overtaken\": %llu, \"handoffs\": %llu, "
         "\"left_socket\": %llu, \"longest_bypass\": %llu}%s\n",
         lock, result->seconds, (unsigned long long)result->renames,
         (double)result->renames / result->seconds, quantile(waits, 0.5), quantile(waits, 0.99),
         quantile(waits, 0.999), quantile(waits, 0.9999), (unsigned long long)waits->largest,
         mean_of_worst(waits), result->jain, share_above(waits, 1000),
         (unsigned long long)result->overtaken, (unsigned long long)result->counts.handoffs,
         (unsigned long long)result->counts.left_socket,
         (unsigned long long)result->counts.longest_bypass, last ? "" : ",");
}

/* False: its process failed, and has said so. */
static bool run(const char *lock, const struct maru_lock_options *options, const struct plan *plan,
                bool last) {
  struct result *result =
      mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (result == MAP_FAILED)
    fail(70, "measuring", strerror(errno));
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0)
    fail(70, "fork", strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever is ended ends its run, too */
    alarm((unsigned)plan->seconds + LATE);
    measure(options, plan, result);
    _exit(0);
  }
  int status;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      fail(70, "waitpid", strerror(errno));
  bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  bool good = late || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (good)
    print(lock, result, last);
  else if (WIFSIGNALED(status))
    fprintf(stderr, "maru: maru-bench-lock: measuring %s: killed by signal %d\n", lock,
            WTERMSIG(status));
  munmap(result, sizeof *result);
  return good;
}

/* ---- the command ------------------------------------------------------------ */

static double read_number(const char *text, double least, double most, const char *what) {
  char *end;
  double number = strtod(text, &end);
  if (end == text || *end != '\0' || !(number >= least && number <= most))
    fail(USAGE, what, text);
  return number;
}

static unsigned read_whole(const char *text, unsigned most, const char *what) {
  double number = read_number(text, 1, most, what);
  if (number != (unsigned)number)
    fail(USAGE, what, text);
  return (unsigned)number;
}

static struct maru_lock_options *read_locks(const char *const *locks, int count, bool processes) {
  struct maru_lock_options *options = calloc((size_t)count, sizeof *options);
  void *scratch = processes ? memory_of(false, maru_shared_lock_size()) : NULL;
  const char *wrong;
  if (options == NULL)
    fail(70, "reading the locks", strerror(ENOMEM));
  for (int i = 0; i < count; i++) {
    if (maru_lock_options_parse(&options[i], locks[i], &wrong) < 0) {
      fprintf(stderr, "maru: maru-bench-lock: no such lock: '%s', at '%s'\n", locks[i], wrong);
      exit(USAGE);
    }
    if (processes && maru_shared_lock_init(scratch, &options[i]) < 0)
      fail(USAGE, "not a lock between processes", locks[i]);
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
    fail(70, "reading the topology", strerror(ENOMEM));
  int rc = maru_topology_read(&topology);
  if (rc < 0)
    fail(given != NULL ? USAGE : 70, "reading the topology", strerror(-rc));
  bool several = count_sockets(&topology) > 1;
  maru_topology_free(&topology);
  int length = snprintf(text, sizeof text, "virtual:%s", shape);
  setenv(MARU_TOPOLOGY_ENV, text, 1);
  if (length >= (int)sizeof text || maru_topology_read(&topology) < 0)
    fail(USAGE, "no such shape (SxC)", shape);
  maru_topology_free(&topology);
  if (given != NULL)
    setenv(MARU_TOPOLOGY_ENV, given, 1);
  else if (several)
    unsetenv(MARU_TOPOLOGY_ENV);
  free((char *)given);
}

static void print_head(const struct plan *plan) {
  struct maru_topology topology;
  int rc = maru_topology_read(&topology);
  if (rc < 0)
    fail(USAGE, MARU_TOPOLOGY_ENV, strerror(-rc));
  printf("{\"schema\": \"maru-bench-lock/1\", \"workload\": \"mwrl\", \"threads\": %u, "
         "\"processes\": %s, \"pause_us\": %g,\n  \"cpus\": %u, \"sockets\": %u, "
         "\"virtual\": %s, \"runs\": [\n",
         plan->threads, plan->processes ? "true" : "false", (double)plan->pause_ns / 1e3,
         topology.allowed_count, count_sockets(&topology),
         topology.virtual_machine ? "true" : "false");
  maru_topology_free(&topology);
}

/* True: the list of locks is all that is wanted. */
static bool read_plan(struct plan *plan, int argc, char **argv) {
  bool list = false;
  int option;
  opterr = 0; /* we say it */
  while ((option = getopt(argc, argv, "t:s:w:v:lp")) != -1)
    if (option == 't')
      plan->threads = read_whole(optarg, THREADS_MAX, "threads");
    else if (option == 's')
      plan->seconds = read_number(optarg, 0.01, SECONDS_MAX, "seconds");
    else if (option == 'w')
      plan->pause_ns = (int64_t)(1e3 * read_number(optarg, 0, PAUSE_MAX_US, "microseconds"));
    else if (option == 'p')
      plan->processes = true;
    else if (option == 'v')
      imagine_sockets(optarg);
    else if (option == 'l')
      list = true;
    else {
      char name[] = {'-', (char)optopt, '\0'};
      fail(USAGE, "no such option, or it lacks its value", name);
    }
  return list;
}

int main(int argc, char **argv) {
  struct plan plan = {.threads = 24, .seconds = 1};
  bool list = read_plan(&plan, argc, argv);
  const char *const *locks = plan.processes ? locks_between_processes : all_locks;
  int count = plan.processes ? sizeof locks_between_processes / sizeof *locks_between_processes
                             : sizeof all_locks / sizeof *all_locks;
  if (list) {
    for (int i = 0; i < count; i++)
      puts(locks[i]);
    return 0;
  }
  if (optind < argc) {
    locks = (const char *const *)argv + optind;
    count = argc - optind;
  }
  struct maru_lock_options *options = read_locks(locks, count, plan.processes);
  print_head(&plan);
  for (int i = 0; i < count; i++)
    if (!run(locks[i], &options[i], &plan, i == count - 1))
      return 70;
  puts("  ]}");
  free(options);
  return 0;
}
