#define _GNU_SOURCE
#include "ranks.h"

#include "address.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <maru/wait.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX 4096

int maru_ranks_launcher(void) { return (int)mr_launcher_find(); }

/* Of Slurm's list, as "4(x2),3": what it has for that host; 0: nothing. */
static unsigned said_for(const char *list, int64_t host) {
  for (;;) {
    char *end;
    long tasks = strtol(list, &end, 10), hosts = 1;
    if (end == list || tasks < 0 || tasks > RANKS_MAX)
      return 0;
    if (end[0] == '(' && end[1] == 'x') {
      hosts = strtol(end + 2, &end, 10);
      if (*end++ != ')')
        return 0;
    }
    if (host < hosts)
      return (unsigned)tasks;
    host -= hosts;
    if (*end != ',')
      return 0;
    list = end + 1;
  }
}

/* 0: the launcher does not say it. */
static unsigned ranks_here(void) {
  static const char *const said[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    int64_t here = mr_launcher_said(said[i]);
    if (here > 0)
      return (unsigned)here;
  }
  const char *list = getenv("SLURM_STEP_TASKS_PER_NODE");
  return list != NULL ? said_for(list, mr_launcher_said("SLURM_NODEID")) : 0;
}

unsigned maru_ranks_share(unsigned workers) {
  cpu_set_t mine;
  unsigned here = ranks_here();
  if (here < 2 || (sched_getaffinity(0, sizeof mine, &mine) == 0 &&
                   CPU_COUNT(&mine) < sysconf(_SC_NPROCESSORS_ONLN)))
    return workers;
  return workers > here ? workers / here : 1;
}

/* ---- connections --------------------------------------------------------------------- */

/* Small messages go at once; of a host that is gone the kernel tells in some 15 s where nothing is
 * under way to it. No TCP_USER_TIMEOUT: the kernel applies it to a peer that lives and does not
 * read, too. */
