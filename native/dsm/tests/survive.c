/* survive: a program of maru/dsm.h that has state of every sort, for jobs that lose nodes; as
 * survive.c.in, whose arguments it takes.
 *
 *     survive NODES STEPS [MILLISECONDS [WHAT]]
 *
 * WHAT is early, bus, segv, environment, unwatched, mapping, charset, locale, freed, waits,
 * ticks, holds, differs, given, given-else, talks, breaks, faults, leaves, reads or line.
 *
 * What it prints follows from NODES and STEPS alone.  `early`, `bus`, `segv`: what is made before
 * maru_dsm_init cannot be saved either.  `waits`: does nothing of that.  Node 1 waits with changes
 * of its own until checkpoints were taken, in the folder SURVIVE_FOLDER. Then node 0 is lost, once.
 * `ticks`: a handler of a timer's looks at the clock, whatever the program does.  `holds`: node 0
 * has its error output locked while more than a MiB comes.  `differs`: what a node asks for depends
 * on its process.  `given`: node 1 gets a page again and again while node 0 writes it;
 * `given-else`: what node 0 writes depends on its process, and nothing else does.  `talks`: each
 * node prints STEPS lines of a KiB, after MILLISECONDS. Then node 1 is lost, once, where there is
 * SURVIVE_FOLDER.  `breaks`: there its connections end instead.  `faults`: there node 1 is lost
 * once, and what repeats it aborts, once.  `leaves`: node 1 ends with 0, and says no farewell.
 * `reads`: node 0 computes until there is input, and reads that to its end.  `line`: node 1 has
 * begun a line of 20 kB at the checkpoints of MILLISECONDS; there it is lost after that, once.
 */
#define _GNU_SOURCE
#include <maru/dsm.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <iconv.h>
#include <locale.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CELLS 20000
#define DEEP 8
enum { GATE = 1, SUM, POOL, TURN, MEET, GO };

struct entry {
  struct entry *next;
  unsigned long value;
};

static unsigned long *cells, *late; /* shared */
static struct maru_dsm_heap *pool;
static struct entry **list;
static long *turn;
static long steps, milliseconds;
static unsigned long mine;
static __thread unsigned long own;
static double values[300];

static unsigned long mix(unsigned long x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdul;
  return x ^ x >> 29;
}

static void work_for(long ms) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
    maru_checkpoint();
  } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

/* Nodes take turns, by a condition, and add to a list in shared memory. */
static void in_turn(long step) {
  maru_dsm_lock(GATE);
  while (*turn != step * (long)maru_dsm_nodes() + (long)maru_dsm_node())
    maru_dsm_condition_wait(TURN, GATE);
  struct entry *entry = maru_dsm_heap_take(pool, sizeof *entry, 16);
  if (entry == NULL)
    exit(5);
  *entry = (struct entry){*list, own};
  *list = entry;
  ++*turn;
  maru_dsm_condition_broadcast(TURN);
  maru_dsm_unlock(GATE);
}

static void tell(long step) {
  unsigned long all = 0;
  for (int i = 0; i < CELLS; i++)
    all = mix(all + cells[i]);
  for (struct entry *each = *list; each != NULL; each = each->next)
    all = mix(all + each->value);
  printf("step %ld: ", step);
  fflush(stdout);
  maru_dsm_fence();
  printf("%ld %lx\n", (long)maru_dsm_fetch_add(SUM, 0), all);
}

