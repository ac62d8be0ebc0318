#define _GNU_SOURCE
#include "checkpoint.h"

#include "diff.h"
#include "end.h"
#include "settings.h"
#include "shared.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <maru/wait.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMED "MARU_DSM_CHECKPOINTS"
/* A launcher that dies ends its nodes; nobody relies on this. */
#define LOOKS_NS INT64_C(1000000000)

struct mr_checkpoints {
  struct mr_checkpoint_page *page;
  struct mr_checkpoint_line *line;
  struct mr_checkpoint_calls calls;
  struct mr_store *store;
  uint32_t expected, taken; /* room was made for that one; that one was written and is not over */
  pthread_t thread;
  _Atomic bool ending;
  bool runs;
  int64_t left; /* ns: when the program's thread did; 0: it has not */
  uint16_t nodes, me;
  uint64_t program;
  char process[PATH_MAX]; /* "/proc/PID/fd/" of the launcher */
};

static void await_bell(struct mr_checkpoint_page *page, uint32_t heard) {
  mr_futex_wait(&page->bell, heard, maru_now_ns() + LOOKS_NS);
}

/* ---- opening --------------------------------------------------------------------- */

static _Noreturn void cannot(const char *what, const char *why) {
  mr_node_die(STATUS_UNAVAILABLE, "no checkpoints: %s: %s", what, why);
}

/* Of all code that an image's pointers and state belong to: files of which code is mapped.  What
 * was replaced meanwhile counts as nothing, and so as another. */
static uint64_t sum_of_code(void) {
  char line[PATH_MAX + 128], rights[8], path[PATH_MAX];
  uint64_t sum = mr_file_sum("/proc/self/exe");
  FILE *maps = fopen("/proc/self/maps", "re");
  if (maps == NULL)
    cannot("/proc/self/maps", strerror(errno));
  while (fgets(line, sizeof line, maps) != NULL)
    if (sscanf(line, "%*s %7s %*s %*s %*s %4095[^\n]", rights, path) == 2 && rights[2] == 'x' &&
        path[0] == '/')
      sum = sum * UINT64_C(0x100000001b3) ^ (access(path, R_OK) == 0 ? mr_file_sum(path) : 0);
  fclose(maps);
  return sum;
}

/* NULL: then errno is 0 where it is no such page. */
static struct mr_checkpoint_page *map_page(const char *named) {
  const size_t size = sizeof(struct mr_checkpoint_page);
  struct stat is;
  void *at = MAP_FAILED;
  int fd = open(named, O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return NULL;
  errno = 0;
  if (fstat(fd, &is) == 0 && (size_t)is.st_size >= size)
    at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  int error = errno;
  close(fd);
  errno = error;
  return at == MAP_FAILED ? NULL : at;
}

bool mr_checkpoints_asked(void) { return getenv(NAMED) != NULL; }

uint32_t mr_checkpoints_expected(void) {
  const char *named = getenv(NAMED);
  struct mr_checkpoint_page *page = named != NULL ? map_page(named) : NULL;
  if (page == NULL)
    return 0;
  uint32_t number = page->version == MR_CHECKPOINT_VERSION ? page->restore : 0;
  munmap(page, sizeof *page);
  return number;
}

static int open_named(const struct mr_checkpoints *all, int32_t descriptor, int flags) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof path, "%s%d", all->process, descriptor);
  return open(path, flags | O_CLOEXEC);
}

static int open_file(const struct mr_checkpoints *all, uint16_t node, uint32_t number, int flags) {
  return open_named(all, all->page->lines[node].files[number % 2], flags);
}

struct mr_store *mr_checkpoints_store(struct mr_checkpoints *all) {
  int file = all->store == NULL ? open_named(all, all->line->pages, O_RDWR) : -1;
  int rc = all->store != NULL ? 0 : file < 0 ? -errno : mr_store_open(&all->store, file);
  if (rc < 0)
    cannot("the file of pages", strerror(-rc));
  mr_store_count(all->store, &all->line->put);
  return all->store;
}

