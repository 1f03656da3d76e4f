/* Convolution with 1 to 3 spatial axes, groups, dilation and post operations. All layouts
 * are oneDNN's choice. */
#include "device/cpu/onednn/conv.h"
#include "core/fail.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/onednn/primitive.h"

/* weights (O,C/g,K...) of several groups are (g,O/g,C/g,K...) for the library. */
static crema_status weights_md(const cr_plan *plan, int arg, crema_dtype type, cr_md *out) {
  const crema_shape *shape = &plan->desc->arg[arg].shape;
  int64_t group = plan->desc->u.conv.group;
  if (group == 1) return cr_dnnl_md_any(plan, arg, type, out);
  if (group < 1 || shape->dim[0] % group != 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "groups do not divide the channels");
  }
  dnnl_data_type_t element = dnnl_f32;
  CR_TRY(cr_dnnl_type(type, &element));
  dnnl_dims_t dims;
  dims[0] = group;
  dims[1] = shape->dim[0] / group;
  for (int i = 1; i < shape->axes; ++i) {
    dims[i + 1] = shape->dim[i];
    if (dims[i + 1] < 1) return cr_fail(CREMA_E_UNSUPPORTED, "an empty shape");
  }
  return cr_dnnl_check(cr_md_create_tag(out, shape->axes + 1, dims, element, dnnl_format_tag_any),
                       "memory");
}

crema_status cr_dnnl_conv_open(const cr_plan *plan, int src, int weights, int bias, int dst,
                               cr_dnnl_operands *c) {
  *c = (cr_dnnl_operands){0};
  crema_status status = CREMA_OK;
  const cr_conv_params *p = &plan->desc->u.conv;
  CR_TRY(cr_dnnl_window(plan, &p->window, src, dst, &c->window));
  crema_dtype product = CREMA_F32;
  CR_TRY(cr_dnnl_product_type(plan, src, dst, &product));
  CR_TRY(cr_dnnl_env_open(&c->env, plan->desc));
  CR_TRY_GOTO(cr_dnnl_md_any(plan, src, cr_dnnl_operand_type(plan, src, product), &c->src), fail);
  CR_TRY_GOTO(weights_md(plan, weights, cr_dnnl_operand_type(plan, weights, product), &c->weights),
              fail);
  if (bias >= 0 && !cr_dnnl_absent(plan, bias)) {
    CR_TRY_GOTO(cr_dnnl_md_plain(plan, bias, cr_dnnl_sum_type(plan, bias, product), &c->bias),
                fail);
  }
  CR_TRY_GOTO(cr_dnnl_md_any(plan, dst, cr_dnnl_operand_type(plan, dst, product), &c->dst), fail);
  return CREMA_OK;
fail:
  cr_dnnl_operands_close(c);
  return status;
}

/* oneDNN's convolutions by batches of matrix products (brg_conv_fwd, in older releases brgconv) can
 * call a null pointer. This happens if all windows of a block of results along the last axis are in
 * the padding. The code that adds the bias then expects a different number of results (oneDNN's
 * issue 5942, seen on AVX2 in 3.7 and reported up to 3.14). The size of a block is unknown, so
 * every window must overlap the input. A kernel of one element and stride 1 is safe: the padding
 * has the same length on both sides, and oneDNN always generates the code for the leading blocks.
 */
static crema_status check_blocks(const cr_plan *plan, const_dnnl_primitive_desc_t pd) {
  const cr_window *w = &plan->desc->u.conv.window;
  const int a = w->axes - 1;
  const int64_t extent = plan->desc->arg[0].shape.dim[a + 2];
  if (w->kernel[a] == 1 && w->stride[a] == 1) return CREMA_OK;
  if (!cr_dnnl_pd_named(pd, "brg")) return CREMA_OK;
  for (int64_t o = 0; o < plan->desc->arg[3].shape.dim[a + 2]; ++o) {
    /* The first element of the window that is not before the input. */
    int64_t at = o * w->stride[a] - w->pad[a], k = 0;
    if (at < 0) k = (w->dilation[a] - 1 - at) / w->dilation[a];
    if (k < w->kernel[a] && at + k * w->dilation[a] < extent) continue;
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "a window entirely in the padding, which oneDNN crashes on");
  }
  return CREMA_OK;
}

