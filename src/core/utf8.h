/* Characters of UTF-8. */
#ifndef CR_CORE_UTF8_H
#define CR_CORE_UTF8_H

#include <stddef.h>

/* The size in bytes of the character that `text` begins with; 0 when it is invalid or controls
 * terminals. */
size_t cr_utf8_size(const char *text);

#endif
