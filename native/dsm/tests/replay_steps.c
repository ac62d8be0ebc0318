/* Description: in a job where only a lost node repeats, node 0 looks on whether all wait,
 * whichever was lost and began again.  What it counts is of after the last cut, also where that
 * checkpoint was given up.  Lost again, it gives the pages that it gave while it repeated.  It
 * wishes for a checkpoint when its journal fills, and for one.
 *
 * Over 500 lines: half of it is what stands for the launcher, the connections and the others.
 *
 * Node 0 of three is the shipped core, replay.c and node_image.c.  The launcher's page, the
 * connections and the two others are the test's own.
 */
#define _GNU_SOURCE
#include "../journal.h"
#include "../message.h"
#include "../outbox.h"
#include "../save.h"
#include "../self.h"
#include "../settings.h"
#include "../store.h"
#include "check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define NODES 3u
#define EPOCH 7u
#define CAPACITY (16u * MR_PAGE)
#define SEMAPHORE 4u /* node 1 manages it */
#define OWN 3u       /* node 0 does */

/* The launcher's words. */
static uint32_t cut, wanted, committed, restore, again[NODES];
static uint32_t wished; /* behind which one, and 1; 0: not */
static struct mr_checkpoint_calls calls;
static int journal;

static struct peer {
  struct mr_outbox *outbox;
  int64_t look; /* the last that it was asked in */
  uint64_t sent;
  uint64_t said, received; /* what it said of itself when it was asked to look */
} peers[NODES];
static bool stuck;
static unsigned given;
static bool writes; /* node 0 does, before it waits */

/* ---- the launcher's page ------------------------------------------------------------- */

static int page_file(size_t size) {
  int file = memfd_create("file", 0);
  CHECK(file >= 0 && ftruncate(file, (off_t)size) == 0);
  return file;
}

int mr_checkpoints_journal(const struct mr_checkpoints *all) {
  (void)all;
  return dup(journal);
}
uint32_t mr_checkpoints_cut(const struct mr_checkpoints *all) {
  (void)all;
  return cut;
}
uint32_t mr_checkpoints_wanted(const struct mr_checkpoints *all) {
  (void)all;
  return wanted;
}
uint32_t mr_checkpoints_again(const struct mr_checkpoints *all, uint16_t node) {
  (void)all;
  return again[node];
}
uint32_t mr_checkpoints_await_again(const struct mr_checkpoints *all, uint16_t node, uint32_t known,
                                    int seconds, struct sockaddr_storage *address) {
  (void)all;
  (void)known;
  (void)seconds;
  (void)address;
  return ++again[node];
}
int mr_checkpoints_start(struct mr_checkpoints *all, const struct mr_checkpoint_calls *given) {
  (void)all;
  calls = *given;
  return 0;
}
uint32_t mr_checkpoints_restore(const struct mr_checkpoints *all) {
  (void)all;
  return restore;
}
uint32_t mr_checkpoints_epoch(const struct mr_checkpoints *all) {
  (void)all;
  return EPOCH;
}
void mr_checkpoints_started(struct mr_checkpoints *all) { (void)all; }
uint32_t mr_checkpoints_committed(const struct mr_checkpoints *all) {
  (void)all;
  return committed;
}
void mr_checkpoints_wish(struct mr_checkpoints *all, uint32_t number) {
  (void)all;
  wished = number + 1;
}
void mr_checkpoints_journaled(struct mr_checkpoints *all, size_t given, size_t has) {
  (void)all;
  (void)given;
  (void)has;
}

/* Not called here. */
uint32_t mr_checkpoints_expected(void) { abort(); }
void mr_checkpoints_end(struct mr_checkpoints *all) {
  (void)all;
  abort();
}
void mr_checkpoints_wake(struct mr_checkpoints *all) {
  (void)all;
  abort();
}
void mr_server_wake(struct mr_server *server) {
  (void)server;
  abort();
}
struct mr_checkpoints *mr_checkpoints_open(uint16_t nodes, uint16_t me) {
  (void)nodes;
  (void)me;
  abort();
}
const struct mr_checkpoint_head *mr_checkpoints_map(const struct mr_checkpoints *all, uint16_t node,
                                                    size_t *length) {
  (void)all;
  (void)node;
  (void)length;
  abort();
}
struct mr_store *mr_checkpoints_store(struct mr_checkpoints *all) {
  (void)all;
  abort();
}
void mr_membership_give_room(void) {}
void mr_membership_make_room(struct mr_membership *membership) {
  (void)membership;
  abort();
}
bool mr_settings_races(void) { abort(); }

_Noreturn void mr_node_die(int status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, " (%d)\n", status);
  exit(1);
}

