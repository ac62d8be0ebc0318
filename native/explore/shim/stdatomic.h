/* stdatomic.h as the explorer's tests see it: a point before each operation. */
#ifndef MARU_EXPLORE_STDATOMIC_H
#define MARU_EXPLORE_STDATOMIC_H

#include_next <stdatomic.h>

#include "../explore.h"

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_and_explicit
#undef atomic_fetch_or_explicit

#ifdef __clang__
#define RAW_LOAD(object) __c11_atomic_load(object, __ATOMIC_SEQ_CST)
#define RAW_STORE(object, value) __c11_atomic_store(object, value, __ATOMIC_SEQ_CST)
#define RAW_EXCHANGE(object, value) __c11_atomic_exchange(object, value, __ATOMIC_SEQ_CST)
#define RAW_FETCH(what, object, value) __c11_atomic_fetch_##what(object, value, __ATOMIC_SEQ_CST)
#define RAW_CAS(object, expected, desired)                                                         \
  __c11_atomic_compare_exchange_strong(object, expected, desired, __ATOMIC_SEQ_CST,                \
                                       __ATOMIC_SEQ_CST)
#else
#define RAW_LOAD(object) __atomic_load_n(object, __ATOMIC_SEQ_CST)
#define RAW_STORE(object, value) __atomic_store_n(object, value, __ATOMIC_SEQ_CST)
#define RAW_EXCHANGE(object, value) __atomic_exchange_n(object, value, __ATOMIC_SEQ_CST)
#define RAW_FETCH(what, object, value) __atomic_fetch_##what(object, value, __ATOMIC_SEQ_CST)
#define RAW_CAS(object, expected, desired)                                                         \
  __atomic_compare_exchange_n(object, expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#endif

#define atomic_load_explicit(object, order) (explore_access(object, EXPLORE_READ), RAW_LOAD(object))
#define atomic_store_explicit(object, value, order)                                                \
  (explore_access(object, EXPLORE_WRITE), RAW_STORE(object, value))
#define atomic_exchange_explicit(object, value, order)                                             \
  (explore_access(object, EXPLORE_MODIFY), RAW_EXCHANGE(object, value))
#define atomic_compare_exchange_strong_explicit(object, expected, desired, success, failure)       \
  (explore_access(object, EXPLORE_MODIFY), RAW_CAS(object, expected, desired))
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit
#define atomic_fetch_add_explicit(object, value, order)                                            \
  (explore_access(object, EXPLORE_MODIFY), RAW_FETCH(add, object, value))
#define atomic_fetch_and_explicit(object, value, order)                                            \
  (explore_access(object, EXPLORE_MODIFY), RAW_FETCH(and, object, value))
#define atomic_fetch_or_explicit(object, value, order)                                             \
  (explore_access(object, EXPLORE_MODIFY), RAW_FETCH(or, object, value))

#endif
