/* clang-format off */
/* job: a node of a job, for the tests of jobs; what it does is its first argument.
 *
 *     mix        everything at once, checked: locks, counters, all bytes of a page
 *                written by all nodes
 *     ranges     accesses are said before, watched or not; a system call reads what others wrote
 *     given      a page is fetched between what its home says and its writes, watched or not
 *     hang       node 0 says "ready", all wait for a barrier that is never full
 *     stream     node 0 writes 64 MiB in a round, of which node 1 reads each page; twelve rounds,
 *                the first of which is "ready"; in the second node 1 stops itself
 *     flood      the same of twice as much, of which 64 MiB have their home on node 1
 *     press      rounds without end, and nobody stops
 *     churn      locks, trials, swaps, pages and barriers without end
 *     stuck      node 0 ends while the others wait for its lock
 *     cross      two nodes take two locks, each the other's first
 *     apart      each node comes to a barrier of its own
 *     hog        node 0 takes a lock again and again until each other node has had it often
 *     die        as hang, but node 1 kills itself
 *     crash      as hang, but node 1 writes where nothing is, after a 42 into shared memory
 *     fail       node 1 ends with status 3, the others hang
 *     misuse     unlocks what it does not hold
 *     again      takes what it has
 *     left       returns from main without leaving the job
 *     child      unlocks in a child process
 *     late       unlocks once it has left the job
 *     rejoins    leaves the job, and joins it again
 *     say        long and unfinished lines
 *     stripe     one page whose lines different nodes change, one where all change the same line
 *     queue      all want one lock at the same time
 *     race       all write the same byte in no order; and much that is no race
 *     taken      something lies where the shared memory has to be
 *     blind      the kernel has no userfaultfd; then as mix
 */
/* clang-format on */
#define _GNU_SOURCE
#include <maru/dsm.h>

#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define TURNS 200
#define ROUNDS 20
#define WIDTH 8192u
#define STREAM ((size_t)64 << 20)

static void mix(void) {
  uint32_t me = maru_dsm_node(), nodes = maru_dsm_nodes();
  /* In front, so that the words below do not begin a page. */
  CHECK(maru_dsm_alloc(40) != NULL);
  long *counter = maru_dsm_alloc(sizeof *counter);
  uint8_t *bytes = maru_dsm_alloc(WIDTH);
  CHECK(counter != NULL && bytes != NULL && (uintptr_t)counter % 64 == 0);
  CHECK(maru_dsm_alloc(SIZE_MAX) == NULL);
  CHECK(maru_dsm_home(counter) >= 0 && maru_dsm_home(counter) < (int)nodes);
  CHECK(maru_dsm_home(&me) == -1);
  for (int turn = 0; turn < TURNS; turn++) {
    if (turn % 2 == 0)
      maru_dsm_lock(7);
    else
      while (!maru_dsm_trylock(7))
        ;
    CHECK(!maru_dsm_trylock(7)); /* this node has it */
    ++*counter;
    maru_dsm_unlock(7);
    maru_dsm_fetch_add(7, 2);
  }
  maru_dsm_semaphore_post(7, 0);
  maru_dsm_barrier(7);
  CHECK_EQUAL(*counter, (long)nodes * TURNS);
  CHECK_EQUAL(maru_dsm_fetch_add(7, 0), (long)nodes * TURNS * 2);
  /* The same by compare-and-swap, which only then changes something. */
  for (int turn = 0; turn < TURNS; turn++)
    for (int64_t was = 0, before; (before = maru_dsm_compare_swap(8, was, was + 1)) != was;)
      was = before;
  maru_dsm_barrier(7);
  CHECK_EQUAL(maru_dsm_compare_swap(8, -1, 5), (long)nodes * TURNS);
  CHECK_EQUAL(maru_dsm_fetch_add(8, 0), (long)nodes * TURNS);
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    for (uint32_t i = (me + round) % nodes; i < WIDTH; i += nodes)
      bytes[i] = (uint8_t)(i * round);
    maru_dsm_barrier(1);
    for (uint32_t i = 0; i < WIDTH; i++)
      CHECK_EQUAL(bytes[i], (uint8_t)(i * round));
    maru_dsm_barrier(2);
  }
  printf("mixed\n");
}

