/* What every back end's device must do, whatever it is: memory, copies, conversions, events, peers,
 * faults. The argument names the device: cpu, sim, cuda or opencl. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/fail.h"
#include "crema/net.h"
#include "crema/syncedmem.h"
#include "device/backend/convert.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "memory/tensor.h"
#include "ops/op.h"

enum { SKIPPED = 77, COUNT = 1000 };

static crema_device *device;
static crema_context *context, *other;

static const cr_backend *backend(void) {
  return device->backend;
}

static crema_devptr device_memory(size_t bytes) {
  crema_devptr memory = {0};
  ok(cr_device_alloc(device, bytes, &memory));
  assert_true(memory.address != 0 && memory.address % 64 == 0);
  return memory;
}

static void to_device(crema_devptr to, const void *from, size_t bytes) {
  ok(cr_copy_from_cpu(context, to, from, bytes));
  ok(crema_context_finish(context));
}

static void to_host(void *to, crema_devptr from, size_t bytes) {
  ok(cr_copy_to_cpu(context, to, from, bytes));
  ok(crema_context_finish(context));
}

/* ---- conversions ---- */

/* Values in an order of the host's kernels are converted on the host. */
TEST(orders_of_the_host_are_not_guessed) {
  enum { VALUES = 24 };
  const cr_layout layout = {.device = cr_cpu_device(),
                            .type = CREMA_F32,
                            .shape = {.axes = 4, .dim = {1, 2, 3, 4}},
                            .bytes = VALUES * sizeof(float)};
  const cr_format plain = {CREMA_F32, NULL}, private = {CREMA_F32, &layout};
  /* The CPU knows these orders, and simulated devices compute with its kernels. */
  if (backend()->host_memory || backend()->type == CREMA_DEVICE_SIM) skip();
  crema_devptr a = device_memory(layout.bytes), b = device_memory(layout.bytes);
  assert_int_equal(backend()->convert(context, VALUES, plain, b, private, a), CREMA_E_UNSUPPORTED);
  assert_int_equal(backend()->convert(context, VALUES, private, b, plain, a), CREMA_E_UNSUPPORTED);
  cr_device_free(device, a);
  cr_device_free(device, b);
}

/* ---- memory and copies ---- */

TEST(s1_06_bytes_come_back_as_they_went) {
  unsigned char sent[COUNT], got[COUNT];
  for (int i = 0; i < COUNT; ++i) sent[i] = (unsigned char)(i * 7);
  crema_devptr a = device_memory(COUNT), b = device_memory(COUNT);
  to_device(a, sent, COUNT);
  ok(cr_copy_same_device(context, b, a, COUNT));
  to_host(got, b, COUNT);
  assert_memory_equal(got, sent, COUNT);
  ok(backend()->zero(context, (crema_devptr){b.address + 100}, 300));
  to_host(got, b, COUNT);
  for (int i = 100; i < 400; ++i) sent[i] = 0;
  assert_memory_equal(got, sent, COUNT);
  cr_device_free(device, a);
  cr_device_free(device, b);
}

TEST(ranges_that_overlap_are_refused) {
  unsigned char sent[COUNT], got[COUNT];
  for (int i = 0; i < COUNT; ++i) sent[i] = (unsigned char)(i * 3);
  crema_devptr a = device_memory(COUNT);
  to_device(a, sent, COUNT);
  const crema_devptr inside = {a.address + COUNT / 2};
  assert_int_equal(cr_copy_same_device(context, inside, a, COUNT / 2 + 1), CREMA_E_ARGUMENT);
  assert_int_equal(cr_copy_same_device(context, a, inside, COUNT / 2 + 1), CREMA_E_ARGUMENT);
  ok(cr_copy_same_device(context, a, a, COUNT));
  ok(cr_copy_same_device(context, inside, a, COUNT / 2));
  memcpy(sent + COUNT / 2, sent, COUNT / 2);
  to_host(got, a, COUNT);
  assert_memory_equal(got, sent, COUNT);
  cr_device_free(device, a);
}

TEST(page_locked_memory_takes_part_in_copies) {
  void *host = NULL;
  char got[64];
  ok(backend()->host_alloc(device, sizeof got, &host));
  memset(host, 42, sizeof got);
  crema_devptr a = device_memory(sizeof got);
  to_device(a, host, sizeof got);
  to_host(got, a, sizeof got);
  assert_memory_equal(got, host, sizeof got);
  if (backend()->host_alias != NULL) {
    crema_devptr alias = {0};
    int unlocked = 0;
    ok(backend()->host_alias(device, host, &alias));
    assert_true(alias.address != 0);
    assert_int_not_equal(backend()->host_alias(device, &unlocked, &alias), CREMA_OK);
  }
  cr_device_free(device, a);
  backend()->host_free(device, host);
}

