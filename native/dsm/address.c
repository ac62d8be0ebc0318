#define _GNU_SOURCE
#include "address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>

int mr_address_read(const char *text, struct sockaddr_storage *address) {
  char host[INET6_ADDRSTRLEN];
  unsigned port;
  int used = 0;
  struct sockaddr_in *four = (struct sockaddr_in *)address;
  struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
  *address = (struct sockaddr_storage){0};
  if (sscanf(text, "%15[0-9.]:%u%n", host, &port, &used) == 2 &&
      inet_pton(AF_INET, host, &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons((uint16_t)port);
  } else if (sscanf(text, "[%45[0-9a-fA-F:.]]:%u%n", host, &port, &used) == 2 &&
             inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons((uint16_t)port);
  } else {
    return 0;
  }
  return port <= UINT16_MAX ? used : 0;
}

void mr_address_write(const struct sockaddr_storage *address, unsigned port,
                      char text[MR_ADDRESS_TEXT]) {
  char host[INET6_ADDRSTRLEN] = "";
  int six = address->ss_family == AF_INET6;
  const void *bytes = six ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                          : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
  inet_ntop(address->ss_family, bytes, host, sizeof host);
  if (port == 0)
    snprintf(text, MR_ADDRESS_TEXT, "%s", host);
  else
    snprintf(text, MR_ADDRESS_TEXT, six ? "[%s]:%u" : "%s:%u", host, port);
}

static bool needs_interface(const struct sockaddr *address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* Loopback, or link-local. */
static bool stays_near(const struct sockaddr *address) {
  if (address->sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr) ||
           needs_interface(address);
  uint32_t four = ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr);
  return four >> 24 == 127 || four >> 16 == (169 << 8 | 254);
}

const struct addrinfo *mr_address_choose(const struct addrinfo *found, bool asked) {
  while (found != NULL && (asked ? needs_interface : stays_near)(found->ai_addr))
    found = found->ai_next;
  return found;
}

void mr_address_draw(struct sockaddr_storage *address) {
  if (address->ss_family == AF_INET6)
    ((struct sockaddr_in6 *)address)->sin6_port = 0;
  else
    ((struct sockaddr_in *)address)->sin_port = 0;
}

socklen_t mr_address_size(const struct sockaddr_storage *address) {
  return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

unsigned mr_address_port(const struct sockaddr_storage *address) {
  return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                              : ((const struct sockaddr_in *)address)->sin_port);
}
