/* Description: SQLite as a program with threads uses it: connections to one database in memory
 * with one cache, whose mutexes all of them want.  Each thread moves money between accounts, a
 * transaction a move, and looks at one after each. The money stays the same, every move is counted
 * in the database too, and SQLite's own check finds nothing wrong. One line of JSON; status 1 and a
 * line if any of that does not hold.
 *
 * usage: maru-bench-sqlite THREADS SECONDS */
#define _GNU_SOURCE
#include "arguments.h"
#include "json.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ACCOUNTS 200
#define MONEY 1000 /* of each, at first */
#define THREADS_MAX 64
#define DATABASE "file:maru?mode=memory&cache=shared"

static atomic_bool stop;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "maru: SQLite: %s: %s\n", what, why);
  exit(1);
}

static sqlite3 *open_database(void) {
  sqlite3 *database;
  if (sqlite3_open_v2(DATABASE, &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI |
                          SQLITE_OPEN_FULLMUTEX,
                      NULL) != SQLITE_OK)
    fail("cannot open", sqlite3_errmsg(database));
  return database;
}

/* A shared cache answers SQLITE_LOCKED at once where another connection has the table. */
static bool is_locked(int rc) { return (rc & 0xff) == SQLITE_LOCKED; }

static int execute(sqlite3 *database, const char *text) {
  int rc = sqlite3_exec(database, text, NULL, NULL, NULL);
  if (rc != SQLITE_OK && !is_locked(rc))
    fail(text, sqlite3_errmsg(database));
  return rc;
}

static long long ask(sqlite3 *database, const char *question) {
  sqlite3_stmt *statement;
  if (sqlite3_prepare_v2(database, question, -1, &statement, NULL) != SQLITE_OK ||
      sqlite3_step(statement) != SQLITE_ROW)
    fail(question, sqlite3_errmsg(database));
  long long answer = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return answer;
}

struct worker {
  pthread_t thread;
  uint32_t random;
  long moves;
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  bool notified;
};

static uint32_t next(struct worker *worker) {
  worker->random ^= worker->random << 13;
  worker->random ^= worker->random >> 17;
  return worker->random ^= worker->random << 5;
}

static void notify(void **workers, int count) {
  for (int i = 0; i < count; i++) {
    struct worker *worker = workers[i];
    pthread_mutex_lock(&worker->mutex);
    worker->notified = true;
    pthread_cond_signal(&worker->condition);
    pthread_mutex_unlock(&worker->mutex);
  }
}

/* Until the connection that was in the way has ended its transaction. */
static void await_unlock(sqlite3 *database, struct worker *worker) {
  worker->notified = false;
  if (sqlite3_unlock_notify(database, notify, worker) != SQLITE_OK)
    return; /* each would wait for the other: we have rolled back, so try again */
  pthread_mutex_lock(&worker->mutex);
  while (!worker->notified)
    pthread_cond_wait(&worker->condition, &worker->mutex);
  pthread_mutex_unlock(&worker->mutex);
}

static bool move(sqlite3 *database, struct worker *worker) {
  char text[256];
  unsigned from = next(worker) % ACCOUNTS, to = next(worker) % ACCOUNTS, sum = next(worker) % 10;
  if (execute(database, "BEGIN IMMEDIATE") != SQLITE_OK)
    return false;
  snprintf(text, sizeof text,
           "UPDATE account SET money = money - %u WHERE id = %u;"
           "UPDATE account SET money = money + %u WHERE id = %u;"
           "UPDATE done SET moves = moves + 1",
           sum, from, sum, to);
  if (execute(database, text) == SQLITE_OK && execute(database, "COMMIT") == SQLITE_OK)
    return true;
  execute(database, "ROLLBACK");
  return false;
}

static bool look(sqlite3 *database, struct worker *worker) {
  char text[128];
  snprintf(text, sizeof text, "SELECT money FROM account WHERE id = %u", next(worker) % ACCOUNTS);
  return execute(database, text) == SQLITE_OK;
}

/* Every second is a move, however often it takes. */
static void *work(void *argument) {
  struct worker *worker = argument;
  sqlite3 *database = open_database();
  /* Relaxed: a time to end, no data. */
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    while (!move(database, worker))
      await_unlock(database, worker);
    while (!look(database, worker))
      await_unlock(database, worker);
    worker->moves++;
  }
  sqlite3_close(database);
  return NULL;
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void fill(sqlite3 *database) {
  char text[128];
  execute(database, "CREATE TABLE account (id INTEGER PRIMARY KEY, money INTEGER);"
                    "CREATE TABLE done (moves INTEGER); INSERT INTO done VALUES (0)");
  for (int i = 0; i < ACCOUNTS; i++) {
    snprintf(text, sizeof text, "INSERT INTO account VALUES (%d, %d)", i, MONEY);
    execute(database, text);
  }
}

static void check(sqlite3 *database, long moves) {
  if (ask(database, "SELECT sum(money) FROM account") != ACCOUNTS * MONEY)
    fail("the accounts", "money was lost or made");
  if (ask(database, "SELECT moves FROM done") != moves)
    fail("the moves", "the database counts others than its threads");
  if (ask(database, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") !=
      1)
    fail("integrity_check", "something is wrong");
}

int main(int count, char **arguments) {
  static struct worker workers[THREADS_MAX];
  int64_t threads = 1;
  double seconds = 1;
  const struct mr_option operands[] = {
      {"THREADS", MR_WHOLE, &threads, "threads", 1, THREADS_MAX},
      {"SECONDS", MR_REAL, &seconds, "seconds", 0.001, 3600},
  };
  mr_operands("maru-bench-sqlite", operands, sizeof operands / sizeof *operands, count - 1,
              arguments + 1);
  sqlite3_enable_shared_cache(1);
  sqlite3 *database = open_database();
  fill(database);
  double begun = now_s();
  for (long i = 0; i < threads; i++) {
    workers[i] = (struct worker){.random = (uint32_t)(i + 1) * 2654435761u,
                                 .mutex = PTHREAD_MUTEX_INITIALIZER,
                                 .condition = PTHREAD_COND_INITIALIZER};
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
      fail("a thread", "cannot be made");
  }
  struct timespec pause = {.tv_sec = (time_t)seconds,
                           .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
    ;
  atomic_store_explicit(&stop, true, memory_order_relaxed);
  long moves = 0;
  for (long i = 0; i < threads; i++) {
    pthread_join(workers[i].thread, NULL);
    moves += workers[i].moves;
  }
  double took = now_s() - begun;
  check(database, moves);
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_whole(&json, "operations", 2 * (uint64_t)moves);
  mr_json_real(&json, "seconds", took, 6);
  mr_json_end_object(&json);
  putchar('\n');
  sqlite3_close(database);
  return 0;
}
