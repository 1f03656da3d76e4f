#include "chain/chain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain/shim.h"

enum { STEPS_MAX = 512, TENSORS_MAX = 512, LAYERS_MAX = 128, ARGS_MAX = 8 };

typedef struct tensor {
  int axes;
  dnnl_dims_t dims;
  dnnl_memory_t memory;
} tensor;

typedef struct step {
  dnnl_primitive_t primitive;
  int args;
  dnnl_exec_arg_t arg[ARGS_MAX];
} step;

typedef struct layer {
  char name[64];
  float *weights, *bias;
  size_t weight_count, bias_count;
} layer;

struct chain {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  int steps, tensors, memories, layers;
  step step[STEPS_MAX];
  tensor tensor[TENSORS_MAX];
  dnnl_memory_t memory[4 * STEPS_MAX]; /* all that exist */
  layer layer[LAYERS_MAX];
  unsigned random;
};

chain *chain_create(void) {
  chain *c = calloc(1, sizeof *c);
  if (c == NULL) shim_die("out of memory");
  CHECK(dnnl_engine_create(&c->engine, dnnl_cpu, 0));
  CHECK(dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags));
  c->random = 1;
  return c;
}

void chain_destroy(chain *c) {
  if (c == NULL) return;
  for (int i = 0; i < c->steps; ++i) dnnl_primitive_destroy(c->step[i].primitive);
  for (int i = 0; i < c->memories; ++i) dnnl_memory_destroy(c->memory[i]);
  for (int i = 0; i < c->layers; ++i) {
    free(c->layer[i].weights);
    free(c->layer[i].bias);
  }
  dnnl_stream_destroy(c->stream);
  dnnl_engine_destroy(c->engine);
  free(c);
}

/* ---- pieces -------------------------------------------------------------- */

static dnnl_memory_t new_memory(chain *c, md_ref md) {
  dnnl_memory_t memory;
  if (c->memories == 4 * STEPS_MAX) shim_die("the chain is too long");
  CHECK(dnnl_memory_create(&memory, md, c->engine, DNNL_MEMORY_ALLOCATE));
  c->memory[c->memories++] = memory;
  return memory;
}

static md_ref md_of(dnnl_memory_t memory) {
#if DNNL_VERSION_MAJOR >= 3
  const_dnnl_memory_desc_t md;
#else
  const dnnl_memory_desc_t *md;
#endif
  CHECK(dnnl_memory_get_memory_desc(memory, &md));
  return md;
}

static int new_tensor(chain *c, int axes, const dnnl_dim_t *dims, md_ref md) {
  if (c->tensors == TENSORS_MAX) shim_die("the chain is too long");
  tensor *t = &c->tensor[c->tensors];
  t->axes = axes;
  for (int i = 0; i < axes; ++i) t->dims[i] = dims[i];
  t->memory = new_memory(c, md);
  return c->tensors++;
}

/* Takes ownership of pd. */
static step *new_step(chain *c, dnnl_primitive_desc_t pd) {
  if (c->steps == STEPS_MAX) shim_die("the chain is too long");
  step *s = &c->step[c->steps++];
  CHECK(dnnl_primitive_create(&s->primitive, pd));
  CHECK(dnnl_primitive_desc_destroy(pd));
  return s;
}

static void bind(step *s, int id, dnnl_memory_t memory) {
  s->arg[s->args++] = (dnnl_exec_arg_t){id, memory};
}

/* `from` in the layout `want`: itself, or the result of a reorder, which becomes part of the chain
 * (or, with `now`, is done at once). */
static dnnl_memory_t in_layout(chain *c, dnnl_memory_t from, md_ref want, bool now) {
  if (dnnl_memory_desc_equal(md_of(from), want)) return from;
  dnnl_memory_t to = new_memory(c, want);
  dnnl_primitive_desc_t pd = pd_reorder(c->engine, want, md_of(from));
  if (!now) {
    step *s = new_step(c, pd);
    bind(s, DNNL_ARG_FROM, from);
    bind(s, DNNL_ARG_TO, to);
    return to;
  }
  dnnl_primitive_t reorder;
  CHECK(dnnl_primitive_create(&reorder, pd));
  CHECK(dnnl_primitive_desc_destroy(pd));
  dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  CHECK(dnnl_primitive_execute(reorder, c->stream, 2, args));
  CHECK(dnnl_stream_wait(c->stream));
  CHECK(dnnl_primitive_destroy(reorder));
  return to;
}

static float *random_values(chain *c, size_t count, float range) {
  float *v = malloc(count * sizeof *v);
  if (v == NULL) shim_die("out of memory");
  for (size_t i = 0; i < count; ++i) {
    c->random = c->random * 1664525u + 1013904223u;
    v[i] = range * ((float)(c->random >> 8) / 8388608.0f - 1.0f);
  }
  return v;
}

