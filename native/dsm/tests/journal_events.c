/* Description: a journal has the events that were added since what was trimmed, in their order and
 * whole: round the ring's end, for the process that comes after one that was killed, and after it
 * was torn, from the next cut on. */
#define _GNU_SOURCE
#include "../journal.h"
#include "check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CAPACITY (16u * MR_PAGE)
#define LONGEST 6000u
#define STEPS 20000u

static uint64_t random_state;
static int file;
static struct mr_journal *journal;

/* What it is to hold: each event's length, from which its bytes follow. */
static struct {
  uint64_t number, at;
  enum mr_event_kind kind;
  size_t length;
} known[STEPS];
static size_t first, count;

static uint32_t draw(uint32_t below) {
  random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % below;
}

static void fill(uint8_t *bytes, uint64_t number, size_t length) {
  for (size_t i = 0; i < length; i++)
    bytes[i] = (uint8_t)(number * 31 + i * 7);
}

static void open_file(void) {
  file = memfd_create("journal", 0);
  CHECK(file >= 0 && ftruncate(file, (off_t)mr_journal_size(CAPACITY)) == 0);
  CHECK_EQUAL(mr_journal_open(&journal, dup(file)), 0);
}

static void check_all(void) {
  static uint8_t bytes[LONGEST];
  struct mr_event event;
  uint64_t at = mr_journal_begin(journal);
  for (size_t i = first; i < count; i++) {
    CHECK_EQUAL(at, known[i].at);
    CHECK(mr_journal_read(journal, &at, &event));
    fill(bytes, known[i].number, known[i].length);
    CHECK_EQUAL(event.kind, known[i].kind);
    CHECK_EQUAL(event.node, known[i].number % 7);
    CHECK_EQUAL(event.length, known[i].length);
    CHECK_EQUAL((uintptr_t)event.bytes % 8, 0);
    CHECK(memcmp(event.bytes, bytes, event.length) == 0);
  }
  CHECK(!mr_journal_read(journal, &at, &event) || mr_journal_torn(journal));
}

/* Whether it was added; it is if there is room, and nothing after that if there was none. */
static bool add_one(uint64_t number, enum mr_event_kind kind) {
  static uint8_t bytes[LONGEST];
  size_t length = draw(4) == 0 ? draw(LONGEST) : draw(100);
  bool torn = mr_journal_torn(journal);
  fill(bytes, number, length);
  uint64_t end = mr_journal_end(journal);
  bool added = mr_journal_add(journal, kind, (uint16_t)(number % 7), bytes, length);
  if (torn)
    CHECK_EQUAL(added, kind == MR_EVENT_CUT);
  else
    CHECK_EQUAL(added, length + 16 <= CAPACITY - (end - mr_journal_begin(journal)) ||
                           mr_journal_end(journal) != end);
  CHECK_EQUAL(mr_journal_torn(journal), !added);
  if (torn && added)
    first = count;
  if (!added)
    return false;
  known[count].number = number;
  known[count].at = end;
  known[count].kind = kind;
  known[count++].length = length;
  return true;
}

/* Another process has it, and what the last has added. */
static void open_again(void) {
  int next = dup(file);
  close(next);
  mr_journal_close(journal);
  CHECK_EQUAL(mr_journal_open(&journal, dup(file)), 0);
  CHECK(fcntl(next, F_GETFD) < 0); /* it leaves no descriptor open */
}

static void trim(void) {
  uint64_t was = known[first].at, is = mr_journal_trim(journal, was);
  CHECK_EQUAL(is, mr_journal_begin(journal));
  for (size_t i = first; i < count; i++)
    known[i].at += is - was;
}

static void goes_round(void) {
  unsigned torn = 0;
  for (uint64_t number = 0; number < STEPS; number++) {
    torn += !add_one(number, draw(20) == 0 ? MR_EVENT_CUT : MR_EVENT_TOLD);
    if (draw(60) == 0 && count > first) {
      first += draw((uint32_t)(count - first));
      trim();
    }
    if (draw(200) == 0)
      open_again();
    if (draw(16) == 0)
      check_all();
    CHECK(mr_journal_has(journal) <= mr_journal_capacity(journal));
  }
  check_all();
  CHECK(torn > 0 && mr_journal_end(journal) > 10 * (uint64_t)CAPACITY);
}

