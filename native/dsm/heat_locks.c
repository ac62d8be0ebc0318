#include "heat_locks.h"

#include "node.h"

#include <stdlib.h>

/* A lock's own row has no holder. */
#define NO_HOLDER UINT16_MAX

struct mr_lock_row {
  uint32_t id;
  uint16_t holder;
  uint64_t taken, kept, ns, longest; /* taken 0: the place is empty */
};

static struct mr_lock_row *place(struct mr_lock_row *rows, uint32_t room, uint32_t id,
                                 uint16_t holder) {
  uint32_t at = (id * UINT32_C(2654435761)) ^ (holder * UINT32_C(40503));
  for (at &= room - 1; rows[at].taken != 0 && (rows[at].id != id || rows[at].holder != holder);)
    at = (at + 1) & (room - 1);
  return &rows[at];
}

static bool widen(struct mr_heat_locks *locks) {
  if (locks->count < locks->room / 2)
    return true;
  uint32_t room = locks->room != 0 ? 2 * locks->room : 64;
  struct mr_lock_row *rows = calloc(room, sizeof *rows);
  if (rows == NULL)
    return false;
  for (uint32_t i = 0; i < locks->room; i++)
    if (locks->rows[i].taken != 0)
      *place(rows, room, locks->rows[i].id, locks->rows[i].holder) = locks->rows[i];
  free(locks->rows);
  locks->rows = rows;
  locks->room = room;
  return true;
}

static void add(struct mr_heat_locks *locks, uint32_t id, uint16_t holder, bool kept, uint64_t ns) {
  if (!widen(locks))
    return;
  struct mr_lock_row *row = place(locks->rows, locks->room, id, holder);
  locks->count += row->taken == 0;
  row->id = id;
  row->holder = holder;
  row->taken++;
  row->kept += kept;
  row->ns += ns;
  row->longest = ns > row->longest ? ns : row->longest;
}

void mr_heat_locks_note(struct mr_heat_locks *locks, uint32_t id, uint16_t giver, bool kept,
                        bool behind, uint64_t ns) {
  add(locks, id, NO_HOLDER, kept, ns);
  if (behind)
    add(locks, id, giver, false, ns);
}

static int by_id(const void *one, const void *other) {
  const struct mr_lock_row *a = one, *b = other;
  /* A lock's own row before those of its holders. */
  uint16_t first = (uint16_t)(a->holder + 1), second = (uint16_t)(b->holder + 1);
  return a->id != b->id ? (a->id > b->id) - (a->id < b->id) : (first > second) - (first < second);
}

/* Those of the program by number, the library's own by what they are for. */
static void put_name(FILE *stream, uint32_t id) {
  if (id == MR_TABLE || id == MR_FIRST_USE)
    fputs(id == MR_TABLE ? "threads" : "first-use", stream);
  else
    fprintf(stream, "%u", id - MR_LOCKS);
}

static void put_row(FILE *stream, const struct mr_lock_row *row) {
  bool own = row->holder == NO_HOLDER;
  fputs(own ? "maru: heat: lock " : "maru: heat: behind ", stream);
  put_name(stream, row->id);
  if (own)
    fprintf(stream, " %llu %llu", (unsigned long long)row->taken, (unsigned long long)row->kept);
  else
    fprintf(stream, " %u %llu", row->holder, (unsigned long long)row->taken);
  fprintf(stream, " %llu %llu\n", (unsigned long long)row->ns, (unsigned long long)row->longest);
}

void mr_heat_locks_tell(const struct mr_heat_locks *locks, FILE *stream) {
  struct mr_lock_row *rows = calloc(locks->count != 0 ? locks->count : 1, sizeof *rows);
  if (rows == NULL)
    return;
  uint32_t count = 0;
  for (uint32_t i = 0; i < locks->room; i++)
    if (locks->rows[i].taken != 0)
      rows[count++] = locks->rows[i];
  qsort(rows, count, sizeof *rows, by_id);
  for (uint32_t i = 0; i < count; i++)
    put_row(stream, &rows[i]);
  free(rows);
}

void mr_heat_locks_destroy(struct mr_heat_locks *locks) { free(locks->rows); }
