/* Description: what the profile of mutexes records of known work is exact; what it has no room for
 * is counted; it outlives threads and processes.
 *
 * Over 500 lines: a list of cases, each of which stands alone, over one small set of helpers. */
#define _GNU_SOURCE
#include "../preload/fairness.h"
#include "../preload/profile.h"

#include "check.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define THREADS 6
#define ROUNDS 20000
#define SITE(n) ((const void *)(uintptr_t)(0x1000 + 16 * (n)))

static struct mr_profile profile;
static struct maru_overlay_waits *waits;
static struct maru_lockprof *board;

static uint64_t nowhere(struct maru_lockprof *of, const void *address) {
  (void)of;
  (void)address;
  return 0;
}

/* A new board, and a word that a fork wipes. */
static void begin(void) {
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  waits = mmap(NULL, sizeof *waits, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(board != MAP_FAILED && waits != MAP_FAILED && page != MAP_FAILED);
  CHECK(madvise(page, 4096, MADV_WIPEONFORK) == 0);
  mr_profile_leave(&profile);
  profile = (struct mr_profile){
      .records = {.board = board, .locate = nowhere}, .waits = waits, .process = page};
  mr_profile_init(&profile);
}

static void end(void) {
  mr_profile_leave(&profile);
  (void)mr_profile_give_key(&profile);
  munmap(board, sizeof *board);
  munmap(waits, sizeof *waits);
}

/* ---- what a reader does ---------------------------------------------------- */

struct sums {
  uint64_t acquisitions, contended, reacquired, timed_out, unmatched;
  uint64_t holds, waits, classes_held, classes_waited, octaves_lost, bypass, near, far, others;
  uint64_t holds_timed;
};

static uint64_t in_classes(const struct maru_lockprof_times *times) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < MARU_HISTOGRAM_OCTAVES; i++)
    for (unsigned j = 0; times->octaves[i] != 0 && j < MARU_OCTAVE_CLASSES; j++)
      sum += board->octave[times->octaves[i] - 1][j];
  return sum;
}

static void add(struct sums *sums, const struct maru_lockprof_row *row) {
  const struct maru_lockprof_times *held = &row->times[MARU_LOCKPROF_HOLD];
  const struct maru_lockprof_times *waited = &row->times[MARU_LOCKPROF_WAIT];
  sums->acquisitions += row->acquisitions;
  sums->contended += row->contended;
  sums->reacquired += row->reacquired;
  sums->timed_out += row->timed_out;
  sums->near += row->near;
  sums->far += row->far;
  sums->bypass = row->longest_bypass > sums->bypass ? row->longest_bypass : sums->bypass;
  sums->holds += held->count;
  sums->holds_timed += held->samples;
  sums->waits += waited->count;
  sums->classes_held += in_classes(held);
  sums->classes_waited += in_classes(waited);
  sums->octaves_lost += held->octaves_lost + waited->octaves_lost;
}

/* Of those that come first together one decides; the others' numbers stay unused. */
static uint32_t ours(void) { return MR_LOAD(*profile.process); }

/* Of a process (number + 1), a mutex and a site; NULL: any. */
static struct sums sum_of(uint32_t process, const void *mutex, const void *site) {
  struct sums sums = {0};
  for (unsigned t = 0; t < MARU_LOCKPROF_THREADS && t < board->threads; t++) {
    struct maru_lockprof_thread *thread = &board->thread[t];
    if (thread->process != process)
      continue;
    sums.unmatched += thread->unmatched;
    sums.others += thread->others.acquisitions;
    if (mutex == NULL && site == NULL)
      add(&sums, &thread->others);
    const _Atomic uint32_t *table =
        thread->larger == 0 ? thread->table : board->larger[thread->larger - 1];
    for (unsigned i = 0; i < (thread->larger == 0 ? MARU_LOCKPROF_TABLE : MARU_LOCKPROF_LARGER);
         i++) {
      if (table[i] == 0)
        continue;
      struct maru_lockprof_row *row = &board->row[(table[i] & MARU_LOCKPROF_TABLE_ROW) - 1];
      if ((mutex == NULL || row->address == (uintptr_t)mutex) &&
          (site == NULL || row->called_from == (uintptr_t)site))
        add(&sums, row);
    }
  }
  return sums;
}

