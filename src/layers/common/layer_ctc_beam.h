/* Beam search for the most likely labels of a sequence of scores (Graves, "Supervised sequence
 * labelling with recurrent neural networks", 2012). */
#ifndef CR_LAYERS_LAYER_CTC_BEAM_H
#define CR_LAYERS_LAYER_CTC_BEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cr_ctc_beam {
  int64_t width; /* how many prefixes are kept after a step */
  int64_t classes, blank;
  bool merge; /* repetitions of a class without a blank between them are one label */
} cr_ctc_beam;

/* The memory that a search over at most `steps` steps needs. */
size_t cr_ctc_beam_bytes(const cr_ctc_beam *beam, int64_t steps);

/* Writes the labels with the highest sum over the kept paths to `to` and returns their number.
 * `log_p`: steps x classes, logarithms of probabilities, up to a summand per step; *log_sum: the
 * logarithm of that sum. Of equal sums the first found counts. */
int64_t cr_ctc_beam_search(const cr_ctc_beam *beam, const double *log_p, int64_t steps,
                           void *memory, int32_t *to, double *log_sum);

#endif
