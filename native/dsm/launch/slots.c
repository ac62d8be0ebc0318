#define _GNU_SOURCE
#include "keep.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t mr_slots_read_at(int fd, uint8_t *bytes, size_t length, uint64_t at) {
  size_t done = 0;
  while (done < length) {
    ssize_t n = pread(fd, bytes + done, length - done, (off_t)(at + done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? -errno : (ssize_t)done;
    done += (size_t)n;
  }
  return (ssize_t)done;
}

int mr_slots_open(int file, struct mr_slots *slots) {
  struct mr_checkpoint_head head;
  struct stat is;
  *slots = (struct mr_slots){.each = NULL};
  if (fstat(file, &is) < 0)
    return -errno;
  slots->length = (size_t)is.st_size;
  if (mr_slots_read_at(file, (uint8_t *)&head, sizeof head, 0) != sizeof head ||
      head.slots > slots->length ||
      head.slot_count > (slots->length - head.slots) / sizeof *slots->each)
    return -EBADMSG;
  size_t size = head.slot_count * sizeof *slots->each;
  slots->count = head.slot_count;
  slots->each = malloc(size + 1);
  if (slots->each == NULL)
    return -ENOMEM;
  bool whole = mr_slots_read_at(file, (uint8_t *)slots->each, size, head.slots) == (ssize_t)size;
  return whole ? 0 : -EBADMSG;
}

size_t mr_slots_row(const struct mr_slots *slots, size_t first, size_t most) {
  size_t count = 1;
  while (first + count < slots->count && count < most &&
         slots->each[first + count] == slots->each[first] + count)
    count++;
  return count;
}
