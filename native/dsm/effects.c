/* effects.c: what the parts of a core have done outside of it: rights set, messages sent, its end
 * said. */
#include "state.h"

#include <stdio.h>

int mr_fail(struct mr_core *core, int error, const char *what, uint64_t subject) {
  if (core->stopped)
    return -ECANCELED;
  core->stopped = true;
  snprintf(core->why, sizeof core->why, "%s (%llu)", what, (unsigned long long)subject);
  core->config.sink->failed(core->config.context, error, core->why);
  return -ECANCELED;
}

int mr_unless_stopped(const struct mr_core *core) { return core->stopped ? -ECANCELED : 0; }

void mr_settle(struct mr_core *core) {
  uint32_t count = core->settling.count;
  core->settling.count = 0;
  if (count > 0)
    core->config.sink->protect(core->config.context, core->settling.page, count,
                               (enum mr_access)core->settling.access);
}

void mr_set_access(struct mr_core *core, uint32_t page, enum mr_access access) {
  mr_mark_access(core, page, access);
  core->pages[page].hidden = false;
  if (core->settling.count > 0 && core->settling.access == access &&
      core->settling.page + core->settling.count == page) {
    core->settling.count++;
    return;
  }
  mr_settle(core);
  core->settling.page = page;
  core->settling.count = 1;
  core->settling.access = (uint8_t)access;
}

_Static_assert(MR_MESSAGE_TYPES <= MR_MESSAGE_KINDS, "each is counted");

/* ---- messages out ----------------------------------------------------------- */

struct mr_writer *mr_compose(struct mr_core *core, enum mr_message_type type, uint32_t subject,
                             int64_t value, uint32_t detail) {
  struct mr_header header = {.version = MR_MESSAGE_VERSION,
                             .type = (uint8_t)type,
                             .from = core->config.me,
                             .epoch = core->config.epoch,
                             .incarnation = core->incarnations[core->config.me],
                             .subject = subject,
                             .value = value,
                             .detail = detail};
  core->out.length = 0;
  mr_put(&core->out, &header, sizeof header);
  return &core->out;
}

void mr_dispatch(struct mr_core *core, uint16_t to) {
  struct mr_writer *out = &core->out;
  if (core->stopped)
    return;
  size_t body = out->length - sizeof(struct mr_header);
  if (out->failed || body > UINT32_MAX) {
    mr_fail(core, -ENOMEM, "no memory for a message of bytes", out->length);
    return;
  }
  uint32_t length = (uint32_t)body;
  memcpy(out->bytes + offsetof(struct mr_header, length), &length, sizeof length);
  core->counters.messages++;
  core->counters.bytes += out->length;
  uint8_t type = out->bytes[offsetof(struct mr_header, type)];
  core->counters.kinds[type].messages++;
  core->counters.kinds[type].bytes += out->length;
  core->sent += !mr_looks(type);
  core->config.sink->send(core->config.context, to, out->bytes, out->length);
}

void mr_send_short(struct mr_core *core, uint16_t to, enum mr_message_type type, uint32_t subject,
                   int64_t value, uint32_t detail) {
  mr_compose(core, type, subject, value, detail);
  mr_dispatch(core, to);
}

void mr_put_time(struct mr_core *core, const uint64_t *time) {
  mr_put(&core->out, time, core->config.nodes * sizeof *time);
}
