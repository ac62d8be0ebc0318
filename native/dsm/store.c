#define _GNU_SOURCE
#include "store.h"

#include "../base/shared.h"
#include "diff.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROWS_LEAST 256u
#define TABLE_LEAST 1024u
#define SLOTS_MOST UINT32_MAX

/* Whose a slot is. */
enum { WHOLE = 1, MADE = 2 };

struct entry {
  uint64_t key, stamp; /* key 0: none */
  uint32_t slot;
};

/* By open addressing, half full at most. */
struct table {
  struct entry *entries;
  size_t room, count; /* room: a power of two, or 0 */
};

struct mr_store {
  int file;
  uint8_t *pages; /* the file */
  size_t slots, next;
  uint8_t *of; /* a slot's */
  struct table whole, made;
  uint32_t *order; /* of the image that is made */
  size_t order_room;
  size_t changed, changed_last; /* of its pages; of those of the one before */
  _Atomic uint64_t *put;        /* somebody else's figure; NULL */
};

/* ---- keys ------------------------------------------------------------------------------ */

/* Where the key is, or would be. */
static struct entry *find(const struct table *table, uint64_t key) {
  size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20);
  for (;; at++) {
    struct entry *entry = &table->entries[at & (table->room - 1)];
    if (entry->key == key || entry->key == 0)
      return entry;
  }
}

static int widen(struct table *table) {
  struct table wider = {.room = table->room != 0 ? 2 * table->room : TABLE_LEAST};
  wider.entries = calloc(wider.room, sizeof *wider.entries);
  if (wider.entries == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < table->room; i++)
    if (table->entries[i].key != 0)
      *find(&wider, table->entries[i].key) = table->entries[i];
  wider.count = table->count;
  free(table->entries);
  *table = wider;
  return 0;
}

static int insert(struct table *table, const struct entry *entry) {
  if (2 * (table->count + 1) > table->room && widen(table) < 0)
    return -ENOMEM;
  struct entry *place = find(table, entry->key);
  if (place->key != 0)
    return -EEXIST;
  *place = *entry;
  table->count++;
  return 0;
}

static void empty(struct table *table) {
  if (table->room > 0)
    memset(table->entries, 0, table->room * sizeof *table->entries);
  table->count = 0;
}

/* ---- slots ------------------------------------------------------------------------------ */

static uint8_t *slot_at(const struct mr_store *store, uint32_t slot) {
  return store->pages + (size_t)slot * MR_PAGE;
}

static int map(struct mr_store *store, size_t slots) {
  uint8_t *of = realloc(store->of, slots);
  if (of == NULL)
    return -ENOMEM;
  store->of = of;
  void *at = store->pages == NULL
                 ? mmap(NULL, slots * MR_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, store->file, 0)
                 : mremap(store->pages, store->slots * MR_PAGE, slots * MR_PAGE, MREMAP_MAYMOVE);
  if (at == MAP_FAILED)
    return -errno;
  store->pages = at;
  memset(of + store->slots, 0, slots - store->slots);
  /* Their first use would be a fault each; where the kernel cannot, it is. */
  (void)madvise(slot_at(store, (uint32_t)store->slots), (slots - store->slots) * MR_PAGE,
                MADV_POPULATE_WRITE);
  store->slots = slots;
  return 0;
}

/* Memory is taken here, so that a lack of it is an error and no signal. */
static int grow(struct mr_store *store, size_t more) {
  size_t slots = store->slots + more;
  if (slots > SLOTS_MOST || mr_file_allowed(slots * MR_PAGE) < 0)
    return -EFBIG;
  if (fallocate(store->file, 0, (off_t)(store->slots * MR_PAGE), (off_t)(more * MR_PAGE)) < 0)
    return -errno;
  return map(store, slots);
}

/* One that no image has. */
static int64_t take_slot(struct mr_store *store) {
  for (size_t looked = 0; looked < store->slots; looked++, store->next++) {
    store->next = store->next < store->slots ? store->next : 0;
    if (store->of[store->next] == 0)
      return (int64_t)store->next++;
  }
  store->next = store->slots;
  size_t eighth = store->slots / 8;
  int rc = grow(store, eighth > GROWS_LEAST ? eighth : GROWS_LEAST);
  return rc < 0 ? rc : (int64_t)store->next++;
}

