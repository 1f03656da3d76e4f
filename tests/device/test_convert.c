/* Conversion between plain element types. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/backend/convert.h"
#include "device/backend/half.h"
#include "device/backend/half_blocks.h"
#include "device/device.h"

TEST(s4_03_every_half_round_trips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    uint16_t half = (uint16_t)bits;
    float value = cr_f16_to_f32(half);
    /* Independent value: sign * mantissa * 2^exponent. */
    int exponent = (half >> 10) & 31;
    int mantissa = half & 1023;
    double expected = exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
    if (exponent == 31) {
      assert_true(mantissa == 0 ? isinf(value) : isnan(value));
      if (mantissa != 0) {
        assert_true(isnan(cr_f16_to_f32(cr_f32_to_f16(value))));
        continue;
      }
    } else {
      assert_true(fabs((double)value) == expected);
    }
    assert_int_equal(signbit(value) != 0, half >> 15);
    assert_int_equal(cr_f32_to_f16(value), half);
  }
}

TEST(s4_03_ties_go_to_even) {
  for (uint32_t bits = 0; bits < 0x7bffu; ++bits) {
    double low = (double)cr_f16_to_f32((uint16_t)bits);
    double high = (double)cr_f16_to_f32((uint16_t)(bits + 1));
    float middle = (float)((low + high) / 2);
    assert_int_equal(cr_f32_to_f16(middle), bits + (bits & 1));
    assert_int_equal(cr_f32_to_f16(-middle), 0x8000u | (bits + (bits & 1)));
    assert_int_equal(cr_f32_to_f16(nextafterf(middle, 0)), bits);
    assert_int_equal(cr_f32_to_f16(nextafterf(middle, INFINITY)), bits + 1);
  }
}

TEST(s4_03_overflow_and_nan) {
  assert_int_equal(cr_f32_to_f16(65519.996f), 0x7bff);
  assert_int_equal(cr_f32_to_f16(65520.0f), 0x7c00);
  assert_int_equal(cr_f32_to_f16(-1e30f), 0xfc00);
  assert_int_equal(cr_f32_to_f16(INFINITY), 0x7c00);
  assert_true(isnan(cr_f16_to_f32(cr_f32_to_f16(NAN))));
  assert_true(isnan(cr_bf16_to_f32(cr_f32_to_bf16(NAN))));
}

TEST(bfloat16_rounds_to_even) {
  for (uint32_t bits = 0; bits < 0x7f80u; ++bits) {
    assert_int_equal(cr_f32_to_bf16(cr_bf16_to_f32((uint16_t)bits)), bits);
    assert_int_equal(cr_f32_to_bf16(cr_f32_from_bits((bits << 16) | 0x8000u)), bits + (bits & 1));
    assert_int_equal(cr_f32_to_bf16(cr_f32_from_bits((bits << 16) | 0x8001u)), bits + 1);
  }
}

/* ---- many halves at once, by each code that this processor can run ---- */

enum { HALVES = 1 << 16 };

TEST(s4_03_every_half_has_the_same_bits) {
  static uint16_t half[HALVES];
  static float f16[HALVES], bf16[HALVES];
  for (int i = 0; i < HALVES; ++i) half[i] = (uint16_t)i;
  assert_non_null(cr_half_code_find(0));
  for (int n = 0; cr_half_code_find(n) != NULL; ++n) {
    const cr_half_code *code = cr_half_code_find(n);
    print_message("%s\n", code->name);
    for (int past_caches = 0; past_caches < 2; ++past_caches) {
      code->from_f16(half, HALVES, f16, past_caches != 0);
      code->from_bf16(half, HALVES, bf16, past_caches != 0);
      for (int i = 0; i < HALVES; ++i) {
        assert_int_equal(cr_f32_bits(f16[i]), cr_f32_bits(cr_f16_to_f32(half[i])));
        assert_int_equal(cr_f32_bits(bf16[i]), cr_f32_bits(cr_bf16_to_f32(half[i])));
      }
    }
  }
}

/* All floats around which rounding to either kind of half changes: all upper 19 bits, with the
 * lower 13 at and next to 0 and a tie. The ties of bfloat16, at 16 bits, are among them. */
