/* The kernels of a simulated device: every row of the CPU (or of a table that a test gives), run on
 * simulated memory by the stream's thread. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/cpu/threads/threads.h"
#include "device/sim/sim_world.h"

enum { MAX_KERNELS = 1024 };

/* The state of a simulated kernel's plan. */
typedef struct sim_plan {
  const cr_kernel *kernel; /* of the CPU */
  cr_plan inner;
} sim_plan;

typedef struct sim_execution {
  void *inner;
  /* The last task that uses it. */
  sim_stream *stream;
  uint64_t number;
} sim_execution;

typedef struct sim_row {
  cr_kernel kernel;
  const cr_kernel *cpu;
} sim_row;

const cr_kernel *cr_sim_kernels[MAX_KERNELS + 1];
static sim_row sim_rows[MAX_KERNELS];

static size_t argument_bytes(const sim_plan *plan, int i) {
  cr_format format = plan->inner.format[i];
  if (format.layout != NULL) return format.layout->bytes;
  const crema_shape *shape = &plan->inner.desc->arg[i].shape;
  return (size_t)crema_shape_count(shape, 0, shape->axes) * crema_dtype_size(format.type);
}

static crema_status plan_row(cr_plan *plan) {
  const sim_row *row = (const sim_row *)plan->kernel; /* the kernel is the row's first member */
  sim_plan *state = calloc(1, sizeof *state);
  if (state == NULL) return cr_fail_memory(sizeof *state, "a plan");
  state->kernel = row->cpu;
  state->inner = *plan;
  state->inner.kernel = row->cpu;
  state->inner.context = &cr_sim_stream(plan->context)->cpu;
  int before = cr_cpu_enter_plan(&state->inner);
  crema_status status = row->cpu->plan == NULL ? CREMA_OK : row->cpu->plan(&state->inner);
  cr_cpu_leave(before);
  state->inner.context = NULL;
  if (status != CREMA_OK) {
    free(state);
    return status;
  }
  plan->workspace_bytes = state->inner.workspace_bytes;
  plan->state = state;
  return CREMA_OK;
}

static crema_status open_row(const cr_plan *plan, void **out) {
  const sim_plan *state = plan->state;
  sim_execution *execution = calloc(1, sizeof *execution);
  if (execution == NULL) return cr_fail_memory(sizeof *execution, "an execution");
  crema_status status = CREMA_OK;
  if (state->kernel->open != NULL) status = state->kernel->open(&state->inner, &execution->inner);
  if (status == CREMA_OK) *out = execution;
  else free(execution);
  return status;
}

static void close_row(const cr_plan *plan, void *given) {
  const sim_plan *state = plan->state;
  sim_execution *execution = given;
  if (execution->stream != NULL) {
    sim_lock();
    cr_sim_wait_for(execution->stream, execution->number);
    sim_unlock();
  }
  if (state->kernel->close != NULL) state->kernel->close(&state->inner, execution->inner);
  free(execution);
}

static void destroy_row(cr_plan *plan) {
  sim_plan *state = plan->state;
  if (state->kernel->destroy != NULL) state->kernel->destroy(&state->inner);
  free(state);
}

static crema_status make_room(sim_kernel_call *call, int args) {
  call->args = args;
  if (args <= SIM_ARGS) return CREMA_OK;
  size_t bytes = (size_t)args * (sizeof(crema_devptr) + sizeof(bool));
  call->buffer = malloc(bytes);
  if (call->buffer == NULL) return cr_fail_memory(bytes, "a kernel call");
  call->accumulate = (bool *)(call->buffer + args);
  return CREMA_OK;
}

/* The segments are the caller's until it returns. */
static crema_status copy_scalars(sim_kernel_call *call, const cr_op_scalars *scalars) {
  call->has_scalars = scalars != NULL;
  if (scalars == NULL) return CREMA_OK;
  call->scalars = *scalars;
  if (scalars->segment == NULL) return CREMA_OK;
  const size_t bytes = (size_t)scalars->segments * sizeof *scalars->segment;
  call->segment = malloc(bytes + 1);
  if (call->segment == NULL) return cr_fail_memory(bytes, "a kernel call");
  if (bytes > 0) memcpy(call->segment, scalars->segment, bytes);
  call->scalars.segment = call->segment;
  return CREMA_OK;
}

void cr_sim_free_call(sim_kernel_call *call) {
  free(call->buffer);
  free(call->segment);
}

static crema_devptr *buffers(sim_kernel_call *call) {
  return call->buffer != NULL ? call->buffer : call->inline_buffer;
}

static bool *accumulates(sim_kernel_call *call) {
  return call->buffer != NULL ? call->accumulate : call->inline_accumulate;
}

/* From a device address to its bytes. With the lock held. */
static crema_status translate(const sim_stream *stream, crema_devptr memory, size_t bytes,
                              crema_devptr *out) {
  char *host = cr_sim_bytes_of(memory.address, bytes);
  if (host == NULL) {
    return cr_fail(CREMA_E_DEVICE, "a kernel was given %#zx, which is not memory in use on sim:%d",
                   (size_t)memory.address, stream->device->index);
  }
  out->address = (uintptr_t)host;
  return CREMA_OK;
}