/* Each node writes a band of some pages, and reads all; bands end within pages. */
static void ranges(void) {
  enum { COUNT = 200000, SHOWN = 4096 };
  size_t me = maru_dsm_node(), nodes = maru_dsm_nodes();
  size_t first = COUNT * me / nodes, end = COUNT * (me + 1) / nodes;
  uint32_t *numbers = maru_dsm_alloc(COUNT * sizeof *numbers), shown[SHOWN], local = 7;
  int ends[2];
  CHECK(numbers != NULL && pipe(ends) == 0);
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    maru_dsm_write_range(numbers + first, (end - first) * sizeof *numbers);
    for (size_t i = first; i < end; i++)
      numbers[i] = (uint32_t)i * round;
    maru_dsm_barrier(1);
    /* The kernel sees it too. */
    CHECK_EQUAL(write(ends[1], numbers + COUNT / 2, sizeof shown), sizeof shown);
    CHECK_EQUAL(read(ends[0], shown, sizeof shown), sizeof shown);
    for (uint32_t i = 0; i < SHOWN; i++)
      CHECK_EQUAL(shown[i], (COUNT / 2 + i) * round);
    maru_dsm_read_range(numbers, COUNT * sizeof *numbers);
    for (uint32_t i = 0; i < COUNT; i++)
      CHECK_EQUAL(numbers[i], i * round);
    maru_dsm_barrier(2);
  }
  /* Nothing shared, or nothing at all. */
  maru_dsm_write_range(&local, sizeof local);
  maru_dsm_read_range(numbers, 0);
  CHECK_EQUAL(local, 7);
  printf("mixed\n");
}

/* Node 0 alone has the page, says that it writes it, and stores once node 1 has fetched it: two
 * halves of one page.  Where node 1 is late the test says less, never something else. */
static void given(void) {
  enum { HALF = 2048, WAITS_MS = 200 };
  uint32_t me = maru_dsm_node();
  uint8_t *page = maru_dsm_alloc(4096);
  CHECK(page != NULL && maru_dsm_home(page) == 0);
  for (uint8_t round = 1; round <= 3; round++) {
    if (me == 0) {
      maru_dsm_write_range(page, 4096);
      memset(page, round, 4096);
    }
    maru_dsm_barrier(0);
    if (me == 0)
      maru_dsm_write_range(page, HALF);
    usleep((me == 0 ? 2 : 1) * WAITS_MS * 1000);
    if (me == 0)
      page[0] = (uint8_t)(round + 100);
    maru_dsm_read_range(page + HALF, HALF);
    CHECK_EQUAL(page[HALF], round);
    maru_dsm_barrier(0);
    maru_dsm_read_range(page, HALF);
    CHECK_EQUAL(page[0], round + 100);
    CHECK_EQUAL(page[1], round);
    maru_dsm_barrier(0);
  }
  printf("mixed\n");
}

static __attribute__((noinline)) void crash(void) {
  uint8_t *shared = maru_dsm_alloc(4096);
  volatile int *volatile nowhere = NULL;
  CHECK(shared != NULL);
  *shared = 42;
  *nowhere = 1;
}

static void never(const char *mode) {
  if (maru_dsm_node() == 0) {
    printf("ready\n");
    fflush(stdout);
  } else if (maru_dsm_node() == 1 && strcmp(mode, "die") == 0) {
    kill(getpid(), SIGKILL);
  } else if (maru_dsm_node() == 1 && strcmp(mode, "crash") == 0) {
    crash();
  } else if (maru_dsm_node() == 1 && strcmp(mode, "fail") == 0) {
    _exit(3);
  } else if (maru_dsm_node() == 1) {
    pause();
  }
  maru_dsm_barrier(0);
}

