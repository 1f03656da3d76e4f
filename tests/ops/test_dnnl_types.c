/* The oneDNN rows on values that are shorter than F32: mixed ones, in place, added to. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/device.h"
#include "dnnl_trial.h"

/* Convolutions and inner products of a bf16 and an F32 argument, which gets rounded as the other
 * factor is; weights, biases and their gradients in F32, with bf16 around them. */
TRIAL_TEST(test_mixed_products) {
  static const cr_op_kind kinds[] = {CR_OP_CONV_FWD, CR_OP_CONV_BWD_DATA, CR_OP_CONV_BWD_WEIGHTS,
                                     CR_OP_IP_FWD,   CR_OP_IP_BWD_DATA,   CR_OP_IP_BWD_WEIGHTS};
  for (int k = 0; k < 6; ++k) {
    const bool conv = k < 3, forward = k % 3 == 0, weights = k % 3 == 2;
    const int64_t images[4] = {2, 16, 5, 5}, filters[4] = {16, 16, 3, 3};
    const int64_t rows[2] = {4, 24}, matrix[2] = {24, 24};
    const int axes = conv ? 4 : 2;
    const int64_t *values = conv ? images : rows, *factors = conv ? filters : matrix;
    fixture f;
    start(&f, kinds[k]);
    if (conv) set_window(&f.desc->u.conv.window, 2, 3, 1, 1, 1);
    if (conv) f.desc->u.conv.group = 1;
    add(&f, 'R', CREMA_F32, axes, values);
    add(&f, 'R', CREMA_F32, axes, weights ? values : factors);
    if (weights) add(&f, 'A', CREMA_F32, axes, factors);
    if (forward || weights) ADD(&f, forward ? 'R' : 'A', conv ? 16 : 24);
    if (!weights) add(&f, 'W', CREMA_F32, axes, values);
    const cr_kernel *row = NULL;
    for (int n = 0; (row = dnnl_row(kinds[k], n)) != NULL; ++n) {
      if (!cr_kernel_takes(row, CREMA_BF16)) continue;
      /* Argument 0 alone, all but weights and biases, and all but the biases. */
      const unsigned last = 1u << (f.desc->args - 1);
      const unsigned which[] = {1u, weights ? 3u : 1u | last, weights ? 7u : 3u | last};
      for (int w = 0; w < 3; ++w) {
        /* F32 factors are rounded to bf16: products are off by half a step of theirs. */
        assert_int_equal(row_agrees_in(&f, row, CREMA_BF16, which[w], 2e-2), multiplies_bf16());
      }
    }
    finish(&f);
  }
}

/* The gradient of LRN in bf16, from the data that forward in bf16 left. */
TRIAL_TEST(test_lrn_bf16) {
  int accepted = 0;
  for (int order = 0; order < ORDERS; ++order) {
    const cr_op_kind kinds[] = {CR_OP_LRN_FWD, CR_OP_LRN_BWD};
    fixture f[2], values[2], rounded[2];
    trial t[2], want;
    for (int k = 0; k < 2; ++k) {
      start(&f[k], kinds[k]);
      f[k].desc->u.lrn = (cr_lrn_params){5, 0.5f, 0.75f, 2.0f, false};
      ADD(&f[k], 'R', 2, 16, 9, 9);
      ADD(&f[k], k == 0 ? 'W' : 'R', 2, 16, 9, 9);
      if (k == 1) ADD(&f[k], 'R', 2, 16, 9, 9);
      ADD_TYPE(&f[k], k == 0 ? 'W' : 'R', CREMA_U8, 2, 16, 9, 9);
      if (k == 1) ADD(&f[k], 'W', 2, 16, 9, 9);
      hold(&f[k], all_orders[order]);
      if (k == 1) memcpy(f[1].value[0], f[0].value[0], value_bytes(&f[0], 0));
      shorten(&f[k], CREMA_BF16, ~0u, &values[k], &rounded[k]);
    }
    if (prepare(&t[0], &values[0], dnnl_row(CR_OP_LRN_FWD, 1)) == CREMA_OK) {
      execute(&t[0], &values[0]);
      free(values[1].value[1]);
      values[1].value[1] = fetch(&t[0], &values[0], 1);
      cr_load_floats(CREMA_BF16, values[1].value[1], 0, 2 * 16 * 81, rounded[1].value[1]);
      values[1].hint[3] = t[0].format[2];
      ok(prepare(&t[1], &values[1], dnnl_row(CR_OP_LRN_BWD, 0)));
      if (t[0].format[2].layout != NULL) {
        memcpy(t[1].memory[3], t[0].memory[2], t[0].format[2].layout->bytes);
      }
      execute(&t[1], &values[1]);
      ok(prepare(&want, &rounded[1], ref_row(CR_OP_LRN_BWD)));
      execute(&want, &rounded[1]);
      void *got = fetch(&t[1], &values[1], 4);
      float wide[2 * 16 * 81];
      cr_load_floats(CREMA_BF16, got, 0, 2 * 16 * 81, wide);
      compare_values(&rounded[1], 4, wide, want.memory[4], 0x1p-7);
      free(got);
      release(&want);
      release(&t[1]);
      release(&t[0]);
      ++accepted;
    }
    for (int k = 0; k < 2; ++k) {
      finish(&rounded[k]);
      finish(&values[k]);
      finish(&f[k]);
    }
  }
  if (multiplies_bf16()) assert_true(accepted > 0);
}

