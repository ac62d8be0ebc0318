/* maru-steer: the hands of `maru run --io` and `maru attach`, and what puts back.
 *
 *   maru-steer keeper --tree PID [--root DIR] [--place affinity|cpusets] -- CONTROLLER [WORD]...
 *   maru-steer repair [--root DIR] [--after PID]
 *   maru-steer move --tree PID --node NODE
 *
 * move brings the memory that the processes below PID have to one node, and prints how many
 * processes, and pages that stayed.  Nothing of it is put back: where pages are ends with their
 * process.
 *
 * keeper starts the controller and does what it says, for the processes below PID. Each change is
 * in the journal, on disk, before it is made (journal.h). It ends, and puts everything back, when
 * its standard input is at its end, when PID or the controller ends, or by SIGTERM, SIGINT or
 * SIGHUP. The process that started it holds the other end, so its death, however it comes, is seen
 * at once. If the keeper itself is killed the controller sees it and runs `repair`, once PID, the
 * keeper, has ended; if both are, the next keeper does.
 *
 * The controller has its answers on standard input and orders on descriptor 3; its standard
 * output is the keeper's.  Lines:
 *
 *   to it    ready CPUS MENDED      where the program may run; dead runs that were put back
 *            off REASON             nothing can be changed; orders are refused
 *            ok | ok REASON | no REASON    one for each order of a batch, in order; ok REASON: a
 *                                   thread by its affinity, since it cannot be by cpusets
 *            end FAILED             all is put back, but for so many
 *   from it  set TID START CPUS | set PATH VALUE | back TID START | back PATH
 *            go                     ends a batch; what goes back goes first
 *
 * Status: 0; 64 usage; 69 (repair) something could not be put back or read.
 */
#define _GNU_SOURCE
#include "arguments.h"
#include "journal.h"
#include "pages.h"
#include "process.h"
#include "process_table.h"
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATUS_USAGE = 64, STATUS_UNAVAILABLE = 69 };
enum { ORDERS_FD = 3 };

/* A batch that is larger is no controller of ours. */
#define BATCH_BYTES (16u << 20)
#define CONTROLLER_ENDS_MS 3000
#define ANSWER_MS 1000
#define KEEPER_ENDS_MS 1000

struct keeper {
  struct mr_journal journal;
  const char *root;
  const char *off; /* why nothing can be changed; NULL: it can */
  char off_text[MR_PATH_MAX + 64];
  bool cpusets;
  int mended;
  pid_t tree, controller;
  int orders, answers, signals, program;
  char *batch;
  size_t batch_length;
};

/* ---- orders -------------------------------------------------------------- */

struct order {
  bool set;
  struct mr_target target;
  char *value;
  int error;
};

static int read_target(struct mr_target *target, char **words, size_t count) {
  *target = (struct mr_target){0};
  if (count == 2) {
    int64_t tid, start;
    if (mr_whole(words[0], 1, INT32_MAX, &tid) < 0 || mr_whole(words[1], 0, INT64_MAX, &start) < 0)
      return -EINVAL;
    target->tid = (pid_t)tid;
    target->start = (uint64_t)start;
    return 0;
  }
  if (count != 1 || strlen(words[0]) >= sizeof target->path || !mr_target_permitted(words[0]))
    return -EINVAL;
  strcpy(target->path, words[0]);
  return 0;
}

/* A thread's CPUs are cut to where the program may run, as the kernel would. */
static int read_value(const struct keeper *keeper, struct order *order, const char *text) {
  struct mr_cpus set;
  char value[MR_VALUE_MAX];
  int error = mr_target_form(&order->target, text, value);
  if (error < 0)
    return error;
  if (order->target.tid != 0) {
    (void)mr_cpus_parse_list(value, &set);
    mr_cpus_keep(&set, &keeper->journal.may);
    mr_cpus_list(&set, value);
    if (mr_cpus_empty(&set))
      return -ENXIO;
  }
  order->value = strdup(value);
  return order->value != NULL ? 0 : -ENOMEM;
}

static void read_order(const struct keeper *keeper, struct order *order, char *line) {
  char *words[5], *rest = line;
  size_t count = 0;
  for (char *word; count < 5 && (word = strsep(&rest, " ")) != NULL;)
    words[count++] = word;
  order->error = -EINVAL;
  if (count >= 3 && strcmp(words[0], "set") == 0) {
    order->set = true;
    order->error = read_target(&order->target, words + 1, count - 2);
    if (order->error == 0)
      order->error = read_value(keeper, order, words[count - 1]);
  } else if (count >= 2 && strcmp(words[0], "back") == 0)
    order->error = read_target(&order->target, words + 1, count - 1);
}

