/* strike.c: tells a test when a node comes to a lock or a barrier (survivors.py).
 *
 * Preloaded into a program of maru-cc.  Where the file "$MARU_TEST_STRIKE.KIND" is there, a node
 * that comes to an operation of that kind appends its pid, and goes on.  Each call asks anew: the
 * test makes the file at the moment that it has drawn, and takes it away.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void come_to(const char *kind) {
  const char *name = getenv("MARU_TEST_STRIKE");
  char path[4096];
  int32_t self = (int32_t)getpid();
  if (name == NULL)
    return;
  snprintf(path, sizeof path, "%s.%s", name, kind);
  int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0)
    return;
  if (write(fd, &self, sizeof self) != sizeof self)
    abort();
  close(fd);
}

typedef void one(uint32_t id);
typedef void two(uint32_t id, long processes);

#define ONE(name, kind)                                                                            \
  void name(uint32_t id) {                                                                         \
    one *next = (one *)dlsym(RTLD_NEXT, #name);                                                    \
    come_to(kind);                                                                                 \
    next(id);                                                                                      \
  }

one maru_dsm_lock, maru_dsm_unlock, maru_dsm_barrier, maru_parmacs_lock, maru_parmacs_unlock;
two maru_parmacs_barrier;

ONE(maru_dsm_lock, "lock")
ONE(maru_parmacs_lock, "lock")
/* Both send home what was written. */
ONE(maru_dsm_unlock, "flush")
ONE(maru_parmacs_unlock, "flush")

void maru_dsm_barrier(uint32_t id) {
  one *next = (one *)dlsym(RTLD_NEXT, "maru_dsm_barrier");
  come_to("flush");
  come_to("barrier");
  next(id);
}

void maru_parmacs_barrier(uint32_t id, long processes) {
  two *next = (two *)dlsym(RTLD_NEXT, "maru_parmacs_barrier");
  come_to("flush");
  come_to("barrier");
  next(id, processes);
}
