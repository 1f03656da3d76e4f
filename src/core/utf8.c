#include "core/utf8.h"

#include <stdbool.h>

size_t cr_utf8_size(const char *text) {
  const unsigned char *byte = (const unsigned char *)text;
  if (byte[0] < 0x80) return (byte[0] >= 0x20 && byte[0] != 0x7F) || byte[0] == '\t';
  const size_t size = byte[0] >= 0xF0 ? 4 : byte[0] >= 0xE0 ? 3 : 2;
  if (byte[0] < 0xC2 || byte[0] > 0xF4) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte[i] & 0xC0) != 0x80) return 0;
  }
  const bool has_shorter_form =
      (byte[0] == 0xE0 && byte[1] < 0xA0) || (byte[0] == 0xF0 && byte[1] < 0x90);
  const bool half_of_pair = byte[0] == 0xED && byte[1] >= 0xA0; /* of UTF-16 */
  const bool beyond_last = byte[0] == 0xF4 && byte[1] >= 0x90;
  const bool control = byte[0] == 0xC2 && byte[1] < 0xA0;
  return has_shorter_form || half_of_pair || beyond_last || control ? 0 : size;
}
