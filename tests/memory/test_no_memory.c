/* Every allocation of blobs, tensors and blocks fails once. */
#include "each_allocation.h"

#include "memory/math.h"
#include "memory/sim_fixture.h"

#include "core/fail.h"
#include "device/backend/kernel.h"
#include "memory/blob.h"
#include "memory/syncedmem.h"
#include "memory/tensor_source.h"
#include "memory/trace.h"
#include "memory/view.h"

enum { COUNT = 7 };

typedef struct where {
  crema_device *device;
  crema_context *context;
} where;

static crema_status use_tensors(void *user) {
  const where *w = user;
  static const crema_dtype types[] = {CREMA_F64, CREMA_F16, CREMA_BF16};
  static float own[COUNT];
  cr_tensor *a = NULL, *b = NULL;
  crema_devptr data = {0};
  crema_status status;
  CR_TRY_GOTO(cr_tensor_create(CREMA_F32, COUNT, &a), out);
  CR_TRY_GOTO(cr_tensor_create(CREMA_F32, COUNT, &b), out);
  CR_TRY_GOTO(cr_tensor_write(a, w->context, CR_PLAIN_F32, &data), out);
  if (w->device == cr_cpu_device()) memset((void *)data.address, 0, sizeof own);
  for (int i = 0; i < 3; ++i) {
    CR_TRY_GOTO(cr_tensor_read(a, cr_host_context(), (cr_format){types[i], NULL}, &data), out);
  }
  CR_TRY_GOTO(cr_tensor_copy(b, a, w->context), out);
  CR_TRY_GOTO(cr_tensor_adopt_host(b, own), out);
  CR_TRY_GOTO(cr_tensor_share(b, a), out);
  CR_TRY_GOTO(cr_tensor_resize(b, COUNT - 1), out);
  CR_TRY_GOTO(cr_tensor_resize(b, COUNT + 100), out);
  CR_TRY_GOTO(cr_tensor_update(a, w->context, CR_PLAIN_F32, &data), out);
out:
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
  return status;
}

static crema_status use_blobs(void *user) {
  const where *w = user;
  const crema_shape shape = cr_shape_1(COUNT), larger = cr_shape_2(COUNT, 2);
  crema_blob *a = NULL, *b = NULL;
  crema_devptr data = {0};
  float *value = NULL;
  double sum = 0;
  crema_status status;
  CR_TRY_GOTO(crema_blob_create(&shape, &a), out);
  CR_TRY_GOTO(cr_blob_create_typed(&shape, CREMA_F32, CREMA_F16, &b), out);
  CR_TRY_GOTO(crema_blob_mutable_cpu_data(a, &value), out);
  for (int i = 0; i < COUNT; ++i) value[i] = 1;
  CR_TRY_GOTO(crema_blob_mutable_cpu_diff(a, &value), out);
  for (int i = 0; i < COUNT; ++i) value[i] = 1;
  CR_TRY_GOTO(cr_tensor_update(a->data, w->context, CR_PLAIN_F32, &data), out);
  CR_TRY_GOTO(cr_tensor_asum(a->data, &sum), out);
  assert_true(sum == COUNT);
  CR_TRY_GOTO(crema_blob_copy_data(b, a), out);
  CR_TRY_GOTO(crema_blob_scale_data(b, 2), out);
  CR_TRY_GOTO(crema_blob_update(a), out);
  CR_TRY_GOTO(cr_blob_share_data(b, a), out);
  CR_TRY_GOTO(crema_blob_reshape(a, &larger), out);
out:
  crema_blob_destroy(a);
  crema_blob_destroy(b);
  return status;
}

static crema_status use_blocks(void *user) {
  const where *w = user;
  crema_syncedmem *memory = NULL;
  const void *host = NULL;
  crema_devptr data = {0};
  crema_status status;
  CR_TRY_GOTO(crema_syncedmem_create(w->device, COUNT, &memory), out);
  CR_TRY_GOTO(crema_syncedmem_mutable_gpu_data(memory, w->context, true, &data), out);
  CR_TRY_GOTO(crema_syncedmem_cpu_data(memory, &host), out);
out:
  crema_syncedmem_destroy(memory);
  return status;
}

/* With the values of another type, which each showing converts. */
static crema_status show_values(void *user) {
  const where *w = user;
  cr_tensor *tensor = NULL;
  crema_view *view[2] = {NULL, NULL};
  crema_devptr data = {0};
  crema_status status;
  CR_TRY_GOTO(cr_tensor_create(CREMA_F64, COUNT, &tensor), out);
  for (int i = 0; i < 2; ++i) {
    CR_TRY_GOTO(cr_tensor_write(tensor, w->context, (cr_format){CREMA_F64, NULL}, &data), out);
    memset((void *)data.address, 0, COUNT * sizeof(double));
    CR_TRY_GOTO(cr_tensor_show(tensor, &view[i]), out);
    CR_TRY_GOTO(cr_tensor_settle(tensor, w->context), out);
  }
out:
  for (int i = 0; i < 2; ++i) crema_view_release(view[i]);
  cr_tensor_destroy(tensor);
  assert_false(cr_views_exist());
  return status;
}

static crema_status read_zeros(cr_tensor_source *source, uint64_t at, void *out, size_t size) {
  (void)source, (void)at;
  memset(out, 0, size);
  return CREMA_OK;
}

