/* folder.c: checkpoints in a folder (keep.h).
 *
 * NUMBER-NODE.image are the images, and `checkpoint` names the last whole checkpoint: its number,
 * how many nodes, each image's length and sum, and the lines that nodes had begun.  That file is
 * written aside and renamed, when all it names is on the disk.  So whatever moment the host dies
 * at, it names whole images. Those of older checkpoints are removed afterwards.
 */
#define _GNU_SOURCE
#include "keep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX "checkpoint"
#define FIRST_LINE "maru-checkpoint 1"
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

/* From the begin of one to where the other stands; its sum. */
static int copy(int from, int to, struct sum *sum) {
  static uint8_t piece[PIECE];
  *sum = (struct sum){0, UINT64_C(0xcbf29ce484222325)};
  for (ssize_t n;;) {
    n = pread(from, piece, sizeof piece, (off_t)sum->length);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? -errno : 0;
    sum->value = add(sum->value, piece, (size_t)n);
    sum->length += (uint64_t)n;
    int rc = write_all(to, piece, (size_t)n);
    if (rc < 0)
      return rc;
  }
}

static int image_path(char *path, const char *folder, uint32_t number, unsigned node) {
  return snprintf(path, PATH_MAX, "%s/%" PRIu32 "-%u.image", folder, number, node);
}

/* ---- writing ------------------------------------------------------------------------ */

static int write_image(const struct keep *keep, uint32_t number, unsigned node, struct sum *sum) {
  char path[PATH_MAX];
  image_path(path, keep->folder, number, node);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    return -errno;
  int rc = copy(keep->page->lines[node].files[number % 2], fd, sum);
  if (rc == 0 && fsync(fd) < 0)
    rc = -errno;
  close(fd);
  return rc;
}

static int sync_folder(const char *folder) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int rc = fd < 0 || fsync(fd) < 0 ? -errno : 0;
  if (fd >= 0)
    close(fd);
  return rc;
}

static int write_index(const char *folder, const char *text, size_t length) {
  char path[PATH_MAX], aside[PATH_MAX];
  snprintf(path, sizeof path, "%s/" INDEX, folder);
  snprintf(aside, sizeof aside, "%s/" INDEX ".new", folder);
  int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    return -errno;
  int rc = write_all(fd, (const uint8_t *)text, length);
  if (rc == 0 && fsync(fd) < 0)
    rc = -errno;
  close(fd);
  if (rc == 0 && rename(aside, path) < 0)
    rc = -errno;
  return rc == 0 ? sync_folder(folder) : rc;
}

static void remove_images(const char *folder, uint32_t number, unsigned nodes) {
  char path[PATH_MAX];
  for (unsigned node = 0; number != 0 && node < nodes; node++) {
    image_path(path, folder, number, node);
    unlink(path);
  }
}

static int write_checkpoint(const struct keep *keep, unsigned nodes, uint32_t number) {
  char *text;
  size_t length;
  FILE *index = open_memstream(&text, &length);
  int rc = index == NULL ? -ENOMEM : 0;
  if (rc == 0 && mkdir(keep->folder, 0700) < 0 && errno != EEXIST)
    rc = -errno;
  if (rc == 0)
    fprintf(index, FIRST_LINE "\nnumber %" PRIu32 "\nnodes %u\n", number, nodes);
  for (unsigned node = 0; node < nodes && rc == 0; node++) {
    struct sum sum;
    rc = write_image(keep, number, node, &sum);
    fprintf(index, "image %u %" PRIu64 " %016" PRIx64 "\n", node, sum.length, sum.value);
  }
  for (unsigned node = 0; node < nodes && rc == 0; node++) {
    const struct keep_begun *begun = &keep->begun_lines[node];
    fprintf(index, "begun %u %zu\n", node, begun->length);
    fwrite(begun->line, 1, begun->length, index);
    fputc('\n', index);
  }
  if (rc == 0)
    rc = sync_folder(keep->folder);
  if (index != NULL)
    fclose(index);
  return rc < 0 ? rc : write_index(keep->folder, text, length);
}

int mr_folder_write(const struct keep *keep, unsigned nodes, uint32_t number) {
  int rc = write_checkpoint(keep, nodes, number);
  if (rc == 0) {
    remove_images(keep->folder, keep->written, nodes);
    return 0;
  }
  remove_images(keep->folder, number, nodes);
  fprintf(stderr, "maru: launch: checkpoint %" PRIu32 " is not in %s: %s\n", number, keep->folder,
          strerror(-rc));
  return STATUS_MARU_FAILED;
}

/* ---- reading --------------------------------------------------------------------------- */

static _Noreturn void torn(const char *folder, const char *what) {
  char why[PATH_MAX + 64];
  snprintf(why, sizeof why, "%s: no checkpoint to go on from", folder);
  mr_launch_fail(STATUS_DATA_ERROR, why, what);
}

static void read_image(const struct keep *keep, const char *folder, uint32_t number, unsigned node,
                       const struct sum *said) {
  char path[PATH_MAX];
  struct sum sum;
  image_path(path, folder, number, node);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    torn(path, strerror(errno));
  int rc = copy(fd, keep->page->lines[node].files[number % 2], &sum);
  close(fd);
  if (rc < 0)
    torn(path, strerror(-rc));
  if (sum.length != said->length || sum.value != said->value)
    torn(path, "the file is damaged");
}

/* A line that the node had begun. */
static bool read_begun(FILE *index, unsigned i, struct keep_begun *begun) {
  unsigned node;
  size_t length;
  if (fscanf(index, " begun %u %zu", &node, &length) != 2 || node != i || length > MR_LAUNCH_LINE ||
      fgetc(index) != '\n')
    return false;
  begun->line = malloc(MR_LAUNCH_LINE);
  begun->length = length;
  return begun->line != NULL && fread(begun->line, 1, length, index) == length;
}

uint32_t mr_folder_read(struct keep *keep, unsigned nodes, const char *folder) {
  char path[PATH_MAX];
  uint32_t number = 0;
  unsigned there = 0, node;
  struct sum said;
  snprintf(path, sizeof path, "%s/" INDEX, folder);
  FILE *index = fopen(path, "re");
  if (index == NULL)
    torn(folder, strerror(errno));
  if (fscanf(index, FIRST_LINE " number %" SCNu32 " nodes %u", &number, &there) != 2 || number == 0)
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
    read_image(keep, folder, number, i, &said);
  }
  for (unsigned i = 0; i < nodes; i++)
    if (!read_begun(index, i, &keep->begun_lines[i]))
      torn(path, "the file is damaged");
  fclose(index);
  return number;
}
