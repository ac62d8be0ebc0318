/*
 * Copies a value in normal form into an image. A walk with a stack of its own, depth first, so
 * that what is visited together lies together. No allocation in the Haskell heap and no safe
 * point: nothing moves meanwhile.
 *
 * Copied: constructors, byte arrays (pinned ones too), frozen arrays. Followed: indirections. Left
 * as they are: static constructors that lead to no CAF. Everything else is refused.
 *
 * Pinned memory. A ForeignPtr is an address beside a pointer to what keeps it alive. Where a
 * constructor points to a PlainPtr or MallocPtr, each of its raw words that lies in that array's
 * payload (or one past it) is that address and gets the copy's. A raw word that is none of it but
 * has the same value would be changed too; nobody keeps addresses as integers beside the
 * ForeignPtr that owns them. Addresses that stand alone (Ptr) are copied as they are.
 *
 * Longer than 500 lines: all of it is steps of the one walk, on its one state; a second file would
 * only move that state into a header.
 */
#include "image.h"
#include "known.h"
#include "seen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Below this a byte array is copied again at each place that refers to it. */
enum { SHARED_ARRAY = 128 };

/* --- the walk --- */

struct fields {
  size_t at, left; /* so many pointer fields from that offset on are still to be done */
};

/* Most values need no more of them at a time. */
enum { FEW_FIELDS = 64 };

struct copy {
  struct image *image;
  const StgInfoTable *bytestring; /* info table of the constructor of strict ByteStrings */
  bool sharing;
  struct table seen;   /* offset of the copy */
  struct table sliced; /* of byte arrays: bytes that were copied as slices */
  struct fields *few;  /* room for FEW_FIELDS; the stack until it grows */
  struct fields *stack;
  size_t depth, room;
};

static StgClosure *closure_at(const struct copy *c, size_t at) {
  return (StgClosure *)(void *)(c->image->base + at);
}

static StgClosure *pointer_to(const struct copy *c, size_t at, W_ tag) {
  return (StgClosure *)(c->image->origin + at + tag);
}

/* Notes fields to be done. What they point to is about to be read, likely from cold memory. */
static bool push(struct copy *c, size_t at, size_t count) {
  if (!count)
    return true;
  StgClosure *const *field = (StgClosure *const *)(void *)(c->image->base + at);
  for (size_t i = 0; i < count && i < 4; i++)
    __builtin_prefetch(UNTAG_CLOSURE(field[i]));
  if (c->depth == c->room) {
    bool first = c->stack == c->few;
    size_t room = first ? 1024 : c->room * 2;
    struct fields *stack = realloc(first ? NULL : c->stack, room * sizeof *stack);
    if (!stack)
      return false;
    if (first)
      memcpy(stack, c->few, sizeof *stack * FEW_FIELDS);
    c->stack = stack;
    c->room = room;
  }
  c->stack[c->depth++] = (struct fields){at, count};
  return true;
}

static int64_t refuse(const StgInfoTable *info) { return -(int64_t)(COPY_REFUSED + info->type); }

/* A thunk with free variables and nothing else. */
static bool is_sendable_thunk(const StgInfoTable *info) {
  return (info->type >= THUNK && info->type <= THUNK_0_2) || info->type == THUNK_SELECTOR;
}

/* Follows indirections: 0 and an evaluated closure (tagged as the pointer to it was), or an error.
   A black hole whose indirectee is a thread or a queue is a thunk under evaluation. *table: what it
   was when that was seen. Another capability may begin a thunk at any time. */
static int64_t resolve(const struct copy *c, StgClosure **pointer, const StgInfoTable **table) {
  bool closures = c->image->closures;
  for (StgClosure *p = *pointer;;) {
    StgClosure *q = UNTAG_CLOSURE(p);
    const StgInfoTable *info = *table = get_itbl(q);
    if (closures && (!maru_in_heap(q) || is_sendable_thunk(info))) {
      *pointer = p;
      return 0;
    }
    switch (info->type) {
    case IND:
    case IND_STATIC:
      p = ((StgInd *)q)->indirectee;
      continue;
    case BLACKHOLE:
      p = ((StgInd *)q)->indirectee;
      if (GET_CLOSURE_TAG(p) == 0) {
        StgHalfWord type = get_itbl(p)->type;
        if (type == TSO || type == BLOCKING_QUEUE)
          return -EAGAIN;
      }
      continue;
    case THUNK:
    case THUNK_1_0:
    case THUNK_0_1:
    case THUNK_2_0:
    case THUNK_1_1:
    case THUNK_0_2:
    case THUNK_STATIC:
    case THUNK_SELECTOR:
    case AP:
    case WHITEHOLE:
      return -EAGAIN;
    case AP_STACK:
      return closures ? refuse(info) : -EAGAIN;
    default:
      *pointer = p;
      return 0;
    }
  }
}

