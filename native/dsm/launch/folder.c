/* folder.c: checkpoints in a folder (keep.h).
 *
 * NUMBER-NODE.image are the images: the file of checkpoint.h, and behind it the pages that it names
 * by slots, in their order.  `checkpoint` names the last whole checkpoint: its number, how many
 * nodes, how much of the input was read, each image's length and sum, the lines that nodes had
 * begun, and its own sum.  It is written aside and renamed when all it names is on the disk, so it
 * names whole images whatever moment the host dies at.  Afterwards all images that it does not name
 * are removed.
 *
 * One job has the folder at a time: `lock` is locked by the launcher and by the process that
 * copies.  Images become memory and registers, so the folder has to be the user's own. */
#define _GNU_SOURCE
#include "keep.h"

#include "../diff.h"
#include "shared.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX "checkpoint"
#define NEW_INDEX INDEX ".new"
#define LOCK "lock"
#define FIRST_LINE "maru-checkpoint 3"
#define LAST_LINE "sum %016" PRIx64 "\n"
#define LAST_LENGTH 21u
#define INDEX_MOST ((size_t)64 << 20)
#define LOCK_MS 3000 /* what a launcher that was killed has left ends meanwhile */
#define LOOKS_MS 20
#define IMAGE_NAME 32
#define NUMBER_MOST 0x7fffffffu
#define PIECE ((size_t)1 << 20)

struct sum {
  uint64_t length, value;
};

/* FNV-1a by words: it finds what is torn or has rotted, and hides nothing from an enemy. */
static uint64_t add(uint64_t sum, const uint8_t *bytes, size_t length) {
  uint64_t word;
  for (; length >= sizeof word; bytes += sizeof word, length -= sizeof word) {
    memcpy(&word, bytes, sizeof word);
    sum = (sum ^ word) * UINT64_C(0x100000001b3);
    sum ^= sum >> 29;
  }
  for (; length > 0; bytes++, length--)
    sum = (sum ^ *bytes) * UINT64_C(0x100000001b3);
  return sum;
}

#define SUM_OF_NOTHING UINT64_C(0xcbf29ce484222325)

static void add_to(struct sum *sum, const uint8_t *bytes, size_t length) {
  sum->value = add(sum->value, bytes, length);
  sum->length += length;
}

static int write_all(int fd, const uint8_t *bytes, size_t length) {
  while (length > 0) {
    ssize_t n = write(fd, bytes, length);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? -errno : -ENOSPC;
    bytes += n;
    length -= (size_t)n;
  }
  return 0;
}

/* All of one, which has `length` bytes, to where the other stands. */
static int copy(int from, int to, size_t length, struct sum *sum) {
  static uint8_t piece[PIECE];
  for (size_t at = 0; at < length;) {
    size_t most = length - at < sizeof piece ? length - at : sizeof piece;
    ssize_t n = mr_slots_read_at(from, piece, most, at);
    if (n != (ssize_t)most)
      return n < 0 ? (int)n : -EIO;
    add_to(sum, piece, most);
    int rc = write_all(to, piece, most);
    if (rc < 0)
      return rc;
    at += most;
  }
  return 0;
}

static const char *image_name(char *name, uint32_t number, unsigned node) {
  snprintf(name, IMAGE_NAME, "%" PRIu32 "-%u.image", number, node);
  return name;
}

static bool is_image(const char *name, uint32_t *number) {
  char same[IMAGE_NAME];
  unsigned node;
  return sscanf(name, "%" SCNu32 "-%u", number, &node) == 2 &&
         strcmp(name, image_name(same, *number, node)) == 0;
}

/* Also what launchers and copies that were killed have left.  Once the index of `number` is on the
 * disk: whatever it named before may be what the host's death leaves of it. */
static void remove_others(int dir, uint32_t number) {
  int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *all = fd >= 0 ? fdopendir(fd) : NULL;
  uint32_t other;
  for (struct dirent *each; all != NULL && (each = readdir(all)) != NULL;)
    if (is_image(each->d_name, &other) && other != number)
      unlinkat(dir, each->d_name, 0);
  if (all != NULL)
    closedir(all);
  else if (fd >= 0)
    close(fd);
}