static void do_step(long step, unsigned long **block) {
  unsigned long *next = malloc((size_t)(64 + step % 500) * sizeof *next);
  memset(next, (int)step, 64 * sizeof *next);
  for (int i = 0; i < 8; i++)
    own = mix(own + next[i] + (*block != NULL ? **block : 0));
  free(*block);
  *block = next;
  own = mix(own + (unsigned long)rand() + (unsigned long)lrand48());
  values[step % 300] += (double)(own % 1000);
  mine = mix(mine + (unsigned long)values[step % 300]);
  for (uint32_t i = maru_dsm_node(); i < CELLS; i += maru_dsm_nodes())
    cells[i] += mix((unsigned long)step * CELLS + i);
  work_for(milliseconds);
  maru_dsm_fetch_add(SUM, (int64_t)(mine % 1000003));
  in_turn(step);
  maru_dsm_barrier(MEET);
  if (step == 5) { /* the same on every node */
    late = maru_dsm_alloc(4096);
    late[maru_dsm_node()] = own;
  }
  if (maru_dsm_node() == 0)
    tell(step);
  maru_dsm_barrier(MEET);
}

static void go_down(int depth) {
  unsigned long *block = NULL;
  volatile char room[1000];
  room[depth] = (char)depth;
  if (depth < DEEP) {
    go_down(depth + 1);
  } else {
    for (long step = 0; step < steps; step++)
      do_step(step, &block);
    free(block);
  }
  if (room[depth] != depth)
    exit(3);
}

/* Which one the folder has; 0: none. */
static ino_t checkpoint_in(const char *folder) {
  char path[4096];
  struct stat stat_of;
  snprintf(path, sizeof path, "%s/checkpoint", folder);
  return stat(path, &stat_of) == 0 ? stat_of.st_ino : 0;
}

static bool is_first_time(const char *folder, const char *of) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, of);
  int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0)
    close(fd);
  return fd >= 0;
}

static void be_lost_once(const char *folder) {
  if (is_first_time(folder, "lost"))
    kill(getpid(), SIGKILL);
}

/* This node's connections end, and no node. */
static void break_links_once(const char *folder) {
  struct sockaddr_storage peer;
  if (!is_first_time(folder, "lost"))
    return;
  for (int fd = 3; fd < 1024; fd++) {
    socklen_t size = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.ss_family != AF_UNIX)
      shutdown(fd, SHUT_RDWR);
  }
}

/* The first may have begun before node 1 waited. */
static void see_checkpoints(const char *folder) {
  work_for(300);
  for (int taken = 0; taken < 3; taken++)
    for (ino_t before = checkpoint_in(folder), waited = 0; checkpoint_in(folder) == before;) {
      work_for(10);
      if (++waited == 3000)
        exit(6);
    }
  be_lost_once(folder);
}

static void wait_with_changes(void) {
  const char *folder = getenv("SURVIVE_FOLDER");
  unsigned long all = 0;
  if (maru_dsm_node() == 0)
    maru_dsm_lock(GATE);
  maru_dsm_barrier(MEET);
  for (int i = 0; maru_dsm_node() == 1 && i < CELLS; i++)
    cells[i] = mix((unsigned long)i + 1);
  if (maru_dsm_node() != 0)
    maru_dsm_lock(GATE);
  else if (folder != NULL)
    see_checkpoints(folder);
  maru_dsm_unlock(GATE);
  maru_dsm_barrier(MEET);
  for (int i = 0; i < CELLS; i++)
    all = mix(all + cells[i]);
  printf("node %u: %lx\n", maru_dsm_node(), all);
}

static void on_tick(int number) {
  struct timespec now;
  (void)number;
  if (clock_gettime(CLOCK_MONOTONIC, &now) < 0)
    _exit(7);
}

static void tick_each(long microseconds) {
  const struct itimerval each = {{0, microseconds}, {0, microseconds}};
  signal(SIGALRM, on_tick);
  if (setitimer(ITIMER_REAL, &each, NULL) < 0)
    exit(4);
}

static void be_interrupted(void) {
  tick_each(200);
  for (int i = 0; i < 5000; i++)
    maru_dsm_fetch_add(SUM, 1);
  tick_each(0);
  maru_dsm_barrier(MEET);
  printf("node %u: %ld\n", maru_dsm_node(), (long)maru_dsm_fetch_add(SUM, 0));
}

