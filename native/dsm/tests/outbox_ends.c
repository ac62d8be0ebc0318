/* Description: each message arrives once, in order, whichever process is lost at whichever moment:
 * those that it had kept it knows from its journal, and those that it sends again are not sent
 * twice.  Nodes are a number of messages each that they were told; what they send follows from it.
 */
#include "../outbox.h"
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NODES 3
#define TURNS 400
#define STEPS 300

struct message {
  struct message *next;
  size_t length;
  uint8_t bytes[];
};

struct channel {
  struct message *head, **tail;
};

/* All that it was told, in order: its journal. */
struct node {
  struct mr_outbox *outbox;
  uint64_t told[NODES]; /* the last that it was told by each */
  uint64_t sent[NODES];
  size_t events;
  uint16_t journal[20000];
};

static struct node nodes[NODES];
static struct channel channels[NODES][NODES];
static bool parted[NODES][NODES]; /* the first has not heard the second since */
static uint64_t random_state;

static uint32_t draw(uint32_t below) {
  random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % below;
}

static int on_send(void *context, uint16_t to, const void *bytes, size_t length) {
  struct node *node = context;
  struct channel *channel = &channels[node - nodes][to];
  struct message *message = malloc(sizeof *message + length);
  CHECK(message != NULL);
  *message = (struct message){.length = length};
  memcpy(message->bytes, bytes, length);
  *channel->tail = message;
  channel->tail = &message->next;
  return 0;
}

static void empty(struct channel *channel) {
  for (struct message *m = channel->head, *next; m != NULL; m = next) {
    next = m->next;
    free(m);
  }
  *channel = (struct channel){.tail = &channel->head};
}

/* Some are long, so that a receiver says by itself what it has kept. */
static void say(struct node *node, uint16_t to) {
  static uint8_t bytes[40000];
  uint64_t number = ++node->sent[to];
  size_t length = sizeof number + (number % 17 == 0 ? 30000 : number % 5);
  memcpy(bytes, &number, sizeof number);
  CHECK_EQUAL(mr_outbox_send(node->outbox, to, (uint32_t)number, bytes, length), 0);
}

/* What a node does when it is told something: it tells the next. */
static void react(struct node *node, uint16_t from) {
  uint16_t me = (uint16_t)(node - nodes);
  node->told[from]++;
  if (node->told[from] % 3 != 0)
    say(node, (uint16_t)((me + 1 + node->told[from] % (NODES - 1)) % NODES));
}

static void deliver(uint16_t from, uint16_t to) {
  struct channel *channel = &channels[from][to];
  struct message *m = channel->head;
  struct node *node = &nodes[to];
  struct mr_outbox_message message;
  uint64_t number;
  channel->head = m->next;
  if (channel->head == NULL)
    channel->tail = &channel->head;
  CHECK_EQUAL(mr_outbox_hear(node->outbox, from, m->bytes, m->length, &message), 0);
  CHECK_EQUAL(message.greets, parted[to][from]);
  parted[to][from] = false;
  if (message.counts) {
    memcpy(&number, message.bytes, sizeof number);
    CHECK_EQUAL(number, node->told[from] + 1);
    CHECK_EQUAL(number, message.mark);
    CHECK(node->events < sizeof node->journal / sizeof *node->journal);
    node->journal[node->events++] = from;
    CHECK_EQUAL(mr_outbox_kept(node->outbox, from, m->length), 0);
    react(node, from);
  }
  free(m);
}

static void create(uint16_t number) {
  CHECK_EQUAL(mr_outbox_create(&nodes[number].outbox, NODES, on_send, &nodes[number]), 0);
}

/* What was on its way to or from it is lost, and the others greet the new one. */
static void lose(uint16_t lost) {
  struct node *node = &nodes[lost];
  mr_outbox_destroy(node->outbox);
  create(lost);
  memset(node->told, 0, sizeof node->told);
  memset(node->sent, 0, sizeof node->sent);
  struct mr_outbox_counts counts[NODES] = {{0, 0}};
  for (size_t i = 0; i < node->events; i++)
    counts[node->journal[i]].kept++;
  for (uint16_t other = 0; other < NODES; other++) {
    if (other == lost)
      continue;
    empty(&channels[other][lost]);
    empty(&channels[lost][other]);
    parted[lost][other] = parted[other][lost] = true;
    mr_outbox_resume(node->outbox, other, counts[other]);
    mr_outbox_part(node->outbox, other);
    CHECK_EQUAL(mr_outbox_greet(node->outbox, other), 0);
    mr_outbox_part(nodes[other].outbox, lost);
    CHECK_EQUAL(mr_outbox_greet(nodes[other].outbox, lost), 0);
  }
}

