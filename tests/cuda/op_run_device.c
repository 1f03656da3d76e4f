/* op_run.h for a device with memory of its own: arguments are copied to the device, the row runs
 * there, and the results come back. Rows of the CPU run on the CPU. Plain formats only: no private
 * layouts are offered. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/convert.h"
#include "device/device.h"
#include "device_under_test.h"
#include "op_reference.h"
#include "op_run.h"
#include "ops/op.h"

const cr_kernel *const *op_table(void) {
  const crema_context *context = test_device_context();
  return context == NULL ? NULL : context->device->backend->kernels;
}

/* What one run holds on the device. */
typedef struct device_run {
  crema_context *context;
  cr_plan plan;
  cr_format hint[OP_MAX_ARGS], format[OP_MAX_ARGS];
  crema_devptr buffer[OP_MAX_ARGS], workspace;
  bool accumulate[OP_MAX_ARGS];
} device_run;

static size_t bytes_of(const cr_op_arg *arg) {
  return (size_t)op_count(&arg->shape) * crema_dtype_size(arg->type);
}

static crema_context *context_of(const cr_kernel *kernel) {
  const size_t length = strlen(kernel->name);
  const bool plain = length > 4 && strcmp(kernel->name + length - 4, "_ref") == 0;
  return plain ? cr_host_context() : test_device_context();
}

static crema_status copy(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                         size_t bytes) {
  const cr_backend *backend = context->device->backend;
  return bytes == 0 ? CREMA_OK : backend->copy(context, kind, dst, src, bytes);
}

static crema_status allocate(crema_context *context, size_t bytes, crema_devptr *out) {
  return context->device->backend->alloc(context->device, bytes > 0 ? bytes : 1, out);
}

/* In-place runs have arrays that begin one element after the beginning of an allocation, so that
 * no 128 bits of them are aligned. */
static size_t shift_of(const op_run *run, int i) {
  const bool shifted = run->in_place_from >= 0 && !run->kernel->library;
  return shifted ? crema_dtype_size(run->desc->arg[i].type) : 0;
}

/* Values of argument i to the device; nan bits where there are none. */
static crema_status send(const op_run *run, device_run *d, int i, const double *values) {
  const cr_op_arg *arg = &run->desc->arg[i];
  const size_t bytes = bytes_of(arg);
  void *middle = malloc(bytes + 1);
  if (middle == NULL) return cr_fail_memory(bytes, "a test");
  memset(middle, 0xff, bytes);
  crema_status status = CREMA_OK;
  if (values != NULL) {
    status = cr_convert_plain(op_count(&arg->shape), arg->type, middle, CREMA_F64, values);
  }
  if (status == CREMA_OK && run->opaque_in != NULL && i == run->opaque) {
    memcpy(middle, run->opaque_in->memory, bytes);
  }
  const size_t shift = shift_of(run, i);
  if (status == CREMA_OK) status = allocate(d->context, bytes + shift, &d->buffer[i]);
  if (status == CREMA_OK) d->buffer[i].address += shift;
  if (status == CREMA_OK) {
    status =
        copy(d->context, CR_COPY_HOST_TO_DEVICE, d->buffer[i].address, (uintptr_t)middle, bytes);
  }
  /* The copy may still read `middle`. */
  if (status == CREMA_OK) status = d->context->device->backend->finish(d->context);
  free(middle);
  return status;
}

static crema_status send_all(const op_run *run, const char *access, device_run *d,
                             double *const *in) {
  for (int i = 0; i < run->desc->args; ++i) {
    if (run->desc->arg[i].shape.axes < 0 || i == run->in_place_to) continue;
    const bool read = access[i] != 'W' && (access[i] != 'A' || run->accumulate);
    CR_TRY(send(run, d, i, read ? in[i] : NULL));
    d->accumulate[i] = run->accumulate && access[i] == 'A';
  }
  if (run->in_place_to >= 0) d->buffer[run->in_place_to] = d->buffer[run->in_place_from];
  return CREMA_OK;
}

