#define _GNU_SOURCE
#include "keep.h"

#include "../journal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMED "MARU_DSM_CHECKPOINTS"
#define TICK_MS 1
#define LOOKS_MS 50       /* for nodes that have not joined yet */
#define SHOWN_MS 1000     /* what maru top shows is no older */
#define WAVES 20          /* at most so many while a checkpoint's time doubles */
#define GROWS_MS 1000     /* whether images grow is looked at so often */
#define GIVEN_UP_MS 60000 /* the others go on then */
#define REFUSED_MS 1000   /* the first time in a row */
#define HELD_MOST ((size_t)64 << 20)

/* ---- beginning ----------------------------------------------------------------------- */

bool mr_keep_asked(const struct keep_wish *wish) {
  return wish->every != NULL || wish->folder != NULL || wish->resume != NULL;
}

static int memory_file(const char *name, off_t size) {
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, size) < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "no memory for checkpoints", strerror(errno));
  return fd;
}

static int64_t read_every(const char *text) {
  char *end;
  double seconds = strtod(text, &end);
  if (end == text || *end != 0 || !(seconds >= 0.02 && seconds <= 86400))
    mr_launch_fail(STATUS_USAGE, "--ckpt-every is no number of seconds from 0.02 to 86400", text);
  return (int64_t)(seconds * 1000);
}

void mr_keep_page(struct job *job, struct keep *keep) {
  char path[64];
  keep->page_fd = memory_file("maru-checkpoints", sizeof *keep->page);
  keep->page = mmap(NULL, sizeof *keep->page, PROT_READ | PROT_WRITE, MAP_SHARED, keep->page_fd, 0);
  if (keep->page == MAP_FAILED)
    mr_launch_fail(STATUS_MARU_FAILED, "no memory for checkpoints", strerror(errno));
  keep->page->version = MR_CHECKPOINT_VERSION;
  keep->page->nodes = job->nodes;
  keep->page->epoch = 1;
  for (unsigned i = 0; i < job->nodes; i++) {
    for (int k = 0; k < 2; k++)
      keep->page->lines[i].files[k] = memory_file("maru-image", 0);
    keep->page->lines[i].pages = memory_file("maru-pages", 0);
    if (keep->journal != 0)
      keep->page->lines[i].journal =
          memory_file("maru-journal", (off_t)mr_journal_size(keep->journal));
    /* Now: a line that was begun must not be lost when memory is short. */
    keep->begun_lines[i].line = malloc(MR_LAUNCH_LINE);
    if (keep->begun_lines[i].line == NULL)
      mr_launch_fail(STATUS_MARU_FAILED, "no memory for checkpoints", strerror(ENOMEM));
  }
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), keep->page_fd);
  setenv(NAMED, path, 1);
}

/* ---- output ---------------------------------------------------------------------------- */

static void show_held(struct job *job) {
  struct keep *keep = job->keep;
  struct keep_piece piece;
  size_t shown = 0;
  for (size_t at = 0; at < keep->length; at += piece.length) {
    memcpy(&piece, keep->held + at, sizeof piece);
    at += sizeof piece;
    memmove(keep->held + shown, keep->held + at, piece.length);
    shown += piece.length;
  }
  if (shown > 0)
    mr_launch_show(job, STDOUT_FILENO, keep->held, shown);
  keep->length = 0;
}

static bool widen_held(struct keep *keep, size_t room) {
  char *wider = realloc(keep->held, room);
  if (wider == NULL)
    return false;
  keep->held = wider;
  keep->room = room;
  return true;
}

static bool keep_line(struct job *job, unsigned number, int to, const char *line, size_t length) {
  struct keep *keep = job->keep;
  const struct keep_piece piece = {number, (uint32_t)length};
  size_t more = sizeof piece + length;
  /* As ever while nodes are being ended: one of them may have ended by itself, and said why. */
  if (to != STDOUT_FILENO)
    return false;
  /* Nodes stood still at the checkpoint: it is what one had begun, and goes on with. */
  if (keep->moves && !job->ending)
    return true;
  if (keep->at_once)
    return false;
  if (keep->length + more > HELD_MOST) {
    fprintf(stderr,
            "maru: launch: more than %zu MiB of output since the last checkpoint: shown now; "
            "a node's loss would repeat it\n",
            HELD_MOST >> 20);
    show_held(job);
  }
  if (keep->length + more > keep->room && !widen_held(keep, 2 * (keep->length + more))) {
    /* What was held comes first, as it was written first. */
    fprintf(stderr, "maru: launch: no memory to hold output until the next checkpoint: shown now; "
                    "a node's loss would repeat it\n");
    show_held(job);
    return false;
  }
  memcpy(keep->held + keep->length, &piece, sizeof piece);
  memcpy(keep->held + keep->length + sizeof piece, line, length);
  keep->length += more;
  return true;
}