/* Constructors are a few words: not worth a call. */
static inline int64_t copy_words(struct copy *c, const StgClosure *q, size_t words) {
  size_t at = image_reserve(c->image, words * sizeof(W_));
  if (!at)
    return -ENOSPC;
  const W_ *from = (const W_ *)q;
  W_ *to = (W_ *)(void *)(c->image->base + at);
  for (size_t i = 0; i < words; i++)
    to[i] = from[i];
  return (int64_t)at;
}

static int64_t copy_plain(struct copy *c, const void *from, size_t bytes) {
  size_t at = image_reserve(c->image, bytes);
  if (!at)
    return -ENOSPC;
  memcpy(c->image->base + at, from, bytes);
  return (int64_t)at;
}

/* A byte array: its copy's offset. */
static int64_t copy_bytes(struct copy *c, StgArrBytes *array) {
  size_t bytes = arr_words_sizeW(array) * sizeof(W_);
  if (!c->sharing && bytes < SHARED_ARRAY)
    return copy_plain(c, array, bytes);
  struct seen *entry = table_entry(&c->seen, array);
  if (!entry)
    return -ENOMEM;
  if (!entry->to) {
    int64_t at = copy_plain(c, array, bytes);
    if (at < 0)
      return at;
    entry->to = (size_t)at;
  }
  return (int64_t)entry->to;
}

/* --- foreign pointers --- */

/* The table lies before its symbol, which the compiler need not know. */
static W_ constructor_tag(const StgInfoTable *info) {
  __asm__("" : "+r"(info));
  return (W_)INFO_PTR_TO_STRUCT(info)->srt + 1;
}

static StgClosure *no_finalizers(void) {
  return TAG_CLOSURE(constructor_tag(&MARU_BASE(ForeignPtr, FinalPtr_con_info)),
                     &MARU_BASE(ForeignPtr, FinalPtr_closure));
}

/* A new PlainPtr of the array at this offset. */
static int64_t plain_ptr(struct copy *c, size_t array, StgClosure **contents) {
  size_t at = image_reserve(c->image, sizeof(StgHeader) + sizeof(W_));
  if (!at)
    return -ENOSPC;
  StgClosure *closure = closure_at(c, at);
  SET_HDR(closure, &MARU_BASE(ForeignPtr, PlainPtr_con_info), CCS_SYSTEM);
  closure->payload[0] = pointer_to(c, array, 0);
  *contents = pointer_to(c, at, constructor_tag(&MARU_BASE(ForeignPtr, PlainPtr_con_info)));
  return 0;
}

/* Notes that the raw word at this offset points into the image. */
static bool note_site(struct copy *c, size_t at) {
  struct image *image = c->image;
  if (image->origin == (uintptr_t)image->base)
    return true;
  if (image->sites_used == image->sites_room) {
    size_t room = image->sites_room ? image->sites_room * 2 : 64;
    size_t *sites = realloc(image->sites, room * sizeof *sites);
    if (!sites)
      return false;
    image->sites = sites;
    image->sites_room = room;
  }
  image->sites[image->sites_used++] = at;
  return true;
}

static int64_t set_address(struct copy *c, size_t at, size_t target) {
  W_ address = (W_)(c->image->origin + target);
  memcpy(c->image->base + at, &address, sizeof address);
  return note_site(c, at) ? 0 : -ENOMEM;
}

/* Bytes by themselves, as a byte array: its offset. */
static int64_t copy_slice(struct copy *c, const void *from, size_t bytes) {
  size_t at =
      image_reserve(c->image, sizeof(StgArrBytes) + ROUNDUP_BYTES_TO_WDS(bytes) * sizeof(W_));
  if (!at)
    return -ENOSPC;
  StgArrBytes *array = (StgArrBytes *)closure_at(c, at);
  SET_HDR(array, &stg_ARR_WORDS_info, CCS_SYSTEM);
  array->bytes = bytes;
  memcpy(array->payload, from, bytes);
  return (int64_t)at;
}

