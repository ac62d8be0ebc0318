#define _GNU_SOURCE
#include "own.h"

#include "private.h"

#include "../../base/variables.h"
#include <errno.h>
#include <limits.h>
#include <string.h>

struct mr_last {
  void (*call)(void *);
  void *argument;
  uintptr_t frame; /* of cleanups alone */
  struct mr_last *before;
};

/* ---- thread-local variables -------------------------------------------------------- */

void mr_own_begin(struct mr_own *own) {
  struct mr_variables v = mr_variables_find();
  *own = (struct mr_own){.error = errno};
  if (v.size == 0)
    return;
  own->put_away = mr_private_take(v.size);
  memcpy(own->put_away, v.at, v.size);
  memcpy(v.at, v.first, v.given);
  memset(v.at + v.given, 0, v.size - v.given);
}

void mr_own_end(struct mr_own *own) {
  if (own->put_away != NULL) {
    struct mr_variables v = mr_variables_find();
    memcpy(v.at, own->put_away, v.size);
    mr_private_give(own->put_away);
  }
  errno = own->error;
}

/* ---- the end ---------------------------------------------------------------------------- */

static void push(struct mr_last **list, void (*call)(void *), void *argument, uintptr_t frame) {
  struct mr_last *last = mr_private_take(sizeof *last);
  *last = (struct mr_last){call, argument, frame, *list};
  *list = last;
}

static void pop(struct mr_last **list, bool call) {
  const struct mr_last last = **list;
  mr_private_give(*list);
  *list = last.before;
  if (call)
    last.call(last.argument);
}

void mr_own_object(struct mr_own *own, void (*call)(void *), void *object) {
  push(&own->objects, call, object, 0);
}

void mr_own_notice(struct mr_own *own, void (*call)(void *), void *argument) {
  push(&own->notices, call, argument, 0);
}

void mr_own_push(struct mr_own *own, void (*call)(void *), void *argument, uintptr_t frame) {
  push(&own->cleanups, call, argument, frame);
}

void mr_own_pop(struct mr_own *own, bool call) {
  if (own->cleanups != NULL)
    pop(&own->cleanups, call);
}

void mr_own_clean_up(struct mr_own *own, uintptr_t left) {
  while (own->cleanups != NULL && own->cleanups->frame < left)
    pop(&own->cleanups, true);
}

/* Whether there was one. */
static bool destroy_values(struct mr_own *own, const struct mr_keys *keys) {
  bool some = false;
  for (uint32_t i = 0; i < keys->count; i++) {
    void *value = own->values[i];
    void (*destructor)(void *) = keys->destructors[i];
    if (value == NULL || destructor == NULL || own->keys[i] != keys->numbers[i])
      continue;
    own->values[i] = NULL;
    destructor(value);
    some = true;
  }
  return some;
}

/* One may make others; a value that comes again and again stays in the end. */
void mr_own_finish(struct mr_own *own, const struct mr_keys *keys) {
  while (own->objects != NULL)
    pop(&own->objects, true);
  for (int i = 0; i < PTHREAD_DESTRUCTOR_ITERATIONS && destroy_values(own, keys); i++)
    ;
  while (own->notices != NULL)
    pop(&own->notices, true);
}