struct mr_checkpoints *mr_checkpoints_open(uint16_t nodes, uint16_t me) {
  const char *named = getenv(NAMED), *slash = named != NULL ? strrchr(named, '/') : NULL;
  if (named == NULL)
    return NULL;
  struct mr_checkpoints *all = calloc(1, sizeof *all);
  if (all == NULL || slash == NULL || (size_t)(slash - named) + 2 > sizeof all->process)
    cannot(named, "no memory, or no such name");
  all->page = map_page(named);
  if (all->page == NULL)
    cannot(named, errno != 0 ? strerror(errno) : "it is not the launcher's page");
  memcpy(all->process, named, (size_t)(slash - named) + 1);
  if (all->page->version != MR_CHECKPOINT_VERSION || all->page->nodes != nodes)
    cannot(named, "it is another version's, or another job's");
  all->line = &all->page->lines[me];
  all->nodes = nodes;
  all->me = me;
  all->program = sum_of_code();
  unsetenv(NAMED); /* what the program starts has no part in it */
  return all;
}

uint32_t mr_checkpoints_epoch(const struct mr_checkpoints *all) { return all->page->epoch; }
uint32_t mr_checkpoints_restore(const struct mr_checkpoints *all) { return all->page->restore; }

/* ---- going on from one ------------------------------------------------------------- */

/* Whether a part lies in the file. */
static bool within(uint64_t at, uint64_t length, uint64_t whole) {
  return at <= whole && length <= whole - at;
}

static bool is_image(const struct mr_checkpoints *all, const struct mr_checkpoint_head *head,
                     uint16_t node, uint64_t length) {
  return memcmp(head->magic, MR_CHECKPOINT_MAGIC, sizeof head->magic) == 0 &&
         head->version == MR_CHECKPOINT_VERSION && head->number == all->page->restore &&
         head->nodes == all->nodes && head->node == node &&
         within(head->core, head->core_length, length) &&
         within(head->own, head->own_length, length) && head->addresses % 8 == 0 &&
         head->pieces <= length / 8 && within(head->addresses, 8 * head->pieces, length) &&
         head->slots % sizeof(uint32_t) == 0 && head->slot_count <= length / sizeof(uint32_t) &&
         head->pieces <= head->slot_count &&
         within(head->slots, head->slot_count * sizeof(uint32_t), length);
}

const struct mr_checkpoint_head *mr_checkpoints_map(const struct mr_checkpoints *all, uint16_t node,
                                                    size_t *length) {
  int fd = open_file(all, node, all->page->restore, O_RDONLY);
  struct stat is;
  const struct mr_checkpoint_head *head = MAP_FAILED;
  if (fd >= 0 && fstat(fd, &is) == 0 && (size_t)is.st_size >= sizeof *head)
    head = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (head == MAP_FAILED)
    mr_node_die(STATUS_UNAVAILABLE, "cannot read node %u's image of checkpoint %u: %s", node,
                all->page->restore, strerror(errno));
  close(fd);
  *length = (size_t)is.st_size;
  if (!is_image(all, head, node, *length))
    mr_node_die(STATUS_DATA, "node %u's image is not one of checkpoint %u of this job", node,
                all->page->restore);
  if (head->program != all->program)
    mr_node_die(STATUS_DATA,
                "checkpoint %u is another program's, or of other libraries: "
                "resume the files that made it",
                all->page->restore);
  return head;
}

/* ---- taking one ---------------------------------------------------------------------- */

/* What comes last.  The image's length. */
static int write_slots(struct mr_checkpoints *all, int fd, struct mr_checkpoint_head *head) {
  size_t count;
  const uint32_t *slots = mr_store_slots(all->store, &count);
  uint64_t end =
      head->own_length > 0 ? head->own + head->own_length : head->core + head->core_length;
  size_t length = count * sizeof *slots;
  head->slots = (end + sizeof *slots - 1) & ~(uint64_t)(sizeof *slots - 1);
  head->slot_count = count;
  int rc = mr_write_at(fd, slots, length, head->slots);
  if (rc == 0 && ftruncate(fd, (off_t)(head->slots + length)) < 0)
    rc = -errno;
  if (rc == 0)
    rc = mr_write_at(fd, head, sizeof *head, 0);
  if (rc < 0)
    return rc;
  all->line->bytes = head->slots + length + count * MR_PAGE;
  all->line->changed = mr_store_changed(all->store) * MR_PAGE;
  return 0;
}

