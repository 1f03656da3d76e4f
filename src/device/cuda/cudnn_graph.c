/* Operation graphs of cuDNN, of one convolution each. Its heuristics list configurations of engines
 * for a graph, the fastest first. An engine's notes decide whether it may be used. The execution
 * plan of a configuration shows whether it works, and how much memory it needs. */
#include <inttypes.h>
#include <string.h>

#include "core/fail.h"

#include "device/cuda/cudnn_graph.h"

/* The number of configurations to fetch from one of cuDNN's lists, and the number of them to make
 * plans of. */
enum { CONFIGS = 256, TRIED = 24 };

/* What names the tensors in a graph and at run time. */
enum { TENSORS = 3 };
static const int64_t uid_of[TENSORS] = {1, 2, 3}; /* x, w, y */

/* A descriptor under construction: after the first failure no more calls are made for it. */
typedef struct maker {
  const cr_cudnn *dnn;
  cudnnBackendDescriptor_t desc;
  cudnnStatus_t status;
} maker;

static void destroy(const cr_cudnn *dnn, cudnnBackendDescriptor_t *desc) {
  if (*desc != NULL) (void)dnn->cudnnBackendDestroyDescriptor(*desc);
  *desc = NULL;
}

static maker begin(const cr_cudnn *dnn, cudnnBackendDescriptorType_t type) {
  maker m = {.dnn = dnn};
  m.status = dnn->cudnnBackendCreateDescriptor(type, &m.desc);
  if (m.status != CUDNN_STATUS_SUCCESS) m.desc = NULL;
  return m;
}

static void set(maker *m, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *values) {
  if (m->status != CUDNN_STATUS_SUCCESS) return;
  m->status = m->dnn->cudnnBackendSetAttribute(m->desc, name, type, count, values);
}

static void set_int(maker *m, cudnnBackendAttributeName_t name, int64_t value) {
  set(m, name, CUDNN_TYPE_INT64, 1, &value);
}

static void set_float(maker *m, cudnnBackendAttributeName_t name, float value) {
  set(m, name, CUDNN_TYPE_FLOAT, 1, &value);
}

