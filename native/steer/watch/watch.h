/* What the two halves of maru-watch share: the part in the kernel counts, the other one tells. */
#ifndef MARU_STEER_WATCH_H
#define MARU_STEER_WATCH_H

enum watched_kind {
  WATCHED_READ,    /* requests to read, handed to a disk */
  WATCHED_WRITTEN, /* requests to write, handed to a disk; of buffered writes, by who writes back */
  WATCHED_DIRTIED, /* pages of a file on a disk made dirty: the buffered writes of who wrote */
  WATCHED_SENT,    /* packets handed to a network interface */
  WATCHED_RECEIVED, /* bytes taken from a socket */
};

/* No padding: the kernel compares keys byte by byte. */
struct watched_key {
  unsigned thread;
  unsigned kind; /* watched_kind */
  unsigned
      device; /* dev_t as the kernel keeps it, minor in the low 20 bits; or an interface's index */
};

struct watched_count {
  unsigned long long bytes;
  unsigned long long events;
};

enum { WATCHED_ENTRIES = 16384 };

#endif
