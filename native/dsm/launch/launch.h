/* launch.h: the parts of maru-launch (internal).
 *
 *     maru-launch.c   what is asked for; begins and ends
 *     job.c           what is true of any job: whose failure ends it, what is said, when patience
 *                     ends
 *     nodes.c         the nodes of this host
 *     board.c         where nodes show what they count
 *     boost.c         `maru boost` beside them
 *     input.c         what node 0 reads
 *     keep.c          checkpoints (keep.h)
 *     keep_loss.c     which nodes go back when one is lost
 *     keep_input.c    what node 0 reads again then
 *     folder.c        checkpoints in a folder
 *     kept.c          how they stand, for `maru top`
 *     watcher.c       who says that the launcher of such a job was killed
 *     slots.c         which pages an image has
 *     secret.c        what the nodes know and nobody else
 *     hosts.c         jobs on several hosts: one agent a host, over ssh
 *     places.c        which nodes are on which (hosts.h)
 *     move.c          a node of such a job goes to another (move.h)
 *     agent.c         such an agent
 *     frames.c        what it and they tell each other (frames.h)
 *     mirror.c        checkpoints there (mirror.h)
 *
 * One thread. What fails here ends the process with one line (mr_launch_fail); no node outlives it.
 * The kernel kills the nodes of a process that dies, and an agent dies with its connection.
 */
#ifndef MARU_DSM_LAUNCH_H
#define MARU_DSM_LAUNCH_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>

enum {
  STATUS_USAGE = 64,
  STATUS_DATA_ERROR = 65,
  STATUS_UNAVAILABLE = 69,
  STATUS_LOST = 75,
  STATUS_MARU_FAILED = 125,
  STATUS_CANNOT_EXECUTE = 126,
  STATUS_NOT_FOUND = 127
};

#define MR_LAUNCH_NODES 256u
#define MR_LAUNCH_SECRET 32
#define MR_LAUNCH_LINE 65536u
#define MR_LAUNCH_GRACE_SECONDS 2 /* where MARU_LAUNCH_GRACE does not say it */
#define MR_LAUNCH_AGAIN_MS 2000   /* from one KILL to the next */
#define MR_LAUNCH_TWICE_MS 200    /* a second signal so soon is the first one's echo */
#define MR_LAUNCH_INPUT 16384u

/* One of a node's two outputs. */
struct stream {
  int fd; /* -1: ended */
  int to;
  size_t length;
  char *line;
};

struct node {
  pid_t pid;   /* 0: ended */
  pid_t group; /* it and what it has started; 0: nobody is left in it */
  int listener;
  uint16_t port;
  struct stream streams[2];
};

/* What is on its way to node 0's standard input; input.c. */
struct input {
  int from;      /* what we read; -1: nothing, or no more */
  int to;        /* node 0's pipe; -1: it is not here, or reads no more */
  size_t given;  /* handed on, and not taken yet: nothing is read meanwhile */
  size_t length; /* of what is not written yet */
  bool terminal, ended;
  char bytes[MR_LAUNCH_INPUT];
};

struct job;
struct keep;

/* Tells the process that started an agent. */
struct teller {
  /* A node wrote a line, or a piece that has no end; it ended; node 0 took so much of the input, or
   * -EPIPE. */
  void (*line)(struct job *job, unsigned number, int to, const char *line, size_t length,
               bool ends);
  void (*ended)(struct job *job, unsigned number, int code);
  void (*taken)(struct job *job, int taken);
  void (*over)(struct job *job, int status); /* as mr_launch_over */
  int (*beat)(struct job *job);              /* when it is to be called again, in ms */
};

