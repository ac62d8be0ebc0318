/* named.c: ways to wait as people write them. */
#include <maru/wait.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SPIN_MOST_NS INT64_C(100000000)

static int spin_of(const char *text, int64_t *spin_ns) {
  static const struct {
    const char *name;
    int64_t ns;
  } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}};
  char *end;
  if (*text < '0' || *text > '9')
    return -EINVAL;
  unsigned long long number = strtoull(text, &end, 10);
  for (unsigned i = 0; i < sizeof units / sizeof *units; i++)
    if (strcmp(end, units[i].name) == 0 && number <= (uint64_t)(SPIN_MOST_NS / units[i].ns)) {
      *spin_ns = (int64_t)number * units[i].ns;
      return 0;
    }
  return -EINVAL;
}

int maru_wait_parse(const char *text, int64_t *spin_ns) {
  char name[32];
  const char *option = strchr(text, ':');
  size_t length = option != NULL ? (size_t)(option - text) : strlen(text);
  *spin_ns = -1;
  if (length >= sizeof name)
    return -EINVAL;
  memcpy(name, text, length);
  name[length] = '\0';
  int kind = maru_wait_kind_of(name);
  if (kind < 0 || option == NULL)
    return kind;
  if (!maru_wait_takes_spin((enum maru_wait_kind)kind) || strncmp(option, ":spin=", 6) != 0 ||
      spin_of(option + 6, spin_ns) < 0)
    return -EINVAL;
  return kind;
}
