/* Description: whom the daemon may act on, and where those end whom it acted on.
 *
 * The parts of the daemon that ask the kernel and act, without the daemon. Each thread is a
 * child of ours, an ordinary user's, that has the board or has it not. Two calls are ours (the
 * linker's --wrap): mr_sched_set, for a number that is used again between a look and the deed,
 * and prlimit, for limits that only a root with CAP_SYS_RESOURCE can set. */
#define _GNU_SOURCE
#include "subject.h"
#include "boost.h"

#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define OTHER 65534
#define GROUP 65531

static struct maru_board board;
static struct stat board_status;
static const struct boost_served everybody;

/* What a child is: all that is 0 is ordinary. */
struct kind {
  uid_t users[3]; /* real, effective, saved; {0}: OWNER */
  gid_t group;    /* one more */
  struct mr_sched place;
  rlim_t nice_limit; /* its RLIMIT_NICE, as the daemon is told */
  bool without_board, with_namespace, changes_user;
};

static void live(void *argument) {
  const struct kind *kind = argument;
  const uid_t *u = kind->users;
  if (kind->without_board)
    CHECK_EQUAL(munmap(board.base, board.size), 0);
  CHECK_EQUAL(mr_sched_set(0, &kind->place), 0);
  CHECK_EQUAL(setgroups(kind->group != 0, &kind->group), 0);
  CHECK_EQUAL(setgid(OWNER), 0);
  if (kind->changes_user)
    for (int i = 0; i < 2; i++) /* root, until it is told */
      raise(SIGSTOP);
  CHECK_EQUAL(u[0] + u[1] + u[2] > 0 ? setresuid(u[0], u[1], u[2]) : setuid(OWNER), 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (kind->with_namespace)
    (void)unshare(CLONE_NEWUSER); /* all capabilities, there alone */
  for (;;) {
    raise(SIGSTOP); /* it is what it is to be */
    pause();
  }
}

static void until_stopped(pid_t pid) {
  int status;
  CHECK_EQUAL(waitpid(pid, &status, WUNTRACED), pid);
  CHECK(WIFSTOPPED(status));
}

static rlim_t nice_limit; /* of the child that was started last */

int __wrap_prlimit64(pid_t pid, int resource, const struct rlimit *new, struct rlimit *old);
int __wrap_prlimit64(pid_t pid, int resource, const struct rlimit *new, struct rlimit *old) {
  CHECK(pid > 0 && resource == RLIMIT_NICE && new == NULL);
  *old = (struct rlimit){nice_limit, nice_limit};
  return 0;
}

static pid_t child(struct kind kind) {
  nice_limit = kind.nice_limit;
  pid_t pid = start(live, &kind);
  until_stopped(pid);
  return pid;
}

static void end(pid_t pid) {
  kill(pid, SIGKILL);
  CHECK_EQUAL(finish(pid), SIGKILL);
}

static int admit_served(struct boost_subject *subject, pid_t pid,
                        const struct boost_served *served) {
  return boost_admit(subject, pid, mr_start_time(pid), &board_status, served);
}

static int admit(struct boost_subject *subject, pid_t pid) {
  return admit_served(subject, pid, &everybody);
}

static void check_place(pid_t pid, struct mr_sched wanted, int line) {
  struct mr_sched now = place_of(pid);
  bool good = mr_sched_equal(&now, &wanted) && now.on_fork == wanted.on_fork;
  if (!good)
    fprintf(stderr, "line %d: policy %u, nice %d, priority %u, reset-on-fork %u\n", line,
            now.policy, now.nice, now.priority, now.on_fork);
  CHECK(good);
}

#define is_at(pid, ...) check_place(pid, __VA_ARGS__, __LINE__)

static const struct mr_sched ordinary = {.policy = SCHED_OTHER};
static const struct mr_sched lowest = {.policy = SCHED_OTHER, .nice = 19};

/* ---- who ------------------------------------------------------------------ */

static void expect(struct kind kind, int wanted) {
  struct boost_subject subject;
  pid_t pid = child(kind);
  CHECK_EQUAL(admit(&subject, pid), wanted);
  if (wanted == 0)
    boost_dismiss(&subject);
  end(pid);
}

static void who(void) {
  struct boost_subject subject;
  expect((struct kind){0}, 0);
  expect((struct kind){.without_board = true}, -EACCES);
  expect((struct kind){.users = {OTHER, OTHER, OTHER}}, -EPERM);
  /* Each of its users alone. */
  expect((struct kind){.users = {OTHER, OWNER, OWNER}}, -EPERM);
  expect((struct kind){.users = {OWNER, OTHER, OWNER}}, -EPERM);
  expect((struct kind){.users = {OWNER, OWNER, OTHER}}, -EPERM);
  expect((struct kind){.place = lowest}, -EAGAIN);
  expect((struct kind){.place = {.policy = SCHED_FIFO, .priority = 3}}, 0);
  expect((struct kind){.place = {.policy = SCHED_FIFO, .priority = 3, .on_fork = 1}}, -EBUSY);
  expect((struct kind){.place = {.policy = SCHED_OTHER, .nice = -20, .on_fork = 1}}, -EBUSY);
  expect((struct kind){.place = {.policy = SCHED_OTHER, .nice = -1, .on_fork = 1}}, -EBUSY);
  pid_t pid = child((struct kind){0});
  uint64_t begun = mr_start_time(pid);
  CHECK_EQUAL(boost_admit(&subject, pid, begun + 1, &board_status, &everybody), -ESRCH);
  CHECK_EQUAL(boost_admit(&subject, pid, 0, &board_status, &everybody), -ESRCH);
  CHECK_EQUAL(boost_admit(&subject, -pid, begun, &board_status, &everybody), -ESRCH);
  CHECK_EQUAL(boost_admit(&subject, 0, begun, &board_status, &everybody), -ESRCH);
  CHECK_EQUAL(admit(&subject, pid), 0);
  CHECK(boost_lives(&subject));
  end(pid);
  CHECK(!boost_lives(&subject));
  CHECK_EQUAL(boost_raise(&subject, BOOST_BY_FIFO), -ESRCH);
  CHECK_EQUAL(boost_restore(&subject), -EPERM);
  CHECK_EQUAL(boost_rescue(&subject), 0);
  boost_dismiss(&subject);
  CHECK_EQUAL(boost_admit(&subject, pid, begun, &board_status, &everybody), -ESRCH);
}

/* Another user's process by now: exec of a program of his, or as here. */
static void changed_user(void) {
  struct boost_subject subject;
  struct stat status = board_status;
  struct kind kind = {.users = {OTHER, OTHER, OTHER}, .changes_user = true};
  pid_t pid = child(kind);
  status.st_uid = 0;
  CHECK_EQUAL(boost_admit(&subject, pid, mr_start_time(pid), &status, &everybody), 0);
  CHECK_EQUAL(boost_raise(&subject, BOOST_GENTLY), 0);
  CHECK_EQUAL(boost_end(&subject), 0);
  for (int i = 0; i < 2; i++) {
    kill(pid, SIGCONT);
    until_stopped(pid);
  }
  CHECK_EQUAL(boost_raise(&subject, BOOST_GENTLY), -EPERM);
  CHECK_EQUAL(boost_raise(&subject, BOOST_BY_FIFO), -EPERM);
  is_at(pid, ordinary);
  boost_dismiss(&subject);
  end(pid);
}

static void served(void) {
  struct boost_subject subject;
  static const struct boost_served by_user = {.users = {7, OWNER}, .user_count = 2},
                                   by_group = {.groups = {GROUP}, .group_count = 1},
                                   others = {.users = {7, OTHER},
                                             .user_count = 2,
                                             .groups = {8},
                                             .group_count = 1};
  pid_t one = child((struct kind){0}), member = child((struct kind){.group = GROUP});
  CHECK_EQUAL(admit_served(&subject, one, &by_user), 0);
  boost_dismiss(&subject);
  CHECK_EQUAL(admit_served(&subject, member, &by_group), 0);
  boost_dismiss(&subject);
  CHECK_EQUAL(admit_served(&subject, one, &by_group), -EPERM);
  CHECK_EQUAL(admit_served(&subject, one, &others), -EPERM);
  CHECK_EQUAL(admit_served(&subject, member, &others), -EPERM);
  /* Whoever is in the group does not bring another user's board with him. */
  struct mr_task task;
  CHECK_EQUAL(mr_task_read(member, &task), 0);
  CHECK(boost_serves(&by_group, &task, OWNER) && !boost_serves(&by_group, &task, OTHER));
  end(one);
  end(member);
}

/* ---- up and back ---------------------------------------------------------- */

static void cycle(struct kind kind, enum boost_how how, int wanted, struct mr_sched up) {
  struct boost_subject subject;
  pid_t pid = child(kind);
  CHECK_EQUAL(admit(&subject, pid), 0);
  CHECK_EQUAL(boost_raise(&subject, how), wanted);
  is_at(pid, wanted == 0 ? up : kind.place);
  CHECK_EQUAL(atomic_load(&subject.touched), wanted == 0);
  if (wanted == 0)
    CHECK_EQUAL(boost_raise(&subject, how), -EBUSY);
  CHECK_EQUAL(boost_end(&subject), 0);
  is_at(pid, kind.place);
  CHECK_EQUAL(atomic_load(&subject.touched), 0);
  /* The rescuer has the same way. */
  CHECK_EQUAL(boost_raise(&subject, how), wanted);
  CHECK_EQUAL(boost_rescue(&subject), 0);
  is_at(pid, kind.place);
  boost_dismiss(&subject);
  end(pid);
}

static struct mr_sched nice_of(int nice) {
  return (struct mr_sched){.policy = SCHED_OTHER, .nice = nice};
}

/* A raised thread's child begins at nice 0: what the thread itself could not have is no place to
 * raise it from. */
static void up_and_back(void) {
  static const struct mr_sched fifo = {.policy = SCHED_FIFO, .priority = 5, .on_fork = 1},
                               high = {.policy = SCHED_OTHER, .nice = -20, .on_fork = 1},
                               gentle = {.policy = SCHED_OTHER, .nice = -1, .on_fork = 1},
                               batch = {.policy = SCHED_BATCH}, idle = {.policy = SCHED_IDLE};
  cycle((struct kind){0}, BOOST_BY_FIFO, 0, fifo);
  cycle((struct kind){0}, BOOST_BY_NICE, 0, high);
  cycle((struct kind){0}, BOOST_GENTLY, 0, gentle);
  cycle((struct kind){0}, BOOST_BY_NOTHING, -ENOTSUP, fifo);
  cycle((struct kind){.place = batch}, BOOST_BY_FIFO, 0, fifo);
  cycle((struct kind){.place = nice_of(-5)}, BOOST_BY_FIFO, 0, fifo);
  cycle((struct kind){.place = {.policy = SCHED_RR, .priority = 78}}, BOOST_BY_FIFO, 0,
        (struct mr_sched){.policy = SCHED_RR, .priority = 80, .on_fork = 1});
  for (int how = BOOST_BY_FIFO; how <= BOOST_BY_NICE; how++) {
    cycle((struct kind){.place = nice_of(10)}, (enum boost_how)how, -ENOTSUP, fifo);
    cycle((struct kind){.place = nice_of(1)}, (enum boost_how)how, -ENOTSUP, fifo);
    cycle((struct kind){.place = nice_of(10), .nice_limit = 19}, (enum boost_how)how, -ENOTSUP,
          fifo);
    cycle((struct kind){.place = idle}, (enum boost_how)how, -ENOTSUP, fifo);
    /* The same again by the thread's own right. */
    cycle((struct kind){.place = nice_of(10), .nice_limit = 20}, (enum boost_how)how, 0,
          how == BOOST_BY_FIFO ? fifo : high);
  }
  cycle((struct kind){.place = idle, .nice_limit = 20}, BOOST_BY_FIFO, 0, fifo);
  cycle((struct kind){.place = nice_of(10), .with_namespace = true}, BOOST_BY_FIFO, -ENOTSUP, fifo);
  cycle((struct kind){.place = nice_of(1), .nice_limit = 40}, BOOST_GENTLY, -ENOTSUP, gentle);
  cycle((struct kind){.place = idle, .nice_limit = 40}, BOOST_GENTLY, -ENOTSUP, gentle);
}

/* What is done to a thread while it is raised, and where it is to end. */
static void moved(enum boost_how how, struct mr_sched by_admin, bool by_nice,
                  struct mr_sched wanted) {
  struct boost_subject subject;
  for (int rescue = 0; rescue < 2; rescue++) {
    pid_t pid = child((struct kind){0});
    CHECK_EQUAL(admit(&subject, pid), 0);
    CHECK_EQUAL(boost_raise(&subject, how), 0);
    CHECK_EQUAL(by_nice ? setpriority(PRIO_PROCESS, (id_t)pid, by_admin.nice)
                        : mr_sched_set(pid, &by_admin),
                0);
    CHECK_EQUAL(rescue ? boost_rescue(&subject) : boost_end(&subject), 0);
    is_at(pid, wanted);
    if (rescue)
      atomic_store(&subject.touched, 0);
    /* And it stays there. */
    (void)boost_raise(&subject, how);
    (void)boost_end(&subject);
    (void)boost_restore(&subject);
    is_at(pid, wanted);
    boost_dismiss(&subject);
    end(pid);
  }
}

static void administrators(void) {
  static const struct mr_sched batch = {.policy = SCHED_BATCH, .nice = 3},
                               idle = {.policy = SCHED_IDLE};
  for (int how = BOOST_BY_FIFO; how <= BOOST_GENTLY; how++) {
    if (how == BOOST_BY_NOTHING)
      continue;
    moved((enum boost_how)how, nice_of(19), true, lowest);
    moved((enum boost_how)how, nice_of(7), true, nice_of(7));
    moved((enum boost_how)how, batch, false, batch);
    moved((enum boost_how)how, idle, false, idle);
    moved((enum boost_how)how, lowest, false, lowest);
  }
}

/* Nice 19, which its owner could leave or could not. */
static void lowered(rlim_t limit, bool with_namespace, int wanted) {
  struct boost_subject subject;
  pid_t pid = child((struct kind){.nice_limit = limit, .with_namespace = with_namespace});
  CHECK_EQUAL(admit(&subject, pid), 0);
  CHECK_EQUAL(mr_sched_set(pid, &lowest), 0);
  CHECK_EQUAL(boost_raise(&subject, BOOST_BY_FIFO), wanted == 0 ? 0 : -ENOTSUP);
  CHECK_EQUAL(boost_end(&subject), 0);
  CHECK_EQUAL(mr_sched_set(pid, &lowest), 0);
  CHECK_EQUAL(boost_restore(&subject), wanted);
  is_at(pid, wanted == 0 ? ordinary : lowest);
  CHECK_EQUAL(mr_sched_set(pid, &lowest), 0);
  CHECK_EQUAL(boost_rescue(&subject), 0);
  is_at(pid, wanted == 0 ? ordinary : lowest);
  /* Raised, it lowers itself. */
  CHECK_EQUAL(mr_sched_set(pid, &ordinary), 0);
  CHECK_EQUAL(boost_raise(&subject, BOOST_BY_FIFO), 0);
  CHECK_EQUAL(mr_sched_set(pid, &lowest), 0);
  CHECK_EQUAL(boost_end(&subject), 0);
  is_at(pid, lowest);
  boost_dismiss(&subject);
  end(pid);
}

/* What a dead daemon left: never up, whatever the line claims. */
static void left(struct mr_sched now, struct mr_sched claimed, struct mr_sched wanted) {
  struct boost_subject subject;
  pid_t pid = child((struct kind){.place = now});
  (void)admit(&subject, pid);
  if (subject.tid != 0) {
    CHECK_EQUAL(boost_put_back(&subject, &claimed), 0);
    boost_dismiss(&subject);
  }
  is_at(pid, wanted);
  end(pid);
}

static void put_back(void) {
  static const struct mr_sched fifo = {.policy = SCHED_FIFO, .priority = 8, .on_fork = 1},
                               high = {.policy = SCHED_OTHER, .nice = -20, .on_fork = 1},
                               top = {.policy = SCHED_FIFO, .priority = 90},
                               real = {.policy = SCHED_FIFO, .priority = 3};
  left(fifo, top, ordinary);
  left(fifo, real, real);
  left(fifo, nice_of(-7), ordinary);
  left(high, nice_of(-7), ordinary);
  left(high, nice_of(4), nice_of(4));
  left(nice_of(3), top, nice_of(3));
}

/* ---- control groups ------------------------------------------------------- */

static int write_word(const char *folder, const char *file, long word) {
  char path[192];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  FILE *to = fopen(path, "we");
  int rc = to != NULL && fprintf(to, "%ld", word) > 0 ? 0 : -1;
  return to != NULL && fclose(to) == 0 ? rc : -1;
}

/* Of a process that is gone nobody can say that it has none. */
static void quota_unread(void) {
  pid_t pid = child((struct kind){0});
  end(pid);
  if (access("/proc/self/cgroup", F_OK) < 0)
    printf("no control groups here: one that cannot be read is not tried\n");
  else
    CHECK_EQUAL(mr_cpu_quota(pid), UINT32_MAX);
}

static void quota(void) {
  char folder[128], inner[160];
  struct boost_subject subject;
  snprintf(folder, sizeof folder, "/sys/fs/cgroup/cpu/maru-test-%d", getpid());
  snprintf(inner, sizeof inner, "%s/inner", folder);
  if (mkdir(folder, 0700) < 0 || mkdir(inner, 0700) < 0) {
    printf("no control groups with cpu.cfs_quota_us here: a quota is not tried\n");
    rmdir(folder);
    return;
  }
  pid_t pid = child((struct kind){0});
  CHECK_EQUAL(write_word(inner, "cgroup.procs", pid), 0);
  CHECK_EQUAL(admit(&subject, pid), 0);
  CHECK(!subject.has_quota);
  boost_dismiss(&subject);
  CHECK_EQUAL(write_word(folder, "cpu.cfs_quota_us", 50000), 0);
  CHECK_EQUAL(admit(&subject, pid), 0);
  CHECK_EQUAL(boost_raise(&subject, BOOST_BY_FIFO), -ENOTSUP);
  is_at(pid, ordinary);
  CHECK_EQUAL(boost_raise(&subject, BOOST_GENTLY), 0);
  CHECK_EQUAL(boost_end(&subject), 0);
  boost_dismiss(&subject);
  end(pid);
  rmdir(inner);
  CHECK_EQUAL(rmdir(folder), 0);
}

/* ---- a number that is used again ------------------------------------------ */

int __real_mr_sched_set(pid_t tid, const struct mr_sched *sched);
int __wrap_mr_sched_set(pid_t tid, const struct mr_sched *sched);

static pid_t replaced; /* this one ends before the next deed on it, and its number has another */

static pid_t start_numbered(pid_t number) {
  struct clone_args args = {
      .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&number, .set_tid_size = 1};
  long pid = syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0)
    for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
      pause();
  return (pid_t)pid;
}

