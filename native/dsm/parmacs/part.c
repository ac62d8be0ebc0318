#define _GNU_SOURCE
#include "part.h"

#include "random.h"

#include <maru/dsm.h>

#include "../diff.h"
#include "../end.h"
#include "../store.h"
#include "files.h"
#include "guard.h"
#include "iostreams.h"
#include "jump.h"
#include "process.h"
#include "shared.h"
#include "statics.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS 1024u
#define RED_ZONE 256u
#define ALIGNED 16u
#define LOCALE_MOST 1024u

/* What comes first in a program's part. */
struct resume {
  struct mr_random random;
  struct mr_jumps jumps;
  struct mr_options options;
  struct mr_process process;
  struct mr_iostreams iostreams;
  char locale[LOCALE_MOST];
  void *libraries;
  uint64_t arguments; /* their sum */
  uint64_t guard;
  char **environment; /* NULL: the one that a process is given */
  uint64_t files;     /* behind all this */
  int32_t how;
  bool runs;
  ucontext_t context;
};

/* A range of its own in each image. */
static struct {
  int count;
  struct {
    void (*call)(void *);
    void *argument;
  } each[MARU_DSM_RESTORERS];
} restorers;

struct descriptor {
  dev_t device;
  ino_t file;
  bool open;
};

static struct {
  struct descriptor ours[DESCRIPTORS], theirs[DESCRIPTORS];
  unsigned tasks, their_tasks;
  bool given, throws_own;
  char **environment; /* the process was given */
  uint64_t guard;     /* of the program's thread: another one writes its image */
  uint64_t arguments;
  struct mr_files files;
  const struct mr_part_ranges *what;
  const struct mr_checkpoint_head *found;
  const uint8_t *pages; /* of all its slots */
  /* Of the image that is being written: its pieces. */
  struct mr_store *store;
  uint8_t **addresses;
  size_t pieces, room;
} part;

/* ---- what the program asked for ------------------------------------------------------- */

int mr_part_on_restore(void (*call)(void *), void *argument) {
  if (restorers.count == MARU_DSM_RESTORERS)
    return -1;
  restorers.each[restorers.count].call = call;
  restorers.each[restorers.count++].argument = argument;
  return 0;
}

void mr_part_restored(void) {
  for (int i = 0; i < restorers.count; i++)
    restorers.each[i].call(restorers.each[i].argument);
}

/* ---- what cannot be saved ---------------------------------------------------------- */

static unsigned count_tasks(void) {
  unsigned count = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *each; tasks != NULL && (each = readdir(tasks)) != NULL;)
    count += each->d_name[0] != '.';
  if (tasks != NULL)
    closedir(tasks);
  return count;
}

/* The calling thread's own descriptor of the folder aside; those beyond the table are none of ours.
 */
typedef int each_descriptor(int fd, const struct descriptor *is, char *why, size_t size);

static int walk_descriptors(each_descriptor *act, int aside, char *why, size_t size) {
  DIR *folder = opendir("/proc/self/fd");
  int rc = folder == NULL ? -errno : 0;
  struct stat is;
  for (struct dirent *each; rc == 0 && (each = readdir(folder)) != NULL;) {
    int fd = atoi(each->d_name);
    if (each->d_name[0] == '.' || fd == dirfd(folder) || fd == aside || fstat(fd, &is) < 0)
      continue;
    const struct descriptor found = {is.st_dev, is.st_ino, true};
    rc = act(fd, &found, why, size);
  }
  if (folder != NULL)
    closedir(folder);
  return rc;
}

static bool is_same(const struct descriptor *known, const struct descriptor *is) {
  return known->open && known->device == is->device && known->file == is->file;
}

static int note(int fd, const struct descriptor *is, char *why, size_t size) {
  (void)why;
  (void)size;
  if ((unsigned)fd < DESCRIPTORS && !is_same(&part.theirs[fd], is))
    part.ours[fd] = *is;
  return 0;
}

static int note_theirs(int fd, const struct descriptor *is, char *why, size_t size) {
  (void)why;
  (void)size;
  if ((unsigned)fd < DESCRIPTORS && !is_same(&part.ours[fd], is))
    part.theirs[fd] = *is;
  return 0;
}

