/* Over 500 lines: a node's events, messages and clocks are kept and done again in one order. */
#define _GNU_SOURCE
#include "replay.h"

#include "given.h"
#include "hmac.h"
#include "journal.h"
#include "message.h"
#include "outbox.h"
#include "save.h"
#include "self.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOIN_SECONDS 30
#define LOOK_MOST 256u
#define CLOCKS 12
#define CLOCK_STEP_NS 10000

/* What the program saw of one; by its thread alone, or under the lock while this node repeats. */
struct clock {
  bool known; /* since the last cut */
  int64_t saw;
  uint64_t times; /* that again */
};

struct mr_replay {
  struct mr_journal *journal;
  struct mr_outbox *outbox;
  struct mr_job job; /* to meet a node that was lost */
  struct sockaddr_storage addresses[MR_JOB_NODES_MAX];
  uint32_t known[MR_JOB_NODES_MAX]; /* how often each was started again, as far as it was met */
  _Atomic bool repeats;             /* under the lock; without it a hint */
  struct clock clocks[CLOCKS];
  uint32_t clocks_cut;              /* they are of what came after that cut */
  uint64_t at;                      /* of the journal: so far it is done */
  _Atomic uint32_t noted;           /* the last cut in the journal; under the lock, as `repeats` */
  uint64_t noted_at;                /* its place */
  uint32_t forgot;                  /* what was before that checkpoint is no more in the journal */
  struct mr_journal_sent sent, was; /* in this epoch; what the lost process had sent */
  uint64_t passes;       /* times that the program came here since its last request, or cut */
  bool stopped;          /* it comes from there, for the same time */
  bool said;             /* that the journal is torn */
  bool waits;            /* the program does while events happen again */
  struct mr_given given; /* in the stretch of the program that is running */
  _Atomic bool unproved; /* of the last stretch; under the lock, as `repeats` */
  struct gave {
    uint64_t page;
    uint8_t bytes[MR_PAGE];
  } gave; /* scratch */
  /* A look that came while this node repeats. */
  struct {
    uint16_t from;
    size_t length; /* 0: none */
    uint8_t bytes[LOOK_MOST];
  } look;
};

/* An event's bytes. */
struct request {
  struct mr_asked asked;
  uint64_t sum, pass;
};

static _Noreturn void cannot(const char *what, const char *why) {
  mr_node_die(STATUS_LOST, "cannot repeat what was lost: %s: %s", what, why);
}

/* ---- opening ------------------------------------------------------------------------ */

struct mr_replay *mr_replay_open(void) {
  int file = mr_self.checkpoints != NULL ? mr_checkpoints_journal(mr_self.checkpoints) : -1;
  if (file < 0)
    return NULL;
  struct mr_replay *r = calloc(1, sizeof *r);
  int rc = r != NULL ? mr_journal_open(&r->journal, file) : -ENOMEM;
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot map this node's journal: %s", strerror(-rc));
  for (uint16_t i = 0; i < mr_self.nodes; i++)
    r->known[i] = mr_checkpoints_again(mr_self.checkpoints, i);
  r->repeats = r->known[mr_self.me] > 0;
  return r;
}

bool mr_replay_repeats(const struct mr_replay *replay) {
  return replay->repeats || replay->unproved;
}

void mr_replay_close(struct mr_replay *replay) {
  mr_given_free(&replay->given);
  mr_outbox_destroy(replay->outbox);
  mr_journal_close(replay->journal);
  explicit_bzero(replay->job.secret, sizeof replay->job.secret);
  free(replay);
}

/* Its lowest byte is 0, as libc's: it ends a string that runs into it. */
uint64_t mr_replay_guard_word(const struct mr_replay *replay) {
  static const char purpose[] = "stack protector";
  struct mr_hmac hmac;
  union {
    uint8_t sum[MR_HMAC];
    uint64_t word;
  } drawn;
  mr_hmac_begin(&hmac, replay->job.secret, sizeof replay->job.secret);
  mr_hmac_add(&hmac, purpose, sizeof purpose);
  mr_hmac_add(&hmac, &mr_self.me, sizeof mr_self.me);
  mr_hmac_end(&hmac, drawn.sum);
  return drawn.word & ~UINT64_C(0xff);
}