/* ---- the folder ---------------------------------------------------------------------- */

static _Noreturn void torn(const char *folder, const char *what) {
  char why[PATH_MAX + 64];
  snprintf(why, sizeof why, "%s: no checkpoint to go on from", folder);
  mr_launch_fail(STATUS_DATA_ERROR, why, what);
}

static _Noreturn void unusable(const char *folder, const char *why) {
  mr_launch_fail(STATUS_UNAVAILABLE, folder, why);
}

static int lock(int dir, const char *folder) {
  int fd = openat(dir, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600), rc = -1;
  if (fd < 0)
    unusable(folder, strerror(errno));
  int64_t until = mr_launch_now() + LOCK_MS;
  while ((rc = flock(fd, LOCK_EX | LOCK_NB)) < 0 && errno == EWOULDBLOCK && mr_launch_now() < until)
    poll(NULL, 0, LOOKS_MS);
  if (rc < 0)
    unusable(folder,
             errno == EWOULDBLOCK ? "another job has its checkpoints there" : strerror(errno));
  return fd;
}

static bool open_folder(struct keep *keep, const char *folder) {
  struct stat is;
  keep->folder = folder;
  keep->dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (keep->dir < 0)
    return false;
  if (fstat(keep->dir, &is) < 0)
    unusable(folder, strerror(errno));
  if (is.st_uid != geteuid() || (is.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    unusable(folder,
             "others may write there: checkpoints are for a folder of your own (chmod go-w)");
  keep->lock = lock(keep->dir, folder);
  return true;
}

static bool is_kept(const struct keep *keep, const char *folder) {
  struct stat one, other;
  return keep->dir >= 0 && fstat(keep->dir, &one) == 0 && stat(folder, &other) == 0 &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static bool has(int dir, const char *name) {
  struct stat is;
  return fstatat(dir, name, &is, AT_SYMLINK_NOFOLLOW) == 0;
}

bool mr_folder_has_one(const char *folder) {
  int dir = open(folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
  bool there = dir >= 0 && has(dir, INDEX);
  if (dir >= 0)
    close(dir);
  return there;
}

void mr_folder_begin(struct keep *keep, const char *folder) {
  if (is_kept(keep, folder))
    return; /* the job goes on from there */
  if (mkdir(folder, 0700) < 0 && errno != EEXIST)
    unusable(folder, strerror(errno));
  keep->written = 0; /* what the job goes on from is in another one */
  if (!open_folder(keep, folder))
    unusable(folder, strerror(errno));
  if (has(keep->dir, INDEX))
    mr_launch_fail(
        STATUS_USAGE, folder,
        "it has a checkpoint already: go on from it by --resume, or name another folder");
}

/* ---- writing ------------------------------------------------------------------------ */

/* A file of that name is an older one that no index names. */
static int create(int dir, const char *name) {
  unlinkat(dir, name, 0);
  return openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int sync_and_close(int fd, int rc) {
  if (rc == 0 && fsync(fd) < 0)
    rc = -errno;
  if (close(fd) < 0 && rc == 0)
    rc = -errno;
  return rc;
}

static int write_pages(int pages, int to, const struct mr_slots *slots, struct sum *sum) {
  static uint8_t piece[PIECE];
  int rc = 0;
  for (size_t i = 0, count; i < slots->count && rc == 0; i += count) {
    count = mr_slots_row(slots, i, PIECE / MR_PAGE);
    ssize_t n = mr_slots_read_at(pages, piece, count * MR_PAGE, (uint64_t)slots->each[i] * MR_PAGE);
    if (n != (ssize_t)(count * MR_PAGE))
      return n < 0 ? (int)n : -EIO;
    add_to(sum, piece, (size_t)n);
    rc = write_all(to, piece, (size_t)n);
  }
  return rc;
}

static int write_image(const struct keep *keep, uint32_t number, unsigned node, struct sum *sum) {
  const struct mr_checkpoint_line *line = &keep->page->lines[node];
  char name[IMAGE_NAME];
  struct mr_slots slots;
  *sum = (struct sum){0, SUM_OF_NOTHING};
  int fd = create(keep->dir, image_name(name, number, node));
  if (fd < 0)
    return -errno;
  int rc = mr_slots_open(line->files[number % 2], &slots);
  if (rc == 0)
    rc = copy(line->files[number % 2], fd, slots.length, sum);
  if (rc == 0)
    rc = write_pages(line->pages, fd, &slots, sum);
  free(slots.each);
  return sync_and_close(fd, rc);
}

/* `named`: the index may be the new one, whatever failed then. */
static int write_index(int dir, const char *text, size_t length, bool *named) {
  int fd = create(dir, NEW_INDEX);
  if (fd < 0)
    return -errno;
  int rc = sync_and_close(fd, write_all(fd, (const uint8_t *)text, length));
  if (rc < 0)
    return rc;
  if (renameat(dir, NEW_INDEX, dir, INDEX) < 0)
    rc = -errno;
  *named = !has(dir, NEW_INDEX);
  return rc == 0 && fsync(dir) < 0 ? -errno : rc;
}

static void remove_images(int dir, uint32_t number, unsigned nodes) {
  char name[IMAGE_NAME];
  for (unsigned node = 0; node < nodes; node++)
    unlinkat(dir, image_name(name, number, node), 0);
}

static int write_parts(const struct keep *keep, unsigned nodes, uint32_t number, FILE *index) {
  fprintf(index, FIRST_LINE "\nnumber %" PRIu32 "\nnodes %u\ninput %" PRIu64 "\n", number, nodes,
          keep->input_read);
  for (unsigned node = 0; node < nodes; node++) {
    struct sum sum;
    int rc = write_image(keep, number, node, &sum);
    if (rc < 0)
      return rc;
    fprintf(index, "image %u %" PRIu64 " %016" PRIx64 "\n", node, sum.length, sum.value);
  }
  for (unsigned node = 0; node < nodes; node++) {
    const struct keep_begun *begun = &keep->begun_lines[node];
    fprintf(index, "begun %u %zu\n", node, begun->length);
    fwrite(begun->line, 1, begun->length, index);
    fputc('\n', index);
  }
  if (fflush(index) != 0 || ferror(index) != 0)
    return -ENOMEM; /* nothing else can be lacking */
  return fsync(keep->dir) < 0 ? -errno : 0;
}

static int write_checkpoint(const struct keep *keep, unsigned nodes, uint32_t number, bool *named) {
  char *text = NULL;
  size_t length = 0;
  FILE *index = open_memstream(&text, &length);
  if (index == NULL)
    return -ENOMEM;
  int rc = write_parts(keep, nodes, number, index);
  if (rc == 0)
    fprintf(index, LAST_LINE, add(SUM_OF_NOTHING, (const uint8_t *)text, length));
  if (fclose(index) != 0 && rc == 0)
    rc = -errno;
  return rc < 0 ? rc : write_index(keep->dir, text, length, named);
}

int mr_folder_write(const struct keep *keep, unsigned nodes) {
  bool named = false;
  int rc = write_checkpoint(keep, nodes, keep->writing, &named);
  if (rc == 0) {
    remove_others(keep->dir, keep->writing);
    return 0;
  }
  if (!named)
    remove_images(keep->dir, keep->writing, nodes);
  fprintf(stderr, "maru: launch: checkpoint %" PRIu32 " is %s in %s%s: %s\n", keep->writing,
          named ? "now" : "not", keep->folder,
          named ? ", and may be gone when this host fails" : "", strerror(-rc));
  return STATUS_MARU_FAILED;
}

/* ---- reading --------------------------------------------------------------------------- */

/* To their slots. */
static int read_pages(int from, int pages, const struct mr_slots *slots, struct sum *sum) {
  static uint8_t piece[PIECE];
  int rc = 0;
  for (size_t i = 0, count; i < slots->count && rc == 0; i += count) {
    count = mr_slots_row(slots, i, PIECE / MR_PAGE);
    size_t size = count * MR_PAGE;
    ssize_t n = mr_slots_read_at(from, piece, size, sum->length);
    if (n != (ssize_t)size)
      return n < 0 ? (int)n : -EBADMSG;
    add_to(sum, piece, size);
    rc = mr_write_at(pages, piece, size, (uint64_t)slots->each[i] * MR_PAGE);
  }
  return rc;
}

/* How long the first part is, its own head says. */
static int read_parts(int from, const struct mr_checkpoint_line *line, uint32_t number,
                      struct sum *sum) {
  struct mr_checkpoint_head head;
  struct mr_slots slots;
  if (mr_slots_read_at(from, (uint8_t *)&head, sizeof head, 0) != sizeof head ||
      head.slot_count > INT32_MAX || head.slots > INT64_MAX / 2)
    return -EBADMSG;
  int file = line->files[number % 2];
  int rc = copy(from, file, head.slots + head.slot_count * sizeof *slots.each, sum);
  if (rc < 0)
    return rc;
  rc = mr_slots_open(file, &slots);
  if (rc == 0)
    rc = read_pages(from, line->pages, &slots, sum);
  free(slots.each);
  return rc;
}

static void read_image(const struct keep *keep, uint32_t number, unsigned node,
                       const struct sum *said) {
  char name[IMAGE_NAME], path[PATH_MAX];
  struct sum sum = {0, SUM_OF_NOTHING};
  snprintf(path, sizeof path, "%s/%s", keep->folder, image_name(name, number, node));
  int fd = openat(keep->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    torn(path, strerror(errno));
  int rc = read_parts(fd, &keep->page->lines[node], number, &sum);
  close(fd);
  if (rc < 0 && rc != -EBADMSG && rc != -EIO)
    torn(path, strerror(-rc));
  if (rc < 0 || sum.length != said->length || sum.value != said->value)
    torn(path, "the file is damaged");
}

/* A line that the node had begun. */
static bool read_begun(FILE *index, unsigned i, struct keep_begun *begun) {
  unsigned node;
  size_t length;
  if (fscanf(index, " begun %u %zu", &node, &length) != 2 || node != i ||
      length >= MR_LAUNCH_LINE || fgetc(index) != '\n')
    return false;
  begun->length = length;
  return fread(begun->line, 1, length, index) == length;
}

/* The index without its last line, which was compared; NULL: it is damaged. */
static FILE *open_index(const struct keep *keep, const char *path) {
  struct stat is;
  uint64_t sum;
  int fd = openat(keep->dir, INDEX, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &is) < 0)
    torn(path, strerror(errno));
  size_t length = (size_t)is.st_size;
  char *text = length > LAST_LENGTH && length < INDEX_MOST ? malloc(length + 1) : NULL;
  bool whole = text != NULL && pread(fd, text, length, 0) == (ssize_t)length;
  close(fd);
  if (!whole)
    return NULL;
  text[length] = 0;
  length -= LAST_LENGTH;
  if (sscanf(text + length, "sum %16" SCNx64, &sum) != 1 ||
      sum != add(SUM_OF_NOTHING, (const uint8_t *)text, length))
    return NULL;
  return fmemopen(text, length, "r");
}

uint32_t mr_folder_read(struct keep *keep, unsigned nodes, const char *folder) {
  char path[PATH_MAX];
  uint32_t number = 0;
  unsigned there = 0, node;
  struct sum said;
  if (!open_folder(keep, folder))
    torn(folder, strerror(errno));
  snprintf(path, sizeof path, "%s/" INDEX, folder);
  FILE *index = open_index(keep, path);
  if (index == NULL ||
      fscanf(index, FIRST_LINE " number %" SCNu32 " nodes %u input %" SCNu64, &number, &there,
             &keep->input_read) != 3 ||
      number == 0 || number > NUMBER_MOST)
    torn(path, "the file is damaged");
  if (there != nodes) {
    char why[64];
    snprintf(why, sizeof why, "it is of %u nodes: start as many with -n", there);
    torn(path, why);
  }
  for (unsigned i = 0; i < nodes; i++) {
    if (fscanf(index, " image %u %" SCNu64 " %" SCNx64, &node, &said.length, &said.value) != 3 ||
        node != i)
      torn(path, "the file is damaged");
    read_image(keep, number, i, &said);
  }
  for (unsigned i = 0; i < nodes; i++)
    if (!read_begun(index, i, &keep->begun_lines[i]))
      torn(path, "the file is damaged");
  fclose(index);
  if (fsync(keep->dir) == 0)
    remove_others(keep->dir, number);
  return number;
}