/* Rather the whole array than this slice of it? Its slices together cost at most half of what the
   array does before it is copied whole; so neither a slice of a large array costs the array, nor
   do many overlapping slices cost more than the array and a half. 1, 0 or an error. */
static int64_t prefer_whole(struct copy *c, const StgArrBytes *array, size_t slice) {
  if (array->bytes < SHARED_ARRAY)
    return slice > array->bytes / 2;
  struct seen *entry = table_entry(&c->seen, array);
  if (!entry)
    return -ENOMEM;
  if (entry->to)
    return 1;
  entry = table_entry(&c->sliced, array);
  if (!entry)
    return -ENOMEM;
  if (entry->to + slice > array->bytes / 2)
    return 1;
  entry->to += slice;
  return 0;
}

/* The byte array that keeps foreign memory alive, or NULL. */
static StgArrBytes *owned_array(const StgClosure *contents) {
  const StgInfoTable *info = contents->header.info;
  if (info == &MARU_BASE(ForeignPtr, PlainPtr_con_info) ||
      info == &MARU_BASE(ForeignPtr, MallocPtr_con_info))
    return (StgArrBytes *)UNTAG_CLOSURE(contents->payload[0]);
  return NULL;
}

static bool is_contents(const StgClosure *q) {
  const StgInfoTable *info = q->header.info;
  return info == &MARU_BASE(ForeignPtr, PlainPtr_con_info) ||
         info == &MARU_BASE(ForeignPtr, MallocPtr_con_info) ||
         info == &MARU_BASE(ForeignPtr, PlainForeignPtr_con_info) ||
         info == &MARU_BASE(ForeignPtr, FinalPtr_con_info);
}

/* A ByteString: its bytes are known, so any memory will do. Two shapes: contents, address, length;
   or contents, address, offset, length. In a lazy one's chunk the rest of it stands behind the
   contents. at: the copy of the constructor. */
static int64_t copy_bytestring(struct copy *c, const StgClosure *from, size_t at, size_t pointers,
                               size_t raw) {
  const W_ *words = (const W_ *)&from->payload[pointers];
  size_t address = at + sizeof(StgHeader) + pointers * sizeof(W_);
  size_t length = words[raw - 1], offset = raw == 3 ? words[1] : 0;
  const char *bytes = (const char *)words[0] + offset;
  StgClosure *contents = no_finalizers();
  int64_t r;

  if (length == 0) {
    memset(c->image->base + address, 0, raw * sizeof(W_));
  } else if (!word_is_literal((W_)bytes)) {
    StgClosure *owner = from->payload[0];
    const StgInfoTable *info;
    if ((r = resolve(c, &owner, &info)) < 0)
      return r;
    StgArrBytes *array = owned_array(UNTAG_CLOSURE(owner));
    int64_t whole = array ? prefer_whole(c, array, length) : 0;
    if (whole < 0)
      return whole;
    r = whole ? copy_bytes(c, array) : copy_slice(c, bytes, length);
    if (r < 0)
      return r;
    size_t skip = whole ? (size_t)(words[0] - (W_)array->payload) : 0;
    int64_t error = set_address(c, address, (size_t)r + sizeof(StgArrBytes) + skip);
    if (error < 0)
      return error;
    if (!whole && raw == 3)
      memset(c->image->base + address + sizeof(W_), 0, sizeof(W_));
    r = plain_ptr(c, (size_t)r, &contents);
    if (r < 0)
      return r;
  }
  closure_at(c, at)->payload[0] = contents;
  return push(c, at + sizeof(StgHeader) + sizeof(W_), pointers - 1) ? 0 : -ENOMEM;
}

/* A Text that is less than its array: 1; 0: it is copied as other constructors are; or an error. */
static int64_t copy_text(struct copy *c, const StgClosure *from, size_t at, size_t pointers) {
  struct text text;
  if (!text_of(from, SHARED_ARRAY, &text))
    return 0;
  int64_t whole = prefer_whole(c, text.array, text.bytes);
  if (whole != 0)
    return whole < 0 ? whole : 0;
  int64_t r = copy_slice(c, (const char *)text.array->payload + text.offset, text.bytes);
  if (r < 0)
    return r;
  StgClosure *copy = closure_at(c, at);
  copy->payload[0] = pointer_to(c, (size_t)r, 0);
  copy->payload[pointers] = NULL;
  return push(c, at + sizeof(StgHeader) + sizeof(W_), pointers - 1) ? 1 : -ENOMEM;
}

