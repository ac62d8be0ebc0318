/* link.h: a slower network than there is, for experiments (internal to libmaru-dsm).
 *
 * MARU_DSM_LINK=LATENCY_NS,PS_PER_BYTE: a message leaves this node when its card is free, occupies
 * it so long for each byte, and is given to the transport the latency later.  What the transport
 * itself takes comes on top.  One queue, as latency is the same for all: messages keep their order.
 * A thread sends what is due; for the last 100 us before that it keeps a processor (giving way
 * between looks), as a sleep may end later by more than the latency.
 *
 * Thread-safety: the owner's mutex, held in each call but mr_link_create; the thread takes it to
 * send.
 */
#ifndef MARU_DSM_LINK_H
#define MARU_DSM_LINK_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct mr_link;

typedef void mr_link_send_now(uint16_t to, const void *message, size_t length);

/* NULL where MARU_DSM_LINK is not set.  -EINVAL: it is no such pair of numbers; -ENOMEM, -EAGAIN.
 * `send` is called with `lock` held. */
int mr_link_create(struct mr_link **link, pthread_mutex_t *lock, mr_link_send_now *send);
/* -ENOMEM. */
int mr_link_send(struct mr_link *link, uint16_t to, const void *message, size_t length);
/* Until all has been sent (releases the mutex meanwhile); then the link is gone, and `*link` NULL
 * before anybody else can send. */
void mr_link_close(struct mr_link **link);

#endif
