#define _GNU_SOURCE
#include "keep.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOSSES_MOST 3u /* without a new checkpoint in between */
#define MISSED_MS 3000 /* from then on the node that is missed is there */

/* ---- what a loss needs to know of checkpoints ----------------------------------------------- */

/* The next one leaves the program as much time as this one took: where others have the processors
 * it would stand still all the time else. */
void mr_keep_let_go(struct keep *keep) {
  int64_t now = mr_launch_now(), took = now - keep->asked;
  store(&keep->page->over, keep->number);
  mr_checkpoint_ring(keep->page);
  keep->state = KEEP_IDLE;
  keep->due = now + (took > keep->every_ms ? took : keep->every_ms);
  keep->rested = now + took;
}

bool mr_keep_all_started(const struct job *job, const struct keep *keep) {
  for (unsigned i = 0; i < job->nodes; i++)
    if (load(&keep->page->lines[i].started) != keep->page->epoch)
      return false;
  return true;
}

/* ---- what the lost one had said ------------------------------------------------------------ */

/* That node writes them again. */
static void forget_lines(struct keep *keep, unsigned number) {
  struct keep_piece piece;
  size_t kept = 0;
  for (size_t at = 0, length; at < keep->length; at += length) {
    memcpy(&piece, keep->held + at, sizeof piece);
    length = sizeof piece + piece.length;
    if (piece.node == number)
      continue;
    memmove(keep->held + kept, keep->held + at, length);
    kept += length;
  }
  keep->length = kept;
}

/* ---- which nodes go back ------------------------------------------------------------------- */

static bool is_fault(int signal) {
  static const int faults[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGTRAP, SIGSYS};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    if (faults[i] == signal)
      return true;
  return false;
}

/* What a program does to itself it would do again: a fault, or a status of its own. */
static bool is_own(int code) {
  return mr_launch_is_signal(code) ? is_fault(code - 128) : code != 0 && code != STATUS_LOST;
}

/* Whether that node alone is to repeat: the others are all there, and none has said that it ends. A
 * node that ended by itself had lost another, or cannot be repeated. */
static bool goes_alone(const struct job *job, const struct keep *keep, int code) {
  if (keep->journal == 0 || keep->single >= 0 || code == STATUS_LOST || keep->moves ||
      job->alive + 1 != job->nodes || !mr_keep_all_started(job, keep))
    return false;
  for (unsigned i = 0; i < job->nodes; i++)
    if (load(&keep->page->lines[i].ends) != 0)
      return false;
  return true;
}

static void begin_recovery(struct job *job, struct keep *keep, bool alone) {
  keep->starts = alone;
  keep->clears = false;
  keep->missed_at = 0;
  keep->single = alone ? (int)keep->lost : -1;
  keep->recovering = !alone;
  if (alone && keep->state != KEEP_IDLE)
    mr_keep_let_go(keep);
  /* Nobody of the old epoch is left when the new one begins. */
  if (!alone)
    job->signal(job, SIGKILL);
}

/* A node that could not repeat ends so, and its loss was counted. What it does to itself may be
 * what it had not done before: all repeat that, or see it again. */
static bool was_in_vain(const struct keep *keep, unsigned number, int code) {
  return keep->single == (int)number && !keep->starts && (code == STATUS_LOST || is_own(code));
}

bool mr_keep_lost(struct job *job, unsigned number, int code) {
  struct keep *keep = job->keep;
  if (keep == NULL || job->ending || job->over)
    return false;
  /* Others may have been seen first: they lost it. */
  bool in_vain = was_in_vain(keep, number, code);
  if (is_own(code) && !in_vain) {
    keep->recovering = false;
    return false;
  }
  if (keep->recovering)
    return true;
  keep->lost = code == STATUS_LOST && job->lost != NULL ? job->lost_whom : number;
  bool alone = goes_alone(job, keep, code);
  if (keep->input_lost && !(alone && number != 0)) {
    fprintf(stderr,
            "maru: launch: lost node %u; node 0 was given more than %u bytes of input since "
            "checkpoint %u, and a pipe does not give them again: the job cannot go on\n",
            keep->lost, MR_LAUNCH_INPUT, keep->committed);
    mr_launch_end(job, STATUS_LOST);
    return true;
  }
  keep->losses += !in_vain;
  if (keep->losses > LOSSES_MOST) {
    fprintf(stderr, "maru: launch: lost node %u, the %uth time since checkpoint %u: given up\n",
            keep->lost, keep->losses, keep->committed);
    mr_launch_end(job, STATUS_LOST);
    return true;
  }
  begin_recovery(job, keep, alone);
  return true;
}

