/* See known.h. A name is rarely in a cache: the fields are looked at first. */
#include "known.h"

#include <string.h>

static bool has_fields(const StgClosure *q, size_t pointers, size_t raw) {
  const StgInfoTable *info = get_itbl(q);
  return info->type >= CONSTR && info->type <= CONSTR_NOCAF &&
         info->layout.payload.ptrs == pointers && info->layout.payload.nptrs == raw;
}

static bool is_named(const StgClosure *q, const char *package, const char *rest) {
  const char *name = GET_CON_DESC(get_con_itbl(q)), *behind = strchr(name, ':');
  return strncmp(name, package, strlen(package)) == 0 && behind && strcmp(behind + 1, rest) == 0;
}

/* Bytes of a unit of offset and length: UTF-16 until text 2; 0: no Text. */
static size_t text_unit(const StgClosure *q, const char *rest) {
  return is_named(q, "text-1.", rest) ? 2 : is_named(q, "text-2.", rest) ? 1 : 0;
}

bool text_of(const StgClosure *q, size_t least, struct text *text) {
  bool strict = has_fields(q, 1, 2);
  if (!strict && !has_fields(q, 2, 2))
    return false;
  StgClosure *first = UNTAG_CLOSURE(q->payload[0]);
  if (get_itbl(first)->type != ARR_WORDS || ((StgArrBytes *)first)->bytes < least)
    return false;
  size_t unit = text_unit(q, strict ? "Data.Text.Internal.Text" : "Data.Text.Internal.Lazy.Chunk");
  const W_ *raw = (const W_ *)&q->payload[strict ? 1 : 2];
  *text = (struct text){(StgArrBytes *)first, raw[0] * unit, raw[1] * unit};
  return unit > 0;
}

bool is_lazy_bytes(const StgClosure *q) {
  return (has_fields(q, 2, 2) || has_fields(q, 2, 3)) &&
         is_named(q, "bytestring-", "Data.ByteString.Lazy.Internal.Chunk");
}

int64_t maru_slice_bytes(const StgClosure *q) {
  struct text text;
  if (text_of(q, 0, &text))
    return (int64_t)text.bytes;
  if (!is_lazy_bytes(q))
    return -1;
  return (int64_t)(W_)q->payload[1 + get_itbl(q)->layout.payload.nptrs];
}
