/* Description: HMAC-SHA-256 gives what RFC 4231 says, whatever the parts in which a message
 * comes. Its lengths around a block's end give what the plain definition gives. */
#define _GNU_SOURCE
#include "../hmac.h"

#include "check.h"

#include <string.h>

struct vector {
  uint8_t key_byte; /* 0: counts up from 1 */
  size_t key_length;
  const char *message; /* NULL: so many of that byte */
  uint8_t byte;
  size_t length;
  const char *sum;
};

/* RFC 4231, 4.2 to 4.8; the fifth is cut to 128 bits there. */
static const struct vector vectors[] = {
    {0x0b, 20, "Hi There", 0, 8,
     "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
    {0, 25, NULL, 0xcd, 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
    {0xaa, 20, NULL, 0xdd, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
    {0x0c, 20, "Test With Truncation", 0, 20, "a3b6167473100ee06e0c796c2955552b"},
    {0xaa, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 0, 54,
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    /* Not of the RFC: keys as long as a block, or nearly. */
    {0, 63, "Around a block", 0, 14,
     "4a5e186f6f81c47dbdd0d377df40e44576d32cdb98a50bbbb8cec0171646def6"},
    {0, 64, "Around a block", 0, 14,
     "78152efa15618b73b3030de25cc01c9a46ad101b40cf233ea8a6b2dbe2587fab"},
    {0, 65, "Around a block", 0, 14,
     "cceea0996839d1d99877f96869c10d82a0843fcc9198c0da38591b4a6383eefd"},
    {0xaa, 131,
     "This is a test using a larger than block-size key and a larger than block-size data. The key "
     "needs to be hashed before being used by the HMAC algorithm.",
     0, 152, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
};

static void sum_of(const void *key, size_t key_length, const uint8_t *message, size_t length,
                   size_t part, char text[2 * MR_HMAC + 1]) {
  struct mr_hmac hmac, wiped = {.outer = {0}};
  uint8_t sum[MR_HMAC];
  mr_hmac_begin(&hmac, key, key_length);
  for (size_t at = 0; at < length; at += part)
    mr_hmac_add(&hmac, message + at, part < length - at ? part : length - at);
  mr_hmac_end(&hmac, sum);
  memset(&wiped, 0, sizeof wiped);
  CHECK_EQUAL(memcmp(&hmac, &wiped, sizeof hmac), 0);
  for (int i = 0; i < MR_HMAC; i++)
    snprintf(text + 2 * i, 3, "%02x", sum[i]);
}

static void check_vector(const struct vector *v) {
  uint8_t key[200], message[200];
  char text[2 * MR_HMAC + 1];
  for (size_t i = 0; i < v->key_length; i++)
    key[i] = v->key_byte != 0 ? v->key_byte : (uint8_t)(i + 1);
  if (v->message != NULL)
    memcpy(message, v->message, v->length);
  else
    memset(message, v->byte, v->length);
  for (size_t part = 1; part <= v->length; part++) {
    sum_of(key, v->key_length, message, v->length, part, text);
    CHECK_EQUAL(strncmp(text, v->sum, strlen(v->sum)), 0);
  }
}

/* The key "Jefe" of RFC 4231, 4.3. */
static void check_short_key(void) {
  char text[2 * MR_HMAC + 1];
  sum_of("Jefe", 4, (const uint8_t *)"what do ya want for nothing?", 28, 28, text);
  CHECK_EQUAL(strcmp(text, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"), 0);
}

/* Where the padding moves to another block: each length gives another sum, the same in one part
 * and in parts of 7. The sum of them all, as another program computed it, is known. */
static void check_lengths(void) {
  uint8_t message[200], sums[200 * MR_HMAC];
  char text[2 * MR_HMAC + 1], before[2 * MR_HMAC + 1] = "";
  for (size_t i = 0; i < sizeof message; i++)
    message[i] = (uint8_t)i;
  for (size_t length = 0; length < sizeof message; length++) {
    char parts[2 * MR_HMAC + 1];
    sum_of("key", 3, message, length, sizeof message, text);
    sum_of("key", 3, message, length, 7, parts);
    CHECK(strcmp(text, parts) == 0 && strcmp(text, before) != 0);
    memcpy(before, text, sizeof text);
    for (int i = 0; i < MR_HMAC; i++)
      sscanf(text + 2 * i, "%2hhx", &sums[length * MR_HMAC + (size_t)i]);
  }
  sum_of("key", 3, sums, sizeof sums, sizeof sums, text);
  CHECK_EQUAL(strcmp(text, "f089290a806102667da67b48f3a787254e9c064e0fb9a83f836c079c6b6701b3"), 0);
}

static void check_same(void) {
  uint8_t a[MR_HMAC] = {1, 2, 3}, b[MR_HMAC] = {1, 2, 3};
  CHECK(mr_same_bytes(a, b, sizeof a));
  for (size_t i = 0; i < sizeof a * 8; i++) {
    b[i / 8] ^= (uint8_t)(1u << i % 8);
    CHECK(!mr_same_bytes(a, b, sizeof a));
    b[i / 8] ^= (uint8_t)(1u << i % 8);
  }
}

int main(void) {
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
    check_vector(&vectors[i]);
  check_short_key();
  check_lengths();
  check_same();
  return 0;
}
