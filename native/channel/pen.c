#define _GNU_SOURCE
#include "pen.h"

#include "process.h"
#include "stream.h"
#include "watch.h"

#include <endian.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { UP = -1, TAKEN = -2, LONGEST = 1000 };

#define FULL (UINT64_C(1) << 63)

struct maru_pen {
  _Atomic int64_t item;      /* the one that is evaluated, UP or TAKEN */
  _Atomic uint64_t *filling; /* counts a record that is being filled, or NULL */
  struct maru_log *log;      /* NULL: records go to the socket */
  struct maru_crew *crew;
  int socket;
  uint32_t kind;
  int no_room;
  pid_t process;
  struct maru_wall wall;
  struct maru_own own;
  struct maru_task task;
};

/* This process's, for those who come from outside of the worker's code. */
static struct maru_pen *_Atomic here;

struct maru_pen *maru_pen_new(int no_room) {
  struct maru_pen *pen = calloc(1, sizeof *pen);
  if (!pen)
    return NULL;
  atomic_init(&pen->item, UP);
  pen->no_room = no_room;
  pen->process = getpid();
  /* Release: a thread that finds the pen finds it made. */
  atomic_store_explicit(&here, pen, memory_order_release);
  return pen;
}

void maru_pen_on_log(struct maru_pen *pen, struct maru_log *log, struct maru_crew *crew) {
  pen->log = log;
  pen->crew = crew;
}

void maru_pen_on_socket(struct maru_pen *pen, int fd) { pen->socket = fd; }

void maru_pen_down(struct maru_pen *pen, int64_t item, uint32_t kind) {
  pen->kind = kind;
  /* Release: a thread that takes the pen sees all that was written while it was up. */
  atomic_store_explicit(&pen->item, item, memory_order_release);
}

void maru_pen_up(struct maru_pen *pen) {
  /* Relaxed: nothing that another thread wrote is read on the strength of it. */
  if (atomic_exchange_explicit(&pen->item, UP, memory_order_relaxed) != TAKEN)
    return;
  for (;;)
    pause();
}

void maru_pen_filling(struct maru_pen *pen, _Atomic uint64_t *word) { pen->filling = word; }

int64_t maru_pen_item(struct maru_pen *pen) {
  return atomic_load_explicit(&pen->item, memory_order_relaxed);
}

static size_t packed(char *to, const char *text) {
  size_t n = strnlen(text, LONGEST);
  uint64_t length = htobe64(n);
  memcpy(to, &length, sizeof length);
  memcpy(to + sizeof length, text, n);
  return sizeof length + n;
}

/* The exit status: 0, or that there was no room to say it. */
static int say(struct maru_pen *pen, uint64_t item, const char *chunk, size_t bytes) {
  if (!pen->log) {
    (void)maru_stream_send(pen->socket, item, pen->kind, chunk, bytes); /* fails: nobody is left */
    return 0;
  }
  if (pen->filling)
    /* Release: as maru_publish. */
    atomic_fetch_or_explicit(pen->filling, FULL, memory_order_release);
  if (maru_log_append(pen->log, item, pen->kind, chunk, bytes) < 0) {
    maru_log_close(pen->log); /* by this the coordinator knows that no item chose that status */
    return pen->no_room;
  }
  maru_crew_ring(pen->crew);
  return 0;
}

void maru_pen_seal(struct maru_pen *pen, int64_t item, const char *reason) {
  char chunk[sizeof(uint64_t) + LONGEST];
  /* Acquire: pairs with `down`. */
  if (item < 0 || getpid() != pen->process ||
      !atomic_compare_exchange_strong_explicit(&pen->item, &(int64_t){item}, TAKEN,
                                               memory_order_acquire, memory_order_relaxed))
    return;
  _exit(say(pen, (uint64_t)item, chunk, packed(chunk, reason)));
}

void maru_pen_seal_here(const char *reason) {
  struct maru_pen *pen = atomic_load_explicit(&here, memory_order_acquire);
  if (pen)
    maru_pen_seal(pen, maru_pen_item(pen), reason);
}

static int64_t item_of(void *pen) { return maru_pen_item(pen); }

static void seal(void *pen, int64_t item, const char *reason) { maru_pen_seal(pen, item, reason); }

int maru_pen_note_own(struct maru_pen *pen) { return maru_own_note(&pen->own); }

int maru_pen_guard(struct maru_pen *pen, const struct maru_fd_snapshot *snapshot) {
  int r = maru_waits_visible();
  if (r == 0)
    r = maru_wall_build(&pen->wall);
  if (r == 0)
    r = maru_fd_snapshot_wall(snapshot, pen->wall.fd);
  if (r < 0)
    return r;
  pen->task = (struct maru_task){item_of, seal, pen};
  maru_watch_wall(&pen->wall, &pen->task);
  return 0;
}

bool maru_pen_rests(const struct maru_pen *pen) {
  return maru_waits_are_endless(&pen->own, maru_watch_tid());
}