static void ready(int fd) {
  int on = 1, idle = 5, every = 2, count = 5;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

int maru_ranks_accept(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  /* Linux says here, too, what became of a connection that nobody has yet. */
  if (fd < 0)
    return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM ? -errno
                                                                                     : -EAGAIN;
  ready(fd);
  return fd;
}

static int call(const struct sockaddr_storage *address, int seconds) {
  int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return -errno;
  int error = 0;
  if (connect(fd, (const struct sockaddr *)address, mr_address_size(address)) < 0)
    error = errno;
  if (error == EINPROGRESS) {
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof error;
    if (poll(&polled, 1, seconds * 1000) <= 0)
      error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
      error = errno;
  }
  if (error != 0) {
    close(fd);
    return -error;
  }
  ready(fd);
  return fd;
}

/* ---- meeting ------------------------------------------------------------------------- */

/* Of a process, as its environment names it no more. */
static enum mr_launcher met_by;

/* A program that this rank starts is no rank, and must not speak on its descriptors.  A program
 * that is MPI's too finds its launcher by the same names. */
static void forget_launcher(void) {
  static const char *const names[] = {"PMI_FD", "PMI_RANK", "PMIX_RANK", "PMIX_NAMESPACE",
                                      "SLURM_STEP_NUM_TASKS"};
  if (dlsym(RTLD_DEFAULT, "MPI_Init") != NULL)
    return;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    unsetenv(names[i]);
}

int maru_ranks_meet(struct maru_ranks *ranks, int seconds) {
  struct mr_meeting meeting = {.listener = -1};
  *ranks = (struct maru_ranks){.listener = -1, .first = -1};
  met_by = mr_launcher_find();
  int rc =
      mr_launcher_meet_first(met_by, &meeting, RANKS_MAX, seconds, ranks->why, sizeof ranks->why);
  forget_launcher();
  ranks->count = meeting.nodes;
  ranks->me = meeting.me;
  memcpy(ranks->secret, meeting.secret, sizeof meeting.secret);
  explicit_bzero(meeting.secret, sizeof meeting.secret);
  if (rc == 0 && meeting.nodes > 1 && meeting.me == 0) {
    ranks->listener = meeting.listener;
    fcntl(ranks->listener, F_SETFL, O_NONBLOCK);
  } else if (rc == 0 && meeting.nodes > 1) {
    rc = ranks->first = call(&meeting.addresses[0], seconds);
    if (rc < 0) {
      char text[MR_ADDRESS_TEXT];
      mr_address_write(meeting.addresses, mr_address_port(meeting.addresses), text);
      snprintf(ranks->why, sizeof ranks->why, "rank 0 cannot be reached at %s: %s", text,
               strerror(-rc));
    }
  }
  free(meeting.addresses);
  return rc < 0 ? rc : 0;
}

/* ---- agents on other hosts --------------------------------------------------------------- */

int maru_ranks_spawn(char *const *command, const int *given, unsigned count) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  pid_t pid = 0;
  sigemptyset(&none);
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  /* The terminal's signals are for us. */
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  int rc = 0;
  for (unsigned i = 0; i < count && rc == 0; i++)
    rc = posix_spawn_file_actions_adddup2(&actions, given[i], (int)i);
  if (rc == 0)
    rc = posix_spawnp(&pid, command[0], &actions, &attributes, command, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return rc != 0 ? -rc : pid;
}

static int reap(int process, int ms) {
  int status;
  for (int64_t until = maru_now_ns() + ms * INT64_C(1000000);;) {
    pid_t got = waitpid(process, &status, WNOHANG);
    if (got < 0 && errno != EINTR)
      return -errno;
    if (got == process)
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (maru_now_ns() >= until)
      return -EAGAIN;
    usleep(5000);
  }
}

int maru_ranks_end(int process, int ms) {
  /* While it is not reaped, its number and its group's are nobody else's. */
  siginfo_t seen = {0};
  for (int64_t until = maru_now_ns() + ms * INT64_C(1000000); maru_now_ns() < until;) {
    if (waitid(P_PID, (id_t)process, &seen, WEXITED | WNOHANG | WNOWAIT) < 0 && errno != EINTR)
      return -errno;
    if (seen.si_pid == process)
      break;
    usleep(5000);
  }
  kill(-process, SIGKILL);
  int status = reap(process, 1000);
  return seen.si_pid == process ? status : -EAGAIN;
}

int maru_ranks_leave(void) { return mr_launcher_leave(met_by); }

void maru_ranks_abort(int status) { mr_launcher_abort(met_by, status); }

void maru_ranks_proof(const uint8_t *secret, const void *bytes, size_t length,
                      uint8_t proof[MR_HMAC]) {
  struct mr_hmac hmac;
  mr_hmac_begin(&hmac, secret, MR_SECRET);
  mr_hmac_add(&hmac, bytes, length);
  mr_hmac_end(&hmac, proof);
}

/* ---- the program ----------------------------------------------------------------------- */

struct look {
  struct mr_hmac hmac;
  bool with_place;
  int rc;
};

static int add_file(struct mr_hmac *hmac, const char *path) {
  static const size_t part = 1u << 16;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  uint8_t *bytes = malloc(part);
  ssize_t n = fd < 0 || bytes == NULL ? -1 : 0;
  int error = errno;
  while (n >= 0 && ((n = read(fd, bytes, part)) > 0 || (n < 0 && errno == EINTR))) {
    mr_hmac_add(hmac, bytes, n < 0 ? 0 : (size_t)n);
    n = 0;
  }
  error = n < 0 && fd >= 0 ? errno : error;
  free(bytes);
  if (fd >= 0)
    close(fd);
  return n < 0 ? -error : 0;
}

/* The build ID among the notes of a loaded object. */
static bool add_build_id(struct mr_hmac *hmac, const struct dl_phdr_info *object) {
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    if (segment->p_type != PT_NOTE)
      continue;
    const char *at = (const char *)(object->dlpi_addr + segment->p_vaddr);
    const char *end = at + segment->p_memsz;
    while ((size_t)(end - at) > sizeof(ElfW(Nhdr))) {
      const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
      const char *name = at + sizeof *note;
      const char *body = name + ((note->n_namesz + 3u) & ~3u);
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
        mr_hmac_add(hmac, body, note->n_descsz);
        return true;
      }
      at = body + ((note->n_descsz + 3u) & ~3u);
    }
  }
  return false;
}

/* The first object is the program. */
static int add_object(struct dl_phdr_info *object, size_t size, void *state) {
  struct look *look = state;
  const char *name = object->dlpi_name;
  (void)size;
  if (name[0] != 0 && strstr(name, "/libHS") == NULL)
    return 0;
  if (look->with_place)
    mr_hmac_add(&look->hmac, &object->dlpi_addr, sizeof object->dlpi_addr);
  if (!add_build_id(&look->hmac, object))
    look->rc = add_file(&look->hmac, name[0] != 0 ? name : "/proc/self/exe");
  return look->rc;
}

static int look_at_program(bool with_place, uint8_t identity[MR_HMAC]) {
  struct look look = {.with_place = with_place};
  mr_hmac_begin(&look.hmac, "", 0);
  dl_iterate_phdr(add_object, &look);
  mr_hmac_end(&look.hmac, identity);
  return look.rc;
}

int maru_ranks_program(uint8_t identity[MR_HMAC]) { return look_at_program(false, identity); }
int maru_ranks_layout(uint8_t identity[MR_HMAC]) { return look_at_program(true, identity); }
