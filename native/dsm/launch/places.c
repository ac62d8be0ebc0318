#define _GNU_SOURCE
#include "hosts.h"

#include "../address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void mr_hosts_refuse(int status, const char *format, const char *a, const char *b) {
  char line[600];
  snprintf(line, sizeof line, format, a, b);
  mr_launch_fail(status, line, "");
}

static void resolve(struct host *host) {
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
  int rc = getaddrinfo(host->name, NULL, &hints, &found);
  hints.ai_family = AF_INET6;
  if (rc != 0 && getaddrinfo(host->name, NULL, &hints, &found) == 0)
    rc = 0;
  if (rc != 0)
    mr_hosts_refuse(STATUS_UNAVAILABLE, "unknown host '%s': %s", host->name, gai_strerror(rc));
  memcpy(&host->address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
}

static bool is_loopback(const struct sockaddr_storage *address) {
  if (address->ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
  return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* A node there would tell the others an address that is their own.  Debian's /etc/hosts has the
 * name of the machine so. */
static void refuse_mixed(const struct mr_hosts *all) {
  const struct host *here = NULL, *elsewhere = NULL;
  char text[NI_MAXHOST];
  for (unsigned i = 0; i < all->count; i++)
    if (is_loopback(&all->host[i].address))
      here = &all->host[i];
    else
      elsewhere = &all->host[i];
  if (here == NULL || elsewhere == NULL)
    return;
  getnameinfo((const struct sockaddr *)&here->address, mr_address_size(&here->address), text,
              sizeof text, NULL, 0, NI_NUMERICHOST);
  mr_hosts_refuse(STATUS_UNAVAILABLE,
                  "host '%s' means %s here, which other hosts cannot reach; name its address",
                  here->name, text);
}

/* Batch systems write a line a core.  One agent serves such a row: an sshd refuses connections
 * where many begin at once. */
static bool is_same_again(struct mr_hosts *all) {
  struct host *host = &all->host[all->count], *last = host - 1;
  if (all->count == 0 || strcmp(host->name, last->name) != 0)
    return false;
  unsigned slots = last->slots + host->slots;
  last->slots = slots < MR_LAUNCH_NODES ? slots : MR_LAUNCH_NODES;
  return true;
}

/* "HOST [NODES]" a line; "#" begins a comment. */
static void read_file(struct mr_hosts *all, const char *file) {
  FILE *stream = fopen(file, "re");
  if (stream == NULL)
    mr_hosts_refuse(STATUS_UNAVAILABLE, "%s: %s", file, strerror(errno));
  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, stream) >= 0) {
    struct host *host = &all->host[all->count];
    line[strcspn(line, "#\n")] = 0;
    int name_end = 0, end = 0;
    host->slots = 1;
    if (sscanf(line, " %255s%n %9u%n", host->name, &name_end, &host->slots, &end) < 1)
      continue;
    end = end > name_end ? end : name_end;
    if (line[end + (int)strspn(line + end, " \t\r")] != 0 || host->slots < 1 ||
        host->slots > MR_LAUNCH_NODES || host->name[0] == '-')
      mr_hosts_refuse(STATUS_USAGE, "%s: 'HOST [NODES]' is needed, not '%s'", file, line);
    if (!is_same_again(all) && ++all->count == MR_LAUNCH_NODES)
      break;
  }
  if (ferror(stream) != 0)
    mr_hosts_refuse(STATUS_UNAVAILABLE, "%s: %s", file, strerror(errno));
  free(line);
  fclose(stream);
  if (all->count == 0)
    mr_hosts_refuse(STATUS_USAGE, "%s names no host%s", file, "");
}

/* Hosts are filled in their order, and again while there are nodes left. */
static void place_nodes(struct mr_hosts *all, unsigned nodes) {
  for (unsigned left = nodes, i = 0; left > 0; i = (i + 1) % all->count) {
    unsigned more = all->host[i].slots < left ? all->host[i].slots : left;
    all->host[i].here += more;
    left -= more;
  }
  for (unsigned i = 0, first = 0; i < all->count; first += all->host[i++].here) {
    all->host[i].first = first;
    all->host[i].alive = all->host[i].here;
  }
}

void mr_hosts_read(struct mr_hosts *all, const char *file, unsigned nodes) {
  read_file(all, file);
  place_nodes(all, nodes);
  for (unsigned i = 0; i < all->count; i++) {
    resolve(&all->host[i]);
    all->host[i].to = all->host[i].from = -1;
  }
  refuse_mixed(all);
}

/* One that has no node, else one that has some; NULL: all are lost. */
static struct host *other_host(struct mr_hosts *all) {
  struct host *found = NULL;
  for (unsigned i = all->count; i-- > 0;)
    if (!all->host[i].lost && !all->host[i].failed && (found == NULL || found->here > 0))
      found = &all->host[i];
  return found;
}

bool mr_hosts_replace(struct mr_hosts *all, struct host *lost) {
  struct host *other = other_host(all);
  if (other == NULL) {
    fprintf(stderr, "maru: launch: no other host of --hosts is left for the nodes of host %s\n",
            lost->name);
    return false;
  }
  fprintf(stderr, "maru: launch: the nodes of host %s start on host %s\n", lost->name, other->name);
  memcpy(lost->name, other->name, sizeof lost->name);
  lost->address = other->address;
  lost->lost = lost->failed = false;
  if (other->here == 0) { /* it takes the lost one's place */
    all->count--;
    memmove(other, other + 1, (size_t)(all->host + all->count - other) * sizeof *other);
  }
  return true;
}

/* ---- a node that moves ------------------------------------------------------------------- */

static const struct host *find(const struct mr_hosts *all, const char *name) {
  for (unsigned i = 0; i < all->count; i++)
    if (strcmp(all->host[i].name, name) == 0)
      return &all->host[i];
  return NULL;
}

bool mr_hosts_has(const struct mr_hosts *all, const char *name) {
  const struct host *host = find(all, name);
  return host != NULL && !host->lost;
}

struct host *mr_hosts_of(struct mr_hosts *all, unsigned node) {
  struct host *host = all->host;
  while (node - host->first >= host->here)
    host++;
  return host;
}

static bool append(struct mr_hosts *all, const struct host *host, unsigned first, unsigned here) {
  if (all->count == MR_LAUNCH_NODES)
    return false;
  struct host *place = &all->host[all->count++];
  *place = *host;
  place->first = first;
  place->here = place->alive = here;
  return true;
}

bool mr_hosts_move(struct mr_hosts *all, unsigned nodes, unsigned node, const char *name) {
  static struct mr_hosts now;
  const struct host *to = find(all, name);
  bool good = to != NULL;
  now.count = 0;
  for (unsigned i = 0; i < nodes && good; i++) {
    const struct host *on = i == node ? to : mr_hosts_of(all, i);
    struct host *last = i > 0 ? &now.host[now.count - 1] : NULL;
    if (last != NULL && strcmp(last->name, on->name) == 0)
      last->alive = ++last->here;
    else
      good = append(&now, on, i, 1);
  }
  for (unsigned i = 0; i < all->count && good; i++)
    if (!mr_hosts_has(&now, all->host[i].name))
      good = append(&now, &all->host[i], nodes, 0);
  if (good)
    *all = now;
  return good;
}
