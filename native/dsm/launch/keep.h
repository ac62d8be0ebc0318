/* keep.h: checkpoints of a job, the launcher's part (internal to maru-launch).
 *
 * Every so often the launcher has the nodes stop at a cut. They write their images to files in
 * memory that it holds (checkpoint.h); what the last whole one has is never written over.
 * The launcher commits when all have written.  Where a node is lost, it kills the others, and
 * starts all anew. They go on from the last checkpoint; before there is one they begin again.  What
 * nodes write to their standard output is held until the checkpoint that has it is committed: so
 * each line is shown once.  With --recover lost the others live on, and the lost node alone does
 * again what it did since (replay.h). Where that cannot be done all go back.
 *
 * With a folder, a process of the launcher's copies each checkpoint there, beside the job
 * (folder.c); a later launch goes on from it.
 */
#ifndef MARU_DSM_LAUNCH_KEEP_H
#define MARU_DSM_LAUNCH_KEEP_H

#include "../checkpoint.h"
#include "launch.h"

/* Words of the page. Acquire: with one comes what was written before it, which release shows. */
static inline uint32_t load(const _Atomic uint32_t *word) {
  return atomic_load_explicit(word, memory_order_acquire);
}
static inline void store(_Atomic uint32_t *word, uint32_t value) {
  atomic_store_explicit(word, value, memory_order_release);
}

struct keep_wish {
  const char *every;   /* seconds; NULL: as MR_KEEP_EVERY, if one of these is there */
  const char *folder;  /* where checkpoints are copied to; NULL: nowhere */
  const char *resume;  /* a folder to go on from; NULL */
  const char *output;  /* "held" or "now"; NULL: held */
  const char *recover; /* "all" or "lost"; NULL: all */
  int64_t journal_mib; /* of each node, with "lost"; 0: MR_KEEP_JOURNAL_MIB */
};
#define MR_KEEP_EVERY "30"
#define MR_KEEP_JOURNAL_MIB 256
#define MR_KEEP_LONG_MS 10000 /* what keeps a checkpoint waiting for so long is named */

struct keep {
  struct mr_checkpoint_page *page;
  int page_fd;
  int64_t every_ms;
  enum { KEEP_IDLE, KEEP_GATHERS, KEEP_WRITES } state;
  uint32_t number, committed; /* the last that was wanted; the last that is whole */
  int64_t due, taken;         /* ms: the next; the last whole one's cut */
  int64_t asked, begun;       /* ms: this one was wanted; its gathering or writing began */
  int64_t look_at;            /* ms: not at this one before */
  int64_t grew, looked;       /* ms: its images grew; that was looked at */
  uint64_t seen;              /* of them, then */
  bool alike;                 /* the last wave said what a cut says */
  uint64_t traffic[MR_LAUNCH_NODES][2]; /* sent and received, then */
  bool named;                           /* a node that does not come, of this one */
  bool ended;                           /* the program ends: there will be no more */
  char refused[MR_CHECKPOINT_WHY];      /* what was said last of why there was none */
  bool recovering, at_once;             /* nodes are being ended; output is not held */
  bool moving,
      moves; /* a node is to move at the next whole one, which is due; nodes end for that */
  unsigned losses, lost; /* since the last whole one; whose that was */
  /* Only a lost node repeats (replay.h). That node, until it is as if it had never been lost; -1.
   * It has not been started yet.  How often that went well. */
  size_t journal; /* bytes; 0: all go back */
  int single;
  bool starts, clears; /* clears: its host has been asked for a place (hosts.c) */
  uint64_t repeated;
  int64_t missed_at; /* ms: a node is seen to have lost its connection to another since; 0: none */
  int64_t rested;    /* ms: not before that is one begun because a node wishes for it */
  int64_t pause;     /* ms: after the next one that is refused, at least; 0: the shortest */
  /* Of the standard input: where a file of ours was at the last whole one; -1: it is none.  Else
   * what node 0 was given that it had not read then. */
  int64_t input_at;
  char input[MR_LAUNCH_INPUT];
  size_t input_length;
  bool input_lost; /* it was more */
  /* All that it was given, and what of it had been read at the last whole one: bytes.  Of a file
   * the latter is the offset. */
  uint64_t input_given, input_read;
  int input_pipe; /* ours of the end that node 0 reads: what is in it can be asked after; -1 */
  /* On several hosts (mirror.h): what node 0 was given since it was started, and has read of it. */
  bool several;
  uint64_t input_here, input_taken;
  int32_t unkept[MR_LAUNCH_NODES]; /* why an image that comes now could not be taken; 0: it could */
  /* Lines that nodes had begun at the last whole one. */
  struct keep_begun {
    char *line;
    size_t length;
  } begun_lines[MR_LAUNCH_NODES];
  char *held; /* pieces: whose each is, its length, its bytes */
  size_t length, room;
  bool resumed; /* what it goes on from is from a folder */
  const char *folder;
  int dir;      /* that folder; -1: none */
  int lock;     /* its lock, which the process that copies holds, too */
  pid_t writer; /* copies `writing` there; 0: none does */
  uint32_t writing, written;
  bool slow;                                     /* that was said of this copy */
  int64_t gathering_ms, gathered_ms, written_ms; /* this one; the last whole one (kept.h) */
  struct mr_kept *shown; /* on the board; NULL: there is none, once it was looked for */
  bool sought;
};

