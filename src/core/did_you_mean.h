/* Suggestions for mistyped names. */
#ifndef CR_CORE_DID_YOU_MEAN_H
#define CR_CORE_DID_YOU_MEAN_H

#include <stddef.h>

/* The entry of `names` with the smallest edit distance to `word` (case counts half); NULL when no
 * entry is near enough to be meant. */
const char *cr_did_you_mean(const char *word, const char *const *names, size_t count);

#endif
