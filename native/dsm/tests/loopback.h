/* loopback.h: a node's listener, for the tests of those that meet. */
#ifndef MARU_DSM_TESTS_LOOPBACK_H
#define MARU_DSM_TESTS_LOOPBACK_H

#include "check.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* At a port of the kernel's choice, which *address says. */
static inline int listen_on_loopback(int backlog, struct sockaddr_storage *address) {
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof here;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(bind(listener, (struct sockaddr *)&here, size) == 0 && listen(listener, backlog) == 0 &&
        getsockname(listener, (struct sockaddr *)&here, &size) == 0);
  memcpy(address, &here, sizeof here);
  return listener;
}

#endif
