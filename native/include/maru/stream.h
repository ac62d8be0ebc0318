/* maru/stream.h: reads a descriptor ahead, for programs that may be changed.
 *
 * A thread reads into a ring of blocks; the consumer gets pointers into it.  No byte is copied
 * again, and the program computes while the next blocks are read.  It pays where computing and
 * reading take about as long, and a core is free; a file that is merely passed on gains
 * nothing.
 *
 * One consumer a stream (any thread, one at a time).  Not async-signal-safe.  A forked child must
 * not use its parent's streams.  Errors are negative errno.
 */
#ifndef MARU_STREAM_H
#define MARU_STREAM_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct maru_stream;

#define MARU_STREAM_BLOCK 65536u
#define MARU_STREAM_BLOCKS 16u

/* Begins to read `fd` where it stands, into `blocks` (2 to 65536) blocks of `block_bytes` (1 to
 * 1 GiB) each; 0: MARU_STREAM_BLOCK and MARU_STREAM_BLOCKS.  More memory is never used.
 * The descriptor stays the caller's, and must stay open until the stream is closed.  Until then its
 * offset belongs to the stream; it ends up anywhere behind what was consumed.
 * The stream opens a pipe once more, so that its writers see no broken pipe until it is closed.
 *
 * -EBADF (also: open for writing only), -EINVAL, -ENOMEM, -EAGAIN (no thread), -EMFILE (an
 * eventfd is needed for what is not a file). */
int maru_stream_open(struct maru_stream **stream, int fd, size_t block_bytes, unsigned blocks);

/* The next bytes, in order: how many (at least 1), and *data, valid until the next call; gives
 * the last block back.  0: the end.  Negative errno: what read(2) said there, after all that it
 * had read before; the end and an error stay.  Waits while there is nothing yet; no cancellation
 * point. */
ssize_t maru_stream_next(struct maru_stream *stream, const void **data);

/* Ends the reading, wherever it is, and frees everything.  NULL: nothing.  Waits for a read of a
 * file that is under way, not for data of a pipe or socket, whichever process reads them. */
void maru_stream_close(struct maru_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
