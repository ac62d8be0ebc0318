/* Description: waits and logs work where a sandbox refuses futex and memfd_create. */
#define _GNU_SOURCE
#include <maru/board.h>
#include <maru/channel.h>

#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/times.h>

#define REFUSE(call)                                                                               \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),                                                 \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static void enter_sandbox(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      REFUSE(SYS_futex),
      REFUSE(SYS_memfd_create),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
    skip("seccomp is not available");
}

static void notify_later(void *word) {
  usleep(20000);
  maru_notify(word);
}

int main(void) {
  enter_sandbox();
  struct maru_wait_policy policy;
  struct maru_board board;
  struct maru_record record;
  struct maru_log *log;
  _Atomic uint32_t *word =
      mmap(NULL, sizeof *word, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(word != MAP_FAILED);
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  pid_t pid = start(notify_later, word);
  CHECK_EQUAL(maru_wait(word, 2, ~1u, &policy, maru_now_ns() + 5000000000), 0);
  CHECK_EQUAL(finish(pid), 0);

  struct tms used;
  CHECK_EQUAL(maru_wait(word, 4, ~1u, &policy, maru_now_ns() + 300000000), -ETIMEDOUT);
  CHECK(times(&used) != (clock_t)-1);
  CHECK((used.tms_utime + used.tms_stime) * 1000 / sysconf(_SC_CLK_TCK) < 150); /* no burning */

  CHECK_EQUAL(maru_log_create(&log, 4096), 0);
  CHECK_EQUAL(maru_log_append(log, 1, 0, "x", 1), 0);
  CHECK_EQUAL(maru_log_next(log, &record), 1);
  maru_log_destroy(log);
  CHECK_EQUAL(maru_board_create(&board, 4096), -EPERM);
  return 0;
}
