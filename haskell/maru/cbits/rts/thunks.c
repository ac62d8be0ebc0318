/* Which thunks does a value still lead to? A walk that remembers where it has been, so that it
   ends on cyclic values, where the evaluation in normalise.cmm by itself does not. */
#include "internals.h"

#include <errno.h>
#include <stdlib.h>

#include "seen.h"

struct walk {
  struct table seen;
  StgClosure **todo;
  size_t used, room;
  const StgInfoTable *bytestring;
};

static bool visit(struct walk *w, StgClosure *p) {
  StgClosure *q = UNTAG_CLOSURE(p);
  struct seen *entry = table_entry(&w->seen, q);
  if (!entry)
    return false;
  if (entry->to)
    return true;
  entry->to = 1;
  if (w->used == w->room) {
    size_t room = w->room ? w->room * 2 : 1024;
    StgClosure **todo = realloc(w->todo, room * sizeof(StgClosure *));
    if (!todo)
      return false;
    w->todo = todo;
    w->room = room;
  }
  w->todo[w->used++] = q;
  return true;
}

static bool visit_all(struct walk *w, StgClosure *const *fields, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!visit(w, fields[i]))
      return false;
  return true;
}

static bool is_empty_bytestring(const struct walk *w, const StgClosure *q,
                                const StgInfoTable *info) {
  return q->header.info == w->bytestring && info->layout.payload.ptrs == 1 &&
         q->payload[info->layout.payload.nptrs] == NULL;
}

static bool is_thunk(StgHalfWord type) {
  return (type >= THUNK && type <= THUNK_SELECTOR) || type == AP || type == AP_STACK ||
         type == WHITEHOLE;
}

/* Visits what q leads to. *thunk: q is to be evaluated. */
static bool step(struct walk *w, StgClosure *q, bool *thunk) {
  const StgInfoTable *info = get_itbl(q);
  *thunk = is_thunk(info->type);
  switch (info->type) {
  case IND:
  case IND_STATIC:
    return visit(w, ((StgInd *)q)->indirectee);
  case BLACKHOLE: {
    StgClosure *p = ((StgInd *)q)->indirectee;
    StgHalfWord type = get_itbl(UNTAG_CLOSURE(p))->type;
    *thunk = type == TSO || type == BLOCKING_QUEUE;
    return *thunk || visit(w, p);
  }
  case CONSTR:
  case CONSTR_1_0:
  case CONSTR_2_0:
  case CONSTR_1_1:
  case CONSTR_NOCAF:
    return is_empty_bytestring(w, q, info) || visit_all(w, q->payload, info->layout.payload.ptrs);
  case MUT_ARR_PTRS_FROZEN_DIRTY:
  case MUT_ARR_PTRS_FROZEN_CLEAN:
    return visit_all(w, ((StgMutArrPtrs *)q)->payload, ((StgMutArrPtrs *)q)->ptrs);
  case SMALL_MUT_ARR_PTRS_FROZEN_DIRTY:
  case SMALL_MUT_ARR_PTRS_FROZEN_CLEAN:
    return visit_all(w, ((StgSmallMutArrPtrs *)q)->payload, ((StgSmallMutArrPtrs *)q)->ptrs);
  default:
    return true;
  }
}

/* What writing an element of a mutable array does. */
static void write_element(StgMutArrPtrs *array, size_t i, StgClosure *value) {
  array->payload[i] = value;
  array->header.info = &stg_MUT_ARR_PTRS_DIRTY_info;
  ((StgWord8 *)&array->payload[array->ptrs])[i >> MUT_ARR_PTRS_CARD_BITS] = 1;
}

/* Writes thunks that the value leads to into the array, as many as there are and it holds; returns
   how many, or -ENOMEM. */
int64_t maru_thunks(StgClosure *value, StgMutArrPtrs *found, const StgInfoTable *bytestring) {
  struct walk w = {.bytestring = bytestring};
  size_t n = 0;
  bool ok = visit(&w, value);
  while (ok && w.used && n < found->ptrs) {
    StgClosure *q = w.todo[--w.used];
    bool thunk;
    ok = step(&w, q, &thunk);
    if (ok && thunk)
      write_element(found, n++, q);
  }
  free(w.todo);
  free(w.seen.slots);
  return ok ? (int64_t)n : -ENOMEM;
}
