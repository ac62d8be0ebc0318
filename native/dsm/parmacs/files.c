#define _GNU_SOURCE
#include "files.h"

#include "../node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* What open is to be told again; the rest it was told for its first time, or is refused. */
#define KEPT (O_ACCMODE | O_NONBLOCK | O_DIRECT | O_DSYNC | O_SYNC | O_NOATIME | O_LARGEFILE)

/* drivers/char/mem.c: null, zero, full, random, urandom. */
#define MEMORY_DEVICES 1
static const unsigned char system_devices[] = {3, 5, 7, 8, 9};

static bool is_system(const struct stat *is) {
  return S_ISCHR(is->st_mode) && major(is->st_rdev) == MEMORY_DEVICES &&
         memchr(system_devices, (int)minor(is->st_rdev), sizeof system_devices) != NULL;
}

static bool writes(const struct mr_file *file) { return (file->flags & O_ACCMODE) == O_WRONLY; }

/* ---- looking ---------------------------------------------------------------------------- */

static int refuse(char *why, size_t size, const struct mr_file *file, const char *what) {
  snprintf(why, size, "the program has %.64s open, as descriptor %d%s", file->path, file->fd, what);
  return -EOPNOTSUPP;
}

static void find_path(struct mr_file *file) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file->fd);
  ssize_t length = readlink(link, file->path, sizeof file->path - 1);
  file->path[length > 0 ? length : 0] = 0;
}

/* The kernel says so of locks that end with the process, or with the descriptor. */
static bool is_locked(int fd) {
  char path[64], text[4096];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  int info = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = info >= 0 ? read(info, text, sizeof text - 1) : 0;
  if (info >= 0)
    close(info);
  text[length > 0 ? length : 0] = 0;
  return strstr(text, "\nlock:") != NULL;
}

/* As another process will.  At first without waiting: a pipe that has the name by now may have
 * nobody at its other end, ever. */
