// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/* The part of maru-watch that runs in the kernel: bytes by (thread, device), counted where the
 * kernel hands them on. Kernel types are declared as far as they are used; the loader finds where
 * the running kernel has each member (CO-RE). */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "watch.h"

#pragma clang diagnostic ignored "-Wunused-parameter" /* BPF_PROG makes one */

#define KERNEL_TYPE __attribute__((preserve_access_index))

typedef __u32 dev_t;
struct block_device {
  dev_t bd_dev;
} KERNEL_TYPE;
struct bvec_iter {
  unsigned bi_size;
} KERNEL_TYPE;
struct bio {
  struct block_device *bi_bdev;
  unsigned bi_opf;
  struct bvec_iter bi_iter;
} KERNEL_TYPE;
struct super_block {
  dev_t s_dev;
} KERNEL_TYPE;
struct inode {
  struct super_block *i_sb;
} KERNEL_TYPE;
struct address_space {
  struct inode *host;
} KERNEL_TYPE;
struct net_device {
  int ifindex;
} KERNEL_TYPE;
struct sk_buff {
  struct net_device *dev;
  unsigned len;
} KERNEL_TYPE;
struct sock {
  int sk_rx_dst_ifindex;
} KERNEL_TYPE;
struct folio;

struct {
  __uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
  __uint(max_entries, WATCHED_ENTRIES);
  __type(key, struct watched_key);
  __type(value, struct watched_count);
} counts SEC(".maps");

/* The namespace whose numbers the reader knows threads by. Set before loading. */
const volatile __u64 namespace_device, namespace_inode;

enum { OPERATION_BITS = 0xff, PAGE_BYTES = 4096 };

static __always_inline void count(enum watched_kind kind, unsigned device,
                                  unsigned long long bytes) {
  struct bpf_pidns_info me;
  if (bpf_get_ns_current_pid_tgid(namespace_device, namespace_inode, &me, sizeof me) != 0)
    return; /* of another container, or the kernel's own */
  struct watched_key key = {.thread = me.pid, .kind = kind, .device = device};
  struct watched_count *found = bpf_map_lookup_elem(&counts, &key);
  if (found) {
    /* This CPU's own copy, and programs of one kind do not interrupt each other here. */
    found->bytes += bytes;
    found->events += 1;
  } else {
    struct watched_count first = {.bytes = bytes, .events = 1};
    bpf_map_update_elem(&counts, &key, &first, BPF_ANY);
  }
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(bio_queued, struct bio *bio) {
  /* Odd operations write (REQ_OP_WRITE and kin), 0 reads; others move no data of the caller. */
  unsigned operation = bio->bi_opf & OPERATION_BITS;
  if (operation <= 1)
    count(operation == 1 ? WATCHED_WRITTEN : WATCHED_READ, bio->bi_bdev->bd_dev,
          bio->bi_iter.bi_size);
  return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(page_dirtied, struct folio *folio, struct address_space *mapping) {
  (void)folio;
  if (mapping)
    count(WATCHED_DIRTIED, mapping->host->i_sb->s_dev, PAGE_BYTES);
  return 0;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(packet_queued, struct sk_buff *packet) {
  count(WATCHED_SENT, packet->dev->ifindex, packet->len);
  return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(received, struct sock *socket, int got, int flags) {
  enum { PEEK = 2 };
  /* Of no interface: sockets between processes of one machine. */
  if (got > 0 && socket->sk_rx_dst_ifindex > 0 && !(flags & PEEK))
    count(WATCHED_RECEIVED, socket->sk_rx_dst_ifindex, got);
  return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
