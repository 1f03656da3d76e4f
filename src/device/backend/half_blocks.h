/* Conversion of many 16-bit floating-point numbers at once, with the results of half.h to the bit.
 */
#ifndef CR_DEVICE_BACKEND_HALF_BLOCKS_H
#define CR_DEVICE_BACKEND_HALF_BLOCKS_H

#include "crema/types.h"

/* `past_caches`: the result will not be read soon. Nothing overlaps. */
typedef void cr_widen(const uint16_t *src, int64_t count, float *dst, bool past_caches);
typedef void cr_narrow(const float *src, int64_t count, uint16_t *dst, bool past_caches);

/* Code for one kind of processor. */
typedef struct cr_half_code {
  const char *name;
  cr_widen *from_f16, *from_bf16;
  cr_narrow *to_f16, *to_bf16;
} cr_half_code;

/* The n-th code that this processor can run, best first; NULL after the last. There is a first. */
const cr_half_code *cr_half_code_find(int n);

/* `count` values of `type` (F32, F16 or BF16) from element `at` on, as floats in `out`. */
void cr_load_floats(crema_dtype type, const void *src, int64_t at, int64_t count, float *out);

/* The reverse: `in` to the elements from `at` on. */
void cr_store_floats(crema_dtype type, void *dst, int64_t at, int64_t count, const float *in);

#endif
