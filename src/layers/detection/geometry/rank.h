/* Candidates in the order of their scores. */
#ifndef CR_LAYERS_DETECTION_RANK_H
#define CR_LAYERS_DETECTION_RANK_H

#include <stddef.h>
#include <stdint.h>

/* The highest score comes first, NaN last. Equal scores: the lower label, then the lower index. */
typedef struct cr_ranked {
  float score;
  int32_t label, index;
} cr_ranked;

/* Sorts all candidates. */
void cr_rank(cr_ranked *candidate, size_t count);
/* Sorts only the best: puts the first `best` of the sorted candidates in front. The candidates
 * after them are undefined. Returns `best`, or `count` if that is less. */
size_t cr_rank_best(cr_ranked *candidate, size_t count, size_t best);

#endif