/* Records the use of argument `i`: only its segments, if the kernel must not access other values.
 * The results of sums over segments are a different array. With the lock held. */
static void note_use(sim_stream *stream, const sim_kernel_call *queued, int i, crema_devptr memory,
                     bool write) {
  const size_t size = crema_dtype_size(queued->plan->inner.format[i].type);
  const cr_op_use use = cr_op_kind_use(queued->plan->inner.desc->kind, queued->args, i);
  if (queued->segment == NULL || use.role == CR_ROLE_OWN) {
    cr_sim_note_access(stream, memory.address, argument_bytes(queued->plan, i), write, false);
    return;
  }
  for (int k = 0; k < queued->scalars.segments; ++k) {
    const cr_update_segment *segment = &queued->segment[k];
    cr_sim_note_access(stream, memory.address + (size_t)segment->begin * size,
                       (size_t)segment->count * size, write, false);
  }
}

static crema_status fill_call(sim_stream *stream, sim_kernel_call *queued, const cr_call *call) {
  const sim_plan *plan = queued->plan;
  for (int i = 0; i < queued->args; ++i) {
    buffers(queued)[i] = (crema_devptr){0};
    accumulates(queued)[i] = call->accumulate != NULL && call->accumulate[i];
    if (call->buffer[i].address == 0) continue;
    char access = cr_op_kind_use(call->desc->kind, queued->args, i).access;
    CR_TRY(translate(stream, call->buffer[i], argument_bytes(plan, i), &buffers(queued)[i]));
    note_use(stream, queued, i, call->buffer[i], access != 'R' && access != 'r');
  }
  queued->workspace = cr_no_workspace();
  if (call->workspace.address != 0) {
    const size_t bytes = plan->inner.workspace_bytes;
    CR_TRY(translate(stream, call->workspace, bytes, &queued->workspace));
    cr_sim_note_access(stream, call->workspace.address, bytes, true, false);
  }
  return CREMA_OK;
}

static crema_status run_queued(sim_stream *stream, sim_task *task) {
  sim_kernel_call *queued = &task->u.kernel;
  const cr_kernel *kernel = queued->plan->kernel;
  const cr_plan *plan = &queued->plan->inner;
  const cr_call call = {.plan = plan,
                        .execution = queued->execution,
                        .desc = plan->desc,
                        .context = &stream->cpu,
                        .buffer = buffers(queued),
                        .accumulate = accumulates(queued),
                        .scalars = queued->has_scalars ? &queued->scalars : NULL,
                        .workspace = queued->workspace};
  int before = cr_cpu_enter_run(plan);
  crema_status status = kernel->run(&call);
  cr_cpu_leave(before);
  return cr_fail_in(status, "kernel %s", kernel->name);
}

static crema_status run_row(const cr_call *call) {
  sim_stream *stream = cr_sim_stream(call->context);
  sim_execution *execution = call->execution;
  sim_task task = {.kind = SIM_TASK_KERNEL, .run = run_queued, .op = CR_SIM_KERNEL};
  sim_kernel_call *queued = &task.u.kernel;
  CR_TRY(make_room(queued, call->desc->args));
  queued->plan = call->plan->state;
  queued->execution = execution->inner;
  crema_status status = copy_scalars(queued, call->scalars);
  if (status != CREMA_OK) {
    cr_sim_free_call(queued);
    return status;
  }
  sim_lock();
  status = cr_sim_need_handle(stream);
  if (status == CREMA_OK) status = cr_sim_note_on(stream, CR_SIM_KERNEL, &task.fault);
  /* An execution is of one run at a time: streams take turns. */
  if (status == CREMA_OK && execution->stream != NULL && execution->stream != stream) {
    cr_sim_wait_for(execution->stream, execution->number);
  }
  if (status == CREMA_OK) status = fill_call(stream, queued, call);
  if (status == CREMA_OK) status = cr_sim_submit(stream, &task);
  if (status == CREMA_OK) {
    execution->stream = stream;
    execution->number = task.number;
  }
  sim_unlock();
  if (status != CREMA_OK) cr_sim_free_call(queued);
  return status;
}

void cr_sim_make_kernels(void) {
  const cr_kernel *const *given = cr_sim_world.options.kernels;
  const cr_kernel *const *cpu = given != NULL ? given : cr_backend_cpu.kernels;
  int count = 0;
  for (; cpu[count] != NULL && count < MAX_KERNELS; ++count) {
    sim_rows[count].cpu = cpu[count];
    sim_rows[count].kernel = *cpu[count];
    sim_rows[count].kernel.plan = plan_row;
    sim_rows[count].kernel.open = open_row;
    sim_rows[count].kernel.close = close_row;
    sim_rows[count].kernel.run = run_row;
    sim_rows[count].kernel.destroy = destroy_row;
    cr_sim_kernels[count] = &sim_rows[count].kernel;
  }
  cr_sim_kernels[count] = NULL;
}

const char *cr_sim_kernel_name(const sim_kernel_call *call) {
  return call->plan->kernel->name;
}