int __wrap_mr_sched_set(pid_t tid, const struct mr_sched *sched) {
  if (tid != 0 && tid == replaced) {
    replaced = 0;
    end(tid);
    CHECK_EQUAL(start_numbered(tid), tid);
  }
  return __real_mr_sched_set(tid, sched);
}

/* Far from those that the kernel hands out now, as a rule. */
static pid_t highest_number(void) {
  int highest = 0;
  FILE *file = fopen("/proc/sys/kernel/pid_max", "re");
  CHECK(file != NULL && fscanf(file, "%d", &highest) == 1);
  fclose(file);
  return highest - 1;
}

static void used_again(void) {
  struct boost_subject subject;
  pid_t probe = start_numbered(highest_number());
  if (probe < 0) {
    printf("numbers cannot be chosen here: one that is used again is not tried\n");
    return;
  }
  end(probe);
  for (int how = BOOST_BY_FIFO; how <= BOOST_GENTLY; how++) {
    if (how == BOOST_BY_NOTHING)
      continue;
    pid_t pid = child((struct kind){0});
    CHECK_EQUAL(admit(&subject, pid), 0);
    replaced = pid;
    CHECK_EQUAL(boost_raise(&subject, (enum boost_how)how), -ESRCH);
    CHECK_EQUAL(replaced, 0);
    CHECK_EQUAL(atomic_load(&subject.touched), 0);
    is_at(pid, ordinary); /* another's, who has nothing to do with it */
    CHECK(boost_raise(&subject, (enum boost_how)how) < 0);
    is_at(pid, ordinary);
    boost_dismiss(&subject);
    end(pid);
  }
  pid_t pid = child((struct kind){.nice_limit = 40});
  CHECK_EQUAL(admit(&subject, pid), 0);
  CHECK_EQUAL(mr_sched_set(pid, &lowest), 0);
  replaced = pid;
  CHECK_EQUAL(boost_restore(&subject), -ESRCH);
  CHECK_EQUAL(place_of(pid).nice, 19); /* as what was there before: nobody is lifted */
  boost_dismiss(&subject);
  end(pid);
}

