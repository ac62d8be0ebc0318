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
#undef atomic_fetch_sub_explicit
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
#define atomic_fetch_sub_explicit(object, value, order)                                            \
  (explore_access(object, EXPLORE_MODIFY), RAW_FETCH(sub, object, value))
#define atomic_fetch_and_explicit(object, value, order)                                            \
  (explore_access(object, EXPLORE_MODIFY), RAW_FETCH(and, object, value))
#define atomic_fetch_or_explicit(object, value, order)                                             \
  (explore_access(object, EXPLORE_MODIFY), RAW_FETCH(or, object, value))

/* What we have no point for does not compile. */
#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_fetch_and
#undef atomic_fetch_or
#undef atomic_fetch_xor
#undef atomic_fetch_xor_explicit
#undef atomic_thread_fence
#undef atomic_flag_test_and_set
#undef atomic_flag_test_and_set_explicit
#undef atomic_flag_clear
#undef atomic_flag_clear_explicit
#pragma GCC poison atomic_load
#pragma GCC poison atomic_store
#pragma GCC poison atomic_exchange
#pragma GCC poison atomic_compare_exchange_strong
#pragma GCC poison atomic_compare_exchange_weak
#pragma GCC poison atomic_fetch_add
#pragma GCC poison atomic_fetch_sub
#pragma GCC poison atomic_fetch_and
#pragma GCC poison atomic_fetch_or
#pragma GCC poison atomic_fetch_xor
#pragma GCC poison atomic_fetch_xor_explicit
#pragma GCC poison atomic_thread_fence
#pragma GCC poison atomic_flag_test_and_set
#pragma GCC poison atomic_flag_test_and_set_explicit
#pragma GCC poison atomic_flag_clear
#pragma GCC poison atomic_flag_clear_explicit

#endif
