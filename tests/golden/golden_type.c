/* Layer cases in other element types than FLOAT: the tolerances, in one table. docs/dev/types.md
 * says where they come from. */
#include <math.h>
#include <string.h>

#include "golden.h"

/* A number in half the bits is wrong by up to 2^-11 (FLOAT16) or 2^-8 (BFLOAT16) of itself once its
 * inputs, and again once its result is stored; sums of such errors grow with the root of their
 * length. Errors are relative to the largest value of an array. */
typedef struct type_row {
  crema_dtype type;
  double tolerance;
} type_row;

static const type_row rows[] = {{CREMA_F64, 1e-6}, {CREMA_F16, 8e-3}, {CREMA_BF16, 6e-2}};

/* What multiplies the tolerance of halves for layers whose result is more than linear in the error
 * of what they read, and why. */
typedef struct layer_row {
  const char *layer;
  double factor;
} layer_row;

static const layer_row exceptions[] = {
    /* Scores of 500 and of -800. Around them the numbers of FLOAT16 are 0.25 and 0.5 apart, and the
     * numbers of BFLOAT16 2 and 4. The exact softmax of the rounded scores differs from the softmax
     * of the scores by 0.03 and 0.09 in FLOAT16 and by 0.29 and 0.42 in BFLOAT16, where the gradient
     * differs by 0.71 of its largest value. In BFLOAT16 these cases only find values that are not
     * finite. */
    {"Softmax/large_", 16},
    /* Values of either sign about 0, of which a ReLU behind a sum lets pass or not. */
    {"_Net/residual_block", 12},
    {NULL, 1},
};

double golden_type_tolerance(const char *dir, double tolerance) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    if (rows[i].type != golden_type()) continue;
    double factor = 1;
    for (const layer_row *row = exceptions; row->layer != NULL; ++row) {
      if (strstr(dir, row->layer) != NULL) factor = row->factor;
    }
    return fmax(tolerance, rows[i].tolerance * factor);
  }
  return tolerance;
}
