#include "io.h"
void io_hint_read(int fd, uint32_t entry, int64_t offset, size_t bytes) {
  (void)fd;
  (void)entry;
  (void)offset;
  (void)bytes;
}
void io_hint_forget(int fd) { (void)fd; }
void io_hint_fork(void) {}
void io_hint_retire(void) {}
