/* Description: a crew's waits as channels: the seats, what runs, the lines that come back. */
#define _GNU_SOURCE
#include <maru/board.h>
#include <maru/channel.h>

#include "check.h"

#include <pthread.h>
#include <sys/resource.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define WORKERS 3u
#define JOB 77u

static struct maru_board board;
static struct maru_wait_table *table;

static uint32_t taken(void) {
  uint32_t lines = 0;
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i++)
    lines += atomic_load(&table->channels[i].taken) != 0;
  return lines;
}

static struct maru_crew *crew_of(uint32_t workers) {
  struct maru_crew *crew;
  CHECK_EQUAL(maru_crew_create(&crew, workers, 4), 0);
  return crew;
}

static struct maru_crew *seated_crew(uint32_t workers) {
  struct maru_crew *crew = crew_of(workers);
  CHECK_EQUAL(maru_crew_seat(crew, &board, JOB), 0);
  return crew;
}

/* The channel with that thread; waits until there is one. */
static struct maru_channel *seat_with(pid_t tid) {
  int64_t end = maru_now_ns() + 20 * SECOND;
  for (;;) {
    for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i++)
      if (atomic_load(&table->channels[i].tid) == tid)
        return &table->channels[i];
    CHECK(maru_now_ns() < end);
  }
}

static void await_waiting(struct maru_channel *seat) {
  int64_t end = maru_now_ns() + 20 * SECOND;
  while (atomic_load(&seat->state) == MARU_CHANNEL_IDLE)
    CHECK(maru_now_ns() < end);
}

/* All or none: a crew that does not fit is as it was. */
static void lines(void) {
  struct maru_channel *others[MARU_WAIT_CHANNELS];
  struct maru_crew *crew = seated_crew(WORKERS);
  CHECK_EQUAL(maru_wait_table_of(&board, &table), 0);
  CHECK_EQUAL(taken(), WORKERS + 1);
  CHECK_EQUAL(maru_crew_seat(crew, &board, JOB), -EALREADY);
  maru_crew_destroy(crew);
  CHECK_EQUAL(taken(), 0);
  crew = crew_of(MARU_CREW_MAX_SEATS + 1);
  CHECK_EQUAL(maru_crew_seat(crew, &board, JOB), -E2BIG);
  maru_crew_destroy(crew);
  CHECK_EQUAL(maru_channels_register(&board, 1, 0, others, MARU_WAIT_CHANNELS - WORKERS), 0);
  crew = crew_of(WORKERS);
  CHECK_EQUAL(maru_crew_seat(crew, &board, JOB), -ENOSPC);
  CHECK_EQUAL(taken(), MARU_WAIT_CHANNELS - WORKERS);
  struct maru_wait_policy policy;
  struct maru_chunk chunk;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_COOP), 0);
  CHECK_EQUAL(maru_crew_publish(crew, 5, 1), 0);
  CHECK_EQUAL(maru_crew_claim(crew, 0, &chunk, &policy, 0), 1);
  CHECK_EQUAL(chunk.first, 5);
  maru_crew_destroy(crew);
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS - WORKERS; i++)
    maru_channel_release(others[i]);
  CHECK_EQUAL(taken(), 0);
}

struct player {
  struct maru_crew *crew;
  enum maru_wait_kind kind;
};

/* Takes one chunk, which it has to wait for, in slices. */
static void take_one(void *argument) {
  struct player *player = argument;
  struct maru_wait_policy policy;
  struct maru_chunk chunk;
  int rc;
  CHECK_EQUAL(maru_wait_policy_init(&policy, player->kind), 0);
  do
    rc = maru_crew_claim(player->crew, 1, &chunk, &policy, maru_now_ns() + 5 * MS);
  while (rc == -ETIMEDOUT);
  CHECK_EQUAL(rc, 1);
  CHECK_EQUAL(maru_wait_runs_as(&policy, NULL), player->kind);
  maru_crew_done(player->crew, 1);
}

/* The page shows who waits for what since when, over the ends of its slices, and what was
 * asked for is what runs. */
