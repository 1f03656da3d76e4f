/* Blobs of several element types through the public calls. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "crema/crema.h"
#include "memory/blob.h"

static crema_blob *new_blob(int64_t count, crema_dtype data, crema_dtype diff) {
  crema_shape shape = {.axes = 1, .dim = {count}};
  crema_blob *blob = NULL;
  ok(crema_blob_create_typed(&shape, data, diff, &blob));
  return blob;
}

/* Each takes memory when it is first used, whatever shape the blob had before. */
TEST(s4_32_data_and_diff_have_types_of_their_own) {
  crema_shape shape = {.axes = 1, .dim = {3}};
  crema_blob *blob = new_blob(3, CREMA_F16, CREMA_F64);
  const void *value = NULL;
  assert_int_equal(crema_blob_data_type(blob), CREMA_F16);
  assert_int_equal(crema_blob_diff_type(blob), CREMA_F64);
  ok(crema_blob_diff_as(blob, CREMA_F64, &value));
  for (int i = 0; i < 3; ++i) assert_true(((const double *)value)[i] == 0);
  assert_true(crema_blob_memory_read(blob).data_host == 0);
  assert_true(crema_blob_memory_read(blob).diff_host >= 3 * sizeof(double));
  shape.dim[0] = 1000;
  ok(crema_blob_reshape(blob, &shape));
  ok(crema_blob_data_as(blob, CREMA_F16, &value));
  assert_true(crema_blob_memory_read(blob).data_host >= 2000);
  assert_true(crema_blob_memory_read(blob).diff_host < 8000);
  shape.dim[0] = 3;
  crema_blob_destroy(blob);
  blob = NULL;
  assert_int_equal(crema_blob_create_typed(&shape, (crema_dtype)9, CREMA_F32, &blob), CREMA_E_TYPE);
  assert_null(blob);
}

/* Everything changes sides with the blobs, and no value moves. */
TEST(s4_32_two_blobs_change_places) {
  crema_blob *a = new_blob(2, CREMA_F16, CREMA_F32), *b = new_blob(5, CREMA_F16, CREMA_F32);
  void *of_a = NULL, *of_b = NULL;
  const void *value = NULL;
  float *diff = NULL;
  const float *read = NULL;
  ok(crema_blob_mutable_data_as(a, CREMA_F16, &of_a));
  memcpy(of_a, (const uint16_t[]){0x3c00, 0x4000}, 4);
  ok(crema_blob_mutable_data_as(b, CREMA_F16, &of_b));
  ((uint16_t *)of_b)[4] = 0xc000;
  ok(crema_blob_mutable_cpu_diff(b, &diff));
  diff[4] = 7;
  ok(crema_blob_swap(a, b));
  assert_int_equal(crema_blob_count(a), 5);
  assert_int_equal(crema_blob_count(b), 2);
  ok(crema_blob_data_as(a, CREMA_F16, &value));
  assert_ptr_equal(value, of_b);
  assert_int_equal(((const uint16_t *)value)[4], 0xc000);
  ok(crema_blob_data_as(b, CREMA_F32, &value));
  assert_true(((const float *)value)[1] == 2);
  ok(crema_blob_cpu_diff(a, &read));
  assert_true(read == diff && read[4] == 7);
  ok(crema_blob_cpu_diff(b, &read));
  assert_true(read[0] == 0);
  ok(crema_blob_swap(a, a));
  assert_int_equal(crema_blob_count(a), 5);
  crema_blob_destroy(b);
  crema_blob_destroy(a);
}

/* What others have or hold is not taken from under them, and what is refused changes nothing. */
TEST(s4_32_what_others_have_is_not_exchanged) {
  crema_blob *a = new_blob(2, CREMA_F32, CREMA_F32), *b = new_blob(2, CREMA_F32, CREMA_F32);
  crema_blob *sharer = new_blob(2, CREMA_F32, CREMA_F32), *half = new_blob(2, CREMA_F32, CREMA_F16);
  crema_view *view = NULL;
  float *data = NULL;
  const float *read = NULL;
  ok(crema_blob_mutable_cpu_data(a, &data));
  data[1] = 3;
  assert_fails(crema_blob_swap(a, half), CREMA_E_TYPE, "types float and float16");
  ok(cr_blob_share_diff(sharer, b));
  assert_fails(crema_blob_swap(a, b), CREMA_E_STATE, "share");
  crema_blob_destroy(sharer);
  ok(crema_blob_view_data(b, &view));
  assert_fails(crema_blob_swap(a, b), CREMA_E_STATE, "hold");
  crema_view_release(view);
  ok(crema_blob_cpu_data(a, &read));
  assert_ptr_equal(read, data);
  crema_blob_destroy(half);
  crema_blob_destroy(b);
  crema_blob_destroy(a);
}

