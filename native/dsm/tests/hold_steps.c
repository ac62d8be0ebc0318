/* Description: the program's thread is held while another writes its image: no handler runs then,
 * what was sent waits, and comes once.  While a handler runs the thread is not held. */
#define _GNU_SOURCE
#include "../hold.h"
#include "check.h"

#include <maru/wait.h>
#include <pthread.h>
#include <unistd.h>

#define SOON INT64_C(200000000)
#define LONG INT64_C(10000000000)

static struct mr_hold hold;
static _Atomic bool over, stays;
static _Atomic int came, inside;

static void on_signal(int number) {
  (void)number;
  inside++;
  while (stays)
    usleep(1000);
  came++;
  inside--;
}

static void *wait_as_program(void *unused) {
  while (!over) {
    mr_hold_here(&hold);
    usleep(100);
  }
  return unused;
}

static bool holds(int64_t ns) {
  mr_hold_ask(&hold);
  return mr_hold_await(&hold, maru_now_ns() + ns);
}

static void *end_hold(void *unused) {
  CHECK(mr_hold_await(&hold, maru_now_ns() + LONG));
  mr_hold_end(&hold);
  return unused;
}

static void until(_Atomic int *figure, int is) {
  for (int i = 0; *figure != is && i < 10000; i++)
    usleep(1000);
  CHECK_EQUAL(*figure, is);
}

static void is_held(pthread_t program) {
  CHECK(holds(LONG));
  CHECK(!sigismember(&hold.waiting, SIGUSR1));
  pthread_kill(program, SIGUSR1);
  usleep(50000);
  CHECK_EQUAL(inside + came, 0);
  mr_hold_end(&hold);
  until(&came, 1);
}

static void is_not_held_in_a_handler(pthread_t program) {
  stays = true;
  pthread_kill(program, SIGUSR1);
  until(&inside, 1);
  CHECK(!holds(SOON));
  stays = false;
  until(&came, 2);
  CHECK(holds(LONG));
  mr_hold_end(&hold);
}

/* It waited before it was held. */
static void is_seen_waiting(void) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &one, NULL);
  raise(SIGUSR1);
  mr_hold_ask(&hold);
  pthread_t ender;
  CHECK_EQUAL(pthread_create(&ender, NULL, end_hold, NULL), 0);
  mr_hold_here(&hold);
  pthread_join(ender, NULL);
  CHECK(sigismember(&hold.waiting, SIGUSR1));
}

int main(void) {
  pthread_t program;
  const struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  mr_hold_here(&hold); /* nobody asks */
  CHECK_EQUAL(pthread_create(&program, NULL, wait_as_program, NULL), 0);
  is_held(program);
  is_not_held_in_a_handler(program);
  over = true;
  pthread_join(program, NULL);
  is_seen_waiting();
  return 0;
}
