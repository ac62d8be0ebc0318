#define _GNU_SOURCE
#include "mirror.h"

#include "../diff.h"
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TICK_MS 1
#define LOOKS_MS 50     /* for nodes that have not joined yet, and for journals that fill */
#define IDLE_MS 1000    /* for what `maru top` shows */
#define PUT_PAGES 4096u /* else the stand would change, and be sent, in each tick */
#define PAGES 2         /* which of a node's files: 0 and 1 are those of its images */
#define PIECE_PAGES 15u

/* What the launcher says to all nodes. */
struct words {
  uint32_t epoch, restore, committed, wave, cut, wanted, over;
};

/* What a node says. */
struct stand {
  uint32_t started, ends, wave, rests, done, wishes;
  int32_t failed;
  uint32_t misses;
  uint64_t sent, received, stretch_ns, bytes, changed, journaled, journal_most;
  uint64_t put;  /* of its image, in steps of PUT_PAGES: enough to see that it grows */
  uint64_t read; /* node 0: so many bytes of what it was given since it was started */
  char why[MR_CHECKPOINT_WHY];
};
_Static_assert(sizeof(struct stand) == 8 * 4 + 9 * 8 + MR_CHECKPOINT_WHY, "it is compared");

/* Part of a file. */
struct piece {
  uint64_t at;
  uint8_t bytes[PIECE_PAGES * MR_PAGE];
};
_Static_assert(sizeof(struct piece) < MR_FRAME_MAX, "a frame holds it");

/* ---- images on their way ----------------------------------------------------------------- */

static int file_of(const struct mr_checkpoint_line *line, int which) {
  return which == PAGES ? line->pages : line->files[which];
}

static int send_piece(struct job *job, int to, unsigned node, int which, int file, uint64_t at,
                      size_t length) {
  static struct piece piece;
  piece.at = at;
  ssize_t n = mr_slots_read_at(file, piece.bytes, length, at);
  if (n != (ssize_t)length)
    return n < 0 ? (int)n : -EIO;
  mr_frame_send(job, to, FRAME_IMAGE, node, which, &piece, sizeof piece.at + length);
  return 0;
}

/* The file ends after `length`. */
static int send_file(struct job *job, int to, unsigned node, int which, size_t length) {
  int file = file_of(&job->keep->page->lines[node], which), rc = 0;
  const uint64_t end = length;
  for (size_t at = 0, size; at < length && rc == 0; at += size) {
    size = length - at < PIECE_PAGES * MR_PAGE ? length - at : PIECE_PAGES * MR_PAGE;
    rc = send_piece(job, to, node, which, file, at, size);
  }
  if (rc == 0)
    mr_frame_send(job, to, FRAME_IMAGE, node, which, &end, sizeof end);
  return rc;
}

static int send_pages(struct job *job, int to, unsigned node, const struct mr_slots *slots) {
  int file = job->keep->page->lines[node].pages, rc = 0;
  for (size_t i = 0, count; i < slots->count && rc == 0; i += count) {
    count = mr_slots_row(slots, i, PIECE_PAGES);
    rc =
        send_piece(job, to, node, PAGES, file, (uint64_t)slots->each[i] * MR_PAGE, count * MR_PAGE);
  }
  return rc;
}

/* Leaves those of `slots` that `was` has not. */
static int leave_new(struct mr_slots *slots, const struct mr_slots *was) {
  size_t room = 0, left = 0;
  for (size_t i = 0; i < was->count; i++)
    room = was->each[i] >= room ? (size_t)was->each[i] + 1 : room;
  bool *had = calloc(room + 1, sizeof *had);
  if (had == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < was->count; i++)
    had[was->each[i]] = true;
  for (size_t i = 0; i < slots->count; i++)
    if (slots->each[i] >= room || !had[slots->each[i]])
      slots->each[left++] = slots->each[i];
  slots->count = left;
  free(had);
  return 0;
}

/* Its image of checkpoint `number`, with its pages but for those of checkpoint `had`; 0: all. */
static int send_image(struct job *job, int to, unsigned node, uint32_t number, uint32_t had) {
  const struct mr_checkpoint_line *line = &job->keep->page->lines[node];
  struct mr_slots slots, was = {.each = NULL};
  int rc = mr_slots_open(line->files[number % 2], &slots);
  if (rc == 0 && had != 0)
    rc = mr_slots_open(line->files[had % 2], &was);
  if (rc == 0)
    rc = leave_new(&slots, &was);
  if (rc == 0)
    rc = send_pages(job, to, node, &slots);
  if (rc == 0)
    rc = send_file(job, to, node, (int)(number % 2), slots.length);
  free(slots.each);
  free(was.each);
  return rc;
}

