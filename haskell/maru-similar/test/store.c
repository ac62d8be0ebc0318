/* Files of indices under sanitizers: written, read, merged; then with garbage in any section whose
 * checksums are right, as somebody could write them. Nothing but 0 or an error may come of it.
 *
 * Usage: store [ROUNDS]. Status 0, or 1 and one line. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "similar.h"
#include "store.h"

static uint64_t state = 108;

static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(state >> 33) % below;
}

static void need(int condition, const char *what, int round) {
  if (condition)
    return;
  fprintf(stderr, "store: round %d: %s\n", round, what);
  exit(1);
}

static int file(void) {
  const int fd = memfd_create("maru-store-test", MFD_CLOEXEC);
  if (fd < 0)
    abort();
  return fd;
}

struct class {
  uint32_t n, *codes;
  uint64_t *offsets;
};

static struct class make(uint32_t n) {
  struct class c = {n, malloc(60 * n * sizeof *c.codes + 4), malloc((n + 1) * sizeof *c.offsets)};
  if (c.codes == NULL || c.offsets == NULL)
    abort();
  c.offsets[0] = 0;
  for (uint32_t i = 0; i < n; i++) {
    c.offsets[i + 1] = c.offsets[i] + draw(60);
    for (uint64_t at = c.offsets[i]; at < c.offsets[i + 1]; at++)
      c.codes[at] = draw(20) == 0 ? MARU_SIMILAR_BARRIER : draw(5);
  }
  return c;
}

static void drop(struct class c) {
  free(c.codes);
  free(c.offsets);
}

static struct maru_similar_store *opened(int fd) {
  struct maru_similar_store *store = NULL;
  return maru_similar_store_open(fd, 7, &store) == 0 ? store : NULL;
}

/* One view of a class, as a batch. */
static struct maru_similar_store *batch(struct class c, int round) {
  const int fd = file();
  struct maru_similar_writer *w = maru_similar_writer_new(fd, 7, c.n);
  need(maru_similar_writer_view(w, 0, c.codes, c.offsets, 3) == 0, "no view", round);
  need(maru_similar_writer_finish(w) == 0, "not finished", round);
  maru_similar_writer_free(w);
  struct maru_similar_store *store = opened(fd);
  need(store != NULL, "cannot be opened", round);
  return store;
}

static int merged(struct maru_similar_store *const *sources, uint32_t count, uint32_t n) {
  const int fd = file();
  uint32_t *places[2], at = 0;
  for (uint32_t s = 0; s < count; s++) {
    const uint32_t have = maru_similar_store_submissions(sources[s]);
    places[s] = malloc(have * sizeof **places + 1);
    for (uint32_t i = 0; i < have; i++)
      places[s][i] = at++;
  }
  struct maru_similar_writer *w = maru_similar_writer_new(fd, 7, n);
  int failure = maru_similar_writer_merge(w, 0, (const struct maru_similar_store *const *)sources,
                                          (const uint32_t *const *)places, count);
  if (failure == 0)
    failure = maru_similar_writer_finish(w);
  maru_similar_writer_free(w);
  for (uint32_t s = 0; s < count; s++)
    free(places[s]);
  if (failure < 0)
    close(fd);
  return failure < 0 ? failure : fd;
}

/* 0, or an error of the file. */
static int joined(struct maru_similar_store *store, struct class fresh) {
  const uint32_t old = maru_similar_store_submissions(store);
  uint32_t *place = malloc(old * sizeof *place + 1);
  struct maru_similar_index *x;
  for (uint32_t i = 0; i < old; i++)
    place[i] = fresh.n + i;
  const int failure =
      maru_similar_index_join(store, 0, place, fresh.codes, fresh.offsets, fresh.n, 3, &x);
  if (failure == 0)
    maru_similar_index_free(x);
  free(place);
  return failure;
}

/* The same file with one section changed, its checksums right. */
static int forged(const struct maru_similar_store *store, int round) {
  const int fd = file(), victim = STORE_VIEWS + (int)draw(STORE_OF_VIEW);
  struct maru_similar_writer *w =
      maru_similar_writer_new(fd, 7, maru_similar_store_submissions(store) + draw(4) / 3);
  for (int s = 0; s < STORE_SECTIONS; s++) {
    uint64_t size = maru_similar_store_bytes(store, s);
    unsigned char *bytes = malloc(size + 64);
    need(maru_similar_store_read(store, s, 0, size, bytes) == 0, "cannot be read", round);
    if (s == victim && size > 0) {
      for (uint32_t k = 1 + draw(4); k > 0; k--)
        bytes[draw((uint32_t)size)] = (unsigned char)draw(256);
      if (draw(4) == 0)
        size = draw((uint32_t)size + 1);
    }
    if (size > 0)
      maru_similar_writer_put(w, s, bytes, size);
    free(bytes);
  }
  need(maru_similar_writer_finish(w) == 0, "forgery not finished", round);
  maru_similar_writer_free(w);
  return fd;
}

static void round_of(int round) {
  const struct class a = make(1 + draw(30)), b = make(1 + draw(30)), fresh = make(1 + draw(8));
  struct maru_similar_store *sources[2] = {batch(a, round), batch(b, round)};
  const int fd = merged(sources, 2, a.n + b.n);
  need(fd >= 0, "not merged", round);
  struct maru_similar_store *both = opened(fd);
  need(both != NULL, "merged, cannot be opened", round);
  need(joined(both, fresh) == 0, "not joined", round);
  for (int i = 0; i < 20; i++) {
    struct maru_similar_store *bad = opened(forged(both, round));
    if (bad == NULL)
      continue;
    joined(bad, fresh);
    const int again = merged(&bad, 1, maru_similar_store_submissions(bad));
    if (again >= 0)
      close(again);
    maru_similar_store_close(bad);
  }
  maru_similar_store_close(both);
  maru_similar_store_close(sources[0]);
  maru_similar_store_close(sources[1]);
  drop(a);
  drop(b);
  drop(fresh);
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 20;
  for (int round = 0; round < rounds; round++)
    round_of(round);
  maru_similar_store_close(NULL);
  return 0;
}
