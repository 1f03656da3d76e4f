#include "chain/products.h"

#include <stdlib.h>
#include <string.h>

#include "chain/shim.h"

enum { LAYERS_MAX = 16, MEMORIES = 12 };

typedef struct job {
  dnnl_primitive_t primitive;
  int args;
  dnnl_exec_arg_t arg[4];
} job;

typedef struct layer {
  job forward, data, weights;
  int memories;
  dnnl_memory_t memory[MEMORIES];
} layer;

struct products {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  int layers;
  layer layer[LAYERS_MAX];
};

/* Memory for the primitive's argument `id`, filled with small values. */
static void bind(products *p, layer *l, job *j, dnnl_primitive_desc_t pd, int id) {
  dnnl_memory_t memory;
  void *to;
  md_ref md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, id);
  CHECK(dnnl_memory_create(&memory, md, p->engine, DNNL_MEMORY_ALLOCATE));
  CHECK(dnnl_memory_get_data_handle(memory, &to));
  float *v = to;
  size_t count = dnnl_memory_desc_get_size(md) / sizeof *v;
  for (size_t i = 0; i < count; ++i) v[i] = (float)(i % 17) / 170.0f;
  l->memory[l->memories++] = memory;
  j->arg[j->args++] = (dnnl_exec_arg_t){id, memory};
}

static void finish(job *j, dnnl_primitive_desc_t pd) {
  CHECK(dnnl_primitive_create(&j->primitive, pd));
  CHECK(dnnl_primitive_desc_destroy(pd));
}

static void add_layer(products *p, const product_shape *s, bool first) {
  layer *l = &p->layer[p->layers++];
  bool ip = s->kernel == 0;
  int out_size = ip ? 1 : (s->size + 2 * s->pad - s->kernel) / s->stride + 1;
  int k = ip ? s->size : s->kernel;
  dnnl_dims_t src = {s->batch, s->channels, s->size, s->size};
  dnnl_dims_t dst = {s->batch, s->out, out_size, out_size};
  dnnl_dims_t dense = {s->out, s->channels, k, k};
  dnnl_dims_t grouped = {s->group, s->out / s->group, s->channels / s->group, k, k};
  dnnl_dims_t bias = {s->out};
  bool groups = !ip && s->group > 1;
  conv_window w = {.stride = {s->stride, s->stride}, .pad_begin = {s->pad, s->pad}};
  for (int i = 0; i < 2; ++i) {
    w.pad_end[i] = (out_size - 1) * s->stride + k - s->size - s->pad;
  }
  const conv_window *window = ip ? NULL : &w;
  md_own src_md = md_make(4, src, dnnl_format_tag_any);
  md_own weights_md = md_make(groups ? 5 : 4, groups ? grouped : dense, dnnl_format_tag_any);
  md_own bias_md = md_plain(1, bias);
  md_own dst_md = md_make(ip ? 2 : 4, dst, dnnl_format_tag_any);
  product_mds mds = {src_md, weights_md, bias_md, dst_md};

  dnnl_primitive_desc_t forward = pd_product_fwd(p->engine, true, &mds, window, NULL);
  dnnl_primitive_desc_t pd = pd_product_bwd_weights(p->engine, &mds, window, forward);
  bind(p, l, &l->weights, pd, DNNL_ARG_SRC);
  bind(p, l, &l->weights, pd, DNNL_ARG_DIFF_DST);
  bind(p, l, &l->weights, pd, DNNL_ARG_DIFF_WEIGHTS);
  bind(p, l, &l->weights, pd, DNNL_ARG_DIFF_BIAS);
  finish(&l->weights, pd);
  if (!first) {
    pd = pd_product_bwd_data(p->engine, &mds, window, forward);
    bind(p, l, &l->data, pd, DNNL_ARG_DIFF_DST);
    bind(p, l, &l->data, pd, DNNL_ARG_WEIGHTS);
    bind(p, l, &l->data, pd, DNNL_ARG_DIFF_SRC);
    finish(&l->data, pd);
  }
  bind(p, l, &l->forward, forward, DNNL_ARG_SRC);
  bind(p, l, &l->forward, forward, DNNL_ARG_WEIGHTS);
  bind(p, l, &l->forward, forward, DNNL_ARG_BIAS);
  bind(p, l, &l->forward, forward, DNNL_ARG_DST);
  finish(&l->forward, forward);
  md_free(dst_md);
  md_free(bias_md);
  md_free(weights_md);
  md_free(src_md);
}

