/* Description: of three nodes of one host one is killed at any moment. The others have read only
 * whole pages of the versions that they said, and have heard every message in its order. They know
 * the end in bounded time, asleep or awake. After that no page of the dead node's memory counts.
 *
 * Node 0 is a home. It writes its pages as cores do, with random contents, and keeps a table of
 * what each version of each page is. Nodes 1 and 2 copy pages all the time and compare. They draw
 * alike, so often both want one page at once. Each exchanges messages with node 0, one at a time.
 *
 * Before that, of two nodes one ends while they meet, or is not what its card says.  Another takes
 * the place of one that ended: it is as near as that was, or refused.
 *
 * Over 500 lines: all of it has the same nodes, memory and truth.
 */
#define _GNU_SOURCE
#include "../diff.h"
#include "../join.h"
#include "../near.h"
#include "../shown.h"
#include "../transport.h"

#include "check.h"
#include "loopback.h"
#include "shared.h"

#include <maru/wait.h>
#include <poll.h>
#include <sys/mman.h>

#define NODES 3u
#define PAGES 4u
#define WORDS (MR_PAGE / 8)
#define VERSIONS 65536u
#define JOIN_SECONDS 20
#define LIVENESS_S 720
#define TURNS 200u
#define LAST_WORDS 20u
#define ROUNDS 100u

typedef _Atomic uint64_t words[WORDS];

/* What the test itself shares. */
struct truth {
  _Atomic uint64_t is[PAGES][VERSIONS];
  _Atomic uint64_t copied, refused, answered;
  _Atomic unsigned met; /* readers */
};

static struct truth *truth;
static words *memory, *twins;
static struct mr_share share = {.pages = PAGES, .commons = -1};
static bool shares = true; /* their memory, too */
static const char *way = "shm";
static uint16_t nodes;
static struct sockaddr_storage addresses[NODES];
static int listeners[NODES];
static uint64_t seed;

static uint64_t draw(uint64_t bound) { return (next_random(&seed) >> 32) % bound; }

/* ---- the home ----------------------------------------------------------------------- */

static struct page {
  uint64_t version;
  bool twin, alone, written;
} pages[PAGES];
static struct mr_shown *shown;

static void fill(words *page, uint64_t with) {
  for (unsigned i = 0; i < WORDS; i++)
    atomic_store_explicit(&(*page)[i], with, memory_order_relaxed);
}

/* What nobody may see. */
static void scribble(uint32_t p) {
  for (unsigned i = 0; i < WORDS; i++)
    atomic_store_explicit(&memory[p][i], next_random(&seed), memory_order_relaxed);
}

static void hide(uint32_t p) {
  if (mr_shown_hide(&shown[p]))
    pages[p].alone = false;
}

static void show(uint32_t p) {
  const struct page *page = &pages[p];
  if (page->twin)
    mr_shown_show(&shown[p], MR_SHOWN_TWIN, page->version);
  else if (!page->alone)
    mr_shown_show(&shown[p], MR_SHOWN, page->version);
  else if (!page->written)
    mr_shown_show(&shown[p], MR_SHOWN_ALONE, page->version);
}

static void diff_comes(uint32_t p) {
  struct page *page = &pages[p];
  uint64_t with = next_random(&seed);
  if (page->written)
    return;
  hide(p);
  if (page->twin)
    fill(&twins[p], with);
  else
    fill(&memory[p], with);
  atomic_store(&truth->is[p][++page->version % VERSIONS], with);
  show(p);
}

static void program_writes(uint32_t p) {
  struct page *page = &pages[p];
  if (page->alone)
    hide(p);
  if (page->alone)
    page->written = true;
  else if (!page->twin) {
    memcpy(twins[p], memory[p], MR_PAGE);
    page->twin = true;
    show(p);
  }
  scribble(p);
}