/* ---- the connections and the others ------------------------------------------------------ */

int mr_transport_rejoin(struct mr_transport *transport, const struct mr_job *job, int seconds,
                        char *why, size_t size) {
  (void)transport;
  (void)seconds;
  (void)why;
  (void)size;
  CHECK_EQUAL(job->lost, 2);
  return 0;
}
bool mr_transport_was_silent(const struct mr_transport *transport, uint16_t node) {
  (void)transport;
  (void)node;
  return false;
}
unsigned mr_transport_link_descriptors(const struct mr_transport *transport, uint16_t node,
                                       int fds[MR_LINK_FDS]) {
  (void)transport;
  (void)node;
  (void)fds;
  return 0;
}

/* A node that waits says in its answer what it counts. */
static void hear_seen(struct peer *peer, const uint8_t *body) {
  memcpy(&peer->said, body + 1, sizeof peer->said);
}

int mr_transport_send(struct mr_transport *transport, uint16_t to, const void *bytes,
                      size_t length) {
  struct peer *peer = &peers[to];
  struct mr_outbox_message message;
  struct mr_header header;
  (void)transport;
  CHECK_EQUAL(mr_outbox_hear(peer->outbox, 0, bytes, length, &message), 0);
  if (message.counts) {
    peer->received++;
    CHECK_EQUAL(mr_outbox_kept(peer->outbox, 0, message.length), 0);
  }
  if (message.length < sizeof header)
    return 0;
  memcpy(&header, message.bytes, sizeof header);
  if (header.type == MR_LOOK)
    peer->look = header.value;
  if (header.type == MR_SEEN)
    hear_seen(peer, (const uint8_t *)message.bytes + sizeof header);
  return 0;
}

/* Node 0 hears what another sends. */
static int to_node_0(void *context, uint16_t to, const void *bytes, size_t length) {
  const struct peer *peer = context;
  CHECK_EQUAL(to, 0);
  mr_replay_hears(mr_self.replay, (uint16_t)(peer - peers), bytes, length);
  return 0;
}

static void create_peer(uint16_t node) {
  CHECK_EQUAL(mr_outbox_create(&peers[node].outbox, NODES, to_node_0, &peers[node]), 0);
}

static struct mr_header header_of(uint16_t from, uint8_t type, int64_t look, uint32_t length) {
  return (struct mr_header){.version = MR_MESSAGE_VERSION,
                            .type = type,
                            .from = from,
                            .epoch = EPOCH,
                            .incarnation = 100u + from,
                            .value = look,
                            .length = length};
}

/* That node says that it waits. */
static void answer(uint16_t from, int64_t look) {
  struct peer *peer = &peers[from];
  uint8_t message[sizeof(struct mr_header) + 17] = {0};
  const struct mr_header header = header_of(from, MR_SEEN, look, 17);
  memcpy(message, &header, sizeof header);
  message[sizeof header] = 1;
  memcpy(message + sizeof header + 1, &peer->sent, sizeof peer->sent);
  memcpy(message + sizeof header + 9, &peer->received, sizeof peer->received);
  CHECK_EQUAL(mr_outbox_send_once(peer->outbox, 0, message, sizeof message), 0);
}

/* ---- node 0 ------------------------------------------------------------------------------- */

static void on_send(void *context, uint16_t to, const void *message, size_t length) {
  (void)context;
  CHECK_EQUAL(mr_replay_sends(mr_self.replay, to, message, length), 0);
}
static void on_protect(void *context, uint32_t page, uint32_t count, enum mr_access access) {
  (void)context;
  (void)page;
  (void)count;
  (void)access;
}
static void on_done(void *context, int64_t result) {
  (void)context;
  (void)result;
  mr_self.done = true;
}
static void on_failed(void *context, int error, const char *why) {
  (void)context;
  mr_node_die(error, "%s", why);
}
static void on_stuck(void *context, const struct mr_wait *waits) {
  (void)context;
  CHECK(waits[0].waits && waits[0].op == MR_WAIT && waits[0].id == SEMAPHORE);
  stuck = true;
}
static const void *on_gives(void *context, uint32_t page, const void *bytes) {
  (void)context;
  given++;
  return mr_replay_gives(mr_self.replay, page, bytes);
}
static void begin_part(void) {}

/* It is alone with its page then, and writes on. */
static void write_alone(struct mr_core *core, uint8_t *memory) {
  CHECK_EQUAL(mr_core_write(core, 0), 0);
  memory[0] = 1;
  CHECK_EQUAL(mr_core_sync(core, MR_FETCH_ADD, OWN, 1), 0);
  CHECK_EQUAL(mr_core_write(core, 0), 0);
  memory[0] = 2;
}