/* It does again what it did. Greetings may come before, meanwhile and after. */
static void repeat(uint16_t lost) {
  struct node *node = &nodes[lost];
  size_t events = node->events;
  for (size_t i = 0; i < events; i++) {
    uint16_t other = (uint16_t)((lost + 1 + draw(NODES - 1)) % NODES);
    struct message *m = channels[other][lost].head;
    if (draw(3) == 0 && m != NULL && m->length == 24)
      deliver(other, lost);
    react(node, node->journal[i]);
  }
}

static bool step(void) {
  uint16_t from = (uint16_t)draw(NODES), to = (uint16_t)((from + 1 + draw(NODES - 1)) % NODES);
  if (channels[from][to].head == NULL)
    return false;
  deliver(from, to);
  return true;
}

/* Only of what a node was told follows what it sends, but for the first word: node 0's, which it
 * begins with again. */
static void begin(uint16_t number) {
  for (uint16_t to = 0; number == 0 && to < NODES; to++)
    for (int i = 0; to != 0 && i < 5; i++)
      say(&nodes[0], to);
}

static void one(uint64_t seed) {
  snprintf(check_note, sizeof check_note, "(again: MARU_DSM_SEED=%llu)", (unsigned long long)seed);
  random_state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
  memset(nodes, 0, sizeof nodes);
  memset(parted, 0, sizeof parted);
  for (uint16_t i = 0; i < NODES; i++)
    for (uint16_t j = 0; j < NODES; j++)
      channels[i][j] = (struct channel){.tail = &channels[i][j].head};
  for (uint16_t i = 0; i < NODES; i++)
    create(i);
  begin(0);
  for (int i = 0; i < STEPS; i++) {
    step();
    if (draw(40) != 0)
      continue;
    uint16_t lost = (uint16_t)draw(NODES);
    lose(lost);
    begin(lost);
    repeat(lost);
  }
  for (int idle = 0; idle < 200; idle++)
    idle = step() ? 0 : idle;
  for (uint16_t i = 0; i < NODES; i++)
    for (uint16_t j = 0; j < NODES; j++) {
      CHECK(i == j || nodes[i].sent[j] == nodes[j].told[i]);
      CHECK(i == j || mr_outbox_counts(nodes[i].outbox, j).sent == nodes[i].sent[j]);
      empty(&channels[i][j]);
    }
  for (uint16_t i = 0; i < NODES; i++)
    mr_outbox_destroy(nodes[i].outbox);
}

static void refuses(void) {
  static const struct {
    uint64_t number, kept, mark;
    uint8_t byte;
  } gap = {2, 0, 0, 1}, more = {1, 7, 0, 1};
  struct mr_outbox_message message;
  for (uint16_t j = 0; j < NODES; j++)
    channels[0][j] = (struct channel){.tail = &channels[0][j].head};
  create(0);
  CHECK_EQUAL(mr_outbox_hear(nodes[0].outbox, 1, &gap, 23, &message), -EBADMSG);
  CHECK_EQUAL(mr_outbox_hear(nodes[0].outbox, 1, &gap, 25, &message), -EBADMSG);
  CHECK_EQUAL(mr_outbox_hear(nodes[0].outbox, 1, &more, 25, &message), -EBADMSG);
  CHECK_EQUAL(mr_outbox_hear(nodes[0].outbox, 1, &more, 24, &message), -EBADMSG);
  mr_outbox_destroy(nodes[0].outbox);
}

int main(void) {
  uint64_t seed = setting("MARU_DSM_SEED", 1);
  for (uint64_t i = 0; i < TURNS; i++)
    one(seed + i);
  refuses();
  return 0;
}
