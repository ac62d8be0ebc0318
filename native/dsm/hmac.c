#define _GNU_SOURCE
#include "hmac.h"

#include <string.h>

#define BLOCK 64u

/* ---- SHA-256 ------------------------------------------------------------------ */

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t right(uint32_t word, unsigned bits) { return word >> bits | word << (32 - bits); }

static uint32_t big_endian(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void expand(uint32_t words[64], const uint8_t *block) {
  for (int i = 0; i < 16; i++)
    words[i] = big_endian(block + (size_t)4 * i);
  for (int i = 16; i < 64; i++) {
    uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (right(a, 7) ^ right(a, 18) ^ a >> 3) + words[i - 7] +
               (right(b, 17) ^ right(b, 19) ^ b >> 10);
  }
}

static void mix(uint32_t state[8], const uint8_t *block) {
  uint32_t words[64], s[8];
  expand(words, block);
  memcpy(s, state, sizeof s);
  for (int i = 0; i < 64; i++) {
    uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    uint32_t one =
        s[7] + (right(s[4], 6) ^ right(s[4], 11) ^ right(s[4], 25)) + choice + rounds[i] + words[i];
    uint32_t two = (right(s[0], 2) ^ right(s[0], 13) ^ right(s[0], 22)) + majority;
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += one;
    s[0] = one + two;
  }
  for (int i = 0; i < 8; i++)
    state[i] += s[i];
  explicit_bzero(words, sizeof words);
  explicit_bzero(s, sizeof s);
}

static void sha_begin(struct mr_sha256 *sha) {
  /* Of the square roots of the first 8. */
  static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(sha->state, first, sizeof first);
  sha->length = 0;
}

static void sha_add(struct mr_sha256 *sha, const void *bytes, size_t length) {
  const uint8_t *at = bytes;
  while (length > 0) {
    size_t used = sha->length % BLOCK, part = BLOCK - used < length ? BLOCK - used : length;
    memcpy(sha->block + used, at, part);
    sha->length += part;
    at += part;
    length -= part;
    if (sha->length % BLOCK == 0)
      mix(sha->state, sha->block);
  }
}

/* A bit, zeros up to the last 8 bytes of a block, and there the length in bits. */
static void sha_end(struct mr_sha256 *sha, uint8_t sum[MR_HMAC]) {
  static const uint8_t padding[BLOCK] = {0x80};
  uint64_t bits = sha->length * 8;
  uint8_t length[8];
  for (int i = 0; i < 8; i++)
    length[i] = (uint8_t)(bits >> (56 - 8 * i));
  sha_add(sha, padding, 1 + (BLOCK + 55 - sha->length % BLOCK) % BLOCK);
  sha_add(sha, length, sizeof length);
  for (int i = 0; i < MR_HMAC; i++)
    sum[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
  explicit_bzero(sha, sizeof *sha);
}

/* ---- HMAC ----------------------------------------------------------------------- */

void mr_hmac_begin(struct mr_hmac *hmac, const void *key, size_t length) {
  uint8_t block[BLOCK] = {0};
  if (length <= BLOCK) {
    memcpy(block, key, length);
  } else {
    sha_begin(&hmac->inner);
    sha_add(&hmac->inner, key, length);
    sha_end(&hmac->inner, block);
  }
  for (unsigned i = 0; i < BLOCK; i++) {
    hmac->outer[i] = block[i] ^ 0x5c;
    block[i] ^= 0x36;
  }
  sha_begin(&hmac->inner);
  sha_add(&hmac->inner, block, BLOCK);
  explicit_bzero(block, sizeof block);
}

void mr_hmac_add(struct mr_hmac *hmac, const void *bytes, size_t length) {
  sha_add(&hmac->inner, bytes, length);
}

void mr_hmac_end(struct mr_hmac *hmac, uint8_t sum[MR_HMAC]) {
  uint8_t inner[MR_HMAC];
  sha_end(&hmac->inner, inner);
  sha_begin(&hmac->inner);
  sha_add(&hmac->inner, hmac->outer, BLOCK);
  sha_add(&hmac->inner, inner, MR_HMAC);
  sha_end(&hmac->inner, sum);
  explicit_bzero(inner, sizeof inner);
  explicit_bzero(hmac, sizeof *hmac);
}

bool mr_same_bytes(const void *one, const void *other, size_t length) {
  const uint8_t *a = one, *b = other;
  volatile uint8_t differs = 0;
  for (size_t i = 0; i < length; i++)
    differs |= a[i] ^ b[i];
  return differs == 0;
}