static void released(uint32_t p) {
  struct page *page = &pages[p];
  if (!page->twin)
    return;
  bool changed = draw(2) == 0;
  uint64_t with = changed ? next_random(&seed) : twins[p][0];
  fill(&memory[p], with);
  hide(p);
  page->twin = false;
  if (changed)
    atomic_store(&truth->is[p][++page->version % VERSIONS], with);
  page->alone = changed;
  show(p);
}

static void asked_for(uint32_t p) {
  struct page *page = &pages[p];
  if (page->written) {
    uint64_t with = next_random(&seed);
    fill(&memory[p], with);
    atomic_store(&truth->is[p][page->version % VERSIONS], with);
  }
  page->written = page->alone = false;
  show(p);
}

static void step(void) {
  static void (*const steps[])(uint32_t) = {diff_comes, program_writes, released, asked_for};
  steps[draw(4)]((uint32_t)draw(PAGES));
}

/* Twenty times what a dead node may go unnoticed; mutants have less. */
static int64_t liveness_ms(void) {
  return (int64_t)setting("MARU_DSM_SECONDS", LIVENESS_S) * 1000 / 12 + 1000;
}

/* ---- messages ------------------------------------------------------------------------ */

struct talk {
  uint64_t heard;
  bool over;
};

/* `context`: of each node one. */
static void on_message(void *context, uint16_t from, const void *message, size_t length) {
  uint64_t number;
  CHECK(from < nodes && length >= sizeof number);
  struct talk *talk = &((struct talk *)context)[from];
  CHECK(!talk->over);
  memcpy(&number, message, sizeof number);
  CHECK_EQUAL(number, ++talk->heard);
  /* The rest says the length. */
  for (size_t i = sizeof number; i < length; i++)
    CHECK_EQUAL(((const uint8_t *)message)[i], (uint8_t)length);
}

static void on_down(void *context, uint16_t from, bool farewell) {
  CHECK(from < nodes && !farewell);
  ((struct talk *)context)[from].over = true;
}

static const struct mr_transport_sink sink = {on_message, on_down};

/* Mostly short; now and then more than a ring holds. */
static void say(struct mr_transport *t, uint16_t to, uint64_t number) {
  static uint8_t message[1u << 20];
  size_t length = sizeof number + draw(draw(8) != 0 ? 64 : sizeof message - sizeof number);
  memset(message, (uint8_t)length, length);
  memcpy(message, &number, sizeof number);
  CHECK_EQUAL(mr_transport_send(t, to, message, length), 0);
}

static struct mr_job job_of(uint16_t me) {
  for (uint16_t node = 0; node < nodes; node++)
    if (node != me)
      close(listeners[node]);
  return (struct mr_job){.nodes = nodes,
                         .me = me,
                         .listener = listeners[me],
                         .addresses = addresses,
                         .incarnation = me,
                         .transport = way,
                         .share = shares ? &share : NULL};
}

static int try_to_meet(uint16_t me, struct mr_transport **transport, char *why, size_t size) {
  const struct mr_job job = job_of(me);
  uint32_t incarnations[NODES];
  return mr_transport_join(transport, &job, incarnations, JOIN_SECONDS, why, size);
}

static struct mr_transport *meet(uint16_t me) {
  struct mr_transport *transport;
  char why[256];
  int rc = try_to_meet(me, &transport, why, sizeof why);
  if (*why != 0)
    fprintf(stderr, "%s\n", why);
  CHECK(rc == 0 && *why == 0);
  return transport;
}

static bool all_heard(const struct talk *talks, uint64_t said) {
  for (uint16_t reader = 1; reader < nodes; reader++)
    if (talks[reader].heard < said)
      return false;
  return true;
}

static void be_home(void *unused) {
  struct mr_transport *t = meet(0);
  struct talk talks[NODES] = {0};
  (void)unused;
  shown = mr_transport_shown(t);
  CHECK(shown != NULL);
  for (uint64_t said = 1;; said++) {
    for (uint16_t reader = 1; reader < nodes; reader++)
      say(t, reader, said);
    while (!all_heard(talks, said)) {
      step();
      CHECK(mr_transport_serve(t, &sink, talks) >= 0);
    }
  }
}

