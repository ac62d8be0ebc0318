/* Description: of the addresses that a host's name means a node takes the first that others can
 * use as text. One that its user names may be any that means the same on other hosts. */
#define _GNU_SOURCE
#include "../address.h"

#include "check.h"

#include <netdb.h>

#define MOST 4

/* Which of these is chosen; -1: none. */
static int chosen(bool asked, const char *const *texts) {
  struct sockaddr_storage addresses[MOST];
  struct addrinfo found[MOST] = {0};
  unsigned count = 0;
  for (; texts[count] != NULL; count++) {
    char text[MR_ADDRESS_TEXT];
    snprintf(text, sizeof text, strchr(texts[count], ':') != NULL ? "[%s]:0" : "%s:0",
             texts[count]);
    CHECK(count < MOST && mr_address_read(text, &addresses[count]) > 0);
    found[count].ai_addr = (struct sockaddr *)&addresses[count];
    if (count > 0)
      found[count - 1].ai_next = &found[count];
  }
  const struct addrinfo *one = mr_address_choose(count > 0 ? found : NULL, asked);
  return one == NULL ? -1 : (int)(one - found);
}

#define CHOSEN(asked, ...) chosen(asked, (const char *const[]){__VA_ARGS__, NULL})

int main(void) {
  CHECK_EQUAL(CHOSEN(false, "10.0.0.3"), 0);
  CHECK_EQUAL(CHOSEN(false, "fe80::1", "10.0.0.3"), 1);
  CHECK_EQUAL(CHOSEN(false, "127.0.1.1", "::1", "fe80::1", "fd00::3"), 3);
  CHECK_EQUAL(CHOSEN(false, "169.254.7.1", "2001:db8::1", "10.0.0.3"), 1);
  CHECK_EQUAL(CHOSEN(false, "127.0.1.1", "fe80::1"), -1);
  CHECK_EQUAL(CHOSEN(false, "febf::1", "fec0::1"), 1);
  CHECK_EQUAL(CHOSEN(true, "127.0.0.1"), 0);
  CHECK_EQUAL(CHOSEN(true, "::1"), 0);
  CHECK_EQUAL(CHOSEN(true, "169.254.7.1"), 0);
  CHECK_EQUAL(CHOSEN(true, "0.0.0.0"), 0);
  CHECK_EQUAL(CHOSEN(true, "fe80::1"), -1);
  CHECK_EQUAL(CHOSEN(true, "fe80::1", "fd00::3"), 1);
  return 0;
}