/* A thread that is not of the program is not ours to touch, whatever the controller says. */
static int check_owner(const struct keeper *keeper, const struct mr_target *target) {
  if (target->tid == 0)
    return 0;
  bool below = mr_is_below(mr_process_of(target->tid), keeper->tree);
  /* Asked last: the number was the program's all the time. */
  return below && mr_start_time(keeper->tree) == keeper->journal.tree_start ? 0 : -ESRCH;
}

static void put_back(struct keeper *keeper, struct order *order) {
  if (!order->set && order->error == 0)
    order->error = mr_journal_back(&keeper->journal, &order->target);
}

static void note(struct keeper *keeper, struct order *order) {
  if (!order->set || order->error < 0)
    return;
  order->error = check_owner(keeper, &order->target);
  if (order->error == 0)
    order->error = mr_journal_note(&keeper->journal, &order->target, order->value);
}

static void make(struct keeper *keeper, struct order *order, int synced) {
  if (!order->set)
    return;
  if (order->error == -EALREADY) {
    order->error = 0;
    return;
  }
  if (order->error < 0)
    return;
  order->error =
      synced < 0 ? synced : mr_journal_make(&keeper->journal, &order->target, order->value);
  if (order->error == -ERANGE)
    (void)mr_journal_revert(&keeper->journal, &order->target);
  else if (order->error < 0)
    (void)mr_journal_back(&keeper->journal, &order->target);
}

static const char *reason(int error) {
  switch (error) {
  case -EUSERS:
    return "another maru run has it";
  case -ERANGE:
    return "the kernel made something else of it";
  case -ENXIO:
    return "the program may not run there";
  case -ESRCH:
    return "gone";
  default:
    return strerror(-error);
  }
}

/* False: nobody reads them. */
static bool answer(struct keeper *keeper, const char *text) {
  for (size_t length = strlen(text); length > 0;) {
    ssize_t written = write(keeper->answers, text, length);
    if (written < 0 && errno == EAGAIN) {
      struct pollfd room = {.fd = keeper->answers, .events = POLLOUT};
      if (poll(&room, 1, ANSWER_MS) == 1)
        continue;
    }
    if (written < 0)
      return false;
    text += written;
    length -= (size_t)written;
  }
  return true;
}

/* Puts back, then notes all, makes sure that it is on disk, then changes. */
static void do_batch(struct keeper *keeper, struct order *orders, size_t count) {
  for (size_t i = 0; i < count; i++)
    put_back(keeper, &orders[i]);
  for (size_t i = 0; i < count; i++)
    note(keeper, &orders[i]);
  int synced = mr_journal_sync(&keeper->journal);
  for (size_t i = 0; i < count; i++)
    make(keeper, &orders[i], synced);
  mr_journal_back_strays(&keeper->journal);
  (void)mr_journal_shorten(&keeper->journal);
}

static bool obey(struct keeper *keeper, char *batch, size_t count) {
  struct order *orders = calloc(count > 0 ? count : 1, sizeof *orders);
  if (orders == NULL)
    return false;
  for (size_t i = 0; i < count; i++) {
    read_order(keeper, &orders[i], strsep(&batch, "\n"));
    if (keeper->off != NULL)
      orders[i].error = -ENODEV;
  }
  if (keeper->off == NULL)
    do_batch(keeper, orders, count);
  bool read = true;
  for (size_t i = 0; read && i < count; i++) {
    char line[MR_WHY_MAX + 8];
    bool alone = orders[i].set && orders[i].target.tid != 0 && keeper->journal.why_not[0] != '\0';
    if (orders[i].error == 0)
      snprintf(line, sizeof line, alone ? "ok %s\n" : "ok\n", keeper->journal.why_not);
    else
      snprintf(line, sizeof line, "no %s\n", reason(orders[i].error));
    read = answer(keeper, line);
  }
  for (size_t i = 0; i < count; i++)
    free(orders[i].value);
  free(orders);
  return read;
}

/* Does every batch that has come wholly.  False: the controller is of no use any more. */
static bool take_orders(struct keeper *keeper) {
  char piece[1 << 16];
  ssize_t got = read(keeper->orders, piece, sizeof piece);
  if (got <= 0 || keeper->batch_length + (size_t)got > BATCH_BYTES)
    return got < 0 && errno == EINTR;
  char *grown = realloc(keeper->batch, keeper->batch_length + (size_t)got + 1);
  if (grown == NULL)
    return false;
  keeper->batch = grown;
  memcpy(grown + keeper->batch_length, piece, (size_t)got);
  keeper->batch_length += (size_t)got;
  grown[keeper->batch_length] = '\0';
  char *begin = grown, *line = grown;
  size_t count = 0;
  bool good = true;
  for (char *end; good && (end = strchr(line, '\n')) != NULL; line = end + 1) {
    bool ends = end - line == 2 && strncmp(line, "go", 2) == 0;
    count += !ends;
    if (ends) {
      good = obey(keeper, begin, count);
      begin = end + 1;
      count = 0;
    }
  }
  keeper->batch_length -= (size_t)(begin - grown);
  memmove(grown, begin, keeper->batch_length + 1);
  return good;
}

