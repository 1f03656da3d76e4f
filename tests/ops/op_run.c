#include "op_run.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/cpu/onednn/layout.h"
#include "op_reference.h"
#include "ops/op.h"

const cr_kernel *const *op_table(void) {
  return cr_host_context()->device->backend->kernels;
}

static void *aligned(size_t bytes) {
  void *memory = NULL;
  return posix_memalign(&memory, 64, bytes ? bytes : 1) == 0 ? memory : NULL;
}

/* Bytes before and behind each array that a row is given. They are filled with nan, and none of
 * them may change. */
enum { MARGIN = 4096, NAN_BYTE = 0xff };

static size_t whole_lines(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/* An array of nan between two margins; free with margins_free(). */
static void *between_margins(size_t bytes) {
  const size_t all = whole_lines(bytes) + 2 * MARGIN;
  uint8_t *memory = aligned(all);
  if (memory == NULL) return NULL;
  memset(memory, NAN_BYTE, all);
  return memory + MARGIN;
}

static void margins_free(void *array) {
  if (array != NULL) free((uint8_t *)array - MARGIN);
}

static bool margins_hold(const void *array, size_t bytes) {
  const uint8_t *at = (const uint8_t *)array - MARGIN, *end = (const uint8_t *)array + bytes;
  for (int i = 0; i < MARGIN; ++i) {
    if (at[i] != NAN_BYTE) return false;
  }
  for (size_t i = 0; i < whole_lines(bytes) - bytes + MARGIN; ++i) {
    if (end[i] != NAN_BYTE) return false;
  }
  return true;
}

static size_t format_bytes(const cr_op_arg *arg, cr_format format) {
  if (format.layout) return format.layout->bytes;
  return (size_t)op_count(&arg->shape) * crema_dtype_size(format.type);
}

static crema_devptr address(const void *memory) {
  return (crema_devptr){(uintptr_t)memory};
}

/* double <-> plain memory of any element type, through the back end's own conversion. */
static crema_status convert(int64_t count, cr_format to, void *dst, cr_format from,
                            const void *src) {
  crema_context *context = cr_host_context();
  return context->device->backend->convert(context, count, to, address(dst), from, address(src));
}

static const cr_format f64 = {CREMA_F64, NULL};

static crema_status load(const cr_op_arg *arg, const double *values, op_buffer *to) {
  const int64_t count = op_count(&arg->shape);
  if (!to->format.layout) return convert(count, to->format, to->memory, f64, values);
  const cr_format plain = {arg->type, NULL};
  void *middle = aligned((size_t)count * crema_dtype_size(arg->type));
  if (!middle) return CREMA_E_NO_MEMORY;
  crema_status status = convert(count, plain, middle, f64, values);
  if (status == CREMA_OK) status = convert(count, to->format, to->memory, plain, middle);
  free(middle);
  return status;
}

static crema_status store(const cr_op_arg *arg, const op_buffer *from, double *values) {
  const int64_t count = op_count(&arg->shape);
  if (!from->format.layout) return convert(count, f64, values, from->format, from->memory);
  const cr_format plain = {arg->type, NULL};
  void *middle = aligned((size_t)count * crema_dtype_size(arg->type));
  if (!middle) return CREMA_E_NO_MEMORY;
  crema_status status = convert(count, plain, middle, from->format, from->memory);
  if (status == CREMA_OK) status = convert(count, f64, values, plain, middle);
  free(middle);
  return status;
}

/* Whether two axes take turns that together are the channels of an image. */
static bool exchanges_channels(const cr_op_desc *desc) {
  return desc->kind == CR_OP_PERMUTE && desc->arg[0].shape.axes == 4 && desc->u.order[1] == 2 &&
         desc->u.order[2] == 1;
}

/* The CPU's rows for LRN and maxima without a gradient take channels-last, in which integers lie,
 * too.
 */
static bool is_last(const cr_op_desc *desc) {
  return desc->kind == CR_OP_LRN_QUANTIZE || desc->kind == CR_OP_AFFINE_INT8 ||
         desc->kind == CR_OP_AVERAGE_INT8 ||
         (desc->kind == CR_OP_LRN_FWD && desc->arg[2].shape.axes < 0) ||
         (desc->kind == CR_OP_POOL_FWD && desc->u.pool.method == CR_POOL_MAX &&
          desc->arg[2].shape.axes < 0);
}

/* Blocks of 8 channels for images, whatever the library would choose here, and channels-last where
 * the channels are two axes or a row asks for that; plain for the rest. */
static cr_format private_format(const cr_op_desc *desc, const crema_shape *shape,
                                crema_dtype type) {
  cr_format found = {type, NULL};
  cr_md md = NULL;
  if (shape->axes < 3 || shape->axes > 5) return found;
  const bool turns = exchanges_channels(desc);
  const bool last = turns || is_last(desc);
  const cr_dnnl_order order = {last ? CR_DNNL_LAST : CR_DNNL_BLOCKED, last ? 1 : 8};
  const crema_shape image = {3, {shape->dim[0], shape->dim[1] * shape->dim[2], shape->dim[3]}};
  if (cr_dnnl_md_ordered(turns ? &image : shape, type, order, &md) != CREMA_OK) return found;
  if (cr_dnnl_layout(cr_cpu_device(), md, &found.layout) != CREMA_OK) found.layout = NULL;
  cr_md_destroy(md);
  return found;
}

static void fill_hints(const op_run *run, const char *access, cr_format *hint) {
  for (int i = 0; i < run->desc->args; ++i) {
    const cr_op_arg *arg = &run->desc->arg[i];
    hint[i] = (cr_format){arg->type, NULL};
    const bool offered =
        run->hint == OP_HINT_PRIVATE || (run->hint == OP_HINT_PRIVATE_FIRST && i == 0);
    const bool held = arg->type == CREMA_F32 || arg->type == CREMA_F16 || arg->type == CREMA_BF16 ||
                      arg->type == run->desc->type || is_last(run->desc);
    if (offered && (access[i] == 'R' || access[i] == 'U') && held) {
      hint[i] = private_format(run->desc, &arg->shape, arg->type);
    }
    if (run->opaque_in && i == run->opaque) hint[i] = run->opaque_in->format;
  }
}

/* Memory and content of every argument. False: out of memory or a failed conversion. */
static bool prepare(const op_run *run, const char *access, const cr_format *format,
                    double *const *in, op_buffer *buffer) {
  for (int i = 0; i < run->desc->args; ++i) {
    const cr_op_arg *arg = &run->desc->arg[i];
    if (arg->shape.axes < 0) continue;
    const size_t bytes = format_bytes(arg, format[i]);
    buffer[i].format = format[i];
    if (i == run->in_place_to) continue;
    buffer[i].memory = between_margins(bytes);
    if (!buffer[i].memory) return false;
    if (run->opaque_in && i == run->opaque) {
      memcpy(buffer[i].memory, run->opaque_in->memory, bytes);
    } else if (access[i] == 'R' || access[i] == 'U' || (access[i] == 'A' && run->accumulate)) {
      if (load(arg, in[i], &buffer[i]) != CREMA_OK) return false;
    }
  }
  if (run->in_place_to >= 0) buffer[run->in_place_to].memory = buffer[run->in_place_from].memory;
  return true;
}

static bool collect(const op_run *run, const char *access, op_buffer *buffer, double *const *out) {
  for (int i = 0; i < run->desc->args; ++i) {
    if (access[i] == 'R' || !buffer[i].memory) continue;
    const size_t bytes = format_bytes(&run->desc->arg[i], buffer[i].format);
    if (i == run->opaque) {
      if (!run->opaque_out) continue;
      *run->opaque_out = (op_buffer){buffer[i].format, aligned(bytes)};
      if (!run->opaque_out->memory) return false;
      memcpy(run->opaque_out->memory, buffer[i].memory, bytes);
    } else if (store(&run->desc->arg[i], &buffer[i], out[i]) != CREMA_OK) {
      return false;
    }
  }
  return true;
}

/* What the arguments that are only read hold, to be compared with what they hold afterwards. */
static bool copy_sources(const op_run *run, const char *access, const op_buffer *buffer,
                         void **copy) {
  for (int i = 0; i < run->desc->args; ++i) {
    if (access[i] != 'R' || i == run->in_place_from || !buffer[i].memory) continue;
    const size_t bytes = format_bytes(&run->desc->arg[i], buffer[i].format);
    copy[i] = aligned(bytes);
    if (!copy[i]) return false;
    memcpy(copy[i], buffer[i].memory, bytes);
  }
  return true;
}

/* Whether a row has written only what is its to write. */
static bool kept_within(const op_run *run, const op_buffer *buffer, void *const *copy) {
  for (int i = 0; i < run->desc->args; ++i) {
    if (!buffer[i].memory) continue;
    const size_t bytes = format_bytes(&run->desc->arg[i], buffer[i].format);
    if (!margins_hold(buffer[i].memory, bytes)) {
      cr_fail(CREMA_E_INTERNAL, "wrote outside argument %d", i);
      return false;
    }
    if (copy[i] && memcmp(copy[i], buffer[i].memory, bytes) != 0) {
      cr_fail(CREMA_E_INTERNAL, "wrote to argument %d, which is only read", i);
      return false;
    }
  }
  return true;
}

/* The planned row on prepared memory. */
static op_outcome execute(const op_run *run, const char *access, cr_plan *plan, double *const *in,
                          double *const *out) {
  op_outcome outcome = OP_FAILED;
  op_buffer buffer[OP_MAX_ARGS] = {{.memory = NULL}};
  crema_devptr raw[OP_MAX_ARGS] = {{0}};
  bool add[OP_MAX_ARGS] = {false};
  void *execution = NULL, *copy[OP_MAX_ARGS] = {NULL};
  void *workspace = between_margins(plan->workspace_bytes);
  if (!workspace || !prepare(run, access, plan->format, in, buffer)) goto done;
  if (!copy_sources(run, access, buffer, copy)) goto done;
  for (int i = 0; i < run->desc->args; ++i) {
    raw[i] = address(buffer[i].memory);
    add[i] = run->accumulate && access[i] == 'A';
  }
  if (run->kernel->open != NULL && run->kernel->open(plan, &execution) != CREMA_OK) goto done;
  const cr_call call = {.plan = plan,
                        .execution = execution,
                        .desc = plan->desc,
                        .context = plan->context,
                        .buffer = raw,
                        .accumulate = add,
                        .scalars = run->scalars,
                        .workspace = address(workspace)};
  if (run->kernel->run(&call) != CREMA_OK) goto done;
  if (!margins_hold(workspace, plan->workspace_bytes)) {
    cr_fail(CREMA_E_INTERNAL, "wrote outside the workspace");
    goto done;
  }
  if (!kept_within(run, buffer, copy)) goto done;
  if (collect(run, access, buffer, out)) outcome = OP_RAN;
done:
  if (execution != NULL) run->kernel->close(plan, execution);
  if (run->in_place_to >= 0) buffer[run->in_place_to].memory = NULL;
  for (int i = 0; i < run->desc->args; ++i) {
    margins_free(buffer[i].memory);
    free(copy[i]);
  }
  margins_free(workspace);
  return outcome;
}

op_outcome op_run_row(const op_run *run, double *const *in, double *const *out) {
  char access[OP_MAX_ARGS] = {0};
  cr_format hint[OP_MAX_ARGS], format[OP_MAX_ARGS];
  op_access(run->desc, access);
  fill_hints(run, access, hint);
  if (run->held) memcpy(run->held, hint, (size_t)run->desc->args * sizeof *hint);
  for (int i = 0; i < run->desc->args; ++i) format[i] = (cr_format){run->desc->arg[i].type, NULL};
  cr_plan plan = {.desc = run->desc,
                  .context = cr_host_context(),
                  .kernel = run->kernel,
                  .hint = hint,
                  .format = format};
  if (run->kernel->plan) {
    const crema_status status = run->kernel->plan(&plan);
    if (status != CREMA_OK) return status == CREMA_E_UNSUPPORTED ? OP_DECLINED : OP_FAILED;
  }
  op_outcome outcome = OP_SAME_FORMATS_NOT_HELD;
  const int from = run->in_place_from, to = run->in_place_to;
  if (to < 0 || cr_format_equal(format[from], format[to]))
    outcome = execute(run, access, &plan, in, out);
  if (run->kernel->destroy) run->kernel->destroy(&plan);
  return outcome;
}
