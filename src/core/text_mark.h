/* The byte order mark that some editors, mostly on Windows, begin text with. */
#ifndef CR_CORE_TEXT_MARK_H
#define CR_CORE_TEXT_MARK_H

#include <stddef.h>
#include <string.h>

/* How many bytes of `text`, of which there are `size`, are the mark: 3, or 0 without one. */
static inline size_t cr_text_mark(const char *text, size_t size) {
  static const char mark[] = {'\xEF', '\xBB', '\xBF'};
  return size >= sizeof mark && memcmp(text, mark, sizeof mark) == 0 ? sizeof mark : 0;
}

#endif
