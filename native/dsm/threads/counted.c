/* counted.c: linked into programs of C++ that count holders, as std::shared_ptr does: maru-cc's
 * ext/atomicity.h leaves these two to the linker.  They have the names that compilers give them. */
#include <maru/threads.h>

int exchange_and_add(volatile int *count,
                     int more) __asm__("__wrap__ZN9__gnu_cxx18__exchange_and_addEPVii");
void add(volatile int *count, int more) __asm__("__wrap__ZN9__gnu_cxx12__atomic_addEPVii");

int exchange_and_add(volatile int *count, int more) {
  return maru_threads_exchange_and_add(count, more);
}
void add(volatile int *count, int more) { maru_threads_exchange_and_add(count, more); }
