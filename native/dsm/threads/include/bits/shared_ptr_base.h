/* bits/shared_ptr_base.h of maru-cc: libstdc++'s, but without what it does where no other thread
 * seems to hold the object: it looks at the counts beforehand, and another node may have changed
 * them.  It leaves that out for the thread sanitizer. */
#ifndef MARU_CC_SHARED_PTR_BASE_H
#define MARU_CC_SHARED_PTR_BASE_H

#include <bits/c++config.h>

#pragma push_macro("_GLIBCXX_TSAN")
#undef _GLIBCXX_TSAN
#define _GLIBCXX_TSAN 1

#include_next <bits/shared_ptr_base.h>

#pragma pop_macro("_GLIBCXX_TSAN")

#endif