/* The fields of a closure that has raw words, one of which may be an address, and where their
   copies are. */
struct mixed {
  StgClosure *const *from;
  size_t at, pointers, raw;
};

/* One field that holds a foreign pointer's contents. The raw words that point into its array are
   made right in the copy. *unowned: it has none. */
static int64_t copy_contents(struct copy *c, const struct mixed *m, const StgClosure *contents,
                             size_t field, bool *unowned) {
  const W_ *words = (const W_ *)&m->from[m->pointers];
  StgArrBytes *array = owned_array(contents);
  StgClosure *copy = no_finalizers();
  if (array) {
    int64_t r = copy_bytes(c, array);
    if (r < 0)
      return r;
    for (size_t i = 0; i < m->raw; i++) {
      W_ offset = words[i] - (W_)array->payload;
      if (offset <= array->bytes) {
        int64_t error = set_address(c, m->at + (m->pointers + i) * sizeof(W_),
                                    (size_t)r + sizeof(StgArrBytes) + offset);
        if (error < 0)
          return error;
      }
    }
    r = plain_ptr(c, (size_t)r, &copy);
    if (r < 0)
      return r;
  } else {
    *unowned = true;
  }
  *(StgClosure **)(void *)(c->image->base + m->at + field * sizeof(W_)) = copy;
  return 0;
}

/* Does a field lead to a foreign pointer's contents? True also where that is not seen at once. */
static bool may_hold_contents(StgClosure *const *fields, size_t pointers) {
  for (size_t i = 0; i < pointers; i++) {
    const StgClosure *field = UNTAG_CLOSURE(fields[i]);
    if (is_contents(field) || get_itbl(field)->type > CONSTR_NOCAF)
      return true;
  }
  return false;
}

/* May a raw word be an address that nothing has made right? */
static bool holds_private(const struct copy *c, const struct mixed *m) {
  const W_ *words = (const W_ *)&m->from[m->pointers];
  const W_ *copies = (const W_ *)(void *)(c->image->base + m->at) + m->pointers;
  for (size_t i = 0; i < m->raw; i++)
    if (copies[i] == words[i] && words_private(&words[i], 1))
      return true;
  return false;
}

static int64_t copy_mixed(struct copy *c, const struct mixed *m) {
  bool unowned = false;
  for (size_t i = m->pointers; i-- > 0;) {
    StgClosure *p = m->from[i];
    const StgInfoTable *info;
    /* What cannot be followed is refused when it is its turn, by its own name. */
    if (resolve(c, &p, &info) == 0 && is_contents(UNTAG_CLOSURE(p))) {
      int64_t r = copy_contents(c, m, UNTAG_CLOSURE(p), i, &unowned);
      if (r < 0)
        return r;
    } else if (!push(c, m->at + i * sizeof(W_), 1)) {
      return -ENOMEM;
    }
  }
  return (c->image->closures || unowned) && holds_private(c, m) ? -COPY_FOREIGN : 0;
}

/* Fields behind a header: pointers, then raw words. Code may know the address of a literal whose
   contents stand there alone. */
static int64_t copy_fields(struct copy *c, const struct mixed *m, bool has_code) {
  if (m->pointers && (m->raw || has_code) && may_hold_contents(m->from, m->pointers))
    return copy_mixed(c, m);
  if (c->image->closures && words_private((const W_ *)&m->from[m->pointers], m->raw))
    return -COPY_FOREIGN;
  return push(c, m->at, m->pointers) ? 0 : -ENOMEM;
}

/* --- values --- */

/* Raw words that mean nothing elsewhere: a place in this process's table of stable pointers, or
   code that was made at run time (a wrapper). */
static int64_t judge_raw(const StgClosure *q) {
  const StgInfoTable *info = q->header.info;
  W_ word = (W_)q->payload[0];
  if (info == &MARU_BASE(Stable, StablePtr_con_info) && word)
    return -COPY_STABLE;
  if (info == &MARU_BASE(Ptr, FunPtr_con_info) && word && !word_is_code(word))
    return -COPY_CODE;
  return 0;
}

