// Description: the headers compile as C++17, and mean the same memory.
#include <maru/board.h>
#include <maru/channel.h>
#include <maru/dsm.h>
#include <maru/dsm.hpp>
#include <maru/histogram.h>
#include <maru/io.h>
#include <maru/lock.h>
#include <maru/lock.hpp>
#include <maru/lockprof.h>
#include <maru/overlay.h>
#include <maru/parmacs.h>
#include <maru/run.h>
#include <maru/stream.h>
#include <maru/topology.h>

static_assert(sizeof(maru_lock_node) == 64, "a node is as large as in C");
static_assert(alignof(maru_hold) == 64, "a hold is aligned as in C");
static_assert(sizeof(maru_worker_counters) == 4 * 8, "counters are as large as in C");
static_assert(sizeof(maru_io_line) == 256, "a line is as large as in C");
static_assert(sizeof(maru_lockprof_row) == 512, "a row is as large as in C");
static_assert(sizeof(maru::mutex) == sizeof(maru_mutex), "a mutex is as large as in C");
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a word is a word");

int take(maru_lock *lock);
int take(maru_lock *lock) {
  maru_hold hold;
  std::atomic<uint32_t> word{2};
  maru_wait_policy policy;
  int rc = maru_wait_policy_init(&policy, MARU_WAIT_BLOCK);
  if (rc == 0)
    rc = maru_wait(&word, 2, 2, &policy, MARU_WAIT_FOREVER);
  if (rc == 0)
    rc = maru_lock_acquire(lock, &hold);
  if (rc == 0)
    maru_lock_release(lock, &hold);
  return rc;
}