/* ---- the journal ---------------------------------------------------------------------- */

/* One write: the program may have its stream locked, and wait for this thread. */
static void say_torn(void) {
  char line[192];
  int length = snprintf(line, sizeof line,
                        "maru: the journal of node %u is full before the next checkpoint: until "
                        "then all go back where it is lost (--journal, --ckpt-every)\n",
                        mr_self.me);
  (void)!write(STDERR_FILENO, line, (size_t)length);
}

/* Where a checkpoint has become whole since, the journal is as empty as that makes it in a moment.
 */
static void wish(const struct mr_replay *r) {
  if (mr_checkpoints_committed(mr_self.checkpoints) == r->forgot)
    mr_checkpoints_wish(mr_self.checkpoints, r->forgot);
}

static void add(struct mr_replay *r, enum mr_event_kind kind, uint16_t node, const void *bytes,
                size_t length) {
  size_t had = mr_journal_has(r->journal);
  bool added = mr_journal_add(r->journal, kind, node, bytes, length);
  size_t has = mr_journal_has(r->journal);
  mr_checkpoints_journaled(mr_self.checkpoints, has > had ? has - had : 0, has);
  if (!added && r->repeats)
    cannot("this node's journal", "it is too small for what came meanwhile (--journal)");
  if (has > mr_journal_capacity(r->journal) / 2 || !added)
    wish(r);
  if (!added && !r->said)
    say_torn();
  r->said |= !added;
}

/* A cut's bytes. */
struct cut {
  uint64_t number;
  struct mr_journal_sent sent;
  struct mr_outbox_counts counts[MR_JOB_NODES_MAX];
};

static void add_cut(struct mr_replay *r, uint32_t number) {
  static struct cut cut; /* for a handler's stack it is too large; under the node's lock */
  cut = (struct cut){.number = number, .sent = r->sent};
  for (uint16_t i = 0; i < mr_self.nodes; i++)
    cut.counts[i] = mr_outbox_counts(r->outbox, i);
  uint64_t end = mr_journal_end(r->journal);
  add(r, MR_EVENT_CUT, mr_self.me, &cut,
      offsetof(struct cut, counts) + mr_self.nodes * sizeof *cut.counts);
  r->noted = number;
  r->noted_at = end;
  r->said = false;
}

/* A process that goes on from there counts from there. */
static void renew(struct mr_replay *r) {
  int rc = mr_core_renew(mr_self.core);
  r->passes = 0;
  if (rc < 0)
    mr_node_die(STATUS_INTERNAL, "cannot begin a history anew at a checkpoint: %s", strerror(-rc));
}

/* All stood still there, so whatever happens now is after it: also where this node has not written
 * its image, and the checkpoint was given up. */
static void note(struct mr_replay *r, uint32_t cut) {
  if (cut <= r->noted)
    return;
  add_cut(r, cut);
  if (!r->repeats)
    renew(r);
}

static void note_cut(struct mr_replay *r) { note(r, mr_checkpoints_cut(mr_self.checkpoints)); }

void mr_replay_cut(struct mr_replay *replay) { note_cut(replay); }

/* Before its checkpoint is over this node is to write its image first. */
void mr_replay_counts(struct mr_replay *replay) {
  uint32_t cut = mr_checkpoints_cut(mr_self.checkpoints);
  if (mr_checkpoints_wanted(mr_self.checkpoints) != cut)
    note(replay, cut);
}

void mr_replay_committed(struct mr_replay *replay, uint32_t number) {
  pthread_mutex_lock(&mr_self.lock);
  if (replay->noted == number)
    replay->noted_at = mr_journal_trim(replay->journal, replay->noted_at);
  replay->forgot = number;
  pthread_mutex_unlock(&mr_self.lock);
}

/* ---- doing it again --------------------------------------------------------------------- */