/* Copies a constructor, or a function: they look alike; and notes its fields: the copy's offset. */
static int64_t copy_constructor(struct copy *c, const StgClosure *q, const StgInfoTable *info) {
  size_t pointers = info->layout.payload.ptrs, raw = info->layout.payload.nptrs;
  if (pointers == 0 && raw == 1) {
    int64_t refusal = judge_raw(q);
    if (refusal < 0)
      return refusal;
  }
  int64_t at = copy_words(c, q, sizeofW(StgHeader) + pointers + raw), r = 0;
  if (at < 0)
    return at;
  const struct mixed fields = {q->payload, (size_t)at + sizeof(StgHeader), pointers, raw};
  if (pointers && raw && (q->header.info == c->bytestring || is_lazy_bytes(q)))
    r = copy_bytestring(c, q, (size_t)at, pointers, raw);
  else if ((r = copy_text(c, q, (size_t)at, pointers)) == 0 &&
           (!c->image->closures || !is_boxed_number(info)))
    r = copy_fields(c, &fields, info->type > CONSTR_NOCAF);
  return r < 0 ? r : at;
}

static int64_t copy_array(struct copy *c, const StgClosure *q, size_t header, size_t pointers) {
  int64_t at = copy_plain(c, q, closure_sizeW(q) * sizeof(W_));
  if (at >= 0 && !push(c, (size_t)at + header, pointers))
    return -ENOMEM;
  return at;
}

/* --- closures as they are --- */

/* A thunk: as a constructor behind a header with room for its value. */
static int64_t copy_thunk(struct copy *c, const StgClosure *q, const StgInfoTable *info) {
  bool selector = info->type == THUNK_SELECTOR;
  size_t pointers = selector ? 1 : info->layout.payload.ptrs;
  size_t raw = selector ? 0 : info->layout.payload.nptrs;
  int64_t at = copy_words(c, q, sizeofW(StgThunkHeader) + pointers + raw);
  if (at < 0)
    return at;
  /* Another capability may have written its value over the header since. Code follows a table. */
  closure_at(c, (size_t)at)->header.info = info + 1;
  const struct mixed fields = {((const StgThunk *)q)->payload, (size_t)at + sizeof(StgThunkHeader),
                               pointers, raw};
  int64_t r = copy_fields(c, &fields, !selector);
  return r < 0 ? r : at;
}

/* A function with some of its arguments. */
static int64_t copy_application(struct copy *c, const StgPAP *q) {
  W_ raw;
  if (!closure_raw_arguments(q, &raw))
    return -(int64_t)(COPY_REFUSED + PAP);
  for (size_t i = 0; i < q->n_args; i++)
    if (raw >> i & 1 && words_private((const W_ *)&q->payload[i], 1))
      return -COPY_FOREIGN;
  int64_t at = copy_words(c, (const StgClosure *)q, PAP_sizeW(q->n_args));
  if (at < 0)
    return at;
  for (size_t i = q->n_args; i-- > 0;)
    if (!(raw >> i & 1) && !push(c, (size_t)at + offsetof(StgPAP, payload) + i * sizeof(W_), 1))
      return -ENOMEM;
  return push(c, (size_t)at + offsetof(StgPAP, fun), 1) ? at : -ENOMEM;
}

static int64_t copy_closure(struct copy *c, const StgClosure *q, const StgInfoTable *info) {
  if (is_sendable_thunk(info))
    return copy_thunk(c, q, info);
  if (info->type >= FUN && info->type <= FUN_0_2)
    return copy_constructor(c, q, info);
  if (info->type == PAP)
    return copy_application(c, (const StgPAP *)q);
  return refuse(info);
}