products *products_create(const product_shape *shape, int count) {
  products *p = calloc(1, sizeof *p);
  if (p == NULL || count > LAYERS_MAX) shim_die("too many layers");
  CHECK(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
  CHECK(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
  for (int i = 0; i < count; ++i) add_layer(p, &shape[i], i == 0);
  return p;
}

void products_destroy(products *p) {
  if (p == NULL) return;
  for (int i = 0; i < p->layers; ++i) {
    layer *l = &p->layer[i];
    dnnl_primitive_destroy(l->forward.primitive);
    dnnl_primitive_destroy(l->weights.primitive);
    if (l->data.primitive != NULL) dnnl_primitive_destroy(l->data.primitive);
    for (int k = 0; k < l->memories; ++k) dnnl_memory_destroy(l->memory[k]);
  }
  dnnl_stream_destroy(p->stream);
  dnnl_engine_destroy(p->engine);
  free(p);
}

static void run(products *p, const job *j) {
  if (j->primitive == NULL) return;
  CHECK(dnnl_primitive_execute(j->primitive, p->stream, j->args, j->arg));
}

void products_run(products *p) {
  for (int i = 0; i < p->layers; ++i) run(p, &p->layer[i].forward);
  for (int i = p->layers - 1; i >= 0; --i) {
    run(p, &p->layer[i].weights);
    run(p, &p->layer[i].data);
  }
  CHECK(dnnl_stream_wait(p->stream));
}

const product_shape *products_network(const char *name, int batch, int *count) {
  static const product_shape lenet[] = {{0, 1, 28, 20, 5, 1, 0, 1},
                                        {0, 20, 12, 50, 5, 1, 0, 1},
                                        {0, 50, 4, 500, 0, 0, 0, 1},
                                        {0, 500, 1, 10, 0, 0, 0, 1}};
  static const product_shape cifar10_quick[] = {{0, 3, 32, 32, 5, 1, 2, 1},
                                                {0, 32, 16, 32, 5, 1, 2, 1},
                                                {0, 32, 8, 64, 5, 1, 2, 1},
                                                {0, 64, 4, 64, 0, 0, 0, 1},
                                                {0, 64, 1, 10, 0, 0, 0, 1}};
  static const product_shape alexnet[] = {
      {0, 3, 227, 96, 11, 4, 0, 1},   {0, 96, 27, 256, 5, 1, 2, 2},  {0, 256, 13, 384, 3, 1, 1, 1},
      {0, 384, 13, 384, 3, 1, 1, 2},  {0, 384, 13, 256, 3, 1, 1, 2}, {0, 256, 6, 4096, 0, 0, 0, 1},
      {0, 4096, 1, 4096, 0, 0, 0, 1}, {0, 4096, 1, 1000, 0, 0, 0, 1}};
  static product_shape shapes[LAYERS_MAX];
  const product_shape *from = NULL;
  if (strcmp(name, "lenet") == 0) from = lenet, *count = 4;
  else if (strcmp(name, "cifar10_quick") == 0) from = cifar10_quick, *count = 5;
  else if (strcmp(name, "alexnet") == 0) from = alexnet, *count = 8;
  if (from == NULL) return NULL;
  for (int i = 0; i < *count; ++i) {
    shapes[i] = from[i];
    shapes[i].batch = batch;
  }
  return shapes;
}