static void core_hears(uint16_t from, const void *message, size_t length) {
  int rc = mr_core_message(mr_self.core, from, message, length);
  if (rc < 0 && rc != -ESTALE)
    mr_node_die(STATUS_INTERNAL, "node %u sent what is no message of this protocol", from);
}

/* Without going on. */
static bool next_event(const struct mr_replay *r, struct mr_event *event) {
  uint64_t at = r->at;
  return mr_journal_read(r->journal, &at, event);
}

static void skip(struct mr_replay *r) {
  struct mr_event event;
  mr_journal_read(r->journal, &r->at, &event);
}

/* From here on what happens is new. The launcher hears of it when nothing is left to be compared.
 */
static void is_live(struct mr_replay *r) {
  if (r->sent.count < r->was.count)
    cannot("the program", "it sends less than it did");
  r->unproved = r->given.count > 0;
  r->repeats = false;
  note_cut(r);
  /* Of the answers to one of its own, one was kept. */
  mr_core_look_over(mr_self.core);
  if (r->look.length > 0)
    core_hears(r->look.from, r->look.bytes, r->look.length);
  if (!r->unproved)
    mr_checkpoints_started(mr_self.checkpoints);
}

static void renew_clocks(struct mr_replay *r, uint32_t cut) {
  if (cut <= r->clocks_cut)
    return;
  memset(r->clocks, 0, sizeof r->clocks);
  r->clocks_cut = cut;
}

static uint32_t cut_of(const struct mr_event *event) {
  uint64_t number;
  if (event->length < sizeof number)
    cannot("this node's journal", "it is damaged");
  memcpy(&number, event->bytes, sizeof number);
  return (uint32_t)number;
}

static void happens(struct mr_replay *r, const struct mr_event *event) {
  skip(r);
  if (event->kind == MR_EVENT_CUT) {
    renew(r);
    renew_clocks(r, cut_of(event));
  } else if (event->kind == MR_EVENT_CLEANED)
    mr_core_clean(mr_self.core);
  else if (event->kind == MR_EVENT_TOLD)
    core_hears(event->node, event->bytes, event->length);
  else
    cannot("the program", "it does not write a page that it wrote");
}

/* What happened until the program's next request; false: there is none, and that was all. */
static bool come_to_request(struct mr_replay *r, struct mr_event *event) {
  while (next_event(r, event)) {
    if (event->kind == MR_EVENT_ASKED)
      return true;
    happens(r, event);
  }
  is_live(r);
  return false;
}

/* The program runs on. What happened while it did, up to its next request, happens before. */
static void run_on(struct mr_replay *r) {
  struct mr_event event;
  if (r->repeats)
    come_to_request(r, &event);
}

void mr_replay_cleans(struct mr_replay *replay) {
  note_cut(replay);
  add(replay, MR_EVENT_CLEANED, mr_self.me, NULL, 0);
}

void mr_replay_goes_on(struct mr_replay *replay, const bool *done) {
  struct mr_event event;
  replay->waits = true;
  while (replay->repeats && !*done) {
    if (!next_event(replay, &event)) {
      is_live(replay);
      break;
    }
    if (event.kind == MR_EVENT_ASKED)
      cannot("the program", "it waits where it did not");
    happens(replay, &event);
  }
  replay->waits = false;
  run_on(replay);
}

/* ---- pages that are given while they are written ------------------------------------------- */

/* What was given, and is again. */
static const void *gives_again(struct mr_replay *r, const uint8_t *memory,
                               const struct gave *gave) {
  if (r->waits && memcmp(memory, gave->bytes, MR_PAGE) != 0)
    cannot("the program", "it writes something else than it did");
  if (!r->waits && mr_given_add(&r->given, memory, gave->bytes) < 0)
    cannot("the program", "no memory to compare what it writes");
  return gave->bytes;
}

/* Where nothing says what was given, the lost process was killed before that, and has not answered;
 * or it repeated then, as this does, and gave what was there at the same place. */