static uint64_t live_acquisitions(void) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < MARU_OVERLAY_WAITS_LINES; i++)
    sum += waits->lines[i].acquisitions;
  return sum;
}

/* ---- a mutex as the library takes it --------------------------------------- */

static void lock(pthread_mutex_t *mutex, const void *site) {
  struct mr_profile_wait wait = {.at = mr_profile_find(&profile, mutex, site, 0), .mutex = mutex};
  if (pthread_mutex_trylock(mutex) == 0) {
    mr_profile_got(&profile, wait.at, mutex);
    return;
  }
  mr_profile_wait(&profile, &wait);
  mr_profile_waited(&profile, &wait, pthread_mutex_lock(mutex));
}

static void unlock(pthread_mutex_t *mutex) {
  struct mr_profile_release release = mr_profile_release(&profile, mutex);
  pthread_mutex_unlock(mutex);
  mr_profile_released(&profile, &release);
}

/* Without a mutex: it is free. */
static void got(const void *mutex, const void *site) {
  mr_profile_got(&profile, mr_profile_find(&profile, mutex, site, 0), mutex);
}

static void released(const void *mutex) {
  struct mr_profile_release release = mr_profile_release(&profile, mutex);
  mr_profile_released(&profile, &release);
}

static void together(unsigned threads, void *(*run)(void *)) {
  pthread_t ids[64];
  for (unsigned i = 0; i < threads; i++)
    CHECK_EQUAL(pthread_create(&ids[i], NULL, run, (void *)(uintptr_t)i), 0);
  for (unsigned i = 0; i < threads; i++)
    pthread_join(ids[i], NULL);
}

/* ---- known work ------------------------------------------------------------- */