/* While node 1 does not read, more waits for it than connections hold. */
static void stream(size_t size, bool endless) {
  enum { STREAMED = 12 };
  uint8_t *bytes = maru_dsm_alloc(size);
  CHECK(bytes != NULL);
  for (uint32_t round = 1; endless || round <= STREAMED; round++) {
    if (maru_dsm_node() == 1 && round == 2 && !endless)
      raise(SIGSTOP);
    if (maru_dsm_node() == 0)
      memset(bytes, (int)round, size);
    maru_dsm_barrier(0);
    for (size_t i = 1; i < size && maru_dsm_node() == 1; i += 4096)
      CHECK_EQUAL(bytes[i], (uint8_t)round);
    maru_dsm_barrier(1);
    if (maru_dsm_node() == 0 && round == 1) {
      printf("ready\n");
      fflush(stdout);
    }
  }
  if (maru_dsm_node() == 1)
    printf("streamed\n");
}

static void keep(void) {
  if (maru_dsm_node() == 0)
    maru_dsm_lock(3);
  maru_dsm_barrier(0);
  if (maru_dsm_node() != 0)
    maru_dsm_lock(3);
}

static void again(void) {
  maru_dsm_lock(3);
  maru_dsm_lock(3);
}

static void cross(void) {
  uint32_t me = maru_dsm_node();
  maru_dsm_lock(8 + me);
  maru_dsm_barrier(0);
  maru_dsm_lock(9 - me);
}

/* It never waits for the lock, and gives it for a moment. */
static void hog(void) {
  uint32_t *had = maru_dsm_alloc(sizeof *had), all = TURNS * (maru_dsm_nodes() - 1), seen = 0;
  CHECK(had != NULL);
  for (int turn = 0; maru_dsm_node() != 0 && turn < TURNS; turn++) {
    maru_dsm_lock(6);
    ++*had;
    maru_dsm_unlock(6);
  }
  while (maru_dsm_node() == 0 && seen < all) {
    maru_dsm_lock(6);
    seen = *had;
    maru_dsm_unlock(6);
  }
  printf("had\n");
}

/* While a child holds connections, nobody sees its parent's death. */
static void child(void *unused) {
  struct sockaddr_storage peer;
  (void)unused;
  for (int fd = 3; fd < 1024; fd++) {
    socklen_t size = sizeof peer;
    CHECK(getpeername(fd, (struct sockaddr *)&peer, &size) < 0 || peer.ss_family == AF_UNIX);
  }
  maru_dsm_unlock(1);
}

/* Node 1's child is refused; its parent goes on. */
static void bear(void) {
  maru_dsm_lock(maru_dsm_node());
  if (maru_dsm_node() == 1)
    CHECK_EQUAL(WEXITSTATUS(finish(start(child, NULL))), 64);
  maru_dsm_unlock(maru_dsm_node());
}

static void say(void) {
  for (int i = 0; i < 70000; i++)
    putchar('x');
  printf("\nlast");
}

/* Two nodes, a line each; node 0's page, which node 1 changes last. Then node 0 writes it without a
 * twin, as nobody else has that version, until node 1 looks. */
static void change_kept(uint8_t *page, uint8_t round) {
  uint32_t me = maru_dsm_node();
  if (me < 2)
    page[64 * me] = round;
  if (me == 0)
    maru_dsm_flag_set(0, round);
  if (me == 1)
    maru_dsm_flag_await(0, round);
  maru_dsm_barrier(0);
  if (me == 0)
    page[0] = (uint8_t)(round + ROUNDS);
  maru_dsm_barrier(0);
  if (me < 2)
    CHECK_EQUAL(page[0], round + ROUNDS);
}

static void stripe(void) {
  uint8_t *false_page = maru_dsm_alloc_at(4096, "falsely"),
          *true_page = maru_dsm_alloc_at(4096, "truly"),
          *read_page = maru_dsm_alloc_at(4096, "read"),
          *kept_page = maru_dsm_alloc_at(4096, "kept");
  for (uint8_t round = 1; round <= ROUNDS; round++) {
    false_page[64 * maru_dsm_node()] = round;
    maru_dsm_lock(0);
    true_page[0]++;
    maru_dsm_unlock(0);
    if (maru_dsm_node() == 0)
      read_page[0] = round;
    maru_dsm_barrier(0);
    CHECK_EQUAL(read_page[0], round);
    change_kept(kept_page, round);
    maru_dsm_barrier(0);
  }
}