/* ---- the reader --------------------------------------------------------------------- */

static struct kept {
  bool any;
  uint64_t version, is;
} kept[PAGES];

static void copy_one(struct mr_transport *t) {
  static _Alignas(64) uint64_t bytes[WORDS];
  uint32_t p = (uint32_t)draw(PAGES);
  struct kept *last = &kept[p];
  uint64_t version;
  /* What it has got stays what it is. */
  if (last->any)
    CHECK_EQUAL(atomic_load(&truth->is[p][last->version % VERSIONS]), last->is);
  if (mr_transport_copy(t, 0, p, bytes, &version) < 0) {
    atomic_fetch_add(&truth->refused, 1);
    return;
  }
  for (unsigned i = 1; i < WORDS; i++)
    CHECK_EQUAL(bytes[i], bytes[0]);
  CHECK_EQUAL(bytes[0], atomic_load(&truth->is[p][version % VERSIONS]));
  CHECK(!last->any || version >= last->version);
  *last = (struct kept){true, version, bytes[0]};
  atomic_fetch_add(&truth->copied, 1);
}

static void sleep_there(struct mr_transport *t) {
  struct pollfd polled = {.fd = mr_transport_descriptor(t), .events = POLLIN};
  if (mr_transport_rest(t) == 0)
    CHECK(poll(&polled, 1, (int)liveness_ms()) == 1);
}

struct reader {
  uint16_t me;
  bool sleeps;
};

static void read_until_end(void *argument) {
  const struct reader *reader = argument;
  struct mr_transport *t = meet(reader->me);
  struct talk talks[NODES] = {0};
  uint64_t said = 0, version;
  int64_t last = maru_now_ns();
  _Alignas(64) uint8_t bytes[MR_PAGE];
  atomic_fetch_add(&truth->met, 1);
  while (!talks[0].over) {
    if (mr_transport_serve(t, &sink, talks) > 0)
      last = maru_now_ns();
    while (said < talks[0].heard && !talks[0].over)
      say(t, 0, ++said);
    copy_one(t);
    CHECK(maru_now_ns() - last < liveness_ms() * 1000000);
    if (reader->sleeps && !talks[0].over)
      sleep_there(t);
  }
  for (uint32_t p = 0; p < PAGES; p++)
    CHECK(mr_transport_copy(t, 0, p, bytes, &version) < 0);
  void *at;
  CHECK(mr_transport_map(t, 0, MR_SHARED_MEMORY, &at) < 0);
  atomic_fetch_add(&truth->answered, said);
  mr_transport_close(t);
}

/* ---- both sleep; the last words of one ------------------------------------------------- */

static void serve_or_sleep(struct mr_transport *t, struct talk *talks) {
  int came = mr_transport_serve(t, &sink, talks);
  CHECK(came >= 0);
  if (came == 0)
    sleep_there(t);
}

/* In turns; node 1 ends last. */
static void speak_in_turns(struct mr_transport *t, uint16_t me) {
  struct talk talks[NODES] = {0}, *other = &talks[1 - me];
  for (uint64_t said = 0; said < TURNS; serve_or_sleep(t, talks))
    if (other->heard == said + me)
      say(t, 1 - me, ++said);
  while (me == 1 ? !other->over : other->heard < TURNS)
    serve_or_sleep(t, talks);
  CHECK_EQUAL(other->heard, TURNS);
  mr_transport_close(t);
}

static void speak_first(void *unused) {
  (void)unused;
  speak_in_turns(meet(0), 0);
}

