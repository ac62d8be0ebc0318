/* turns.c: awake while the turn is near, asleep while it is far.
 *
 * Why no grant is lost.  A waiter reads its slot's count, marks its word, and in the same operation
 * reads the word's value; only then it sleeps, until the count is another one.  A grant that comes
 * before the mark is seen; one that comes after it finds the mark and steps the count.  Where the
 * word has no room for a mark every grant steps the count, after its store: a waiter that has read
 * the new count reads the new value, too.  Early calls step the count as well, and their waiters
 * look again. */
#define _GNU_SOURCE
#include "turns.h"

#include "ways.h"

#define PATIENCE_SPINS 4      /* spinning ends after so many times spin_ns */
#define SHARE_OF_NEW 4        /* a turn's time counts a quarter in the mean */
#define TURNS_TO_TIME 8u      /* one in so many is timed */
#define TURNS_TO_FORGET 1024u /* after so many turns a crowd comes nearer to the queue that is, */
#define SHARE_FORGOTTEN 8u    /* by an eighth of the way, rounded up */
#define TURN_MOST_NS INT64_C(100000000)

void mr_turn_rule_init(struct mr_turn_rule *rule, uint32_t spin_ns) {
  *rule = (struct mr_turn_rule){.spin_ns = spin_ns, .cpus = mr_cpus_allowed()};
}

/* Relaxed, all that counts turns: guesses, by which nothing is published. */
static uint32_t get(const _Atomic uint32_t *figure) {
  return atomic_load_explicit(figure, memory_order_relaxed);
}

/* From `from` to `to`; 0 where the counts have overtaken each other. */
static uint32_t ahead(uint32_t from, uint32_t to) {
  return (int32_t)(to - from) > 0 ? to - from : 0;
}

void mr_turn_begin(struct mr_turns *turns, struct maru_wait_turn *turn) {
  uint32_t number = atomic_fetch_add_explicit(&turns->arrived, 1, memory_order_relaxed);
  *turn = (struct maru_wait_turn){.since_ns = number % TURNS_TO_TIME == 0 ? maru_now_ns() : 0,
                                  .number = number,
                                  .before = ahead(get(&turns->over), number),
                                  .slot = number % MR_TURN_SLOTS,
                                  .counted = 1};
}

/* That is no crowd.  On two CPUs, where a crowd has one waiter awake, queues of three and four
 * threads lost nine tenths of their turns as a crowd (bench/lock). */
static uint32_t longest(const struct mr_turn_rule *rule) {
  return rule->cpus < MR_CROWD_SHARE ? MR_CROWD_OF_FEW * rule->cpus : rule->cpus;
}

/* A turn is near with so many before it. */
static uint32_t reach(const struct mr_turns *turns, const struct mr_turn_rule *rule) {
  uint32_t turn_ns = get(&turns->turn_ns), most = MR_TURN_SLOTS - 1;
  uint64_t near = turn_ns == 0 ? most : PATIENCE_SPINS * (uint64_t)rule->spin_ns / turn_ns;
  if (get(&turns->crowd) > longest(rule))
    most = rule->cpus < MR_CROWD_SHARE ? 1 : rule->cpus / MR_CROWD_SHARE;
  return rule->cpus < 2 ? 0 : near < most ? (uint32_t)near : most;
}

static bool is_near(const struct mr_turns *turns, const struct mr_turn_rule *rule,
                    const struct maru_wait_turn *turn) {
  uint32_t before = ahead(get(&turns->over), turn->number);
  return (before > 0 ? before : 1) <= reach(turns, rule);
}

/* Leaves the mark of `slot` in the word, in place of an earlier waiter's that has given up; false:
 * what is waited for is there. */
static bool marks(const struct mr_wait *w, uint32_t slot) {
  uint32_t mark = w->c.mask & MR_TURN_MARK ? 0 : MARU_WAIT_ARMED | slot << 8;
  /* Acquire, both: as in mr_look. */
  uint32_t value = atomic_load_explicit(w->word, memory_order_acquire);
  do
    if (mr_holds(value, &w->c))
      return false;
  while (mark != 0 &&
         !atomic_compare_exchange_weak_explicit(w->word, &value, (value & ~MR_TURN_MARK) | mark,
                                                memory_order_acquire, memory_order_acquire));
  return true;
}

