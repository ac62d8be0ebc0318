/* lock.c: the start of libmaru-lock.so and libmaru-lock-profile.so, one of which `maru run
 * --lock` puts before a program's libraries, and pthread_mutex_init, to count what is left to
 * glibc: no static initialiser makes such a mutex. */
#define _GNU_SOURCE
#include "lock.h"
#include "policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Maru.Cli.Room.Lock.Overlay reads these places. */
_Static_assert(offsetof(struct maru_overlay, name) == 64 &&
                   offsetof(struct maru_overlay, initialised) == 96 &&
                   offsetof(struct maru_overlay, counts) == 256 &&
                   sizeof(struct maru_overlay_counts) == 64,
               "the section's layout");

static struct mr_preload preload;

/* ---- start ------------------------------------------------------------- */

/* Memory that a fork of any kind leaves zero in the child. */
static void *wiped(size_t size) {
  void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return NULL;
  if (madvise(page, size, MADV_WIPEONFORK) == 0)
    return page;
  munmap(page, size);
  return NULL;
}

static void show_knobs(const struct mr_policy *policy) {
  struct maru_overlay_knobs *knobs = &mr_overlay.board->knobs;
  if (atomic_load_explicit(&knobs->handoff_range, memory_order_acquire) != 0)
    return; /* another process of the run has, or somebody has changed them since */
  const struct maru_lock_options *options = &mr_overlay.options;
  strncpy(mr_overlay.board->name, policy->name, sizeof mr_overlay.board->name - 1);
  atomic_store_explicit(&knobs->shuffle_reduction, options->shuffle_reduction,
                        memory_order_relaxed);
  atomic_store_explicit(&knobs->passes, options->passes, memory_order_relaxed);
  atomic_store_explicit(&knobs->deadline_ns, options->deadline_ns, memory_order_relaxed);
  atomic_store_explicit(&knobs->max_bypass, options->max_bypass, memory_order_relaxed);
  atomic_store_explicit(&knobs->patience_ns, MR_OVERLAY_PATIENCE_NS, memory_order_relaxed);
  /* Release: it says that the others are there. */
  atomic_store_explicit(&knobs->handoff_range, options->handoff_range, memory_order_release);
}

/* NULL: the overlay may be turned on; else why not. */
static const char *prepare(const struct mr_policy *policy) {
  static struct mr_place place;
  const char *otherwise = mr_glibc_check();
  if (otherwise != NULL)
    return otherwise;
  /* The process's words, and its mutexes' turns behind them. */
  char *both = wiped(MR_PROCESS_BYTES + MR_OVERLAY_TURNS * sizeof *mr_overlay.turns);
  if (both == NULL)
    return "the kernel cannot wipe a page at a fork";
  mr_overlay.process = (void *)both;
  mr_overlay.turns = (void *)(both + MR_PROCESS_BYTES);
  if (mr_waiting_init(&mr_overlay.waiting, mr_overlay.options.wait, mr_overlay.options.spin_ns) < 0)
    return "this way to wait does not exist";
  if (policy->places && mr_place_read(&place) < 0)
    return "the topology cannot be read";
  mr_overlay.place = policy->places ? &place : NULL;
  mr_overlay.order = policy->order;
  mr_overlay.shuffles = policy->shuffles;
  return NULL;
}

static void turn_on(void) {
  /* Release: all that was prepared. */
  atomic_store_explicit(&mr_overlay.off, 0, memory_order_release);
}

static void pass_through(const char *why) {
  atomic_fetch_add_explicit(&mr_overlay.board->passing, 1, memory_order_relaxed);
  mr_preload_warn(&preload, &mr_overlay.board->warned,
                  "process %d keeps glibc's mutexes as they are: %s", (int)getpid(), why);
}

static void lock_begin(void) {
  const struct mr_policy *policy;
  const char *wrong, *text = getenv(MARU_OVERLAY_ENV);
  mr_glibc_start();
  mr_preload_start(&preload, "lock");
  void *section = mr_preload_section(&preload, MARU_OVERLAY_SECTION, MARU_OVERLAY_VERSION,
                                     sizeof(struct maru_overlay));
  if (section != NULL)
    mr_overlay.board = section;
  mr_overlay.waits = mr_preload_section(&preload, MARU_OVERLAY_WAITS_SECTION,
                                        MARU_OVERLAY_WAITS_VERSION, sizeof *mr_overlay.waits);
  atomic_fetch_add_explicit(&mr_overlay.board->processes, 1, memory_order_relaxed);
  if (text == NULL || mr_policy_read(text, &policy, &mr_overlay.options, &wrong) < 0) {
    pass_through(text == NULL ? MARU_OVERLAY_ENV " is not set"
                              : MARU_OVERLAY_ENV " names no policy; `maru run --lock` sets it");
    return;
  }
  const char *otherwise = prepare(policy);
  mr_calls_start(&preload, otherwise == NULL);
  show_knobs(policy);
  if (otherwise != NULL)
    pass_through(otherwise);
  else if (policy->queues)
    turn_on();
}

/* Reading the machine's topology asks for files that are not everywhere; programs find errno as 0.
 */
__attribute__((constructor)) static void start(void) {
  int kept = errno;
  lock_begin();
  errno = kept;
}

/* ---- what is left to glibc --------------------------------------------------- */

/* In the order of enum maru_overlay_left. */
static const int marks[MARU_LEFT_KINDS] = {MR_GLIBC_ROBUST, MR_GLIBC_INHERIT, MR_GLIBC_PROTECT,
                                           MR_GLIBC_SHARED};

MR_EXPORT int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
  int rc = mr_glibc_init(mutex, attributes);
  if (rc != 0)
    return rc;
  /* Relaxed: figures. */
  atomic_fetch_add_explicit(&mr_overlay.board->initialised, 1, memory_order_relaxed);
  for (int left = 0; left < MARU_LEFT_KINDS; left++)
    if (mr_glibc_kind(mutex) & marks[left]) {
      atomic_fetch_add_explicit(&mr_overlay.board->left[left], 1, memory_order_relaxed);
      break;
    }
  return 0;
}
