/* ext/atomicity.h of maru-cc: libstdc++'s, but for how std::shared_ptr counts its owners. That is
 * by two functions that maru-cc's linker sends to the library (threads/counted.c). */
#ifndef MARU_CC_ATOMICITY_H
#define MARU_CC_ATOMICITY_H

#include <bits/c++config.h>
#ifdef _GLIBCXX_ATOMIC_BUILTINS
#undef _GLIBCXX_ATOMIC_BUILTINS
#define MARU_CC_ATOMIC_BUILTINS
#endif

#include_next <ext/atomicity.h>

#ifdef MARU_CC_ATOMIC_BUILTINS
#undef MARU_CC_ATOMIC_BUILTINS
#define _GLIBCXX_ATOMIC_BUILTINS 1
#endif

#endif
