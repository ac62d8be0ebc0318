/* server.c: what the documents' commands are run on by scripts/test.d/64-documents; nothing of maru
 * is in it.
 *
 *     server [FILE] [SECONDS]      FILE: read in order; SECONDS: how long (0.3)
 *
 * Two processes.  In each, two threads take one mutex in turns, and one of them asks a socket
 * again and again.  Prints how often a second the mutexes were taken.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_ulong *taken; /* by both processes */
static double until;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void turns(void) {
  for (int i = 0; i < 200; i++) {
    pthread_mutex_lock(&mutex);
    atomic_fetch_add_explicit(taken, 1, memory_order_relaxed); /* a count, read after both ended */
    pthread_mutex_unlock(&mutex);
  }
}

static void *other_thread(void *unused) {
  while (now() < until)
    turns();
  return unused;
}

/* Asks without waiting, 2000 times, as programs do that have nothing else to do. */
static void ask(int socket) {
  struct pollfd empty = {.fd = socket, .events = POLLIN};
  for (int i = 0; i < 2000; i++)
    poll(&empty, 1, 0);
}

static int serve(const char *file) {
  static char piece[1 << 16];
  int sockets[2], from = file ? open(file, O_RDONLY) : -1;
  pthread_t other;
  if (file && from < 0)
    return perror(file), 1;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0 ||
      pthread_create(&other, NULL, other_thread, NULL) != 0)
    return 1;
  while (now() < until) {
    turns();
    ask(sockets[0]);
    if (file && read(from, piece, sizeof piece) == 0)
      lseek(from, 0, SEEK_SET);
  }
  return pthread_join(other, NULL);
}

int main(int argc, char **argv) {
  const char *file = argc > 1 && access(argv[1], F_OK) == 0 ? argv[1] : NULL;
  double seconds = argc > (file ? 2 : 1) ? atof(argv[file ? 2 : 1]) : 0.3;
  taken = mmap(NULL, sizeof *taken, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (taken == MAP_FAILED)
    return 1;
  until = now() + seconds;
  pid_t parent = getpid(), child = fork();
  if (child < 0)
    return 1;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() == parent ? serve(file) : 1;
  }
  int failed = serve(file), status = 1;
  waitpid(child, &status, 0);
  printf("TPS: %.0f\n", (double)atomic_load(taken) / seconds);
  return failed || status != 0;
}