static int compare(int fd, const struct descriptor *is, char *why, size_t size) {
  if ((unsigned)fd < DESCRIPTORS && is_same(&part.ours[fd], is))
    return 0;
  return mr_files_add(&part.files, fd, why, size);
}

static int find_files(int aside, char *why, size_t size) {
  mr_files_begin(&part.files);
  int rc = walk_descriptors(compare, aside, why, size);
  return rc < 0 ? rc : mr_files_end(&part.files, why, size);
}

static void note_all(each_descriptor *act) {
  char why[2];
  walk_descriptors(act, -1, why, sizeof why);
}

/* By FNV-1a, each with its end; the first is a path, which may be another. */
void mr_part_runs(char *const *arguments) {
  part.arguments = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 1; arguments[0] != NULL && arguments[i] != NULL; i++)
    for (size_t at = 0, end = strlen(arguments[i]) + 1; at < end; at++)
      part.arguments = (part.arguments ^ (uint8_t)arguments[i][at]) * UINT64_C(0x100000001b3);
}

void mr_part_throws_own(void) { part.throws_own = true; }

void mr_part_guarded(uint64_t word) { part.guard = word; }

void mr_part_owns(int fd) {
  struct stat is;
  if ((unsigned)fd < DESCRIPTORS && fstat(fd, &is) == 0)
    part.ours[fd] = (struct descriptor){is.st_dev, is.st_ino, true};
}

void mr_part_given(void) {
  mr_random_begin();
  part.given = true;
  part.environment = environ;
  mr_process_given();
  note_all(note);
  part.tasks = count_tasks();
}

void mr_part_joins(void) {
  mr_process_joins();
  note_all(note_theirs);
  part.their_tasks = count_tasks() - part.tasks;
}

void mr_part_begin(void) {
  mr_part_guarded(mr_guard());
  if (!part.given) {
    mr_random_begin();
    part.environment = environ;
  }
  mr_process_begins(part.given);
  mr_iostreams_begin(part.throws_own);
  note_all(note);
  part.tasks = count_tasks() - part.their_tasks;
}

void mr_part_flush(void) {
  mr_iostreams_flush();
  mr_streams_flush();
}
bool mr_part_reads_ahead(void) { return stdin->_IO_read_ptr < stdin->_IO_read_end; }

static int refuse(int file, char *why, size_t size) {
  siginfo_t info;
  const char *made = mr_statics_made();
  if (made != NULL) {
    snprintf(why, size, "the program has what %s made, which is a library's memory", made);
    return -EOPNOTSUPP;
  }
  if (count_tasks() > part.tasks) {
    snprintf(why, size, "the program has threads of its own");
    return -EOPNOTSUPP;
  }
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
    snprintf(why, size, "the program has child processes");
    return -EOPNOTSUPP;
  }
  if (mr_part_reads_ahead() && lseek(STDIN_FILENO, 0, SEEK_CUR) < 0) {
    snprintf(why, size, "the program has not yet read all that came by its standard input");
    return -EOPNOTSUPP;
  }
  return find_files(file, why, size);
}

static int take_locale(char *locale, char *why, size_t size) {
  int length = snprintf(locale, LOCALE_MOST, "%s", setlocale(LC_ALL, NULL));
  if (length < (int)LOCALE_MOST)
    return 0;
  snprintf(why, size, "the program's locale has a name of %d letters", length);
  return -EOPNOTSUPP;
}

static void put_locale(const char *locale) {
  if (setlocale(LC_ALL, locale) == NULL)
    mr_node_die(STATUS_UNAVAILABLE, "the program's locale, %s, is not on this host", locale);
}

static bool has(const struct mr_range *ranges, int count, const void *at) {
  for (int i = 0; i < count; i++)
    if ((const uint8_t *)at >= ranges[i].from && (const uint8_t *)at < ranges[i].to)
      return true;
  return false;
}

/* That of main is the program's memory (program.c), as is what it puts there (environment.c).
 * Another process is given its own.  What a library's setenv makes is libc's.  A shared one may
 * have to be fetched: nobody looks into that. */