const void *mr_replay_gives(struct mr_replay *replay, uint32_t page, const void *memory) {
  struct mr_event event;
  struct gave *gave = &replay->gave;
  if (replay->repeats && next_event(replay, &event) && event.kind == MR_EVENT_GAVE) {
    const struct gave *was = event.bytes;
    if (event.length != sizeof *was || was->page != page)
      cannot("the program", "it writes another page than it did");
    skip(replay);
    return gives_again(replay, memory, was);
  }
  if (replay->repeats)
    return memory;
  gave->page = page;
  memcpy(gave->bytes, memory, MR_PAGE);
  add(replay, MR_EVENT_GAVE, mr_self.me, gave, sizeof *gave);
  return gave->bytes;
}

/* At the end of a stretch. */
static void prove(struct mr_replay *r) {
  if (!mr_given_hold(&r->given))
    cannot("the program", "it may write something else than it did");
  if (!r->unproved)
    return;
  r->unproved = false;
  mr_checkpoints_started(mr_self.checkpoints);
}

/* ---- requests ------------------------------------------------------------------------------ */

static bool is_same(const struct mr_asked *one, const struct mr_asked *other) {
  return one->call == other->call && one->what == other->what && one->one == other->one &&
         one->two == other->two;
}

/* The event is that request's. */
static struct request request_of(const struct mr_event *event) {
  struct request request = {.sum = 0};
  if (event->length != sizeof request)
    cannot("this node's journal", "it is damaged");
  memcpy(&request, event->bytes, sizeof request);
  return request;
}

static void compare(const struct mr_replay *r, const struct request *was,
                    const struct mr_asked *asked) {
  if (!is_same(&was->asked, asked))
    cannot("the program", "it asks for something else than it did");
  if (was->sum != r->sent.sum)
    cannot("the program", "it writes something else than it did");
}

void mr_replay_asks(struct mr_replay *replay, const struct mr_asked *asked) {
  struct mr_event event;
  prove(replay);
  if (replay->repeats && come_to_request(replay, &event)) {
    const struct request was = request_of(&event);
    compare(replay, &was, asked);
    skip(replay);
  } else {
    const struct request request = {*asked, replay->sent.sum, replay->passes};
    note_cut(replay);
    add(replay, MR_EVENT_ASKED, mr_self.me, &request, sizeof request);
  }
  if (asked->call != MR_CALL_STOP)
    replay->passes = 0;
}

/* A program that comes here by the clock comes more or less often than it did: before its next
 * request it stops all the same. */
bool mr_replay_stops(struct mr_replay *replay, bool asks) {
  struct mr_event event;
  bool again = replay->repeats && come_to_request(replay, &event);
  if (!replay->repeats)
    note_cut(replay);
  replay->passes += !replay->stopped;
  replay->stopped = false;
  if (!again)
    return false;
  const struct request was = request_of(&event);
  replay->stopped = was.asked.call == MR_CALL_STOP && (asks || replay->passes >= was.pass);
  return replay->stopped;
}

/* ---- clocks -------------------------------------------------------------------------------- */

static int64_t sees(struct clock *clock, int64_t saw) {
  *clock = (struct clock){.known = true, .saw = saw};
  return saw;
}

static int64_t sees_again(struct clock *clock) {
  if (!clock->known)
    cannot("the program", "it looks at a clock where it did not");
  clock->times++;
  return clock->saw;
}

static int64_t look_at(struct mr_replay *r, int number, int64_t now) {
  struct clock *clock = &r->clocks[number];
  struct mr_event event;
  if (r->repeats && come_to_request(r, &event)) {
    const struct request was = request_of(&event);
    if (was.asked.call != MR_CALL_CLOCK || was.asked.what != (uint32_t)number ||
        was.asked.two != (int64_t)clock->times)
      return sees_again(clock);
    prove(r);
    skip(r);
    run_on(r);
    return sees(clock, was.asked.one);
  }
  note_cut(r);
  renew_clocks(r, r->noted);
  const struct request request = {
      {MR_CALL_CLOCK, (uint32_t)number, now, (int64_t)clock->times}, r->sent.sum, r->passes};
  add(r, MR_EVENT_ASKED, mr_self.me, &request, sizeof request);
  return sees(clock, now);
}

