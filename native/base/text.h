/* text.h: text that another process wrote, for a terminal (internal). */
#ifndef MARU_BASE_TEXT_H
#define MARU_BASE_TEXT_H

/* Puts a question mark, in place, for all that a terminal might obey. So it does for what
 * changes the order or the look of what stands beside it. That is control characters (C0, DEL,
 * C1), marks and overrides of direction, characters without width, separators of lines. It is
 * also each byte that is no UTF-8. O(length); async-signal-safe. */
void mr_plain(char *text);

#endif
