#include "parallel/span_add.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/fail.h"

static const cr_span_addition *find(const cr_span_adder *adder, crema_dtype type, int64_t count) {
  for (int i = 0; i < adder->additions; ++i) {
    const cr_span_addition *a = &adder->addition[i];
    if (a->type == type && a->count == count) return a;
  }
  return NULL;
}

static crema_status make(cr_span_addition *a) {
  const crema_shape shape = {.axes = 1, .dim = {a->count}};
  const cr_op_desc axpby = {.kind = CR_OP_AXPBY,
                            .type = a->type == CREMA_F64 ? CREMA_F64 : CREMA_F32};
  cr_op_desc *desc = NULL;
  CR_TRY(cr_tensor_create(a->type, a->count, &a->term));
  CR_TRY(cr_tensor_create(a->type, a->count, &a->sum));
  CR_TRY(cr_op_describe(&axpby, 2, (const crema_shape *[]){&shape, &shape}, NULL, &desc));
  return cr_op_create(&desc, &a->op);
}

crema_status cr_span_adder_reserve(cr_span_adder *adder, crema_dtype type, int64_t count) {
  if (find(adder, type, count) != NULL) return CREMA_OK;
  const size_t bytes = ((size_t)adder->additions + 1) * sizeof *adder->addition;
  cr_span_addition *more = realloc(adder->addition, bytes);
  if (more == NULL) return cr_fail_memory(bytes, "an exchange");
  adder->addition = more;
  cr_span_addition *a = &more[adder->additions++];
  *a = (cr_span_addition){.type = type, .count = count};
  return make(a);
}

crema_status cr_span_adder_run(cr_span_adder *adder, crema_context *context, crema_dtype type,
                               int64_t count, crema_devptr term, crema_devptr sum) {
  static const cr_op_scalars add = {.alpha = 1, .beta = 1};
  const cr_span_addition *a = find(adder, type, count);
  if (a == NULL) {
    return cr_fail(CREMA_E_INTERNAL, "an exchange adds %" PRId64 " values unprepared", count);
  }
  cr_tensor *const tensor[2] = {a->term, a->sum};
  crema_devptr at = {0};
  CR_TRY(cr_tensor_adopt(a->term, adder->device, cr_tensor_type(a->term), term, NULL));
  CR_TRY(cr_tensor_adopt(a->sum, adder->device, cr_tensor_type(a->sum), sum, NULL));
  CR_TRY(cr_op_run(a->op, context, tensor, &add));
  /* A kernel may have computed in another element type, or on the host. */
  return cr_tensor_read(a->sum, context, (cr_format){type, NULL}, &at);
}

void cr_span_adder_free(cr_span_adder *adder) {
  for (int i = 0; i < adder->additions; ++i) {
    cr_op_destroy(adder->addition[i].op);
    cr_tensor_destroy(adder->addition[i].sum);
    cr_tensor_destroy(adder->addition[i].term);
  }
  free(adder->addition);
}