static bool has_environment(const struct mr_range *ranges, int count) {
  if (environ == part.environment || mr_node_shares(environ, 1))
    return true;
  bool all = has(ranges, count, environ);
  for (char **each = environ; all && *each != NULL; each++)
    all = has(ranges, count, *each) || mr_process_is_file(*each);
  return all;
}

#if defined(__x86_64__)
static uint8_t *stack_of(const ucontext_t *context) {
  return (uint8_t *)(uintptr_t)context->uc_mcontext.gregs[REG_RSP];
}
#elif defined(__aarch64__)
static uint8_t *stack_of(const ucontext_t *context) {
  return (uint8_t *)(uintptr_t)context->uc_mcontext.sp;
}
#else
#error "where is the stack pointer of a ucontext_t?"
#endif

/* ---- writing ------------------------------------------------------------------------------ */

static int put_piece(void *context, uint8_t *at, size_t length) {
  (void)context;
  if (part.pieces == part.room) {
    size_t room = 2 * part.room + MR_PAGE / sizeof *part.addresses;
    uint8_t **addresses = realloc(part.addresses, room * sizeof *addresses);
    if (addresses == NULL)
      return -ENOMEM;
    part.addresses = addresses;
    part.room = room;
  }
  part.addresses[part.pieces++] = at;
  return mr_store_put(part.store, (uintptr_t)at, 0, at, length);
}

static int put_at(int file, uint64_t *at, const void *bytes, size_t length) {
  int rc = mr_write_at(file, bytes, length, *at);
  *at += length;
  return rc;
}

/* The last to be known comes first. */
static int write_parts(int file, struct mr_checkpoint_head *head, struct resume *resume,
                       struct mr_range *ranges, size_t count) {
  uint64_t begin = head->own,
           at = (begin + sizeof *resume + ALIGNED - 1) & ~(uint64_t)(ALIGNED - 1);
  part.pieces = 0;
  int rc = mr_image_walk(ranges, count, put_piece, NULL);
  head->ranges = at;
  head->range_count = count;
  if (rc == 0)
    rc = put_at(file, &at, ranges, count * sizeof *ranges);
  head->addresses = at;
  head->pieces = part.pieces;
  if (rc == 0)
    rc = put_at(file, &at, part.addresses, part.pieces * sizeof *part.addresses);
  resume->files = at;
  if (rc == 0)
    rc = put_at(file, &at, &part.files, mr_files_size(&part.files));
  head->own_length = at - head->own;
  if (rc == 0)
    rc = put_at(file, &begin, resume, sizeof *resume);
  return rc;
}

int mr_part_write(int file, struct mr_store *store, struct mr_checkpoint_head *head,
                  const struct mr_stood *stood, char *why, size_t size) {
  static struct mr_range ranges[MR_PART_RANGES];
  const ucontext_t *context = stood->context;
  struct resume resume = {.libraries = stdout,
                          .arguments = part.arguments,
                          .guard = part.guard,
                          .environment = environ != part.environment ? environ : NULL,
                          .random = mr_random_take(),
                          .jumps = mr_jumps_take(),
                          .options = mr_options_take(),
                          .how = stood->how,
                          .runs = context != NULL};
  int rc = refuse(file, why, size);
  if (rc == 0)
    rc = mr_process_take(&resume.process, context != NULL ? &context->uc_sigmask : NULL,
                         stood->waiting, why, size);
  if (rc == 0)
    rc = mr_iostreams_take(&resume.iostreams, why, size);
  if (rc == 0)
    rc = take_locale(resume.locale, why, size);
  if (rc < 0)
    return rc;
  if (context != NULL)
    resume.context = *context;
  uint8_t *sp = context != NULL ? stack_of(context) - RED_ZONE : NULL;
  int count = part.what->list(sp, ranges, MR_PART_RANGES - 1, why, size);
  if (count < 0)
    return count;
  if (context != NULL && !has_environment(ranges, count)) {
    snprintf(why, size, "the environment has what a library put there");
    return -EOPNOTSUPP;
  }
  ranges[count++] =
      (struct mr_range){.from = (uint8_t *)&restorers, .to = (uint8_t *)(&restorers + 1)};
  part.store = store;
  rc = write_parts(file, head, &resume, ranges, (size_t)count);
  if (rc < 0)
    snprintf(why, size, "no room for its image: %s", strerror(-rc));
  return rc;
}

