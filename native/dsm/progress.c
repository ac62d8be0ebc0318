#include "state.h"

#define NOTICE_BYTES (sizeof(uint32_t) + sizeof(uint64_t))
/* With a notice's page: its diff follows, after its length in 16 bits. */
#define CARRIES (UINT32_C(1) << 31)
_Static_assert(MR_PAGES_MAX <= CARRIES, "no page has that bit");

/* ---- write notices ------------------------------------------------------------ */

static void put_interval(struct mr_core *core, uint16_t node, uint64_t number) {
  const struct mr_interval *interval = mr_intervals_at(core->log, node, number);
  if (interval == NULL) {
    mr_fail(core, -EPROTO, "an interval that is asked for was dropped, of node", node);
    return;
  }
  mr_put(&core->out, &node, sizeof node);
  mr_put(&core->out, &number, sizeof number);
  mr_put(&core->out, &interval->count, sizeof interval->count);
  const uint8_t *diff = mr_interval_diffs(interval);
  for (uint32_t i = 0; i < interval->count; i++) {
    const struct mr_notice *notice = &interval->notices[i];
    uint32_t page = notice->page | (notice->length > 0 ? CARRIES : 0);
    uint16_t length = (uint16_t)notice->length;
    mr_put(&core->out, &page, sizeof page);
    mr_put(&core->out, &notice->version, sizeof notice->version);
    if (length > 0)
      mr_put(&core->out, &length, sizeof length);
    mr_put(&core->out, diff, length);
    diff += length;
  }
  core->counters.notices += interval->count;
}

/* The intervals up to `time` that node `to` may not hold yet. */
void mr_put_intervals(struct mr_core *core, uint16_t to, const uint64_t *time) {
  uint64_t *held = row(core, core->held, to);
  for (uint16_t q = 0; q < core->config.nodes && !core->stopped; q++)
    if (q != to)
      for (uint64_t number = (held[q] > core->floor[q] ? held[q] : core->floor[q]) + 1;
           number <= time[q] && !core->stopped; number++)
        put_interval(core, q, number);
  /* The channel is in order: whatever is sent later finds these there. */
  mr_time_join(held, time, core->config.nodes);
}

static bool read_notice(struct mr_core *core, struct mr_reader *reader, struct mr_notice *notice) {
  uint32_t page;
  uint16_t length = 0;
  mr_take(reader, &page, sizeof page);
  mr_take(reader, &notice->version, sizeof notice->version);
  if ((page & CARRIES) != 0)
    mr_take(reader, &length, sizeof length);
  notice->page = page & ~CARRIES;
  notice->length = length;
  if (reader->bad || notice->page >= core->config.pages || length > reader->left)
    return false;
  if (length > 0)
    mr_put(&core->came, reader->at, length);
  reader->at += length;
  reader->left -= length;
  return true;
}

/* The scratch notices and their diffs. */
static bool read_record(struct mr_core *core, struct mr_reader *reader, uint16_t *node,
                        uint64_t *number, uint32_t *count) {
  mr_take(reader, node, sizeof *node);
  mr_take(reader, number, sizeof *number);
  mr_take(reader, count, sizeof *count);
  if (reader->bad || *node >= core->config.nodes || *count > core->config.pages ||
      *count > reader->left / NOTICE_BYTES)
    return false;
  core->came.length = 0;
  for (uint32_t i = 0; i < *count; i++)
    if (!read_notice(core, reader, &core->incoming[i]))
      return false;
  return true;
}

/* Reads the intervals at the end of a message twice: all of them must be well
 * formed before the first is taken. */
int mr_read_intervals(struct mr_core *core, uint16_t from, struct mr_reader *reader) {
  uint16_t node;
  uint64_t number;
  uint32_t count;
  struct mr_reader check = *reader;
  while (check.left > 0)
    if (!read_record(core, &check, &node, &number, &count) || node == core->config.me)
      return -EBADMSG;
  while (reader->left > 0) {
    read_record(core, reader, &node, &number, &count);
    int rc = core->came.failed ? -ENOMEM
                               : mr_intervals_add(core->log, node, number, core->incoming, count,
                                                  core->came.bytes);
    if (rc < 0)
      return mr_fail(core, rc,
                     rc == -ENOMEM ? "no memory for write notices from node"
                                   : "write notices are missing or differ, from node",
                     from);
    uint64_t *held = row(core, core->held, from);
    held[node] = held[node] > number ? held[node] : number;
  }
  return 0;
}