static pthread_mutex_t two[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static pthread_barrier_t all_there;

static void *works(void *number) {
  const struct timespec moment = {.tv_nsec = 1000000};
  pthread_barrier_wait(&all_there);
  for (unsigned i = 0; i < ROUNDS; i++) {
    pthread_mutex_t *mutex = &two[i % 2];
    lock(mutex, SITE(i % 3));
    if (i == (uintptr_t)number)
      nanosleep(&moment, NULL); /* so that others find it taken */
    unlock(mutex);
  }
  return NULL;
}

static void counts_known_work(void) {
  begin();
  mr_profile_attach(&profile); /* else two threads may make two processes of it, one unused */
  pthread_barrier_init(&all_there, NULL, THREADS);
  together(THREADS, works);
  pthread_barrier_destroy(&all_there);
  uint64_t contended = 0;
  for (unsigned m = 0; m < 2; m++)
    for (unsigned s = 0; s < 3; s++) {
      uint64_t expected = 0;
      for (unsigned i = 0; i < ROUNDS; i++)
        expected += i % 2 == m && i % 3 == s;
      struct sums sums = sum_of(ours(), &two[m], SITE(s));
      CHECK_EQUAL(sums.acquisitions, THREADS * expected);
      CHECK_EQUAL(sums.waits, sums.contended);
      CHECK_EQUAL(sums.classes_waited, sums.waits);
      CHECK_EQUAL(sums.classes_held, sums.holds);
      contended += sums.contended;
    }
  struct sums all = sum_of(ours(), NULL, NULL);
  CHECK_EQUAL(all.unmatched + all.others + all.octaves_lost + board->lost, 0);
  CHECK(contended > 0);
  CHECK_EQUAL(live_acquisitions(), THREADS * ROUNDS);
  CHECK_EQUAL(board->mutex[board->row[0].mutex].waiters, 0);
  uint64_t waited = 0;
  for (unsigned i = 0; i < MARU_OVERLAY_WAITS_LINES; i++)
    for (unsigned j = 0; j < MARU_HISTOGRAM_CLASSES; j++)
      waited += waits->lines[i].classes[j];
  CHECK_EQUAL(waited, contended);
  end();
}

static bool is_near(uint64_t found, uint64_t expected, uint64_t apart) {
  return found + apart >= expected && found <= expected + apart;
}

/* Two places in turn, as fast as can be: one in 64 of each is timed and counts for 64, whatever
 * repeats in the program.  The square of the standard deviation is n * 63; six of it. */
static void samples_without_bias(void) {
  const uint64_t each = 500 * 1000, apart = 6 * 5612;
  begin();
  for (uint64_t i = 0; i < 2 * each; i++) {
    got(SITE(i % 2), SITE(1));
    released(SITE(i % 2));
  }
  for (unsigned mutex = 0; mutex < 2; mutex++) {
    struct sums sums = sum_of(ours(), SITE(mutex), NULL);
    CHECK_EQUAL(sums.acquisitions, each);
    CHECK(is_near(sums.holds, each, apart));
    CHECK_EQUAL(sums.classes_held, sums.holds);
    CHECK(sums.holds_timed >= MARU_LOCKPROF_ALL && sums.holds_timed < each / 16);
  }
  end();
}

static void spin_ns(int64_t ns) {
  for (int64_t until = maru_now_ns() + ns; maru_now_ns() < until;)
    ;
}

/* Who pauses before one place and not before the other has the chance change between them. */
static void samples_at_any_pace(void) {
  const uint64_t rounds = 20 * 1000;
  begin();
  for (uint64_t i = 0; i < rounds; i++)
    for (unsigned site = 0; site < 16; site++) {
      if (site == 0)
        spin_ns(20000);
      got(SITE(0), SITE(site));
      released(SITE(0));
    }
  for (unsigned site = 0; site < 16; site++) {
    struct sums sums = sum_of(ours(), SITE(0), SITE(site));
    CHECK_EQUAL(sums.acquisitions, rounds);
    CHECK(is_near(sums.holds, rounds, 6 * 1123)); /* sqrt(n * 63), at most */
  }
  end();
}

static void times_holds(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  begin();
  uint64_t longest = 0;
  for (unsigned i = 0; i < 5; i++) {
    int64_t began = maru_now_ns();
    lock(&mutex, SITE(0));
    usleep(10000);
    unlock(&mutex);
    uint64_t took = (uint64_t)(maru_now_ns() - began);
    longest = took > longest ? took : longest;
  }
  const struct maru_lockprof_times *held = &board->row[0].times[MARU_LOCKPROF_HOLD];
  CHECK(held->count == 5 && held->samples == 5);
  CHECK(held->sum_ns >= 50000000 && held->longest_ns <= longest && held->longest_ns >= 10000000);
  CHECK_EQUAL(held->octaves[maru_histogram_class(10000000) / MARU_OCTAVE_CLASSES - 1], 0);
  end();
}

/* ---- threads and processes -------------------------------------------------- */

static void *once(void *unused) {
  got(SITE(0), SITE(1));
  released(SITE(0));
  return unused;
}

static void takes_slots_again(void) {
  begin();
  for (unsigned i = 0; i < 300; i++)
    together(1, once);
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(1)).acquisitions, 300);
  CHECK_EQUAL(board->threads, 1);
  CHECK_EQUAL(live_acquisitions(), 300);
  end();
}

static pthread_key_t last_key;

static void *thrice(void *unused) {
  for (int i = 0; i < 3; i++)
    once(unused);
  return unused;
}

static void locks_at_its_end(void *unused) { (void)thrice(unused); }

static void *ends_late(void *unused) {
  pthread_setspecific(last_key, &last_key);
  return once(unused);
}

/* The program's own destructors may run after ours. */
static void outlives_last_words(void) {
  begin();
  CHECK_EQUAL(pthread_key_create(&last_key, locks_at_its_end), 0);
  for (unsigned i = 0; i < 300; i++)
    together(1, ends_late);
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(1)).acquisitions, 1200);
  CHECK_EQUAL(live_acquisitions(), 1200);
  CHECK_EQUAL(board->threads, 1);
  CHECK_EQUAL(pthread_key_delete(last_key), 0);
  end();
}