/* One that has lost its connection to another; job->nodes: none. */
static unsigned misser(const struct job *job, const struct keep *keep) {
  unsigned i = 0;
  while (i < job->nodes && load(&keep->page->lines[i].misses) == 0)
    i++;
  return i;
}

/* A node's end may be seen later than that of its connections. Where it is not, both live, and
 * nobody takes the place of one. */
bool mr_keep_missed(struct job *job) {
  struct keep *keep = job->keep;
  unsigned i = misser(job, keep);
  if (i == job->nodes) {
    keep->missed_at = 0;
    return false;
  }
  int64_t now = mr_launch_now();
  keep->missed_at = keep->missed_at == 0 ? now : keep->missed_at;
  if (now - keep->missed_at < MISSED_MS)
    return true;
  unsigned whom = load(&keep->page->lines[i].misses) - 1;
  fprintf(stderr,
          "maru: launch: node %u has lost its connection to node %u, which said no farewell\n", i,
          whom);
  mr_keep_lost(job, whom, STATUS_LOST);
  return true;
}

/* Node 0 gets its input again. */
static void rewind_input(struct keep *keep) {
  keep->input_here = keep->input_length;
  keep->input_taken = 0;
  if (keep->input_at >= 0)
    lseek(STDIN_FILENO, keep->input_at, SEEK_SET);
}

static double ago(const struct keep *keep) {
  return (double)(mr_launch_now() - keep->taken) / 1000;
}

void mr_keep_alone(struct job *job) {
  struct keep *keep = job->keep;
  unsigned number = (unsigned)keep->single;
  struct mr_checkpoint_line *line = &keep->page->lines[number];
  socklen_t size = sizeof line->address;
  if (keep->committed != 0)
    fprintf(stderr,
            "maru: launch: lost node %u; it alone goes on from checkpoint %u, %.1f s ago, and does "
            "again what it did\n",
            number, keep->committed, ago(keep));
  else
    fprintf(stderr,
            "maru: launch: lost node %u before the first checkpoint; it alone begins again\n",
            number);
  keep->starts = false;
  forget_lines(keep, number);
  if (number == 0)
    rewind_input(keep);
  keep->page->restore = keep->committed;
  store(&line->started, 0);
  store(&line->done, 0);
  store(&line->misses, 0);
  if (!keep->several)
    getsockname(job->node[number].listener, (struct sockaddr *)&line->address, &size);
  store(&line->again, load(&line->again) + 1);
}

void mr_keep_again(struct job *job) {
  struct keep *keep = job->keep;
  struct mr_checkpoint_page *page = keep->page;
  if (keep->moves)
    fprintf(stderr, "maru: launch: all go on from checkpoint %u\n", keep->committed);
  else if (keep->committed != 0)
    fprintf(stderr, "maru: launch: lost node %u; all go on from checkpoint %u, %.1f s ago\n",
            keep->lost, keep->committed, ago(keep));
  else
    fprintf(stderr, "maru: launch: lost node %u before the first checkpoint; all begin again\n",
            keep->lost);
  keep->recovering = keep->moving = keep->moves = false;
  keep->ended = false;
  keep->rested = keep->pause = 0;
  keep->length = 0;
  rewind_input(keep);
  keep->state = KEEP_IDLE;
  keep->due = mr_launch_now() + (keep->journal != 0 && keep->committed == 0 ? 0 : keep->every_ms);
  page->epoch++;
  page->restore = keep->committed;
  store(&page->cut, 0);
  store(&page->wanted, keep->number);
  store(&page->over, keep->number);
  for (unsigned i = 0; i < job->nodes; i++) {
    store(&page->lines[i].started, 0);
    store(&page->lines[i].ends, 0);
    store(&page->lines[i].done, 0);
    store(&page->lines[i].again, 0);
    store(&page->lines[i].wishes, 0);
    store(&page->lines[i].misses, 0);
    atomic_store_explicit(&page->lines[i].journaled, 0, memory_order_relaxed);
  }
}