/* ---- where ---------------------------------------------------------------- */

static void cpus(void) {
  cpu_set_t set;
  struct mr_sched means;
  pid_t pid = child((struct kind){0});
  CHECK(boost_cpu(pid) >= 0 && boost_cpu(pid) < CPU_SETSIZE);
  CHECK_EQUAL(sched_getaffinity(pid, sizeof set, &set), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &set)) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      CHECK_EQUAL(sched_setaffinity(pid, sizeof one, &one), 0);
      CHECK_EQUAL(boost_cpu(pid), cpu);
    }
  end(pid);
  CHECK(boost_cpu(pid) < 0);
  CHECK_EQUAL(boost_means(), BOOST_BY_FIFO);
  CHECK_EQUAL(mr_sched_get(0, &means), 0);
}

int main(void) {
  need_root();
  CHECK_EQUAL(seteuid(OWNER), 0);
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  CHECK_EQUAL(seteuid(0), 0);
  CHECK_EQUAL(fstat(board.fd, &board_status), 0);
  who();
  changed_user();
  served();
  up_and_back();
  administrators();
  lowered(0, false, -EPERM);
  lowered(19, false, -EPERM); /* to nice 1, not to 0 */
  lowered(0, true, -EPERM);
  lowered(20, false, 0);
  put_back();
  quota_unread();
  quota();
  used_again();
  cpus();
  return 0;
}
