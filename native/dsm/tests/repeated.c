/* Nodes of a world that do again what they did. */
#include "../message.h"
#include "../save.h"
#include "check.h"
#include "world.h"

static struct happened *add(struct past_of *past) {
  if (past->count == past->capacity) {
    past->capacity = past->capacity != 0 ? 2 * past->capacity : 64;
    past->each = realloc(past->each, past->capacity * sizeof *past->each);
    CHECK(past->each != NULL);
  }
  return &past->each[past->count++];
}

static void add_message(struct past_of *past, uint16_t node, const void *bytes, size_t length) {
  struct happened *h = add(past);
  *h = (struct happened){.node = node, .length = length, .bytes = malloc(length)};
  CHECK(h->bytes != NULL);
  memcpy(h->bytes, bytes, length);
}

static void forget(struct past_of *past) {
  for (size_t i = 0; i < past->count; i++)
    free(past->each[i].bytes);
  free(past->each);
  *past = (struct past_of){.each = NULL};
}

void repeated_forget(struct node *node) {
  forget(&node->told);
  forget(&node->sent);
  node->ran = 0;
}

/* Looks are no part of it: they are made when their time has come. */
void repeated_told(struct node *node, uint16_t from, const void *bytes, size_t length) {
  if (node->world->shape.replays && !mr_core_is_look(bytes, length))
    add_message(&node->told, from, bytes, length);
}

void repeated_cleans(struct node *node) {
  if (node->world->shape.replays)
    *add(&node->told) = (struct happened){.bytes = NULL};
}

static const struct happened *next_told(const struct node *node) {
  return node->told.next < node->told.count ? &node->told.each[node->told.next] : NULL;
}

void repeated_request(struct node *node, enum code code, uint32_t id, int64_t one, int64_t two) {
  const struct happened made = {.request = code, .id = id, .ran = node->ran, .values = {one, two}};
  if (!node->world->shape.replays)
    return;
  if (!node->repeats) {
    *add(&node->told) = made;
    return;
  }
  const struct happened *was = next_told(node);
  /* What is changed and changed back is taken for something else. */
  CHECK(mr_given_hold(&node->given) || node->writes > 1);
  node->writes = 0;
  CHECK(was != NULL && was->request == made.request && was->id == made.id && was->ran == made.ran &&
        was->values[0] == one && was->values[1] == two);
  node->told.next++;
}

/* What it gave of a page that it was writing, right after the message that asked for it. */
const void *repeated_gives(struct node *node, uint32_t page, const void *memory) {
  const struct happened *was = next_told(node);
  if (!node->repeats) {
    add_message(&node->told, node->number, memory, MR_PAGE);
    node->told.each[node->told.count - 1].request = GIVES;
    node->told.each[node->told.count - 1].id = page;
    return memory;
  }
  CHECK(was != NULL && was->request == GIVES && was->id == page);
  CHECK(!node->waits || memcmp(was->bytes, memory, MR_PAGE) == 0);
  if (!node->waits)
    CHECK_EQUAL(mr_given_add(&node->given, memory, was->bytes), 0);
  node->told.next++;
  return was->bytes;
}

uint32_t repeated_brings(const struct node *node) {
  const struct happened *was = next_told(node);
  return was != NULL && was->request == BRINGS && was->ran == node->ran ? (uint32_t)was->values[0]
                                                                        : 0;
}

/* What it measured of the way is told to homes, and is another each time. */
static void blur(uint8_t *bytes) {
  struct mr_header header;
  memcpy(&header, bytes, sizeof header);
  header.detail = header.type == MR_FETCH ? 0 : header.detail;
  memcpy(bytes, &header, sizeof header);
}

void repeated_sends(struct node *node, uint16_t to, const void *bytes, size_t length) {
  if (mr_core_is_look(bytes, length))
    return;
  if (!node->repeats) {
    add_message(&node->sent, to, bytes, length);
    blur(node->sent.each[node->sent.count - 1].bytes);
    return;
  }
  uint8_t *again = malloc(length);
  CHECK(again != NULL && node->sent.next < node->sent.count);
  memcpy(again, bytes, length);
  blur(again);
  const struct happened *was = &node->sent.each[node->sent.next++];
  CHECK(was->node == to && was->length == length && memcmp(was->bytes, again, length) == 0);
  free(again);
}

static void begin_again(struct world *world, struct saved_node *from, uint16_t number,
                        const struct node *was) {
  struct node *node = &world->nodes[number];
  world_make_core(world, number);
  node->program = was->program;
  node->told = was->told;
  node->sent = was->sent;
  node->told.next = node->sent.next = 0;
  node->next = from->next;
  node->waits = from->waits;
  node->ended = from->ended;
  node->result = from->result;
  memcpy(node->registers, from->registers, sizeof node->registers);
  CHECK_EQUAL(mr_core_load_own(node->core, &(struct mr_saved){from->bytes, from->length},
                               world_saved_page, from),
              0);
  node->repeats = true;
}

/* Before its next request comes what it was told before that. */
static void do_again(struct node *node) {
  for (const struct happened *next; (next = next_told(node)) != NULL;)
    if (next->request == 0 && next->bytes == NULL) {
      node->told.next++;
      CHECK_EQUAL(mr_core_clean(node->core), 0);
    } else if (next->request == 0) {
      node->told.next++;
      CHECK_EQUAL(mr_core_message(node->core, next->node, next->bytes, next->length), 0);
    } else {
      CHECK(!node->waits);
      world_run_instruction(node);
    }
}

static void compare(const struct node *one, const struct node *other) {
  uint32_t pages = one->world->shape.pages;
  CHECK(one->next == other->next && one->waits == other->waits && one->ended == other->ended);
  CHECK(memcmp(one->registers, other->registers, sizeof one->registers) == 0);
  CHECK(memcmp(one->mapped, other->mapped, pages * sizeof *one->mapped) == 0);
  for (uint32_t page = 0; page < pages; page++) {
    size_t at = (size_t)page * MR_PAGE;
    CHECK_EQUAL(mr_core_home(one->core, page), mr_core_home(other->core, page));
    CHECK_EQUAL(mr_core_access(one->core, page), mr_core_access(other->core, page));
    CHECK(mr_core_access(one->core, page) == MR_NONE ||
          memcmp(one->memory + at, other->memory + at, MR_PAGE) == 0);
  }
}

static void drop_looks(struct channel *channel) {
  struct message **at = &channel->head;
  while (*at != NULL) {
    struct message *m = *at;
    if (mr_core_is_look(m->bytes, m->length)) {
      *at = m->next;
      free(m);
    } else {
      at = &m->next;
    }
  }
  channel->tail = at;
}

/* They are lost with the node, and others that look do so anew. */
static void end_looks(struct world *world, uint16_t lost) {
  for (uint16_t other = 0; other < world->shape.nodes; other++) {
    drop_looks(&world->channels[lost][other]);
    drop_looks(&world->channels[other][lost]);
    if (other != lost)
      mr_core_look_over(world->nodes[other].core);
  }
}

void world_repeat(struct world *world, struct cut *cut, uint16_t number) {
  struct node was = world->nodes[number], *node = &world->nodes[number];
  end_looks(world, number);
  begin_again(world, &cut->nodes[number], number, &was);
  do_again(node);
  while (node->ran < was.ran)
    world_run_instruction(node);
  CHECK(node->sent.next == node->sent.count);
  CHECK(mr_given_hold(&node->given) || node->writes > 1);
  mr_given_free(&node->given);
  compare(node, &was);
  node->repeats = false;
  world_drop_core(&was);
}