/* The library's matrix products of integers read out of bounds of the source if each group has one
 * channel, several outputs and a window of one position (seen in 2.6.3). */
static crema_status check_int8_groups(const cr_plan *plan, const_dnnl_primitive_desc_t pd) {
  const cr_conv_params *conv = &plan->desc->u.conv;
  const int64_t groups = conv->group;
  bool point = plan->desc->numbers > 0 && groups > 1 && plan->desc->arg[0].shape.dim[1] == groups &&
               plan->desc->arg[3].shape.dim[1] > groups;
  for (int i = 0; i < conv->window.axes; ++i) point = point && conv->window.kernel[i] == 1;
  if (!point || !cr_dnnl_pd_named(pd, "gemm")) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "groups of one channel and a window of one position");
}

/* True if Winograd's method saves more than it costs. It transforms the weights in each run:
 * transformed weights cannot be read as weights, and both would take up to five times the memory.
 */
static bool is_worth_winograd(const cr_plan *plan) {
  enum { POSITIONS = 784 }; /* it is faster from here on, with 16 to 512 channels */
  const cr_op_arg *arg = plan->desc->arg;
  if (!plan->desc->u.conv.winograd || arg[3].shape.axes != 4) return false;
  for (int i = 0; i < 4; ++i) {
    if (!cr_dnnl_absent(plan, i) && arg[i].type != CREMA_F32) return false;
  }
  return arg[3].shape.dim[0] * arg[3].shape.dim[2] * arg[3].shape.dim[3] >= POSITIONS;
}

/* NULL: the library has no code for it. */
static dnnl_primitive_desc_t find_winograd(const cr_plan *plan, const cr_dnnl_operands *c) {
  dnnl_primitive_desc_t pd = NULL;
  if (!is_worth_winograd(plan)) return NULL;
  if (cr_pd_conv_fwd(&pd, &c->env, dnnl_forward_training, dnnl_convolution_winograd, c->src,
                     c->weights, c->bias, c->dst, &c->window) != dnnl_success) {
    return NULL;
  }
  if (cr_dnnl_pd_named(pd, "wino")) return pd;
  dnnl_primitive_desc_destroy(pd);
  return NULL;
}

crema_status cr_dnnl_conv_check_registers(void) {
#if defined __x86_64__ && defined __GNUC__
  if (__builtin_cpu_supports("avx512f")) return CREMA_OK;
#endif
  return cr_fail(CREMA_E_UNSUPPORTED, "the kernel is implemented for AVX-512 only");
}

crema_status cr_dnnl_conv_limits(const cr_posts *posts, float *low, float *high) {
  const cr_post *post = &posts->post[0];
  *low = -__builtin_inff();
  *high = __builtin_inff();
  if (cr_posts_count(posts) == 0) return CREMA_OK;
  const bool relu = post->function == CR_UNARY_RELU && post->alpha == 0;
  const bool alone = cr_posts_count(posts) == 1 && post->kind == CR_POST_UNARY;
  if (!alone || !(relu || post->function == CR_UNARY_CLIP)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "post operations other than limits");
  }
  *low = relu ? 0 : (float)post->alpha;
  if (!relu) *high = (float)post->beta;
  return CREMA_OK;
}

crema_status cr_dnnl_conv_sum_limits(const cr_posts *posts, bool *adds, float *low, float *high) {
  cr_posts limits = *posts;
  *adds = posts->post[0].kind == CR_POST_ADD;
  for (int i = 0; *adds && i < CR_POSTS; ++i) {
    limits.post[i] = i + 1 < CR_POSTS ? posts->post[i + 1] : (cr_post){0};
  }
  return cr_dnnl_conv_limits(&limits, low, high);
}