/* What is written in node 0's memory is there. */
static void write_theirs(const struct mr_transport *t) {
  void *at;
  CHECK_EQUAL(mr_transport_map(t, 0, MR_SHARED_MEMORY, &at), 0);
  atomic_store(&((words *)at)[PAGES - 1][0], 7);
  CHECK_EQUAL(atomic_exchange(&memory[PAGES - 1][0], 0), 7);
  CHECK_EQUAL(mr_transport_map(t, 0, MR_SHARED_COMMONS, &at), -ENOENT); /* it has none */
}

static void speak_second(void *unused) {
  struct mr_transport *t = meet(1);
  (void)unused;
  write_theirs(t);
  speak_in_turns(t, 1);
}

static void say_and_die(void *unused) {
  struct mr_transport *t = meet(0);
  (void)unused;
  for (uint64_t number = 1; number <= LAST_WORDS; number++)
    CHECK_EQUAL(mr_transport_send(t, 1, &number, sizeof number), 0);
  kill(getpid(), SIGKILL);
}

static void hear_to_the_end(struct mr_transport *t, uint64_t words) {
  struct talk talks[NODES] = {0};
  while (!talks[0].over)
    serve_or_sleep(t, talks);
  CHECK_EQUAL(talks[0].heard, words);
  mr_transport_close(t);
}

/* It looks when all is over. */
static void hear_last_words(void *unused) {
  struct mr_transport *t = meet(1);
  (void)unused;
  usleep(20000);
  CHECK_EQUAL(mr_transport_rest(t), -EAGAIN);
  hear_to_the_end(t, LAST_WORDS);
}

/* ---- one that ends while they meet, one that lies ------------------------------------------ */

/* Of node 0. */
struct meeting {
  struct mr_near *near;
  struct mr_card cards[NODES];
  int fds[NODES];
};

static void shake_hands(struct meeting *meeting, bool lies) {
  const struct mr_job job = job_of(0);
  struct mr_card mine = {.near = {0}};
  uint32_t incarnations[NODES];
  CHECK_EQUAL(mr_near_open(&meeting->near, &job, &mine), 0);
  mine.near[0] ^= lies; /* of the number that its segment has */
  CHECK_EQUAL(mr_join(&job, &mine, meeting->fds, meeting->cards, incarnations, JOIN_SECONDS), 0);
  memcpy(&meeting->cards[0], &mine, sizeof mine);
}

/* Before it says whether it is near.  `late`: node 1 has mapped its memory by then. */
static void meet_and_die(void *late) {
  struct meeting meeting;
  shake_hands(&meeting, false);
  usleep(late != NULL ? 50000 : 0);
  kill(getpid(), SIGKILL);
}

/* It is not refused: it loses another. */
static void hear_no_answer(void *unused) {
  (void)unused;
  hear_to_the_end(meet(1), 0);
}

static void lie(struct meeting *meeting) {
  char why[256];
  shake_hands(meeting, true);
  int64_t deadline = maru_now_ns() + INT64_C(1000000000) * JOIN_SECONDS;
  CHECK_EQUAL(
      mr_near_connect(meeting->near, meeting->cards, meeting->fds, deadline, why, sizeof why), 0);
  CHECK(!mr_near_has(meeting->near, 1) && strstr(why, "it cannot reach this node's") != NULL);
}

static void meet_and_lie(void *unused) {
  struct meeting meeting;
  (void)unused;
  lie(&meeting);
  mr_near_close(meeting.near);
}

static void find_liar(void *unused) {
  struct mr_transport *t;
  char why[256];
  (void)unused;
  CHECK_EQUAL(try_to_meet(1, &t, why, sizeof why), -ENODATA);
  CHECK(strstr(why, strerror(ESRCH)) != NULL);
}

/* ---- another in the place of one that ended ----------------------------------------------------
 */

static struct sockaddr_storage place; /* of the second node 0 */
static int place_listens;

static struct mr_job job_again(uint16_t me) {
  addresses[0] = place;
  return (struct mr_job){.nodes = nodes,
                         .me = me,
                         .listener = me == 0 ? place_listens : -1,
                         .addresses = addresses,
                         .incarnation = me,
                         .transport = way,
                         .again = true};
}

