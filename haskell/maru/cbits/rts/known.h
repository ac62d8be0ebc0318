/* Slices of byte arrays in values of libraries whose symbols maru does not know. They are known by
   the name that GHC gives a constructor, "PACKAGE-VERSION:MODULE.NAME". Under another name a value
   is copied as any constructor is: with the whole array. */
#ifndef MARU_RTS_KNOWN_H
#define MARU_RTS_KNOWN_H

#include "internals.h"

/* A Text, or a chunk of a lazy one. */
struct text {
  StgArrBytes *array;
  size_t offset, bytes; /* within the array's payload */
};

/* Is this evaluated closure such a one, with an array of at least so many bytes? Its first pointer
   is the array, its first raw word the offset. */
bool text_of(const StgClosure *q, size_t least, struct text *text);

/* Is it a chunk of a lazy ByteString? That has a strict one's fields, and a pointer to the rest
   behind the first. */
bool is_lazy_bytes(const StgClosure *q);

/* The slice's bytes, if it is any of these; else -1. */
int64_t maru_slice_bytes(const StgClosure *q);

#endif