/* Copies an evaluated closure: the copy's offset. */
static int64_t copy_value(struct copy *c, StgClosure *q, const StgInfoTable *info) {
  switch (info->type) {
  case CONSTR:
  case CONSTR_1_0:
  case CONSTR_0_1:
  case CONSTR_2_0:
  case CONSTR_1_1:
  case CONSTR_0_2:
  case CONSTR_NOCAF:
    return copy_constructor(c, q, info);
  case ARR_WORDS:
    return copy_bytes(c, (StgArrBytes *)q);
  case MUT_ARR_PTRS_FROZEN_DIRTY:
  case MUT_ARR_PTRS_FROZEN_CLEAN:
    return copy_array(c, q, sizeof(StgMutArrPtrs), ((const StgMutArrPtrs *)q)->ptrs);
  case SMALL_MUT_ARR_PTRS_FROZEN_DIRTY:
  case SMALL_MUT_ARR_PTRS_FROZEN_CLEAN:
    return copy_array(c, q, sizeof(StgSmallMutArrPtrs), ((const StgSmallMutArrPtrs *)q)->ptrs);
  default:
    return c->image->closures ? copy_closure(c, q, info) : refuse(info);
  }
}

/* A static constructor that leads to no CAF: the same in parent and worker, for ever. And whatever
   is static, where the receiver keeps what it has inherited (letter.c). */
static bool may_stay(const struct copy *c, const StgClosure *q, const StgInfoTable *info) {
  return !maru_in_heap(q) && (c->image->closures || info->type == CONSTR_NOCAF ||
                              info->type == CONSTR_0_1 || info->type == CONSTR_0_2);
}

/* Copies an evaluated closure, once: the copy's offset. */
static int64_t copy_once(struct copy *c, StgClosure *q, const StgInfoTable *info) {
  struct seen *entry = table_entry(&c->seen, q);
  if (!entry)
    return -ENOMEM;
  if (entry->to)
    return (int64_t)entry->to;
  const struct seen *slots = c->seen.slots;
  int64_t at = copy_value(c, q, info);
  if (at < 0)
    return at;
  if (slots != c->seen.slots)
    entry = slot_of(&c->seen, (uintptr_t)q);
  entry->to = (size_t)at;
  return at;
}

/* Makes the field at this offset point to a copy of what it points to. Static constructors are
   remembered even without sharing: a table that a million results refer to is copied once. */
static inline int64_t copy_field(struct copy *c, size_t at) {
  StgClosure *p = *(StgClosure **)(void *)(c->image->base + at), *q = UNTAG_CLOSURE(p);
  const StgInfoTable *info = get_itbl(q);
  if (info->type > CONSTR_NOCAF) {
    int64_t r = resolve(c, &p, &info);
    if (r < 0)
      return r;
    q = UNTAG_CLOSURE(p);
  }
  if (c->image->far && (word_is_loaded((W_)q) || word_is_loaded((W_)info)))
    return -COPY_LOADED;
  if (!may_stay(c, q, info)) {
    bool once = (c->sharing || !maru_in_heap(q)) && info->type != ARR_WORDS;
    int64_t r = once ? copy_once(c, q, info) : copy_value(c, q, info);
    if (r < 0)
      return r;
    p = pointer_to(c, (size_t)r, GET_CLOSURE_TAG(p));
  }
  *(StgClosure **)(void *)(c->image->base + at) = p;
  return 0;
}

static int64_t walk(struct copy *c, size_t root) {
  if (!push(c, root, 1))
    return -ENOMEM;
  while (c->depth) {
    struct fields *top = &c->stack[c->depth - 1];
    size_t at = top->at;
    top->at += sizeof(W_);
    if (--top->left == 0)
      c->depth--;
    int64_t r = copy_field(c, at);
    if (r < 0) {
      if (c->image->closures)
        c->image->way = image_way(c->image, at);
      return r;
    }
  }
  return 0;
}

int64_t image_copy(struct image *image, StgClosure *value, bool sharing,
                   const StgInfoTable *bytestring, StgClosure **root) {
  struct fields few[FEW_FIELDS];
  struct copy c = {.image = image,
                   .bytestring = bytestring,
                   .sharing = sharing,
                   .few = few,
                   .stack = few,
                   .room = FEW_FIELDS};
  size_t before = image->at;
  /* The pointer to the root lives in the image as well, as the contents of a byte array, so that
     the walk has only one kind of field and the image stays a row of closures. */
  int64_t r = copy_slice(&c, &value, sizeof value);
  if (r > 0) {
    size_t field = (size_t)r + sizeof(StgArrBytes);
    r = walk(&c, field);
    if (r == 0)
      memcpy(root, image->base + field, sizeof *root);
  }
  if (c.stack != few)
    free(c.stack);
  free(c.seen.slots);
  free(c.sliced.slots);
  if (r < 0)
    image_at(image, before);
  return r;
}
