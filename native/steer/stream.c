/* stream.c: a ring that the reading thread fills and the consumer empties.
 *
 * `filled` counts the blocks that were read, `freed` those that were given back; both only grow,
 * by one, and wrap together. The holder of `token` reads the next block. That is the thread, but a
 * consumer that finds the ring empty and the token free reads for itself, into the block that it
 * holds. Without a core for the thread a stream is as good as read(2), which goes on in memory that
 * is in the cache. The consumer rings `space` only twice a round of the ring. A thread that was
 * stopped by a full ring finds half of it empty, and the two do not hand over the CPU for every
 * block.  (A ring that is full but for what is held is rung for: that is one block, and there are
 * two ringing places.)
 */
#define _GNU_SOURCE
#include <maru/stream.h>
#include <maru/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_MOST (1u << 30)
#define BLOCKS_MOST 65536u
#define COUNT (~MARU_WAIT_ARMED)
#define HELD 2u

struct maru_stream {
  int fd;      /* to read from */
  bool own_fd; /* it is ours: see never_waits */
  bool socket;
  int stop_fd; /* readable: stop; -1 for files, whose reads end by themselves */
  size_t block_bytes;
  unsigned blocks;
  char *memory;
  ssize_t *lengths; /* of each block; 0 or -errno in the last one */
  pthread_t thread;
  /* The token's holder's. */
  unsigned place; /* of the next block to be read */
  bool ended;
  /* The consumer's. */
  uint32_t consumed; /* blocks */
  unsigned block;    /* the place of the next one, or of the one that is held */
  bool holding;      /* it was handed out, and is not consumed yet */
  struct maru_wait_policy policy;
  /* In units of MARU_WAIT_STEP. */
  alignas(64) _Atomic uint32_t filled;
  alignas(64) _Atomic uint32_t freed;
  _Atomic uint32_t space;
  _Atomic uint32_t token; /* 0: free; HELD */
  _Atomic uint32_t stop;
};

/* ---- reading ------------------------------------------------------------- */

/* Until there is something to read, or the end or an error; false: stop. */
static bool readable(struct maru_stream *stream) {
  if (stream->stop_fd < 0)
    return true;
  struct pollfd both[2] = {{.fd = stream->fd, .events = POLLIN},
                           {.fd = stream->stop_fd, .events = POLLIN}};
  while (poll(both, 2, -1) < 0)
    if (errno != EINTR)
      return true; /* read will say */
  return both[1].revents == 0;
}

static char *memory_of(struct maru_stream *stream, unsigned place) {
  return stream->memory + (size_t)place * stream->block_bytes;
}

static ssize_t read_block(struct maru_stream *stream, char *memory) {
  for (;;) {
    if (!readable(stream))
      return -ECANCELED;
    ssize_t got = stream->socket ? recv(stream->fd, memory, stream->block_bytes, MSG_DONTWAIT)
                                 : read(stream->fd, memory, stream->block_bytes);
    if (got >= 0)
      return got;
    if (errno != EINTR && (errno != EAGAIN || stream->stop_fd < 0))
      return -errno;
  }
}

static bool has_space(struct maru_stream *stream) {
  /* Acquire: the consumer is done with the block.  The token orders `filled`. */
  uint32_t freed = atomic_load_explicit(&stream->freed, memory_order_acquire);
  uint32_t filled = atomic_load_explicit(&stream->filled, memory_order_relaxed) & COUNT;
  return (filled - freed) / MARU_WAIT_STEP < stream->blocks;
}

static bool take_token(struct maru_stream *stream) {
  uint32_t now = atomic_load_explicit(&stream->token, memory_order_relaxed);
  /* A thread that waited for it leaves the word armed.  Acquire: what the last holder did. */
  while ((now & COUNT) == 0)
    if (atomic_compare_exchange_weak_explicit(&stream->token, &now, now | HELD,
                                              memory_order_acquire, memory_order_relaxed))
      return true;
  return false;
}

static void give_token(struct maru_stream *stream) { maru_notify_store(&stream->token, 0); }

/* With the token. */
static void read_into(struct maru_stream *stream, unsigned place) {
  stream->lengths[place] = read_block(stream, memory_of(stream, place));
  stream->ended = stream->lengths[place] <= 0;
}

/* With the token. */
static void read_next(struct maru_stream *stream) {
  read_into(stream, stream->place);
  stream->place = stream->place + 1 == stream->blocks ? 0 : stream->place + 1;
  maru_notify(&stream->filled);
}

/* ---- the reading thread -------------------------------------------------- */

static bool stopped(struct maru_stream *stream) {
  return atomic_load_explicit(&stream->stop, memory_order_relaxed) != 0; /* nothing hangs on it */
}

static void *read_ahead(void *argument) {
  struct maru_stream *stream = argument;
  struct maru_wait_policy policy;
  /* Full means that the consumer is slower: it wants the core more. */
  maru_wait_policy_init(&policy, MARU_WAIT_BLOCK);
  while (!stopped(stream)) {
    /* Acquire, and before the look at `freed`: what is given back later rings later. */
    uint32_t seen = atomic_load_explicit(&stream->space, memory_order_acquire) & COUNT;
    if (!take_token(stream)) {
      maru_wait(&stream->token, 0, COUNT, &policy, MARU_WAIT_FOREVER);
    } else if (stream->ended) {
      give_token(stream);
      break;
    } else if (has_space(stream)) {
      read_next(stream);
      give_token(stream);
    } else {
      give_token(stream);
      if (!stopped(stream))
        maru_wait_while(&stream->space, seen, COUNT, &policy, MARU_WAIT_FOREVER);
    }
  }
  return NULL;
}