/* Node 1 sends so much that node 0's journal is full, and node 0 says so. */
static void hold_errors(void) {
  char *bytes = maru_dsm_alloc(2 << 20);
  if (bytes == NULL)
    exit(4);
  bytes[0] = 1;
  maru_dsm_barrier(MEET);
  if (maru_dsm_node() == 0)
    flockfile(stderr);
  if (maru_dsm_node() == 0)
    work_for(500);
  else
    for (int round = 1; round < 4; round++) {
      memset(bytes, round, 2 << 20);
      maru_dsm_fence();
    }
  maru_dsm_barrier(MEET);
  if (maru_dsm_node() == 0)
    funlockfile(stderr);
  printf("node %u: %d\n", maru_dsm_node(), bytes[(2 << 20) - 1]);
}

static void ask_as_process(void) {
  for (long step = 0; step < steps; step++) {
    maru_dsm_fetch_add(SUM, getpid());
    work_for(milliseconds);
    maru_dsm_barrier(MEET);
  }
}

/* Node 0 is the page's home, and alone with it at each first barrier. */
static void be_given(bool else_) {
  volatile long *page = maru_dsm_alloc(4096);
  if (page == NULL || maru_dsm_home((const void *)page) != 0)
    exit(4);
  for (long step = 1; step <= steps; step++) {
    if (maru_dsm_node() == 0)
      page[0] = else_ ? getpid() : step;
    maru_dsm_barrier(MEET);
    if (maru_dsm_node() == 0)
      for (long i = 0; i < milliseconds * 1000000; i++)
        page[1] = step;
    else if (page[0] != step && !else_)
      exit(5);
    maru_dsm_barrier(MEET);
  }
}

static void talk(void) {
  const char *folder = getenv("SURVIVE_FOLDER");
  work_for(milliseconds); /* the first checkpoint is taken */
  for (long step = 0; step < steps; step++)
    printf("line %01010ld\n", step);
  fflush(stdout);
  maru_dsm_barrier(MEET);
  if (maru_dsm_node() == 1 && folder != NULL)
    be_lost_once(folder);
  maru_dsm_barrier(MEET);
}

static void lose_links(void) {
  const char *folder = getenv("SURVIVE_FOLDER");
  work_for(milliseconds);
  milliseconds = 0;
  maru_dsm_barrier(MEET);
  if (maru_dsm_node() == 1 && folder != NULL)
    break_links_once(folder);
  go_down(0);
}

static bool was_lost(const char *folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/lost", folder);
  return access(path, F_OK) == 0;
}

/* The repetition does something else before anything shows that: the lost process went on to
 * requests that this one has still to repeat. */
static void repeat_badly(void) {
  const char *folder = getenv("SURVIVE_FOLDER");
  if (maru_dsm_node() == 1 && folder != NULL) {
    if (was_lost(folder) && is_first_time(folder, "fault"))
      abort();
    maru_dsm_lock(GATE);
    maru_dsm_unlock(GATE);
    be_lost_once(folder);
  }
  go_down(0);
}

