/* cpulist.h: how the kernel writes sets of CPUs in text (internal). */
#ifndef MARU_BASE_CPULIST_H
#define MARU_BASE_CPULIST_H

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>

/* Calls `add` with the first and the last of each range of a list such as "0-3,8,10-11".  False
 * when it is no list, or a number is not below `limit`; `add` then had what came before.  Empty
 * text: no range. */
static inline bool mr_cpu_list_read(const char *text, unsigned long limit,
                                    void (*add)(void *set, unsigned long first, unsigned long last),
                                    void *set) {
  while (isspace((unsigned char)*text))
    text++;
  while (*text != '\0') {
    char *end;
    if (!isdigit((unsigned char)*text))
      return false;
    unsigned long first = strtoul(text, &end, 10), last = first;
    if (*end == '-') {
      if (!isdigit((unsigned char)end[1]))
        return false;
      last = strtoul(end + 1, &end, 10);
    }
    if (first > last || last >= limit)
      return false;
    add(set, first, last);
    text = end;
    while (*text == ',' || isspace((unsigned char)*text))
      text++;
  }
  return true;
}

#endif