/* The program wants all keys.  A thread that is joined may not be gone yet. */
static void gives_its_key(void) {
  static pthread_key_t keys[PTHREAD_KEYS_MAX];
  unsigned taken = 0;
  begin();
  together(1, once);
  while (taken < PTHREAD_KEYS_MAX && pthread_key_create(&keys[taken], NULL) == 0)
    taken++;
  CHECK(mr_profile_give_key(&profile) && !mr_profile_give_key(&profile));
  CHECK_EQUAL(pthread_key_create(&keys[taken++], NULL), 0);
  for (unsigned i = 0; i < 300; i++)
    together(1, thrice);
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(1)).acquisitions, 901);
  CHECK_EQUAL(live_acquisitions(), 901);
  CHECK(board->threads < 150);
  for (unsigned i = 0; i < taken; i++)
    CHECK(pthread_getspecific(keys[i]) == NULL && pthread_key_delete(keys[i]) == 0);
  end();
}

/* Those that came while there was a key: each locks `before` the program took it and `after`. */
#define EARLY 40u
struct early {
  unsigned before, after;
};
static pthread_barrier_t key_taken;

static void lock_often(unsigned times) {
  for (unsigned i = 0; i < times; i++)
    (void)once(NULL);
}

static void *comes_early(void *argument) {
  const struct early *early = argument;
  lock_often(early->before);
  pthread_barrier_wait(&key_taken);
  pthread_barrier_wait(&key_taken);
  lock_often(early->after);
  return NULL;
}

/* All at once. */
static void *comes_late(void *unused) {
  (void)once(unused);
  pthread_barrier_wait(&key_taken);
  return unused;
}

/* Of this process; who is joined may not be gone yet. */
static nlink_t threads_now(void) {
  struct stat status;
  CHECK_EQUAL(stat("/proc/self/task", &status), 0);
  return status.st_nlink;
}

/* Slow and fast ones, that lock again and that never do: their slots are free once they are gone,
 * and nothing that they counted is missing. */
static void frees_slots_without_its_key(void) {
  static pthread_key_t keys[PTHREAD_KEYS_MAX];
  static const struct early kinds[] = {{1, 0}, {3, 1}, {50000, 0}, {50000, 1}};
  pthread_t threads[EARLY];
  unsigned taken = 0, sum = 0;
  nlink_t others = threads_now();
  begin();
  CHECK_EQUAL(pthread_barrier_init(&key_taken, NULL, EARLY + 1), 0);
  for (unsigned i = 0; i < EARLY; i++) {
    const struct early *kind = &kinds[i % 4];
    CHECK_EQUAL(pthread_create(&threads[i], NULL, comes_early, (void *)kind), 0);
    sum += kind->before + kind->after;
  }
  pthread_barrier_wait(&key_taken);
  while (taken < PTHREAD_KEYS_MAX && pthread_key_create(&keys[taken], NULL) == 0)
    taken++;
  CHECK(mr_profile_give_key(&profile));
  pthread_barrier_wait(&key_taken);
  for (unsigned i = 0; i < EARLY; i++)
    CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  CHECK_EQUAL(board->threads, EARLY);
  for (unsigned i = 0; threads_now() > others; i++, usleep(1000))
    CHECK(i < 30000);
  CHECK_EQUAL(pthread_barrier_destroy(&key_taken), 0);
  CHECK_EQUAL(pthread_barrier_init(&key_taken, NULL, EARLY), 0);
  together(EARLY, comes_late);
  CHECK_EQUAL(board->threads, EARLY);
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(1)).acquisitions, sum + EARLY);
  CHECK_EQUAL(live_acquisitions(), sum + EARLY);
  for (unsigned i = 0; i < taken; i++)
    CHECK_EQUAL(pthread_key_delete(keys[i]), 0);
  CHECK_EQUAL(pthread_barrier_destroy(&key_taken), 0);
  end();
}

static struct maru_lockprof_thread *slot_of[EARLY];

static void *takes_a_slot(void *number) {
  pthread_barrier_wait(&key_taken);
  (void)once(NULL);
  slot_of[(uintptr_t)number] = mr_own.slot;
  pthread_barrier_wait(&key_taken);
  return NULL;
}

