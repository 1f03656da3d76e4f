/* The UTF-8 BOM, which some editors write at the start of a text. */
#ifndef CR_CORE_UTF8_BOM_H
#define CR_CORE_UTF8_BOM_H

#include <stddef.h>
#include <string.h>

/* Bytes of the BOM at the start of text[0 .. size - 1]: 3, or 0 without one. */
static inline size_t cr_utf8_bom(const char *text, size_t size) {
  static const char mark[] = {'\xEF', '\xBB', '\xBF'};
  return size >= sizeof mark && memcmp(text, mark, sizeof mark) == 0 ? sizeof mark : 0;
}

#endif