/* What has no end yet is not shown, and does not come again. */
static void note_lines(const struct job *job, struct keep *keep) {
  for (unsigned i = 0; i < job->nodes; i++) {
    struct keep_begun *begun = &keep->begun_lines[i];
    const struct stream *stream = &job->node[i].streams[0];
    begun->length = stream->length;
    if (begun->length > 0)
      memcpy(begun->line, stream->line, begun->length);
  }
}

static size_t keep_begun(const struct job *job, unsigned i, char *line) {
  const struct keep_begun *begun = &job->keep->begun_lines[i];
  memcpy(line, begun->line, begun->length);
  return begun->length;
}

/* ---- taking one ---------------------------------------------------------------------- */

/* Not in the place of the last whole one. */
static uint32_t next_number(const struct keep *keep) {
  uint32_t next = keep->number + 1;
  return keep->committed != 0 && (next - keep->committed) % 2 == 0 ? next + 1 : next;
}

static void begin(struct keep *keep) {
  keep->number = next_number(keep);
  keep->asked = keep->begun = mr_launch_now();
  keep->alike = keep->named = false;
  keep->state = KEEP_GATHERS;
  store(&keep->page->wanted, keep->number);
  store(&keep->page->wave, load(&keep->page->wave) + 1);
  mr_checkpoint_ring(keep->page);
}

/* Whether this wave says that all rest and nothing is on its way; and it is what the last said. */
static bool is_cut(const struct job *job, struct keep *keep) {
  uint64_t sent = 0, received = 0;
  bool rest = true, same = keep->alike;
  for (unsigned i = 0; i < job->nodes; i++) {
    struct mr_checkpoint_line *line = &keep->page->lines[i];
    /* Relaxed: the wave's number came first. */
    uint64_t now[2] = {atomic_load_explicit(&line->sent, memory_order_relaxed),
                       atomic_load_explicit(&line->received, memory_order_relaxed)};
    rest &= atomic_load_explicit(&line->rests, memory_order_relaxed) == 1;
    same &= memcmp(now, keep->traffic[i], sizeof now) == 0;
    memcpy(keep->traffic[i], now, sizeof now);
    sent += now[0];
    received += now[1];
  }
  keep->alike = rest && sent == received;
  return keep->alike && same;
}

static void name_busy(const struct job *job, struct keep *keep) {
  if (keep->named || mr_launch_now() - keep->begun < MR_KEEP_LONG_MS)
    return;
  keep->named = true;
  for (unsigned i = 0; i < job->nodes; i++)
    if (atomic_load_explicit(&keep->page->lines[i].rests, memory_order_relaxed) != 1)
      fprintf(stderr,
              "maru: launch: no checkpoint yet: node %u has not come to a lock, a barrier or "
              "the like for %d s\n",
              i, MR_KEEP_LONG_MS / 1000);
}

static void refuse(struct keep *keep, unsigned node, const char *why) {
  if (strncmp(keep->refused, why, sizeof keep->refused) != 0)
    fprintf(stderr, "maru: launch: no checkpoint: node %u: %s\n", node, why);
  snprintf(keep->refused, sizeof keep->refused, "%s", why);
  keep->moving = false;
  mr_keep_let_go(keep);
  /* The next one may be refused as well: where a journal is full they come ever more seldom, down
   * to as often as without that. */
  int64_t now = mr_launch_now(), pause = keep->pause != 0 ? keep->pause : REFUSED_MS;
  pause = pause < keep->every_ms ? pause : keep->every_ms;
  keep->rested = keep->rested > now + pause ? keep->rested : now + pause;
  keep->pause = 2 * pause;
}

/* One that still runs. */
static unsigned busy(const struct job *job, const struct keep *keep) {
  for (unsigned i = 0; i < job->nodes; i++)
    if (atomic_load_explicit(&keep->page->lines[i].rests, memory_order_relaxed) != 1)
      return i;
  return 0;
}

/* When to look again; 0: it took too long, and was given up. */
static int late(struct keep *keep, int64_t since, unsigned node, const char *why) {
  if (mr_launch_now() - since < GIVEN_UP_MS)
    return TICK_MS;
  refuse(keep, node, why);
  return 0;
}

/* Waves wake nodes that compute: the longer it takes, the fewer there are. */
static void next_wave(struct keep *keep, uint32_t wave) {
  int64_t now = mr_launch_now(), pause = (now - keep->begun) / WAVES;
  store(&keep->page->wave, wave + 1);
  keep->look_at = now + (pause < LOOKS_MS ? pause : LOOKS_MS);
}

