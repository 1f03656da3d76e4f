/* How the plug-in uses cuDNN, over the fake runtime: which of its engines it takes, by how much
 * memory the device has (row S4-23) and how addresses are aligned, and its handles. */
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>

#include "check.h"
#include "core/fail.h"
#include "crema/log.h"
#include "device/device.h"
#include "device/memory/scratchpad.h"
#include "fake_symbols.h"
#include "log_lines.h"
#include "memory/tensor.h"
#include "ops/op.h"

/* As the fake cuDNN numbers them: the one that is always there, with little memory, the faster one
 * that tests offer, and the one on tensor cores. The fake devices have `total` bytes. */
enum { SMALL = 1, FASTER = 22, ON_TENSOR_CORES = 31 };
static const size_t mb = (size_t)1 << 20, total = (size_t)4 << 30;

static struct {
  void (*set_memory)(size_t foreign, size_t largest);
  void (*offer_faster)(size_t bytes);
  int (*last_algorithm)(void);
  void *(*last_handle)(void);
  void *(*last_stream)(void);
  void (*refuse)(int create, int list);
  void (*refuse_plans)(int status);
  int (*descriptors)(void);
  void (*unload_during_work)(void);
  void (*load)(void);
} fake;

static crema_device *device;

static int find_fake(void **state) {
  (void)state;
  void *runtime = fake_plugin();
  void *driver = fake_library("libcuda.so.1");
  void *cudnn = fake_library("libcudnn.so.9");
  fake_find(runtime, "fake_set_memory", &fake.set_memory);
  fake_find(driver, "fake_unload_during_work", &fake.unload_during_work);
  fake_find(driver, "fake_load", &fake.load);
  fake_find(cudnn, "fake_offer_faster", &fake.offer_faster);
  fake_find(cudnn, "fake_refuse", &fake.refuse);
  fake_find(cudnn, "fake_refuse_plans", &fake.refuse_plans);
  fake_find(cudnn, "fake_descriptors", &fake.descriptors);
  fake_find(cudnn, "fake_last_algorithm", &fake.last_algorithm);
  fake_find(cudnn, "fake_last_handle", &fake.last_handle);
  fake_find(cudnn, "fake_last_stream", &fake.last_stream);
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  return 0;
}

/* ---- one convolution ---- */

/* Of an image of 2 x 4 x 4 with 3 windows of 3 x 3, all values 1: forward, or the gradients of
 * weights and bias. */
static const crema_shape image = {4, {1, 2, 4, 4}}, windows = {4, {3, 2, 3, 3}}, bias = {1, {3}},
                         result = {4, {1, 3, 2, 2}};

typedef struct job {
  cr_op *op;
  cr_tensor *tensor[4];
  int made;    /* the argument that is looked at */
  float value; /* that all its elements have */
} job;

static job new_job_of(crema_dtype type, bool backward) {
  const crema_shape *forward[4] = {&image, &windows, &bias, &result};
  const crema_shape *gradients[4] = {&image, &result, &windows, &bias};
  const crema_shape **shape = backward ? gradients : forward;
  job j = {.made = backward ? 2 : 3, .value = backward ? 4 : 19};
  cr_op_desc *desc = NULL;
  cr_op_desc conv = {.kind = backward ? CR_OP_CONV_BWD_WEIGHTS : CR_OP_CONV_FWD, .type = CREMA_F32};
  conv.u.conv = (cr_conv_params){
      .window = {.axes = 2, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}}, .group = 1};
  ok(cr_op_describe(&conv, 4, shape, NULL, &desc));
  for (int i = 0; i < 4; ++i) {
    const int64_t count = crema_shape_count(shape[i], 0, shape[i]->axes);
    ok(cr_tensor_create(type, count, &j.tensor[i]));
    if (i >= (backward ? 2 : 3)) continue;
    float *to = NULL;
    ok(cr_tensor_host_write_floats(j.tensor[i], &to));
    for (int64_t k = 0; k < count; ++k) to[k] = 1;
  }
  ok(cr_op_create(&desc, &j.op));
  return j;
}

static job new_job(bool backward) {
  return new_job_of(CREMA_F32, backward);
}

static void drop_job(job *j) {
  cr_op_destroy(j->op);
  for (int i = 0; i < 4; ++i) cr_tensor_destroy(j->tensor[i]);
}

static crema_status run(job *j, crema_context *context) {
  const float *from = NULL;
  if (j->made == 2) {
    for (int i = 2; i < 4; ++i) cr_tensor_set_zero(j->tensor[i]);
  }
  CR_TRY(cr_op_run(j->op, context, j->tensor, NULL));
  CR_TRY(crema_context_finish(context));
  CR_TRY(cr_tensor_host_read_floats(j->tensor[j->made], &from));
  if (from[0] != j->value) return cr_fail(CREMA_E_INTERNAL, "wrong value");
  return cr_device_fallbacks(device) == 0 ? CREMA_OK : cr_fail(CREMA_E_INTERNAL, "on the CPU");
}

/* A convolution of its own plan; the algorithm that did it. */
static int algorithm_of_new(bool backward, crema_context *context) {
  job j = new_job(backward);
  ok(run(&j, context));
  drop_job(&j);
  return fake.last_algorithm();
}

