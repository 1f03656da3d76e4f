#include "op_run.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "device/cpu/dnnl_layout.h"
#include "op_reference.h"
#include "ops/op.h"

const cr_kernel *const *op_table(void) {
  return cr_host_context()->device->backend->kernels;
}

static void *aligned(size_t bytes) {
  void *memory = NULL;
  return posix_memalign(&memory, 64, bytes ? bytes : 1) == 0 ? memory : NULL;
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

/* Blocks of 8 channels for images, whatever the library would choose here; plain for the rest. */
static cr_format private_format(const crema_shape *shape, crema_dtype type) {
  cr_format found = {type, NULL};
  cr_md md = NULL;
  if (shape->axes < 3 || shape->axes > 5) return found;
  const cr_dnnl_order blocked = {CR_DNNL_BLOCKED, 8};
  if (cr_dnnl_md_ordered(shape, type, blocked, &md) != CREMA_OK) return found;
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
    const bool held = arg->type == CREMA_F32 || arg->type == CREMA_F16 ||
                      arg->type == CREMA_BF16 || arg->type == run->desc->type;
    if (offered && (access[i] == 'R' || access[i] == 'U') && held) {
      hint[i] = private_format(&arg->shape, arg->type);
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
    buffer[i].memory = aligned(bytes);
    if (!buffer[i].memory) return false;
    memset(buffer[i].memory, 0xff, bytes);
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
    if (i == run->opaque) {
      if (!run->opaque_out) continue;
      *run->opaque_out = buffer[i];
      buffer[i].memory = NULL;
    } else if (store(&run->desc->arg[i], &buffer[i], out[i]) != CREMA_OK) {
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
  void *execution = NULL;
  void *workspace = aligned(plan->workspace_bytes);
  if (!workspace || !prepare(run, access, plan->format, in, buffer)) goto done;
  memset(workspace, 0xff, plan->workspace_bytes);
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
  if (collect(run, access, buffer, out)) outcome = OP_RAN;
done:
  if (execution != NULL) run->kernel->close(plan, execution);
  if (run->in_place_to >= 0) buffer[run->in_place_to].memory = NULL;
  for (int i = 0; i < run->desc->args; ++i) op_buffer_free(&buffer[i]);
  free(workspace);
  return outcome;
}

op_outcome op_run_row(const op_run *run, double *const *in, double *const *out) {
  char access[OP_MAX_ARGS] = {0};
  cr_format hint[OP_MAX_ARGS], format[OP_MAX_ARGS];
  op_access(run->desc, access);
  fill_hints(run, access, hint);
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
