/* look.c: what the engine is shown of a board at a tick. */
#define _GNU_SOURCE
#include "daemon.h"

#define SEAT_NS INT64_C(100000000) /* for so long a thread's CPU is taken as known */
#define SEATS 256u                 /* read in one tick */
#define SEATS_A_BOARD 32u
#define LOOK_AHEAD 12 /* lines */

/* Where the kernel says that it is.  A line names its thread also when that was killed. */
static void read_seat(struct daemon *self, struct boost_board *one, uint32_t i, int64_t now_ns) {
  self->seats++;
  if (!boost_lives(&one->subjects[i])) {
    boost_bury(one, i);
    return;
  }
  int cpu = boost_cpu(one->subjects[i].tid);
  if (cpu < 0)
    return;
  one->memory[i].cpu = (uint32_t)cpu % MARU_WAIT_CPUS;
  one->memory[i].seated_ns = now_ns;
}

static bool is_seated(const struct boost_board *one, uint32_t i, int64_t now_ns) {
  return one->memory[i].seated_ns != 0 && now_ns - one->memory[i].seated_ns < SEAT_NS;
}

/* Of those who are raised at each tick, of those who might be some in turn. */
static void read_seats(struct daemon *self, struct boost_board *one, struct boost_view *views,
                       int64_t now_ns) {
  unsigned limit = self->seats + SEATS_A_BOARD < SEATS ? self->seats + SEATS_A_BOARD : SEATS;
  uint32_t begin = 0;
  while (begin < one->count && boost_line_of(one, &views[begin]) < one->turn)
    begin++;
  for (uint32_t k = 0; k < one->count; k++) {
    struct boost_view *view = &views[(begin + k) % one->count];
    uint32_t i = boost_line_of(one, view);
    bool raised = one->lines[i].raised_until_ns != 0;
    bool wants = view->known && (view->pending || self->rules.slots);
    if (raised)
      read_seat(self, one, i, now_ns);
    else if (wants && self->seats < limit && !is_seated(one, i, now_ns)) {
      read_seat(self, one, i, now_ns);
      one->turn = i + 1;
    }
    view->known = view->known && one->subjects[i].tid != 0;
    view->seated = view->known && is_seated(one, i, now_ns);
    view->cpu = one->memory[i].cpu;
  }
}

static bool needs_rights(const struct daemon *self) {
  return self->rules.restores || self->rules.raises || self->rules.slots;
}

static struct boost_view view_of(struct daemon *self, struct boost_board *one, uint32_t i,
                                 bool pending, int64_t now_ns) {
  bool gone = boost_is_gone(one, i);
  uint32_t state = gone ? MARU_CHANNEL_IDLE : LOAD(one->table->channels[i].state);
  pending = pending && !gone;
  return (struct boost_view){
      .waits = state != MARU_CHANNEL_IDLE,
      .asleep = state == MARU_CHANNEL_ASLEEP,
      .lowered = state == MARU_CHANNEL_LOWERED,
      .pending = pending,
      .known = !gone && needs_rights(self) && (pending || self->rules.slots || self->checks) &&
               boost_is_known(self, one, i, now_ns),
      .user = one->user,
      .job = LOAD(one->table->channels[i].job) | (uint64_t)one->status.st_ino << 32,
      .number = (uint32_t)(&one->subjects[i] - self->boards.subjects),
      .line = &one->lines[i]};
}

/* A bit for each of 64 lines. */
struct lines {
  uint64_t waiting, pending;
  int64_t began_ns; /* the newest of these waits */
};

/* Nearly always nothing has come: one cache line each, without a branch. */
static struct lines read_lines(const struct maru_channel *first, uint32_t count) {
  struct lines found = {0};
  for (uint32_t i = 0; i < count; i++) {
    /* The processor looks ahead within a page, which is 64 lines. */
    __builtin_prefetch(&first[i + LOOK_AHEAD]);
    /* Acquire: pairs with the waiter's release of its state. */
    uint32_t state = atomic_load_explicit(&first[i].state, memory_order_acquire);
    uint32_t pending = mr_channel_pending_state(&first[i], state);
    int64_t began = state != MARU_CHANNEL_IDLE ? LOAD(first[i].since_ns) : 0;
    found.began_ns = began > found.began_ns ? began : found.began_ns;
    found.waiting |= (uint64_t)(state != MARU_CHANNEL_IDLE) << i;
    found.pending |= (uint64_t)(pending != MARU_CHANNEL_IDLE) << i;
  }
  return found;
}

/* Views of the lines from `begin` on, 64 at most, that anything is to be done about. */
static uint32_t see(struct daemon *self, struct boost_board *one, uint32_t begin, int64_t now_ns,
                    struct boost_view *views) {
  uint32_t count = one->used - begin < 64 ? one->used - begin : 64, made = 0;
  uint64_t all = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
  struct lines found = read_lines(&one->table->channels[begin], count);
  uint64_t seen = self->rules.slots ? all : (found.pending | one->remembered[begin / 64]) & all;
  for (uint64_t left = seen; left != 0; left &= left - 1) {
    unsigned bit = (unsigned)__builtin_ctzll(left);
    bool pending = found.pending >> bit & 1;
    views[made++] = view_of(self, one, begin + bit, pending, now_ns);
  }
  int64_t began = found.began_ns < now_ns ? found.began_ns : now_ns;
  self->began_ns = began > self->began_ns ? began : self->began_ns;
  self->quietly_waiting += (uint32_t)__builtin_popcountll(found.waiting & ~seen);
  if (self->checks && needs_rights(self)) /* asks who it is, before that matters */
    for (uint64_t left = all & ~seen; left != 0; left &= left - 1)
      (void)boost_is_known(self, one, begin + (unsigned)__builtin_ctzll(left), now_ns);
  return made;
}

void boost_look_at(struct daemon *self, struct boost_board *one, int64_t now_ns) {
  struct boost_view *views = self->views + self->count;
  if (one->table == NULL && maru_wait_table_of(&one->board, &one->table) < 0)
    return;
  uint32_t count = atomic_load_explicit(&one->table->used, memory_order_acquire);
  count = count < MARU_WAIT_CHANNELS ? count : MARU_WAIT_CHANNELS;
  /* A raise must end though its line is denied. */
  one->used = count > one->used ? count : one->used;
  one->count = 0;
  for (uint32_t begin = 0; begin < one->used; begin += 64)
    one->count += see(self, one, begin, now_ns, &views[one->count]);
  if (self->rules.raises || self->rules.slots)
    read_seats(self, one, views, now_ns);
  one->first = self->count;
  self->count += one->count;
}