/* Of node 1: what `rejoin` is to give. */
static void meet_second(struct mr_transport *t, int want) {
  struct talk talks[NODES] = {0};
  char why[256];
  while (!talks[0].over)
    serve_or_sleep(t, talks);
  CHECK_EQUAL(talks[0].heard, LAST_WORDS);
  const struct mr_job again = job_again(1);
  CHECK_EQUAL(mr_transport_rejoin(t, &again, JOIN_SECONDS, why, sizeof why), want);
}

static void speak_with_second(void *unused) {
  struct mr_transport *t = meet(1);
  (void)unused;
  meet_second(t, 0);
  speak_in_turns(t, 1);
}

static void refuse_second(void *unused) {
  struct mr_transport *t = meet(1);
  (void)unused;
  meet_second(t, -ENODATA);
  mr_transport_close(t);
}

static void speak_as_second(void *unused) {
  const struct mr_job job = job_again(0);
  struct mr_transport *t;
  uint32_t incarnations[NODES];
  char why[256];
  (void)unused;
  CHECK_EQUAL(mr_transport_join(&t, &job, incarnations, JOIN_SECONDS, why, sizeof why), 0);
  speak_in_turns(t, 0);
}

/* The first was not what its card said, and reached otherwise. */
static void lie_and_die(void *unused) {
  struct meeting meeting;
  (void)unused;
  lie(&meeting);
  kill(getpid(), SIGKILL);
}

static void refuse_nearer(void *unused) {
  struct talk talks[NODES] = {0};
  struct mr_transport *t;
  char why[256];
  (void)unused;
  CHECK_EQUAL(try_to_meet(1, &t, why, sizeof why), 0);
  while (!talks[0].over)
    serve_or_sleep(t, talks);
  const struct mr_job again = job_again(1);
  CHECK_EQUAL(mr_transport_rejoin(t, &again, JOIN_SECONDS, why, sizeof why), -ENODATA);
  CHECK(strstr(why, "and did not") != NULL);
  mr_transport_close(t);
}

static void be_nearer(void *unused) {
  const struct mr_job job = job_again(0);
  struct talk talks[NODES] = {0};
  struct mr_transport *t;
  uint32_t incarnations[NODES];
  char why[256];
  (void)unused;
  CHECK_EQUAL(mr_transport_join(&t, &job, incarnations, JOIN_SECONDS, why, sizeof why), 0);
  while (!talks[1].over)
    serve_or_sleep(t, talks);
  mr_transport_close(t);
}

/* It is not what its card says: node 1 reaches it, but not by its memory. */
static void lie_as_second(void *unused) {
  const struct mr_job job = job_again(0);
  struct meeting meeting;
  struct mr_card mine = {.near = {0}};
  uint32_t incarnations[NODES];
  char why[256];
  (void)unused;
  CHECK_EQUAL(mr_near_open(&meeting.near, &job, &mine), 0);
  mine.near[0] ^= 1;
  CHECK_EQUAL(mr_join(&job, &mine, meeting.fds, meeting.cards, incarnations, JOIN_SECONDS), 0);
  memcpy(&meeting.cards[0], &mine, sizeof mine);
  int64_t deadline = maru_now_ns() + INT64_C(1000000000) * JOIN_SECONDS;
  CHECK_EQUAL(mr_near_connect(meeting.near, meeting.cards, meeting.fds, deadline, why, sizeof why),
              0);
  CHECK(!mr_near_has(meeting.near, 1));
  mr_near_close(meeting.near);
}

/* ---- all of it -------------------------------------------------------------------------- */

