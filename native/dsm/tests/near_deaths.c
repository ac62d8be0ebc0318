/* Description: of two nodes of one host one is killed at any moment. The other has read only whole
 * pages of the versions that they said, and has heard every message in its order. It knows the end
 * in bounded time, asleep or awake. After that no page of the dead node's memory counts.
 *
 * Node 0 is a home. It writes its pages as cores do, with random contents, and keeps a table of
 * what each version of each page is. Node 1 copies pages all the time and compares. Both exchange
 * messages, one at a time.
 */
#define _GNU_SOURCE
#include "../diff.h"
#include "../shown.h"
#include "../transport.h"

#include "check.h"
#include "shared.h"

#include <maru/wait.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

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
  _Atomic bool met;
};

static struct truth *truth;
static words *memory, *twins;
static struct mr_share share = {.pages = PAGES};
static struct sockaddr_storage addresses[2];
static int listeners[2];
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

static void on_message(void *context, uint16_t from, const void *message, size_t length) {
  struct talk *talk = context;
  uint64_t number;
  CHECK(from < 2 && length >= sizeof number && !talk->over);
  memcpy(&number, message, sizeof number);
  CHECK_EQUAL(number, ++talk->heard);
  /* The rest says the length. */
  for (size_t i = sizeof number; i < length; i++)
    CHECK_EQUAL(((const uint8_t *)message)[i], (uint8_t)length);
}

