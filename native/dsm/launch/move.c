#define _GNU_SOURCE
#include "move.h"

#include "numbers.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

struct answer {
  int32_t status;
  char text[512];
};

/* Its length. */
static socklen_t name_socket(struct sockaddr_un *name, int64_t launcher) {
  *name = (struct sockaddr_un){.sun_family = AF_UNIX};
  int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "maru-launch-%lld",
                        (long long)launcher);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* The process at the other end; false: the kernel does not say. */
static bool meet_peer(int fd, struct ucred *who) {
  socklen_t size = sizeof *who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &size) == 0;
}

static bool may_ask(int fd) {
  struct ucred who;
  return meet_peer(fd, &who) && (who.uid == geteuid() || who.uid == 0);
}

/* ---- the launcher ------------------------------------------------------------------------ */

void mr_move_listen(struct mr_move *move) {
  struct sockaddr_un name;
  socklen_t length = name_socket(&name, getpid());
  *move = (struct mr_move){.asker = -1};
  move->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (move->listener >= 0 && bind(move->listener, (struct sockaddr *)&name, length) == 0 &&
      listen(move->listener, SOMAXCONN) == 0)
    return;
  fprintf(stderr, "maru: launch: no node of this job can be moved (--move): %s\n", strerror(errno));
  if (move->listener >= 0)
    close(move->listener);
  move->listener = -1;
}

struct pollfd mr_move_poll(const struct mr_move *move) {
  int fd = move->wanted ? -1 : move->asker >= 0 ? move->asker : move->listener;
  return (struct pollfd){.fd = fd, .events = POLLIN};
}

void mr_move_answer(struct mr_move *move, int status, const char *format, ...) {
  struct answer answer = {.status = status};
  va_list rest;
  va_start(rest, format);
  vsnprintf(answer.text, sizeof answer.text, format, rest);
  va_end(rest);
  /* Who asked may be gone: then nobody is to be told. */
  (void)!send(move->asker, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
  close(move->asker);
  move->asker = -1;
  move->wanted = move->starts = false;
}

static void meet(struct mr_move *move) {
  move->asker = accept4(move->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (move->asker >= 0 && !may_ask(move->asker))
    mr_move_answer(move, STATUS_UNAVAILABLE, "the job is another user's");
}

/* "NODE=HOST". */
static bool read_wish(char *text, unsigned *node, char **host) {
  int64_t number;
  *host = strchr(text, '=');
  if (*host == NULL || strlen(*host + 1) == 0 || strlen(*host + 1) >= MR_HOST_NAME)
    return false;
  *(*host)++ = 0;
  if (mr_whole(text, 0, MR_LAUNCH_NODES - 1, &number) < 0)
    return false;
  *node = (unsigned)number;
  return true;
}

static void take_wish(struct mr_move *move, struct mr_hosts *all, unsigned nodes, char *text) {
  char *host;
  if (!read_wish(text, &move->node, &host))
    mr_move_answer(move, STATUS_USAGE, "NODE=HOST is needed");
  else if (move->node >= nodes)
    mr_move_answer(move, STATUS_USAGE, "the job has no node %u", move->node);
  else if (!mr_hosts_has(all, host))
    mr_move_answer(move, STATUS_USAGE, "no host %s is left of the job's --hosts", host);
  else if (strcmp(mr_hosts_of(all, move->node)->name, host) == 0)
    mr_move_answer(move, 0, "node %u is on host %s already", move->node, host);
  else {
    strcpy(move->host, host);
    move->wanted = true;
  }
}

bool mr_move_hear(struct mr_move *move, struct mr_hosts *all, unsigned nodes) {
  char text[MR_HOST_NAME + 16];
  if (move->asker < 0) {
    meet(move);
    return false;
  }
  ssize_t length = recv(move->asker, text, sizeof text - 1, 0);
  if (length <= 0) {
    close(move->asker);
    move->asker = -1;
    return false;
  }
  text[length] = 0;
  take_wish(move, all, nodes, text);
  return move->wanted;
}

/* ---- who asks ---------------------------------------------------------------------------- */

/* Anybody may listen at that name, and in another container of this host's network a launcher may
 * have the same pid. */
static bool is_launcher(int fd, int64_t pid) {
  struct ucred who;
  return meet_peer(fd, &who) && who.pid == pid && (who.uid == geteuid() || geteuid() == 0);
}

static int meet_launcher(const char *text) {
  struct sockaddr_un name;
  int64_t launcher;
  char what[96];
  if (mr_whole(text, 1, INT32_MAX, &launcher) < 0)
    mr_launch_fail(STATUS_USAGE, "--move: the pid of a 'maru launch' is needed, not", text);
  socklen_t length = name_socket(&name, launcher);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&name, length) == 0 && is_launcher(fd, launcher))
    return fd;
  snprintf(what, sizeof what,
           "--move: process %s is no launcher of yours with --hosts and checkpoints", text);
  mr_launch_fail(STATUS_UNAVAILABLE, what, "");
}

int mr_move_ask(const char *wish, const char *launcher) {
  char text[MR_HOST_NAME + 16], *host;
  struct answer answer;
  unsigned node;
  snprintf(text, sizeof text, "%s", wish);
  if (strlen(wish) >= sizeof text || !read_wish(text, &node, &host))
    mr_launch_fail(STATUS_USAGE, "--move: NODE=HOST is needed, not", wish);
  int fd = meet_launcher(launcher);
  if (send(fd, wish, strlen(wish), MSG_NOSIGNAL) < 0 ||
      recv(fd, &answer, sizeof answer, 0) != sizeof answer)
    mr_launch_fail(STATUS_LOST, "--move: the job ended before the node had moved", "");
  answer.text[sizeof answer.text - 1] = 0;
  fprintf(stderr, "maru: launch: %s\n", answer.text);
  return answer.status;
}