TEST(addresses_know_their_device) {
  if (backend()->owner == NULL) skip(); /* only GPUs can be asked for an address's device */
  int here = 0;
  crema_device *found = NULL;
  crema_devptr a = device_memory(10);
  assert_int_equal(backend()->owner(a.address), device->index);
  assert_int_equal(backend()->owner((uintptr_t)&here), -1);
  ok(cr_device_of_address(a.address, &found));
  assert_ptr_equal(found, device);
  cr_device_free(device, a);
}

TEST(free_memory_is_within_the_total) {
  size_t free_bytes = 0, total = 0;
  crema_device_info info;
  ok(crema_device_describe(device, &info));
  assert_true(info.name[0] != '\0' && info.library[0] != '\0');
  assert_true(info.memory_free > 0 && info.memory_free <= info.memory_total);
  if (backend()->memory_info == NULL) return;
  ok(backend()->memory_info(device, &free_bytes, &total));
  assert_true(free_bytes > 0 && free_bytes <= total);
}

/* ---- conversions ---- */

static const crema_dtype types[] = {CREMA_F64, CREMA_F32,  CREMA_F16, CREMA_I32,
                                    CREMA_U32, CREMA_BF16, CREMA_I8,  CREMA_U8};
enum { TYPES = sizeof types / sizeof types[0] };

/* Values at the borders of every type. */
static const double values[] = {0,
                                -0.0,
                                0.5,
                                1.5,
                                2.5,
                                -1.5,
                                127.5,
                                128,
                                -128.6,
                                255.5,
                                65504,
                                65519.9,
                                65520,
                                1e-8,
                                5.9604645e-8,
                                2.9802323e-8,
                                6.1e-5,
                                1e6,
                                -1e6,
                                2147483647,
                                2147483648.0,
                                -2147483649.,
                                4294967296.0,
                                1.00048828126,
                                1.0009765625,
                                3.4e38,
                                -3.4e38,
                                1.00390625,
                                1.01171875,
                                1.0 / 3};
enum { VALUES = sizeof values / sizeof values[0] };

static void convert_one(crema_dtype from, crema_dtype to) {
  char source[VALUES * 8], wanted[VALUES * 8], got[VALUES * 8];
  ok(cr_convert_plain(VALUES, from, source, CREMA_F64, values));
  ok(cr_convert_plain(VALUES, to, wanted, from, source));
  crema_devptr a = device_memory(sizeof source), b = device_memory(sizeof got);
  to_device(a, source, VALUES * crema_dtype_size(from));
  ok(backend()->convert(context, VALUES, (cr_format){to, NULL}, b, (cr_format){from, NULL}, a));
  to_host(got, b, VALUES * crema_dtype_size(to));
  if (memcmp(got, wanted, VALUES * crema_dtype_size(to)) != 0) {
    fail_msg("%s to %s differs from the host's conversion", crema_dtype_name(from),
             crema_dtype_name(to));
  }
  cr_device_free(device, a);
  cr_device_free(device, b);
}

TEST(conversions_give_the_hosts_bits) {
  for (int i = 0; i < TYPES; ++i) {
    for (int j = 0; j < TYPES; ++j) convert_one(types[i], types[j]);
  }
  /* Reported at once or, by a device that works later, by the wait. */
  crema_devptr a = device_memory(8);
  crema_status status =
      backend()->convert(context, 1, (cr_format){(crema_dtype)99, NULL}, a, CR_PLAIN_F32, a);
  if (status == CREMA_OK) status = crema_context_finish(context);
  assert_int_equal(status, CREMA_E_TYPE);
  cr_device_free(device, a);
}

/* All halves to floats and back, and floats around every border between two halves, with the host's
 * bits; a NaN stays one, whichever. */
enum { HALVES = 65536, NEAR = 3 };

static bool is_nan_half(uint16_t half) {
  return (half & 0x7fff) > 0x7c00;
}

static void convert_there(crema_dtype to, void *out, crema_dtype from, const void *in, int count) {
  const size_t in_bytes = (size_t)count * crema_dtype_size(from);
  const size_t out_bytes = (size_t)count * crema_dtype_size(to);
  crema_devptr a = device_memory(in_bytes), b = device_memory(out_bytes);
  to_device(a, in, in_bytes);
  ok(backend()->convert(context, count, (cr_format){to, NULL}, b, (cr_format){from, NULL}, a));
  to_host(out, b, out_bytes);
  cr_device_free(device, b);
  cr_device_free(device, a);
}

static void expect_halves(const uint16_t *got, const uint16_t *wanted, int count) {
  for (int i = 0; i < count; ++i) {
    if (is_nan_half(wanted[i]) ? is_nan_half(got[i]) : got[i] == wanted[i]) continue;
    fail_msg("half %d is %#x, not %#x", i, got[i], wanted[i]);
  }
}

