/* settings.h: how a node shares memory, by its environment (internal to libmaru-dsm).  What is
 * wrong there ends the process (mr_node_die): before the job is joined, while nobody relies on this
 * node yet.
 */
#ifndef MARU_DSM_SETTINGS_H
#define MARU_DSM_SETTINGS_H

#include "access.h"
#include "core.h"
#include "link.h"

#include <stdbool.h>
#include <stdint.h>

/* How long whoever looks for messages keeps its processor. */
uint64_t mr_settings_spin_us(uint16_t nodes);
/* The way asked for, or the best that works.  `slower`: a line where that is a worse one than the
 * best; else empty. */
enum mr_access_way mr_settings_way(char *slower, size_t size);
bool mr_settings_races(void);
/* Seconds of silence after which a node is lost; 0: never for that alone. */
unsigned mr_settings_lost_after(void);
/* NULL: as fast as the network is. */
struct mr_link *mr_settings_link(void);
/* Nodes, pages, homes and policies; the rest is the caller's to fill in. */
struct mr_core_config mr_settings_core(uint16_t nodes, uint16_t me, uint32_t pages);
/* What has to be the same on all nodes, as a number: settings by which a page's home is found
 * and a message read. A described network and, with it, the host. */
uint64_t mr_settings_common(const struct mr_core_config *core);

/* A number for a file, by its bytes. */
uint64_t mr_file_sum(const char *path);

#endif