static void read_all(void) {
  char bytes[512];
  long all = 0;
  ssize_t n;
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  while (maru_dsm_node() == 0 && poll(&input, 1, 0) == 0)
    work_for(10);
  while (maru_dsm_node() == 0 && (n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0)
    all += n;
  if (maru_dsm_node() == 0)
    printf("node 0 has read %ld bytes\n", all);
  maru_dsm_barrier(MEET);
}

static void begin_line(void) {
  const char *folder = getenv("SURVIVE_FOLDER");
  for (int i = 0; maru_dsm_node() == 1 && i < 20000; i++)
    putchar('0' + i % 10);
  fflush(stdout);
  work_for(milliseconds);
  if (maru_dsm_node() == 1 && folder != NULL)
    be_lost_once(folder);
  maru_dsm_barrier(MEET);
  if (maru_dsm_node() == 1)
    printf(" ends\n");
}

static void share(void) {
  cells = maru_dsm_alloc(CELLS * sizeof *cells);
  list = maru_dsm_alloc(sizeof *list);
  turn = maru_dsm_alloc(sizeof *turn);
  pool = maru_dsm_heap_create(1 << 20, POOL);
  if (cells == NULL || list == NULL || turn == NULL || pool == NULL)
    exit(4);
}

/* Nothing of it is left. */
static void make_and_free(regex_t *regex) {
  iconv_t conversion = iconv_open("UTF-16", "UTF-8");
  locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", NULL), copy = duplocale(locale);
  if (regcomp(regex, "step", 0) != 0 || conversion == (iconv_t)-1 || copy == NULL)
    exit(4);
  regfree(regex);
  iconv_close(conversion);
  locale = newlocale(LC_ALL_MASK, "C", locale);
  freelocale(locale);
  freelocale(copy);
}

static void on_fault(int number) { exit(number); }

int main(int count, char **arguments) {
  const char *what = count > 4 ? arguments[4] : "";
  regex_t regex;
  steps = count > 2 ? atol(arguments[2]) : 10;
  milliseconds = count > 3 ? atol(arguments[3]) : 0;
  if (strcmp(what, "early") == 0 && pipe((int[2]){-1, -1}) < 0)
    exit(4);
  if (strcmp(what, "faults") == 0)
    (void)!pipe((int[2]){-1, -1}); /* no checkpoint comes between */
  if (strcmp(what, "bus") == 0)
    signal(SIGBUS, on_fault);
  if (strcmp(what, "segv") == 0)
    signal(SIGSEGV, on_fault);
  if (strcmp(what, "unwatched") == 0)
    maru_dsm_init_unwatched();
  else
    maru_dsm_init();
  int (*librarys)(const char *, const char *, int) =
      (int (*)(const char *, const char *, int))dlsym(RTLD_DEFAULT, "setenv");
  if (strcmp(what, "environment") == 0 && librarys("HOME", "/", 1) < 0)
    exit(4);
  if (strcmp(what, "charset") == 0 && iconv_open("UTF-16", "UTF-8") == (iconv_t)-1)
    exit(4);
  if (strcmp(what, "locale") == 0 && newlocale(LC_ALL_MASK, "C.UTF-8", NULL) == NULL)
    exit(4);
  if (strcmp(what, "freed") == 0)
    make_and_free(&regex);
  if (strcmp(what, "mapping") == 0 &&
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
    exit(4);
  own = mine = maru_dsm_node();
  srand(maru_dsm_node());
  srand48(maru_dsm_node());
  share();
  if (maru_dsm_node() == 0)
    printf("begins\n");
  if (strcmp(what, "waits") == 0)
    wait_with_changes();
  else if (strcmp(what, "ticks") == 0)
    be_interrupted();
  else if (strcmp(what, "holds") == 0)
    hold_errors();
  else if (strcmp(what, "differs") == 0)
    ask_as_process();
  else if (strncmp(what, "given", 5) == 0)
    be_given(what[5] != 0);
  else if (strcmp(what, "talks") == 0)
    talk();
  else if (strcmp(what, "breaks") == 0)
    lose_links();
  else if (strcmp(what, "faults") == 0)
    repeat_badly();
  else if (strcmp(what, "leaves") == 0 && maru_dsm_node() == 1)
    _exit(0);
  else if (strcmp(what, "reads") == 0)
    read_all();
  else if (strcmp(what, "line") == 0)
    begin_line();
  else
    go_down(0);
  unsigned long all = 0;
  for (uint32_t i = 0; late != NULL && i < maru_dsm_nodes(); i++)
    all = mix(all + late[i]);
  if (maru_dsm_node() == 0)
    printf("ends: %lx\n", all);
  maru_dsm_exit();
  return 0;
}