/* Of threads that look for free slots at the same moment no two have one. */
static void shares_no_slot(void) {
  begin();
  CHECK(mr_profile_give_key(&profile));
  CHECK_EQUAL(pthread_barrier_init(&key_taken, NULL, EARLY), 0);
  for (unsigned round = 0; round < 50; round++) {
    together(EARLY, takes_a_slot);
    for (unsigned i = 1; i < EARLY; i++)
      for (unsigned j = 0; j < i; j++)
        CHECK(slot_of[i] != slot_of[j]);
  }
  CHECK_EQUAL(pthread_barrier_destroy(&key_taken), 0);
  end();
}

static void *leaves(void *unused) {
  (void)once(unused);
  slot_of[0] = mr_own.slot;
  pthread_barrier_wait(&key_taken);
  pthread_barrier_wait(&key_taken);
  mr_profile_leave(&profile); /* as a destructor that runs while the key is given back */
  return NULL;
}

/* A thread ends while another one looks whether its slot is abandoned. */
static void leaves_what_is_looked_at(void) {
  pthread_t thread;
  begin();
  CHECK_EQUAL(pthread_barrier_init(&key_taken, NULL, 2), 0);
  CHECK_EQUAL(pthread_create(&thread, NULL, leaves, NULL), 0);
  pthread_barrier_wait(&key_taken);
  CHECK(mr_profile_give_key(&profile));
  CHECK_EQUAL(slot_of[0]->state, MARU_LOCKPROF_LEAVING);
  slot_of[0]->state = MARU_LOCKPROF_FREE;
  pthread_barrier_wait(&key_taken);
  usleep(20000);
  CHECK_EQUAL(slot_of[0]->state, MARU_LOCKPROF_FREE);
  slot_of[0]->state = MARU_LOCKPROF_LEAVING;
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  CHECK_EQUAL(slot_of[0]->state, MARU_LOCKPROF_LEFT);
  CHECK_EQUAL(pthread_barrier_destroy(&key_taken), 0);
  end();
}

#ifndef __SANITIZE_THREAD__ /* it cannot follow a fork */
static void outlives_processes(void) {
  begin();
  got(SITE(0), SITE(1));
  pid_t child = fork();
  if (child == 0) {
    for (unsigned i = 0; i < 100; i++) {
      got(SITE(0), SITE(1));
      released(SITE(0));
    }
    kill(getpid(), SIGKILL);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  released(SITE(0));
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).acquisitions, 1);
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).holds, 1);
  CHECK_EQUAL(sum_of(2, NULL, NULL).acquisitions, 100);
  CHECK_EQUAL(board->process[1].pid, child);
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).unmatched + sum_of(2, NULL, NULL).unmatched, 0);
  end();
}
#endif

/* ---- no room ------------------------------------------------------------------ */

/* One mutex and one site more after the other: its own table, then a larger one. */
static void grows(void) {
  begin();
  for (unsigned round = 0; round < 2; round++)
    for (unsigned i = 0; i < 13000; i++) {
      got(SITE(i), SITE(i + 1));
      released(SITE(i));
    }
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).acquisitions, 26000);
  CHECK_EQUAL(board->largers, 1);
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(1)).acquisitions, 2);
  CHECK_EQUAL(sum_of(ours(), SITE(12287), SITE(12288)).acquisitions, 2);
  CHECK_EQUAL(sum_of(ours(), SITE(12288), NULL).acquisitions, 0); /* its site alone is known */
  CHECK_EQUAL(sum_of(ours(), NULL, SITE(12289)).acquisitions, 2);
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).others, 0);
  end();
}

static void counts_others(void) {
  begin();
  board->largers = MARU_LOCKPROF_LARGERS;
  for (unsigned i = 0; i < 600; i++) { /* too many sites */
    got(SITE(0), SITE(i + 1));
    released(SITE(0));
  }
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).acquisitions, 600);
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).others, 600 - 512);
  CHECK_EQUAL(sum_of(ours(), SITE(0), NULL).acquisitions, 384);
  end();
  begin();
  board->largers = MARU_LOCKPROF_LARGERS;
  for (unsigned i = 0; i < 600; i++) { /* too many mutexes */
    got(SITE(i), SITE(1000));
    released(SITE(i));
  }
  CHECK_EQUAL(sum_of(ours(), NULL, SITE(1000)).acquisitions, 600);
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).others, 0);
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).unmatched, 0);
  end();
}