/* ---- the controller ---------------------------------------------------------- */

static _Noreturn void become_controller(char **argv, int orders, int answers,
                                        const sigset_t *mask) {
  sigprocmask(SIG_SETMASK, mask, NULL);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  if (dup2(answers, STDIN_FILENO) == STDIN_FILENO && dup2(orders, ORDERS_FD) == ORDERS_FD &&
      fcntl(ORDERS_FD, F_SETFD, 0) == 0)
    execv(argv[0], argv);
  fprintf(stderr, "maru: cannot start the controller '%s': %s\n", argv[0], strerror(errno));
  _exit(127);
}

/* Descriptors above ORDERS_FD, so that dup2 onto it closes nothing that is needed. */
static int high_pipe(int ends[2]) {
  int low[2];
  if (pipe2(low, O_CLOEXEC) < 0)
    return -errno;
  for (int i = 0; i < 2; i++) {
    ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, ORDERS_FD + 1);
    close(low[i]);
  }
  return ends[0] < 0 || ends[1] < 0 ? -EMFILE : 0;
}

static int start_controller(struct keeper *keeper, char **argv, const sigset_t *mask) {
  int orders[2], answers[2];
  int error = high_pipe(orders);
  if (error == 0)
    error = high_pipe(answers);
  if (error < 0)
    return error;
  keeper->controller = fork();
  if (keeper->controller < 0)
    return -errno;
  if (keeper->controller == 0)
    become_controller(argv, orders[1], answers[0], mask);
  close(orders[1]);
  close(answers[0]);
  keeper->orders = orders[0];
  keeper->answers = answers[1];
  fcntl(keeper->answers, F_SETFL, O_NONBLOCK);
  return 0;
}

static bool greet(struct keeper *keeper) {
  char line[MR_CPUS_TEXT + 64], may[MR_CPUS_TEXT];
  mr_cpus_list(&keeper->journal.may, may);
  if (keeper->off != NULL)
    snprintf(line, sizeof line, "off %s\n", keeper->off);
  else
    snprintf(line, sizeof line, "ready %s %d\n", may, keeper->mended);
  return answer(keeper, line);
}

/* ---- life -------------------------------------------------------------------------- */

static void open_journal(struct keeper *keeper) {
  pid_t other = 0;
  int error = mr_journal_open(&keeper->journal, keeper->root, keeper->tree, keeper->cpusets,
                              &keeper->mended, &other);
  if (error == 0)
    return;
  if (error == -EBUSY)
    snprintf(keeper->off_text, sizeof keeper->off_text, "process %d steers these processes already",
             (int)other);
  else if (error == -ESRCH)
    snprintf(keeper->off_text, sizeof keeper->off_text, "the program has ended");
  else if (error == -ETIMEDOUT)
    snprintf(keeper->off_text, sizeof keeper->off_text,
             "another maru run does not let go of '%s/lock'", keeper->journal.folder);
  else
    snprintf(keeper->off_text, sizeof keeper->off_text, "no place for a journal (%s)",
             error == -ENODEV ? "set XDG_RUNTIME_DIR" : strerror(-error));
  keeper->off = keeper->off_text;
}

/* True until something says that it is over. */
static bool watch(struct keeper *keeper) {
  struct pollfd watched[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = keeper->orders, .events = POLLIN},
                             {.fd = keeper->signals, .events = POLLIN},
                             {.fd = keeper->program, .events = POLLIN}};
  if (poll(watched, 4, -1) < 0)
    return errno == EINTR;
  char ignored[256];
  if (watched[0].revents != 0 && read(STDIN_FILENO, ignored, sizeof ignored) <= 0)
    return false;
  if (watched[2].revents != 0 || watched[3].revents != 0)
    return false;
  return watched[1].revents == 0 || take_orders(keeper);
}

static void end_controller(struct keeper *keeper, int failed) {
  char line[32];
  struct maru_death death;
  snprintf(line, sizeof line, "end %d\n", failed);
  (void)answer(keeper, line);
  close(keeper->answers);
  int pidfd = maru_pidfd_open(keeper->controller);
  if (maru_reap_wait(keeper->controller, pidfd, CONTROLLER_ENDS_MS, &death) == 0) {
    (void)maru_kill(keeper->controller, pidfd);
    /* One that sleeps in the kernel for good is left to whoever inherits it. */
    if (maru_reap_wait(keeper->controller, pidfd, CONTROLLER_ENDS_MS / 3, &death) == 0)
      return;
  }
  if (death.signalled || death.code != 0)
    fprintf(stderr, "maru: the controller of input and output failed (%s %d); all is put back\n",
            death.signalled ? "signal" : "status", death.code);
}