/* A process in node 0's place: as an image has it, it has sent one message, and waits. */
static void start_node(void) {
  static uint32_t incarnations[NODES] = {100, 101, 102};
  static struct sockaddr_storage addresses[NODES];
  static _Alignas(MR_PAGE) uint8_t memory[MR_PAGE], twins[MR_PAGE];
  static const struct mr_part part = {.begin = begin_part};
  static const struct mr_core_sink sink = {.send = on_send,
                                           .protect = on_protect,
                                           .done = on_done,
                                           .failed = on_failed,
                                           .gives = on_gives,
                                           .stuck = on_stuck};
  const struct mr_job job = {.nodes = NODES, .addresses = addresses};
  const struct mr_core_config config = {.nodes = NODES,
                                        .pages = 1,
                                        .home_run = 1,
                                        .objects = 8,
                                        .epoch = EPOCH,
                                        .incarnations = incarnations,
                                        .replays = true,
                                        .memory = memory,
                                        .twins = twins,
                                        .sink = &sink};
  mr_self.nodes = NODES;
  mr_self.checkpoints = (struct mr_checkpoints *)&calls; /* any address */
  mr_self.part = &part;
  CHECK_EQUAL(mr_core_create(&mr_self.core, &config), 0);
  mr_self.replay = mr_replay_open();
  CHECK(mr_self.replay != NULL);
  mr_replay_begin(mr_self.replay, &job);
  mr_self_start_checkpoints();
  memset(memory, 0, sizeof memory);
  if (writes)
    write_alone(mr_self.core, memory);
  mr_self.done = false;
  CHECK_EQUAL(mr_core_sync(mr_self.core, MR_WAIT, SEMAPHORE, 0), 0);
  CHECK(!mr_self.done);
}

static void begin(void) {
  cut = wanted = committed = restore = wished = 0;
  stuck = false;
  memset(again, 0, sizeof again);
  memset(peers, 0, sizeof peers);
  create_peer(1);
  create_peer(2);
  journal = page_file(mr_journal_size(CAPACITY));
  start_node();
  CHECK_EQUAL(peers[1].received, 1);
}

static void stop_node(void) {
  mr_replay_close(mr_self.replay);
  mr_core_destroy(mr_self.core);
}

static void end(void) {
  stop_node();
  mr_outbox_destroy(peers[1].outbox);
  mr_outbox_destroy(peers[2].outbox);
  close(journal);
}

/* ---- looks -------------------------------------------------------------------------------- */

/* Both others are asked, in both waves, and wait: then all is said to be stuck. */
static void finds(void) {
  int64_t before = peers[1].look;
  CHECK_EQUAL(mr_core_look(mr_self.core), 0);
  for (int wave = 0; wave < 2; wave++) {
    int64_t look = peers[1].look;
    CHECK(look > before);
    before = look;
    CHECK(!stuck);
    CHECK_EQUAL(peers[2].look, look);
    answer(1, look);
    answer(2, look);
  }
  CHECK(stuck);
}

static void greet_anew(uint16_t node) {
  mr_outbox_part(peers[node].outbox, 0);
  CHECK_EQUAL(mr_outbox_greet(peers[node].outbox, 0), 0);
}

/* Node 2 is lost.  Another look begins before the process in its place has greeted, and does not
 * reach that: it is given up. */
static void looks_on(void) {
  begin();
  CHECK_EQUAL(mr_core_look(mr_self.core), 0);
  answer(1, peers[1].look);
  struct mr_outbox_counts counts = mr_outbox_counts(peers[2].outbox, 0);
  mr_outbox_destroy(peers[2].outbox);
  create_peer(2);
  mr_outbox_resume(peers[2].outbox, 0, counts);
  CHECK(mr_replay_lost(mr_self.replay, 2));
  int64_t before = peers[2].look;
  CHECK_EQUAL(mr_core_look(mr_self.core), 0);
  CHECK(peers[1].look > before && peers[2].look == before);
  greet_anew(2);
  answer(1, peers[1].look);
  finds();
  end();
}

/* Node 0 is lost, and another process is in its place. */
static void lose_node(void) {
  stop_node();
  again[0]++;
  mr_outbox_part(peers[1].outbox, 0);
  mr_outbox_part(peers[2].outbox, 0);
  start_node();
  for (uint16_t node = 1; node < NODES; node++)
    CHECK_EQUAL(mr_outbox_greet(peers[node].outbox, 0), 0);
}

