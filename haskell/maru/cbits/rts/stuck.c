/* Can a worker's thread go on? A look that changes nothing, and throws nothing. Called unsafely: no
   collection happens meanwhile, so that what is looked at stays where it is. Threads of other
   capabilities may run on: what is read of them is read once, and checked for what it is before it
   is followed. Maru.Native.Pen has the rest. */
#include "internals.h"

enum verdict { GOES_ON = 0, ALL_ARE_BLOCKED = 1, NEEDS_A_HANDLE = 2 };

static StgHalfWord type_of(const StgClosure *p) { return get_itbl(p)->type; }

static bool has_ended(const StgTSO *t) {
  return t->what_next == ThreadComplete || t->what_next == ThreadKilled;
}

/* Blocked on what only another thread can give? */
static bool is_blocked(const StgTSO *t) {
  switch (t->why_blocked) {
  case BlockedOnMVar:
  case BlockedOnMVarRead:
  case BlockedOnBlackHole:
  case BlockedOnSTM:
  case BlockedOnMsgThrowTo:
    return true;
  default:
    return false;
  }
}

/* Uses a Handle of the caller. */
static bool waits_for_handle(const StgTSO *t) {
  const StgClosure *mvar = t->block_info.closure;
  if (t->why_blocked != BlockedOnMVar && t->why_blocked != BlockedOnMVarRead)
    return false;
  return (type_of(mvar) == MVAR_CLEAN || type_of(mvar) == MVAR_DIRTY) && maru_rts_is_locked(mvar);
}

/* Of the thread that evaluates items, and those that it made: threads older than it are the
   run-time system's own. A thread that is made meanwhile is put before those that are walked, by
   one that is not blocked. `looking` is the calling one. */
int maru_rts_stuck(const StgTSO *evaluating, const StgTSO *looking) {
  bool all = is_blocked(evaluating);
  for (const generation *g = generations; g; g = g->to == g ? NULL : g->to)
    for (const StgTSO *t = g->threads; t != END_TSO_QUEUE; t = t->global_link) {
      if (t == looking || t->id < evaluating->id || has_ended(t))
        continue;
      /* Of any thread: the item may wait for it, with a time limit. */
      if (waits_for_handle(t))
        return NEEDS_A_HANDLE;
      all = all && is_blocked(t);
    }
  return all ? ALL_ARE_BLOCKED : GOES_ON;
}
