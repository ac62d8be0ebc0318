#define _GNU_SOURCE
#include "subject.h"

#include "process.h"
#include "task.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define RAISE_STEPS 5
#define HIGHEST_RAISED 80 /* the daemon and its guard stand above */
#define RAISED_NICE (-20)

/* ---- who is it ------------------------------------------------------------ */

/* Tgid and whether all four user ids are `owner`. */
static int read_status(int32_t tid, int32_t *tgid, uid_t owner) {
  char path[32], line[256];
  unsigned user[4];
  int found = 0, rc = -ESRCH;
  snprintf(path, sizeof path, "/proc/%d/status", tid);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return -ESRCH;
  while (found < 2 && fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "Tgid: %d", tgid) == 1)
      found++;
    if (sscanf(line, "Uid: %u %u %u %u", &user[0], &user[1], &user[2], &user[3]) == 4) {
      rc =
          user[0] == owner && user[1] == owner && user[2] == owner && user[3] == owner ? 0 : -EPERM;
      found++;
    }
  }
  fclose(file);
  return found == 2 ? rc : -ESRCH;
}

static int has_mapped(int32_t tgid, const struct stat *board) {
  char path[32], line[512];
  int rc = -EACCES;
  snprintf(path, sizeof path, "/proc/%d/maps", tgid);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return -ESRCH;
  while (rc != 0 && fgets(line, sizeof line, file) != NULL) {
    unsigned high, low;
    unsigned long inode;
    if (sscanf(line, "%*s %*s %*s %x:%x %lu", &high, &low, &inode) == 3 &&
        makedev(high, low) == board->st_dev && inode == board->st_ino)
      rc = 0;
  }
  fclose(file);
  return rc;
}

/* A process that lives now has had its number since it was admitted. */
static int lives(const struct boost_subject *subject) {
  struct pollfd p = {.fd = subject->pidfd, .events = POLLIN};
  if (poll(&p, 1, 0) != 0)
    return -ESRCH;
  /* A thread's number may go to another thread while the process lives. */
  if (subject->tid != subject->tgid && mr_start_time(subject->tid) != subject->start)
    return -ESRCH;
  return 0;
}

/* It may have become another user's by exec. */
static int still_owners(const struct boost_subject *subject) {
  char path[32];
  struct stat status;
  snprintf(path, sizeof path, "/proc/%d", subject->tid);
  if (stat(path, &status) < 0)
    return -ESRCH;
  return status.st_uid == subject->owner ? 0 : -EPERM;
}

static bool is_lowered(const struct mr_sched *sched) {
  struct mr_sched lowered = mr_sched_lowered(sched);
  return mr_sched_equal(sched, &lowered);
}

static int check(struct boost_subject *subject, const struct stat *board) {
  int rc = read_status(subject->tid, &subject->tgid, subject->owner);
  if (rc == 0 && geteuid() != 0 && geteuid() != subject->owner)
    rc = -EPERM;
  if (rc < 0)
    return rc;
  subject->pidfd = maru_pidfd_open(subject->tgid);
  if (subject->pidfd < 0)
    return subject->pidfd;
  if (mr_start_time(subject->tid) != subject->start)
    return -ESRCH;
  rc = has_mapped(subject->tgid, board);
  if (rc == 0)
    rc = mr_sched_get(subject->tid, &subject->normal);
  if (rc == 0 && is_lowered(&subject->normal))
    rc = -EAGAIN;
  return rc == 0 ? lives(subject) : rc;
}

int boost_admit(struct boost_subject *subject, int32_t tid, uint64_t start,
                const struct stat *board) {
  if (tid <= 0 || start == 0)
    return -ESRCH;
  *subject =
      (struct boost_subject){.tid = tid, .pidfd = -1, .start = start, .owner = board->st_uid};
  int rc = check(subject, board);
  if (rc < 0)
    boost_dismiss(subject);
  return rc;
}

void boost_dismiss(struct boost_subject *subject) {
  if (subject->pidfd >= 0)
    close(subject->pidfd);
  *subject = (struct boost_subject){.pidfd = -1};
}

/* ---- what is done to it --------------------------------------------------- */

