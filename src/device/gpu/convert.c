#include "device/gpu/convert.h"

#include "core/fail.h"
#include "device/gpu/kernels/convert_array.h"
#include "device/gpu/kernels/reorder.h"
#include "device/gpu/launch.h"

static cr_last_order order_of(cr_format format) {
  cr_last_order order = {.last = format.layout != NULL};
  if (!order.last) return order;
  const crema_shape *shape = &format.layout->shape;
  order.channels = cr_divisor_of(shape->dim[1]);
  order.inner = cr_divisor_of(crema_shape_count(shape, 2, shape->axes));
  return order;
}

static crema_status reorder(crema_context *context, int64_t count, cr_format dst_format,
                            crema_devptr dst, cr_format src_format, crema_devptr src) {
  int before = -1;
  const cr_reorder_args args = {.from = (const void *)src.address, /* NOLINT */
                                .to = (void *)dst.address,         /* NOLINT */
                                .from_type = (int)src_format.type,
                                .to_type = (int)dst_format.type,
                                .from_order = order_of(src_format),
                                .to_order = order_of(dst_format)};
  CR_TRY(cr_gpu_enter(context->device, &before));
  const crema_status status = cr_gpu_each(context, CR_DEVICE_FUNCTION_reorder, &args, count);
  cr_gpu_leave(before);
  return status;
}

static bool is_own(const crema_context *context, const cr_layout *layout) {
  return layout == NULL || layout->device == context->device;
}

static bool is_same_order(const cr_layout *a, const cr_layout *b) {
  return a == b || (a != NULL && b != NULL && crema_shape_equal(&a->shape, &b->shape));
}

/* The form for a 16-bit type if the conversion is from or to floats and the arrays have packs. */
static int function_for(const cr_convert_args *args, int64_t count) {
  const int other = args->from_type == CREMA_F32 ? args->to_type : args->from_type;
  const bool floats = args->from_type == CREMA_F32 || args->to_type == CREMA_F32;
  const uintptr_t ends = (uintptr_t)args->from | (uintptr_t)args->to;
  const cr_gpu_form form = floats ? cr_gpu_form_for(other) : CR_FORM_ANY;
  if (form < CR_FORM_F16 || count > INT32_MAX || ends % CR_PACK_BYTES != 0) {
    return CR_DEVICE_FUNCTION_convert;
  }
  return cr_gpu_function(CR_DEVICE_FUNCTION_convert, form, true);
}

crema_status cr_gpu_convert(crema_context *context, int64_t count, cr_format dst_format,
                            crema_devptr dst, cr_format src_format, crema_devptr src) {
  int before = -1;
  const size_t size = crema_dtype_size(dst_format.type);
  if (size == 0 || crema_dtype_size(src_format.type) == 0) {
    return cr_fail(CREMA_E_TYPE, "there is no conversion from %s to %s",
                   crema_dtype_name(src_format.type), crema_dtype_name(dst_format.type));
  }
  if (count <= 0 || (dst.address == src.address && dst_format.type == src_format.type)) {
    return CREMA_OK;
  }
  if (!is_own(context, dst_format.layout) || !is_own(context, src_format.layout)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "%s devices do not know the order of another device",
                   context->device->backend->name);
  }
  if (!is_same_order(dst_format.layout, src_format.layout)) {
    return reorder(context, count, dst_format, dst, src_format, src);
  }
  if (dst_format.type == src_format.type) {
    return context->device->backend->copy(context, CR_COPY_SAME_DEVICE, dst.address, src.address,
                                          (size_t)count * size);
  }
  const cr_convert_args args = {.from = (const void *)src.address, /* NOLINT */
                                .to = (void *)dst.address,         /* NOLINT */
                                .from_type = (int)src_format.type,
                                .to_type = (int)dst_format.type};
  CR_TRY(cr_gpu_enter(context->device, &before));
  const crema_status status = cr_gpu_each(context, function_for(&args, count), &args, count);
  cr_gpu_leave(before);
  return status;
}

/* How far an array begins after another, in elements. Arrays of a device begin at multiples of the
 * element size. */
static int64_t elements_after(crema_devptr base, crema_devptr at, crema_dtype type) {
  return (int64_t)(at.address - base.address) / (int64_t)crema_dtype_size(type);
}

/* Adds a conversion to the launch. False: the launch is full, or has other types or orders. */
static bool join(cr_reorder_many_args *args, const cr_conversion *c, const cr_conversion *first,
                 int64_t begin) {
  const bool to_last = c->to.layout != NULL;
  if (args->pieces == CR_GPU_REORDERS || to_last != args->to_last) return false;
  if ((int)c->from.type != args->from_type || (int)c->to.type != args->to_type) return false;
  args->piece[args->pieces++] =
      (cr_reorder_piece){.begin = begin,
                         .from = elements_after(first->src, c->src, c->from.type),
                         .to = elements_after(first->dst, c->dst, c->to.type),
                         .order = order_of(to_last ? c->to : c->from)};
  return true;
}

crema_status cr_gpu_convert_many(crema_context *context, const cr_conversion *conversion,
                                 int count) {
  int before = -1;
  crema_status status = CREMA_OK;
  CR_TRY(cr_gpu_enter(context->device, &before));
  for (int i = 0; i < count && status == CREMA_OK;) {
    const cr_conversion *first = &conversion[i];
    cr_reorder_many_args args = {.from = (const void *)first->src.address, /* NOLINT */
                                 .to = (void *)first->dst.address,         /* NOLINT */
                                 .from_type = (int)first->from.type,
                                 .to_type = (int)first->to.type,
                                 .to_last = first->to.layout != NULL};
    int64_t elements = 0;
    for (; i < count && join(&args, &conversion[i], first, elements); ++i) {
      elements += conversion[i].count;
    }
    status = cr_gpu_each(context, CR_DEVICE_FUNCTION_reorder_many, &args, elements);
  }
  cr_gpu_leave(before);
  return status;
}