TEST(s4_03_every_rounding_has_the_same_bits) {
  enum { LOWS = 6, UPPER = 1 << 7, COUNT = LOWS << 12 };
  static const uint32_t low[LOWS] = {0, 1, 0xfff, 0x1000, 0x1001, 0x1fff};
  static float value[COUNT];
  static uint16_t f16[COUNT], bf16[COUNT];
  for (uint32_t upper = 0; upper < UPPER; ++upper) {
    for (uint32_t i = 0; i < COUNT; ++i) {
      value[i] = cr_f32_from_bits(upper << 25 | i / LOWS << 13 | low[i % LOWS]);
    }
    for (int n = 0; cr_half_code_find(n) != NULL; ++n) {
      const cr_half_code *code = cr_half_code_find(n);
      code->to_f16(value, COUNT, f16, n % 2 != 0);
      code->to_bf16(value, COUNT, bf16, n % 2 != 0);
      for (int i = 0; i < COUNT; ++i) {
        if (f16[i] == cr_f32_to_f16(value[i]) && bf16[i] == cr_f32_to_bf16(value[i])) continue;
        fail_msg("%s: %a becomes f16 %#x and bf16 %#x", code->name, (double)value[i], f16[i],
                 bf16[i]);
      }
    }
  }
}

/* Any count from any address, and not a byte more. */
TEST(halves_of_any_count_and_address) {
  enum { MOST = 70, SHIFTS = 33, ROOM = MOST + SHIFTS + 1, GUARD = 0x5555 };
  static float value[ROOM], wide[ROOM];
  static uint16_t half[ROOM], narrow[ROOM];
  for (int i = 0; i < ROOM; ++i) value[i] = (float)(i + 1);
  for (int i = 0; i < ROOM; ++i) half[i] = cr_f32_to_f16(value[i]);
  for (int n = 0; cr_half_code_find(n) != NULL; ++n) {
    const cr_half_code *code = cr_half_code_find(n);
    for (int run = 0; run < 2 * SHIFTS * (MOST + 1); ++run) {
      const int shift = run / 2 % SHIFTS, count = run / 2 / SHIFTS;
      memset(wide, GUARD & 0xff, sizeof wide);
      memset(narrow, GUARD & 0xff, sizeof narrow);
      code->from_f16(half, count, wide + shift, run % 2 != 0);
      code->to_f16(value, count, narrow + shift, run % 2 != 0);
      assert_memory_equal(wide + shift, value, (size_t)count * sizeof *wide);
      assert_memory_equal(narrow + shift, half, (size_t)count * sizeof *narrow);
      assert_int_equal(narrow[shift + count], GUARD);
      assert_int_equal(cr_f32_bits(wide[shift + count]), (uint32_t)GUARD << 16 | GUARD);
      if (shift == 0) continue;
      assert_int_equal(narrow[shift - 1], GUARD);
      assert_int_equal(cr_f32_bits(wide[shift - 1]), (uint32_t)GUARD << 16 | GUARD);
    }
  }
}

/* So many that they are cut between threads and written past the caches. */
TEST(many_halves) {
  enum { COUNT = (1 << 22) + 77 };
  static const crema_dtype types[] = {CREMA_F16, CREMA_BF16};
  float *value = malloc(COUNT * sizeof *value), *back = malloc(COUNT * sizeof *back);
  uint16_t *half = malloc(COUNT * sizeof *half);
  assert_true(value != NULL && back != NULL && half != NULL);
  for (int i = 0; i < COUNT; ++i) value[i] = (float)(i % 251);
  for (int t = 0; t < 2; ++t) {
    ok(cr_convert_plain(COUNT, types[t], half, CREMA_F32, value));
    ok(cr_convert_plain(COUNT, CREMA_F32, back, types[t], half));
    assert_memory_equal(value, back, COUNT * sizeof *value);
  }
  free(half);
  free(back);
  free(value);
}

TEST(doubles_are_rounded_once) {
  /* Just above the middle of 1 and the next half: a float on the way would make it a tie. */
  double value[3] = {1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11, 1 + 0x1p-11 - 0x1p-40};
  uint16_t half[3];
  ok(cr_convert_plain(3, CREMA_F16, half, CREMA_F64, value));
  assert_int_equal(half[0], 0x3c01);
  assert_int_equal(half[1], 0x3c00);
  assert_int_equal(half[2], 0x3c00);
}