static int gather(struct job *job, struct keep *keep) {
  uint32_t wave = load(&keep->page->wave);
  int64_t left = keep->look_at - mr_launch_now();
  if (left > 0)
    return (int)left;
  for (unsigned i = 0; i < job->nodes; i++)
    if (load(&keep->page->lines[i].ends) != 0) {
      keep->ended = true;
      keep->moving = false;
      mr_keep_let_go(keep);
      return -1;
    }
  for (unsigned i = 0; i < job->nodes; i++)
    if (load(&keep->page->lines[i].wave) != wave)
      return late(keep, keep->begun, i, "it does not answer");
  if (is_cut(job, keep)) {
    keep->state = KEEP_WRITES;
    keep->gathering_ms = mr_launch_now() - keep->begun;
    keep->begun = keep->grew = mr_launch_now();
    store(&keep->page->cut, keep->number);
  } else {
    name_busy(job, keep);
    if (late(keep, keep->begun, busy(job, keep),
             "it has not come to a lock, a barrier or the like for 60 s") == 0)
      return 0;
    next_wave(keep, wave);
  }
  mr_checkpoint_ring(keep->page);
  return TICK_MS;
}

/* For a node that moves. None goes on from the cut: they stand still there until they are ended, so
 * that nothing is done or shown twice. */
static void change_epoch(struct job *job, struct keep *keep) {
  keep->state = KEEP_IDLE;
  keep->moving = false;
  keep->moves = keep->recovering = true;
  job->signal(job, SIGKILL);
}

/* Another one, once more of the images is there.  What comes of those on other hosts is written to
 * the files, too. */
static uint64_t images_now(const struct keep *keep) {
  uint64_t all = 0;
  struct stat is;
  for (unsigned i = 0; i < keep->page->nodes; i++) {
    const struct mr_checkpoint_line *line = &keep->page->lines[i];
    const int files[] = {line->files[keep->number % 2], line->pages};
    /* Relaxed: a figure. */
    all += atomic_load_explicit(&line->put, memory_order_relaxed);
    for (int k = 0; k < 2; k++)
      if (fstat(files[k], &is) == 0)
        all += (uint64_t)is.st_mtim.tv_sec * 1000000000 + (uint64_t)is.st_mtim.tv_nsec;
  }
  return all;
}

/* When images grew last: large ones take as long as they take. */
static int64_t last_growth(struct keep *keep) {
  int64_t now = mr_launch_now();
  if (now - keep->looked < GROWS_MS)
    return keep->grew;
  uint64_t seen = images_now(keep);
  keep->grew = seen != keep->seen ? now : keep->grew;
  keep->seen = seen;
  keep->looked = now;
  return keep->grew;
}

static int finish(struct job *job, struct keep *keep) {
  char why[MR_CHECKPOINT_WHY];
  for (unsigned i = 0; i < job->nodes; i++)
    if (load(&keep->page->lines[i].done) != keep->number)
      return late(keep, last_growth(keep), i, "its image has not grown for 60 s");
  for (unsigned i = 0; i < job->nodes; i++)
    if (keep->page->lines[i].failed < 0) {
      snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, keep->page->lines[i].why);
      refuse(keep, i, why);
      return 0;
    }
  /* All that was said before the cut is in the pipes: nobody runs. */
  job->drain(job);
  keep->committed = keep->number;
  store(&keep->page->committed, keep->committed);
  keep->taken = mr_launch_now();
  keep->gathered_ms = keep->gathering_ms;
  keep->written_ms = keep->taken - keep->begun;
  keep->losses = 0;
  keep->refused[0] = 0;
  keep->pause = 0;
  mr_keep_note_input(job, keep);
  note_lines(job, keep);
  show_held(job);
  mr_folder_copy(job);
  keep->moving &= !keep->input_lost;
  if (keep->moving)
    change_epoch(job, keep);
  else
    mr_keep_let_go(keep);
  return 0;
}

/* A journal fills.  What was wished before the last checkpoint has come true. */
static bool is_wished(const struct keep *keep) {
  for (unsigned i = 0; i < keep->page->nodes && mr_launch_now() >= keep->rested; i++)
    if (load(&keep->page->lines[i].wishes) == keep->committed + 1)
      return true;
  return false;
}

/* Whether a node still does again what it did. */
static bool repeats(struct keep *keep) {
  if (keep->single < 0)
    return false;
  if (keep->starts || load(&keep->page->lines[keep->single].started) != keep->page->epoch)
    return true;
  keep->single = -1;
  keep->repeated++;
  return false;
}

