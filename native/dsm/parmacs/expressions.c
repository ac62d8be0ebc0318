/* expressions.c: linked into programs with regular expressions. The linker sends their calls
 * through here. */
#define _GNU_SOURCE
#include "../programs.h"

#include <maru/parmacs.h>
#include <regex.h>

#define EXPRESSION(type, name, parameters, arguments)                                              \
  type __real_##name parameters;                                                                   \
  type __wrap_##name parameters;                                                                   \
  type __wrap_##name parameters {                                                                  \
    return mr_is_programs((uintptr_t)&__real_##name) ? __real_##name arguments                     \
                                                     : maru_parmacs_##name arguments;              \
  }
EXPRESSION(int, regcomp, (regex_t * r, const char *text, int flags), (r, text, flags))
EXPRESSION(int, regexec, (const regex_t *r, const char *t, size_t n, regmatch_t *m, int flags),
           (r, t, n, m, flags))
EXPRESSION(void, regfree, (regex_t * r), (r))