TEST(integers_are_limited) {
  float value[8] = {-1e20f, -129, -0.5f, 0.5f, 1.5f, 2.5f, 300, NAN};
  int8_t i8[8];
  uint8_t u8[8];
  int32_t i32[8];
  uint32_t u32[8];
  ok(cr_convert_plain(8, CREMA_I8, i8, CREMA_F32, value));
  ok(cr_convert_plain(8, CREMA_U8, u8, CREMA_F32, value));
  ok(cr_convert_plain(8, CREMA_I32, i32, CREMA_F32, value));
  ok(cr_convert_plain(8, CREMA_U32, u32, CREMA_F32, value));
  const int8_t want_i8[8] = {-128, -128, 0, 0, 2, 2, 127, 0};
  const uint8_t want_u8[8] = {0, 0, 0, 0, 2, 2, 255, 0};
  const int32_t want_i32[8] = {INT32_MIN, -129, 0, 0, 2, 2, 300, 0};
  const uint32_t want_u32[8] = {0, 0, 0, 0, 2, 2, 300, 0};
  assert_memory_equal(i8, want_i8, sizeof i8);
  assert_memory_equal(u8, want_u8, sizeof u8);
  assert_memory_equal(i32, want_i32, sizeof i32);
  assert_memory_equal(u32, want_u32, sizeof u32);
}

/* Small whole numbers survive every pair of types, at counts around the block size. */
TEST(s4_28_every_pair_of_types) {
  const crema_dtype type[] = {CREMA_F64, CREMA_F32,  CREMA_F16, CREMA_I32,
                              CREMA_U32, CREMA_BF16, CREMA_I8,  CREMA_U8};
  enum { TYPES = 8, MOST = 1030 };
  static const int64_t counts[] = {0, 1, 511, 512, 513, 1030};
  static double start[MOST], end[MOST];
  static char a[MOST * 8], b[MOST * 8];
  for (int i = 0; i < MOST; ++i) start[i] = i % 101;
  for (int from = 0; from < TYPES; ++from) {
    for (int to = 0; to < TYPES; ++to) {
      for (size_t c = 0; c < sizeof counts / sizeof counts[0]; ++c) {
        int64_t n = counts[c];
        memset(end, 0x55, sizeof end);
        ok(cr_convert_plain(n, type[from], a, CREMA_F64, start));
        ok(cr_convert_plain(n, type[to], b, type[from], a));
        ok(cr_convert_plain(n, CREMA_F64, end, type[to], b));
        assert_memory_equal(start, end, (size_t)n * sizeof(double));
        if (n < MOST) assert_int_equal(((unsigned char *)end)[n * 8], 0x55);
      }
    }
  }
  assert_fails(cr_convert_plain(1, (crema_dtype)99, a, CREMA_F32, b), CREMA_E_TYPE, "float to ?");
  assert_int_equal(cr_convert_plain(1, CREMA_F32, a, (crema_dtype)99, b), CREMA_E_TYPE);
}

/* All but 0 is true, NaN too; true is 1 in every type, whatever the byte. */
TEST(booleans_are_0_and_1) {
  static const crema_dtype type[] = {CREMA_F64, CREMA_F32,  CREMA_F16, CREMA_I32,
                                     CREMA_U32, CREMA_BF16, CREMA_I8,  CREMA_U8};
  static const double value[] = {0, 1, 3, -0.25, NAN, -0.0};
  static const uint8_t bytes[] = {0, 1, 255};
  double wide[6], back[3];
  float narrow[6];
  uint8_t found[6];
  for (int i = 0; i < 6; ++i) narrow[i] = (float)value[i];
  ok(cr_convert_plain(6, CREMA_BOOL, found, CREMA_F64, value));
  assert_memory_equal(found, ((const uint8_t[]){0, 1, 1, 1, 1, 0}), 6);
  ok(cr_convert_plain(6, CREMA_BOOL, found, CREMA_F32, narrow));
  assert_memory_equal(found, ((const uint8_t[]){0, 1, 1, 1, 1, 0}), 6);
  for (int t = 0; t < 8; ++t) {
    ok(cr_convert_plain(3, type[t], wide, CREMA_BOOL, bytes));
    ok(cr_convert_plain(3, CREMA_F64, back, type[t], wide));
    assert_memory_equal(back, ((const double[]){0, 1, 1}), sizeof back);
    ok(cr_convert_plain(3, CREMA_BOOL, found, type[t], wide));
    assert_memory_equal(found, ((const uint8_t[]){0, 1, 1}), 3);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