struct job {
  unsigned nodes;       /* of all hosts */
  unsigned first, here; /* those of this host, and the only ones in `node` */
  unsigned alive;       /* that this process knows to be */
  /* By `first`.  With checkpoints on several hosts the launcher has the lines there that nodes had
   * begun. */
  struct node node[MR_LAUNCH_NODES];
  char **command;
  struct sockaddr_storage at; /* where nodes here listen, but for the port */
  const char *addresses;      /* "ADDRESS:PORT,…", one per node */
  char *own_addresses;        /* the same, where mr_launch_bind_here made them */
  int secret;                 /* a descriptor; -1: nobody needs it any more */
  int signals;                /* a signalfd */
  int shown[2];               /* our outputs, where they are terminals; -1: they are not */
  pid_t reaper;               /* kills what nodes have started if we are killed; see nodes.c */
  int reaping;                /* it reads there */
  pid_t booster;              /* `maru boost` beside the nodes; 0: none, or it has ended */
  int boosted;                /* while this is open, it goes on */
  char board[64];             /* where our board is; empty: there is none */
  int status;                 /* what we shall exit with */
  unsigned culprit;           /* whose it is; MR_LAUNCH_NODES: nobody's, or said already */
  bool ending, killed;        /* we sent TERM, KILL */
  bool over;                  /* a node has ended the program, with `status` */
  int over_from;    /* a pipe: a byte there is that status; -1: no node can say so any more */
  int over_to;      /* the nodes' end, while they are started */
  bool interrupted; /* a signal to us asked for the end */
  bool reaps;       /* a child may have ended since the last look */
  pid_t watcher;    /* who passes signals on to us (watcher.c); 0: nobody */
  int mourned;      /* who has it open is mourned (watcher.c); where there is a watcher */
  bool passes;      /* it is to pass on the first that came, which we had ourselves */
  int64_t asked_at; /* ms: the first of them */
  int64_t kill_at;  /* ms; 0: not */
  int grace_ms;     /* from TERM to KILL */
  /* CHLD's and XFSZ's, as we inherited them. */
  struct sigaction on_child, on_large;
  struct sigaction on_interrupt; /* INT's, while it ends us at once */
  struct rlimit files;           /* of open descriptors, as we inherited it */
  bool said;                     /* a node's last words were shown */
  char *lost;                    /* such words of a node that only lost another, and whose */
  unsigned lost_by, lost_whom;
  struct input input;
  struct keep *keep;              /* NULL: no checkpoints */
  const struct keep_calls *keeps; /* where there are: what is done for them (keep.h) */
  void (*drain)(struct job *job); /* reads what nodes have written, and waits for nothing */
  bool bare;                      /* standard output is shown as nodes write it */
  int64_t beat_due;               /* of an agent, in ms; 0: not yet known */
  int report; /* what nodes tell about their pages (heat.h) goes there; -1: nobody asked */
  void (*signal)(struct job *job, int signal); /* to all nodes */
  /* For a process on another host, which gets to hear all and decides all; else NULL. */
  const struct teller *teller;
};

/* ---- job.c ---- */

void mr_launch_fail(int status, const char *what, const char *why) __attribute__((noreturn));
int64_t mr_launch_now(void); /* ms */
/* Waits for an event of poll's, obeying signals meanwhile: our reader, or an agent, may have
 * stopped.  False: a signal asked for the end, and there is no more patience. */
bool mr_launch_ready(struct job *job, int fd, short event);
/* 0, or what went wrong as negative errno. */
int mr_launch_write(struct job *job, int fd, const char *bytes, size_t length);
/* Those that ask for the end, and SIGCHLD. */
void mr_launch_signals(sigset_t *set);
/* Also raises the limit of open descriptors: 256 nodes need more than most users are given. */
void mr_launch_catch_signals(struct job *job);
/* While nothing of the job has begun: what asks for the end ends us at once, wherever we wait. */
void mr_launch_let_signals_end(struct job *job);
/* They are caught again. */
void mr_launch_hold_signals(const struct job *job);
/* In what we start, or become: signals and that limit as they were for us. */
void mr_launch_give_signals(const struct job *job);
/* HUP, INT or TERM to us ends the job; not a HUP or TERM that we inherited as ignored. */
void mr_launch_read_signals(struct job *job);
/* Whole lines, to our output or error output; where nobody takes what nodes say, the job ends. */
void mr_launch_show(struct job *job, int to, const char *lines, size_t length);
/* A line that a node wrote to `to`, without its end; or a piece that has none. */
void mr_launch_line(struct job *job, unsigned number, int to, const char *line, size_t length,
                    bool ends);
