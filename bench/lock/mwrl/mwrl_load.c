/* mwrl_load.c: the load itself; see mwrl.c. */
#define _GNU_SOURCE
#include "mwrl_load.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUCKETS 1024 /* of the table of names */
#define NAME 48

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
static void load_take(struct table *table, struct maru_hold *hold) {
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
  load_take(table, &hold);
  uint64_t waited = (uint64_t)(maru_now_ns() - asked);
  uint64_t passed = atomic_load_explicit(&table->sequence, memory_order_relaxed) / 2 - before;
  move_entry(table, entry, hash, new);
  give(table, &hold);
  mwrl_note(&self->waits, waited);
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
  load_take(table, &hold);
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

static void sum_up(struct result *result, const struct worker *workers, unsigned threads) {
  double sum = 0, squares = 0;
  for (unsigned i = 0; i < threads; i++) {
    double renames = (double)workers[i].renames;
    sum += renames;
    squares += renames * renames;
    result->renames += workers[i].renames;
    if (workers[i].overtaken > result->overtaken)
      result->overtaken = workers[i].overtaken;
    mwrl_merge(&result->waits, &workers[i].waits);
  }
  result->jain = squares > 0 ? sum * sum / (threads * squares) : 0;
}

void *mwrl_memory(bool shared, size_t size) {
  void *memory = NULL;
  if (shared)
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  else if ((memory = aligned_alloc(64, (size + 63) / 64 * 64)) != NULL)
    memset(memory, 0, size);
  if (memory == NULL || memory == MAP_FAILED)
    mwrl_fail(70, "measuring", strerror(ENOMEM));
  return memory;
}

static void make_lock(struct table *table, const struct maru_lock_options *options,
                      const struct plan *plan) {
  int rc;
  if (plan->processes) {
    void *memory = mwrl_memory(true, maru_shared_lock_size());
    rc = maru_shared_lock_init(memory, options);
    if (rc == 0)
      rc = maru_shared_lock_attach(&table->shared, memory);
  } else
    rc = maru_lock_create(&table->lock, options);
  if (rc < 0)
    mwrl_fail(70, "making the lock", strerror(-rc));
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
    mwrl_fail(70, "starting a worker", strerror(error));
}

static void await_end(const struct worker *worker) {
  int status;
  if (worker->process == 0)
    pthread_join(worker->thread, NULL);
  else if (waitpid(worker->process, &status, 0) < 0 || status != 0)
    mwrl_fail(70, "a worker", "its process did not come to its end");
}

void mwrl_measure(const struct maru_lock_options *options, const struct plan *plan,
                  struct result *result) {
  struct table *table = mwrl_memory(plan->processes, sizeof *table);
  struct worker *workers = mwrl_memory(plan->processes, plan->threads * sizeof *workers);
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
  load_take(table, &hold);
  if (plan->processes)
    maru_shared_lock_counts(table->shared, &result->counts);
  else
    maru_lock_counts(table->lock, &result->counts);
  give(table, &hold);
  result->finished = true;
}
