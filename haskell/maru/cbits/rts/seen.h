/* What a walk over a value has met: an open-addressing table by address. Addresses stay what they
   are because no collection happens during a walk. */
#ifndef MARU_RTS_SEEN_H
#define MARU_RTS_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct seen {
  uintptr_t from; /* 0: free */
  size_t to;      /* what is known of it; 0: nothing yet */
};

struct table {
  struct seen *slots;
  size_t mask, used;
};

static inline struct seen *slot_of(const struct table *table, uintptr_t from) {
  size_t i = (size_t)((from >> 3) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & table->mask;
  while (table->slots[i].from && table->slots[i].from != from)
    i = (i + 1) & table->mask;
  return &table->slots[i];
}

static inline bool table_grow(struct table *table) {
  struct table larger = {.mask = table->slots ? table->mask * 2 + 1 : 63, .used = table->used};
  larger.slots = calloc(larger.mask + 1, sizeof *larger.slots);
  if (!larger.slots)
    return false;
  for (size_t i = 0; table->slots && i <= table->mask; i++)
    if (table->slots[i].from)
      *slot_of(&larger, table->slots[i].from) = table->slots[i];
  free(table->slots);
  *table = larger;
  return true;
}

/* The entry of that address, made if need be; NULL: no memory. Valid until the next call. */
static inline struct seen *table_entry(struct table *table, const void *from) {
  if (!table->slots || table->used * 2 > table->mask)
    if (!table_grow(table))
      return NULL;
  struct seen *entry = slot_of(table, (uintptr_t)from);
  if (!entry->from) {
    entry->from = (uintptr_t)from;
    table->used++;
  }
  return entry;
}

#endif
