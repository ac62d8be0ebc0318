/* address.h: addresses of nodes as text, "1.2.3.4:5" or "[::1]:5" (internal). */
#ifndef MARU_DSM_ADDRESS_H
#define MARU_DSM_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#define MR_ADDRESS_TEXT 64

struct addrinfo;

/* How many characters of the text are an address with its port; 0: it begins with none. */
int mr_address_read(const char *text, struct sockaddr_storage *address);
/* Its host alone where `port` is 0. */
void mr_address_write(const struct sockaddr_storage *address, unsigned port,
                      char text[MR_ADDRESS_TEXT]);
/* The first that other hosts can use as text; NULL: none.  `asked`: the user named it, so that it
 * may be any whose text means the same there.  A link-local address of IPv6 means nothing without
 * this host's name of an interface. */
const struct addrinfo *mr_address_choose(const struct addrinfo *found, bool asked);
/* Leaves the choice of the port to the system. */
void mr_address_draw(struct sockaddr_storage *address);
socklen_t mr_address_size(const struct sockaddr_storage *address);
/* Of AF_INET or AF_INET6; 0: the address has none yet. */
unsigned mr_address_port(const struct sockaddr_storage *address);

#endif