/* 0: called, woken for nothing, or a slice has passed. */
static int sleep_far(struct mr_turns *turns, const struct maru_wait_turn *turn, struct mr_wait *w) {
  /* The slot does not tell of a grant whose notifier was killed before its call; the word does. */
  int64_t until_ns = mr_slice_end(w, mr_wait_now(w), w->deadline_ns);
  _Atomic uint32_t *slot = &turns->slots[turn->slot];
  struct mr_wait sleep = *w;
  sleep.word = slot;
  /* Acquire: with a new count comes the value that was stored before it. */
  sleep.c = (struct mr_condition){.value = atomic_load_explicit(slot, memory_order_acquire) &
                                           ~MARU_WAIT_ARMED,
                                  .mask = ~MARU_WAIT_ARMED};
  if (!marks(w, turn->slot))
    return 0;
  int rc = mr_block_until(&sleep, until_ns);
  return rc == -ETIMEDOUT && until_ns < w->deadline_ns ? 0 : rc;
}

int mr_turn_wait(struct mr_turns *turns, const struct mr_turn_rule *rule,
                 const struct maru_wait_turn *turn, _Atomic uint32_t *word, uint32_t want,
                 uint32_t mask, struct maru_wait_policy *policy, int64_t deadline_ns) {
  struct mr_wait w = {.word = word,
                      .c = {.value = want, .mask = mask, .until_equal = true},
                      .policy = policy,
                      .deadline_ns = deadline_ns};
  int64_t patience_ns = PATIENCE_SPINS * (int64_t)rule->spin_ns;
  for (int rc = 0; !mr_look(&w);) {
    if (rc < 0)
      return rc;
    if (is_near(turns, rule, turn) &&
        mr_wait_spinning(&w, mr_earlier(maru_now_ns() + patience_ns, deadline_ns)))
      return 0;
    rc = sleep_far(turns, turn, &w);
  }
  return 0;
}

/* How many wait, at least: waiters that leave meanwhile are counted out already.  The other way
 * round a delay in here would make a crowd of newcomers. */
static uint32_t leave(struct mr_turns *turns, struct maru_wait_turn *turn) {
  turn->counted = 0;
  uint32_t arrived = get(&turns->arrived);
  /* Release: after the look at the arrivals. */
  return ahead(atomic_fetch_add_explicit(&turns->over, 1, memory_order_release) + 1, arrived);
}

void mr_turn_leave(struct mr_turns *turns, struct maru_wait_turn *turn) {
  (void)leave(turns, turn);
}

/* Threads that write at once overwrite each other: the figures are means of many. */
static void set(_Atomic uint32_t *figure, uint32_t value) {
  if (value != get(figure))
    atomic_store_explicit(figure, value, memory_order_relaxed);
}

static void learn(struct mr_turns *turns, const struct maru_wait_turn *turn, uint32_t left) {
  uint32_t crowd = get(&turns->crowd);
  if (left + 1 > crowd)
    set(&turns->crowd, left + 1);
  else if (turn->number % TURNS_TO_FORGET == 0)
    set(&turns->crowd, crowd - (crowd - (left + 1) + SHARE_FORGOTTEN - 1) / SHARE_FORGOTTEN);
  if (turn->since_ns == 0)
    return;
  int64_t turn_ns = get(&turns->turn_ns);
  int64_t took = (maru_now_ns() - turn->since_ns) / (turn->before + 1);
  took = mr_earlier(took, TURN_MOST_NS);
  turn_ns = turn_ns == 0 ? took : turn_ns + (took - turn_ns) / SHARE_OF_NEW;
  set(&turns->turn_ns, turn_ns > 0 ? (uint32_t)turn_ns : 1);
}

void mr_turn_end(struct mr_turns *turns, const struct mr_turn_rule *rule,
                 struct maru_wait_turn *turn) {
  uint32_t left = leave(turns, turn), near = reach(turns, rule), woken = 0;
  learn(turns, turn, left);
  if (near > left)
    near = left;
  for (uint32_t i = 1; i <= near && woken < MR_TURN_WAKES; i++) {
    uint32_t slot = (turn->slot + i) % MR_TURN_SLOTS;
    if (get(&turns->slots[slot]) & MARU_WAIT_ARMED) {
      mr_turn_call(turns, slot);
      woken++;
    }
  }
}

void mr_turn_grant(struct mr_turns *turns, _Atomic uint32_t *word, uint32_t value) {
  /* Release: what the holder did is visible to the next.  One access, as in maru_notify_store. */
  uint32_t old = atomic_exchange_explicit(word, value, memory_order_release);
  if (old & MARU_WAIT_ARMED)
    mr_turn_call(turns, old >> 8 & (MR_TURN_SLOTS - 1));
}

void mr_turn_call(struct mr_turns *turns, uint32_t slot) { maru_notify(&turns->slots[slot]); }
