/* made.c: linked into programs that keep what a library makes of its own memory: conversions of
 * characters, locales by name.  The linker sends their calls through
 * here (ld's --wrap).  They count how many there are: none is in a checkpoint (statics.h).
 */
#include <maru/parmacs.h>

#include "../programs.h"

#include <iconv.h>
#include <locale.h>
#include <stdbool.h>

static void count(enum maru_parmacs_made what, long more) {
  maru_parmacs_statics()->made[what] += more;
}

iconv_t __real_iconv_open(const char *to, const char *from);
iconv_t __wrap_iconv_open(const char *to, const char *from);
int __real_iconv_close(iconv_t conversion);
int __wrap_iconv_close(iconv_t conversion);

/* A program may have functions of these names itself. */
iconv_t __wrap_iconv_open(const char *to, const char *from) {
  iconv_t made = __real_iconv_open(to, from);
  if (made != (iconv_t)-1 && !mr_is_programs((uintptr_t)&__real_iconv_open))
    count(MARU_PARMACS_ICONV, 1);
  return made;
}
int __wrap_iconv_close(iconv_t conversion) {
  if (!mr_is_programs((uintptr_t)&__real_iconv_close))
    count(MARU_PARMACS_ICONV, -1);
  return __real_iconv_close(conversion);
}

/* ---- locales ---------------------------------------------------------------------------- */

locale_t __real_newlocale(int mask, const char *name, locale_t base);
locale_t __wrap_newlocale(int mask, const char *name, locale_t base);
locale_t __real_duplocale(locale_t locale);
locale_t __wrap_duplocale(locale_t locale);
void __real_freelocale(locale_t locale);
void __wrap_freelocale(locale_t locale);

/* That of C is none that is made. */
static long is_made(locale_t locale) {
  return locale != (locale_t)0 && locale != __real_newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* A base is no more once there is another. */
locale_t __wrap_newlocale(int mask, const char *name, locale_t base) {
  long before = is_made(base);
  locale_t made = __real_newlocale(mask, name, base);
  if (made != (locale_t)0)
    count(MARU_PARMACS_LOCALE, is_made(made) - before);
  return made;
}
locale_t __wrap_duplocale(locale_t locale) {
  locale_t made = __real_duplocale(locale);
  count(MARU_PARMACS_LOCALE, is_made(made));
  return made;
}
void __wrap_freelocale(locale_t locale) {
  count(MARU_PARMACS_LOCALE, -is_made(locale));
  __real_freelocale(locale);
}

/* std::locale(NAME), of which nobody sees the last copy go. */
#define BY_NAME(symbol)                                                                            \
  void __real_##symbol(void **locale, const char *name) __attribute__((weak));                     \
  void __wrap_##symbol(void **locale, const char *name);                                           \
  void __wrap_##symbol(void **locale, const char *name) {                                          \
    __real_##symbol(locale, name);                                                                 \
    if (*locale != *_ZNSt6locale7classicEv())                                                      \
      count(MARU_PARMACS_CXX_LOCALE, 1);                                                           \
  }
void *const *_ZNSt6locale7classicEv(void) __attribute__((weak));
BY_NAME(_ZNSt6localeC1EPKc)
BY_NAME(_ZNSt6localeC2EPKc)