/* Reading in turns in three types converts once to each; the type of the blob stays its own. */
TEST(s4_27_s4_33_a_read_converts_once_and_keeps_both) {
  crema_blob *blob = new_blob(3, CREMA_F16, CREMA_F32);
  void *out = NULL;
  const void *value = NULL;
  ok(crema_blob_mutable_data_as(blob, CREMA_F16, &out));
  memcpy(out, (const uint16_t[]){0x3c00, 0xc100, 0x7bff}, 6); /* 1, -2.5, 65504 */
  assert_int_equal(crema_blob_conversions(blob), 0);
  for (int i = 0; i < 4; ++i) {
    ok(crema_blob_data_as(blob, CREMA_F32, &value));
    assert_true(((const float *)value)[1] == -2.5F && ((const float *)value)[2] == 65504);
    ok(crema_blob_data_as(blob, CREMA_F64, &value));
    assert_true(((const double *)value)[1] == -2.5);
    ok(crema_blob_data_as(blob, CREMA_F16, &value));
    assert_int_equal(((const uint16_t *)value)[1], 0xc100);
    ok(crema_blob_data_as(blob, CREMA_I32, &value));
    assert_int_equal(((const int32_t *)value)[1], -2);
  }
  assert_int_equal(crema_blob_conversions(blob), 3);
  assert_int_equal(crema_blob_data_type(blob), CREMA_F16);
  crema_blob_destroy(blob);
}

/* Written as float, read as half, and the other way round; a write with the precision of floats
 * keeps it. */
TEST(s4_29_a_write_makes_other_types_stale) {
  crema_blob *blob = new_blob(2, CREMA_BF16, CREMA_F32);
  void *out = NULL;
  const void *value = NULL;
  ok(crema_blob_data_as(blob, CREMA_BF16, &value));
  ok(crema_blob_mutable_data_as(blob, CREMA_F32, &out));
  ((float *)out)[0] = 1.00390625F; /* half a unit above 1: a tie, to even */
  ((float *)out)[1] = 3;
  ok(crema_blob_data_as(blob, CREMA_BF16, &value));
  assert_int_equal(((const uint16_t *)value)[0], 0x3f80);
  assert_int_equal(((const uint16_t *)value)[1], 0x4040);
  ok(crema_blob_data_as(blob, CREMA_F32, &value));
  assert_true(((const float *)value)[0] == 1.00390625F);
  ok(crema_blob_mutable_data_as(blob, CREMA_BF16, &out));
  ((uint16_t *)out)[1] = 0xc000;
  ok(crema_blob_data_as(blob, CREMA_F32, &value));
  assert_true(((const float *)value)[0] == 1 && ((const float *)value)[1] == -2);
  ok(crema_blob_mutable_diff_as(blob, CREMA_F64, &out));
  ((double *)out)[0] = 0.1;
  ok(crema_blob_diff_as(blob, CREMA_F64, &value));
  assert_true(((const double *)value)[0] == 0.1);
  const float *floats = NULL;
  ok(crema_blob_cpu_diff(blob, &floats));
  assert_true(floats[0] == 0.1F);
  crema_blob_destroy(blob);
}

TEST(s4_34_a_typed_blob_refuses_other_types) {
  crema_blob *blob = new_blob(2, CREMA_F16, CREMA_F32);
  void *out = NULL;
  const void *value = NULL;
  float *floats = NULL;
  const float *read = NULL;
  crema_blob_set_typed(blob, true);
  assert_fails(crema_blob_data_as(blob, CREMA_F32, &value), CREMA_E_TYPE,
               "the data has type float16");
  assert_error_has("accessed as float");
  assert_fails(crema_blob_mutable_data_as(blob, CREMA_BF16, &out), CREMA_E_TYPE, "bfloat16");
  assert_fails(crema_blob_mutable_diff_as(blob, CREMA_F16, &out), CREMA_E_TYPE,
               "the diff has type float and");
  assert_int_equal(crema_blob_cpu_data(blob, &read), CREMA_E_TYPE);
  assert_int_equal(crema_blob_mutable_cpu_data(blob, &floats), CREMA_E_TYPE);
  assert_int_equal(crema_blob_conversions(blob), 0);
  ok(crema_blob_mutable_cpu_diff(blob, &floats));
  ok(crema_blob_mutable_data_as(blob, CREMA_F16, &out));
  crema_blob_set_typed(blob, false);
  ok(crema_blob_data_as(blob, CREMA_F32, &value));
  assert_int_equal(crema_blob_data_as(blob, (crema_dtype)9, &value), CREMA_E_TYPE);
  crema_blob_destroy(blob);
}

/* Every type of integers: written as it is, read as doubles and as another type of integers, which
 * limits it to its range; written as floats, rounded. */