static int step(struct job *job) {
  struct keep *keep = job->keep;
  if (keep->recovering || job->ending)
    return -1;
  if (repeats(keep))
    return LOOKS_MS;
  if (mr_keep_missed(job))
    return LOOKS_MS;
  /* A node that was not lost is no more. It may have left without a farewell: others miss it then.
   */
  keep->ended |= job->alive < job->nodes;
  keep->moving &= !keep->ended;
  if (keep->ended)
    return keep->journal != 0 ? LOOKS_MS : -1;
  int64_t left = keep->moving || is_wished(keep) ? 0 : keep->due - mr_launch_now();
  switch (keep->state) {
  case KEEP_GATHERS:
    return gather(job, keep);
  case KEEP_WRITES:
    return finish(job, keep);
  case KEEP_IDLE:
    break;
  }
  if (left < -MR_KEEP_LONG_MS)
    mr_folder_name_slow(job);
  /* No node can wake us when its journal fills. */
  if (left > 0 || keep->writer != 0)
    return left > LOOKS_MS && keep->journal == 0 ? (int)left : LOOKS_MS;
  if (!mr_keep_all_started(job, keep))
    return LOOKS_MS;
  begin(keep);
  return TICK_MS;
}

static int keep_step(struct job *job) {
  int again = step(job);
  mr_kept_show(job);
  mr_watcher_tell(job);
  return again > SHOWN_MS ? SHOWN_MS : again;
}

/* What was resumed has not gone on: that it has ended well is nothing to rely on. */
static void miss_program(struct job *job) {
  fprintf(stderr, "maru: launch: %s: the program is none of maru-cc's\n",
          job->keep->resumed ? "it did not go on from the checkpoint" : "no checkpoints");
  if (!job->keep->resumed)
    return;
  job->status = STATUS_DATA_ERROR;
  job->culprit = MR_LAUNCH_NODES;
}

static void keep_end(struct job *job) {
  struct keep *keep = job->keep;
  if (keep == NULL)
    return;
  show_held(job);
  if (load(&keep->page->lines[0].started) == 0 && job->status == 0)
    miss_program(job);
  mr_folder_await(job);
}

/* Disks may keep us waiting, and images may be large. */
static void open_folders(struct job *job, struct keep *keep, const struct keep_wish *wish) {
  mr_launch_let_signals_end(job);
  if (wish->resume != NULL) {
    keep->committed = keep->number = keep->written = mr_folder_read(keep, job->nodes, wish->resume);
    keep->page->restore = keep->committed;
    store(&keep->page->committed, keep->committed);
    store(&keep->page->over, keep->number);
    store(&keep->page->wanted, keep->number);
    mr_keep_skip_input(keep);
    keep->input_given = keep->input_read;
  }
  if (wish->folder != NULL)
    mr_folder_begin(keep, wish->folder);
  mr_launch_hold_signals(job);
}

void mr_keep_begin(struct job *job, const struct keep_wish *wish, bool several) {
  static struct keep keep;
  static const struct keep_calls calls = {.step = keep_step,
                                          .lost = mr_keep_lost,
                                          .gave = mr_keep_gave,
                                          .pipe = mr_keep_pipe,
                                          .feed = mr_keep_feed,
                                          .again = mr_keep_again,
                                          .alone = mr_keep_alone,
                                          .line = keep_line,
                                          .begun = keep_begun,
                                          .reaped = mr_folder_reaped,
                                          .end = keep_end};
  unsetenv(NAMED); /* of a job that this one is part of */
  if (!mr_keep_asked(wish))
    return;
  if (wish->output != NULL && strcmp(wish->output, "held") != 0 && strcmp(wish->output, "now") != 0)
    mr_launch_fail(STATUS_USAGE, "--output is 'held' or 'now'", wish->output);
  bool lost = wish->recover != NULL && strcmp(wish->recover, "lost") == 0;
  if (wish->recover != NULL && !lost && strcmp(wish->recover, "all") != 0)
    mr_launch_fail(STATUS_USAGE, "--recover is 'all' or 'lost'", wish->recover);
  int64_t mib = wish->journal_mib != 0 ? wish->journal_mib : MR_KEEP_JOURNAL_MIB;
  keep = (struct keep){.every_ms = read_every(wish->every != NULL ? wish->every : MR_KEEP_EVERY),
                       .dir = -1,
                       .single = -1,
                       .journal = lost ? (size_t)mib << 20 : 0,
                       .several = several,
                       .resumed = wish->resume != NULL,
                       .at_once = wish->output != NULL && strcmp(wish->output, "now") == 0};
  mr_keep_page(job, &keep);
  open_folders(job, &keep, wish);
  keep.input_pipe = -1;
  mr_keep_note_input(job, &keep);
  keep.due = keep.taken = mr_launch_now();
  /* The process of another node differs from the lost one in what the kernel draws for it, until it
   * has that from a checkpoint. */
  keep.due += keep.journal != 0 ? 0 : keep.every_ms;
  job->keep = &keep;
  job->keeps = &calls;
}