TEST(s4_03_every_half_has_the_hosts_bits) {
  static uint16_t half[HALVES], back[HALVES], wanted[NEAR * HALVES], got[NEAR * HALVES];
  static float value[HALVES], near[NEAR * HALVES];
  for (int i = 0; i < HALVES; ++i) half[i] = (uint16_t)i;
  convert_there(CREMA_F32, value, CREMA_F16, half, HALVES);
  convert_there(CREMA_F16, back, CREMA_F32, value, HALVES);
  expect_halves(back, half, HALVES);
  /* The middle between a half and the next one is a tie; its neighbours are not. */
  for (int i = 0; i < HALVES; ++i) {
    const bool last = (i & 0x7fff) >= 0x7bff;
    const float next = last ? (i < 0x8000 ? 65536.0f : -65536.0f) : value[i + 1];
    const float middle = is_nan_half(half[i]) || (i & 0x7fff) == 0x7c00
                             ? value[i]
                             : value[i] + (next - value[i]) / 2;
    near[NEAR * i] = middle;
    near[NEAR * i + 1] = nextafterf(middle, INFINITY);
    near[NEAR * i + 2] = nextafterf(middle, -INFINITY);
  }
  ok(cr_convert_plain(NEAR * HALVES, CREMA_F16, wanted, CREMA_F32, near));
  assert_int_equal(wanted[NEAR * 0x3c01], 0x3c02); /* a tie goes to the even one */
  assert_int_equal(wanted[NEAR * 0x7bff], 0x7c00); /* beyond the largest half */
  convert_there(CREMA_F16, got, CREMA_F32, near, NEAR * HALVES);
  expect_halves(got, wanted, NEAR * HALVES);
}

/* ---- streams and events ---- */

TEST(s1_06_an_event_orders_two_streams) {
  float sent[COUNT], got[COUNT];
  bool done = false, busy = true;
  cr_native_event *event = NULL;
  for (int i = 0; i < COUNT; ++i) sent[i] = (float)i;
  crema_devptr a = device_memory(sizeof sent), b = device_memory(sizeof sent);
  ok(backend()->event_create(device, &event));
  ok(cr_copy_from_cpu(other, a, sent, sizeof sent));
  ok(backend()->event_record(other, event));
  ok(backend()->event_wait(context, event));
  ok(cr_copy_same_device(context, b, a, sizeof sent));
  to_host(got, b, sizeof got);
  assert_memory_equal(got, sent, sizeof sent);
  ok(backend()->event_finish(event));
  ok(backend()->event_query(event, &done));
  assert_true(done);
  if (backend()->busy != NULL) {
    ok(backend()->busy(context, &busy));
    assert_false(busy);
  }
  backend()->event_destroy(event);
  ok(crema_context_finish(other));
  cr_device_free(device, a);
  cr_device_free(device, b);
}

TEST(a_push_reaches_the_device) {
  crema_syncedmem *memory = NULL;
  void *host = NULL;
  crema_devptr at = {0};
  int got[16];
  ok(crema_syncedmem_create(device, sizeof got, &memory));
  ok(crema_syncedmem_mutable_cpu_data(memory, false, &host));
  for (int i = 0; i < 16; ++i) ((int *)host)[i] = i * i;
  ok(crema_syncedmem_async_push(memory, other));
  ok(crema_context_finish(other));
  ok(crema_syncedmem_gpu_data(memory, context, &at));
  to_host(got, at, sizeof got);
  for (int i = 0; i < 16; ++i) assert_int_equal(got[i], i * i);
  crema_syncedmem_destroy(memory);
}

/* ---- several devices ---- */

TEST(peers_exchange_memory) {
  crema_device *peer = NULL;
  char sent[256], got[256];
  if (backend()->can_access_peer == NULL || crema_device_count(backend()->type) < 2) skip();
  ok(crema_device_get(backend()->type, 1, &peer));
  crema_devptr a = device_memory(sizeof sent), b = {0};
  ok(cr_device_alloc(peer, sizeof sent, &b));
  memset(sent, 5, sizeof sent);
  to_device(a, sent, sizeof sent);
  ok(cr_copy_any(b.address, a.address, sizeof sent));
  ok(cr_copy_any((uintptr_t)got, b.address, sizeof got));
  assert_memory_equal(got, sent, sizeof sent);
  cr_device_free(peer, b);
  cr_device_free(device, a);
}

/* ---- kernels ---- */

static void fill(cr_tensor *tensor, const float *from, int count) {
  void *to = NULL;
  ok(cr_tensor_host_write(tensor, &to));
  memcpy(to, from, (size_t)count * sizeof *from);
}

