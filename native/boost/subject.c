#define _GNU_SOURCE
#include "subject.h"

#include "numbers.h"
#include "process.h"
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define RAISE_STEPS 5
#define HIGHEST_RAISED 80 /* the daemon and its rescuer stand above */
#define RAISED_NICE (-20)
#define GENTLE_NICE (-1)

/* ---- who is it ------------------------------------------------------------ */

#define CAP_SYS_NICE_BIT 23
#define MOST_OF_MAPS (1 << 20)

static bool all_users_are(const struct mr_task *task, uid_t owner) {
  for (size_t i = 0; i < sizeof task->users / sizeof *task->users; i++)
    if (task->users[i] != owner)
      return false;
  return true;
}

bool boost_serves(const struct boost_served *served, const struct mr_task *task, uid_t owner) {
  if (served->user_count + served->group_count == 0)
    return true;
  for (unsigned i = 0; i < served->user_count; i++)
    if (served->users[i] == owner)
      return true;
  /* A process speaks for the groups of its own user alone. */
  for (unsigned i = 0; i < served->group_count && task->users[0] == owner; i++)
    for (unsigned k = 0; k < task->group_count; k++)
      if (served->groups[i] == task->groups[k])
        return true;
  return false;
}

/* One line of maps; what a path adds to it is no line of its own, however long. */
static bool is_mapping_of(const char *line, const struct stat *board) {
  unsigned high, low;
  unsigned long inode;
  return sscanf(line, "%*s %*s %*s %x:%x %lu", &high, &low, &inode) == 3 &&
         makedev(high, low) == board->st_dev && inode == board->st_ino;
}

static int has_mapped(int32_t tgid, const struct stat *board) {
  char path[32], piece[512];
  int rc = -EACCES;
  size_t seen = 0;
  bool begins = true;
  snprintf(path, sizeof path, "/proc/%d/maps", tgid);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return -ESRCH;
  while (rc == -EACCES && fgets(piece, sizeof piece, file) != NULL) {
    size_t length = strlen(piece);
    if (begins && is_mapping_of(piece, board))
      rc = 0;
    else if ((seen += length) > MOST_OF_MAPS)
      rc = -E2BIG;
    begins = length > 0 && piece[length - 1] == '\n';
  }
  fclose(file);
  return rc;
}