static int open_again(const struct mr_file *file) {
  return open(file->path, (file->flags & KEPT) | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

static bool opens_again(const struct mr_file *file) {
  struct stat is;
  int fd = open_again(file);
  bool same =
      fd >= 0 && fstat(fd, &is) == 0 && is.st_dev == file->device && is.st_ino == file->inode;
  if (fd >= 0)
    close(fd);
  return same;
}

/* To close what `opens_again` opens would end its locks: they come first. */
static const char *what_is_lost(const struct mr_file *file, const struct stat *is) {
  if (file->system)
    return opens_again(file) ? NULL : ", which cannot be opened again";
  if (!S_ISREG(is->st_mode) || file->path[0] != '/')
    return "";
  return (file->flags & O_PATH) || (file->flags & O_ASYNC) ? ""
         : file->flags & O_APPEND ? ", to append: what it appends would come again"
         : (file->flags & O_ACCMODE) == O_RDWR
             ? ", to read and write: it might read what it writes later"
         : is_locked(file->fd) ? ", with a lock"
         : is->st_nlink == 0   ? ", which has no name any more"
         : file->offset < 0    ? ", and nobody knows where it is in it"
         : !opens_again(file)  ? ", which cannot be opened again by that name"
                               : NULL;
}

void mr_files_begin(struct mr_files *files) {
  files->count = 0;
  files->host_known = mr_host_find(files->host);
}

int mr_files_add(struct mr_files *files, int fd, char *why, size_t size) {
  struct stat is;
  if (files->count == MR_FILES_MOST) {
    snprintf(why, size, "the program has more than %d files open", MR_FILES_MOST);
    return -EOPNOTSUPP;
  }
  struct mr_file *file = &files->each[files->count];
  if (fstat(fd, &is) < 0)
    return -errno;
  *file = (struct mr_file){.device = is.st_dev,
                           .inode = is.st_ino,
                           .size = is.st_size,
                           .changed = is.st_mtim,
                           .fd = fd,
                           .flags = fcntl(fd, F_GETFL),
                           .fd_flags = fcntl(fd, F_GETFD),
                           .same = -1,
                           .system = is_system(&is)};
  find_path(file);
  file->offset = file->system ? 0 : lseek(fd, 0, SEEK_CUR);
  file->at_end = writes(file) && file->offset == file->size;
  const char *what = what_is_lost(file, &is);
  if (what != NULL)
    return refuse(why, size, file, what);
  files->count++;
  return 0;
}

/* ---- together ------------------------------------------------------------------------------ */

/* They are of one opening if one moves with the other. */
static bool moves_with(int one, int other) {
  struct stat is, other_is;
  off_t at = lseek(one, 0, SEEK_CUR);
  if (fstat(one, &is) < 0 || fstat(other, &other_is) < 0 || is.st_dev != other_is.st_dev ||
      is.st_ino != other_is.st_ino || at < 0 || lseek(other, 0, SEEK_CUR) != at ||
      lseek(one, at + 1, SEEK_SET) < 0)
    return false;
  bool moved = lseek(other, 0, SEEK_CUR) == at + 1;
  lseek(one, at, SEEK_SET);
  return moved;
}

static bool has(const struct mr_files *files, int fd) {
  bool found = false;
  for (uint32_t i = 0; i < files->count; i++)
    found = found || files->each[i].fd == fd;
  return found;
}

/* With those before it. */
static int compare(const struct mr_files *files, struct mr_file *file, char *why, size_t size) {
  for (const struct mr_file *other = files->each; other < file; other++) {
    if (other->inode != file->inode || other->device != file->device)
      continue;
    if (writes(file) != writes(other))
      return refuse(why, size, file, ", and another time: it reads and writes it");
    if (file->same < 0 && other->same < 0 && moves_with(file->fd, other->fd))
      file->same = (int)(other - files->each);
  }
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (!has(files, fd) && moves_with(file->fd, fd))
      return refuse(why, size, file, ", which it was given");
  return 0;
}

static bool is_shared(const struct mr_files *files, const struct mr_file *file) {
  bool shared = file->same >= 0;
  for (uint32_t i = 0; i < files->count; i++)
    shared = shared || (files->each[i].same >= 0 && &files->each[files->each[i].same] == file);
  return shared;
}

static int add_stream(void *context, int slot, FILE *stream, char *why, size_t size) {
  struct mr_files *files = context;
  struct mr_file *file = files->each, *end = files->each + files->count;
  while (file < end && file->fd != fileno(stream))
    file++;
  if (file == end || file->streamed) {
    snprintf(why, size,
             "the program has a stream open that no checkpoint can hold, of descriptor %d",
             fileno(stream));
    return -EOPNOTSUPP;
  }
  int rc = mr_streams_find(slot, stream, &file->stream, why, size);
  if (rc < 0)
    return rc;
  file->streamed = true;
  if (!file->system && file->stream.at < 0)
    return refuse(why, size, file, ", and nobody knows where its stream is in it");
  if (file->stream.ahead && is_shared(files, file))
    return refuse(why, size, file, ", and another descriptor of it, which a stream has read ahead");
  if (!file->system)
    file->offset = file->stream.at;
  return 0;
}

int mr_files_end(struct mr_files *files, char *why, size_t size) {
  for (uint32_t i = 0; i < files->count; i++) {
    struct mr_file *file = &files->each[i];
    int rc = file->system ? 0 : compare(files, file, why, size);
    if (rc < 0)
      return rc;
    /* A checkpoint outlives a host, and what its program has written has to. */
    if (!file->system && writes(file) && fdatasync(file->fd) < 0)
      return refuse(why, size, file, ", and it cannot be written to its disk");
  }
  return mr_streams_walk(add_stream, files, why, size);
}

/* ---- opening again -------------------------------------------------------------------------- */

static _Noreturn void cannot(const struct mr_file *file, const char *what) {
  mr_node_die(STATUS_DATA, "cannot go on: the program had %s open, as descriptor %d: %s",
              file->path, file->fd, what);
}

/* On another host a device has another number.  There a file that is only read has to be one that
 * nobody has changed. */
static const char *what_differs(const struct mr_file *file, const struct stat *is, bool here) {
  if (file->system)
    return is_system(is) ? NULL : "it is another file now";
  bool same =
      S_ISREG(is->st_mode) && is->st_ino == file->inode && (!here || is->st_dev == file->device);
  bool changed = is->st_mtim.tv_sec != file->changed.tv_sec ||
                 is->st_mtim.tv_nsec != file->changed.tv_nsec || is->st_size != file->size;
  return !same                               ? "it is another file now"
         : is->st_size < file->offset        ? "it is shorter now than where the program was in it"
         : !here && !writes(file) && changed ? "it is another host's, and was changed"
                                             : NULL;
}

/* What the program wrote behind it comes again, but not always as much. */
static void stand_there(const struct mr_file *file, int fd, const struct stat *is) {
  if (file->at_end && is->st_size > file->size && ftruncate(fd, file->size) < 0)
    cannot(file, strerror(errno));
  if (!file->system && lseek(fd, file->offset, SEEK_SET) < 0)
    cannot(file, strerror(errno));
  if (!(file->flags & O_NONBLOCK) && fcntl(fd, F_SETFL, file->flags & KEPT) < 0)
    cannot(file, strerror(errno));
}

static void place(const struct mr_file *file, int fd) {
  if (fd != file->fd) {
    if (file->fd > STDERR_FILENO && fcntl(file->fd, F_GETFD) >= 0)
      cannot(file, "this process was given another file there");
    if (dup2(fd, file->fd) < 0)
      cannot(file, strerror(errno));
    close(fd);
  }
  if (fcntl(file->fd, F_SETFD, file->fd_flags) < 0)
    cannot(file, strerror(errno));
}

static int open_one(const struct mr_files *files, const struct mr_file *file, bool here) {
  struct stat is;
  int fd = file->same >= 0 ? dup(files->each[file->same].fd) : open_again(file);
  if (fd < 0 || fstat(fd, &is) < 0)
    cannot(file, strerror(errno));
  const char *what = what_differs(file, &is, here);
  if (what != NULL)
    cannot(file, what);
  if (file->same < 0)
    stand_there(file, fd, &is);
  return fd;
}

static const char *mode_of(const struct mr_file *file) {
  return writes(file) ? "w" : (file->flags & O_ACCMODE) == O_RDWR ? "r+" : "r";
}

void mr_files_open(const struct mr_files *files) {
  char host[MR_HOST_ID];
  bool here =
      files->host_known && mr_host_find(host) && memcmp(host, files->host, sizeof host) == 0;
  for (uint32_t i = 0; i < files->count; i++) {
    const struct mr_file *file = &files->each[i];
    place(file, open_one(files, file, here));
    if (file->streamed && !mr_streams_make(&file->stream, file->fd, mode_of(file)))
      cannot(file, strerror(errno));
  }
}
