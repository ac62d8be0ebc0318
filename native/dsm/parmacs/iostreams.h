/* iostreams.h: what libstdc++ keeps of its program, in checkpoints and for new threads (internal to
 * libmaru-dsm).
 *
 * Of std::cout and the other seven: format, state, and the buffer that each uses, by libstdc++'s
 * binary interface.  Whether they are synchronised with stdio: where they are not, what they hold
 * is written before each request, as with stdio's.  The handlers of std::set_new_handler and
 * std::set_terminate.
 *
 * Refused are locales that the program has set by C++, what it hung on a stream (pword, iword,
 * callbacks), input that it has yet to read, and exceptions in flight where those are libstdc++'s
 * memory.
 *
 * Nothing is done where the program has not loaded libstdc++.  Linked into the program, that is
 * part of the program's memory.  Thread-safety: none; the program's thread stands still, or calls.
 */
#ifndef MARU_DSM_PARMACS_IOSTREAMS_H
#define MARU_DSM_PARMACS_IOSTREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_IOSTREAMS 8

struct mr_iostreams {
  bool there, made, synchronised; /* there: libstdc++ is */
  struct mr_iostream {
    ptrdiff_t precision, width, count;
    uint32_t flags, exceptions, state;
    void *tie, *buffer;
    uint64_t fill;
  } each[MR_IOSTREAMS];
  void (*no_memory)(void), (*terminates)(void);
  void *caught; /* exceptions in flight, and how many are thrown; where they are saved */
  unsigned thrown;
};

/* By the program's thread, once.  `throws_own`: exceptions are the program's memory. */
void mr_iostreams_begin(bool throws_own);
/* What they hold leaves the process. */
void mr_iostreams_flush(void);

/* How a stream writes and reads what it is given next. */
struct mr_format {
  ptrdiff_t precision;
  uint32_t flags;
  uint64_t fill;
};

struct mr_handlers {
  void (*no_memory)(void), (*terminates)(void);
};

/* Those of std::set_new_handler and std::set_terminate.  False: this process has none of its own.
 */
bool mr_iostreams_handlers(struct mr_handlers *handlers);
void mr_iostreams_set_handlers(const struct mr_handlers *handlers);

/* False: this process has no such stream of its own, or nobody has made it. */
bool mr_iostreams_format(int stream, struct mr_format *format);
void mr_iostreams_set_format(int stream, const struct mr_format *format);

/* -EOPNOTSUPP, then `why` says it. */
int mr_iostreams_take(struct mr_iostreams *streams, char *why, size_t size);
/* In another process, whose memory is the program's by now. */
void mr_iostreams_put(const struct mr_iostreams *streams);

#endif
