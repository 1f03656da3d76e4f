/* Adds random numbers to values.
 *
 *   dst[i] = src[i] + mean + spread n[i]
 *
 * Uniform noise has n in [-1, 1). Normal noise has n from pairs of draws (Box and Muller), times
 * the root mean square of src. Elements 4 k to 4 k + 3 take the four words of the counter-based
 * generator at (s.seed, s.counter, k): the noise does not depend on threads. */
#include "core/fail.h"
#include "core/rng.h"
#include "device/cpu/kernels/element_type.h"

/* sqrt(mean of x^2). */
static double root_mean_square(const cr_real *x, int64_t count) {
  double part[CR_REF_PARTS], sum = 0;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    part[p] = 0;
    for (int64_t i = cr_ref_part(count, p); i < cr_ref_part(count, p + 1); ++i) {
      part[p] += (double)x[i] * (double)x[i];
    }
  }
  for (int p = 0; p < CR_REF_PARTS; ++p) sum += part[p];
  return count > 0 ? sqrt(sum / (double)count) : 0;
}

/* Four numbers of the chosen distribution. */
static void draw(const cr_op_scalars *s, int64_t group, bool uniform, double n[4]) {
  uint32_t word[4];
  cr_philox(s->seed, s->counter, (uint64_t)group, word);
  for (int i = 0; i < 4; ++i) n[i] = (double)word[i] / 4294967296.0;
  for (int i = 0; i < 4 && uniform; ++i) n[i] = 2 * n[i] - 1;
  for (int i = 0; i < 4 && !uniform; i += 2) {
    const double radius = sqrt(-2 * log(1 - n[i])), angle = 6.283185307179586 * n[i + 1];
    n[i] = radius * cos(angle);
    n[i + 1] = radius * sin(angle);
  }
}

/* src, dst. */
static crema_status noise(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "noise without a seed");
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const bool uniform = call->desc->u.noise.uniform;
  const double mean = call->desc->u.noise.mean;
  const double spread = call->desc->u.noise.spread * (uniform ? 1 : root_mean_square(src, count));
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 16)
  for (int64_t g = 0; g < (count + 3) / 4; ++g) {
    double n[4];
    draw(call->scalars, g, uniform, n);
    for (int64_t i = 4 * g; i < count && i < 4 * g + 4; ++i) {
      dst[i] = (cr_real)((double)src[i] + mean + spread * n[i - 4 * g]);
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(noise, NOISE, .run = noise);
