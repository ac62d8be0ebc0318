/* streams.h: stdio's streams of a program, for its checkpoints (internal to libmaru-dsm).
 *
 * A program knows a stream by its address. So a stream that libc has made moves to one of
 * MR_STREAMS_MOST *slots*, at addresses that are free in every process.  Another process makes it
 * anew in the same slot.  It moves back to be closed: libc gives its memory back then.  What moves
 * is a block of libc's own, whose pointers into itself are set anew.  Streams of libstdc++ come
 * here, too (syscalls.c).  What libc opens by itself does not, nor what there is no slot for: no
 * checkpoint is taken meanwhile.
 *
 * Nothing of this is done in a job without checkpoints.
 *
 * Thread-safety: any thread may call mr_streams_keep, which does something for the program's alone,
 * and mr_streams_leave. The rest: none; the program's thread stands still, or calls it.
 */
#ifndef MARU_DSM_STREAMS_H
#define MARU_DSM_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#define MR_STREAMS_MOST 64

/* What a stream was, but for its descriptor. */
struct mr_stream {
  int slot;
  int flags;  /* whether it has met an end or an error */
  int buffer; /* as setvbuf has it */
  off_t at;   /* where the program is in it */
  bool ahead; /* libc has read more than the program */
};

#define MR_STREAMS_SIZE ((size_t)64 << 10)

/* The calling thread is the program's.  The slots lie there, in so much memory. */
void mr_streams_prepare(void *slots);

/* Libc has just made it, or could not (NULL); where it is now. */
FILE *mr_streams_keep(FILE *stream);
/* It is about to be closed; where libc wants it. */
FILE *mr_streams_leave(FILE *stream);

/* What the program has written leaves the process, as far as it can. */
void mr_streams_flush(void);

/* Calls for each.  What `act` returns below 0 ends it.  Else negative errno: there are streams in
 * no slot. */
typedef int mr_streams_act(void *context, int slot, FILE *stream, char *why, size_t size);
int mr_streams_walk(mr_streams_act *act, void *context, char *why, size_t size);
/* Of one of them.  Negative errno, then `why` says why another process cannot have it. */
int mr_streams_find(int slot, FILE *stream, struct mr_stream *found, char *why, size_t size);
/* Makes it, of that descriptor, which stands where the program was.  False: errno. */
bool mr_streams_make(const struct mr_stream *stream, int fd, const char *mode);

#endif