/* ---- the consumer -------------------------------------------------------- */

static void give_back(struct maru_stream *stream) {
  stream->consumed++;
  stream->block = stream->block + 1 == stream->blocks ? 0 : stream->block + 1;
  /* Release: we are done with the block.  One writer. */
  atomic_store_explicit(&stream->freed, stream->consumed * MARU_WAIT_STEP, memory_order_release);
  if (stream->block % (stream->blocks / 2) == 0)
    maru_notify(&stream->space);
}

/* There is no next block: reads one, or waits until the thread has.  True: into the one that is
 * held.  Returns early when a handler ran. */
static bool fetch(struct maru_stream *stream, uint32_t next) {
  if (!take_token(stream)) {
    maru_wait_while(&stream->filled, next, COUNT, &stream->policy, MARU_WAIT_FOREVER);
    return false;
  }
  int cancel; /* a thread that is cancelled here would take the token with it */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
  /* The thread may have read it meanwhile, and ended.  Relaxed: with the token. */
  bool none = (atomic_load_explicit(&stream->filled, memory_order_relaxed) & COUNT) == next;
  if (none && stream->holding)
    read_into(stream, stream->block);
  else if (none)
    read_next(stream);
  give_token(stream);
  pthread_setcancelstate(cancel, NULL);
  return none && stream->holding;
}

ssize_t maru_stream_next(struct maru_stream *stream, const void **data) {
  uint32_t next = (stream->consumed + stream->holding) * MARU_WAIT_STEP;
  bool again = false; /* the block that is held has been read anew */
  /* Acquire: the block. */
  while (!again && (atomic_load_explicit(&stream->filled, memory_order_acquire) & COUNT) == next)
    again = fetch(stream, next);
  if (stream->holding && !again)
    give_back(stream);
  ssize_t length = stream->lengths[stream->block];
  stream->holding = length > 0; /* the end stays where it is */
  if (stream->holding)
    *data = memory_of(stream, stream->block);
  return length;
}

/* ---- beginning and ending ------------------------------------------------ */

/* What poll promised may be gone: to another reader, or a datagram that was damaged. A read that
 * waits then would not hear of the end. So sockets are asked not to wait, and a pipe is opened
 * once more for that, since the flag of the caller's own descriptor is everybody's. Other
 * devices have one reader. */
static void never_waits(struct maru_stream *stream, mode_t mode) {
  char path[64];
  stream->socket = S_ISSOCK(mode);
  if (!S_ISFIFO(mode))
    return;
  snprintf(path, sizeof path, "/proc/self/fd/%d", stream->fd);
  int again = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (again < 0)
    return; /* no /proc, or another user's: as good as it goes */
  stream->fd = again;
  stream->own_fd = true;
}

static void dispose(struct maru_stream *stream) {
  if (stream->own_fd)
    close(stream->fd);
  if (stream->memory != MAP_FAILED)
    munmap(stream->memory, stream->block_bytes * stream->blocks);
  if (stream->stop_fd >= 0)
    close(stream->stop_fd);
  free(stream->lengths);
  free(stream);
}

static int stream_begin(struct maru_stream *stream) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's business */
  int rc = pthread_create(&stream->thread, NULL, read_ahead, stream);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return -rc;
}

static int prepare(struct maru_stream *stream) {
  struct stat status;
  if (fstat(stream->fd, &status) < 0)
    return -errno;
  if ((fcntl(stream->fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
    return -EBADF; /* it would never be readable, and the reader wait for that */
  if (!S_ISREG(status.st_mode) && (stream->stop_fd = eventfd(0, EFD_CLOEXEC)) < 0)
    return -errno;
  never_waits(stream, status.st_mode);
  stream->lengths = calloc(stream->blocks, sizeof *stream->lengths);
  /* Populated: page faults are what the reading thread would spend its time on. */
  stream->memory = mmap(NULL, stream->block_bytes * stream->blocks, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (stream->lengths == NULL || stream->memory == MAP_FAILED)
    return -ENOMEM;
  maru_wait_policy_init(&stream->policy, MARU_WAIT_ADAPTIVE);
  return stream_begin(stream);
}

int maru_stream_open(struct maru_stream **stream, int fd, size_t block_bytes, unsigned blocks) {
  block_bytes = block_bytes == 0 ? MARU_STREAM_BLOCK : block_bytes;
  blocks = blocks == 0 ? MARU_STREAM_BLOCKS : blocks;
  if (block_bytes > BLOCK_MOST || blocks < 2 || blocks > BLOCKS_MOST)
    return -EINVAL;
  struct maru_stream *made = aligned_alloc(alignof(struct maru_stream), sizeof *made);
  if (made == NULL)
    return -ENOMEM;
  *made = (struct maru_stream){
      .fd = fd, .stop_fd = -1, .block_bytes = block_bytes, .blocks = blocks, .memory = MAP_FAILED};
  int rc = prepare(made);
  if (rc < 0)
    dispose(made);
  else
    *stream = made;
  return rc;
}

void maru_stream_close(struct maru_stream *stream) {
  if (stream == NULL)
    return;
  atomic_store_explicit(&stream->stop, 1, memory_order_relaxed); /* the ring and the event order */
  maru_notify(&stream->space);
  if (stream->stop_fd >= 0)
    (void)!write(stream->stop_fd, &(uint64_t){1}, sizeof(uint64_t)); /* cannot fail: it was 0 */
  pthread_join(stream->thread, NULL);
  dispose(stream);
}
