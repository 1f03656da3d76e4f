/* Copies, of any element type: the reference kernels that need not know it. */
#include <string.h>

#include "device/backend/op_check.h"
#include "device/cpu/kernels/plain_rows.h"
#include "device/cpu/kernels/ref.h"

/* src, dst. */
static crema_status copy(const cr_call *call) {
  const char *src = (const char *)call->buffer[0].address;
  char *dst = (char *)call->buffer[1].address;
  const int64_t bytes =
      cr_op_arg_count(call->desc, 0) * (int64_t)crema_dtype_size(call->desc->arg[0].type);
  if (src == dst || bytes == 0) return CREMA_OK;
#pragma omp parallel for schedule(static) if (bytes >= 4 * CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    const int64_t begin = cr_ref_part(bytes, part), end = cr_ref_part(bytes, part + 1);
    memcpy(dst + begin, src + begin, (size_t)(end - begin));
  }
  return CREMA_OK;
}

/* `of`: the type of the arithmetic, which for integers is their own. */
#define COPY(row, of, ...)                           \
  const cr_kernel cr_##row = {.name = #row,          \
                              .op = CR_OP_COPY,      \
                              .type = CREMA_##of,    \
                              .plan = cr_check_copy, \
                              .run = copy,           \
                              __VA_ARGS__}

COPY(copy_f64_ref, F64);
COPY(copy_f32_ref, F32, .types = CR_TYPE(F32) | CR_TYPE(F16) | CR_TYPE(BF16));
COPY(copy_i32_ref, I32);
COPY(copy_u8_ref, U8);
