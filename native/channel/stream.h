/* stream.h: records over a connected socket.
 *
 * Internal to maru: the parallel map's socket back end.  A record is a 32-byte
 * header {length, index, kind} and its chunk, padded. It is in the byte order of this machine: both
 * ends are processes of one program on one machine. Errors are negative errno. -EPIPE: the other
 * end is closed or dead.
 */
#ifndef MARU_CHANNEL_STREAM_H
#define MARU_CHANNEL_STREAM_H

#include <maru/channel.h>

/* A connected pair of descriptors, close-on-exec. */
int maru_stream_pair(int ends[2]);

/* Sends one whole record, waiting for room as long as the other end lives.  -EINVAL: longer than
 * 2^47 bytes, or a kind above 32767. */
int maru_stream_send(int fd, uint64_t index, uint32_t kind, const void *chunk, uint64_t length);
/* The same of memory that this process alone has (of malloc, say) and that nobody reads again:
 * its whole pages go as they are sent, so that a large record is not here and there in full. */
int maru_stream_send_away(int fd, uint64_t index, uint32_t kind, char *chunk, uint64_t length);
/* Waits up to timeout_ms for a record with a chunk of exactly `length` bytes.
 * 1: got it; 0: none yet; -EBADMSG: another one. */
int maru_stream_receive(int fd, uint64_t *index, uint32_t *kind, void *chunk, uint64_t length,
                        int timeout_ms);

/* Reads records without waiting. */
struct maru_stream_reader;
struct maru_stream_reader *maru_stream_reader_new(int fd);
void maru_stream_reader_free(struct maru_stream_reader *reader);
/* 1: *record, valid until the next call, chunk 16-byte aligned; 0: no whole record yet. -EPIPE:
 * the other end is gone and all its whole records were read. -EBADMSG: what came is no record,
 * now and for ever. */
int maru_stream_reader_next(struct maru_stream_reader *reader, struct maru_record *record);

/* Waits up to timeout_ms until one of the descriptors can be read or is
 * closed by its other end.  0, or -EINTR. */
int maru_stream_wait(const int *fds, unsigned count, int timeout_ms);

#endif
