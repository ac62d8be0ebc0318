#define _GNU_SOURCE
#include "streams.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define SLOT (MR_STREAMS_SIZE / MR_STREAMS_MOST)

/* All streams of a process, as libc has them; it exports these, and no header names them. */
extern FILE *_IO_list_all;
void _IO_list_lock(void);
void _IO_list_unlock(void);
void _IO_link_in(FILE *stream);
void _IO_un_link(FILE *stream);

/* Libraries of the program's may have threads that close its streams. */
static struct {
  pthread_mutex_t lock;
  uint8_t *slots;              /* NULL: nobody asked for them */
  unsigned count;              /* slots in use */
  FILE *home[MR_STREAMS_MOST]; /* where libc made it; NULL: the slot is free */
  size_t size[MR_STREAMS_MOST];
  int wanted; /* the slot for the next one, and 1; 0: any */
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread bool programs; /* the thread is */

void mr_streams_prepare(void *slots) {
  streams.slots = slots;
  programs = true;
}

/* ---- slots ---------------------------------------------------------------------------- */

/* -1: it lies in none. */
static int slot_of(const FILE *stream) {
  uintptr_t offset = (uintptr_t)stream - (uintptr_t)streams.slots;
  int slot = offset < MR_STREAMS_SIZE ? (int)(offset / SLOT) : -1;
  return slot >= 0 && streams.home[slot] != NULL ? slot : -1;
}

static FILE *stream_in(int slot) { return (FILE *)(void *)(streams.slots + (size_t)slot * SLOT); }

static int free_slot(void) {
  if (streams.wanted > 0)
    return streams.home[streams.wanted - 1] == NULL ? streams.wanted - 1 : -1;
  for (int i = 0; i < MR_STREAMS_MOST; i++)
    if (streams.home[i] == NULL)
      return i;
  return -1;
}

/* A pointer into the block that moves. */
static void *moved(const void *pointer, const FILE *from, FILE *to, size_t size) {
  uintptr_t offset = (uintptr_t)pointer - (uintptr_t)from;
  return offset < size ? (uint8_t *)to + offset : (void *)(uintptr_t)pointer;
}

static void move(FILE *from, FILE *to, size_t size) {
  _IO_un_link(from);
  memcpy(to, from, size);
  to->_lock = moved(from->_lock, from, to, size);
  to->_wide_data = moved(from->_wide_data, from, to, size);
  _IO_link_in(to);
}

static FILE *keep(FILE *stream) {
  int slot = free_slot();
  size_t size = malloc_usable_size(stream);
  if (slot < 0 || size > SLOT)
    return stream;
  move(stream, stream_in(slot), size);
  streams.home[slot] = stream;
  streams.size[slot] = size;
  streams.count++;
  return stream_in(slot);
}

static FILE *leave(FILE *stream) {
  int slot = slot_of(stream);
  if (slot < 0)
    return stream;
  FILE *home = streams.home[slot];
  move(stream, home, streams.size[slot]);
  streams.home[slot] = NULL;
  streams.count--;
  return home;
}

static FILE *locked(FILE *act(FILE *stream), FILE *stream) {
  pthread_mutex_lock(&streams.lock);
  FILE *result = act(stream);
  pthread_mutex_unlock(&streams.lock);
  return result;
}

FILE *mr_streams_keep(FILE *stream) {
  return stream != NULL && programs ? locked(keep, stream) : stream;
}
FILE *mr_streams_leave(FILE *stream) {
  return streams.slots != NULL ? locked(leave, stream) : stream;
}

/* ---- what they are ------------------------------------------------------------------------ */

void mr_streams_flush(void) {
  if (streams.slots == NULL)
    return;
  pthread_mutex_lock(&streams.lock);
  for (int i = 0; streams.count > 0 && i < MR_STREAMS_MOST; i++)
    if (streams.home[i] != NULL && __fpending(stream_in(i)) > 0)
      fflush(stream_in(i));
  pthread_mutex_unlock(&streams.lock);
}

static bool is_known(FILE *stream) {
  return stream == stdin || stream == stdout || stream == stderr || slot_of(stream) >= 0;
}

static int find_unknown(char *why, size_t size) {
  int rc = 0;
  _IO_list_lock();
  for (FILE *each = _IO_list_all; each != NULL && rc == 0; each = each->_chain)
    if (!is_known(each)) {
      snprintf(why, size, "the program has a stream open that no checkpoint can hold");
      rc = -EOPNOTSUPP;
    }
  _IO_list_unlock();
  return rc;
}

int mr_streams_walk(mr_streams_act *act, void *context, char *why, size_t size) {
  int rc = find_unknown(why, size);
  for (int i = 0; i < MR_STREAMS_MOST && rc == 0; i++)
    if (streams.home[i] != NULL)
      rc = act(context, i, stream_in(i), why, size);
  return rc;
}

/* What was put back is elsewhere than what was read. */
static bool is_put_back(const FILE *stream) {
  return stream->_IO_save_base != NULL && (stream->_IO_read_ptr < stream->_IO_buf_base ||
                                           stream->_IO_read_ptr > stream->_IO_buf_end);
}

/* A stream that only lends its descriptor to others does not know where that is. */
static off_t tell(FILE *stream) {
  return stream->_IO_buf_base != NULL ? ftello(stream) : lseek(fileno(stream), 0, SEEK_CUR);
}

static const char *what_is_lost(FILE *stream) {
  return fwide(stream, 0) > 0     ? "is of wide characters"
         : is_put_back(stream)    ? "has characters that were put back"
         : __fpending(stream) > 0 ? "holds what cannot be written"
                                  : NULL;
}

int mr_streams_find(int slot, FILE *stream, struct mr_stream *found, char *why, size_t size) {
  bool held = ftrylockfile(stream) != 0;
  const char *what = held ? "is locked" : what_is_lost(stream);
  if (what == NULL)
    *found = (struct mr_stream){.slot = slot,
                                .flags = stream->_flags & (_IO_EOF_SEEN | _IO_ERR_SEEN),
                                .buffer = __flbf(stream)            ? _IOLBF
                                          : __fbufsize(stream) == 1 ? _IONBF
                                                                    : _IOFBF,
                                .at = tell(stream),
                                .ahead = __freading(stream) &&
                                         stream->_IO_read_ptr < stream->_IO_read_end};
  else
    snprintf(why, size, "the program's stream of descriptor %d %s", fileno(stream), what);
  if (!held)
    funlockfile(stream);
  return what == NULL ? 0 : -EOPNOTSUPP;
}

bool mr_streams_make(const struct mr_stream *stream, int fd, const char *mode) {
  streams.wanted = stream->slot + 1;
  FILE *made = fdopen(fd, mode);
  streams.wanted = 0;
  if (made == NULL)
    return false;
  if (slot_of(made) != stream->slot) {
    errno = EADDRINUSE;
    return false;
  }
  if (stream->buffer != _IOFBF)
    setvbuf(made, NULL, stream->buffer, 0);
  made->_flags |= stream->flags;
  return true;
}
