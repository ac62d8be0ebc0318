/* channels.c: the wait room's section of the board: which process owns which line.
 *
 * A line has one owner, a process. It is free once its owner gives it back or has died.
 */
#define _GNU_SOURCE
#include "../wait/channel.h"

#include "numbers.h"
#include "task.h"

#include <errno.h>
#include <maru/board.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PID_BITS 22 /* the kernel's most: PID_MAX_LIMIT */
#define WORLD_BITS 4
#define FLAGS                                                                                      \
  ((uint32_t)(MARU_CHANNEL_SILENT | MARU_CHANNEL_WORKING | MARU_CHANNEL_WORK |                     \
              MARU_CHANNEL_RESULTS))

_Static_assert(MARU_WAIT_WORLDS == (1u << WORLD_BITS) - 1, "one more number: not known");

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

int maru_wait_table_of(const struct maru_board *board, struct maru_wait_table **table) {
  void *data;
  int rc = maru_board_find(board, MARU_WAIT_SECTION, MARU_WAIT_VERSION, sizeof **table, &data);
  if (rc == 0)
    *table = data;
  return rc;
}

static int table_for(struct maru_board *board, struct maru_wait_table **table) {
  void *data;
  int rc = maru_board_share(board, MARU_WAIT_SECTION, MARU_WAIT_VERSION, sizeof **table, &data);
  if (rc < 0)
    return rc;
  *table = data;
  return 0;
}

/* An owner in one word.  The namespace by its number on the board; MARU_WAIT_WORLDS: one that is
 * not known, of which nobody can say who has died there. */
static uint64_t pack(pid_t pid, uint32_t world, uint64_t start) {
  return start << (PID_BITS + WORLD_BITS) | (uint64_t)world << PID_BITS | (uint64_t)pid;
}
static pid_t pid_of(uint64_t owner) { return (pid_t)(owner & ((1u << PID_BITS) - 1)); }
static uint32_t world_of(uint64_t owner) {
  return (uint32_t)(owner >> PID_BITS) & ((1u << WORLD_BITS) - 1);
}
static uint64_t start_of(uint64_t owner) { return owner >> (PID_BITS + WORLD_BITS); }

/* /proc may be another pid namespace's: then it tells nothing. */
static bool proc_is_ours(void) {
  char name[16] = "";
  return readlink("/proc/self", name, sizeof name - 1) > 0 &&
         mr_leading(name, 1, INT32_MAX, 0) == getpid();
}

/* Its number on the board, the next free one if it has none yet. */
static uint32_t this_world(struct maru_wait_table *table) {
  struct stat world;
  uint32_t number = MARU_WAIT_WORLDS;
  if (proc_is_ours() && stat("/proc/self/ns/pid", &world) == 0)
    for (number = 0; number < MARU_WAIT_WORLDS; number++) {
      uint64_t there = 0;
      /* Relaxed: nothing comes with it. */
      if (atomic_compare_exchange_strong_explicit(&table->worlds[number], &there, world.st_ino,
                                                  memory_order_relaxed, memory_order_relaxed) ||
          there == world.st_ino)
        break;
    }
  return number;
}

static uint64_t this_process(struct maru_wait_table *table) {
  uint64_t start = mr_start_time(getpid());
  return pack(getpid(), start != 0 ? this_world(table) : MARU_WAIT_WORLDS, start);
}

/* A waiter that cannot be looked at (no descriptor is left; a leader that ended before its threads)
 * lives as long as its number does. */
static bool lives(pid_t tid, uint64_t start) {
  uint64_t now = mr_start_time(tid);
  if (now != 0)
    return now == start;
  return !mr_is_remains(tid) && (kill(tid, 0) == 0 || errno != ESRCH);
}

/* From here on its owner's death makes it free. */
static bool channels_take(struct maru_wait_table *table, uint32_t number, uint64_t self) {
  uint64_t nobody = 0;
  /* Acquire: pairs with the release; what the former user wrote comes before. */
  return atomic_compare_exchange_strong_explicit(&table->owners[number], &nobody, self,
                                                 memory_order_acquire, memory_order_relaxed);
}

/* Of another pid namespace nothing is known. */
static bool has_died(uint64_t owner, uint64_t self) {
  return world_of(owner) < MARU_WAIT_WORLDS && world_of(owner) == world_of(self) &&
         !lives(pid_of(owner), start_of(owner));
}

/* A child of who took the line may wait there still. */
static bool is_attended(const struct maru_channel *line) {
  pid_t tid = LOAD(line->tid);
  return tid != 0 && lives(tid, LOAD(line->start));
}

/* A line whose process has died changes hands by its owner's word, which no two processes share.
 * It is never free meanwhile, and one of several heirs gets it. */
static bool inherit(struct maru_wait_table *table, uint32_t number, uint64_t self,
                    uint64_t *living) {
  uint64_t owner = LOAD(table->owners[number]);
  if (owner == 0 || owner == *living)
    return false;
  if (!has_died(owner, self)) {
    *living = owner; /* looked at once: the lines of a process are neighbours */
    return false;
  }
  if (is_attended(&table->channels[number]))
    return false;
  return atomic_compare_exchange_strong_explicit(&table->owners[number], &owner, self,
                                                 memory_order_acquire, memory_order_relaxed);
}

/* Release: a reader of the new bound finds lines that are taken. */
static void note_used(struct maru_wait_table *table, uint32_t used) {
  uint32_t seen = LOAD(table->used);
  while (seen < used && !atomic_compare_exchange_weak_explicit(
                            &table->used, &seen, used, memory_order_release, memory_order_relaxed))
    continue;
}

static void begin_line(struct maru_wait_table *table, uint32_t number, uint32_t job,
                       uint32_t flags) {
  struct maru_channel *line = &table->channels[number];
  maru_channel_vacate(line);
  STORE(line->word, 0);
  STORE(line->job, job);
  STORE(line->flags, flags);
  STORE(line->taken, number + 1);
  note_used(table, number + 1);
}

int maru_channels_register(struct maru_board *board, uint32_t job, uint32_t flags,
                           struct maru_channel **channels, uint32_t count) {
  struct maru_wait_table *table;
  int rc = table_for(board, &table);
  if (rc < 0)
    return rc;
  if (flags & ~FLAGS)
    return -EINVAL;
  uint64_t self = this_process(table), living = self;
  uint32_t got = 0;
  for (uint32_t i = 0; i < 2 * MARU_WAIT_CHANNELS && got < count; i++) {
    uint32_t number = i % MARU_WAIT_CHANNELS;
    bool ours = i < MARU_WAIT_CHANNELS ? channels_take(table, number, self)
                                       : inherit(table, number, self, &living);
    if (!ours)
      continue;
    begin_line(table, number, job, flags);
    channels[got++] = &table->channels[number];
  }
  if (got == count)
    return 0;
  while (got > 0)
    maru_channel_release(channels[--got]);
  return -ENOSPC;
}

int maru_channel_register(struct maru_board *board, uint32_t job, uint32_t flags,
                          struct maru_channel **channel) {
  return maru_channels_register(board, job, flags, channel, 1);
}

void maru_channel_release(struct maru_channel *channel) {
  struct maru_wait_table *table = mr_channel_table(channel);
  if (table == NULL)
    return;
  maru_channel_vacate(channel);
  STORE(channel->taken, 0);
  /* Release: the next to take the line comes after all that was done with it. */
  atomic_store_explicit(&table->owners[channel - table->channels], 0, memory_order_release);
}
