/* Description: no wake-up is lost between two processes, under every policy and kind of word.
 *
 * Built with wait.c itself and slices of an hour, so that a lost wake-up is not
 * healed by the end of a slice: the wait then fails at its deadline. */
#define _GNU_SOURCE
#include <maru/board.h>
#include <maru/wait.h>

#include "check.h"

#include <sched.h>
#include <sys/mman.h>

#define SECOND INT64_C(1000000000)

enum { PLAIN, CHANNEL, SILENT, WAYS };
static const char *const way_names[] = {"a word", "a channel", "a silent channel"};

static struct maru_board the_board;

struct side {
  struct maru_channel *channel; /* NULL: the word is plain */
  _Atomic uint32_t *word;
};

struct game {
  struct side ping, pong;
  int way;
  enum maru_wait_kind kind;
  uint64_t rounds;
  uint64_t *payload; /* plain: ordered by the words alone */
};

static void await_turn(struct side *side, uint64_t round, struct maru_wait_policy *policy) {
  uint32_t want = (uint32_t)(round * MARU_WAIT_STEP);
  CHECK_EQUAL(maru_wait(side->word, want, ~MARU_WAIT_ARMED, policy, maru_now_ns() + 20 * SECOND),
              0);
}

static void give_turn(struct side *side, int way) {
  if (way == SILENT)
    maru_channel_post(side->channel);
  else
    maru_notify(side->word);
}

static struct maru_wait_policy policy_for(struct side *side, enum maru_wait_kind kind) {
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, kind), 0);
  if (side->channel != NULL)
    CHECK_EQUAL(maru_channel_attach(side->channel, &policy), 0);
  return policy;
}

/* Who sends the last message of all waits no more: nobody but it would wake for it. */
static void wake_last(struct side *side) {
  struct maru_wait_table *table;
  if (side->channel == NULL)
    return;
  CHECK_EQUAL(maru_wait_table_of(&the_board, &table), 0);
  (void)maru_wait_wake_pending(table, NULL);
}

static void child(void *argument) {
  struct game *game = argument;
  struct maru_wait_policy policy = policy_for(&game->ping, game->kind);
  for (uint64_t i = 1; i <= game->rounds; i++) {
    await_turn(&game->ping, i, &policy);
    CHECK_EQUAL(*game->payload, 2 * i - 1);
    *game->payload = 2 * i;
    give_turn(&game->pong, game->way);
  }
  wake_last(&game->pong);
}

/* ---- more waiters than one CPU has watchers ------------------------------- */

#define RING 4

struct ring {
  struct maru_channel *channels[RING];
  uint64_t rounds;
  unsigned place;
};

/* All on one CPU, where one watches: the others sleep, and only a peer's wake ends that.
 * The turn goes round. */
static void pass_on(void *argument) {
  struct ring *ring = argument;
  struct side own = {ring->channels[ring->place], &ring->channels[ring->place]->word};
  struct maru_channel *next = ring->channels[(ring->place + 1) % RING];
  struct maru_wait_policy policy = policy_for(&own, MARU_WAIT_COOP);
  for (uint64_t i = 1; i <= ring->rounds; i++) {
    await_turn(&own, i, &policy);
    maru_channel_post(next);
  }
  wake_last(&(struct side){.channel = next});
}

static void go_round(struct maru_board *board, uint64_t rounds) {
  struct ring ring = {.rounds = rounds};
  pid_t pids[RING];
  cpu_set_t allowed, one;
  CHECK_EQUAL(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  CHECK_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
  for (unsigned i = 0; i < RING; i++)
    CHECK_EQUAL(maru_channel_register(board, 0, MARU_CHANNEL_SILENT, &ring.channels[i]), 0);
  maru_channel_post(ring.channels[0]);
  for (ring.place = 0; ring.place < RING; ring.place++)
    pids[ring.place] = start(pass_on, &ring);
  for (unsigned i = 0; i < RING; i++)
    CHECK_EQUAL(finish(pids[i]), 0);
  for (unsigned i = 0; i < RING; i++)
    maru_channel_release(ring.channels[i]);
  CHECK_EQUAL(sched_setaffinity(0, sizeof allowed, &allowed), 0);
}

static int64_t play(struct game *game) {
  struct maru_wait_policy policy = policy_for(&game->pong, game->kind);
  pid_t pid = start(child, game);
  int64_t begin = maru_now_ns();
  for (uint64_t i = 1; i <= game->rounds; i++) {
    *game->payload = 2 * i - 1;
    give_turn(&game->ping, game->way);
    await_turn(&game->pong, i, &policy);
    CHECK_EQUAL(*game->payload, 2 * i);
  }
  int64_t time = maru_now_ns() - begin;
  CHECK_EQUAL(finish(pid), 0);
  return time;
}

static void open_side(struct side *side, int way, struct maru_board *board,
                      _Atomic uint32_t *plain) {
  *side = (struct side){.word = plain};
  atomic_store(plain, 0);
  if (way == PLAIN)
    return;
  CHECK_EQUAL(
      maru_channel_register(board, 0, way == SILENT ? MARU_CHANNEL_SILENT : 0, &side->channel), 0);
  side->word = &side->channel->word;
}

static void close_side(struct side *side) {
  if (side->channel != NULL)
    maru_channel_release(side->channel);
}

/* Policies that never sleep give a time slice away a turn on a busy machine. */
static uint64_t fewer(enum maru_wait_kind kind, uint64_t rounds) {
  switch (kind) {
  case MARU_WAIT_SPIN:
  case MARU_WAIT_SPIN_LOWER:
  case MARU_WAIT_LOWER_YIELD:
  case MARU_WAIT_SLEEP_POLL:
    return rounds / 20;
  default:
    return rounds / 4;
  }
}

int main(void) {
  uint64_t rounds = setting("MARU_TEST_ROUNDS", 10000);
  struct {
    _Alignas(64) _Atomic uint32_t ping;
    _Alignas(64) _Atomic uint32_t pong;
    _Alignas(64) uint64_t payload;
  } *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  CHECK_EQUAL(maru_board_create(&the_board, 1 << 20), 0);
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++)
    for (int way = 0; way < WAYS; way++) {
      struct game game = {.way = way,
                          .kind = (enum maru_wait_kind)kind,
                          .rounds = fewer((enum maru_wait_kind)kind, rounds),
                          .payload = &shared->payload};
      open_side(&game.ping, way, &the_board, &shared->ping);
      open_side(&game.pong, way, &the_board, &shared->pong);
      int64_t time = play(&game);
      close_side(&game.ping);
      close_side(&game.pong);
      printf("%s, %s: %lld ns per round\n", maru_wait_kind_name(game.kind), way_names[way],
             (long long)time / (long long)game.rounds);
    }
  go_round(&the_board, rounds / 20);
  maru_board_close(&the_board);
  return 0;
}