static struct mr_sched raised(const struct mr_sched *normal, enum boost_how how) {
  struct mr_sched up = {.policy = normal->policy, .on_fork = 1};
  bool by_clock = normal->policy == SCHED_FIFO || normal->policy == SCHED_RR;
  if (how == BOOST_BY_NICE && !by_clock) {
    up.nice = RAISED_NICE;
    return up;
  }
  up.policy = by_clock ? normal->policy : (uint32_t)SCHED_FIFO;
  up.priority = normal->priority + RAISE_STEPS;
  if (up.priority > HIGHEST_RAISED)
    up.priority = normal->priority > HIGHEST_RAISED ? normal->priority : HIGHEST_RAISED;
  return up;
}

/* Sets, and looks whether it was the right thread all the time. */
static int place(struct boost_subject *subject, const struct mr_sched *wanted) {
  struct mr_sched found;
  int rc = lives(subject);
  if (rc == 0)
    rc = mr_sched_get(subject->tid, &found);
  if (rc == 0)
    rc = mr_sched_set(subject->tid, wanted);
  if (rc == 0 && lives(subject) < 0) {
    (void)mr_sched_set(subject->tid, &found);
    rc = -ESRCH;
  }
  return rc;
}

int boost_raise(struct boost_subject *subject, enum boost_how how) {
  struct mr_sched now, up;
  if (how == BOOST_BY_NOTHING)
    return -ENOTSUP;
  int rc = still_owners(subject);
  if (rc == 0)
    rc = mr_sched_get(subject->tid, &now);
  if (rc < 0)
    return rc;
  /* It may have changed its own place since; relaxed: we alone write the mark. */
  if (!is_lowered(&now) && !atomic_load_explicit(&subject->touched, memory_order_relaxed))
    subject->normal = now;
  up = raised(&subject->normal, how);
  /* Release: whoever sees the mark knows the place to go back to.  Before the deed:
   * the guard undoes what is marked. */
  atomic_store_explicit(&subject->touched, 1, memory_order_release);
  rc = place(subject, &up);
  if (rc < 0)
    atomic_store_explicit(&subject->touched, 0, memory_order_relaxed);
  return rc;
}

int boost_end(struct boost_subject *subject) {
  struct mr_sched now;
  /* Relaxed: we alone write the mark. */
  if (!atomic_load_explicit(&subject->touched, memory_order_relaxed))
    return 0;
  int rc = mr_sched_get(subject->tid, &now);
  if (rc == 0 && !is_lowered(&now))
    rc = place(subject, &subject->normal);
  if (rc == 0 || rc == -ESRCH)
    /* Release: it is in its place before the guard need not look any more. */
    atomic_store_explicit(&subject->touched, 0, memory_order_release);
  return rc;
}

int boost_restore(struct boost_subject *subject) {
  struct mr_sched now;
  int rc = mr_sched_get(subject->tid, &now);
  return rc == 0 && is_lowered(&now) ? place(subject, &subject->normal) : rc;
}

int boost_rescue(const struct boost_subject *subject) {
  struct boost_subject copy = *subject;
  struct mr_sched now;
  /* Acquire: pairs with the mark of boost_raise. */
  bool touched = atomic_load_explicit(&subject->touched, memory_order_acquire) != 0;
  copy.pidfd = maru_pidfd_open(copy.tgid);
  if (copy.pidfd < 0)
    return copy.pidfd;
  int rc = mr_start_time(copy.tid) == copy.start ? mr_sched_get(copy.tid, &now) : -ESRCH;
  if (rc == 0 && (touched || is_lowered(&now)))
    rc = place(&copy, &copy.normal);
  close(copy.pidfd);
  return rc;
}

enum boost_how boost_means(void) {
  struct mr_sched own, higher;
  if (mr_sched_get(0, &own) < 0)
    return BOOST_BY_NOTHING;
  for (enum boost_how how = BOOST_BY_FIFO; how < BOOST_BY_NOTHING; how++) {
    higher = raised(&own, how);
    higher.on_fork = 0; /* else the way back may be barred */
    if (mr_sched_set(0, &higher) == 0) {
      (void)mr_sched_set(0, &own);
      return how;
    }
  }
  return BOOST_BY_NOTHING;
}
