/* files.h: the kernel's short files (internal to maru-steer).  Errors are negative errno. */
#ifndef MARU_STEER_FILES_H
#define MARU_STEER_FILES_H

#include <stddef.h>

/* Opens `name` below `folder`. */
int mr_file_open(const char *folder, const char *name, int flags);
/* Its first line, without the end of that. */
int mr_file_read(const char *folder, const char *name, char *text, size_t room);
int mr_file_write(const char *folder, const char *name, const char *text);

#endif