static void set_desc(maker *m, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
  set(m, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static cudnnStatus_t finish(maker *m, cudnnBackendDescriptor_t *out) {
  if (m->status == CUDNN_STATUS_SUCCESS) m->status = m->dnn->cudnnBackendFinalize(m->desc);
  if (m->status != CUDNN_STATUS_SUCCESS) destroy(m->dnn, &m->desc);
  *out = m->desc;
  return m->status;
}

typedef struct graph {
  const cr_cudnn *dnn;
  cudnnHandle_t handle;
  const cr_cudnn_conv *conv;
  cudnnBackendDescriptor_t tensor[TENSORS], window, operation, graph;
} graph;

static void destroy_graph(graph *g) {
  destroy(g->dnn, &g->graph);
  destroy(g->dnn, &g->operation);
  destroy(g->dnn, &g->window);
  for (int i = TENSORS - 1; i >= 0; --i) destroy(g->dnn, &g->tensor[i]);
}

static cudnnStatus_t make_tensor(graph *g, int index, const int64_t *dim, int64_t alignment) {
  const crema_dtype own = g->conv->type;
  const cudnnDataType_t type = own == CREMA_F16    ? CUDNN_DATA_HALF
                               : own == CREMA_BF16 ? CUDNN_DATA_BFLOAT16
                                                   : CUDNN_DATA_FLOAT;
  const int axes = g->conv->axes;
  int64_t stride[CR_CUDNN_AXES] = {0}, step = 1;
  if (g->conv->last) {
    stride[1] = 1;
    step = dim[1];
  }
  for (int a = axes - 1; a >= 0; --a) {
    if (a == 1 && g->conv->last) continue;
    stride[a] = step;
    step *= dim[a];
  }
  maker m = begin(g->dnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(&m, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(&m, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, axes, dim);
  set(&m, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, axes, stride);
  set_int(&m, CUDNN_ATTR_TENSOR_UNIQUE_ID, uid_of[index]);
  set_int(&m, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  return finish(&m, &g->tensor[index]);
}

static cudnnStatus_t make_window(graph *g) {
  const cr_cudnn_conv *c = g->conv;
  const cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const int64_t axes = c->axes - 2;
  maker m = begin(g->dnn, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set(&m, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &arithmetic);
  set(&m, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  set_int(&m, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, axes);
  set(&m, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes, c->pad);
  set(&m, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes, c->pad);
  set(&m, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes, c->dilation);
  set(&m, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes, c->stride);
  return finish(&m, &g->window);
}

/* The names of a pass' operation and its attributes. */
typedef struct operation_names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t tensor[TENSORS], window, alpha, beta;
} operation_names;

static const operation_names names_of[] = {
    [CR_CUDNN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [CR_CUDNN_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [CR_CUDNN_WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

static cudnnStatus_t make_operation(graph *g) {
  const operation_names *names = &names_of[g->conv->pass];
  maker m = begin(g->dnn, names->operation);
  for (int i = 0; i < TENSORS; ++i) set_desc(&m, names->tensor[i], g->tensor[i]);
  set_desc(&m, names->window, g->window);
  set_float(&m, names->alpha, 1);
  set_float(&m, names->beta, 0);
  return finish(&m, &g->operation);
}

static cudnnStatus_t make_graph(graph *g, int64_t alignment) {
  const int64_t *dim[TENSORS] = {g->conv->x, g->conv->w, g->conv->y};
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  for (int i = 0; i < TENSORS && status == CUDNN_STATUS_SUCCESS; ++i) {
    status = make_tensor(g, i, dim[i], alignment);
  }
  if (status == CUDNN_STATUS_SUCCESS) status = make_window(g);
  if (status == CUDNN_STATUS_SUCCESS) status = make_operation(g);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  maker m = begin(g->dnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set_desc(&m, CUDNN_ATTR_OPERATIONGRAPH_OPS, g->operation);
  set(&m, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
  return finish(&m, &g->graph);
}

/* Room for every note of an engine, of either kind. */
enum { NOTES = 32 };
_Static_assert((int)CUDNN_NUMERICAL_NOTE_TYPE_COUNT <= NOTES &&
                   (int)CUDNN_BEHAVIOR_NOTE_TYPE_COUNT <= NOTES &&
                   sizeof(cudnnBackendNumericalNote_t) == sizeof(int32_t) &&
                   sizeof(cudnnBackendBehaviorNote_t) == sizeof(int32_t),
               "notes are read as bits of numbers");

/* A bit for each of the engine's notes of one type, which has `kinds` values. Unknown notes are
 * ignored. */
static cudnnStatus_t read_notes(const cr_cudnn *dnn, cudnnBackendDescriptor_t engine,
                                cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                int kinds, uint32_t *out) {
  int32_t note[NOTES];
  int64_t count = 0;
  *out = 0;
  const cudnnStatus_t status =
      dnn->cudnnBackendGetAttribute(engine, name, type, kinds, &count, note);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  /* Not all of them were reported. */
  if (count > kinds) return CUDNN_STATUS_NOT_SUPPORTED;
  for (int64_t i = 0; i < count; ++i) {
    if (note[i] >= 0 && note[i] < NOTES) *out |= UINT32_C(1) << note[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

#define CR_NOTE(name) (UINT32_C(1) << CUDNN_NUMERICAL_NOTE_##name)

/* Excluded are engines that add in less than f32, and engines on transformed images, by Fourier's
 * method or by Winograd's with large tiles. Their rounding grows with the tile, beyond the error of
 * the CPU's direct sums. Tensor cores multiply FP16 values exactly and truncate floats to TF32,
 * which only fast math allows, as well as sums in a varying order. */
static bool is_exact_enough(uint32_t notes, const cr_cudnn_conv *conv) {
  uint32_t bad = CR_NOTE(REDUCED_PRECISION_REDUCTION) | CR_NOTE(FFT) | CR_NOTE(WINOGRAD_TILE_6x6) |
                 CR_NOTE(WINOGRAD_TILE_13x13);
  if (!conv->fast) bad |= CR_NOTE(NONDETERMINISTIC);
  if (!conv->fast && conv->type == CREMA_F32) {
    bad |= CR_NOTE(TENSOR_CORE) | CR_NOTE(DOWN_CONVERT_INPUTS);
  }
  /* Winograd's method, with tiles of a size that is not said. */
  if ((notes & CR_NOTE(WINOGRAD_TILE_4x4)) == 0) bad |= CR_NOTE(WINOGRAD);
  return (notes & bad) == 0;
}

/* Whether the configuration's engine may be used, and the engine's number. */
static cudnnStatus_t judge(const graph *g, cudnnBackendDescriptor_t config, bool *usable,
                           int64_t *number) {
  const cr_cudnn *dnn = g->dnn;
  uint32_t numerical = 0, behavior = 0;
  int64_t count = 0;
  maker m = begin(dnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnStatus_t status = m.status;
  if (status == CUDNN_STATUS_SUCCESS) {
    status = dnn->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &m.desc);
  }
  if (status == CUDNN_STATUS_SUCCESS) {
    status = read_notes(dnn, m.desc, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &numerical);
  }
  if (status == CUDNN_STATUS_SUCCESS) {
    status = read_notes(dnn, m.desc, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                        CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &behavior);
  }
  if (status == CUDNN_STATUS_SUCCESS) {
    status = dnn->cudnnBackendGetAttribute(m.desc, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                                           1, &count, number);
  }
  destroy(dnn, &m.desc);
  /* Planning takes milliseconds; a compiler would take seconds. */
  const uint32_t compiles = UINT32_C(1) << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  *usable = status == CUDNN_STATUS_SUCCESS && is_exact_enough(numerical, g->conv) &&
            (behavior & compiles) == 0;
  return status;
}

void cr_cudnn_destroy_plan(const cr_cudnn *dnn, cr_cudnn_plan *plan) {
  /* After the driver is unloaded, a call of cuDNN crashes. */
  if (plan->plan != NULL && !cr_cuda_is_gone()) {
    destroy(dnn, &plan->plan);
    destroy(dnn, &plan->config);
  }
  *plan = (cr_cudnn_plan){.plan = NULL};
}

void cr_cudnn_drop_plans(const cr_cudnn *dnn, cr_cudnn_plans *plans, int kept) {
  for (int i = 0; i < plans->count; ++i) {
    if (i != kept) cr_cudnn_destroy_plan(dnn, &plans->list[i]);
  }
  plans->count = 0;
}

/* Makes the plan of a configuration, which belongs to the plan afterwards. */
static cudnnStatus_t make_plan(const graph *g, cudnnBackendDescriptor_t *config, int64_t engine,
                               cr_cudnn_plan *out) {
  int64_t bytes = 0, count = 0;
  maker m = begin(g->dnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set(&m, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
  set_desc(&m, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *config);
  cudnnStatus_t status = finish(&m, &out->plan);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = g->dnn->cudnnBackendGetAttribute(out->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                            CUDNN_TYPE_INT64, 1, &count, &bytes);
  if (status == CUDNN_STATUS_SUCCESS && bytes < 0) status = CUDNN_STATUS_NOT_SUPPORTED;
  if (status != CUDNN_STATUS_SUCCESS) {
    destroy(g->dnn, &out->plan);
    return status;
  }
  out->config = *config;
  out->engine = engine;
  out->bytes = (size_t)bytes;
  *config = NULL;
  return CUDNN_STATUS_SUCCESS;
}

/* The configurations of one of cuDNN's lists. */
typedef struct configs {
  cudnnBackendDescriptor_t list[CONFIGS];
  int64_t count;
} configs;

/* The caller destroys the configurations, in any case. */
static cudnnStatus_t list_configs(const graph *g, cudnnBackendHeurMode_t mode, configs *out) {
  const cr_cudnn *dnn = g->dnn;
  cudnnBackendDescriptor_t heuristics = NULL;
  int64_t count = 0;
  maker m = begin(dnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_desc(&m, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph);
  set(&m, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  cudnnStatus_t status = finish(&m, &heuristics);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = dnn->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, NULL);
  if (count > CONFIGS) count = CONFIGS;
  /* cuDNN fills in descriptors that the caller has created. */
  for (int64_t i = 0; i < count && status == CUDNN_STATUS_SUCCESS; ++i) {
    const maker config = begin(dnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    out->list[i] = config.desc;
    status = config.status;
  }
  if (status == CUDNN_STATUS_SUCCESS && count > 0) {
    status =
        dnn->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &out->count, out->list);
    if (out->count > count) out->count = count;
  }
  destroy(dnn, &heuristics);
  return status;
}

typedef struct plan_search {
  const cr_cudnn_wish *wish;
  cr_cudnn_plans *out;
  int tried;
  size_t least;          /* bytes of the plan that has fewest */
  cudnnStatus_t failure; /* of a configuration, where that was more than that it does not work */
} plan_search;

static bool is_done(const plan_search *s) {
  return s->tried == TRIED || s->out->count == CR_CUDNN_PLANS ||
         (s->out->count >= s->wish->enough && s->least <= s->wish->little);
}

/* An engine that does not work is unsupported to one version and a bad parameter to another. Other
 * failures of an engine are reported if no engine is left. For lack of memory the search ends. */
static crema_status pass_over(plan_search *s, const cr_cudnn *dnn, cudnnStatus_t status) {
  const int category = CUDNN_STATUS_CATEGORY(status);
  const cudaError_t left = cudaGetLastError();
  if (cr_cudnn_lacks_memory(status, left)) {
    return cr_fail(CREMA_E_NO_MEMORY, "cuDNN, choice of an algorithm: %s",
                   dnn->cudnnGetErrorString(status));
  }
  if (category != CUDNN_STATUS_NOT_SUPPORTED && category != CUDNN_STATUS_BAD_PARAM) {
    s->failure = status;
  }
  return CREMA_OK;
}

/* Beyond those that are enough a plan is of use only if it needs less memory. */
static void take(plan_search *s, const cr_cudnn *dnn, cr_cudnn_plan *plan) {
  cr_cudnn_plans *out = s->out;
  if (plan->bytes > s->wish->limit || (out->count >= s->wish->enough && plan->bytes >= s->least)) {
    cr_cudnn_destroy_plan(dnn, plan);
    return;
  }
  out->list[out->count++] = *plan;
  if (plan->bytes < s->least) s->least = plan->bytes;
}

static crema_status try_config(plan_search *s, const graph *g, cudnnBackendDescriptor_t *config) {
  cr_cudnn_plan plan = {.plan = NULL};
  bool usable = false;
  int64_t engine = 0;
  cudnnStatus_t status = judge(g, *config, &usable, &engine);
  if (status != CUDNN_STATUS_SUCCESS) return pass_over(s, g->dnn, status);
  if (!usable) return CREMA_OK;
  ++s->tried;
  status = make_plan(g, config, engine, &plan);
  if (status != CUDNN_STATUS_SUCCESS) return pass_over(s, g->dnn, status);
  take(s, g->dnn, &plan);
  return CREMA_OK;
}

static crema_status try_mode(plan_search *s, const graph *g, cudnnBackendHeurMode_t mode) {
  configs found = {.count = 0};
  crema_status status = CREMA_OK;
  s->tried = 0;
  const cudnnStatus_t listed = list_configs(g, mode, &found);
  /* The other list may have something. */
  if (CUDNN_STATUS_CATEGORY(listed) != CUDNN_STATUS_NOT_SUPPORTED) {
    status = cr_cudnn_check(g->dnn, listed, "choice of an algorithm");
  }
  for (int64_t i = 0; i < found.count && status == CREMA_OK && !is_done(s); ++i) {
    status = try_config(s, g, &found.list[i]);
  }
  for (int i = 0; i < CONFIGS; ++i) destroy(g->dnn, &found.list[i]);
  return status;
}

crema_status cr_cudnn_find_plans(const cr_cudnn *dnn, cudnnHandle_t handle,
                                 const cr_cudnn_conv *conv, const cr_cudnn_wish *wish,
                                 cr_cudnn_plans *out) {
  graph g = {.dnn = dnn, .handle = handle, .conv = conv};
  plan_search s = {.wish = wish, .out = out, .least = SIZE_MAX};
  out->count = 0;
  crema_status status = cr_cudnn_check(dnn, make_graph(&g, wish->alignment), "description");
  if (status == CREMA_OK) status = try_mode(&s, &g, CUDNN_HEUR_MODE_A);
  if (status == CREMA_OK && !is_done(&s)) status = try_mode(&s, &g, CUDNN_HEUR_MODE_FALLBACK);
  if (status == CREMA_OK && out->count == 0) {
    status = cr_cudnn_check(dnn, s.failure, "choice of an algorithm");
  }
  destroy_graph(&g);
  (void)cudaGetLastError();
  if (status != CREMA_OK) cr_cudnn_drop_plans(dnn, out, -1);
  return status;
}

cudnnStatus_t cr_cudnn_run_plan(const cr_cudnn *dnn, cudnnHandle_t handle,
                                const cr_cudnn_plan *plan, const void *x, const void *w,
                                const void *y, void *workspace) {
  const void *address[TENSORS] = {x, w, y};
  cudnnBackendDescriptor_t pack = NULL;
  maker m = begin(dnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(&m, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, TENSORS, address);
  set(&m, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, TENSORS, uid_of);
  set(&m, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  cudnnStatus_t status = finish(&m, &pack);
  if (status == CUDNN_STATUS_SUCCESS) status = dnn->cudnnBackendExecute(handle, plan->plan, pack);
  destroy(dnn, &pack);
  return status;
}
