/* Whether every node waits and nobody can end that.
 *
 * A node that waits goes on by a message alone.  So a job is stuck once all wait and no message is
 * under way, which no node can see at once.  One asks all, in two waves: each says whether it
 * waits, and how many messages it has sent and received. Suppose all waited in both, and nobody
 * received anything between its two answers. Then each has waited all the time between, at the end
 * of the first wave too. If as many were received as were sent, none was under way then. Looks
 * themselves are not counted: they move nobody.  What a waiting node sends home (mr_core_clean), no
 * message bids it: it may be under way when the second wave ends, and moves nobody either.
 *
 * A node that waits beside the core (latch.h) goes on where another node's thread gives what it
 * waits for.  It waits for the look only while somebody has that, and such a wait that is over
 * counts as a message that was received.  Between the two waves no thread runs, so what somebody
 * has in the second was not given in the first.
 */
#include "state.h"

#include <stdlib.h>

int mr_look_create(struct look *look, uint16_t nodes) {
  look->first = calloc(nodes, sizeof *look->first);
  look->second = calloc(nodes, sizeof *look->second);
  look->waits = calloc(nodes, sizeof *look->waits);
  look->answered = calloc(nodes, sizeof *look->answered);
  return look->first != NULL && look->second != NULL && look->waits != NULL &&
                 look->answered != NULL
             ? 0
             : -ENOMEM;
}

void mr_look_destroy(struct look *look) {
  free(look->answered);
  free(look->waits);
  free(look->second);
  free(look->first);
}

static struct seen see(const struct mr_core *core) {
  const struct pending *pending = &core->pending;
  struct seen seen = {.sent = core->sent, .received = core->received};
  bool sleeps = pending->stage == LEAVES || pending->stage == SLEEPS;
  seen.wait.waits = pending->phase != IDLE;
  if (pending->phase == IDLE && core->config.sink->apart != NULL)
    seen.wait.waits = core->config.sink->apart(core->config.context, &seen.wait);
  else if (pending->phase != IDLE && pending->phase != FETCHING) {
    seen.wait.op = sleeps ? MR_CONDITION : pending->op;
    seen.wait.id = sleeps ? pending->condition : pending->id;
  }
  return seen;
}

static void end_wave(struct mr_core *core);

static void begin_wave(struct mr_core *core, bool again) {
  struct look *look = &core->look;
  uint16_t me = core->config.me;
  look->number++;
  look->again = again;
  look->awaited = (uint16_t)(core->config.nodes - 1);
  memset(look->answered, 0, core->config.nodes * sizeof *look->answered);
  (again ? look->second : look->first)[me] = see(core);
  for (uint16_t to = 0; to < core->config.nodes && !core->stopped; to++)
    if (to != me)
      mr_send_short(core, to, MR_LOOK, 0, (int64_t)look->number, 0);
  if (look->awaited == 0) /* the only node */
    end_wave(core);
}

/* Whether all waited, and as many messages were received as were sent. */
static bool at_rest(const struct mr_core *core, const struct seen *seen) {
  uint64_t under_way = 0;
  bool all = true;
  for (uint16_t q = 0; q < core->config.nodes; q++) {
    under_way += seen[q].sent - seen[q].received;
    all = all && seen[q].wait.waits;
  }
  return all && under_way == 0;
}

static bool nothing_happened(const struct mr_core *core) {
  const struct look *look = &core->look;
  for (uint16_t q = 0; q < core->config.nodes; q++)
    if (look->first[q].received != look->second[q].received)
      return false;
  return true;
}

static void end_wave(struct mr_core *core) {
  struct look *look = &core->look;
  if (!at_rest(core, look->again ? look->second : look->first))
    return;
  if (!look->again) {
    begin_wave(core, true);
    return;
  }
  if (!nothing_happened(core))
    return;
  for (uint16_t q = 0; q < core->config.nodes; q++)
    look->waits[q] = look->second[q].wait;
  core->config.sink->stuck(core->config.context, look->waits);
}

void mr_core_went_on(struct mr_core *core) {
  core->sent++;
  core->received++;
}

int mr_core_look(struct mr_core *core) {
  if (core->stopped)
    return -ECANCELED;
  if (core->look.awaited == 0 && see(core).wait.waits)
    begin_wave(core, false);
  return mr_unless_stopped(core);
}

void mr_core_look_over(struct mr_core *core) {
  core->look.number += core->look.awaited > 0;
  core->look.awaited = 0;
}

int mr_on_look(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  struct seen seen = see(core);
  uint8_t waits = seen.wait.waits;
  if (reader->left != 0)
    return -EBADMSG;
  mr_compose(core, MR_SEEN, seen.wait.id, header->value, seen.wait.op);
  mr_put(&core->out, &waits, sizeof waits);
  mr_put(&core->out, &seen.sent, sizeof seen.sent);
  mr_put(&core->out, &seen.received, sizeof seen.received);
  mr_dispatch(core, header->from);
  return 0;
}

int mr_on_seen(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  struct look *look = &core->look;
  struct seen seen = {.wait = {.op = (enum mr_op)header->detail, .id = header->subject}};
  uint8_t waits;
  mr_take(reader, &waits, sizeof waits);
  mr_take(reader, &seen.sent, sizeof seen.sent);
  mr_take(reader, &seen.received, sizeof seen.received);
  if (reader->bad || reader->left != 0 || waits > 1 || header->detail >= MR_OPS ||
      header->value > (int64_t)look->number)
    return -EBADMSG;
  if (header->value < (int64_t)look->number)
    return 0; /* of a look that was given up */
  if (look->awaited == 0 || look->answered[header->from])
    return -EBADMSG;
  seen.wait.waits = waits == 1;
  (look->again ? look->second : look->first)[header->from] = seen;
  look->answered[header->from] = true;
  if (--look->awaited == 0)
    end_wave(core);
  return 0;
}
