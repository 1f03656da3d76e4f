/* Tensors as text: which formats are held where, the first values, and those that are not finite.
 */
#include "memory/tensor_text.h"

#include <math.h>

#include "device/memory/device_memory.h"
#include "memory/sim_fixture.h"
#include "memory/tensor.h"

enum { LONG = 3000 };

static cr_tensor *make(int64_t count) {
  cr_tensor *tensor = NULL;
  ok(cr_tensor_create(CREMA_F32, count, &tensor));
  return tensor;
}

static float *written(cr_tensor *tensor) {
  float *values = NULL;
  ok(cr_tensor_host_write_floats(tensor, &values));
  for (int64_t i = 0; i < cr_tensor_count(tensor); ++i) values[i] = (float)i;
  return values;
}

static void reads(cr_tensor *tensor, const char *text) {
  cr_buffer out = {0};
  ok(cr_tensor_print(tensor, &out));
  assert_string_equal((const char *)out.data, text);
  cr_buffer_free(&out);
}

TEST(no_values_and_zeros) {
  cr_tensor *none = make(0), *zero = make(3);
  reads(zero, "3 values of type float, all zero\n  memory: 0 bytes on the host, 0 on devices\n");
  (void)written(none);
  reads(none,
        "0 values of type float\n  float for CPU 0: valid, written last, on the host\n"
        "  memory: 0 bytes on the host, 0 on devices\n");
  cr_tensor_destroy(none);
  cr_tensor_destroy(zero);
}

/* Twenty are shown, and more said to follow. */
TEST(the_first_values) {
  for (int count = 19; count <= 21; ++count) {
    cr_tensor *tensor = make(count);
    cr_buffer out = {0};
    (void)written(tensor);
    ok(cr_tensor_print(tensor, &out));
    const char *line = strstr((const char *)out.data, "  values:");
    assert_non_null(line);
    assert_string_equal(
        line, count == 19   ? "  values: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n"
              : count == 20 ? "  values: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19\n"
                            : "  values: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ...\n");
    cr_buffer_free(&out);
    cr_tensor_destroy(tensor);
  }
}

/* Wherever they are; the first twenty of them. */
TEST(values_that_are_not_finite) {
  cr_tensor *tensor = make(LONG);
  cr_buffer out = {0};
  float *values = written(tensor);
  values[1023] = NAN;
  values[1024] = INFINITY;
  values[LONG - 1] = -INFINITY;
  ok(cr_tensor_print(tensor, &out));
  assert_non_null(
      strstr((const char *)out.data, " ...\n  not finite: 1023 (nan), 1024 (inf), 2999 (-inf)\n"));
  cr_buffer_free(&out);
  values = written(tensor);
  for (int i = 1010; i < 1040; ++i) values[i] = NAN;
  ok(cr_tensor_print(tensor, &out));
  assert_non_null(strstr((const char *)out.data, "  not finite: 1010 (nan), "));
  assert_non_null(strstr((const char *)out.data, ", 1029 (nan)\n"));
  cr_buffer_free(&out);
  cr_tensor_destroy(tensor);
}

TEST(stale_formats_in_layouts) {
  static const cr_layout layout = {.type = CREMA_F32, .shape = {1, {2}}, .bytes = 64};
  cr_tensor *tensor = make(2);
  crema_devptr data = {0};
  ok(cr_tensor_write(tensor, cr_host_context(), (cr_format){CREMA_F32, &layout}, &data));
  cr_tensor_set_zero(tensor);
  reads(tensor,
        "2 values of type float, all zero\n"
        "  float (private layout) for CPU 0: stale, written last, on the host\n"
        "  memory: 64 bytes on the host, 0 on devices\n");
  cr_tensor_destroy(tensor);
}

TEST(formats_and_where_they_are) {
  sim_begin_devices(1);
  crema_device *device = sim_test_device(0);
  crema_context *context = sim_test_context(device);
  cr_tensor *tensor = make(2), *sharer = make(2);
  crema_devptr data = {0}, theirs = {0};
  float mine[2] = {5, 6};
  ok(cr_device_alloc(device, sizeof mine, &theirs));
  (void)written(tensor);
  ok(cr_tensor_read(tensor, context, CR_PLAIN_F32, &data));
  ok(cr_tensor_share(sharer, tensor));
  reads(tensor,
        "2 values of type float\n  float for device 0: valid, written last, on the host and the "
        "device\n"
        "  memory: 8 bytes on the host, 8 on devices; shared\n  values: 0 1\n");
  cr_tensor_destroy(sharer);
  ok(cr_tensor_adopt(tensor, device, CREMA_F32, theirs, mine));
  reads(tensor,
        "2 values of type float\n"
        "  float for device 0: valid, written last, on the host and the device, memory of the "
        "caller\n"
        "  memory: 0 bytes on the host, 0 on devices\n  values: 5 6\n");
  cr_tensor_destroy(tensor);
  cr_device_free(device, theirs);
  crema_context_destroy(context);
  sim_end();
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