/* Every interval of `time` must be known here. */
bool mr_covered(const struct mr_core *core, const uint64_t *time) {
  for (uint16_t q = 0; q < core->config.nodes; q++)
    if (time[q] > mr_intervals_known(core->log, q))
      return false;
  return true;
}
/* ---- what all have acquired -------------------------------------------------- */

void mr_enter_round(struct mr_core *core, uint64_t number) {
  struct round *round = &core->round;
  uint16_t me = core->config.me;
  round->number = number;
  memset(round->in, 0, words_of(core) * sizeof *round->in);
  round->in[me / 64] = UINT64_C(1) << me % 64;
  memcpy(round->least, core->time, core->config.nodes * sizeof *round->least);
}

static bool all_in(const struct mr_core *core) {
  unsigned in = 0;
  for (size_t w = 0; w < words_of(core); w++)
    in += (unsigned)__builtin_popcountll(core->round.in[w]);
  return in == core->config.nodes;
}

static void raise_floor(struct mr_core *core, const uint64_t *floor) {
  mr_time_join(core->floor, floor, core->config.nodes);
  for (uint16_t q = 0; q < core->config.nodes; q++)
    mr_intervals_trim(core->log, q, core->floor[q]);
}

void mr_close_round(struct mr_core *core) {
  if (!all_in(core))
    return;
  raise_floor(core, core->round.least);
  mr_enter_round(core, core->round.number + 1);
}

void mr_put_progress(struct mr_core *core) {
  mr_put_time(core, core->floor);
  mr_put(&core->out, &core->round.number, sizeof core->round.number);
  mr_put(&core->out, core->round.in, words_of(core) * sizeof *core->round.in);
  mr_put_time(core, core->round.least);
}

void mr_take_progress(struct mr_core *core, struct mr_reader *reader) {
  size_t time = core->config.nodes * sizeof(uint64_t);
  mr_take(reader, core->lowest, time);
  mr_take(reader, &core->heard.number, sizeof core->heard.number);
  mr_take(reader, core->heard.in, words_of(core) * sizeof *core->heard.in);
  mr_take(reader, core->heard.least, time);
}

/* What was taken may be true.  A round ends when all are in it, so nobody is two ahead;
 * and nobody is in it for this node. */
int mr_check_progress(struct mr_core *core, uint16_t from) {
  uint16_t nodes = core->config.nodes, me = core->config.me;
  const struct round *heard = &core->heard;
  bool ahead = heard->number > core->round.number;
  bool spare = nodes % 64 != 0 && heard->in[nodes / 64] >> nodes % 64 != 0;
  bool good = heard->number <= core->round.number + 1 && !spare &&
              !(ahead && (heard->in[me / 64] >> me % 64 & 1) != 0);
  for (uint16_t q = 0; q < nodes; q++)
    good = good && core->lowest[q] <= core->time[q];
  return good ? 0
              : mr_fail(core, -EPROTO, "what all have acquired is more than I have, by node", from);
}

void mr_hear_progress(struct mr_core *core) {
  struct round *round = &core->round;
  const struct round *heard = &core->heard;
  raise_floor(core, core->lowest);
  if (heard->number > round->number)
    mr_enter_round(core, heard->number);
  if (heard->number < round->number)
    return;
  for (size_t w = 0; w < words_of(core); w++)
    round->in[w] |= heard->in[w];
  mr_time_meet(round->least, heard->least, core->config.nodes);
  mr_close_round(core);
}

/* ---- news ------------------------------------------------------------------------ */

void mr_send_news(struct mr_core *core, uint16_t to, enum mr_message_type type) {
  mr_compose(core, type, 0, 0, 0);
  mr_put_time(core, core->time);
  mr_put_progress(core);
  if (type == MR_NEWS)
    mr_put_intervals(core, to, core->time);
  mr_dispatch(core, to);
}

void mr_news_to_all(struct mr_core *core) {
  core->since_news = core->bytes_since_news = 0;
  for (uint16_t to = 0; to < core->config.nodes && !core->stopped; to++)
    if (to != core->config.me)
      mr_send_news(core, to, MR_NEWS);
}

void mr_spread_news(struct mr_core *core) {
  uint64_t most = core->config.log_most, bytes = core->config.log_bytes;
  core->since_news++;
  core->bytes_since_news += core->notice_count * sizeof(struct mr_notice) + core->carried.length;
  bool many = core->since_news >= most / 2 && mr_intervals_held(core->log) > most;
  bool large = core->bytes_since_news >= bytes / 2 && mr_intervals_bytes(core->log) > bytes;
  if (many || large)
    mr_news_to_all(core);
}