static void keep(cr_tensor_source *source) {
  (void)source;
}

/* Memory that could not be made larger is made again when it is wanted. */
static crema_status borrow(cr_tensor_source *source, size_t size) {
  void *values = NULL;
  crema_status status = cr_tensor_source_lock(source, 0, size, &values);
  if (status != CREMA_OK) {
    ok(cr_tensor_source_lock(source, 0, 8, &values));
    assert_non_null(values);
  }
  cr_tensor_source_unlock(source);
  return status;
}

static crema_status use_sources(void *user) {
  const where *w = user;
  cr_tensor_source source;
  cr_tensor_scratch *spare = NULL, *once = NULL, *held = NULL;
  cr_tensor *tensor = NULL;
  crema_devptr data = {0};
  crema_status status;
  CR_TRY(cr_tensor_scratch_create(&spare));
  cr_tensor_source_init(&source, read_zeros, keep, spare);
  CR_TRY_GOTO(cr_tensor_scratch_create(&once), out);
  cr_tensor_source_set_per_use(&source, once);
  CR_TRY_GOTO(borrow(&source, 100), out);
  CR_TRY_GOTO(borrow(&source, 10000), out);
  CR_TRY_GOTO(cr_tensor_create(CREMA_F32, COUNT, &tensor), out);
  CR_TRY_GOTO(cr_tensor_take_from(tensor, &source, 0), out);
  CR_TRY_GOTO(cr_tensor_read_for(tensor, w->context, CR_PLAIN_F32, &held, &data), out);
  cr_tensor_end_use(held);
  CR_TRY_GOTO(cr_tensor_read(tensor, w->context, CR_PLAIN_F32, &data), out);
out:
  cr_tensor_destroy(tensor);
  cr_tensor_scratch_release(once);
  cr_tensor_source_release(&source);
  return status;
}

/* A list for which there is no memory is none. */
static crema_status record(void *user) {
  const where *w = user;
  enum { CALLS = 40 };
  const cr_kernel kernel = {.name = "none"};
  const cr_plan plan = {.kernel = &kernel};
  const crema_devptr buffer[2] = {{64}, {64}};
  const cr_call call = {.plan = &plan, .context = w->context, .buffer = buffer};
  cr_trace *commands = NULL;
  cr_tensor *tensor = NULL;
  crema_status status;
  CR_TRY_GOTO(cr_tensor_create(CREMA_F32, COUNT, &tensor), out);
  CR_TRY_GOTO(cr_trace_create(&commands), out);
  for (int pass = 0; pass < 2; ++pass) {
    cr_trace_begin(commands, w->context);
    for (int i = 0; i < CALLS; ++i) {
      cr_trace_add_call(&call, w->device->backend, 2);
      cr_trace_add_argument(w->context, 0, 'R', tensor, CR_PLAIN_F32);
      cr_trace_add_argument(w->context, 1, 'W', tensor, CR_PLAIN_F32);
    }
    cr_trace_end(commands, w->context, true);
  }
out:
  cr_trace_destroy(commands);
  cr_tensor_destroy(tensor);
  return status;
}

TEST(lists_of_calls) {
  where cpu = {cr_cpu_device(), cr_host_context()};
  each_allocation_fails("lists", record, &cpu, CREMA_OK, 6);
}

TEST(on_the_cpu) {
  where cpu = {cr_cpu_device(), cr_host_context()};
  each_allocation_fails("tensors", use_tensors, &cpu, CREMA_OK, 12);
  each_allocation_fails("blobs", use_blobs, &cpu, CREMA_OK, 12);
  each_allocation_fails("blocks", use_blocks, &cpu, CREMA_OK, 2);
  each_allocation_fails("views", show_values, &cpu, CREMA_OK, 6);
  each_allocation_fails("sources", use_sources, &cpu, CREMA_OK, 7);
}

/* All that a simulation has grown goes with it. */
static crema_status simulate(fallible *run) {
  cr_sim_options options = sim_test_options(1);
  where sim = {0};
  int index = 0;
  options.keep_log = false;
  CR_TRY(start_simulation(&options));
  crema_status status = crema_device_open(CREMA_DEVICE_SIM, &index, 1);
  if (status == CREMA_OK) status = crema_device_get(CREMA_DEVICE_SIM, index, &sim.device);
  if (status == CREMA_OK) status = crema_context_create(sim.device, 1, &sim.context);
  if (status == CREMA_OK) status = run(&sim);
  crema_context_destroy(sim.context);
  cr_sim_stop(NULL);
  return status;
}

static crema_status tensors_on_a_device(void *unused) {
  (void)unused;
  return simulate(use_tensors);
}

static crema_status blobs_on_a_device(void *unused) {
  (void)unused;
  return simulate(use_blobs);
}

static crema_status blocks_on_a_device(void *unused) {
  (void)unused;
  return simulate(use_blocks);
}

TEST(on_a_device) {
  each_allocation_fails("tensors", tensors_on_a_device, NULL, CREMA_OK, 30);
  each_allocation_fails("blobs", blobs_on_a_device, NULL, CREMA_OK, 30);
  each_allocation_fails("blocks", blocks_on_a_device, NULL, CREMA_OK, 15);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
