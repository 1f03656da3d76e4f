/* Shared by the rows of the CUDA table. */
#include "device/gpu/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/gpu/layout.h"

crema_status cr_gpu_run(const cr_call *call) {
  const cr_gpu_row *row = (const cr_gpu_row *)call->plan->kernel;
  if (row->needs_scalars && call->scalars == NULL) {
    return cr_fail(CREMA_E_ARGUMENT, "%s lacks its scalars", row->kernel.name);
  }
  int before = -1;
  CR_TRY(cr_gpu_enter(call->context->device, &before));
  const crema_status status = row->run(call);
  cr_gpu_leave(before);
  return status;
}

static bool is_present(const cr_plan *plan, int arg) {
  return arg < plan->desc->args && plan->desc->arg[arg].shape.axes >= 0;
}

/* Whether the shape is `other` with some trailing axes folded. */
static bool is_fold(const crema_shape *shape, const crema_shape *other) {
  return shape->axes > 2 && shape->dim[0] == other->dim[0] && shape->dim[1] == other->dim[1] &&
         crema_shape_count(shape, 2, shape->axes) == crema_shape_count(other, 2, other->axes);
}

static const cr_layout *hinted(const cr_plan *plan, int arg) {
  const cr_layout *layout = plan->hint[arg].layout;
  if (layout == NULL || layout->device != plan->context->device) return NULL;
  return is_fold(&plan->desc->arg[arg].shape, &layout->shape) ? layout : NULL;
}

crema_status cr_gpu_follow(cr_plan *plan, unsigned args) {
  const cr_layout *held = NULL;
  if (plan->desc->args > (int)(8 * sizeof args)) return CREMA_OK;
  for (int i = 0; i < plan->desc->args; ++i) {
    if ((args & CR_ARG(i)) == 0 || !is_present(plan, i)) continue;
    if (held == NULL) held = hinted(plan, i);
  }
  for (int i = 0; held != NULL && i < plan->desc->args; ++i) {
    const crema_shape *shape = &plan->desc->arg[i].shape;
    if ((args & CR_ARG(i)) == 0 || !is_present(plan, i)) continue;
    if (shape->axes < 3 || shape->dim[0] != held->shape.dim[0]) return CREMA_OK;
  }
  for (int i = 0; held != NULL && i < plan->desc->args; ++i) {
    const cr_op_arg *arg = &plan->desc->arg[i];
    if ((args & CR_ARG(i)) == 0 || !is_present(plan, i)) continue;
    const bool same = is_fold(&arg->shape, &held->shape);
    CR_TRY(cr_gpu_last(plan->context->device, same ? &held->shape : &arg->shape, arg->type,
                       &plan->format[i].layout));
  }
  return CREMA_OK;
}

bool cr_gpu_is_last(const cr_plan *plan, unsigned args) {
  for (int i = 0; i < plan->desc->args; ++i) {
    if ((args & CR_ARG(i)) != 0 && plan->format[i].layout != NULL) return true;
  }
  return false;
}

cr_split cr_gpu_split(const cr_plan *plan, int arg) {
  const cr_split split = cr_op_split(plan->desc, arg, 1);
  if (plan->format[arg].layout == NULL) return split;
  return (cr_split){.outer = split.outer * split.inner, .channels = split.channels, .inner = 1};
}

/* The form for the call's floating arguments: they are all F32, or the values are all of one 16-bit
 * type. */
static cr_gpu_form form_of(const cr_call *call) {
  const cr_op_desc *desc = call->desc;
  cr_gpu_form form = CR_FORM_ANY;
  bool others = false; /* F32 that are no values of the op's type */
  for (int i = 0; i < desc->args; ++i) {
    const cr_gpu_form own = cr_gpu_form_for((int)desc->arg[i].type);
    if (call->buffer[i].address == 0) continue;
    if (cr_op_arg_count(desc, i) > INT32_MAX) return CR_FORM_ANY;
    if (own == CR_FORM_ANY) continue;
    if (cr_op_kind_use(desc->kind, desc->args, i).role != CR_ROLE_VALUES) {
      if (own != CR_FORM_F32) return CR_FORM_ANY;
      others = true;
    } else if (form == CR_FORM_ANY) {
      form = own;
    } else if (form != own) {
      return CR_FORM_ANY;
    }
  }
  return form == CR_FORM_ANY && others ? CR_FORM_F32 : form;
}

static bool has_packs(const cr_call *call) {
  uintptr_t ends = 0;
  for (int i = 0; i < call->desc->args; ++i) ends |= call->buffer[i].address;
  return ends % CR_PACK_BYTES == 0;
}

int cr_gpu_for(const cr_call *call, cr_device_function function, int64_t steps, bool packed) {
  const cr_gpu_form form = steps <= INT32_MAX ? form_of(call) : CR_FORM_ANY;
  packed = packed && form != CR_FORM_ANY && cr_gpu_has_packs(function) && has_packs(call);
  /* In 16 bits, a function with packs has no other form. */
  const bool made =
      form < CR_FORM_F16 || packed || (cr_gpu_has_halves(function) && !cr_gpu_has_packs(function));
  return cr_gpu_function(function, made ? form : CR_FORM_ANY, packed);
}

int64_t cr_gpu_parts(int64_t count, int64_t most) {
  const int64_t parts = (count + 2047) / 2048;
  return parts < 1 ? 1 : parts < most ? parts : most;
}