TEST(s4_33_integers_are_replicas_too) {
  static const struct {
    crema_dtype type;
    double least, most; /* what floats beyond the range become */
  } types[] = {{CREMA_I32, INT32_MIN, INT32_MAX},
               {CREMA_U32, 0, UINT32_MAX},
               {CREMA_BOOL, 1, 1},
               {CREMA_I8, -128, 127},
               {CREMA_U8, 0, 255}};
  for (size_t t = 0; t < sizeof types / sizeof *types; ++t) {
    crema_blob *blob = new_blob(5, types[t].type, CREMA_F32);
    bool is_bool = types[t].type == CREMA_BOOL;
    void *out = NULL;
    const void *value = NULL;
    ok(crema_blob_mutable_data_as(blob, CREMA_F64, &out));
    memcpy(out, ((const double[]){-1e300, 1e300, 2.5, 3.5, 0}), 40);
    ok(crema_blob_data_as(blob, types[t].type, &value));
    crema_blob_set_typed(blob, true);
    ok(crema_blob_mutable_data_as(blob, types[t].type, &out));
    assert_int_equal(crema_blob_data_as(blob, CREMA_F64, &value), CREMA_E_TYPE);
    crema_blob_set_typed(blob, false);
    ok(crema_blob_data_as(blob, CREMA_F64, &value));
    const double *found = value;
    assert_true(found[0] == types[t].least && found[1] == types[t].most);
    assert_true(found[2] == (is_bool ? 1 : 2) && found[3] == (is_bool ? 1 : 4) && found[4] == 0);
    ok(crema_blob_data_as(blob, CREMA_I8, &value));
    assert_int_equal(((const int8_t *)value)[1], is_bool ? 1 : 127);
    assert_int_equal(crema_blob_conversions(blob), types[t].type == CREMA_I8 ? 2 : 3);
    assert_int_equal(crema_blob_data_type(blob), types[t].type);
    crema_blob_destroy(blob);
  }
}

/* Data and diff alike; what is refused changes nothing. */
TEST(s4_35_sharers_have_one_type) {
  crema_blob *halves = new_blob(2, CREMA_F16, CREMA_F32),
             *floats = new_blob(2, CREMA_F32, CREMA_F64);
  crema_blob *other = new_blob(2, CREMA_F16, CREMA_F64), *three = new_blob(3, CREMA_F16, CREMA_F64);
  void *out = NULL;
  const void *value = NULL;
  ok(crema_blob_mutable_data_as(halves, CREMA_F16, &out));
  memcpy(out, (const uint16_t[]){0x3c00, 0x4000}, 4);
  assert_fails(cr_blob_share_data(halves, floats), CREMA_E_TYPE,
               "a tensor of type float16 cannot share values of type float");
  assert_fails(cr_blob_share_diff(halves, floats), CREMA_E_TYPE, "type float cannot");
  assert_fails(cr_blob_share_data(halves, halves), CREMA_E_ARGUMENT, "with itself");
  assert_fails(cr_blob_share_data(three, halves), CREMA_E_SHAPE, "3 values cannot share the 2");
  assert_int_equal(crema_blob_data_type(halves), CREMA_F16);
  ok(crema_blob_data_as(halves, CREMA_F16, &value));
  assert_memory_equal(value, ((const uint16_t[]){0x3c00, 0x4000}), 4);
  ok(cr_blob_share_data(other, halves));
  ok(cr_blob_share_diff(other, floats));
  ok(crema_blob_mutable_data_as(other, CREMA_F16, &out));
  ((uint16_t *)out)[1] = 0x4200;
  ok(crema_blob_data_as(halves, CREMA_F32, &value));
  assert_true(((const float *)value)[1] == 3);
  crema_blob_destroy(three);
  crema_blob_destroy(other);
  crema_blob_destroy(floats);
  crema_blob_destroy(halves);
}

/* From each type to each: the target keeps its type, the source its values. */
TEST(s4_37_copies_are_converted) {
  static const crema_dtype types[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16,
                                      CREMA_I32, CREMA_U32, CREMA_I8,  CREMA_U8};
  enum { TYPES = sizeof types / sizeof *types };
  for (int n = 0; n < TYPES * TYPES; ++n) {
    crema_blob *from = new_blob(3, types[n % TYPES], types[n / TYPES]);
    crema_blob *to = new_blob(3, types[n / TYPES], types[n % TYPES]);
    void *out = NULL;
    const void *value = NULL;
    ok(crema_blob_mutable_data_as(from, CREMA_I32, &out));
    memcpy(out, (const int32_t[]){3, 0, 96}, 12);
    ok(crema_blob_copy_data(to, from));
    ok(crema_blob_copy_diff(to, from));
    assert_int_equal(crema_blob_data_type(to), types[n / TYPES]);
    ok(crema_blob_data_as(from, CREMA_I32, &value));
    assert_memory_equal(value, ((const int32_t[]){3, 0, 96}), 12);
    ok(crema_blob_data_as(to, types[n / TYPES], &value));
    ok(crema_blob_data_as(to, CREMA_F64, &value));
    assert_memory_equal(value, ((const double[]){3, 0, 96}), 24);
    ok(crema_blob_diff_as(to, CREMA_F64, &value));
    assert_true(((const double *)value)[2] == 0);
    crema_blob_destroy(to);
    crema_blob_destroy(from);
  }
}

