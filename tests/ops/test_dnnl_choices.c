/* Which of oneDNN's implementations convolutions take, where crema prefers one. The program's
 * own dnnl_primitive_create notes them. */
#include <string.h>

#include "device/cpu/onednn/compat.h"
#include "device/cpu/onednn/conv.h"
#include "device/cpu/onednn/primitive.h"
#include "device/device.h"
#include "dnnl_trial.h"
#include "interpose.h"

/* Of the convolution that was made last. */
static char name[128];
static int64_t held_channels; /* of its input, with those that fill it up */

INTERPOSED dnnl_status_t dnnl_primitive_create(dnnl_primitive_t *out,
                                               const_dnnl_primitive_desc_t pd) {
  if (!from_program()) return REAL(dnnl_primitive_create)(out, pd);
  const char *found = NULL;
  dnnl_primitive_kind_t kind = dnnl_undefined_primitive;
  dnnl_primitive_desc_query(pd, dnnl_query_primitive_kind, 0, &kind);
  if (kind == dnnl_convolution &&
      dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&found) == dnnl_success) {
    cr_md_view view = {0};
    snprintf(name, sizeof name, "%s", found);
    cr_const_md src = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, DNNL_ARG_SRC);
    if (src != NULL) cr_md_look(src, &view);
    held_channels = view.blocked ? view.padded_dims[1] : 0;
  }
  return REAL(dnnl_primitive_create)(out, pd);
}

enum { CHANNELS = 64 };

/* 3 x 3 windows with a border of zeros on (n,CHANNELS,height,width). */
static void make_conv(fixture *f, int64_t n, int64_t height, int64_t width, bool winograd) {
  start(f, CR_OP_CONV_FWD);
  f->desc->u.conv.group = 1;
  f->desc->u.conv.winograd = winograd;
  set_window(&f->desc->u.conv.window, 2, 3, 1, 1, 1);
  ADD(f, 'R', n, CHANNELS, height, width);
  ADD(f, 'R', CHANNELS, CHANNELS, 3, 3);
  add_absent(f);
  ADD(f, 'W', n, CHANNELS, height, width);
  name[0] = '\0';
}

/* Whether the library has Winograd's method for this processor. */
static bool has_winograd(void) {
  fixture f;
  cr_dnnl_operands c;
  dnnl_primitive_desc_t pd = NULL;
  make_conv(&f, 1, 56, 56, false);
  const cr_plan plan = {.desc = f.desc, .context = cr_host_context(), .hint = f.hint};
  ok(cr_dnnl_conv_open(&plan, 0, 1, 2, 3, &c));
  bool has = cr_pd_conv_fwd(&pd, &c.env, dnnl_forward_training, dnnl_convolution_winograd, c.src,
                            c.weights, c.bias, c.dst, &c.window) == dnnl_success;
  has = has && cr_dnnl_pd_named(pd, "wino");
  if (pd != NULL) dnnl_primitive_desc_destroy(pd);
  cr_dnnl_operands_close(&c);
  finish(&f);
  return has;
}

/* By the first row that takes it. */
static void plan_op(fixture *f) {
  trial t;
  for (int i = 0; dnnl_row(f->desc->kind, i) != NULL; ++i) {
    if (prepare(&t, f, dnnl_row(f->desc->kind, i)) != CREMA_OK) continue;
    release(&t);
    break;
  }
  finish(f);
}

static void plan_conv(int64_t n, int64_t height, int64_t width, bool winograd) {
  fixture f;
  make_conv(&f, n, height, width, winograd);
  plan_op(&f);
}

static bool is_named(const char *part) {
  return strstr(name, part) != NULL;
}

/* Where it is asked for and there are 784 results per channel or more. */
TEST(winograds_method_is_for_many_positions) {
  static const struct {
    int64_t n, height, width;
    bool asked, taken;
  } rows[] = {{1, 28, 28, true, true},   {2, 14, 28, true, true},   {4, 28, 7, true, true},
              {1, 28, 28, false, false}, {1, 27, 28, true, false},  {1, 28, 27, true, false},
              {2, 14, 14, true, false},  {4, 28, 28, false, false}, {64, 3, 3, true, false}};
  const bool has = has_winograd();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    plan_conv(rows[i].n, rows[i].height, rows[i].width, rows[i].asked);
    assert_true(name[0] != '\0');
    if (is_named("wino") != (has && rows[i].taken)) fail_msg("row %d: %s", (int)i, name);
  }
}

/* The gradient of weights of `kernel` x `kernel` windows over `channels` channels. */
static void plan_weights(int64_t channels, int64_t kernel) {
  fixture f;
  start(&f, CR_OP_CONV_BWD_WEIGHTS);
  f.desc->u.conv.group = 1;
  set_window(&f.desc->u.conv.window, 2, kernel, 1, 0, 1);
  ADD(&f, 'R', 2, channels, 28, 28);
  ADD(&f, 'R', 2, 16, 29 - kernel, 29 - kernel);
  ADD(&f, 'A', 16, channels, kernel, kernel);
  ADD(&f, 'A', 16);
  name[0] = '\0';
  plan_op(&f);
}

static bool has_avx2(void) {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

/* On AVX2 the library makes eight channels of one or two. With 16 values in a window and more a
 * matrix product is taken in place of that. */
TEST(few_channels_are_not_filled_up) {
  for (int64_t channels = 1; channels <= 4; ++channels) {
    for (int64_t kernel = 3; kernel <= 5; ++kernel) {
      const bool long_enough = channels * kernel * kernel >= 16;
      plan_weights(channels, kernel);
      assert_true(name[0] != '\0');
      if (long_enough && held_channels >= 4 * channels) {
        fail_msg("%d channels become %d for %s", (int)channels, (int)held_channels, name);
      }
      if (has_avx2() && (!long_enough || channels > 2)) {
        assert_false(is_named("gemm"));
      }
    }
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
