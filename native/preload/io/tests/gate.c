/* gate.c: the gate of processes that share it, some of whom die in there. */
#define _GNU_SOURCE
#include "../gate.h"
#include "check.h"

#include <signal.h>
#include <sys/mman.h>

/* Who may come in while the holder lives: nobody, however often they ask. */
static unsigned entries(struct io_gate *gate, unsigned tries, enum io_gate_answer *last) {
  unsigned entered = 0;
  for (unsigned i = 0; i < tries; i++) {
    enum io_gate_answer answer = io_gate_enter(gate, getpid());
    if (answer == IO_GATE_SHUT)
      continue;
    *last = answer;
    entered++;
    io_gate_leave(gate);
  }
  return entered;
}

static void stay_inside(void *gate_) {
  struct io_gate *gate = gate_;
  if (io_gate_enter(gate, getpid()) != IO_GATE_ENTERED)
    _exit(1);
  gate->guard.left = 0; /* half written */
  for (;;)
    pause();
}

static void who_is_killed_inside_shuts_nobody_out(struct io_gate *gate) {
  enum io_gate_answer last = IO_GATE_SHUT;
  CHECK_EQUAL(entries(gate, 10, &last), 10);
  CHECK_EQUAL(last, IO_GATE_ENTERED);
  pid_t child = start(stay_inside, gate);
  while (atomic_load(&gate->holder) == 0)
    CHECK_EQUAL(waitpid(child, NULL, WNOHANG), 0);
  CHECK_EQUAL(entries(gate, 4 * IO_GATE_REFUSALS, &last), 0);
  CHECK_EQUAL(kill(child, SIGKILL), 0);
  CHECK_EQUAL(WTERMSIG(finish(child)), SIGKILL);
  CHECK_EQUAL(entries(gate, IO_GATE_REFUSALS, &last), 1);
  CHECK_EQUAL(last, IO_GATE_TAKEN_OVER);
  CHECK_EQUAL(gate->guard.left, 2 * IO_GUARD_PROBE);
  CHECK_EQUAL(entries(gate, 10, &last), 10);
  CHECK_EQUAL(last, IO_GATE_ENTERED);
}

/* The word behind the gate is the holder's, and not atomic. */
static void come_and_go(void *gate_) {
  struct io_gate *gate = gate_;
  volatile uint32_t *inside = (uint32_t *)(gate + 1);
  for (int round = 0; round < 100000; round++) {
    if (io_gate_enter(gate, getpid()) == IO_GATE_SHUT)
      continue;
    uint32_t others = *inside;
    *inside = others + 1;
    CHECK_EQUAL(others, 0);
    *inside = 0;
    io_gate_leave(gate);
  }
}

static void one_is_inside_at_a_time(struct io_gate *gate) {
  pid_t children[4];
  for (int i = 0; i < 4; i++)
    children[i] = start(come_and_go, gate);
  for (int i = 0; i < 4; i++)
    CHECK_EQUAL(finish(children[i]), 0);
}

int main(void) {
  struct io_gate *gate =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(gate != MAP_FAILED);
  who_is_killed_inside_shuts_nobody_out(gate);
  one_is_inside_at_a_time(gate);
  return 0;
}