static bool same_user_namespace(int32_t tgid) {
  char path[40];
  struct stat theirs, ours;
  snprintf(path, sizeof path, "/proc/%d/ns/user", tgid);
  return stat(path, &theirs) == 0 && stat("/proc/self/ns/user", &ours) == 0 &&
         theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

static bool by_clock(const struct mr_sched *sched) {
  return sched->policy == SCHED_FIFO || sched->policy == SCHED_RR;
}

/* Would the kernel let the thread itself go from nice 19 to that place? */
static bool may_come_back(const struct boost_subject *subject, const struct mr_sched *normal) {
  struct rlimit limit;
  if (subject->capable)
    return true;
  if (by_clock(normal))
    return prlimit(subject->tgid, RLIMIT_RTPRIO, NULL, &limit) == 0 &&
           limit.rlim_cur >= normal->priority;
  return prlimit(subject->tgid, RLIMIT_NICE, NULL, &limit) == 0 &&
         limit.rlim_cur >= (rlim_t)(20 - normal->nice);
}

/* What a raised thread forks begins as SCHED_OTHER with nice 0 (reset-on-fork; else it would
 * begin raised). No thread may beget so what it may not be itself. */
static bool may_have_children(const struct boost_subject *subject, const struct mr_sched *normal) {
  static const struct mr_sched child = {.policy = SCHED_OTHER};
  bool below = normal->policy == SCHED_IDLE || (!by_clock(normal) && normal->nice > 0);
  return !below || may_come_back(subject, &child);
}

/* A process that lives now has had its number since it was admitted. */
bool boost_lives(const struct boost_subject *subject) {
  struct pollfd p = {.fd = subject->pidfd, .events = POLLIN};
  return poll(&p, 1, 0) == 0;
}

static int lives(const struct boost_subject *subject) {
  if (!boost_lives(subject))
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

static struct mr_sched raised(const struct mr_sched *normal, enum boost_how how) {
  struct mr_sched up = {.policy = normal->policy, .on_fork = 1};
  if (how == BOOST_GENTLY) {
    up.nice = GENTLE_NICE;
    return up;
  }
  if (how == BOOST_BY_NICE && !by_clock(normal)) {
    up.nice = RAISED_NICE;
    return up;
  }
  up.policy = by_clock(normal) ? normal->policy : (uint32_t)SCHED_FIFO;
  up.priority = normal->priority + RAISE_STEPS;
  if (up.priority > HIGHEST_RAISED)
    up.priority = normal->priority > HIGHEST_RAISED ? normal->priority : HIGHEST_RAISED;
  return up;
}

/* As this daemon or another one leaves it. */
static bool looks_raised(const struct mr_sched *sched) {
  return sched->on_fork != 0 &&
         (by_clock(sched) || sched->nice == RAISED_NICE || sched->nice == GENTLE_NICE);
}

static bool can_go_gently(const struct mr_sched *normal) {
  return normal->nice == 0 && (normal->policy == SCHED_OTHER || normal->policy == SCHED_BATCH);
}

static int may_be_own(const struct mr_sched *sched) {
  if (!by_clock(sched) && sched->policy != SCHED_OTHER && sched->policy != SCHED_BATCH &&
      sched->policy != SCHED_IDLE)
    return -ENOTSUP;
  return looks_raised(sched) ? -EBUSY : is_lowered(sched) ? -EAGAIN : 0;
}

static int check(struct boost_subject *subject, const struct stat *board,
                 const struct boost_served *served) {
  struct mr_task task;
  int rc = mr_task_read(subject->tid, &task);
  if (rc < 0)
    return rc;
  if (!all_users_are(&task, subject->owner) || !boost_serves(served, &task, subject->owner) ||
      (geteuid() != 0 && geteuid() != subject->owner))
    return -EPERM;
  subject->tgid = task.tgid;
  subject->pidfd = maru_pidfd_open(subject->tgid);
  if (subject->pidfd < 0)
    return subject->pidfd;
  if (mr_start_time(subject->tid) != subject->start)
    return -ESRCH;
  rc = has_mapped(subject->tgid, board);
  if (rc == 0)
    rc = mr_sched_get(subject->tid, &subject->normal);
  /* A capability counts in our user namespace alone. */
  subject->capable =
      task.capabilities >> CAP_SYS_NICE_BIT & 1 && same_user_namespace(subject->tgid);
  subject->has_quota = mr_cpu_quota(subject->tgid) != 0;
  if (rc == 0)
    rc = lives(subject);
  return rc == 0 ? may_be_own(&subject->normal) : rc;
}

int boost_admit(struct boost_subject *subject, int32_t tid, uint64_t start,
                const struct stat *board, const struct boost_served *served) {
  if (tid <= 0 || start == 0)
    return -ESRCH;
  *subject =
      (struct boost_subject){.tid = tid, .pidfd = -1, .start = start, .owner = board->st_uid};
  int rc = check(subject, board, served);
  if (rc < 0 && rc != -EBUSY)
    boost_dismiss(subject);
  return rc;
}

void boost_dismiss(struct boost_subject *subject) {
  if (subject->pidfd >= 0)
    close(subject->pidfd);
  *subject = (struct boost_subject){.pidfd = -1};
}

/* ---- what is done to it --------------------------------------------------- */

/* Under a raise by FIFO the kernel keeps it. */
static int32_t nice_of(int32_t tid) { return getpriority(PRIO_PROCESS, (id_t)tid); }

/* Without CAP_SYS_NICE "reset on fork" cannot be taken away again: then it stays. */
static int put(int32_t tid, const struct mr_sched *wanted) {
  struct mr_sched copy = *wanted;
  int rc = mr_sched_set(tid, &copy);
  if (rc != -EPERM || copy.on_fork)
    return rc;
  copy.on_fork = 1;
  return mr_sched_set(tid, &copy);
}

/* Sets, and looks whether it was the right thread all the time. */
static int place(struct boost_subject *subject, const struct mr_sched *wanted) {
  struct mr_sched found;
  int rc = lives(subject);
  if (rc == 0)
    rc = mr_sched_get(subject->tid, &found);
  if (rc == 0)
    rc = put(subject->tid, wanted);
  if (rc == 0 && lives(subject) < 0) {
    (void)put(subject->tid, &found);
    rc = -ESRCH;
  }
  return rc;
}

/* Real-time priority leads out of a control group's quota, for that is not counted there. */
static bool can_be_raised(const struct boost_subject *subject, enum boost_how how) {
  if (how == BOOST_GENTLY && !can_go_gently(&subject->normal))
    return false;
  if (how == BOOST_BY_FIFO && subject->has_quota)
    return false;
  return may_have_children(subject, &subject->normal);
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
  /* Relaxed: we alone write the mark. */
  if (atomic_load_explicit(&subject->touched, memory_order_relaxed))
    return -EBUSY;
  rc = may_be_own(&now);
  if (rc < 0 && rc != -EAGAIN)
    return rc;
  /* It may have changed its own place since.  What lies at nice 19 and could not leave that by
   * itself did not lower itself: somebody else has put it there. */
  if (rc == 0)
    subject->normal = now;
  else if (!may_come_back(subject, &subject->normal))
    return -ENOTSUP;
  if (!can_be_raised(subject, how))
    return -ENOTSUP;
  subject->how = how;
  subject->found_nice = nice_of(subject->tid);
  up = raised(&subject->normal, how);
  /* Release: a thread that sees the mark knows the place to go back to. Before the deed: the
   * rescuer undoes what is marked. */
  atomic_store_explicit(&subject->touched, 1, memory_order_release);
  rc = place(subject, &up);
  if (rc < 0)
    atomic_store_explicit(&subject->touched, 0, memory_order_relaxed);
  return rc;
}

/* Where a raised thread goes: to its normal place, with the nice that it was given meanwhile.  One
 * that has left where we raised it to was put elsewhere, by itself or by an administrator, and
 * stays there. */
static struct mr_sched way_back(const struct boost_subject *subject, const struct mr_sched *now) {
  struct mr_sched back = subject->normal, up = raised(&subject->normal, subject->how);
  if (!mr_sched_equal(now, &up)) {
    back = *now;
    back.on_fork = subject->normal.on_fork;
    return back;
  }
  int32_t nice = nice_of(subject->tid);
  if (by_clock(now) && !by_clock(&back) && nice != subject->found_nice)
    back.nice = nice;
  return back;
}

static int put_down(struct boost_subject *subject, const struct mr_sched *now) {
  struct mr_sched back = way_back(subject, now), up = raised(&subject->normal, subject->how);
  /* Of SCHED_IDLE the kernel keeps a nice that nobody sees, and that could not be left without a
   * right. It is ours, if it was put there while it was raised. */
  if (back.policy == SCHED_IDLE && !by_clock(&up) && nice_of(subject->tid) == up.nice &&
      lives(subject) == 0)
    (void)setpriority(PRIO_PROCESS, (id_t)subject->tid, subject->found_nice);
  return place(subject, &back);
}

int boost_end(struct boost_subject *subject) {
  struct mr_sched now;
  /* Relaxed: we alone write the mark. */
  if (!atomic_load_explicit(&subject->touched, memory_order_relaxed))
    return 0;
  int rc = mr_sched_get(subject->tid, &now);
  if (rc == 0)
    rc = put_down(subject, &now);
  if (rc == 0 || rc == -ESRCH)
    /* Release: it is in its place before the rescuer need not look any more. */
    atomic_store_explicit(&subject->touched, 0, memory_order_release);
  return rc;
}

int boost_restore(struct boost_subject *subject) {
  struct mr_sched now;
  int rc = may_come_back(subject, &subject->normal) ? still_owners(subject) : -EPERM;
  if (rc == 0)
    rc = mr_sched_get(subject->tid, &now);
  return rc == 0 && is_lowered(&now) ? place(subject, &subject->normal) : rc;
}

int boost_put_back(struct boost_subject *subject, const struct mr_sched *claimed) {
  struct mr_sched now, back = {.policy = SCHED_OTHER, .nice = nice_of(subject->tid)};
  int rc = mr_sched_get(subject->tid, &now);
  if (rc < 0 || !looks_raised(&now))
    return rc;
  if (!by_clock(&now))
    back.nice = claimed->nice > 0 ? claimed->nice : 0;
  else if (by_clock(claimed) && claimed->priority > 0) {
    struct mr_sched up = raised(claimed, BOOST_BY_FIFO);
    if (mr_sched_equal(&up, &now))
      back = *claimed;
  }
  return place(subject, &back);
}

/* The CPU of a thread that is allowed one alone: a tenth of what reading its line in /proc
 * costs.  -EAGAIN: several. */
static int only_cpu(int32_t tid) {
  unsigned long mask[1024 / sizeof(unsigned long)]; /* 8192 CPUs */
  long bytes = syscall(SYS_sched_getaffinity, tid, sizeof mask, mask);
  int cpu = -EAGAIN;
  for (unsigned i = 0; bytes > 0 && i < (unsigned long)bytes / sizeof *mask; i++) {
    if (mask[i] == 0)
      continue;
    if (cpu >= 0 || (mask[i] & (mask[i] - 1)) != 0)
      return -EAGAIN;
    cpu = (int)(i * 8 * sizeof *mask) + __builtin_ctzl(mask[i]);
  }
  return cpu;
}

static int last_cpu(int32_t tid) {
  char path[48], text[1024];
  snprintf(path, sizeof path, "/proc/%d/task/%d/stat", tid, tid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -ESRCH;
  ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  text[got > 0 ? got : 0] = '\0';
  /* The name, field 2, ends at the last parenthesis; the CPU is field 39. */
  char *at = strrchr(text, ')');
  for (int field = 2; at != NULL && field < 39; field++)
    at = strchr(at + 1, ' ');
  return at != NULL ? (int)mr_leading(at, 0, INT32_MAX, -ESRCH) : -ESRCH;
}

int boost_cpu(int32_t tid) {
  int cpu = only_cpu(tid);
  return cpu >= 0 ? cpu : last_cpu(tid);
}

int boost_rescue(const struct boost_subject *subject) {
  struct boost_subject copy = *subject;
  struct mr_sched now;
  /* Acquire: pairs with the mark of boost_raise. */
  bool touched = atomic_load_explicit(&subject->touched, memory_order_acquire) != 0;
  copy.pidfd = maru_pidfd_open(copy.tgid);
  if (copy.pidfd < 0)
    return copy.pidfd == -ESRCH ? 0 : copy.pidfd;
  int rc = mr_start_time(copy.tid) == copy.start ? mr_sched_get(copy.tid, &now) : -ESRCH;
  bool lowered = rc == 0 && is_lowered(&now) && may_come_back(&copy, &copy.normal);
  if (lowered)
    rc = place(&copy, &copy.normal);
  else if (rc == 0 && touched)
    rc = put_down(&copy, &now);
  close(copy.pidfd);
  return rc == -ESRCH ? 0 : rc;
}

/* The whole way up and back. */
static bool can_cycle(pid_t child, enum boost_how how) {
  struct mr_sched own, found, up;
  if (mr_sched_get(child, &own) < 0)
    return false;
  up = raised(&own, how);
  return mr_sched_set(child, &up) == 0 && put(child, &own) == 0 &&
         mr_sched_get(child, &found) == 0 && mr_sched_equal(&found, &own);
}

/* It does not outlive its parent, which has descriptors that others wait for the end of. */
static _Noreturn void be_tried(pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
    _exit(1);
  for (;;)
    pause();
}

enum boost_how boost_means(void) {
  enum boost_how how = BOOST_BY_FIFO;
  pid_t parent = getpid(), child = fork();
  if (child < 0)
    return BOOST_BY_NOTHING;
  if (child == 0)
    be_tried(parent);
  while (how < BOOST_BY_NOTHING && !can_cycle(child, how))
    how++;
  kill(child, SIGKILL);
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
    continue;
  return how;
}