static void fill(dnnl_memory_t memory, const float *values, size_t count) {
  void *to;
  CHECK(dnnl_memory_get_data_handle(memory, &to));
  memcpy(to, values, count * sizeof *values);
}

static size_t count_of(int axes, const dnnl_dim_t *dims) {
  size_t count = 1;
  for (int i = 0; i < axes; ++i) count *= (size_t)dims[i];
  return count;
}

/* Random weights that keep the size of activations. */
static layer *new_layer(chain *c, const char *name, size_t weights, size_t outputs) {
  if (c->layers == LAYERS_MAX) shim_die("the chain is too long");
  layer *l = &c->layer[c->layers++];
  snprintf(l->name, sizeof l->name, "%s", name);
  l->weight_count = weights;
  l->bias_count = outputs;
  l->weights = random_values(c, weights, sqrtf(6.0f / ((float)weights / (float)outputs)));
  l->bias = random_values(c, outputs, 0.1f);
  return l;
}

/* ---- steps --------------------------------------------------------------- */

int chain_input(chain *c, int n, int channels, int height, int width) {
  dnnl_dims_t dims = {n, channels, height, width};
  md_own md = md_plain(4, dims);
  int t = new_tensor(c, 4, dims, md);
  md_free(md);
  return t;
}

/* A convolution (window) or inner product (window NULL) with weights of the given shape. */
static int add_product(chain *c, const char *name, int src, int weight_axes,
                       const dnnl_dim_t *weight_dims, int out_axes, const dnnl_dim_t *out_dims,
                       const conv_window *window, bool relu) {
  tensor *s = &c->tensor[src];
  dnnl_dims_t bias_dims = {out_dims[1]};
  md_own src_md = md_make(s->axes, s->dims, dnnl_format_tag_any);
  md_own weights_md = md_make(weight_axes, weight_dims, dnnl_format_tag_any);
  md_own bias_md = md_plain(1, bias_dims);
  md_own dst_md = md_make(out_axes, out_dims, dnnl_format_tag_any);
  md_own plain_md = md_plain(weight_axes, weight_dims);
  product_mds mds = {src_md, weights_md, bias_md, dst_md};
  dnnl_primitive_attr_t attr = relu ? attr_relu() : NULL;
  dnnl_primitive_desc_t pd = pd_product_fwd(c->engine, false, &mds, window, attr);
  if (attr != NULL) dnnl_primitive_attr_destroy(attr);

  layer *l = new_layer(c, name, count_of(weight_axes, weight_dims), (size_t)out_dims[1]);
  dnnl_memory_t plain = new_memory(c, plain_md);
  dnnl_memory_t bias = new_memory(c, bias_md);
  fill(plain, l->weights, l->weight_count);
  fill(bias, l->bias, l->bias_count);
  dnnl_memory_t weights =
      in_layout(c, plain, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), true);
  dnnl_memory_t from =
      in_layout(c, s->memory, dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0), false);
  int dst =
      new_tensor(c, out_axes, out_dims, dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0));
  step *st = new_step(c, pd);
  bind(st, DNNL_ARG_SRC, from);
  bind(st, DNNL_ARG_WEIGHTS, weights);
  bind(st, DNNL_ARG_BIAS, bias);
  bind(st, DNNL_ARG_DST, c->tensor[dst].memory);
  md_free(plain_md);
  md_free(dst_md);
  md_free(bias_md);
  md_free(weights_md);
  md_free(src_md);
  return dst;
}

int chain_conv(chain *c, const char *name, int src, int out, int kernel, int stride, int pad,
               int group) {
  const dnnl_dim_t *d = c->tensor[src].dims;
  dnnl_dims_t grouped = {group, out / group, d[1] / group, kernel, kernel};
  dnnl_dims_t dense = {out, d[1], kernel, kernel};
  conv_window w = {.stride = {stride, stride}, .pad_begin = {pad, pad}};
  dnnl_dims_t out_dims = {d[0], out};
  for (int i = 0; i < 2; ++i) {
    out_dims[i + 2] = (d[i + 2] + 2 * pad - kernel) / stride + 1;
    w.pad_end[i] = (out_dims[i + 2] - 1) * stride + kernel - d[i + 2] - pad;
  }
  return add_product(c, name, src, group > 1 ? 5 : 4, group > 1 ? grouped : dense, 4, out_dims, &w,
                     true);
}

int chain_ip(chain *c, const char *name, int src, int out, bool relu) {
  tensor *s = &c->tensor[src];
  dnnl_dims_t weight_dims = {out}, out_dims = {s->dims[0], out};
  for (int i = 1; i < s->axes; ++i) weight_dims[i] = s->dims[i];
  return add_product(c, name, src, s->axes, weight_dims, 2, out_dims, NULL, relu);
}

