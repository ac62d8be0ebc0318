#include "link.h"

#include <errno.h>
#include <maru/wait.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
  struct message *next, *before;
  int64_t due;
  uint16_t from;
  size_t length;
  uint8_t bytes[];
};

struct mr_link {
  int64_t latency_ns;
  double ns_per_byte, card_free_at;
  struct message *first, *last; /* in the order in which they are due */
};

int mr_link_create(struct mr_link **link) {
  const char *text = getenv("MARU_DSM_LINK");
  unsigned latency, ps;
  int used = 0;
  *link = NULL;
  if (text == NULL)
    return 0;
  if (sscanf(text, "%9u,%9u%n", &latency, &ps, &used) != 2 || text[used] != 0 ||
      strchr(text, '-') != NULL)
    return -EINVAL;
  *link = calloc(1, sizeof **link);
  if (*link == NULL)
    return -ENOMEM;
  (*link)->latency_ns = latency;
  (*link)->ns_per_byte = ps / 1e3;
  return 0;
}

void mr_link_destroy(struct mr_link *link) {
  for (struct message *next; link->first != NULL; link->first = next) {
    next = link->first->next;
    free(link->first);
  }
  free(link);
}

int64_t mr_link_leave(struct mr_link *link, size_t length) {
  double now = (double)maru_now_ns();
  double leaves = now > link->card_free_at ? now : link->card_free_at;
  link->card_free_at = leaves + link->ns_per_byte * (double)length;
  return (int64_t)link->card_free_at + link->latency_ns;
}

/* From the last on: most come in the order in which they are due, and many may be on their way. */
static struct message *last_due_by(const struct mr_link *link, int64_t due) {
  struct message *message = link->last;
  while (message != NULL && message->due > due)
    message = message->before;
  return message;
}

/* One sender's stay in their order. NULL: it is the first. */
static void put_behind(struct mr_link *link, struct message *message, struct message *before) {
  message->before = before;
  message->next = before != NULL ? before->next : link->first;
  *(before != NULL ? &before->next : &link->first) = message;
  *(message->next != NULL ? &message->next->before : &link->last) = message;
}

int mr_link_keep(struct mr_link *link, int64_t due, uint16_t from, const void *bytes,
                 size_t length) {
  struct message *message = malloc(sizeof *message + length);
  if (message == NULL)
    return -ENOMEM;
  *message = (struct message){.due = due, .from = from, .length = length};
  memcpy(message->bytes, bytes, length);
  put_behind(link, message, last_due_by(link, due));
  return 0;
}

int64_t mr_link_due(const struct mr_link *link) {
  return link->first != NULL ? link->first->due : INT64_MAX;
}

int mr_link_serve(struct mr_link *link, int64_t now, mr_link_see *see, void *context) {
  int count = 0;
  for (struct message *message; (message = link->first) != NULL && message->due <= now; count++) {
    link->first = message->next;
    *(message->next != NULL ? &message->next->before : &link->last) = NULL;
    see(context, message->from, message->bytes, message->length);
    free(message);
  }
  return count;
}