static crema_status find_last(const cr_plan *plan, const_dnnl_primitive_desc_t pd, int id, int arg,
                              const cr_layout **out) {
  cr_const_md md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, id);
  CR_TRY(cr_dnnl_layout(plan->context->device, md, out));
  if (cr_dnnl_layout_order(*out).kind == CR_DNNL_LAST &&
      (*out)->type == plan->desc->arg[arg].type) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_UNSUPPORTED, "the %s is not channels-last",
                 arg == 0 ? "source" : "result");
}

crema_status cr_dnnl_conv_fwd(const cr_plan *plan, dnnl_primitive_desc_t *out) {
  cr_dnnl_operands c;
  CR_TRY(cr_dnnl_conv_open(plan, 0, 1, 2, 3, &c));
  crema_status status = CREMA_OK;
  *out = find_winograd(plan, &c);
  if (*out == NULL) {
    status =
        cr_dnnl_check(cr_pd_conv_fwd(out, &c.env, dnnl_forward_inference, dnnl_convolution_direct,
                                     c.src, c.weights, c.bias, c.dst, &c.window),
                      "convolution");
  }
  cr_dnnl_operands_close(&c);
  CR_TRY(status);
  status = check_blocks(plan, *out);
  if (status == CREMA_OK) status = check_int8_groups(plan, *out);
  if (status != CREMA_OK) dnnl_primitive_desc_destroy(*out);
  return status;
}

crema_status cr_dnnl_conv_last(const cr_plan *plan, const cr_layout **src, const cr_layout **dst) {
  dnnl_primitive_desc_t pd = NULL;
  CR_TRY(cr_dnnl_conv_fwd(plan, &pd));
  crema_status status = find_last(plan, pd, DNNL_ARG_DST, 3, dst);
  if (status == CREMA_OK && src != NULL) status = find_last(plan, pd, DNNL_ARG_SRC, 0, src);
  dnnl_primitive_desc_destroy(pd);
  return status;
}

static crema_status plan_fwd(cr_plan *plan) {
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_FORMAT},
                                      {1, DNNL_ARG_WEIGHTS, CR_DNNL_FORMAT},
                                      {2, DNNL_ARG_BIAS, CR_DNNL_FORMAT},
                                      {3, DNNL_ARG_DST, CR_DNNL_FORMAT}};
  dnnl_primitive_desc_t pd = NULL;
  CR_TRY(cr_dnnl_conv_fwd(plan, &pd));
  CR_TRY(cr_dnnl_pd_check_product(pd));
  return cr_dnnl_prim_create_posts(plan, pd, bind, 4);
}

static crema_status plan_bwd_data(cr_plan *plan) {
  cr_dnnl_operands c;
  CR_TRY(cr_dnnl_conv_open(plan, 2, 1, -1, 0, &c));
  dnnl_primitive_desc_t pd = NULL;
  crema_status status = cr_dnnl_check(
      cr_pd_conv_bwd_data(&pd, &c.env, c.src, c.weights, c.dst, &c.window), "convolution backward");
  cr_dnnl_operands_close(&c);
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_DIFF_DST, CR_DNNL_FORMAT},
                                      {1, DNNL_ARG_WEIGHTS, CR_DNNL_FORMAT},
                                      {2, DNNL_ARG_DIFF_SRC, CR_DNNL_FORMAT}};
  CR_TRY(status);
  CR_TRY(cr_dnnl_pd_check_product(pd));
  return cr_dnnl_prim_create(plan, pd, bind, 3);
}

/* True if the implementation fills up the channels of its input so far that a matrix product over
 * windows is faster. On AVX2 one channel becomes eight, and the gradient of LeNet's first weights
 * takes four times as long. Below 16 values per window the product is too thin to be faster. */
static bool wastes_channels(const cr_plan *plan, const_dnnl_primitive_desc_t pd) {
  const cr_window *w = &plan->desc->u.conv.window;
  cr_const_md src = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, DNNL_ARG_SRC);
  int64_t values = plan->desc->arg[2].shape.dim[1];
  for (int a = 0; a < w->axes; ++a) values *= w->kernel[a];
  cr_md_view view = {0};
  if (src != NULL) cr_md_look(src, &view);
  return values >= 16 && view.blocked && view.padded_dims[1] >= 4 * view.dims[1];
}