/* The first look after a cut is new, whoever noted that. */
static bool is_renewed(const struct mr_replay *r) {
  return r->noted > r->clocks_cut || mr_checkpoints_cut(mr_self.checkpoints) > r->clocks_cut;
}

int64_t mr_replay_clock(struct mr_replay *replay, int number, int64_t now) {
  if (number < 0 || number >= CLOCKS)
    return now;
  struct clock *clock = &replay->clocks[number];
  if (!replay->repeats && !is_renewed(replay) && clock->known && now >= clock->saw &&
      now - clock->saw < CLOCK_STEP_NS)
    return sees_again(clock);
  pthread_mutex_lock(&mr_self.lock);
  now = look_at(replay, number, now);
  pthread_mutex_unlock(&mr_self.lock);
  return now;
}

/* ---- messages -------------------------------------------------------------------------------- */

int mr_replay_sends(struct mr_replay *replay, uint16_t to, const void *message, size_t length) {
  if (mr_core_is_look(message, length))
    return mr_outbox_send_once(replay->outbox, to, message, length);
  replay->sent.sum = mr_message_sum(replay->sent.sum, to, message, length);
  replay->sent.count++;
  /* Others may have heard all that the lost process had sent, to the last. */
  if (replay->sent.count == replay->was.count && replay->sent.sum != replay->was.sum)
    cannot("the program", "it sends something else than it did");
  if (replay->sent.count > replay->was.count)
    mr_journal_sends(replay->journal, replay->sent);
  return mr_outbox_send(replay->outbox, to, replay->noted, message, length);
}

static void hears_look(struct mr_replay *r, uint16_t from, const void *message, size_t length) {
  if (!r->repeats) {
    mr_replay_counts(r);
    core_hears(from, message, length);
    return;
  }
  if (length > sizeof r->look.bytes)
    return;
  r->look.from = from;
  r->look.length = length;
  memcpy(r->look.bytes, message, length);
}

/* The launcher's word of a cut may come later than a message from behind it: of another host. */
static void hears_message(struct mr_replay *r, uint16_t from,
                          const struct mr_outbox_message *message) {
  note_cut(r);
  note(r, message->mark);
  add(r, MR_EVENT_TOLD, from, message->bytes, message->length);
  if (!r->repeats)
    core_hears(from, message->bytes, message->length);
}

void mr_replay_hears(struct mr_replay *replay, uint16_t from, const void *bytes, size_t length) {
  struct mr_outbox_message message;
  int rc = mr_outbox_hear(replay->outbox, from, bytes, length, &message);
  /* One that began since it was lost has not reached it. */
  if (rc >= 0 && message.greets)
    mr_core_look_over(mr_self.core);
  if (rc >= 0 && message.counts) {
    hears_message(replay, from, &message);
    rc = mr_outbox_kept(replay->outbox, from, length);
  } else if (rc >= 0 && message.length > 0) {
    hears_look(replay, from, message.bytes, message.length);
  }
  if (rc < 0)
    mr_node_die(STATUS_INTERNAL, "what node %u sent: %s", from,
                rc == -EBADMSG ? "it is not what comes next" : strerror(-rc));
}

/* ---- another process in a place ------------------------------------------------------------ */

static int post(void *context, uint16_t to, const void *bytes, size_t length) {
  (void)context;
  return mr_transport_send(mr_self.transport, to, bytes, length);
}

static void greet(struct mr_replay *r, uint16_t node) {
  int rc = mr_outbox_greet(r->outbox, node);
  if (rc < 0)
    mr_node_die(STATUS_INTERNAL, "cannot greet node %u: %s", node, strerror(-rc));
}

static void own_link(uint16_t node) {
  int fds[MR_LINK_FDS];
  for (unsigned i = mr_transport_link_descriptors(mr_self.transport, node, fds); i > 0; i--)
    mr_self.part->owns(fds[i - 1]);
}