/* Nothing between the two short types, nor results of another type than the values. */
TEST(test_declined_types) {
  for (int k = 0; k < 4; ++k) {
    fixture f;
    start(&f, k == 0 ? CR_OP_IP_FWD : k == 1 ? CR_OP_UNARY_FWD : k == 2 ? CR_OP_SUM : CR_OP_CONCAT);
    f.desc->u.axis = 0;
    if (k == 0) f.desc->u.ip.transpose = false;
    if (k == 1) f.desc->u.unary.function = CR_UNARY_RELU;
    ADD_TYPE(&f, 'R', CREMA_BF16, 2, 16, 3, 3);
    if (k == 0) ADD_TYPE(&f, 'R', CREMA_BF16, 2, 16 * 9);
    if (k == 0) add_absent(&f);
    if (k == 0) ADD_TYPE(&f, 'W', CREMA_F16, 2, 2);
    else ADD_TYPE(&f, 'W', CREMA_F32, 2, 16, 3, 3);
    trial t;
    const cr_kernel *row = NULL;
    for (int n = 0; (row = dnnl_row(f.desc->kind, n)) != NULL; ++n) {
      if (!cr_kernel_takes(row, CREMA_BF16)) continue;
      assert_int_equal(prepare(&t, &f, row), CREMA_E_UNSUPPORTED);
    }
    finish(&f);
  }
}

/* A result that may take the place of the source does so in bf16 too. */
TRIAL_TEST(test_in_place_bf16) {
  for (int k = 0; k < 2; ++k) {
    fixture f, values, rounded;
    if (k == 0) {
      make_affine(&f, CR_OP_AFFINE_FWD, 19, 20, 0);
      hold_images(&f, 5, 4, all_orders[3]);
    } else {
      start(&f, CR_OP_SUM);
      ADD(&f, 'R', 2, 16, 9, 9);
      ADD(&f, 'R', 2, 16, 9, 9);
      ADD(&f, 'W', 2, 16, 9, 9);
      hold(&f, all_orders[2]);
    }
    const int written = f.desc->args - 1;
    shorten(&f, CREMA_BF16, ~0u, &values, &rounded);
    trial apart, together;
    const cr_kernel *row = dnnl_row(f.desc->kind, 0);
    ok(prepare(&apart, &values, row));
    ok(prepare(&together, &values, row));
    execute(&apart, &values);
    void *own = together.memory[written];
    together.memory[written] = together.memory[0];
    execute(&together, &values);
    together.memory[written] = own;
    assert_memory_equal(together.memory[0], apart.memory[written],
                        together.format[0].layout->bytes);
    release(&together);
    release(&apart);
    finish(&rounded);
    finish(&values);
    finish(&f);
  }
}

/* ReLU of halves in private layouts, where the library has no code for them, gives what the
 * reference kernel gives in F32, rounded. */
TRIAL_TEST(test_relu_of_halves) {
  const crema_dtype types[] = {CREMA_F16, CREMA_BF16};
  for (int k = 0; k < 16; ++k) {
    const bool backward = k % 2 != 0;
    fixture f, values, rounded;
    trial mine, reference;
    start(&f, backward ? CR_OP_UNARY_BWD : CR_OP_UNARY_FWD);
    f.desc->u.unary.function = CR_UNARY_RELU;
    f.desc->u.unary.alpha = k / 2 % 2 != 0 ? 0.25f : 0.0f;
    for (int i = 0; i < (backward ? 3 : 1); ++i) ADD(&f, 'R', 2, 20, 9, 7);
    ADD(&f, 'W', 2, 20, 9, 7);
    hold(&f, all_orders[k / 4 % 2 + 2]);
    shorten(&f, types[k / 8], ~0u, &values, &rounded);
    const cr_kernel *row = dnnl_row(f.desc->kind, 1);
    assert_string_equal(row->name, backward ? "unary_bwd_fast" : "unary_fwd_fast");
    ok(prepare(&mine, &values, row));
    ok(prepare(&reference, &rounded, ref_row(f.desc->kind)));
    execute(&mine, &values);
    execute(&reference, &rounded);
    const int written = f.desc->args - 1;
    float *want = fetch(&reference, &rounded, written);
    uint16_t *got = fetch(&mine, &values, written);
    for (int i = 0; i < 2 * 20 * 9 * 7; ++i) {
      uint16_t half = 0;
      cr_store_floats(types[k / 8], &half, 0, 1, &want[i]);
      assert_int_equal(got[i], half);
    }
    free(got);
    free(want);
    release(&reference);
    release(&mine);
    finish(&rounded);
    finish(&values);
    finish(&f);
  }
}

/* A gradient in bf16 that is added to: the old value counts once. */
TEST(test_accumulate_bf16) {
  for (int order = 1; order < 4; order += 2) {
    fixture f, values, rounded;
    trial t;
    make_affine(&f, CR_OP_AFFINE_BWD_BIAS, 3, 4, 0);
    for (int i = 0; i < 3 * 3 * 4; ++i) ((float *)f.value[0])[i] = (float)(i / 4 % 3 + 1);
    hold_images(&f, 2, 2, all_orders[order]);
    shorten(&f, CREMA_BF16, ~0u, &values, &rounded);
    ok(prepare(&t, &values, dnnl_row(CR_OP_AFFINE_BWD_BIAS, 0)));
    const float old[3] = {0.5f, -2.0f, 100.0f};
    cr_store_floats(CREMA_BF16, t.memory[1], 0, 3, old);
    execute_on(&t, &values, true);
    for (int c = 0; c < 3; ++c) {
      float sum = 0.0f;
      cr_load_floats(CREMA_BF16, t.memory[1], c, 1, &sum);
      assert_float_equal(sum, old[c] + 12.0f * (float)(c + 1), 0.0f);
    }
    release(&t);
    finish(&rounded);
    finish(&values);
    finish(&f);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
