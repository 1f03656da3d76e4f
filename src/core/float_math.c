#include "core/float_math.h"

const cr_float_bounds cr_float_bound = {
    .exp_least = -104,
    .exp_most = 89,
    .below_0_least = -104,
    .term_least = -87,
    .expm1_least = -20,
    .expm1_most = 0,
};