/* ---- reading -------------------------------------------------------------------------------- */

void mr_part_found(const struct mr_checkpoint_head *head, const uint8_t *pages) {
  part.found = head;
  part.pages = pages;
}

/* What they are is the program's: no other image may take them for the node's. */
void mr_part_open(const struct mr_checkpoint_head *head) {
  struct resume resume;
  struct stat is;
  memcpy(&resume, (const uint8_t *)head + head->own, sizeof resume);
  const struct mr_files *files = (const void *)((const uint8_t *)head + resume.files);
  mr_process_expect(&resume.process);
  mr_files_open(files);
  for (uint32_t i = 0; i < files->count; i++) {
    int fd = files->each[i].fd;
    if ((unsigned)fd < DESCRIPTORS && fstat(fd, &is) == 0)
      part.theirs[fd] = (struct descriptor){is.st_dev, is.st_ino, true};
  }
}

/* It is as long as the file says, which was looked at; the launcher's files are trusted, a folder's
 * are compared with their sums (launch/folder.c). */
static struct mr_image image_of(const struct mr_checkpoint_head *head) {
  uint8_t *file = (uint8_t *)(uintptr_t)head;
  const uint32_t *slots = (const uint32_t *)(const void *)(file + head->slots);
  return (struct mr_image){.count = head->range_count,
                           .pieces = head->pieces,
                           .ranges = (struct mr_range *)(void *)(file + head->ranges),
                           .addresses = (uint8_t **)(void *)(file + head->addresses),
                           .contents = (uint8_t *)(uintptr_t)part.pages,
                           .slots = slots + head->slot_count - head->pieces};
}

__attribute__((no_stack_protector)) const ucontext_t *mr_part_read(int *how, ucontext_t *context) {
  const struct mr_checkpoint_head *head = part.found;
  struct resume resume;
  memcpy(&resume, (const uint8_t *)head + head->own, sizeof resume);
  if (resume.libraries != stdout)
    mr_node_die(STATUS_UNAVAILABLE,
                "libraries lie elsewhere than when the checkpoint was taken: "
                "they differ, or address randomisation could not be turned off");
  if (resume.arguments != part.arguments)
    mr_node_die(STATUS_DATA, "cannot go on: the checkpoint is of the program with other arguments");
  const struct mr_image image = image_of(head);
  mr_image_read(&image);
  mr_random_put(&resume.random);
  mr_jumps_put(&resume.jumps);
  mr_options_put(&resume.options);
  put_locale(resume.locale);
  mr_iostreams_put(&resume.iostreams);
  mr_process_put(&resume.process);
  *how = resume.how;
  if (!resume.runs) {
    mr_process_lets_come(&resume.process);
    return NULL;
  }
  if (resume.environment != NULL)
    environ = resume.environment;
  *context = resume.context;
#if defined(__x86_64__)
  /* It points into itself. */
  context->uc_mcontext.fpregs = &context->__fpregs_mem;
#endif
  mr_part_guarded(resume.guard);
  if (!mr_guard_set(resume.guard))
    mr_node_die(STATUS_UNAVAILABLE, "this machine's stack protector cannot be restored");
  return context;
}

const struct mr_part *mr_part_of(const struct mr_part_ranges *ranges) {
  static const struct mr_part calls = {
      .begin = mr_part_begin,
      .handles = mr_process_handles,
      .write = mr_part_write,
      .found = mr_part_found,
      .read = mr_part_read,
      .open = mr_part_open,
      .flush = mr_part_flush,
      .on_restore = mr_part_on_restore,
      .restored = mr_part_restored,
      .reads_ahead = mr_part_reads_ahead,
      .owns = mr_part_owns,
  };
  part.what = ranges;
  return &calls;
}