static int take_piece(const struct keep *keep, const struct mr_frame *frame, const char *body) {
  uint64_t at;
  if (frame->length < sizeof at || frame->value < 0 || frame->value > PAGES ||
      frame->node >= keep->page->nodes)
    return -EBADMSG;
  memcpy(&at, body, sizeof at);
  int file = file_of(&keep->page->lines[frame->node], frame->value);
  size_t length = frame->length - sizeof at;
  if (length == 0)
    return ftruncate(file, (off_t)at) < 0 ? -errno : 0;
  return mr_write_at(file, body + sizeof at, length, at);
}

/* ---- the launcher -------------------------------------------------------------------------- */

static struct words words_of(const struct mr_checkpoint_page *page) {
  return (struct words){.epoch = page->epoch,
                        .restore = page->restore,
                        .committed = load(&page->committed),
                        .wave = load(&page->wave),
                        .cut = load(&page->cut),
                        .wanted = load(&page->wanted),
                        .over = load(&page->over)};
}

size_t mr_mirror_words(const struct keep *keep, const void **words) {
  static struct words told;
  struct words now = words_of(keep->page);
  bool same = memcmp(&now, &told, sizeof now) == 0;
  told = now;
  *words = &told;
  return same ? 0 : sizeof told;
}

void mr_mirror_restore(struct job *job, int to, unsigned first, unsigned here) {
  const struct keep *keep = job->keep;
  const struct words words = words_of(keep->page);
  uint32_t number = words.restore;
  int rc = 0;
  for (unsigned node = 0; number != 0 && node < job->nodes && rc == 0; node++) {
    struct mr_slots slots;
    bool there = node - first < here; /* others' pages are for them alone */
    rc = mr_slots_open(keep->page->lines[node].files[number % 2], &slots);
    if (rc == 0)
      rc = there ? send_image(job, to, node, number, 0)
                 : send_file(job, to, node, (int)(number % 2), slots.length);
    free(slots.each);
    const struct keep_begun *begun = &keep->begun_lines[node];
    mr_frame_send(job, to, FRAME_BEGUN, node, 0, begun->line, begun->length);
  }
  if (rc < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot read a checkpoint's images", strerror(-rc));
  mr_frame_send(job, to, FRAME_WORDS, first, 0, &words, sizeof words);
}

/* What became of an image: it was not written, could not be sent, or could not be taken. */
static void hear_done(struct keep *keep, unsigned node, const struct stand *stand) {
  struct mr_checkpoint_line *line = &keep->page->lines[node];
  int32_t unkept = keep->unkept[node];
  line->failed = stand->failed != 0 ? stand->failed : unkept;
  if (stand->failed != 0)
    snprintf(line->why, sizeof line->why, "%.*s", (int)sizeof line->why - 1, stand->why);
  else
    snprintf(line->why, sizeof line->why, "the launcher cannot keep its image: %s",
             strerror(-unkept));
  keep->unkept[node] = 0;
}

static void hear_stand(struct job *job, unsigned node, const char *body) {
  struct keep *keep = job->keep;
  struct mr_checkpoint_line *line = &keep->page->lines[node];
  struct stand stand;
  memcpy(&stand, body, sizeof stand);
  line->bytes = stand.bytes;
  line->changed = stand.changed;
  /* Relaxed: no other thread reads this page. */
  atomic_store_explicit(&line->stretch_ns, stand.stretch_ns, memory_order_relaxed);
  atomic_store_explicit(&line->journaled, stand.journaled, memory_order_relaxed);
  atomic_store_explicit(&line->journal_most, stand.journal_most, memory_order_relaxed);
  atomic_store_explicit(&line->rests, stand.rests, memory_order_relaxed);
  atomic_store_explicit(&line->put, stand.put * PUT_PAGES, memory_order_relaxed);
  atomic_store_explicit(&line->sent, stand.sent, memory_order_relaxed);
  atomic_store_explicit(&line->received, stand.received, memory_order_relaxed);
  if (node == 0)
    keep->input_taken = stand.read;
  if (stand.done != load(&line->done))
    hear_done(keep, node, &stand);
  store(&line->started, stand.started);
  store(&line->ends, stand.ends);
  store(&line->wishes, stand.wishes);
  store(&line->misses, stand.misses);
  store(&line->wave, stand.wave);
  store(&line->done, stand.done);
}

/* Where note_lines looks for it. */
static void hear_begun(struct job *job, unsigned node, const char *body, size_t length) {
  struct stream *stream = &job->node[node].streams[0];
  if (stream->line == NULL)
    stream->line = malloc(MR_LAUNCH_LINE);
  if (stream->line == NULL || length > MR_LAUNCH_LINE) {
    job->keep->unkept[node] = -ENOMEM;
    return;
  }
  memcpy(stream->line, body, length);
  stream->length = length;
}

bool mr_mirror_hear(struct job *job, const struct mr_frame *frame, const char *body) {
  if (job->keep == NULL)
    return false;
  if (frame->kind == FRAME_STAND && frame->length == sizeof(struct stand)) {
    hear_stand(job, frame->node, body);
  } else if (frame->kind == FRAME_IMAGE) {
    int rc = take_piece(job->keep, frame, body);
    job->keep->unkept[frame->node] = rc < 0 ? rc : job->keep->unkept[frame->node];
  } else if (frame->kind == FRAME_BEGUN) {
    hear_begun(job, frame->node, body, frame->length);
  } else {
    return false;
  }
  return true;
}

/* ---- an agent -------------------------------------------------------------------------------- */

static struct stand told[MR_LAUNCH_NODES];

/* What the node said before the cut goes first. */
static int ship(struct job *job, unsigned i, uint32_t number) {
  const struct stream *stream = &job->node[i].streams[0];
  job->drain(job);
  mr_frame_send(job, 1, FRAME_BEGUN, job->first + i, 0, stream->line, stream->length);
  return send_image(job, 1, job->first + i, number, load(&job->keep->page->committed));
}

/* What is in its pipe, or waits for room there, it has not read. */
static uint64_t read_by_node_0(const struct job *job) {
  const struct keep *keep = job->keep;
  int in_pipe = 0;
  if (keep->input_pipe >= 0)
    ioctl(keep->input_pipe, FIONREAD, &in_pipe);
  return keep->input_here - (uint64_t)in_pipe - job->input.length;
}

static struct stand stand_of(const struct job *job, unsigned node) {
  const struct mr_checkpoint_line *line = &job->keep->page->lines[node];
  struct stand now = {.done = load(&line->done), .wave = load(&line->wave)};
  /* Relaxed: what belongs to these two was written before them. */
  now.rests = atomic_load_explicit(&line->rests, memory_order_relaxed);
  now.sent = atomic_load_explicit(&line->sent, memory_order_relaxed);
  now.received = atomic_load_explicit(&line->received, memory_order_relaxed);
  now.stretch_ns = atomic_load_explicit(&line->stretch_ns, memory_order_relaxed);
  now.journaled = atomic_load_explicit(&line->journaled, memory_order_relaxed);
  now.journal_most = atomic_load_explicit(&line->journal_most, memory_order_relaxed);
  now.put = atomic_load_explicit(&line->put, memory_order_relaxed) / PUT_PAGES;
  now.started = load(&line->started);
  now.ends = load(&line->ends);
  now.wishes = load(&line->wishes);
  now.misses = load(&line->misses);
  now.read = node == 0 ? read_by_node_0(job) : 0;
  if (now.done != 0) {
    now.failed = line->failed;
    now.bytes = line->bytes;
    now.changed = line->changed;
    snprintf(now.why, sizeof now.why, "%.*s", (int)sizeof now.why - 1, line->why);
  }
  return now;
}

static void tell_stand(struct job *job, unsigned i) {
  struct stand now = stand_of(job, job->first + i);
  /* Until the next image is done, what this one's fate was is the launcher's to say. */
  if (now.done == told[i].done) {
    now.failed = told[i].failed;
    memcpy(now.why, told[i].why, sizeof now.why);
  } else if (now.failed == 0) {
    now.failed = ship(job, i, now.done);
    if (now.failed < 0)
      snprintf(now.why, sizeof now.why, "cannot send its image: %s", strerror(-now.failed));
  }
  if (memcmp(&now, &told[i], sizeof now) == 0)
    return;
  told[i] = now;
  mr_frame_send(job, 1, FRAME_STAND, job->first + i, 0, &now, sizeof now);
}

static int agent_step(struct job *job) {
  const struct mr_checkpoint_page *page = job->keep->page;
  bool idle = job->keep->journal == 0; /* no node can wake us when its journal fills */
  for (unsigned i = 0; i < job->here; i++) {
    tell_stand(job, i);
    idle &= told[i].started == page->epoch;
  }
  return load(&page->wanted) != load(&page->over) ? TICK_MS : idle ? IDLE_MS : LOOKS_MS;
}

static size_t agent_begun(const struct job *job, unsigned i, char *line) {
  const struct keep_begun *begun = &job->keep->begun_lines[job->first + i];
  memcpy(line, begun->line, begun->length);
  return begun->length;
}

static void agent_reaped(struct job *job, pid_t pid, int status) {
  (void)job;
  (void)pid;
  (void)status;
}

static void agent_end(struct job *job) { (void)job; }

/* Losses and lines are the launcher's (job.c asks who started us first). */
void mr_mirror_begin(struct job *job, size_t journal) {
  static struct keep keep = {.dir = -1, .input_pipe = -1, .single = -1};
  static const struct keep_calls calls = {.step = agent_step,
                                          .pipe = mr_keep_pipe,
                                          .begun = agent_begun,
                                          .reaped = agent_reaped,
                                          .end = agent_end};
  keep.journal = journal;
  mr_keep_page(job, &keep);
  job->keep = &keep;
  job->keeps = &calls;
}

/* What it said of itself is not true any more. Others may wait for who takes its place. */
void mr_mirror_ended(struct job *job, unsigned number, int code) {
  struct mr_checkpoint_line *line = &job->keep->page->lines[number];
  if (code == 0)
    return;
  job->keep->starts = true;
  store(&line->started, 0);
  store(&line->done, 0);
  store(&line->misses, 0);
  told[number - job->first] = (struct stand){.read = 0};
}

static void clear_place(struct job *job, unsigned number) {
  unsigned i = number - job->first;
  if (i >= job->here || job->node[i].pid != 0)
    return;
  mr_launch_clear(job, i);
  if (number == 0)
    job->keep->input_here = 0;
  mr_frame_send(job, 1, FRAME_PLACE, number, job->node[i].port, "", 0);
}

/* The nodes here that lost it call it; or it is here. */
static void start_alone(struct job *job, const struct mr_frame *frame, const char *body) {
  struct mr_checkpoint_line *line = &job->keep->page->lines[frame->node];
  unsigned i = frame->node - job->first;
  memcpy(&line->address, body, sizeof line->address);
  store(&line->again, (uint32_t)frame->value);
  if (i < job->here && job->node[i].pid == 0) {
    job->keep->starts = false;
    mr_launch_start_alone(job, i);
  }
  mr_checkpoint_ring(job->keep->page);
}

/* In the order in which a node looks at them: what a word is about comes before it. */
static void obey_words(struct mr_checkpoint_page *page, const char *body) {
  struct words words;
  memcpy(&words, body, sizeof words);
  page->epoch = words.epoch;
  page->restore = words.restore;
  store(&page->committed, words.committed);
  store(&page->cut, words.cut);
  store(&page->wanted, words.wanted);
  store(&page->wave, words.wave);
  store(&page->over, words.over);
  mr_checkpoint_ring(page);
}

bool mr_mirror_obey(struct job *job, const struct mr_frame *frame, const char *body) {
  struct keep *keep = job->keep;
  if (keep == NULL || frame->node >= job->nodes)
    return false;
  if (frame->kind == FRAME_WORDS && frame->length == sizeof(struct words)) {
    obey_words(keep->page, body);
  } else if (frame->kind == FRAME_IMAGE) {
    int rc = take_piece(keep, frame, body);
    if (rc < 0)
      mr_launch_fail(STATUS_MARU_FAILED, "agent: cannot take a checkpoint", strerror(-rc));
  } else if (frame->kind == FRAME_BEGUN && frame->length <= MR_LAUNCH_LINE) {
    memcpy(keep->begun_lines[frame->node].line, body, frame->length);
    keep->begun_lines[frame->node].length = frame->length;
  } else if (frame->kind == FRAME_ALONE && keep->journal != 0) {
    clear_place(job, frame->node);
  } else if (frame->kind == FRAME_AGAIN && keep->journal != 0 &&
             frame->length == sizeof(struct sockaddr_storage)) {
    start_alone(job, frame, body);
  } else {
    return false;
  }
  return true;
}

void mr_mirror_gave(struct job *job, size_t length) {
  if (job->keep != NULL)
    job->keep->input_here += length;
}
