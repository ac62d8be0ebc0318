#define _GNU_SOURCE
#include "clerk.h"

#include "numbers.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define LINK "/memfd:maru-board (deleted)"
#define STEP_NS INT64_C(10000000)  /* of the search, between two lists */
#define BOARD_NS INT64_C(10000000) /* for the threads of one board, in one list */
#define LOOKS_A_PROCESS 4096u      /* descriptors */
#define LOOKS_A_USER 65536u        /* the same, in one search */
#define REST 9                     /* a list is followed by a pause of so many times its time */
#define LOOKS_TO_OPEN 16u          /* opening costs as much as so many looks */
#define LOOKS_UNCHARGED 256u       /* at a process for whose user there is no account */

static int64_t own_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- threads -------------------------------------------------------------- */

static void answer_asks(struct boost_clerk *clerk) {
  int64_t spent[BOOST_BOARDS] = {0};
  for (unsigned i = 0; i < clerk->ask_count; i++) {
    struct boost_ask *ask = &clerk->asks[i];
    int64_t began = own_time();
    ask->rc = -EINTR;
    if (spent[ask->slot] < BOARD_NS)
      ask->rc =
          boost_admit(&ask->subject, ask->tid, ask->start, &ask->board->status, &clerk->served);
    spent[ask->slot] += own_time() - began;
  }
}

/* ---- boards --------------------------------------------------------------- */

/* The user's account in this search; NULL: too many users. */
static unsigned *account_of(struct boost_clerk *clerk, uid_t user) {
  unsigned i = 0;
  while (i < clerk->user_count && clerk->users[i].user != user)
    i++;
  if (i == BOOST_KNOWN_USERS)
    return NULL;
  if (i == clerk->user_count) {
    clerk->users[i].user = user;
    clerk->users[i].looked = 0;
    clerk->user_count++;
  }
  return &clerk->users[i].looked;
}

static unsigned known_of(const struct boost_clerk *clerk, uid_t user) {
  unsigned count = 0;
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    count += clerk->boards[i].inode != 0 && clerk->boards[i].user == user;
  for (unsigned i = 0; i < clerk->found_count; i++)
    count += clerk->found[i]->status.st_uid == user;
  return count;
}

static bool is_known(struct boost_clerk *clerk, ino_t inode) {
  for (unsigned i = 0; i < clerk->found_count; i++)
    if (clerk->found[i]->status.st_ino == inode)
      return true;
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (clerk->boards[i].inode == inode) {
      clerk->seen[i] = inode;
      return true;
    }
  return false;
}

static bool has_room(const struct boost_clerk *clerk, uid_t user) {
  unsigned all = clerk->found_count;
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    all += clerk->boards[i].inode != 0;
  return all < BOOST_BOARDS && (geteuid() != 0 || known_of(clerk, user) < BOOST_BOARDS_A_USER);
}

struct holder {
  struct boost_clerk *clerk;
  struct mr_task task;
};

static bool skips(void *context, const struct stat *status) {
  const struct holder *holder = context;
  struct boost_clerk *clerk = holder->clerk;
  if (is_known(clerk, status->st_ino) || clerk->found_count == BOOST_FINDS ||
      !boost_serves(&clerk->served, &holder->task, status->st_uid))
    return true;
  if (has_room(clerk, status->st_uid))
    return false;
  clerk->full = true;
  return true;
}

/* One without channels takes no place yet; one that another daemon has, none at all. */
static void look_at_board(struct holder *holder, const char *path) {
  struct boost_clerk *clerk = holder->clerk;
  struct boost_board *made;
  if (boost_board_open(&made, path, skips, holder) < 0)
    return;
  bool has_channels = maru_wait_table_of(&made->board, &made->table) == 0;
  bool ours = clerk->dry_run || boost_board_lock(made) == 0;
  clerk->taken |= !ours;
  if (!has_channels || !ours) {
    boost_board_free(made);
    return;
  }
  if (clerk->dry_run)
    maru_board_forget_fd(&made->board);
  clerk->found[clerk->found_count++] = made;
}