static void counts_what_is_lost(void) {
  begin();
  board->octaves = MARU_LOCKPROF_OCTAVES;
  got(SITE(0), SITE(1));
  released(SITE(0));
  struct sums sums = sum_of(ours(), NULL, NULL);
  CHECK(sums.holds == 1 && sums.octaves_lost == 1 && sums.classes_held == 0);
  end();
  begin();
  board->threads = MARU_LOCKPROF_THREADS;
  got(SITE(0), SITE(1));
  released(SITE(0));
  CHECK_EQUAL(board->lost, 1);
  end();
  begin();
  board->processes = MARU_LOCKPROF_PROCESSES;
  got(SITE(0), SITE(1));
  CHECK(board->lost == 1 && board->lost_processes == 1);
  end();
}

/* ---- holds ----------------------------------------------------------------------- */

static void follows_holds(void) {
  begin();
  got(SITE(0), SITE(100));
  got(SITE(1), SITE(100));
  released(SITE(0));
  CHECK_EQUAL(sum_of(ours(), SITE(1), NULL).holds, 0);
  released(SITE(1));
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(100)).holds, 1);
  CHECK_EQUAL(sum_of(ours(), SITE(1), NULL).holds, 1);
  released(SITE(3)); /* that another has taken */
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).holds, 2);
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).unmatched, 0);
  for (unsigned i = 0; i < MR_PROFILE_HOLDS + 1; i++)
    got(SITE(10 + i), SITE(100));
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).unmatched, 1); /* the oldest is forgotten */
  for (unsigned i = MR_PROFILE_HOLDS; i > 0; i--)
    released(SITE(10 + i));
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).holds, 2 + MR_PROFILE_HOLDS);
  got(SITE(0), SITE(100));
  got(SITE(0), SITE(100)); /* another has released it */
  released(SITE(0));
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).unmatched, 2);
  CHECK_EQUAL(sum_of(ours(), SITE(0), NULL).holds, 2);
  CHECK(!mr_profile_holds());
  end();
}

/* A condition variable: its wait ends one hold, its return begins another. */
static void follows_conditions(void) {
  begin();
  got(SITE(0), SITE(100));
  released(SITE(0));
  mr_profile_returned(&profile, mr_profile_find(&profile, SITE(0), SITE(101), 0), SITE(0));
  released(SITE(0));
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(100)).holds, 1);
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(101)).reacquired, 1);
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(101)).acquisitions, 1);
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(101)).holds, 1);
  end();
}

static void keeps_what_was_not_released(void) {
  begin();
  got(SITE(0), SITE(100));
  mr_profile_release(&profile, SITE(0)); /* and it fails */
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).holds, 0);
  released(SITE(0));
  CHECK_EQUAL(sum_of(ours(), NULL, NULL).holds, 1);
  end();
}

/* ---- who is passed, and by whom -------------------------------------------------- */

static void counts_bypasses(void) {
  static uint32_t socket_of[1] = {0};
  static const struct mr_place place = {
      .socket_of = socket_of, .cpus = 1, .sockets = 2, .imagined = true};
  begin();
  profile.place = &place;
  struct mr_profile_wait first = {.at = mr_profile_find(&profile, SITE(0), SITE(100), 0),
                                  .mutex = SITE(0)};
  struct mr_profile_wait second = first;
  got(SITE(0), SITE(101));
  mr_profile_wait(&profile, &first);
  mr_profile_wait(&profile, &second);
  for (unsigned i = 0; i < 3; i++) {
    released(SITE(0));
    got(SITE(0), SITE(101));
  }
  released(SITE(0));
  mr_profile_waited(&profile, &first, 0);
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(100)).bypass, 3);
  CHECK_EQUAL(sum_of(ours(), SITE(0), SITE(100)).near, 1);
  board->mutex[first.at.row->mutex].socket = 2;
  released(SITE(0));
  mr_profile_waited(&profile, &second, 0);
  /* Four have had it meanwhile, of which one had come before. */
  struct sums sums = sum_of(ours(), SITE(0), SITE(100));
  CHECK(sums.bypass == 3 && sums.far == 1 && sums.contended == 2 && sums.waits == 2);
  released(SITE(0));
  struct mr_profile_wait third = {.at = mr_profile_find(&profile, SITE(0), SITE(102), 0),
                                  .mutex = SITE(0)};
  mr_profile_wait(&profile, &third);
  mr_profile_waited(&profile, &third, ETIMEDOUT);
  sums = sum_of(ours(), SITE(0), SITE(102));
  CHECK(sums.timed_out == 1 && sums.acquisitions == 0 && sums.waits == 0);
  CHECK_EQUAL(board->mutex[first.at.row->mutex].waiters, 0);
  end();
}