static crema_status slide_axis(const cr_window *window, int64_t in, int64_t out, int a, bool dense,
                               cr_hd_slide *s) {
  const int64_t dilation = dense ? 1 : window->dilation[a];
  if (window->kernel[a] < 1 || window->stride[a] < 1 || dilation < 1 || window->pad[a] < 0) {
    return cr_fail(CREMA_E_SHAPE,
                   "window axis %d: kernel %" PRId64 ", stride %" PRId64 ", pad %" PRId64
                   ", dilation %" PRId64,
                   a, window->kernel[a], window->stride[a], window->pad[a], dilation);
  }
  const int64_t reach = out * window->stride[a] + window->kernel[a] * dilation + window->pad[a];
  if (in + window->pad[a] > INT32_MAX || reach > INT32_MAX) {
    return cr_fail(CREMA_E_UNSUPPORTED, "window axis %d is longer than 2^31", a);
  }
  s->in[a] = (int32_t)in;
  s->out[a] = (int32_t)out;
  s->kernel[a] = (int32_t)window->kernel[a];
  s->stride[a] = (int32_t)window->stride[a];
  s->pad[a] = (int32_t)window->pad[a];
  s->dilation[a] = (int32_t)dilation;
  return CREMA_OK;
}

static void find_divisors(cr_hd_slide *s) {
  for (int a = 0; a < s->axes; ++a) {
    s->by_in[a] = cr_divisor_of(s->in[a]);
    s->by_out[a] = cr_divisor_of(s->out[a]);
    s->by_kernel[a] = cr_divisor_of(s->kernel[a]);
    s->by_stride[a] = cr_divisor_of(s->stride[a]);
  }
  s->by_in_count = cr_divisor_of(s->in_count);
  s->by_out_count = cr_divisor_of(s->out_count);
  s->by_kernel_count = cr_divisor_of(s->kernel_count);
}

crema_status cr_gpu_slide(const cr_window *window, const crema_shape *in, const crema_shape *out,
                          bool dense, cr_hd_slide *s) {
  memset(s, 0, sizeof *s);
  const int axes = window->axes;
  if (axes < 0 || axes > CR_MAX_SPATIAL || in->axes != axes + 2 || out->axes != axes + 2) {
    return cr_fail(CREMA_E_SHAPE, "a window over %d axes does not fit blobs of %d and %d axes",
                   axes, in->axes, out->axes);
  }
  s->axes = axes > 0 ? axes : 1;
  /* Without spatial axes the window is a single element over a single element. */
  s->in[0] = s->out[0] = s->kernel[0] = s->stride[0] = s->dilation[0] = 1;
  s->in_count = s->out_count = s->kernel_count = 1;
  for (int a = 0; a < axes; ++a) {
    CR_TRY(slide_axis(window, in->dim[a + 2], out->dim[a + 2], a, dense, s));
    s->in_count *= s->in[a];
    s->out_count *= s->out[a];
    s->kernel_count *= s->kernel[a];
  }
  find_divisors(s);
  return CREMA_OK;
}

crema_status cr_gpu_one_type(const cr_op_desc *desc, crema_dtype *out) {
  *out = desc->arg[0].type;
  for (int i = 1; i < desc->args; ++i) {
    if (desc->arg[i].shape.axes < 0 || desc->arg[i].type == *out) continue;
    if (cr_op_kind_use(desc->kind, desc->args, i).role != CR_ROLE_VALUES) continue;
    return cr_fail(CREMA_E_UNSUPPORTED, "a product of %s and %s", crema_dtype_name(*out),
                   crema_dtype_name(desc->arg[i].type));
  }
  return CREMA_OK;
}

void cr_gpu_free_state(cr_plan *plan) {
  free(plan->state);
}

int64_t cr_gpu_channel_parts(cr_split split) {
  /* Enough parts to fill a large device with thread blocks or, for neighbouring channels, with
   * threads; none shorter than a few thousand terms. */
  const int64_t busy = split.inner == 1 ? 32768 : 1024;
  const int64_t most = split.channels > 0 ? busy / split.channels : 1;
  return cr_gpu_parts(split.outer * split.inner, most > 1 ? most : 1);
}

/* Neighbouring channels are neighbours in memory when inner is 1: then one thread per channel
 * reads contiguous memory, otherwise one thread block per channel does. */
int64_t cr_gpu_part_length(cr_split split) {
  return split.inner == 1 ? 1 : split.outer * split.inner / cr_gpu_channel_parts(split);
}

size_t cr_gpu_channel_scratchpad(cr_split split) {
  return (size_t)(cr_gpu_channel_parts(split) * split.channels) * sizeof(double);
}

crema_status cr_gpu_channel_sums(const cr_call *call, const cr_gpu_channel_sum *sum) {
  const cr_split split = sum->split;
  const cr_channel_sum_args args = {.dy = sum->dy,
                                    .x = sum->x,
                                    .planes = cr_gpu_planes(split),
                                    .term = sum->term,
                                    .parts = cr_gpu_channel_parts(split),
                                    .part = sum->scratchpad,
                                    .out = sum->out,
                                    .dx = sum->dx,
                                    .alpha = sum->alpha,
                                    .add = sum->add};
  CR_TRY(cr_gpu_blocks_in(
      call,
      sum->dx.at != NULL ? CR_DEVICE_FUNCTION_relu_bias_parts : CR_DEVICE_FUNCTION_channel_parts,
      &args, args.parts * split.channels, cr_gpu_part_length(split)));
  if (args.parts == 1) return CREMA_OK;
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_channel_total, &args, split.channels);
}
