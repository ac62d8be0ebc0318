/* address.h: addresses of nodes as text, "1.2.3.4:5" or "[::1]:5" (internal). */
#ifndef MARU_DSM_ADDRESS_H
#define MARU_DSM_ADDRESS_H

#include <sys/socket.h>

#define MR_ADDRESS_TEXT 64

/* How many characters of the text are an address with its port; 0: it begins with none. */
int mr_address_read(const char *text, struct sockaddr_storage *address);
/* Its host alone where `port` is 0. */
void mr_address_write(const struct sockaddr_storage *address, unsigned port,
                      char text[MR_ADDRESS_TEXT]);
/* Leaves the choice of the port to the system. */
void mr_address_draw(struct sockaddr_storage *address);
socklen_t mr_address_size(const struct sockaddr_storage *address);
/* Of AF_INET or AF_INET6; 0: the address has none yet. */
unsigned mr_address_port(const struct sockaddr_storage *address);

#endif