static void shown(enum maru_wait_kind kind) {
  struct player player = {.crew = seated_crew(WORKERS), .kind = kind};
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, kind), 0);
  int64_t before = maru_now_ns();
  pid_t pid = start(take_one, &player);
  struct maru_channel *seat = seat_with(pid);
  await_waiting(seat);
  CHECK_EQUAL(seat->flags, MARU_CHANNEL_WORK | MARU_CHANNEL_WORKING);
  CHECK_EQUAL(seat->job, JOB);
  int64_t since = seat->since_ns;
  CHECK(since >= before && since <= maru_now_ns());
  usleep(30000);
  CHECK_EQUAL(seat->since_ns, since);
  uint32_t seen = maru_crew_bell(player.crew);
  CHECK_EQUAL(maru_crew_publish(player.crew, 0, 1), 0);
  int rc;
  while ((rc = maru_crew_await(player.crew, seen, &policy, maru_now_ns() + 20 * SECOND)) == -EINTR)
    continue;
  CHECK_EQUAL(rc, 0);
  CHECK_EQUAL(maru_wait_runs_as(&policy, NULL), kind);
  struct maru_channel *own = seat_with(getpid());
  CHECK_EQUAL(own->flags, MARU_CHANNEL_RESULTS | MARU_CHANNEL_WORKING);
  CHECK_EQUAL(finish(pid), 0);
  maru_crew_destroy(player.crew);
  CHECK_EQUAL(taken(), 0);
}

/* A worker that was killed while it waited waits no more; its successor sits there. */
static void killed_worker(void) {
  struct player player = {.crew = seated_crew(WORKERS), .kind = MARU_WAIT_BLOCK};
  pid_t pid = start(take_one, &player);
  struct maru_channel *seat = seat_with(pid);
  await_waiting(seat);
  CHECK_EQUAL(kill(pid, SIGKILL), 0);
  CHECK_EQUAL(finish(pid), SIGKILL);
  maru_crew_forfeit(player.crew, 1);
  CHECK_EQUAL(seat->state, MARU_CHANNEL_IDLE);
  CHECK_EQUAL(seat->tid, 0);
  pid = start(take_one, &player);
  CHECK(seat_with(pid) == seat);
  CHECK_EQUAL(maru_crew_publish(player.crew, 0, 1), 0);
  CHECK_EQUAL(finish(pid), 0);
  maru_crew_destroy(player.crew);
}

static void sit_and_hang(void *unused) {
  (void)unused;
  struct player player = {.crew = seated_crew(WORKERS), .kind = MARU_WAIT_BLOCK};
  pid_t child = start(take_one, &player);
  await_waiting(seat_with(child));
  CHECK_EQUAL(kill(child, SIGKILL), 0);
  (void)finish(child);
  kill(getpid(), SIGKILL);
}

/* A process that was killed gives no line back. A process that needs lines takes them over, but
 * not those where another sits or whose process lives. */
static void killed_coordinator(void) {
  struct maru_channel *others[MARU_WAIT_CHANNELS];
  CHECK_EQUAL(finish(start(sit_and_hang, NULL)), SIGKILL);
  CHECK_EQUAL(taken(), WORKERS + 1);
  CHECK_EQUAL(maru_channels_register(&board, 1, 0, others, MARU_WAIT_CHANNELS - WORKERS), 0);
  CHECK_EQUAL(taken(), MARU_WAIT_CHANNELS);
  struct maru_channel *first = others[0], *more;
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS - WORKERS; i++)
    CHECK(i == 0 || others[i] != first);
  struct maru_channel *rest[WORKERS];
  CHECK_EQUAL(maru_channels_register(&board, 1, 0, rest, WORKERS), 0);
  CHECK_EQUAL(maru_channel_register(&board, 1, 0, &more), -ENOSPC);
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS - WORKERS; i++)
    maru_channel_release(others[i]);
  for (uint32_t i = 0; i < WORKERS; i++)
    maru_channel_release(rest[i]);
  CHECK_EQUAL(taken(), 0);
}

static void take_and_hang(void *unused) {
  (void)unused;
  struct maru_channel *lines[MARU_WAIT_CHANNELS];
  CHECK_EQUAL(maru_channels_register(&board, 1, 0, lines, MARU_WAIT_CHANNELS), 0);
  kill(getpid(), SIGKILL);
}

/* Killed while it took the line, or gave it back: what it had not done yet, or had done, is not
 * missed. */
static void killed_in_between(void) {
  struct maru_channel *lines[MARU_WAIT_CHANNELS];
  CHECK_EQUAL(finish(start(take_and_hang, NULL)), SIGKILL);
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i += 2)
    atomic_store(&table->channels[i].taken, 0);
  CHECK_EQUAL(maru_channels_register(&board, 1, 0, lines, MARU_WAIT_CHANNELS), 0);
  CHECK_EQUAL(taken(), MARU_WAIT_CHANNELS);
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i++)
    maru_channel_release(lines[i]);
  CHECK_EQUAL(taken(), 0);
}

static void take_and_give(void *unused) {
  struct maru_channel *lines[256];
  for (;; (void)unused) {
    CHECK_EQUAL(maru_channels_register(&board, 1, 0, lines, 256), 0);
    for (uint32_t i = 0; i < 256; i++)
      maru_channel_release(lines[i]);
  }
}

