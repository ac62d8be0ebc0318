/* Description: a number in text is taken whole and within its bounds, or not at all. */
#include "../base/numbers.h"

#include "check.h"

static void leading_numbers(void) {
  static const struct {
    const char *text;
    int64_t number; /* -7: none */
  } cases[] = {{"12\n", 12}, {"\t12 kB", 12}, {"0", 0},     {"12", 12},
               {"", -7},     {" \n", -7},     {"x12", -7},  {"12x", -7},
               {"-3\n", -7}, {"1000", 1000},  {"1001", -7}, {"99999999999999999999\n", -7},
               {"1.5", -7},  {"12\t7", 12}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    errno = ENOENT;
    CHECK_EQUAL(mr_leading(cases[i].text, 0, 1000, -7), cases[i].number);
    CHECK_EQUAL(errno, ENOENT);
  }
  CHECK_EQUAL(mr_leading("-1\n", -1, 8, -7), -1);
}

static void whole_numbers(void) {
  int64_t number = 5;
  CHECK_EQUAL(mr_whole("12", 0, 20, &number), 0);
  CHECK_EQUAL(number, 12);
  CHECK_EQUAL(mr_whole("12\n", 0, 20, &number), -EINVAL);
  CHECK_EQUAL(mr_whole(" 12", 0, 20, &number), -EINVAL);
  CHECK_EQUAL(mr_whole("21", 0, 20, &number), -ERANGE);
  CHECK_EQUAL(mr_whole("99999999999999999999", 0, INT64_MAX, &number), -ERANGE);
  CHECK_EQUAL(number, 12);
}

int main(void) {
  leading_numbers();
  whole_numbers();
  return 0;
}