#define MS UINT64_C(1000000)

/* Jain's index of windows whose content is known. */
static void knows_shares(void) {
  begin();
  struct maru_lockprof_fairness *fairness = &board->fairness[0];
  struct maru_lockprof_pace *one = &board->pace[0], *other = &board->pace[1];
  uint64_t now = 1000 * MS;
  for (unsigned i = 0; i < 200; i++) /* equal shares, two in each millisecond */
    mr_fairness_acquired(fairness, i % 2 ? one : other, now + i * MS / 4, 0);
  now += 50 * MS;
  uint64_t since = now;
  for (unsigned i = 0; i < 20; i++) /* one has all, the other waits */
    mr_fairness_acquired(fairness, one, now + i * MS, 0);
  mr_fairness_acquired(fairness, other, now + 20 * MS, since);
  now += 200 * MS; /* shuts all of it */
  for (unsigned i = 0; i < 2 * MARU_LOCKPROF_RING; i++)
    mr_fairness_acquired(fairness, one, now + i * MS, 0);
  const struct maru_lockprof_scale *scale = &fairness->scales[0];
  /* 50 of equal shares, 20 of a half each. */
  CHECK_EQUAL(scale->windows, 70);
  CHECK_EQUAL(scale->jain_ppm, 50 * 1000000 + 20 * 500000);
  CHECK_EQUAL(scale->least_ppm, 500000);
  CHECK_EQUAL(scale->late, 0);
  end();
}

static void keeps_a_course(void) {
  begin();
  struct maru_lockprof_fairness *fairness = &board->fairness[0];
  struct maru_lockprof_pace *one = &board->pace[0], *other = &board->pace[1];
  for (uint64_t i = 0; i < 1000; i++) {
    mr_fairness_acquired(fairness, one, i * 100 * MS, 0);
    mr_fairness_acquired(fairness, other, i * 100 * MS + MS, 0);
  }
  uint64_t sum = 0, windows = 0, jain = 0;
  for (unsigned i = 0; i < MARU_LOCKPROF_SERIES; i++) {
    sum += fairness->series[i].acquisitions;
    windows += fairness->series[i].windows;
    jain += fairness->series[i].jain_ppm;
  }
  /* Those that 64 younger ones have shut. */
  CHECK_EQUAL(fairness->step, 4);
  CHECK_EQUAL(windows, 1000 - 1 - MARU_LOCKPROF_RING);
  CHECK_EQUAL(sum, 2 * windows);
  CHECK_EQUAL(jain, windows * 1000000);
  end();
}

static void knows_its_clock(void) {
  struct mr_clock_mark from = mr_clock_mark();
  if (!mr_clock_may_count())
    return;
  usleep(20000);
  struct mr_clock clock = mr_clock_between(from, mr_clock_mark());
  uint64_t began = mr_clock_ns(&clock);
  int64_t began_ns = maru_now_ns();
  usleep(20000);
  double ratio = (double)(mr_clock_ns(&clock) - began) / (double)(maru_now_ns() - began_ns);
  CHECK(ratio > 0.98 && ratio < 1.02);
}

int main(void) {
  counts_known_work();
  samples_without_bias();
  samples_at_any_pace();
  times_holds();
  takes_slots_again();
  outlives_last_words();
  gives_its_key();
  frees_slots_without_its_key();
  shares_no_slot();
  leaves_what_is_looked_at();
#ifndef __SANITIZE_THREAD__
  outlives_processes();
#endif
  grows();
  counts_others();
  counts_what_is_lost();
  follows_holds();
  follows_conditions();
  keeps_what_was_not_released();
  counts_bypasses();
  knows_shares();
  keeps_a_course();
  knows_its_clock();
  return 0;
}