static int run_keeper(struct keeper *keeper, char **argv) {
  sigset_t ends, before;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGHUP);
  sigprocmask(SIG_BLOCK, &ends, &before);
  signal(SIGPIPE, SIG_IGN);
  /* A journal above the user's file size limit is an error, not our end. */
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
  /* A terminal's signals are the command's business. */
  (void)setsid();
  umask(077);
  keeper->signals = signalfd(-1, &ends, SFD_CLOEXEC);
  keeper->program = maru_pidfd_open(keeper->tree);
  open_journal(keeper);
  int error = start_controller(keeper, argv, &before);
  if (error < 0) {
    fprintf(stderr, "maru: cannot start the controller: %s\n", strerror(-error));
    mr_journal_close(&keeper->journal, false);
    return STATUS_UNAVAILABLE;
  }
  for (bool on = greet(keeper); on;)
    on = watch(keeper);
  int failed = keeper->off == NULL ? mr_journal_back_all(&keeper->journal) : 0;
  if (failed > 0)
    fprintf(stderr,
            "maru: %d settings could not be put back; the next `maru run --io` tries again\n",
            failed);
  if (keeper->off == NULL)
    mr_journal_close(&keeper->journal, failed > 0);
  end_controller(keeper, failed);
  free(keeper->batch);
  return 0;
}

static int refuse(const char *what, const char *about) {
  fprintf(stderr, "maru-steer: %s: %s\n", what, about);
  return STATUS_USAGE;
}

/* A process that dies closes our pipe before it lets go of its journal. */
static void await_end(pid_t keeper) {
  struct pollfd end = {.fd = maru_pidfd_open(keeper), .events = POLLIN};
  if (end.fd < 0)
    return;
  (void)poll(&end, 1, KEEPER_ENDS_MS);
  close(end.fd);
}

static int repair(const char *root, pid_t after) {
  if (after > 0)
    await_end(after);
  int failed = mr_journal_repair(root);
  if (failed < 0)
    fprintf(stderr, "maru-steer: cannot put back what was left: %s\n", strerror(-failed));
  if (failed > 0)
    fprintf(stderr, "maru-steer: %d settings could not be put back; the next run tries again\n",
            failed);
  return failed == 0 ? 0 : STATUS_UNAVAILABLE;
}

static int move(pid_t tree, int node) {
  long stayed = 0;
  int moved = mr_pages_move(tree, node, &stayed);
  if (moved < 0) {
    fprintf(stderr, "maru-steer: the memory of process %d cannot be moved to node %d: %s\n",
            (int)tree, node, strerror(-moved));
    return STATUS_UNAVAILABLE;
  }
  printf("%d %ld\n", moved, stayed);
  return 0;
}

int main(int argc, char **argv) {
  struct keeper *keeper = calloc(1, sizeof *keeper);
  if (keeper == NULL)
    return STATUS_UNAVAILABLE;
  keeper->root = "";
  keeper->journal.fd = -1;
  if (argc < 2)
    return refuse("usage", "maru-steer keeper|repair|move [OPTION VALUE]... [-- CONTROLLER]");
  int64_t tree = 0, after = 0, node = -1;
  const char *place = "affinity";
  const struct mr_option options[] = {
      {"--root", MR_TEXT, &keeper->root, NULL, 0, 0},
      {"--tree", MR_WHOLE, &tree, "processes", 2, INT32_MAX},
      {"--place", MR_TEXT, &place, NULL, 0, 0},
      {"--node", MR_WHOLE, &node, "nodes", 0, INT32_MAX},
      {"--after", MR_WHOLE, &after, "processes", 0, INT32_MAX},
  };
  /* Behind the command's word. */
  int at =
      1 + mr_arguments("maru-steer", options, sizeof options / sizeof *options, argc - 1, argv + 1);
  keeper->tree = (pid_t)tree;
  keeper->cpusets = strcmp(place, "cpusets") == 0;
  int status;
  if (strcmp(argv[1], "repair") == 0)
    status = repair(keeper->root, (pid_t)after);
  else if (strcmp(argv[1], "move") == 0)
    status = keeper->tree > 1 && node >= 0
                 ? move(keeper->tree, (int)node)
                 : refuse("move needs --tree PID and --node NODE", argv[1]);
  else if (strcmp(argv[1], "keeper") != 0)
    status = refuse("unknown command", argv[1]);
  else if (keeper->tree <= 1 || at >= argc)
    status = refuse("keeper needs --tree PID and a controller", argv[1]);
  else
    status = run_keeper(keeper, argv + at);
  free(keeper);
  return status;
}