static int write_to(struct mr_checkpoints *all, uint32_t number, char *why) {
  struct mr_checkpoint_head head = {.magic = MR_CHECKPOINT_MAGIC,
                                    .version = MR_CHECKPOINT_VERSION,
                                    .number = number,
                                    .nodes = all->nodes,
                                    .node = all->me,
                                    .program = all->program,
                                    .core = MR_PAGE};
  int fd = open_file(all, all->me, number, O_RDWR);
  int rc = fd < 0 ? -errno : all->calls.write(fd, all->store, &head, why, MR_CHECKPOINT_WHY);
  if (rc == 0)
    rc = write_slots(all, fd, &head);
  if (fd >= 0)
    close(fd);
  if (rc < 0 && *why == 0)
    snprintf(why, MR_CHECKPOINT_WHY, "cannot write its image: %s", strerror(-rc));
  return rc;
}

static void take(struct mr_checkpoints *all, uint32_t number) {
  struct mr_checkpoint_line *line = all->line;
  line->why[0] = 0;
  line->failed = write_to(all, number, line->why);
  all->taken = number;
  /* Release: the launcher sees the image and those. */
  atomic_store_explicit(&line->done, number, memory_order_release);
}

static void answer(struct mr_checkpoints *all, uint32_t wanted, uint32_t wave) {
  struct mr_checkpoint_line *line = all->line;
  uint64_t sent = 0, received = 0;
  bool rests = all->calls.rests(wanted, &sent, &received);
  /* Relaxed: the wave's number says that they are there. */
  atomic_store_explicit(&line->rests, rests, memory_order_relaxed);
  atomic_store_explicit(&line->sent, sent, memory_order_relaxed);
  atomic_store_explicit(&line->received, received, memory_order_relaxed);
  atomic_store_explicit(&line->wave, wave, memory_order_release);
}

/* Acquire, here and below: with a word comes what was written before it. */
static uint32_t load(const _Atomic uint32_t *word) {
  return atomic_load_explicit(word, memory_order_acquire);
}

/* Before the program stands still: what is not done here would make its pause longer. */
static void prepare(struct mr_checkpoints *all, uint32_t wanted) {
  size_t pages;
  if (all->calls.expect(&pages))
    (void)mr_store_expect(all->store, pages); /* if it fails the image does, too, and says so */
  all->expected = wanted;
}

/* The launcher has decided about the last that this node has written. */
static void settle(struct mr_checkpoints *all) {
  bool whole = load(&all->page->committed) == all->taken;
  mr_store_end(all->store, whole);
  if (whole)
    all->calls.committed(all->taken);
  all->taken = 0;
}

static void look(struct mr_checkpoints *all) {
  struct mr_checkpoint_page *page = all->page;
  /* In this order: a wave asks about what was wanted before it. */
  uint32_t wave = load(&page->wave), over = load(&page->over), wanted = load(&page->wanted);
  if (all->taken != 0 && (over == all->taken || wanted != all->taken))
    settle(all);
  if (wanted == over)
    return;
  if (all->expected != wanted)
    prepare(all, wanted);
  if (load(&page->cut) == wanted) {
    if (load(&all->line->done) != wanted)
      take(all, wanted);
  } else if (wave != load(&all->line->wave)) {
    answer(all, wanted, wave);
  }
}

static void *run(void *context) {
  struct mr_checkpoints *all = context;
  while (!atomic_load_explicit(&all->ending, memory_order_acquire)) {
    uint32_t heard = load(&all->page->bell);
    look(all);
    await_bell(all->page, heard);
  }
  return NULL;
}

int mr_checkpoints_start(struct mr_checkpoints *all, const struct mr_checkpoint_calls *calls) {
  sigset_t every, before;
  all->calls = *calls;
  mr_checkpoints_store(all);
  sigfillset(&every);
  /* Signals are for the program's thread. */
  pthread_sigmask(SIG_SETMASK, &every, &before);
  int rc = pthread_create(&all->thread, NULL, run, all);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  all->runs = rc == 0;
  return -rc;
}