TEST(s4_05_the_largest_value) {
  static const crema_dtype types[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16};
  double most = -1;
  for (int t = 0; t < 4; ++t) {
    crema_blob *blob = new_blob(3, types[t], CREMA_I32);
    float *data = NULL;
    ok(crema_blob_amax_data(blob, &most));
    assert_true(most == 0);
    ok(crema_blob_mutable_cpu_data(blob, &data));
    data[0] = 1.5F;
    data[1] = -7;
    data[2] = 6;
    ok(crema_blob_amax_data(blob, &most));
    assert_true(most == 7);
    ok(crema_blob_mutable_cpu_data(blob, &data));
    data[0] = -INFINITY;
    ok(crema_blob_amax_data(blob, &most));
    assert_true(isinf(most) && most > 0);
    ok(crema_blob_mutable_cpu_data(blob, &data));
    data[1] = NAN;
    ok(crema_blob_amax_data(blob, &most));
    assert_true(isnan(most));
    assert_int_equal(crema_blob_amax_diff(blob, &most), CREMA_E_TYPE);
    crema_blob_destroy(blob);
  }
}

TEST(s4_04_the_state_as_text) {
  crema_blob *blob = new_blob(30, CREMA_F16, CREMA_F32);
  float *data = NULL;
  const void *value = NULL;
  char text[CREMA_BLOB_TEXT], small[8];
  ok(crema_blob_mutable_cpu_data(blob, &data));
  for (int i = 0; i < 30; ++i) data[i] = (float)i / 2;
  data[3] = NAN;
  data[25] = -INFINITY;
  ok(crema_blob_data_as(blob, CREMA_F16, &value));
  ok(crema_blob_mutable_cpu_data(blob, &data));
  crema_blob_set_typed(blob, true);
  ok(crema_blob_text(blob, text, sizeof text));
  assert_string_equal(text,
                      "blob 30 (30), typed\n"
                      "data: 30 values of type float16\n"
                      "  float for CPU 0: valid, written last, on the host\n"
                      "  float16 for CPU 0: stale, on the host\n"
                      "  memory: 180 bytes on the host, 0 on devices\n"
                      "  values: 0 0.5 1 nan 2 2.5 3 3.5 4 4.5 5 5.5 6 6.5 7 7.5 8 8.5 9 9.5 ...\n"
                      "  not finite: 3 (nan), 25 (-inf)\n"
                      "diff: 30 values of type float, all zero\n"
                      "  memory: 0 bytes on the host, 0 on devices\n");
  assert_int_equal(crema_blob_conversions(blob), 1);
  for (int i = 0; i < 30; ++i) data[i] = INFINITY;
  ok(crema_blob_text(blob, text, sizeof text));
  assert_non_null(strstr(text, " 19 (inf)\n"));
  assert_null(strstr(text, "20 (inf)"));
  ok(crema_blob_text(blob, small, sizeof small));
  assert_string_equal(small, "blob 30");
  /* Just enough, and one byte less. */
  char exact[CREMA_BLOB_TEXT];
  const size_t length = strlen(text);
  for (size_t size = length; size <= length + 2; ++size) {
    memset(exact, 'x', sizeof exact);
    ok(crema_blob_text(blob, exact, size));
    assert_int_equal(strlen(exact), size > length ? length : length - 1);
    assert_memory_equal(exact, text, strlen(exact));
    assert_int_equal(exact[size], 'x');
  }
  crema_blob_destroy(blob);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s4_32_data_and_diff_have_types_of_their_own),
      cmocka_unit_test(s4_32_two_blobs_change_places),
      cmocka_unit_test(s4_32_what_others_have_is_not_exchanged),
      cmocka_unit_test(s4_27_s4_33_a_read_converts_once_and_keeps_both),
      cmocka_unit_test(s4_29_a_write_makes_other_types_stale),
      cmocka_unit_test(s4_34_a_typed_blob_refuses_other_types),
      cmocka_unit_test(s4_33_integers_are_replicas_too),
      cmocka_unit_test(s4_35_sharers_have_one_type),
      cmocka_unit_test(s4_37_copies_are_converted),
      cmocka_unit_test(s4_05_the_largest_value),
      cmocka_unit_test(s4_04_the_state_as_text),
  };
  return run_each_of(tests, NULL, NULL);
}