/* Whether a status stands for the end by a signal, as a shell has it: 128 + signal. */
bool mr_launch_is_signal(int status);
/* A node ended with that status (128 + signal). */
void mr_launch_ended(struct job *job, unsigned number, int code);
/* A node ended the program, with that status, whatever other nodes do. */
void mr_launch_over(struct job *job, int status);
/* Ends it for that reason, if no other has. */
void mr_launch_end(struct job *job, int status);
/* While nothing of the job has begun, or begun again, it is job->signal: a signal to us ends us. */
void mr_launch_leave(struct job *job, int signal);
/* How long to wait for news, in ms; sends KILL when it is time to. */
int mr_launch_patience(struct job *job);
/* Of two such times the one that comes first; below 0: never. */
int mr_launch_sooner(int one, int other);
void mr_launch_say_why(const struct job *job);
/* All nodes are gone, one of which was lost, and begin again: says so, and forgets what was true of
 * those. */
void mr_launch_again(struct job *job);

/* ---- nodes.c ---- */

/* A free port there for each node here. */
void mr_launch_bind(struct job *job, const struct sockaddr_storage *at);
/* The same on the loopback interface, for a job of this host alone, and says where they are. */
void mr_launch_bind_here(struct job *job);
void mr_launch_start(struct job *job);
/* The node that was there has ended, and another is to be started in its place, while the others
 * live on: what it has said is read, what it has started ends, and a port is bound. */
void mr_launch_clear(struct job *job, unsigned i);
/* That one is started. */
void mr_launch_start_alone(struct job *job, unsigned i);
void mr_launch_signal_nodes(struct job *job, int signal);
/* Until all nodes here have ended, and where the job is ended what they have started: no longer
 * than its patience.  `control`: a descriptor that `controlled` reads, or -1. */
void mr_launch_watch(struct job *job, int control, void (*controlled)(struct job *job));

/* ---- board.c ---- */

/* Makes the board where the nodes of this host show what they count (stand.h), and the launcher how
 * checkpoints stand (kept.h). Names it to what is started from now on. Where that fails, it is
 * said, and nothing is shown. */
void mr_launch_board(struct job *job);

/* ---- boost.c ---- */

/* Where MARU_LAUNCH_BOOST names the command `maru`: lends the nodes of this host channels on a
 * board (ready.h) and starts `maru boost` for that board.  What fails is one line: the job runs
 * without. */
void mr_launch_boost(struct job *job);
/* The nodes are gone: ends it. */
void mr_launch_boost_end(struct job *job);

/* ---- input.c ---- */

/* This process reads its standard input from now on, for node 0. */
void mr_launch_input_begin(struct job *job);
/* Node 0 is here: *end becomes its standard input. */
void mr_launch_input_pipe(struct job *job, int *end);
/* What to poll for, and for how long at most. */
struct pollfd mr_launch_input_from(const struct job *job);
struct pollfd mr_launch_input_to(const struct job *job);
int mr_launch_input_patience(const struct job *job, int patience);
/* There is something to read, or the end; how much it was, MR_LAUNCH_INPUT at most.  What cannot be
 * read ends the job, with a line. */
size_t mr_launch_input_read(struct job *job, char *bytes);
/* Node 0 has taken so many of the bytes, or takes no more: -EPIPE. */
void mr_launch_input_taken(struct job *job, int taken);
/* To be written to node 0.  False: it is more than there was room for. */
bool mr_launch_input_give(struct job *job, const char *bytes, size_t length);
/* Nothing more will be given. */
void mr_launch_input_end(struct job *job);
/* Node 0 has room, or has closed its input: how much it took, or -EPIPE. */
int mr_launch_input_write(struct job *job);

/* ---- secret.c ---- */

/* A new one. */
void mr_launch_secret_draw(struct job *job);
/* As text, for an agent, which takes it so, and wipes the text. */
void mr_launch_secret_tell(const struct job *job, FILE *stream);
void mr_launch_secret_hear(struct job *job, char *text);
/* To be called when all that need it have it. */
void mr_launch_secret_close(struct job *job);

/* ---- hosts.c ---- */

struct keep_wish;

/* As main: the job's nodes are on the hosts that the file names. */
void mr_launch_on_hosts(struct job *job, const char *file, const struct keep_wish *keep);

/* ---- agent.c ---- */

/* As main, on one of them. */
void mr_launch_agent(struct job *job);

#endif