/* A process that is silent may be there still, and nobody will take its place. */
bool mr_replay_lost(struct mr_replay *replay, uint16_t node) {
  char why[256];
  uint32_t again = mr_transport_was_silent(mr_self.transport, node)
                       ? 0
                       : mr_checkpoints_await_again(mr_self.checkpoints, node, replay->known[node],
                                                    JOIN_SECONDS, &replay->addresses[node]);
  if (again == 0)
    return false;
  mr_core_look_over(mr_self.core);
  mr_outbox_part(replay->outbox, node);
  replay->known[node] = again;
  replay->job.lost = node;
  int rc = mr_transport_rejoin(mr_self.transport, &replay->job, JOIN_SECONDS, why, sizeof why);
  if (rc < 0)
    mr_node_die(STATUS_LOST, "cannot meet node %u, which was started again: %s", node,
                *why != 0 ? why : strerror(-rc));
  own_link(node);
  greet(replay, node);
  return true;
}

/* The event of that cut; where it is, and the place behind it in `r->at`. */
static bool find_event(struct mr_replay *r, uint32_t number, struct mr_event *event,
                       uint64_t *place) {
  *place = r->at = mr_journal_begin(r->journal);
  for (; mr_journal_read(r->journal, &r->at, event); *place = r->at)
    if (event->kind == MR_EVENT_CUT && event->length <= sizeof(struct cut) &&
        cut_of(event) == number)
      return true;
  return false;
}

/* The place behind the cut that this process goes on from; what was sent and kept before it. What
 * the lost process had not forgotten by then is. */
static bool find_cut(struct mr_replay *r, uint32_t number, struct cut *cut) {
  struct mr_event event;
  uint64_t place;
  r->at = mr_journal_begin(r->journal);
  *cut = (struct cut){.number = number};
  if (number == 0)
    return r->at == 0;
  if (!find_event(r, number, &event, &place))
    return false;
  mr_journal_trim(r->journal, place);
  if (!find_event(r, number, &event, &place))
    return false;
  memcpy(cut, event.bytes, event.length);
  return true;
}

/* What the journal has since; whether a request of the program's is among it. */
static bool count_events(struct mr_replay *r, struct cut *cut) {
  struct mr_event event;
  bool asked = false;
  r->noted = r->clocks_cut = (uint32_t)cut->number;
  r->noted_at = r->at;
  uint64_t place = r->at;
  for (uint64_t at = r->at; mr_journal_read(r->journal, &at, &event); place = at) {
    asked |= event.kind == MR_EVENT_ASKED;
    if (event.kind == MR_EVENT_TOLD && event.node < mr_self.nodes)
      cut->counts[event.node].kept++;
    if (event.kind != MR_EVENT_CUT)
      continue;
    r->noted = cut_of(&event);
    r->noted_at = place;
  }
  return asked;
}

static void begin_again(struct mr_replay *r, uint32_t number) {
  static struct cut cut;
  if (mr_journal_torn(r->journal) || !find_cut(r, number, &cut))
    cannot("this node's journal", "it does not reach back to the checkpoint");
  bool asked = count_events(r, &cut);
  r->sent = cut.sent;
  r->was = mr_journal_sent(r->journal);
  for (uint16_t i = 0; i < mr_self.nodes; i++) {
    if (i == mr_self.me)
      continue;
    mr_outbox_resume(r->outbox, i, cut.counts[i]);
    mr_outbox_part(r->outbox, i);
    greet(r, i);
  }
  if (!asked)
    run_on(r);
}

void mr_replay_begin(struct mr_replay *replay, const struct mr_job *job) {
  uint32_t number = mr_checkpoints_restore(mr_self.checkpoints);
  int rc = mr_outbox_create(&replay->outbox, mr_self.nodes, post, NULL);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "no memory to keep messages");
  replay->job = *job;
  explicit_bzero(mr_self.job.job.secret, sizeof mr_self.job.job.secret);
  memcpy(replay->addresses, job->addresses, mr_self.nodes * sizeof *job->addresses);
  replay->job.addresses = replay->addresses;
  replay->job.listener = -1;
  replay->job.share = NULL;
  replay->forgot = mr_checkpoints_committed(mr_self.checkpoints);
  if (replay->repeats) {
    begin_again(replay, number);
    return;
  }
  mr_journal_clear(replay->journal);
  if (number != 0)
    add_cut(replay, number);
}
