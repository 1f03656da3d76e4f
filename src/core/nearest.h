/* Suggestions for mistyped names. */
#ifndef CR_CORE_NEAREST_H
#define CR_CORE_NEAREST_H

#include <stddef.h>

/* The entry of `names` with the smallest edit distance to `word` (case counts half), or NULL when
 * none is so near that it was probably meant. */
const char *cr_nearest(const char *word, const char *const *names, size_t count);

#endif