static void on_down(void *context, uint16_t from, bool farewell) {
  struct talk *talk = context;
  CHECK(from < 2 && !farewell);
  talk->over = true;
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

static struct mr_transport *meet(uint16_t me) {
  struct mr_job job = {.nodes = 2,
                       .me = me,
                       .listener = listeners[me],
                       .addresses = addresses,
                       .incarnation = me,
                       .transport = "shm",
                       .share = &share};
  struct mr_transport *transport;
  uint32_t incarnations[2];
  char why[256];
  close(listeners[1 - me]);
  int rc = mr_transport_join(&transport, &job, incarnations, JOIN_SECONDS, why, sizeof why);
  if (rc < 0)
    fprintf(stderr, "%s\n", why);
  CHECK_EQUAL(rc, 0);
  return transport;
}

static void be_home(void *unused) {
  struct mr_transport *t = meet(0);
  struct talk talk = {0};
  (void)unused;
  shown = mr_transport_shown(t);
  CHECK(shown != NULL);
  for (uint64_t said = 1;; said++) {
    say(t, 1, said);
    while (talk.heard < said) {
      step();
      CHECK(mr_transport_serve(t, &sink, &talk) >= 0);
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

static void read_until_end(void *sleeps) {
  struct mr_transport *t = meet(1);
  struct talk talk = {0};
  uint64_t said = 0, version;
  int64_t last = maru_now_ns();
  _Alignas(64) uint8_t bytes[MR_PAGE];
  atomic_store(&truth->met, true);
  while (!talk.over) {
    if (mr_transport_serve(t, &sink, &talk) > 0)
      last = maru_now_ns();
    while (said < talk.heard && !talk.over)
      say(t, 0, ++said);
    copy_one(t);
    CHECK(maru_now_ns() - last < liveness_ms() * 1000000);
    if (sleeps != NULL && !talk.over)
      sleep_there(t);
  }
  for (uint32_t p = 0; p < PAGES; p++)
    CHECK(mr_transport_copy(t, 0, p, bytes, &version) < 0);
  atomic_fetch_add(&truth->answered, said);
  mr_transport_close(t);
}

/* ---- both sleep; the last words of one ------------------------------------------------- */

static void serve_or_sleep(struct mr_transport *t, struct talk *talk) {
  int came = mr_transport_serve(t, &sink, talk);
  CHECK(came >= 0);
  if (came == 0)
    sleep_there(t);
}

/* In turns; node 1 ends last. */
static void speak_in_turns(struct mr_transport *t, uint16_t me) {
  struct talk talk = {0};
  for (uint64_t said = 0; said < TURNS; serve_or_sleep(t, &talk))
    if (talk.heard == said + me)
      say(t, 1 - me, ++said);
  while (me == 1 ? !talk.over : talk.heard < TURNS)
    serve_or_sleep(t, &talk);
  CHECK_EQUAL(talk.heard, TURNS);
  mr_transport_close(t);
}

static void speak_first(void *unused) {
  (void)unused;
  speak_in_turns(meet(0), 0);
}

static void speak_second(void *unused) {
  (void)unused;
  speak_in_turns(meet(1), 1);
}

static void say_and_die(void *unused) {
  struct mr_transport *t = meet(0);
  (void)unused;
  for (uint64_t number = 1; number <= LAST_WORDS; number++)
    CHECK_EQUAL(mr_transport_send(t, 1, &number, sizeof number), 0);
  kill(getpid(), SIGKILL);
}

/* It looks when all is over. */
static void hear_last_words(void *unused) {
  struct mr_transport *t = meet(1);
  struct talk talk = {0};
  (void)unused;
  usleep(20000);
  CHECK_EQUAL(mr_transport_rest(t), -EAGAIN);
  while (!talk.over)
    serve_or_sleep(t, &talk);
  CHECK_EQUAL(talk.heard, LAST_WORDS);
  mr_transport_close(t);
}

/* ---- all of it -------------------------------------------------------------------------- */

static void listen_on_loopback(int node) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  listeners[node] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(bind(listeners[node], (struct sockaddr *)&address, size) == 0 &&
        listen(listeners[node], 2) == 0 &&
        getsockname(listeners[node], (struct sockaddr *)&address, &size) == 0);
  memcpy(&addresses[node], &address, sizeof address);
}

static void *share_pages(int *fd) {
  *fd = mr_sealed_memfd("maru-test", PAGES * MR_PAGE);
  void *at = mmap(NULL, PAGES * MR_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  CHECK(*fd >= 0 && at != MAP_FAILED);
  return at;
}

static void begin(pid_t *nodes, void (*first)(void *), void (*second)(void *), void *argument) {
  memory = share_pages(&share.memory);
  twins = share_pages(&share.twins);
  for (int node = 0; node < 2; node++)
    listen_on_loopback(node);
  nodes[0] = start(first, NULL);
  nodes[1] = start(second, argument);
  for (int node = 0; node < 2; node++)
    close(listeners[node]);
}

static void end(const pid_t *nodes, int first) {
  CHECK_EQUAL(finish(nodes[0]), first);
  CHECK_EQUAL(finish(nodes[1]), 0);
  munmap(memory, PAGES * MR_PAGE);
  munmap(twins, PAGES * MR_PAGE);
  close(share.memory);
  close(share.twins);
}

static void one(bool sleeps) {
  pid_t nodes[2];
  memset(truth->is, 0, sizeof truth->is);
  atomic_store(&truth->met, false);
  begin(nodes, be_home, read_until_end, sleeps ? "" : NULL);
  /* Node 0 may be about to leave its join. */
  while (!atomic_load(&truth->met))
    CHECK(waitpid(nodes[1], NULL, WNOHANG) == 0 && usleep(100) == 0);
  usleep((useconds_t)draw(8000));
  CHECK(kill(nodes[0], SIGKILL) == 0);
  end(nodes, SIGKILL);
}

int main(void) {
  uint64_t rounds = setting("MARU_DSM_SCHEDULES", ROUNDS * setting("MARU_TEST_SCALE", 1));
  seed = setting("MARU_DSM_SEED", 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
  truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(truth != MAP_FAILED);
  pid_t nodes[2];
  begin(nodes, say_and_die, hear_last_words, NULL);
  end(nodes, SIGKILL);
  begin(nodes, speak_first, speak_second, NULL);
  end(nodes, 0);
  for (uint64_t i = 0; i < rounds; i++) {
    snprintf(check_note, sizeof check_note, "(round %llu)", (unsigned long long)i);
    one(i % 2 == 0);
    next_random(&seed);
  }
  printf("%llu rounds: %llu pages copied, %llu not, %llu messages answered\n",
         (unsigned long long)rounds, (unsigned long long)truth->copied,
         (unsigned long long)truth->refused, (unsigned long long)truth->answered);
  CHECK(truth->copied > 0 && truth->refused > 0 && truth->answered > 0);
  return 0;
}
