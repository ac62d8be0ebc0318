/* bits/shared_ptr_base.h of maru-cc: libstdc++'s, but for two things that it does to counts which
 * another node may have changed.  Where nobody else seems to hold the object it looks at them
 * beforehand: it leaves that out for the thread sanitizer.  And std::weak_ptr's lock compares and
 * exchanges the count: that goes to the library (threads/counts.c), as do all changes of counts. */
#ifndef MARU_CC_SHARED_PTR_BASE_H
#define MARU_CC_SHARED_PTR_BASE_H

#include <bits/atomic_base.h> /* it compares others than counts */
#include <bits/c++config.h>

extern "C" int maru_threads_compare_exchange(volatile int *count, int *expected, int wanted);

#pragma push_macro("_GLIBCXX_TSAN")
#undef _GLIBCXX_TSAN
#define _GLIBCXX_TSAN 1
#define __atomic_compare_exchange_n(count, expected, wanted, weak, success, failure)               \
  (maru_threads_compare_exchange(count, expected, wanted) != 0)

#include_next <bits/shared_ptr_base.h>

#undef __atomic_compare_exchange_n
#pragma pop_macro("_GLIBCXX_TSAN")

#endif