static crema_context *new_context(void) {
  crema_context *context = NULL;
  ok(crema_context_create(device, 1, &context));
  return context;
}

/* ---- tests ---- */

/* All free memory but so much, which any one block may take. */
static void leave_free(size_t bytes) {
  fake.set_memory(total - bytes, SIZE_MAX);
}

TEST(s4_23_the_fastest_algorithm_that_the_budget_allows) {
  for (int backward = 0; backward < 2; ++backward) {
    crema_context *context = new_context();
    fake.offer_faster(64 * mb);
    fake.set_memory(0, SIZE_MAX);
    /* Most of the memory is somebody else's. */
    leave_free(40 * mb);
    assert_int_equal(algorithm_of_new(backward, context), SMALL);
    assert_true(cr_device_scratchpad_bytes(device) < mb);
    leave_free(80 * mb);
    assert_int_equal(algorithm_of_new(backward, context), FASTER);
    const size_t bytes = cr_device_scratchpad_bytes(device);
    assert_true(bytes >= 64 * mb && bytes < 65 * mb);
    /* The present scratchpad counts as free. */
    leave_free(bytes + mb);
    assert_int_equal(algorithm_of_new(backward, context), FASTER);
    assert_int_equal(cr_device_scratchpad_bytes(device), bytes);
    /* There is a limit for a device with nothing else to do, too. */
    fake.set_memory(0, SIZE_MAX);
    fake.offer_faster(257 * mb);
    assert_int_equal(algorithm_of_new(backward, context), SMALL);
    crema_context_destroy(context);
    assert_int_equal(cr_device_scratchpad_bytes(device), 0);
  }
}

/* The device says more than it has, or has it in pieces: the next best is taken, in this plan only,
 * and the failure leaves nothing behind. */
TEST(s4_23_the_search_goes_on_with_less) {
  crema_context *context = new_context();
  fake.offer_faster(64 * mb);
  fake.set_memory(0, 32 * mb);
  assert_int_equal(algorithm_of_new(false, context), SMALL);
  assert_int_equal(algorithm_of_new(true, context), SMALL);
  fake.set_memory(0, SIZE_MAX);
  assert_int_equal(algorithm_of_new(true, context), FASTER);
  crema_context_destroy(context);
}

/* The memory is there from the plan on: a run after that needs none. */
TEST(a_plan_keeps_what_it_was_promised) {
  crema_context *context = new_context();
  job j = new_job(false);
  fake.offer_faster(64 * mb);
  fake.set_memory(0, SIZE_MAX);
  ok(run(&j, context));
  fake.set_memory(total, 0);
  for (int i = 0; i < 3; ++i) ok(run(&j, context));
  assert_int_equal(fake.last_algorithm(), FASTER);
  drop_job(&j);
  fake.set_memory(0, SIZE_MAX);
  crema_context_destroy(context);
}

/* Floats they would cut. */
TEST(tensor_cores_multiply_halves_alone) {
  static const crema_dtype types[] = {CREMA_F32, CREMA_F16, CREMA_BF16};
  for (int i = 0; i < 6; ++i) {
    crema_context *context = new_context();
    fake.offer_faster(0);
    job j = new_job_of(types[i / 2], i % 2 != 0);
    ok(run(&j, context));
    assert_int_equal(fake.last_algorithm(), i / 2 == 0 ? SMALL : ON_TENSOR_CORES);
    drop_job(&j);
    crema_context_destroy(context);
  }
}

/* Puts argument `i`, whose values are all 1, behind the first `skipped` bytes of new memory. */
static crema_devptr move_argument(job *j, crema_context *context, int i, size_t skipped) {
  const cr_backend *backend = device->backend;
  const size_t bytes = (size_t)cr_tensor_count(j->tensor[i]) * sizeof(float);
  const void *from = NULL;
  crema_devptr memory = {0};
  ok(backend->alloc(device, bytes + skipped, &memory));
  ok(cr_tensor_host_read(j->tensor[i], &from));
  ok(backend->copy(context, CR_COPY_HOST_TO_DEVICE, memory.address + skipped, (uintptr_t)from,
                   bytes));
  ok(backend->finish(context));
  ok(cr_tensor_adopt(j->tensor[i], device, CREMA_F32, (crema_devptr){memory.address + skipped},
                     NULL));
  return memory;
}

/* An engine that asks for aligned addresses is taken for these alone, in one plan for both. */
TEST(views_that_are_not_aligned) {
  for (int backward = 0; backward < 2; ++backward) {
    for (int i = 0; i < 2; ++i) {
      crema_context *context = new_context();
      fake.offer_faster(mb);
      job j = new_job(backward);
      ok(run(&j, context));
      assert_int_equal(fake.last_algorithm(), FASTER);
      const crema_devptr memory = move_argument(&j, context, i, sizeof(float));
      ok(run(&j, context));
      assert_int_equal(fake.last_algorithm(), SMALL);
      drop_job(&j);
      device->backend->free(device, memory);
      crema_context_destroy(context);
    }
  }
}

