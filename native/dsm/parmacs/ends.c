/* ends.c: linked into programs that jump, ask for a call at their end, or look for words. The
 * linker sends those calls through here (ld's --wrap): a process that goes on in another's place
 * does what that would have done. */
#include <maru/parmacs.h>

#include "../programs.h"

#include <setjmp.h>
#include <string.h>

int __real_on_exit(void (*call)(int, void *), void *argument);
int __wrap_on_exit(void (*call)(int, void *), void *argument);

int __wrap_on_exit(void (*call)(int, void *), void *argument) {
  int kept = maru_parmacs_on_exit(call, argument);
  return kept == 0 ? __real_on_exit(call, argument) : kept < 0 ? -1 : 0;
}

/* The place itself stays as it is: another process may take this one's. */
#define JUMPS(name)                                                                                \
  _Noreturn void __real_##name(struct __jmp_buf_tag *place, int value);                            \
  _Noreturn void __wrap_##name(struct __jmp_buf_tag *place, int value);                            \
  void __wrap_##name(struct __jmp_buf_tag *place, int value) {                                     \
    struct __jmp_buf_tag own = *place;                                                             \
    maru_parmacs_jump(&own);                                                                       \
    __real_##name(&own, value);                                                                    \
  }

JUMPS(longjmp)
JUMPS(_longjmp)
JUMPS(siglongjmp)
JUMPS(__longjmp_chk)

char *__real_strtok(char *text, const char *ends);
char *__wrap_strtok(char *text, const char *ends);
char *__wrap_strtok(char *text, const char *ends) {
  if (mr_is_programs((uintptr_t)&__real_strtok))
    return __real_strtok(text, ends);
  return strtok_r(text, ends, &maru_parmacs_statics()->rest);
}