static ino_t namespace_of(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

/* An ordinary user has as many user numbers as he likes, in user namespaces that he made. */
static uid_t charged(const struct boost_clerk *clerk, const char *pid, uid_t user) {
  char path[48];
  snprintf(path, sizeof path, "/proc/%.16s/ns/user", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && namespace_of(fd) != clerk->user_namespace &&
         ioctl(fd, NS_GET_OWNER_UID, &user) == 0) {
    int outer = ioctl(fd, NS_GET_PARENT);
    close(fd);
    fd = outer;
  }
  if (fd >= 0)
    close(fd);
  return user;
}

static void look_at_process(struct boost_clerk *clerk, const char *pid) {
  char folder[48], path[320], link[64];
  struct holder holder = {.clerk = clerk};
  if (mr_task_read((pid_t)mr_leading(pid, 1, INT32_MAX, 0), &holder.task) < 0)
    return;
  snprintf(folder, sizeof folder, "/proc/%.16s/fd", pid);
  DIR *dir = opendir(folder);
  if (dir == NULL)
    return;
  unsigned uncharged = LOOKS_A_USER - LOOKS_UNCHARGED;
  unsigned *looked = account_of(clerk, charged(clerk, pid, holder.task.users[0]));
  if (looked == NULL)
    looked = &uncharged;
  struct dirent *entry;
  for (unsigned own = 0;
       *looked < LOOKS_A_USER && own < LOOKS_A_PROCESS && (entry = readdir(dir)) != NULL;
       own++, ++*looked) {
    ssize_t length = readlinkat(dirfd(dir), entry->d_name, link, sizeof link);
    if (length != sizeof LINK - 1 || memcmp(link, LINK, sizeof LINK - 1) != 0)
      continue;
    *looked += LOOKS_TO_OPEN;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    look_at_board(&holder, path);
  }
  closedir(dir);
}

static ino_t own_namespace(void) {
  struct stat status;
  return stat("/proc/self/ns/user", &status) == 0 ? status.st_ino : 0;
}

static void begin_search(struct boost_clerk *clerk) {
  clerk->proc = opendir("/proc");
  clerk->user_namespace = own_namespace();
  clerk->user_count = 0;
  clerk->took_ns = 0;
  memset(clerk->seen, 0, sizeof clerk->seen);
}

static void search(struct boost_clerk *clerk) {
  int64_t began = own_time();
  struct dirent *entry = NULL;
  if (clerk->proc == NULL)
    begin_search(clerk);
  while (clerk->proc != NULL && own_time() - began < STEP_NS &&
         (entry = readdir(clerk->proc)) != NULL)
    /* Our own descriptors keep no board alive. */
    if (isdigit((unsigned char)entry->d_name[0]) &&
        mr_leading(entry->d_name, 1, INT32_MAX, 0) != getpid())
      look_at_process(clerk, entry->d_name);
  clerk->took_ns += own_time() - began;
  if (clerk->proc == NULL || entry != NULL)
    return;
  closedir(clerk->proc);
  clerk->proc = NULL;
  clerk->complete = true;
}

/* ---- the thread ----------------------------------------------------------- */

static void rest(int64_t time_ns) {
  struct timespec pause = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};
  nanosleep(&pause, NULL);
}

/* It sleeps in a semaphore, not in maru_wait, which looks every 50 ms whether a notifier was
 * killed. A daemon that nobody needs shall not wake for that. The worker, which alone asks, is
 * of the same process. */
static void *serve(void *context) {
  struct boost_clerk *clerk = context;
  for (;;) {
    while (sem_wait(&clerk->asked) < 0)
      continue;
    int64_t began = own_time();
    while (clerk->old_count > 0)
      boost_board_free(clerk->old[--clerk->old_count]);
    answer_asks(clerk);
    if (clerk->searches)
      search(clerk);
    /* Release: the answers come before. */
    atomic_store_explicit(&clerk->busy, 0, memory_order_release);
    /* Whatever users put into /proc: a tenth of a CPU at most. */
    rest(REST * (own_time() - began));
  }
  return NULL;
}

int boost_clerk_start(struct boost_clerk *clerk) {
  pthread_t thread;
  if (sem_init(&clerk->asked, 0, 0) < 0)
    return -errno;
  int rc = pthread_create(&thread, NULL, serve, clerk);
  if (rc == 0)
    pthread_detach(thread);
  return -rc;
}

bool boost_clerk_idle(struct boost_clerk *clerk) {
  /* Acquire: pairs with the release in serve. */
  return atomic_load_explicit(&clerk->busy, memory_order_acquire) == 0;
}

void boost_clerk_ask(struct boost_clerk *clerk) {
  clerk->found_count = 0;
  clerk->full = clerk->taken = clerk->complete = false;
  /* Relaxed: the semaphore orders. */
  atomic_store_explicit(&clerk->busy, 1, memory_order_relaxed);
  sem_post(&clerk->asked);
}