TEST(descriptors_are_destroyed) {
  const int before = fake.descriptors();
  crema_context *context = new_context();
  job j = new_job(true);
  fake.offer_faster(mb);
  ok(run(&j, context));
  /* Two plans and what they were made of; nothing of a run stays. */
  const int planned = fake.descriptors();
  assert_int_equal(planned - before, 4);
  for (int i = 0; i < 3; ++i) ok(run(&j, context));
  assert_int_equal(fake.descriptors(), planned);
  drop_job(&j);
  crema_context_destroy(context);
  assert_int_equal(fake.descriptors(), before);
}

/* Each context has a handle of its own, made when it is first needed and bound to its stream,
 * though plans are shared by the contexts of a device. */
TEST(s1_29_a_handle_for_each_context) {
  crema_context *context[2] = {new_context(), new_context()};
  void *handle[2], *stream[2];
  job j = new_job(false);
  fake.offer_faster(0);
  for (int i = 0; i < 2; ++i) {
    ok(run(&j, context[i]));
    handle[i] = fake.last_handle();
    stream[i] = fake.last_stream();
  }
  assert_ptr_not_equal(handle[0], handle[1]);
  assert_ptr_not_equal(stream[0], stream[1]);
  for (int i = 0; i < 4; ++i) {
    ok(run(&j, context[i % 2]));
    assert_ptr_equal(fake.last_handle(), handle[i % 2]);
    assert_ptr_equal(fake.last_stream(), stream[i % 2]);
  }
  drop_job(&j);
  for (int i = 0; i < 2; ++i) crema_context_destroy(context[i]);
}

TEST(cudnn_loses_the_driver) {
  crema_context *context = new_context();
  job j = new_job(false);
  fake.offer_faster(0);
  ok(run(&j, context));
  fake.unload_during_work();
  assert_int_equal(run(&j, context), CREMA_E_CLOSED);
  fake.load();
  ok(run(&j, context));
  drop_job(&j);
  crema_context_destroy(context);
}

/* One convolution while cuDNN answers like that: it is done as matrix products. Whether a warning
 * with `text` says why, and none where nothing is wrong. */
static void run_refused(int create, int list, int plan, const char *text) {
  static log_lines lines;
  const int before = fake.descriptors();
  crema_context *context = new_context();
  fake.refuse(create, list);
  fake.refuse_plans(plan);
  listen_to(&lines, CREMA_LOG_WARNING);
  assert_int_equal(algorithm_of_new(false, context), 0);
  stop_listening();
  if (text == NULL) assert_string_equal(lines.text, "");
  else assert_int_equal(count_lines(&lines, text), 1);
  /* It is asked again for the next one. */
  fake.refuse(0, 0);
  fake.refuse_plans(0);
  assert_int_equal(algorithm_of_new(false, context), SMALL);
  crema_context_destroy(context);
  assert_int_equal(fake.descriptors(), before);
}

/* The statuses are those of cudnn_graph.h. Only what is not supported is left to other kernels
 * without a word, and a lack of memory is not for ever. */
TEST(cudnn_failures_are_told_of) {
  fake.offer_faster(0);
  run_refused(4004, 0, 0, "cuDNN does not start: no memory"); /* on the device */
  run_refused(4003, 0, 0, "cuDNN does not start: no memory"); /* on the host */
  run_refused(0, 3002, 0, NULL);                              /* this shape is not supported */
  run_refused(0, 2000, 0, "choice of an algorithm");          /* a bad parameter */
  run_refused(0, 4004, 0, "choice of an algorithm");
  run_refused(0, 5000, 0, "choice of an algorithm"); /* the work failed */
  /* No engine works, with this or that answer; or each of them breaks. */
  run_refused(0, 0, 3007, NULL);
  run_refused(0, 0, 2000, NULL);
  run_refused(0, 0, 4004, "choice of an algorithm");
  run_refused(0, 0, 4000, "choice of an algorithm");
}

/* Another version than the one that was compiled against is named, once, and not used: convolutions
 * are matrix products. */
static void s1_41_another_version_is_named_and_left_alone(void **state) {
  (void)state;
  static log_lines lines;
  crema_context *context = new_context();
  listen_to(&lines, CREMA_LOG_WARNING);
  for (int i = 0; i < 3; ++i) {
    job j = new_job(i == 1);
    ok(run(&j, context));
    drop_job(&j);
  }
  stop_listening();
  assert_int_equal(count_lines(&lines, "cuDNN is version 8.9"), 1);
  assert_non_null(strstr(strstr(lines.text, "cuDNN is version 8.9"), "built for version 9"));
  assert_null(fake.last_handle());
  crema_context_destroy(context);
}

/* With an argument: cuDNN is another version, as FAKE_CUDNN_VERSION says. */
int main(int argc, char **argv) {
  const struct CMUnitTest other[] = {
      cmocka_unit_test(s1_41_another_version_is_named_and_left_alone),
  };
  if (argc > 1 && strcmp(argv[1], "another_version") == 0) {
    arguments_read = 1;
    return run_each_of(other, find_fake, NULL);
  }
  return run_all_tests(find_fake, NULL);
}