void mr_checkpoints_end(struct mr_checkpoints *all) {
  if (!all->runs)
    return;
  atomic_store_explicit(&all->line->ends, 1, memory_order_release);
  atomic_store_explicit(&all->ending, true, memory_order_release);
  mr_checkpoint_ring(all->page);
  pthread_join(all->thread, NULL);
  all->runs = false;
}

uint32_t mr_checkpoints_wanted(const struct mr_checkpoints *all) {
  uint32_t over = load(&all->page->over), wanted = load(&all->page->wanted);
  return wanted != over ? wanted : 0;
}

void mr_checkpoints_leave(struct mr_checkpoints *all) { all->left = maru_now_ns(); }

/* Relaxed, here and in the launcher: a figure that is looked at.  Only this thread writes it. */
void mr_checkpoints_come(struct mr_checkpoints *all) {
  uint64_t stretch = all->left != 0 ? (uint64_t)(maru_now_ns() - all->left) : 0;
  if (stretch > atomic_load_explicit(&all->line->stretch_ns, memory_order_relaxed))
    atomic_store_explicit(&all->line->stretch_ns, stretch, memory_order_relaxed);
}

void mr_checkpoints_wake(struct mr_checkpoints *all) { mr_checkpoint_ring(all->page); }

void mr_checkpoints_await(struct mr_checkpoints *all, uint32_t number, void (*pauses)(void)) {
  while (mr_checkpoints_wanted(all) == number) {
    uint32_t heard = load(&all->page->bell);
    if (pauses != NULL)
      pauses();
    if (mr_checkpoints_wanted(all) == number)
      await_bell(all->page, heard);
  }
}

/* ---- for replay.c ---------------------------------------------------------------------------- */

int mr_checkpoints_journal(const struct mr_checkpoints *all) {
  if (all->line->journal == 0)
    return -1;
  int file = open_named(all, all->line->journal, O_RDWR);
  if (file < 0)
    cannot("this node's journal", strerror(errno));
  return file;
}

uint32_t mr_checkpoints_cut(const struct mr_checkpoints *all) { return load(&all->page->cut); }

uint32_t mr_checkpoints_again(const struct mr_checkpoints *all, uint16_t node) {
  return load(&all->page->lines[node].again);
}

uint32_t mr_checkpoints_await_again(const struct mr_checkpoints *all, uint16_t node, uint32_t known,
                                    int seconds, struct sockaddr_storage *address) {
  const struct mr_checkpoint_line *line = &all->page->lines[node];
  int64_t end = maru_now_ns() + seconds * INT64_C(1000000000);
  atomic_store_explicit(&all->line->misses, node + 1u, memory_order_release);
  while (load(&line->again) == known) {
    uint32_t heard = load(&all->page->bell);
    if (maru_now_ns() >= end)
      return 0;
    if (load(&line->again) == known)
      await_bell(all->page, heard);
  }
  atomic_store_explicit(&all->line->misses, 0, memory_order_release);
  *address = line->address;
  return load(&line->again);
}

void mr_checkpoints_started(struct mr_checkpoints *all) {
  atomic_store_explicit(&all->line->started, all->page->epoch, memory_order_release);
}

uint32_t mr_checkpoints_committed(const struct mr_checkpoints *all) {
  return load(&all->page->committed);
}

/* Relaxed: the launcher looks now and then. */
void mr_checkpoints_wish(struct mr_checkpoints *all, uint32_t committed) {
  atomic_store_explicit(&all->line->wishes, committed + 1, memory_order_relaxed);
}

/* Relaxed: figures that are looked at, of which this node alone writes its own. */
void mr_checkpoints_journaled(struct mr_checkpoints *all, size_t given, size_t has) {
  struct mr_checkpoint_line *line = all->line;
  atomic_store_explicit(&line->journaled,
                        atomic_load_explicit(&line->journaled, memory_order_relaxed) + given,
                        memory_order_relaxed);
  if (has > atomic_load_explicit(&line->journal_most, memory_order_relaxed))
    atomic_store_explicit(&line->journal_most, has, memory_order_relaxed);
}