/* Locks, trials, swaps, pages and barriers without end. */
static void churn(void) {
  uint8_t *bytes = maru_dsm_alloc(16 * 4096);
  uint32_t me = maru_dsm_node();
  for (uint32_t round = 0;; round++) {
    maru_dsm_lock(round % 3);
    bytes[round % 16 * 4096 + me] = (uint8_t)round;
    maru_dsm_unlock(round % 3);
    if (maru_dsm_trylock(3 + me % 2))
      maru_dsm_unlock(3 + me % 2);
    maru_dsm_compare_swap(1, round, round + 1);
    if (round % 64 == 0)
      maru_dsm_barrier(0);
  }
}

/* All want one lock, each of which holds it for a while; node 0 alone takes another. */
static void queue(void) {
  for (int turn = 0; turn < ROUNDS; turn++) {
    maru_dsm_lock(5);
    usleep(1000);
    maru_dsm_unlock(5);
  }
  for (int turn = 0; turn < ROUNDS && maru_dsm_node() == 0; turn++) {
    maru_dsm_lock(4);
    maru_dsm_unlock(4);
  }
}

/* Bytes of one word by different nodes, a sum under a lock and what a barrier orders are no races.
 */
static void race(void) {
  uint8_t *racy = maru_dsm_alloc_at(4096, "racy"), *shared = maru_dsm_alloc_at(4096, "fine");
  long *sum = maru_dsm_alloc_at(sizeof *sum, "sum");
  uint32_t me = maru_dsm_node(), nodes = maru_dsm_nodes();
  for (uint8_t round = 1; round <= ROUNDS; round++) {
    shared[me] = round;
    maru_dsm_lock(0);
    ++*sum;
    maru_dsm_unlock(0);
    maru_dsm_barrier(0);
    if (me == round % nodes)
      shared[100] = round;
    racy[300] = (uint8_t)(round * nodes + me);
    maru_dsm_barrier(0);
  }
}

/* Any place in the range that the job needs (node_start.c). */
static void take(void) {
  CHECK(mmap((void *)UINT64_C(0x300000100000), 4096, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
}

static void blind(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog filter = {sizeof code / sizeof *code, code};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    skip("no seccomp");
}

int main(int count, char **arguments) {
  const char *mode = count > 1 ? arguments[1] : "";
  if (strcmp(mode, "taken") == 0)
    take();
  if (strcmp(mode, "blind") == 0)
    blind();
  if (strcmp(mode, "ranges") == 0 || strcmp(mode, "given") == 0)
    maru_dsm_init_unwatched();
  else
    maru_dsm_init();
  if (strcmp(mode, "ranges") == 0)
    ranges();
  else if (strcmp(mode, "given") == 0)
    given();
  else if (strcmp(mode, "mix") == 0 || strcmp(mode, "blind") == 0)
    mix();
  else if (strcmp(mode, "misuse") == 0)
    maru_dsm_unlock(1);
  else if (strcmp(mode, "child") == 0)
    bear();
  else if (strcmp(mode, "stream") == 0 || strcmp(mode, "press") == 0)
    stream(STREAM, strcmp(mode, "press") == 0);
  else if (strcmp(mode, "flood") == 0)
    stream(2 * STREAM, false);
  else if (strcmp(mode, "stuck") == 0)
    keep();
  else if (strcmp(mode, "again") == 0)
    again();
  else if (strcmp(mode, "apart") == 0)
    maru_dsm_barrier(1 + maru_dsm_node());
  else if (strcmp(mode, "cross") == 0)
    cross();
  else if (strcmp(mode, "hog") == 0)
    hog();
  else if (strcmp(mode, "left") == 0)
    return 0;
  else if (strcmp(mode, "stripe") == 0)
    stripe();
  else if (strcmp(mode, "churn") == 0)
    churn();
  else if (strcmp(mode, "queue") == 0)
    queue();
  else if (strcmp(mode, "race") == 0)
    race();
  else if (strcmp(mode, "say") == 0)
    say();
  else if (strcmp(mode, "late") != 0 && strcmp(mode, "rejoins") != 0)
    never(mode);
  maru_dsm_exit();
  if (strcmp(mode, "late") == 0)
    maru_dsm_unlock(1);
  else if (strcmp(mode, "rejoins") == 0)
    maru_dsm_init();
  return 0;
}