static void *share_pages(int *fd) {
  *fd = mr_sealed_memfd("maru-test", PAGES * MR_PAGE);
  void *at = mmap(NULL, PAGES * MR_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  CHECK(*fd >= 0 && at != MAP_FAILED);
  return at;
}

static void begin(uint16_t count) {
  nodes = count;
  memory = share_pages(&share.memory);
  twins = share_pages(&share.twins);
  for (uint16_t node = 0; node < nodes; node++)
    listeners[node] = listen_on_loopback(2, &addresses[node]);
}

static void end(const pid_t *pids, int first) {
  for (uint16_t node = 0; node < nodes; node++)
    close(listeners[node]);
  CHECK_EQUAL(finish(pids[0]), first);
  for (uint16_t node = 1; node < nodes; node++)
    CHECK_EQUAL(finish(pids[node]), 0);
  munmap(memory, PAGES * MR_PAGE);
  munmap(twins, PAGES * MR_PAGE);
  close(share.memory);
  close(share.twins);
}

static void two(void (*first)(void *), void (*second)(void *), void *argument, int status) {
  begin(2);
  const pid_t pids[] = {start(first, argument), start(second, NULL)};
  end(pids, status);
}

static void again(void (*dying)(void *), void (*second)(void *), void (*other)(void *)) {
  begin(2);
  int first = listeners[0];
  struct sockaddr_storage first_address = addresses[0];
  listeners[0] = listen_on_loopback(2, &addresses[0]);
  place = addresses[0];
  place_listens = listeners[0];
  listeners[0] = first;
  addresses[0] = first_address;
  const pid_t dies = start(dying, NULL), lives = start(other, NULL);
  CHECK_EQUAL(finish(dies), SIGKILL);
  end((pid_t[]){start(second, NULL), lives}, 0);
  close(place_listens);
}

/* In turns one of the readers sleeps. */
static void one(uint16_t sleeper) {
  struct reader readers[NODES];
  pid_t pids[NODES];
  memset(truth->is, 0, sizeof truth->is);
  atomic_store(&truth->met, 0);
  begin(NODES);
  pids[0] = start(be_home, NULL);
  for (uint16_t me = 1; me < NODES; me++) {
    readers[me] = (struct reader){me, me == sleeper};
    pids[me] = start(read_until_end, &readers[me]);
  }
  /* Node 0 may be about to leave its join. */
  while (atomic_load(&truth->met) < NODES - 1)
    CHECK(waitpid(-1, NULL, WNOHANG) == 0 && usleep(100) == 0);
  usleep((useconds_t)draw(8000));
  CHECK(kill(pids[0], SIGKILL) == 0);
  end(pids, SIGKILL);
}

int main(void) {
  uint64_t rounds = setting("MARU_DSM_SCHEDULES", ROUNDS * setting("MARU_TEST_SCALE", 1));
  seed = setting("MARU_DSM_SEED", 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
  truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(truth != MAP_FAILED);
  two(say_and_die, hear_last_words, NULL, SIGKILL);
  two(speak_first, speak_second, NULL, 0);
  two(meet_and_die, hear_no_answer, NULL, SIGKILL);
  two(meet_and_die, hear_no_answer, "late", SIGKILL);
  two(meet_and_lie, find_liar, NULL, 0);
  shares = false;
  again(say_and_die, speak_as_second, speak_with_second);
  again(say_and_die, lie_as_second, refuse_second);
  way = "shm+tcp";
  again(lie_and_die, be_nearer, refuse_nearer);
  way = "shm";
  shares = true;
  for (uint64_t i = 0; i < rounds; i++) {
    snprintf(check_note, sizeof check_note, "(round %llu)", (unsigned long long)i);
    one((uint16_t)(1 + i % 2));
    next_random(&seed);
  }
  printf("%llu rounds: %llu pages copied, %llu not, %llu messages answered\n",
         (unsigned long long)rounds, (unsigned long long)truth->copied,
         (unsigned long long)truth->refused, (unsigned long long)truth->answered);
  CHECK(truth->copied > 0 && truth->refused > 0 && truth->answered > 0);
  return 0;
}
