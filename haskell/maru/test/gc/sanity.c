/* For the stress programs' workers. */
#include <Rts.h>
#include <pthread.h>
#include <unistd.h>

/* After a collection of everything the threaded debug run-time system checks each thread's link in
   the list of all threads. In a forked process these links dangle: forkProcess drops the list, not
   the links, and of the parent's dead threads some may be collected before others. */
static void without_sanity(void) { RtsFlags.DebugFlags.sanity = false; }

/* At the fork: a worker may collect before its first instruction. */
__attribute__((constructor)) static void at_start(void) {
  if (rtsSupportsBoundThreads())
    pthread_atfork(NULL, NULL, without_sanity);
}

/* Of native/base and native/channel, for workers: no child of these tests takes signals, or
   evaluates a map's items. */
void maru_worker_signals(void);
void maru_worker_signals(void) {}
void maru_pen_seal_here(const char *reason);
void maru_pen_seal_here(const char *reason) { (void)reason; }
void maru_pen_seal_start_here(const char *reason);
void maru_pen_seal_start_here(const char *reason) { (void)reason; }
_Noreturn void maru_pen_end_here(const char *reason, int status);
void maru_pen_end_here(const char *reason, int status) {
  (void)reason;
  _exit(status);
}

/* Of native/base, too: no child of these tests outlives a parent that was killed, or seals what it
   has inherited. */
int maru_fd_snapshot_take(void *snapshot);
int maru_fd_snapshot_take(void *snapshot) { return (void)snapshot, 0; }
int maru_lifeline_tie(int reading, int worker);
int maru_lifeline_tie(int reading, int worker) { return (void)reading, (void)worker, -1; }
