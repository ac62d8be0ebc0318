#include "text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `Maru.Cli.Output.plain` has the same by their general categories. */
static const struct {
  uint32_t first, last;
} obeyed[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x600, 0x605},     {0x61c, 0x61c},
    {0x6dd, 0x6dd},   {0x70f, 0x70f},   {0x180e, 0x180e}, {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
};

static bool is_obeyed(uint32_t point) {
  for (size_t i = 0; i < sizeof obeyed / sizeof *obeyed; i++)
    if (point >= obeyed[i].first && point <= obeyed[i].last)
      return true;
  return false;
}

/* Bytes of the character that begins there; 0: it is none in UTF-8. */
static unsigned read_point(const unsigned char *at, uint32_t *point) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned size = at[0] < 0x80 ? 1 : at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
  if (size == 0 || at[0] >= 0xf8)
    return 0;
  *point = size == 1 ? at[0] : at[0] & (0xffu >> (size + 1));
  for (unsigned i = 1; i < size; i++) {
    if ((at[i] & 0xc0) != 0x80) /* the end of the text, too */
      return 0;
    *point = *point << 6 | (at[i] & 0x3fu);
  }
  bool surrogate = *point >= 0xd800 && *point < 0xe000;
  return *point < least[size] || *point > 0x10ffff || surrogate ? 0 : size;
}

void mr_plain(char *text) {
  const unsigned char *from = (const unsigned char *)text;
  unsigned char *to = (unsigned char *)text;
  while (*from != '\0') {
    uint32_t point = 0;
    unsigned size = read_point(from, &point);
    if (size == 0 || is_obeyed(point)) {
      *to++ = '?';
      from += size == 0 ? 1 : size;
    } else
      while (size-- > 0)
        *to++ = *from++;
  }
  *to = '\0';
}