static crema_status receive(const op_run *run, device_run *d, int i, double *values) {
  const cr_op_arg *arg = &run->desc->arg[i];
  const size_t bytes = bytes_of(arg);
  void *middle = malloc(bytes + 1);
  if (middle == NULL) return cr_fail_memory(bytes, "a test");
  crema_status status =
      copy(d->context, CR_COPY_DEVICE_TO_HOST, (uintptr_t)middle, d->buffer[i].address, bytes);
  if (status == CREMA_OK) status = d->context->device->backend->finish(d->context);
  if (status == CREMA_OK && i == run->opaque && run->opaque_out != NULL) {
    run->opaque_out->format = d->format[i];
    run->opaque_out->memory = middle;
    return CREMA_OK;
  }
  if (status == CREMA_OK && i != run->opaque) {
    status = cr_convert_plain(op_count(&arg->shape), CREMA_F64, values, arg->type, middle);
  }
  free(middle);
  return status;
}

static crema_status receive_all(const op_run *run, const char *access, device_run *d,
                                double *const *out) {
  for (int i = 0; i < run->desc->args; ++i) {
    if (access[i] == 'R' || d->buffer[i].address == 0) continue;
    CR_TRY(receive(run, d, i, out[i]));
  }
  return CREMA_OK;
}

static crema_status execute(const op_run *run, const char *access, device_run *d, double *const *in,
                            double *const *out) {
  CR_TRY(send_all(run, access, d, in));
  CR_TRY(allocate(d->context, d->plan.workspace_bytes, &d->workspace));
  void *execution = NULL;
  if (run->kernel->open != NULL) CR_TRY(run->kernel->open(&d->plan, &execution));
  CR_TRY(run->kernel->run(&(cr_call){.plan = &d->plan,
                                     .execution = execution,
                                     .desc = d->plan.desc,
                                     .context = d->context,
                                     .buffer = d->buffer,
                                     .accumulate = d->accumulate,
                                     .scalars = run->scalars,
                                     .workspace = d->workspace}));
  crema_status status = CREMA_OK;
  if (d->context == test_device_context()) status = test_device_finish(d->context);
  if (execution != NULL) run->kernel->close(&d->plan, execution);
  /* A kernel that reports a bad label or index has gone on without it. */
  if (status == CREMA_OK || status == CREMA_E_RANGE) CR_TRY(receive_all(run, access, d, out));
  return status;
}

static void release(const op_run *run, device_run *d) {
  const cr_backend *backend = d->context->device->backend;
  if (run->in_place_to >= 0) d->buffer[run->in_place_to].address = 0;
  for (int i = 0; i < run->desc->args; ++i) {
    if (d->buffer[i].address == 0) continue;
    d->buffer[i].address -= shift_of(run, i);
    backend->free(d->context->device, d->buffer[i]);
  }
  if (d->workspace.address != 0) backend->free(d->context->device, d->workspace);
}

op_outcome op_run_row(const op_run *run, double *const *in, double *const *out) {
  char access[OP_MAX_ARGS] = {0};
  device_run d = {.context = context_of(run->kernel)};
  if (run->hint != OP_HINT_PLAIN) return OP_SAME_FORMATS_NOT_HELD;
  op_access(run->desc, access);
  for (int i = 0; i < run->desc->args; ++i) {
    d.hint[i] = d.format[i] = (cr_format){run->desc->arg[i].type, NULL};
  }
  d.plan = (cr_plan){.desc = run->desc,
                     .context = d.context,
                     .kernel = run->kernel,
                     .hint = d.hint,
                     .format = d.format};
  if (run->kernel->plan != NULL) {
    const crema_status status = run->kernel->plan(&d.plan);
    if (status != CREMA_OK) return status == CREMA_E_UNSUPPORTED ? OP_DECLINED : OP_FAILED;
  }
  const crema_status status = execute(run, access, &d, in, out);
  release(run, &d);
  if (run->kernel->destroy != NULL) run->kernel->destroy(&d.plan);
  return status == CREMA_OK ? OP_RAN : OP_FAILED;
}