/* Whether checkpoints are asked for. */
bool mr_keep_asked(const struct keep_wish *wish);
/* Before the nodes start.  `several`: they are on several hosts. */
void mr_keep_begin(struct job *job, const struct keep_wish *wish, bool several);
/* Makes the page and all nodes' files, and names the page to nodes that start.  Ends the process
 * where there is no memory. */
void mr_keep_page(struct job *job, struct keep *keep);
/* For those files that know nothing of checkpoints: job->keeps. */
struct keep_calls {
  /* Does what is to be done now; in how many ms it wants to be called again, -1: not. */
  int (*step)(struct job *job);
  /* A node ended so: whether all nodes begin again for it, so that its end is not the job's. */
  bool (*lost)(struct job *job, unsigned number, int code);
  /* So many bytes of the standard input are on their way to node 0. */
  void (*gave)(struct job *job, const char *bytes, size_t length);
  /* Node 0 reads there. */
  void (*pipe)(struct job *job, int end);
  /* Node 0 is there again: it gets what it had not read. */
  void (*feed)(struct job *job);
  /* All nodes have ended and are to be started again: says so, and prepares it. */
  void (*again)(struct job *job);
  /* The node keep->single has ended and is to be started again alone, where its listener is: says
   * so, and prepares it. */
  void (*alone)(struct job *job);
  /* What is to be shown of that node's, later. False: it is to be shown now. */
  bool (*line)(struct job *job, unsigned number, int to, const char *line, size_t length);
  /* Copies the line of its output that the node had begun; how long it is. */
  size_t (*begun)(const struct job *job, unsigned i, char *line);
  /* A child of the launcher's ended. */
  void (*reaped)(struct job *job, pid_t pid, int status);
  /* The job is over: shows what is held, and waits for the folder. */
  void (*end)(struct job *job);
};

/* Before the bytes of a piece that is held. */
struct keep_piece {
  uint32_t node, length;
};

/* ---- keep_loss.c ---- */

/* The checkpoint that is being taken is over: nodes go on. */
void mr_keep_let_go(struct keep *keep);
/* Every node has joined in this epoch, and none repeats. */
bool mr_keep_all_started(const struct job *job, const struct keep *keep);
/* Whether a node has lost its connection to another, which may be there. After a while all go back.
 */
bool mr_keep_missed(struct job *job);
/* Of keep_calls. */
bool mr_keep_lost(struct job *job, unsigned number, int code);
void mr_keep_again(struct job *job);
void mr_keep_alone(struct job *job);

/* ---- keep_input.c ---- */

/* At a cut: what node 0 has read does not come again. */
void mr_keep_note_input(const struct job *job, struct keep *keep);
/* Skips what node 0 has read in a launch before; ends the process where it cannot. */
void mr_keep_skip_input(const struct keep *keep);
/* Of keep_calls. */
void mr_keep_gave(struct job *job, const char *bytes, size_t length);
void mr_keep_pipe(struct job *job, int end);
void mr_keep_feed(struct job *job);

/* ---- slots.c ---- */

/* The pages of an image. */
struct mr_slots {
  size_t length; /* of its file in memory */
  uint32_t *each;
  size_t count;
};

/* As pread, to the end of the file. */
ssize_t mr_slots_read_at(int fd, uint8_t *bytes, size_t length, uint64_t at);
/* Of that file in memory; `each` is to be freed, also where it fails: negative errno. */
int mr_slots_open(int file, struct mr_slots *slots);
/* How many of the next lie in a row, `most` at most. */
size_t mr_slots_row(const struct mr_slots *slots, size_t first, size_t most);

/* ---- watcher.c ---- */

/* Goes on as a child of this process, and makes the job's board. This process passes signals on to
 * it, and ends as it does.  Where it is killed a line says what was lost, and the status is
 * STATUS_LOST once no process of the job is left. */
void mr_watcher_begin(struct job *job, const struct keep_wish *wish);
/* How checkpoints stand, for that line. */
void mr_watcher_tell(const struct job *job);

/* ---- kept.c ---- */

/* Shows how it stands, for `maru top` (kept.h). */
void mr_kept_show(const struct job *job);

/* ---- folder.c and folder_copy.c ---- */

/* Checkpoints are copied to that folder, which is made where it is not there.  Ends the process
 * where another job has it or others may write there.  So it does where the folder has a checkpoint
 * that this job does not go on from: images of two jobs are never mixed. */
void mr_folder_begin(struct keep *keep, const char *folder);
/* Whether there is a checkpoint in it. */
bool mr_folder_has_one(const char *folder);
/* Copies keep->writing there and names it the folder's; a status. What fails is a line. */
int mr_folder_write(const struct keep *keep, unsigned nodes);
/* Where none does yet, a process begins to copy the last whole checkpoint, and then names it the
 * folder's. */
void mr_folder_copy(struct job *job);
/* Says once of a copy that it takes long. */
void mr_folder_name_slow(struct job *job);
/* As keep_calls.reaped: notes the end of that process. */
void mr_folder_reaped(struct job *job, pid_t pid, int status);
/* Until it has ended, or a signal to us asked for the end and patience is over. */
void mr_folder_await(struct job *job);
/* Into the files of the page; the checkpoint's number.  Ends the process where there is no whole
 * one, of so many nodes.  The folder is the job's from then on. */
uint32_t mr_folder_read(struct keep *keep, unsigned nodes, const char *folder);

#endif
