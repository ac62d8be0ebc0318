/* Over 500 lines: how a neighbour is found, written to, slept beside and left is one state. */
#define _GNU_SOURCE
#include "near.h"

#include "commons.h"
#include "diff.h"
#include "host.h"
#include "ring.h"
#include "shared.h"
#include "shown.h"
#include "theirs.h"

#include <errno.h>
#include <fcntl.h>
#include <maru/wait.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define TOKEN 16
#define PROCESSES "/proc/self/ns/pid"
#define HEADER 4096u
/* Of all rings of a node together, about: each has 16 to 256 KiB. */
#define RINGS_BYTES (UINT32_C(4) << 20)
#define RING_LEAST (UINT32_C(16) << 10)
#define RING_MOST (UINT32_C(256) << 10)

/* What another node needs to find this one's. */
struct card {
  uint8_t token[TOKEN];
  char host[MR_HOST_ID];                         /* from its start to its end */
  int32_t pid;                                   /* in */
  uint64_t processes, networks;                  /* its namespaces; 0: not known */
  int32_t segment, memory, twins, bell, commons; /* descriptors; -1: none */
};
_Static_assert(sizeof(struct card) <= MR_NEAR_CARD, "it fits");

/* The beginning of a segment. */
struct segment {
  uint8_t token[TOKEN];
  _Alignas(64) _Atomic uint32_t fenced; /* 1: some node took this one for dead; never 0 again */
  /* Which sleep its node is in, and wants the bell rung for; 0: it is awake.  The node alone says
   * so: a writer that is stopped before it rings keeps no other from that. */
  _Alignas(64) _Atomic uint64_t asleep;
  _Atomic uint32_t rung; /* bytes that ever came to its pipe, or are on the way */
};
_Static_assert(sizeof(struct segment) <= HEADER, "it fits");

struct neighbour {
  struct segment *segment; /* NULL: not near */
  uint8_t *memory, *twins; /* read alone; NULL: none */
  struct card card;
  int bell;
  uint64_t rang;        /* the sleep for which this node rang last */
  bool ended;           /* before it was said whether it is near */
  _Atomic bool starved; /* bytes wait for room there */
  _Atomic bool forgotten;
};

struct mr_near {
  uint16_t nodes, me;
  uint32_t pages;
  size_t capacity, size; /* of a ring, of a segment */
  struct segment *own;
  struct card card;
  int segment, bell[2];
  bool rests;            /* the bell may be rung since */
  uint32_t heard;        /* bytes that were ever read from the pipe */
  uint64_t sleeps;       /* so many */
  uint16_t count, *list; /* near nodes */
  struct neighbour neighbours[];
};

/* ---- where what lies ------------------------------------------------------------- */

static size_t ring_size(const struct mr_near *near) {
  return sizeof(struct mr_ring) + near->capacity;
}

static struct mr_ring *ring_in(const struct mr_near *near, struct segment *segment, uint16_t from) {
  return (struct mr_ring *)((uint8_t *)segment + HEADER + from * ring_size(near));
}

static size_t shown_at(const struct mr_near *near) {
  return mr_page_round(HEADER + near->nodes * ring_size(near));
}

static struct mr_shown *shown_in(const struct mr_near *near, struct segment *segment) {
  return (struct mr_shown *)((uint8_t *)segment + shown_at(near));
}

static size_t capacity_for(uint16_t nodes) {
  size_t capacity = RING_MOST;
  while (capacity > RING_LEAST && capacity * nodes > RINGS_BYTES)
    capacity /= 2;
  return capacity;
}

/* ---- this node's -------------------------------------------------------------------- */