/* To the end of what is in the journal. */
static void repeat(const struct mr_asked *asked) {
  bool done = false;
  CHECK(mr_replay_repeats(mr_self.replay));
  mr_replay_asks(mr_self.replay, asked);
  mr_replay_goes_on(mr_self.replay, &done);
  CHECK(!mr_replay_repeats(mr_self.replay));
}

/* Node 0 is lost.  The process in its place looks while it waits as its image does, and has not
 * repeated what came then. */
static void looks_again(void) {
  const struct mr_asked asked = {.call = MR_CALL_SYNC};
  begin();
  mr_replay_asks(mr_self.replay, &asked);
  lose_node();
  CHECK_EQUAL(mr_core_look(mr_self.core), 0);
  answer(1, peers[1].look);
  answer(2, peers[2].look);
  CHECK(mr_replay_repeats(mr_self.replay) && peers[1].received == 1);
  repeat(&asked);
  finds();
  end();
}

/* ---- pages ---------------------------------------------------------------------------------- */

static void fetch_page(void) {
  uint8_t message[sizeof(struct mr_header) + sizeof(uint32_t) + sizeof(uint64_t)] = {0};
  const struct mr_header fetch =
      header_of(1, MR_FETCH, 1, sizeof message - sizeof(struct mr_header));
  memcpy(message, &fetch, sizeof fetch);
  peers[1].sent++;
  CHECK_EQUAL(mr_outbox_send(peers[1].outbox, 0, 0, message, sizeof message), 0);
}

/* Node 1 asks for the page that node 0 writes, while a process in node 0's place repeats. That
 * gives it where no event says what it gave. It is lost, too: the next one gives the same. */
static void gives_while_it_repeats(void) {
  const struct mr_asked asked = {.call = MR_CALL_SYNC};
  writes = true;
  begin();
  mr_replay_asks(mr_self.replay, &asked);
  lose_node();
  fetch_page();
  given = 0;
  repeat(&asked);
  CHECK(given == 1 && peers[1].received == 2);
  lose_node();
  repeat(&asked);
  CHECK(given == 2 && peers[1].received == 2);
  finds();
  end();
  writes = false;
}

/* ---- wishes --------------------------------------------------------------------------------- */

/* Half of the journal. */
static void fill(void) {
  wished = 0;
  for (uint32_t n = 0; wished == 0; n++) {
    CHECK(n < CAPACITY / sizeof(struct mr_header));
    fetch_page();
  }
}

static void all_come_to(uint32_t number) {
  cut = number;
  mr_replay_cut(mr_self.replay);
  committed = number;
}

/* It is wished once the journal is half full, and behind the last checkpoint.  What that empties is
 * no reason, also where this node has not heard of it, or was lost before it had forgotten what was
 * before. */
static void wishes(void) {
  begin();
  fill();
  CHECK_EQUAL(wished, 1);
  all_come_to(2);
  wished = 0;
  fetch_page();
  CHECK_EQUAL(wished, 0);
  calls.committed(2);
  fill();
  CHECK_EQUAL(wished, 3);
  all_come_to(4);
  restore = 4;
  wished = 0;
  lose_node();
  fetch_page();
  CHECK_EQUAL(wished, 0);
  fill();
  CHECK_EQUAL(wished, 5);
  end();
}

/* ---- counts --------------------------------------------------------------------------------- */

static uint64_t counts_sent(uint32_t number) {
  uint64_t sent = 0, received = 0;
  CHECK(calls.rests(number, &sent, &received));
  CHECK_EQUAL(received, 0);
  return sent;
}

/* A cut was given up before this node, which waits, took its image.  The others count from there.
 */
static void given_up(void) {
  begin();
  wanted = 2;
  CHECK_EQUAL(counts_sent(2), 1);
  cut = 2;
  CHECK_EQUAL(counts_sent(2), 1);
  wanted = 4;
  CHECK_EQUAL(counts_sent(4), 0);
  CHECK(mr_core_waits(mr_self.core));
  end();
}

/* So does what it says to a node that looks whether all wait. */
static void looked_at(void) {
  struct peer *peer = &peers[1];
  begin();
  const struct mr_header look = header_of(1, MR_LOOK, 1, 0);
  CHECK_EQUAL(mr_outbox_send_once(peer->outbox, 0, &look, sizeof look), 0);
  CHECK_EQUAL(peer->said, 1);
  cut = 2;
  CHECK_EQUAL(mr_outbox_send_once(peer->outbox, 0, &look, sizeof look), 0);
  CHECK_EQUAL(peer->said, 0);
  end();
}

int main(void) {
  looks_on();
  looks_again();
  gives_while_it_repeats();
  wishes();
  given_up();
  looked_at();
  return 0;
}