static void killed_at_random(uint64_t seed) {
  struct maru_channel *lines[MARU_WAIT_CHANNELS];
  for (unsigned kills = 0; kills < 100; kills++) {
    pid_t pid = start(take_and_give, NULL);
    usleep((useconds_t)(500 + next_random(&seed) % 2000));
    CHECK_EQUAL(kill(pid, SIGKILL), 0);
    CHECK_EQUAL(finish(pid), SIGKILL);
  }
  CHECK_EQUAL(maru_channels_register(&board, 1, 0, lines, MARU_WAIT_CHANNELS), 0);
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i++)
    maru_channel_release(lines[i]);
}

static void take_lines(void *unused) {
  (void)unused;
  struct maru_channel *lines[2];
  CHECK_EQUAL(maru_channels_register(&board, 1, 0, lines, 2), 0);
  if (fork() == 0) { /* it has inherited them, and outlives its parent */
    struct maru_wait_policy policy;
    CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
    CHECK_EQUAL(maru_channel_attach(lines[0], &policy), 0);
    CHECK_EQUAL(
        maru_wait_while(&lines[0]->word, 0, ~MARU_WAIT_ARMED, &policy, maru_now_ns() + 20 * SECOND),
        0);
    maru_channel_release(lines[1]);
    _exit(0);
  }
  int64_t end = maru_now_ns() + 20 * SECOND;
  while (atomic_load(&lines[0]->tid) == 0)
    CHECK(maru_now_ns() < end);
}

/* A child that waits on an inherited line keeps it. */
static void inherited_line(void) {
  struct maru_channel *others[MARU_WAIT_CHANNELS], *more;
  CHECK_EQUAL(finish(start(take_lines, NULL)), 0);
  struct maru_channel *kept = &table->channels[0];
  CHECK_EQUAL(maru_channels_register(&board, 1, 0, others, MARU_WAIT_CHANNELS - 1), 0);
  CHECK_EQUAL(maru_channel_register(&board, 1, 0, &more), -ENOSPC);
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS - 1; i++) {
    CHECK(others[i] != kept);
    maru_channel_release(others[i]);
  }
  maru_notify(&kept->word);
}

static void *hold(void *unused) {
  for (;;)
    pause();
  return unused;
}

/* Its first thread ends, another one lives. */
static void take_all(void *unused) {
  (void)unused;
  pthread_t thread;
  struct maru_channel *lines[MARU_WAIT_CHANNELS];
  CHECK_EQUAL(maru_channels_register(&board, 1, 0, lines, MARU_WAIT_CHANNELS), 0);
  CHECK_EQUAL(pthread_create(&thread, NULL, hold, NULL), 0);
  pthread_exit(NULL);
}

static bool is_zombie(pid_t pid) {
  char path[32], text[64] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "r");
  CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
  fclose(file);
  return strstr(text, ") Z") != NULL;
}

/* What cannot be seen to have died keeps its lines. */
static void living_owner(void) {
  struct maru_channel *lines[MARU_WAIT_CHANNELS];
  struct rlimit files, none;
  pid_t pid = start(take_all, NULL);
  int64_t end = maru_now_ns() + 20 * SECOND;
  while (!is_zombie(pid))
    CHECK(maru_now_ns() < end);
  CHECK_EQUAL(taken(), MARU_WAIT_CHANNELS);
  CHECK_EQUAL(maru_channel_register(&board, 1, 0, lines), -ENOSPC);
  CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &files), 0);
  none = (struct rlimit){.rlim_cur = 0, .rlim_max = files.rlim_max};
  CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &none), 0);
  int rc = maru_channel_register(&board, 1, 0, lines);
  CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &files), 0);
  CHECK_EQUAL(rc, -ENOSPC);
  CHECK_EQUAL(kill(pid, SIGKILL), 0);
  /* Seen to have died, though nobody has reaped it. */
  siginfo_t ended;
  CHECK_EQUAL(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
  CHECK_EQUAL(maru_channels_register(&board, 1, 0, lines, MARU_WAIT_CHANNELS), 0);
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i++)
    maru_channel_release(lines[i]);
  CHECK_EQUAL(finish(pid), SIGKILL);
}

int main(void) {
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  lines();
  shown(MARU_WAIT_COOP);
  shown(MARU_WAIT_BLOCK);
  shown(MARU_WAIT_ADAPTIVE);
  table->heartbeat_ns = maru_now_ns() + 600 * SECOND; /* as a daemon's that gives time slots */
  table->slot_job = JOB + 1;
  shown(MARU_WAIT_GANG);
  table->slot_job = JOB + 2;
  shown(MARU_WAIT_GANG);
  table->heartbeat_ns = 0;
  table->slot_job = 0;
  killed_worker();
  killed_coordinator();
  killed_in_between();
  killed_at_random(setting("MARU_TEST_SEED", 88172645463325252));
  living_owner();
  inherited_line();
  return 0;
}