int mr_store_expect(struct mr_store *store, size_t pages) {
  size_t more = pages > store->whole.count ? pages - store->whole.count : 0, left = 0;
  more = more > store->changed_last ? more : store->changed_last;
  for (size_t slot = 0; slot < store->slots; slot++)
    left += store->of[slot] == 0;
  return left < more ? grow(store, more - left) : 0;
}

/* ---- images ----------------------------------------------------------------------------- */

int mr_store_open(struct mr_store **store, int file) {
  struct stat is;
  struct mr_store *made = calloc(1, sizeof *made);
  if (made == NULL)
    return -ENOMEM;
  made->file = file;
  int rc = fstat(file, &is) < 0 ? -errno : widen(&made->whole);
  if (rc == 0)
    rc = widen(&made->made);
  if (rc == 0 && is.st_size >= MR_PAGE)
    rc = map(made, (size_t)is.st_size / MR_PAGE);
  if (rc == 0) {
    *store = made;
    return 0;
  }
  made->file = -1;
  mr_store_close(made);
  return rc;
}

void mr_store_close(struct mr_store *store) {
  if (store == NULL)
    return;
  if (store->pages != NULL)
    munmap(store->pages, store->slots * MR_PAGE);
  if (store->file >= 0)
    close(store->file);
  free(store->whole.entries);
  free(store->made.entries);
  free(store->order);
  free(store->of);
  free(store);
}

void mr_store_count(struct mr_store *store, _Atomic uint64_t *put) { store->put = put; }

int mr_store_adopt(struct mr_store *store, uint64_t key, uint32_t slot) {
  const struct entry entry = {.key = key, .slot = slot};
  if (key == 0 || slot >= store->slots || store->of[slot] != 0)
    return -EBADMSG;
  int rc = insert(&store->whole, &entry);
  if (rc == 0)
    store->of[slot] = WHOLE;
  return rc == -EEXIST ? -EBADMSG : rc;
}

static bool is_same(const struct mr_store *store, const struct entry *was, uint64_t stamp,
                    const void *bytes, size_t length) {
  return was->key != 0 && ((stamp != 0 && stamp == was->stamp) ||
                           memcmp(slot_at(store, was->slot), bytes, length) == 0);
}

/* Where the page is in the image that is made. */
static int64_t settle(struct mr_store *store, const struct entry *was, uint64_t stamp,
                      const void *bytes, size_t length) {
  if (is_same(store, was, stamp, bytes, length))
    return was->slot;
  int64_t slot = take_slot(store);
  if (slot >= 0) {
    memcpy(slot_at(store, (uint32_t)slot), bytes, length);
    store->changed++;
  }
  return slot;
}

static int list(struct mr_store *store, uint32_t slot) {
  if (store->made.count > store->order_room) {
    size_t room = store->made.room;
    uint32_t *order = realloc(store->order, room * sizeof *order);
    if (order == NULL)
      return -ENOMEM;
    store->order = order;
    store->order_room = room;
  }
  store->order[store->made.count - 1] = slot;
  return 0;
}

int mr_store_put(struct mr_store *store, uint64_t key, uint64_t stamp, const void *bytes,
                 size_t length) {
  int64_t slot = settle(store, find(&store->whole, key), stamp, bytes, length);
  if (slot < 0)
    return (int)slot;
  const struct entry entry = {.key = key, .stamp = stamp, .slot = (uint32_t)slot};
  int rc = insert(&store->made, &entry);
  if (rc < 0)
    return rc;
  store->of[slot] |= MADE;
  /* Relaxed: a figure that is looked at, and that nobody else adds to. */
  if (store->put != NULL)
    atomic_fetch_add_explicit(store->put, 1, memory_order_relaxed);
  return list(store, (uint32_t)slot);
}

void mr_store_end(struct mr_store *store, bool whole) {
  for (size_t slot = 0; slot < store->slots; slot++)
    store->of[slot] = whole ? ((store->of[slot] & MADE) != 0 ? WHOLE : 0) : store->of[slot] & WHOLE;
  if (whole) {
    struct table before = store->whole;
    store->whole = store->made;
    store->made = before;
  }
  empty(&store->made);
  store->changed_last = store->changed;
  store->changed = 0;
}

const uint32_t *mr_store_slots(const struct mr_store *store, size_t *count) {
  *count = store->made.count;
  return store->order;
}

size_t mr_store_changed(const struct mr_store *store) { return store->changed; }
const uint8_t *mr_store_pages(const struct mr_store *store) { return store->pages; }