int chain_pool(chain *c, int src, bool max, int kernel, int stride, int pad) {
  const dnnl_dim_t *d = c->tensor[src].dims;
  dnnl_dims_t out_dims = {d[0], d[1]};
  pool_window w = {.kernel = {kernel, kernel}, .stride = {stride, stride}, .pad_begin = {pad, pad}};
  for (int i = 0; i < 2; ++i) {
    dnnl_dim_t out = (d[i + 2] + 2 * pad - kernel + stride - 1) / stride + 1;
    if (pad > 0 && (out - 1) * stride >= d[i + 2] + pad) --out;
    out_dims[i + 2] = out;
    w.pad_end[i] = (out - 1) * stride + kernel - d[i + 2] - pad;
  }
  md_own dst_md = md_make(4, out_dims, dnnl_format_tag_any);
  dnnl_primitive_desc_t pd = pd_pool(c->engine, max, md_of(c->tensor[src].memory), dst_md, &w);
  md_free(dst_md);
  int dst = new_tensor(c, 4, out_dims, dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0));
  step *s = new_step(c, pd);
  bind(s, DNNL_ARG_SRC, c->tensor[src].memory);
  bind(s, DNNL_ARG_DST, c->tensor[dst].memory);
  return dst;
}

int chain_lrn(chain *c, int src, int size, float alpha, float beta) {
  tensor *t = &c->tensor[src];
  dnnl_primitive_desc_t pd = pd_lrn(c->engine, md_of(t->memory), size, alpha, beta);
  int dst = new_tensor(c, 4, t->dims, md_of(t->memory));
  step *s = new_step(c, pd);
  bind(s, DNNL_ARG_SRC, t->memory);
  bind(s, DNNL_ARG_DST, c->tensor[dst].memory);
  return dst;
}

int chain_concat(chain *c, int n, const int *src) {
  md_ref md[ARGS_MAX];
  if (n >= ARGS_MAX) shim_die("too many sources");
  dnnl_dims_t dims;
  memcpy(dims, c->tensor[src[0]].dims, sizeof dims);
  dims[1] = 0;
  for (int i = 0; i < n; ++i) {
    md[i] = md_of(c->tensor[src[i]].memory);
    dims[1] += c->tensor[src[i]].dims[1];
  }
  dnnl_primitive_desc_t pd = pd_concat(c->engine, n, 1, md);
  int dst = new_tensor(c, 4, dims, dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0));
  step *s = new_step(c, pd);
  for (int i = 0; i < n; ++i) bind(s, DNNL_ARG_MULTIPLE_SRC + i, c->tensor[src[i]].memory);
  bind(s, DNNL_ARG_DST, c->tensor[dst].memory);
  return dst;
}

int chain_softmax(chain *c, int src) {
  tensor *t = &c->tensor[src];
  md_own plain = md_plain(t->axes, t->dims);
  dnnl_memory_t from = in_layout(c, t->memory, plain, false);
  int dst = new_tensor(c, t->axes, t->dims, plain);
  step *s = new_step(c, pd_softmax(c->engine, plain, 1));
  bind(s, DNNL_ARG_SRC, from);
  bind(s, DNNL_ARG_DST, c->tensor[dst].memory);
  md_free(plain);
  return dst;
}

/* ---- running ------------------------------------------------------------- */

static float *values_of(const tensor *t, size_t *count) {
  void *memory;
  CHECK(dnnl_memory_get_data_handle(t->memory, &memory));
  *count = count_of(t->axes, t->dims);
  return memory;
}

float *chain_input_values(chain *c, size_t *count) {
  return values_of(&c->tensor[0], count);
}

void chain_run(chain *c) {
  for (int i = 0; i < c->steps; ++i) {
    const step *s = &c->step[i];
    CHECK(dnnl_primitive_execute(s->primitive, c->stream, s->args, s->arg));
  }
  CHECK(dnnl_stream_wait(c->stream));
}

float *chain_output_values(chain *c, size_t *count) {
  const float *from = values_of(&c->tensor[c->tensors - 1], count);
  float *copy = malloc(*count * sizeof *copy);
  if (copy == NULL) shim_die("out of memory");
  memcpy(copy, from, *count * sizeof *copy);
  return copy;
}

bool chain_weights(const chain *c, const char *name, const float **weights, size_t *weight_count,
                   const float **bias, size_t *bias_count) {
  for (int i = 0; i < c->layers; ++i) {
    const layer *l = &c->layer[i];
    if (strcmp(l->name, name) != 0) continue;
    *weights = l->weights;
    *weight_count = l->weight_count;
    *bias = l->bias;
    *bias_count = l->bias_count;
    return true;
  }
  return false;
}
