/* first.c: libmaru-first.so, which comes with every other library of maru's in LD_PRELOAD.
 *
 * A sanitizer's run-time system must be the first library of its program: AddressSanitizer ends
 * the program otherwise, ThreadSanitizer crashes under libmaru-lock.so, MemorySanitizer does not
 * see what a library of ours reads.  `maru run` looks at the command beforehand, and cannot look
 * at what the command starts. So this looks in each process. Where such a system is, it has the
 * kernel execute the program once more, without our libraries, by way of maru-without, which says
 * so on the board. Elsewhere it costs a look at five words.
 *
 * It must come before that system looks round itself, and may call nothing in which that system
 * wakes up: that is most of libc.  So it calls nothing at all, and is linked with nothing.  The
 * loader runs the constructor of one library ahead of all others, of the last with the flag
 * DF_1_INITFIRST: this has it.
 *
 * What cannot be done: where another library has the flag, where the loader was started as the
 * program (`ld.so ./program`), or where the kernel refuses, the program starts with our libraries.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/auxvec.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define OWN "libmaru-"
#define FIRST OWN "first.so"
#define VARIABLE "LD_PRELOAD="
#define SELF "/proc/self/exe"
#define HELPER "maru-without" /* beside this library */
#define LIST_MOST 65536       /* of a longer list nothing is taken */

/* Theirs, if they are there: in a library, or linked into the program. */
#define SYSTEM(name) extern char name[] __attribute__((weak))
SYSTEM(__asan_init);
SYSTEM(__hwasan_init);
SYSTEM(__lsan_init);
SYSTEM(__msan_init);
SYSTEM(__tsan_init);

static bool is_sanitized(void) {
  return __asan_init != NULL || __hwasan_init != NULL || __lsan_init != NULL ||
         __msan_init != NULL || __tsan_init != NULL;
}

static long raw(long number, long a, long b, long c, long d) {
#ifdef __x86_64__
  register long fourth __asm__("r10") = d;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                   : "rcx", "r11", "memory");
  return result;
#else
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
                   x2 __asm__("x2") = c, x3 __asm__("x3") = d;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
#endif
}

static bool begins_with(const char *text, const char *end, const char *with) {
  while (*with != '\0' && text < end && *text == *with)
    text++, with++;
  return *with == '\0';
}

static const char *end_of(const char *text) {
  while (*text != '\0')
    text++;
  return text;
}

/* Behind the last slash. */
static const char *folder_end(const char *path, const char *end) {
  while (end > path && end[-1] != '/')
    end--;
  return end;
}

static bool is_own(const char *path, const char *end) {
  return begins_with(folder_end(path, end), end, OWN);
}

static char *append(char *to, const char *from, const char *end) {
  while (from < end)
    *to++ = *from++;
  *to = '\0';
  return to;
}

/* The variable with the paths that are not ours, and the helper beside this library.  The
 * variable's end, or NULL: there is none of ours. */
static char *others_of(const char *variable, char *to, char *helper) {
  const char *at = variable + sizeof VARIABLE - 1;
  static const char name[] = HELPER;
  bool any = false;
  char *first = to = append(to, variable, at);
  while (*at != '\0') {
    const char *end = at;
    while (*end != '\0' && *end != ':' && *end != ' ')
      end++;
    if (is_own(at, end)) {
      any = true;
      if (begins_with(folder_end(at, end), end, FIRST))
        append(append(helper, at, folder_end(at, end)), name, end_of(name));
    } else {
      if (to != first)
        *to++ = ':';
      to = append(to, at, end);
    }
    at = *end != '\0' ? end + 1 : end;
  }
  *to = '\0';
  return any ? to : NULL;
}

/* By its name, so that the kernel gives the process that; by the link where another file has the
 * name by now. */
static const char *program(char path[PATH_MAX]) {
  struct stat by_link, by_name;
  long size = raw(SYS_readlinkat, AT_FDCWD, (long)SELF, (long)path, PATH_MAX - 1);
  if (size <= 0)
    return SELF;
  path[size] = '\0';
  return raw(SYS_newfstatat, AT_FDCWD, (long)SELF, (long)&by_link, 0) == 0 &&
                 raw(SYS_newfstatat, AT_FDCWD, (long)path, (long)&by_name, 0) == 0 &&
                 by_link.st_dev == by_name.st_dev && by_link.st_ino == by_name.st_ino
             ? path
             : SELF;
}

/* What the kernel says behind the environment: where the loader is, unless it is the program. */
static bool has_loader(char **environment) {
  while (*environment != NULL)
    environment++;
  const uintptr_t *word = (const uintptr_t *)(environment + 1);
  for (; word[0] != AT_NULL; word += 2)
    if (word[0] == AT_BASE)
      return word[1] != 0;
  return false;
}

static void execute_again(int count, char **arguments, char **environment, size_t number,
                          size_t at) {
  size_t size = (size_t)(end_of(environment[at]) - environment[at]) + 1;
  char others[size], helper[size + sizeof HELPER], path[PATH_MAX], *without[number + 1],
      *by_helper[count + 3];
  helper[0] = '\0';
  char *end = others_of(environment[at], others, helper);
  if (end == NULL)
    return;
  bool empty = end == others + sizeof VARIABLE - 1;
  size_t to = 0;
  for (size_t from = 0; from < number; from++)
    if (from != at || !empty)
      without[to++] = from == at ? others : environment[from];
  without[to] = NULL;
  const char *file = program(path);
  by_helper[0] = helper;
  by_helper[1] = path;
  for (int i = 0; i <= count; i++)
    by_helper[i + 2] = arguments[i];
  /* Each returns only if the kernel refuses. */
  if (file == path)
    raw(SYS_execve, (long)helper, (long)by_helper, (long)without, 0);
  raw(SYS_execve, (long)file, (long)arguments, (long)without, 0);
}

__attribute__((constructor)) static void begin(int count, char **arguments, char **environment) {
  if (!is_sanitized() || !has_loader(environment))
    return;
  size_t number = 0, at = SIZE_MAX;
  for (; environment[number] != NULL; number++)
    if (begins_with(environment[number], environment[number] + sizeof VARIABLE, VARIABLE))
      at = number;
  if (at != SIZE_MAX && end_of(environment[at]) - environment[at] < LIST_MOST)
    execute_again(count, arguments, environment, number, at);
}
