/* hmac.h: HMAC-SHA-256 (RFC 2104 over FIPS 180-4), by which nodes prove that they know a secret
 * (internal to libmaru-dsm).
 *
 * The message may come in parts: what counts is their bytes in a row.  No allocation, no failure;
 * time in proportion to the length.  What could tell of the key is wiped at the end.
 * Thread-safety: each state is one thread's.  Async-signal-safe.
 */
#ifndef MARU_DSM_HMAC_H
#define MARU_DSM_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_HMAC 32

struct mr_sha256 {
  uint32_t state[8];
  uint64_t length; /* bytes taken in */
  uint8_t block[64];
};

struct mr_hmac {
  struct mr_sha256 inner;
  uint8_t outer[64]; /* the key, as the outer hash begins with it */
};

void mr_hmac_begin(struct mr_hmac *hmac, const void *key, size_t length);
void mr_hmac_add(struct mr_hmac *hmac, const void *bytes, size_t length);
/* Wipes the state. */
void mr_hmac_end(struct mr_hmac *hmac, uint8_t sum[MR_HMAC]);

/* Takes as long wherever they differ. */
bool mr_same_bytes(const void *one, const void *other, size_t length);

#endif