static crema_status create_bwd_weights(dnnl_primitive_desc_t *out, const cr_dnnl_operands *c,
                                       cr_const_md src) {
  return cr_dnnl_check(
      cr_pd_conv_bwd_weights(out, &c->env, src, c->weights, c->bias, c->dst, &c->window),
      "convolution backward");
}

/* oneDNN makes matrix products of an input in plain order. */
static crema_status choose_bwd_weights(const cr_plan *plan, const cr_dnnl_operands *c,
                                       dnnl_primitive_desc_t *out) {
  CR_TRY(create_bwd_weights(out, c, c->src));
  cr_md plain = NULL;
  crema_dtype type = CREMA_F32;
  CR_TRY(cr_dnnl_product_type(plan, 0, 1, &type));
  if (!wastes_channels(plan, *out) || cr_dnnl_md_plain(plan, 0, type, &plain) != CREMA_OK) {
    return CREMA_OK;
  }
  dnnl_primitive_desc_t product = NULL;
  crema_status status = create_bwd_weights(&product, c, plain);
  cr_md_destroy(plain);
  bool better = status == CREMA_OK && cr_dnnl_pd_named(product, "gemm");
  dnnl_primitive_desc_t rejected = better ? *out : product;
  if (better) *out = product;
  if (rejected != NULL) dnnl_primitive_desc_destroy(rejected);
  return CREMA_OK;
}

/* For bf16, oneDNN's AVX-512 code (jit_bf16, seen in 2.6) reads out of bounds of the input for
 * weights that only ever see padding. Their gradient is 0. */
static crema_status check_elements(const cr_plan *plan, const_dnnl_primitive_desc_t pd) {
  const cr_window *w = &plan->desc->u.conv.window;
  const int a = w->axes - 1;
  const int64_t extent = plan->desc->arg[0].shape.dim[a + 2];
  if (!cr_dnnl_pd_named(pd, "bf16")) return CREMA_OK;
  for (int64_t k = 0; k < w->kernel[a]; ++k) {
    bool meets = false;
    for (int64_t o = 0; o < plan->desc->arg[1].shape.dim[a + 2] && !meets; ++o) {
      const int64_t at = o * w->stride[a] - w->pad[a] + k * w->dilation[a];
      meets = at >= 0 && at < extent;
    }
    if (!meets) return cr_fail(CREMA_E_UNSUPPORTED, "weights that only see padding");
  }
  return CREMA_OK;
}

static crema_status plan_bwd_weights(cr_plan *plan) {
  cr_dnnl_operands c;
  CR_TRY(cr_dnnl_conv_open(plan, 0, 2, 3, 1, &c));
  dnnl_primitive_desc_t pd = NULL;
  crema_status status = choose_bwd_weights(plan, &c, &pd);
  cr_dnnl_operands_close(&c);
  if (status == CREMA_OK) {
    status = check_elements(plan, pd);
    if (status != CREMA_OK) dnnl_primitive_desc_destroy(pd);
  }
  CR_TRY(status);
  CR_TRY(cr_dnnl_pd_check_product(pd));
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_FORMAT},
                                      {1, DNNL_ARG_DIFF_DST, CR_DNNL_FORMAT},
                                      {2, DNNL_ARG_DIFF_WEIGHTS, CR_DNNL_FORMAT},
                                      {3, DNNL_ARG_DIFF_BIAS, CR_DNNL_FORMAT}};
  return cr_dnnl_prim_create(plan, pd, bind, 4);
}

CR_KERNEL(conv_fwd_dnnl, CONV_FWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM, .plan = plan_fwd,
          .run = cr_dnnl_prim_run_posts);

CR_KERNEL(conv_bwd_data_dnnl, CONV_BWD_DATA, .types = CR_DNNL_TYPES, CR_DNNL_PRIM,
          .plan = plan_bwd_data, .run = cr_dnnl_prim_run);

CR_KERNEL(conv_bwd_weights_dnnl, CONV_BWD_WEIGHTS, .types = CR_DNNL_TYPES, CR_DNNL_PRIM,
          .plan = plan_bwd_weights, .run = cr_dnnl_prim_run);