/* It takes no more memory than what happens between two times that it is trimmed. */
static void stays_small(void) {
  struct stat is;
  mr_journal_close(journal);
  close(file);
  open_file();
  for (uint64_t number = first = count = 0; number < 2000; number++) {
    CHECK(add_one(number, MR_EVENT_TOLD));
    first = count - 1;
    if (number % 3 == 2)
      trim();
  }
  CHECK(mr_journal_end(journal) > 10 * (uint64_t)CAPACITY);
  CHECK_EQUAL(fstat(file, &is), 0);
  CHECK(is.st_blocks * 512 <= 10 * MR_PAGE);
  mr_journal_clear(journal);
  CHECK_EQUAL(mr_journal_begin(journal), 0);
}

/* Events that each begin with their number; now and then half of them are trimmed, or all. */
static _Noreturn void write_for_ever(uint8_t *bytes) {
  for (uint64_t number = 0, half = 0;; number++) {
    fill(bytes, number, LONGEST);
    memcpy(bytes, &number, sizeof number);
    if (number % 10 == 0)
      half = mr_journal_end(journal);
    if (number % 10 == 7)
      mr_journal_trim(journal, half);
    if (number % 1000 == 999)
      mr_journal_clear(journal);
    if (!mr_journal_add(journal, MR_EVENT_TOLD, (uint16_t)(number % 7), bytes,
                        sizeof number + number % 3000))
      _exit(1);
  }
}

/* A writer that is killed anywhere leaves whole events. */
static void is_killed(void) {
  static uint8_t bytes[LONGEST];
  struct mr_event event;
  for (int turn = 0; turn < 50; turn++) {
    mr_journal_clear(journal);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
      write_for_ever(bytes);
    usleep(500 + draw(3000));
    CHECK_EQUAL(kill(child, SIGKILL), 0);
    CHECK_EQUAL(waitpid(child, NULL, 0), child);
    uint64_t at = mr_journal_begin(journal), number = 0;
    if (mr_journal_torn(journal))
      continue;
    for (bool any = false; mr_journal_read(journal, &at, &event); number++, any = true) {
      if (!any)
        memcpy(&number, event.bytes, sizeof number);
      fill(bytes, number, LONGEST);
      memcpy(bytes, &number, sizeof number);
      CHECK_EQUAL(event.length, sizeof number + number % 3000);
      CHECK(memcmp(event.bytes, bytes, event.length) == 0);
    }
    CHECK_EQUAL(at, mr_journal_end(journal));
  }
}

static _Noreturn void send_for_ever(void) {
  for (uint64_t count = 1;; count++)
    mr_journal_sends(journal, (struct mr_journal_sent){count, count * 977});
}

/* What was sent is there for the next process, whole. */
static void knows_what_was_sent(void) {
  mr_journal_clear(journal);
  CHECK_EQUAL(mr_journal_sent(journal).count, 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0)
    send_for_ever();
  while (mr_journal_sent(journal).count == 0)
    usleep(1000);
  usleep(20000);
  CHECK_EQUAL(kill(child, SIGKILL), 0);
  CHECK_EQUAL(waitpid(child, NULL, 0), child);
  struct mr_journal_sent sent = mr_journal_sent(journal);
  CHECK(sent.count > 0);
  CHECK_EQUAL(sent.sum, sent.count * 977);
  mr_journal_clear(journal);
}

static void is_none(void) {
  struct mr_journal *none;
  int other = memfd_create("none", 0);
  CHECK_EQUAL(mr_journal_open(&none, dup(other)), -EBADMSG);
  CHECK(ftruncate(other, (off_t)mr_journal_size(CAPACITY)) == 0);
  CHECK_EQUAL(pwrite(other, "nonsense", 8, 0), 8);
  CHECK_EQUAL(mr_journal_open(&none, dup(other)), -EBADMSG);
  close(other);
}

int main(void) {
  random_state = setting("MARU_DSM_SEED", 1);
  open_file();
  goes_round();
  stays_small();
  is_killed();
  knows_what_was_sent();
  is_none();
  mr_journal_close(journal);
  close(file);
  return 0;
}
