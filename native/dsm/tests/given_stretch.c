/* What a repeated node gave away, by the definition: a word that the stretch leaves as it was is
 * what was given. */
#include "../diff.h"
#include "../given.h"
#include "check.h"

#include <string.h>

#define PAGES 9

static uint64_t state;

static uint32_t draw(uint32_t below) {
  state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

/* Few values: bytes are alike now and then. */
static void fill(uint8_t *page) {
  for (size_t i = 0; i < MR_PAGE; i++)
    page[i] = (uint8_t)draw(2);
}

static void stretch(void) {
  static uint8_t memory[PAGES][MR_PAGE], before[PAGES][MR_PAGE], gave[PAGES][MR_PAGE];
  struct mr_given given = {.count = 0};
  uint32_t pages = draw(PAGES + 1);
  for (uint32_t p = 0; p < pages; p++) {
    fill(before[p]);
    memcpy(memory[p], before[p], MR_PAGE);
    memcpy(gave[p], before[p], MR_PAGE);
    for (uint32_t n = draw(4); n > 0; n--)
      gave[p][draw(MR_PAGE)] ^= 1;
    CHECK_EQUAL(mr_given_add(&given, memory[p], gave[p]), 0);
    for (uint32_t n = draw(MR_PAGE / 4); n > 0; n--)
      memory[p][draw(MR_PAGE)] ^= 1;
  }
  bool holds = true;
  for (uint32_t p = 0; p < pages; p++)
    for (size_t i = 0; i < MR_PAGE; i += 8)
      holds &= memcmp(memory[p] + i, before[p] + i, 8) != 0 ||
               memcmp(gave[p] + i, before[p] + i, 8) == 0;
  CHECK_EQUAL(mr_given_hold(&given), holds);
  /* There are none any more. */
  CHECK(given.count == 0 && mr_given_hold(&given));
  mr_given_free(&given);
}

int main(void) {
  uint64_t seed = setting("MARU_DSM_SEED", 1);
  for (uint64_t i = 0; i < 500 * setting("MARU_TEST_SCALE", 1); i++) {
    state = seed + i;
    stretch();
  }
  return 0;
}
