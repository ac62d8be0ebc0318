#define _GNU_SOURCE
#include "alive.h"

#include "transport.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#define MS INT64_C(1000000)
/* Kernels count in ticks of up to 10 ms. */
#define TICKS (20 * MS)

void mr_alive_tune(int fd) {
  int on = 1, idle = 1, pause = 1, pauses = MR_LOST_MS / 1000 - 1;
  /* What a kernel refuses here costs time, not correctness. */
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &pauses, sizeof pauses);
}

/* What was repeated before an answer came is no question any more, even where the answer
 * acknowledged nothing: a full receiver does that. */
bool mr_alive_judge(struct mr_alive *alive, const struct mr_signs *signs, int64_t now) {
  int64_t answered = now - signs->answer * MS;
  if (signs->repeats == 0)
    alive->known = 0;
  if (answered > alive->answered + TICKS) {
    alive->answered = answered;
    alive->known = signs->repeats;
    alive->since = 0;
  }
  if (signs->repeats <= alive->known && signs->probes == 0)
    alive->since = 0;
  else if (alive->since == 0)
    alive->since = now;
  return alive->since != 0 && now - alive->since >= (signs->idle ? MR_IDLE_MS : MR_SILENT_MS) * MS;
}

bool mr_alive_lost(struct mr_alive *alive, int fd, int64_t now) {
  struct tcp_info info;
  socklen_t size = sizeof info;
  /* A connection that cannot be asked about breaks by itself, or not at all. */
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
    return false;
  int waits = 1;
  ioctl(fd, SIOCOUTQ, &waits);
  const struct mr_signs signs = {info.tcpi_retransmits, info.tcpi_probes, info.tcpi_last_ack_recv,
                                 waits == 0};
  return mr_alive_judge(alive, &signs, now);
}

bool mr_looks_due(struct mr_looks *looks, int64_t now) {
  int64_t slept = now - looks->last;
  if (slept < looks->pause)
    return false;
  looks->awake += slept < 2 * looks->pause ? slept : looks->pause;
  looks->last = now;
  return true;
}
