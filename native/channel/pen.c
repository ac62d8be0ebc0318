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

/* What a thread waits for that can never be had here. */
struct owed {
  uint32_t kind; /* of the record; 0: that of the item */
  char reason[LONGEST];
};

struct maru_pen {
  _Atomic int64_t item;      /* the one that is evaluated, UP or TAKEN */
  _Atomic bool owes;         /* somebody writes `first`, or has */
  struct owed *_Atomic owed; /* NULL, or `first`, written */
  struct owed first;
  _Atomic uint64_t *filling; /* counts a record that is being filled, or NULL */
  struct maru_log *log;      /* NULL: records go to the socket */
  struct maru_crew *crew;
  int socket;
  uint32_t kind, leaves, unstarted;
  int no_room;
  pid_t process;
  struct maru_wall wall;
  struct maru_own own;
  struct maru_task task;
};

/* This process's, for those who come from outside of the worker's code. */
static struct maru_pen *_Atomic here;

struct maru_pen *maru_pen_new(int no_room, uint32_t leaves, uint32_t unstarted) {
  struct maru_pen *pen = calloc(1, sizeof *pen);
  if (!pen)
    return NULL;
  atomic_init(&pen->item, UP);
  atomic_init(&pen->owes, false);
  atomic_init(&pen->owed, NULL);
  pen->no_room = no_room;
  pen->leaves = leaves;
  pen->unstarted = unstarted;
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

static void seal_owed(struct maru_pen *pen, int64_t item, const struct owed *owed);

void maru_pen_down(struct maru_pen *pen, int64_t item, uint32_t kind) {
  pen->kind = kind;
  /* Release: a thread that takes the pen sees all that was written while it was up.  And in one
     order with `owe`: either this load finds what is owed, or that one the item. */
  atomic_store_explicit(&pen->item, item, memory_order_seq_cst);
  const struct owed *owed = atomic_load_explicit(&pen->owed, memory_order_seq_cst);
  if (owed)
    seal_owed(pen, item, owed);
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

/* Returns where the pen is up, down for another item, or taken. */
static void take_and_end(struct maru_pen *pen, int64_t item, uint32_t kind, const char *reason) {
  char chunk[sizeof(uint64_t) + LONGEST];
  /* Acquire: pairs with `down`. */
  if (item < 0 || getpid() != pen->process ||
      !atomic_compare_exchange_strong_explicit(&pen->item, &(int64_t){item}, TAKEN,
                                               memory_order_acquire, memory_order_relaxed))
    return;
  if (kind)
    pen->kind = kind;
  _exit(say(pen, (uint64_t)item, chunk, packed(chunk, reason)));
}

void maru_pen_seal(struct maru_pen *pen, int64_t item, const char *reason) {
  take_and_end(pen, item, 0, reason);
}

static void seal_owed(struct maru_pen *pen, int64_t item, const struct owed *owed) {
  take_and_end(pen, item, owed->kind, owed->reason);
}

/* This process's pen; NULL: it is no worker. */
static struct maru_pen *mine(void) {
  struct maru_pen *pen = atomic_load_explicit(&here, memory_order_acquire);
  return pen && pen->process == getpid() ? pen : NULL;
}

/* For good.  No memory is asked for: the system may have none. */
static void owe(struct maru_pen *pen, uint32_t kind, const char *reason) {
  /* Relaxed: it chooses who writes. */
  if (atomic_exchange_explicit(&pen->owes, true, memory_order_relaxed))
    return; /* the other one seals what goes down before it has written */
  pen->first.kind = kind;
  strncpy(pen->first.reason, reason, LONGEST - 1);
  /* In one order with `down`. */
  atomic_store_explicit(&pen->owed, &pen->first, memory_order_seq_cst);
}

static void owe_and_seal(uint32_t kind, const char *reason) {
  struct maru_pen *pen = mine();
  if (!pen)
    return;
  owe(pen, kind, reason);
  take_and_end(pen, atomic_load_explicit(&pen->item, memory_order_seq_cst), kind, reason);
}

void maru_pen_seal_here(const char *reason) { owe_and_seal(0, reason); }

void maru_pen_seal_start_here(const char *reason) {
  struct maru_pen *pen = mine();
  if (pen)
    owe_and_seal(pen->unstarted, reason);
}

void maru_pen_end_here(const char *reason, int status) {
  struct maru_pen *pen = mine();
  if (!pen)
    _exit(status);
  maru_pen_seal_here(reason);
  while (maru_pen_item(pen) == TAKEN)
    pause(); /* another thread ends the process, and says why */
  if (gettid() == pen->process) {
    char chunk[sizeof(uint64_t) + LONGEST];
    pen->kind = pen->leaves;
    _exit(say(pen, 0, chunk, packed(chunk, reason)));
  }
  if (pen->log)
    maru_log_close(pen->log);
  _exit(status);
}

static int64_t item_of(void *pen) { return maru_pen_item(pen); }

static void seal(void *pen, int64_t item, const char *reason) { maru_pen_seal(pen, item, reason); }

int maru_pen_note_own(struct maru_pen *pen) {
  int r = maru_waits_visible();
  return r < 0 ? r : maru_own_note(&pen->own);
}

int maru_pen_build_wall(struct maru_pen *pen) { return maru_wall_build(&pen->wall); }

int maru_pen_guard(struct maru_pen *pen, const struct maru_fd_snapshot *snapshot) {
  int r = maru_waits_visible();
  if (r == 0 && !maru_wall_stands(&pen->wall))
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
