/* Description: a launcher's page that cannot be mapped is not called another's: what is said is
 * why. */
#define _GNU_SOURCE
#include "../checkpoint.h"

#include "check.h"

#include <sys/mman.h>
#include <sys/resource.h>

struct try {
  size_t size; /* of the file */
  bool narrow; /* there are no addresses left */
  int says[2];
};

static void open_page(void *context) {
  const struct try *try = context;
  const struct rlimit none = {0, 0};
  char named[64];
  int fd = memfd_create("maru-test", MFD_CLOEXEC);
  CHECK(fd >= 0 && ftruncate(fd, (off_t)try->size) == 0);
  snprintf(named, sizeof named, "/proc/%d/fd/%d", (int)getpid(), fd);
  CHECK_EQUAL(setenv("MARU_DSM_CHECKPOINTS", named, 1), 0);
  CHECK_EQUAL(dup2(try->says[1], STDERR_FILENO), STDERR_FILENO);
  free(malloc(1 << 16)); /* what it allocates itself is there */
  if (try->narrow)
    CHECK_EQUAL(setrlimit(RLIMIT_AS, &none), 0);
  mr_checkpoints_open(2, 0);
}

static void refuses(size_t size, bool narrow, const char *why) {
  struct try try = {.size = size, .narrow = narrow};
  char said[512];
  CHECK_EQUAL(pipe(try.says), 0);
  pid_t pid = start(open_page, &try);
  close(try.says[1]);
  ssize_t length = read(try.says[0], said, sizeof said - 1);
  close(try.says[0]);
  CHECK(WEXITSTATUS(finish(pid)) != 0 && length > 0);
  said[length] = 0;
  snprintf(check_note, sizeof check_note, "%.100s", said);
  CHECK(strstr(said, why) != NULL);
}

int main(void) {
  size_t size = sizeof(struct mr_checkpoint_page);
  refuses(1, false, "it is not the launcher's page");
  refuses(size, false, "it is another version's, or another job's");
  /* Sanitizers need addresses themselves. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  refuses(size, true, strerror(ENOMEM));
#endif
  return 0;
}