/* The loss of one position whose second class is as likely as both others. */
static crema_status loss_of(float label, float *loss) {
  static const float scores[3] = {0, 0.6931472f, 0};
  const crema_shape row = {2, {1, 3}}, labels = {1, {1}}, one = {0, {0}};
  const cr_op_desc kind = {.kind = CR_OP_SOFTMAX_LOSS_FWD, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  cr_tensor *tensor[5] = {NULL};
  cr_op *op = NULL;
  const void *result = NULL;
  const crema_shape *const shape[5] = {&row, &labels, &row, &one, &one};
  ok(cr_op_describe(&kind, 5, shape, NULL, &desc));
  for (int i = 0; i < 5; ++i) {
    ok(cr_tensor_create(CREMA_F32, shape[i] == &row ? 3 : 1, &tensor[i]));
  }
  fill(tensor[0], scores, 3);
  fill(tensor[1], &label, 1);
  ok(cr_op_create(&desc, &op));
  crema_status status = cr_op_run(op, context, tensor, NULL);
  if (status == CREMA_OK) status = crema_context_finish(context);
  if (status == CREMA_OK) {
    ok(cr_tensor_host_read(tensor[3], &result));
    *loss = *(const float *)result;
  }
  cr_op_destroy(op);
  for (int i = 0; i < 5; ++i) cr_tensor_destroy(tensor[i]);
  return status;
}

/* A kernel cannot return an error; the next wait returns it, once. */
TEST(s1_08_a_bad_label_is_reported_once) {
  float loss = 0;
  ok(loss_of(1, &loss));
  assert_true(loss > 0.6931f && loss < 0.6932f);
  assert_fails(loss_of(7, &loss), CREMA_E_RANGE, "label 7 at position 0 of 1 is outside 0..2");
  ok(crema_context_finish(context));
  ok(loss_of(1, &loss));
}

/* The loss of a net for one position with three equal scores. */
static const char net_text[] =
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param {"
    " shape { dim: 1 dim: 3 } shape { dim: 1 } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label' top: 'loss' }\n";

/* A pass of a net, which has a queue of work of its own, tells of its own labels: when its loss is
 * asked for, or when the blob with the loss is read. */
static crema_status pass_of(crema_net *net, float label, bool asked) {
  float *to = NULL;
  const float *top = NULL;
  double loss = 0;
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &to));
  to[0] = to[1] = to[2] = 0;
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &to));
  *to = label;
  CR_TRY(crema_net_forward(net, asked ? &loss : NULL));
  if (asked) return CREMA_OK;
  return crema_blob_cpu_data(crema_net_output(net, 0), &top);
}

TEST(s1_08_a_bad_label_is_an_error_of_its_own_pass) {
  crema_net *net = NULL;
  crema_net_options options;
  crema_net_options_init(&options);
  options.device = device;
  ok(crema_net_parse(net_text, strlen(net_text), "net", &options, &net));
  for (int asked = 0; asked < 2; ++asked) {
    ok(pass_of(net, 1, asked == 1));
    assert_fails(pass_of(net, 7, asked == 1), CREMA_E_RANGE, "label 7");
    ok(pass_of(net, 2, asked == 1));
  }
  crema_net_destroy(net);
}

static bool open_device(const char *name) {
  crema_device_type type = CREMA_DEVICE_CPU;
  if (strcmp(name, "sim") == 0) type = CREMA_DEVICE_SIM;
  if (strcmp(name, "cuda") == 0) type = CREMA_DEVICE_CUDA;
  if (strcmp(name, "opencl") == 0) type = CREMA_DEVICE_OPENCL;
  return crema_device_get(type, 0, &device) == CREMA_OK &&
         crema_context_create(device, 1, &context) == CREMA_OK &&
         crema_context_create(device, 2, &other) == CREMA_OK;
}

int main(int argc, char **argv) {
  arguments_read = 1; /* the device */
  if (!open_device(argc > 1 ? argv[1] : "cpu")) {
    printf("skipped: %s\n", crema_error_text());
    return SKIPPED;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s1_06_bytes_come_back_as_they_went),
      cmocka_unit_test(ranges_that_overlap_are_refused),
      cmocka_unit_test(page_locked_memory_takes_part_in_copies),
      cmocka_unit_test(addresses_know_their_device),
      cmocka_unit_test(free_memory_is_within_the_total),
      cmocka_unit_test(conversions_give_the_hosts_bits),
      cmocka_unit_test(s4_03_every_half_has_the_hosts_bits),
      cmocka_unit_test(s1_06_an_event_orders_two_streams),
      cmocka_unit_test(a_push_reaches_the_device),
      cmocka_unit_test(peers_exchange_memory),
      cmocka_unit_test(s1_08_a_bad_label_is_reported_once),
      cmocka_unit_test(s1_08_a_bad_label_is_an_error_of_its_own_pass),
  };
  const int failed = run_each_of(tests, NULL, NULL);
  crema_context_destroy(other);
  crema_context_destroy(context);
  return failed;
}