static uint64_t namespace(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

/* Where it fails the node is near nobody, which mr_near_connect says. */
static void describe(struct mr_near *near, const struct mr_job *job) {
  struct card *card = &near->card;
  bool known = mr_host_find(card->host);
  card->processes = known ? namespace(PROCESSES) : 0;
  card->networks = namespace("/proc/self/ns/net");
  card->pid = getpid();
  card->segment = near->segment;
  card->bell = near->bell[1];
  card->memory = job->share != NULL ? job->share->memory : -1;
  card->twins = job->share != NULL ? job->share->twins : -1;
  card->commons = job->share != NULL ? job->share->commons : -1;
  memcpy(card->token, near->own->token, TOKEN);
}

static int make_segment(struct mr_near *near) {
  near->segment = mr_sealed_memfd("maru-dsm-segment", near->size);
  if (near->segment < 0)
    return near->segment;
  void *at =
      mmap(NULL, near->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, near->segment, 0);
  if (at == MAP_FAILED)
    return -errno;
  near->own = at;
  if (pipe2(near->bell, O_CLOEXEC | O_NONBLOCK) < 0)
    return -errno;
  return getrandom(near->own->token, TOKEN, 0) == TOKEN ? 0 : -EIO;
}

int mr_near_open(struct mr_near **out, const struct mr_job *job, struct mr_card *mine) {
  struct mr_near *near = calloc(1, sizeof *near + job->nodes * sizeof(struct neighbour));
  if (near == NULL)
    return -ENOMEM;
  near->nodes = job->nodes;
  near->me = job->me;
  near->pages = job->share != NULL ? job->share->pages : 0;
  near->capacity = capacity_for(job->nodes);
  near->size = shown_at(near) + mr_page_round(near->pages * sizeof(struct mr_shown));
  near->segment = near->bell[0] = near->bell[1] = -1;
  for (uint16_t node = 0; node < near->nodes; node++)
    near->neighbours[node].bell = -1;
  near->list = calloc(job->nodes, sizeof *near->list);
  int rc = near->list != NULL ? make_segment(near) : -ENOMEM;
  if (rc < 0) {
    mr_near_close(near);
    return rc;
  }
  describe(near, job);
  memcpy(mine->near, &near->card, sizeof near->card);
  *out = near;
  return 0;
}

/* ---- the others' ------------------------------------------------------------------- */

static void part_from(struct mr_near *near, struct neighbour *n) {
  size_t memory = (size_t)near->pages * MR_PAGE;
  if (n->segment != NULL)
    munmap(n->segment, near->size);
  if (n->memory != NULL)
    munmap(n->memory, memory);
  if (n->twins != NULL)
    munmap(n->twins, memory);
  if (n->bell >= 0)
    close(n->bell);
  *n = (struct neighbour){.bell = -1};
}

static int map_all(const struct mr_near *near, struct neighbour *n, const struct card *card) {
  size_t memory = (size_t)near->pages * MR_PAGE;
  void *at;
  int rc = mr_their_memory(card->pid, card->segment, near->size, true, &at);
  if (rc < 0)
    return rc;
  n->segment = at;
  n->bell = mr_their_pipe(card->pid, card->bell);
  if (n->bell < 0 || memory == 0)
    return n->bell < 0 ? n->bell : 0;
  rc = mr_their_memory(card->pid, card->memory, memory, false, &at);
  if (rc < 0)
    return rc;
  n->memory = at;
  rc = mr_their_memory(card->pid, card->twins, memory, false, &at);
  n->twins = rc == 0 ? at : NULL;
  return rc;
}

/* Its process may have ended, and another have its number.  One that has the token now had its
 * number all the time, so what was found under that before is its own. */
static int still_there(const struct mr_near *near, const struct card *card) {
  void *at;
  int rc = mr_their_memory(card->pid, card->segment, near->size, false, &at);
  if (rc < 0)
    return rc;
  rc = memcmp(((const struct segment *)at)->token, card->token, TOKEN) == 0 ? 0 : -ESRCH;
  munmap(at, near->size);
  return rc;
}

static int approach(const struct mr_near *near, struct neighbour *n, const struct card *card) {
  int rc = map_all(near, n, card);
  n->card = *card;
  return rc == 0 ? still_there(near, card) : rc;
}

/* Both of two nodes judge alike. */
static bool same_place(const struct card *one, const struct card *other) {
  return one->processes != 0 && memcmp(one->host, other->host, MR_HOST_ID) == 0 &&
         one->processes == other->processes && one->networks == other->networks;
}

/* ---- agreeing ----------------------------------------------------------------------- */

#define NEAR UINT32_C(0x6d617275)

/* What the two ends of a connection say of each other first. */
struct answer {
  bool awaited, ended; /* ended: the connection, before all was said */
  uint32_t word;
  size_t came;
  int error; /* why this node has not mapped the other's; 0: it has */
};

/* Whether all is said that comes. */
static bool has_answered(struct answer *answer, int fd) {
  while (answer->awaited && !answer->ended && answer->came < sizeof answer->word) {
    ssize_t n = recv(fd, (uint8_t *)&answer->word + answer->came,
                     sizeof answer->word - answer->came, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return false;
    answer->ended = n <= 0;
    answer->came += n > 0 ? (size_t)n : 0;
  }
  return true;
}

static int await_answers(const struct mr_near *near, struct answer *answers, const int *fds,
                         int64_t deadline) {
  struct pollfd polled[near->nodes];
  for (;;) {
    nfds_t missing = 0;
    for (uint16_t node = 0; node < near->nodes; node++)
      if (!has_answered(&answers[node], fds[node]))
        polled[missing++] = (struct pollfd){.fd = fds[node], .events = POLLIN};
    int64_t left = deadline - maru_now_ns();
    if (missing == 0 || left <= 0)
      return missing == 0 ? 0 : -ETIMEDOUT;
    poll(polled, missing, (int)(left / 1000000) + 1);
  }
}

static void refuse(uint16_t node, int error, char *why, size_t size) {
  if (*why != 0)
    return;
  if (error < 0)
    snprintf(why, size, "no shared memory with node %u of this host: %s", node, strerror(-error));
  else
    snprintf(why, size, "no shared memory with node %u of this host: it cannot reach this node's",
             node);
}

static void settle(struct mr_near *near, uint16_t node, const struct answer *answer, char *why,
                   size_t size) {
  struct neighbour *n = &near->neighbours[node];
  if (!answer->awaited)
    return;
  if (!answer->ended && answer->error == 0 && answer->word == NEAR) {
    near->list[near->count++] = node;
    return;
  }
  part_from(near, n);
  n->ended = answer->ended;
  if (!n->ended)
    refuse(node, answer->error, why, size);
}

int mr_near_connect(struct mr_near *near, const struct mr_card *cards, const int *fds,
                    int64_t deadline, char *why, size_t size) {
  struct answer *answers = calloc(near->nodes, sizeof *answers);
  if (answers == NULL)
    return -ENOMEM;
  *why = 0;
  if (near->card.processes == 0)
    snprintf(why, size, "no shared memory: cannot read " MR_HOST_NAMED " or " PROCESSES);
  for (uint16_t node = 0; node < near->nodes; node++) {
    struct card card;
    memcpy(&card, cards[node].near, sizeof card);
    if (node == near->me || !same_place(&near->card, &card))
      continue;
    answers[node].awaited = true;
    answers[node].error = approach(near, &near->neighbours[node], &card);
    uint32_t word = answers[node].error == 0 ? NEAR : 0;
    /* An empty connection takes four bytes; one that is broken shows when it is read. */
    (void)!send(fds[node], &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  int rc = await_answers(near, answers, fds, deadline);
  for (uint16_t node = 0; node < near->nodes && rc == 0; node++)
    settle(near, node, &answers[node], why, size);
  free(answers);
  return rc;
}

/* Nobody writes there before the other has connected. */
void mr_near_renew(struct mr_near *near, uint16_t node, struct mr_card *mine) {
  uint16_t kept = 0;
  part_from(near, &near->neighbours[node]);
  memset(ring_in(near, near->own, node), 0, sizeof(struct mr_ring));
  for (uint16_t i = 0; i < near->count; i++)
    if (near->list[i] != node)
      near->list[kept++] = near->list[i];
  near->count = kept;
  memcpy(mine->near, &near->card, sizeof near->card);
}

void mr_near_close(struct mr_near *near) {
  for (uint16_t node = 0; node < near->nodes; node++)
    part_from(near, &near->neighbours[node]);
  if (near->own != NULL)
    munmap(near->own, near->size);
  if (near->segment >= 0)
    close(near->segment);
  for (int end = 0; end < 2; end++)
    if (near->bell[end] >= 0)
      close(near->bell[end]);
  free(near->list);
  free(near);
}

int mr_near_bell(const struct mr_near *near, uint16_t node) { return near->neighbours[node].bell; }

bool mr_near_has(const struct mr_near *near, uint16_t node) {
  return near->neighbours[node].segment != NULL;
}

bool mr_near_ended(const struct mr_near *near, uint16_t node) {
  return near->neighbours[node].ended;
}

/* ---- streams ------------------------------------------------------------------------ */

/* The other node sees what was written before, or this sees that it sleeps, and rings once. */
static void wake(struct neighbour *n) {
  atomic_thread_fence(memory_order_seq_cst);
  /* Relaxed: ordered by the fence. */
  uint64_t sleep = atomic_load_explicit(&n->segment->asleep, memory_order_relaxed);
  if (sleep == 0 || sleep == n->rang)
    return;
  n->rang = sleep;
  /* Before the byte is there: the sleeper that finds it knows of it.  Relaxed: the pipe orders
   * them. */
  atomic_fetch_add_explicit(&n->segment->rung, 1, memory_order_relaxed);
  /* A byte that does not come is not owed.  Of a writer that is killed here it stays so, which
   * costs calls alone. */
  if (write(n->bell, "", 1) != 1)
    atomic_fetch_sub_explicit(&n->segment->rung, 1, memory_order_relaxed);
}

static struct mr_ring *out_to(const struct mr_near *near, uint16_t node) {
  return ring_in(near, near->neighbours[node].segment, near->me);
}

static size_t put(const struct mr_near *near, struct mr_ring *ring, const struct iovec *frame,
                  int parts, size_t from) {
  size_t sum = 0;
  for (int i = 0; i < parts; i++) {
    size_t skip = from < frame[i].iov_len ? from : frame[i].iov_len, left = frame[i].iov_len - skip;
    size_t wrote = left == 0 ? 0
                             : mr_ring_write(ring, near->capacity,
                                             (const uint8_t *)frame[i].iov_base + skip, left);
    from -= skip;
    sum += wrote;
    if (wrote < left)
      break;
  }
  return sum;
}

/* The reader rings when there is room.  Release: it sees then whether this node sleeps. */
static void ask_for_room(struct mr_ring *ring) {
  atomic_store_explicit(&ring->full, 1, memory_order_release);
}

size_t mr_near_put(struct mr_near *near, uint16_t to, const struct iovec *frame, int parts) {
  struct neighbour *n = &near->neighbours[to];
  struct mr_ring *ring = out_to(near, to);
  size_t size = 0;
  for (int i = 0; i < parts; i++)
    size += frame[i].iov_len;
  size_t sum = put(near, ring, frame, parts, 0);
  if (sum < size) {
    ask_for_room(ring);
    /* The reader sees that, or what it has read is seen here. */
    atomic_thread_fence(memory_order_seq_cst);
    sum += put(near, ring, frame, parts, sum);
  }
  atomic_store_explicit(&n->starved, sum < size, memory_order_relaxed); /* a hint */
  if (sum > 0)
    wake(n);
  return sum;
}

ssize_t mr_near_take(struct mr_near *near, uint16_t from, void *bytes, size_t most) {
  struct mr_ring *ring = ring_in(near, near->own, from);
  ssize_t n = mr_ring_read(ring, near->capacity, bytes, most);
  if (n <= 0)
    return n;
  /* As in mr_near_put.  Acquire: a writer that sleeps said so before it wished. */
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&ring->full, memory_order_relaxed) != 0 &&
      atomic_exchange_explicit(&ring->full, 0, memory_order_acquire) != 0)
    wake(&near->neighbours[from]);
  return n;
}

bool mr_near_waits(const struct mr_near *near, uint16_t from) {
  return mr_ring_waits(ring_in(near, near->own, from));
}

/* ---- sleeping ----------------------------------------------------------------------- */

bool mr_near_glance(const struct mr_near *near) {
  for (uint16_t i = 0; i < near->count; i++) {
    uint16_t node = near->list[i];
    /* Relaxed, all: a hint; mr_near_rest has a fence before it. */
    if (atomic_load_explicit(&near->neighbours[node].forgotten, memory_order_relaxed))
      continue;
    if (mr_near_waits(near, node) ||
        (atomic_load_explicit(&near->neighbours[node].starved, memory_order_relaxed) &&
         mr_ring_has_room(out_to(near, node), near->capacity)))
      return true;
  }
  return false;
}

int mr_near_descriptor(const struct mr_near *near) { return near->bell[0]; }

/* A reader may have told of the room before the last, when this node did not sleep yet. */
static void ask_again(const struct mr_near *near) {
  for (uint16_t i = 0; i < near->count; i++)
    if (atomic_load_explicit(&near->neighbours[near->list[i]].starved, memory_order_relaxed))
      ask_for_room(out_to(near, near->list[i]));
}

/* Bytes that are in the pipe, or on the way.  Relaxed: one that is missed is found as it comes. */
static uint32_t owed(const struct mr_near *near) {
  return atomic_load_explicit(&near->own->rung, memory_order_relaxed) - near->heard;
}

int mr_near_rest(struct mr_near *near) {
  if (!near->rests || owed(near) > 0) {
    mr_near_awake(near); /* or a bell that was rung since the last time would ring for ever */
    near->rests = true;
    /* Relaxed: ordered by the fence below. */
    atomic_store_explicit(&near->own->asleep, ++near->sleeps, memory_order_relaxed);
  }
  /* After that: a reader that takes the wish sees that this node sleeps. */
  ask_again(near);
  /* A writer sees that from here on; what was written before is seen below. */
  atomic_thread_fence(memory_order_seq_cst);
  if (!mr_near_glance(near))
    return 0;
  mr_near_awake(near);
  return -EAGAIN;
}

void mr_near_awake(struct mr_near *near) {
  uint8_t bytes[16];
  if (near->rests) {
    near->rests = false;
    /* Relaxed: it says nothing of what was written. */
    atomic_store_explicit(&near->own->asleep, 0, memory_order_relaxed);
  }
  uint32_t there = owed(near);
  if (there == 0)
    return;
  ssize_t n = read(near->bell[0], bytes, there < sizeof bytes ? there : sizeof bytes);
  near->heard += n > 0 ? (uint32_t)n : 0;
}

/* ---- pages -------------------------------------------------------------------------- */

struct mr_shown *mr_near_shown(const struct mr_near *near) {
  return near->pages > 0 ? shown_in(near, near->own) : NULL;
}

int mr_near_copy(struct mr_near *near, uint16_t node, uint32_t page, void *bytes,
                 uint64_t *version) {
  struct neighbour *n = &near->neighbours[node];
  size_t at = (size_t)page * MR_PAGE;
  if (n->segment == NULL || page >= near->pages)
    return -ENOENT;
  int rc = mr_shown_copy(&shown_in(near, n->segment)[page], n->memory + at, n->twins + at, bytes,
                         version);
  /* After the copy, and after the second look: a home that is dead by now counts no more. */
  return rc == 0 && atomic_load_explicit(&n->segment->fenced, memory_order_acquire) != 0 ? -ESTALE
                                                                                         : rc;
}

int mr_near_map(const struct mr_near *near, uint16_t node, enum mr_share_part part, void **at) {
  const struct neighbour *n = &near->neighbours[node];
  bool commons = part == MR_SHARED_COMMONS;
  size_t size = commons ? sizeof(struct mr_commons) : (size_t)near->pages * MR_PAGE;
  int32_t fd = commons ? n->card.commons : n->card.memory;
  if (n->memory == NULL || fd < 0)
    return -ENOENT;
  int rc = mr_their_memory(n->card.pid, fd, size, true, at);
  if (rc == 0 && (rc = still_there(near, &n->card)) < 0)
    munmap(*at, size);
  return rc;
}

void mr_near_forget(struct mr_near *near, uint16_t node) {
  struct neighbour *n = &near->neighbours[node];
  /* Sequentially consistent: what its pages become elsewhere comes after. */
  if (n->segment != NULL)
    atomic_store(&n->segment->fenced, 1);
  atomic_store_explicit(&n->forgotten, true, memory_order_relaxed); /* for mr_near_glance */
}
