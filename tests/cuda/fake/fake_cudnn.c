/* The graph API of cuDNN on the host, for testing how the plug-in describes convolutions and runs
 * them: each attribute is checked against a table, what is not finalized cannot be used, and what
 * is cannot be changed. A descriptor lives on as long as another one refers to it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cudnn.h"
#include "fake_driver.h"

/* For tests: descriptors that were created and not destroyed. */
int fake_descriptors(void);

size_t cudnnGetVersion(void) {
  const char *given = getenv("FAKE_CUDNN_VERSION");
  return given != NULL ? (size_t)atoi(given) : CUDNN_VERSION;
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "fake cuDNN refuses";
}
/* FAKE_CUDNN_STATUS is for a library whose parts are not all there. */
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  const char *given = getenv("FAKE_CUDNN_STATUS");
  if (given != NULL && given[0] != '\0') return (cudnnStatus_t)atoi(given);
  if (fake_create_status() != CUDNN_STATUS_SUCCESS) return fake_create_status();
  if (fake_works_on() || fake_bound() < 0) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = calloc(1, sizeof **handle);
  fake_keep(*handle);
  return *handle != NULL ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (fake_unloaded()) abort();
  free(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == NULL || stream == NULL) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

/* ---- attributes ---- */

/* What may be set: `most` elements of a type, all of them unless others go with it. */
typedef struct rule {
  cudnnBackendDescriptorType_t desc;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t least, most;
} rule;

#define TENSOR(name, type, least, most) \
  { CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_##name, CUDNN_TYPE_##type, least, most }
#define WINDOW(name, type, least, most)                                                            \
  {                                                                                                \
    CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_##name, CUDNN_TYPE_##type, least, \
        most                                                                                       \
  }
#define OPERATION(pass, short, name, type)                                         \
  {                                                                                \
    CUDNN_BACKEND_OPERATION_CONVOLUTION_##pass##_DESCRIPTOR,                       \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##short##_##name, CUDNN_TYPE_##type, 1, 1 \
  }
#define OPERATIONS(pass, short, x, w, y)                                                           \
  OPERATION(pass, short, x, BACKEND_DESCRIPTOR), OPERATION(pass, short, w, BACKEND_DESCRIPTOR),    \
      OPERATION(pass, short, y, BACKEND_DESCRIPTOR),                                               \
      OPERATION(pass, short, CONV_DESC, BACKEND_DESCRIPTOR), OPERATION(pass, short, ALPHA, FLOAT), \
      OPERATION(pass, short, BETA, FLOAT)
#define OTHER(desc, name, type, most) \
  { CUDNN_BACKEND_##desc##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, 1, most }

/* The attributes of a descriptor follow each other; all of them are required. */
enum { TENSORS = 3, ATTRIBUTES = 7 };
static const rule rules[] = {
    TENSOR(DATA_TYPE, DATA_TYPE, 1, 1),
    TENSOR(DIMENSIONS, INT64, 3, FAKE_AXES),
    TENSOR(STRIDES, INT64, 3, FAKE_AXES),
    TENSOR(UNIQUE_ID, INT64, 1, 1),
    TENSOR(BYTE_ALIGNMENT, INT64, 1, 1),
    WINDOW(COMP_TYPE, DATA_TYPE, 1, 1),
    WINDOW(CONV_MODE, CONVOLUTION_MODE, 1, 1),
    WINDOW(SPATIAL_DIMS, INT64, 1, 1),
    WINDOW(PRE_PADDINGS, INT64, 1, FAKE_SPATIAL),
    WINDOW(POST_PADDINGS, INT64, 1, FAKE_SPATIAL),
    WINDOW(DILATIONS, INT64, 1, FAKE_SPATIAL),
    WINDOW(FILTER_STRIDES, INT64, 1, FAKE_SPATIAL),
    OPERATIONS(FORWARD, FORWARD, X, W, Y),
    OPERATIONS(BACKWARD_DATA, BWD_DATA, DX, W, DY),
    OPERATIONS(BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
    OTHER(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1),
    OTHER(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 1),
    OTHER(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1),
    OTHER(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1),
    OTHER(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 1),
    OTHER(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1),
    OTHER(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, TENSORS),
    OTHER(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, TENSORS),
    OTHER(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1),
};
enum { RULES = sizeof rules / sizeof *rules };

/* The first rule of a kind of descriptor; RULES: it has none. */
static int first_rule(cudnnBackendDescriptorType_t desc) {
  int i = 0;
  while (i < RULES && rules[i].desc != desc) ++i;
  return i;
}

static size_t element_size(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64: return sizeof(int64_t);
    case CUDNN_TYPE_FLOAT: return sizeof(float);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void *);
    default: return sizeof(int); /* an enumeration */
  }
}

/* ---- descriptors ---- */

typedef struct fake_desc fake_desc;

typedef struct fake_value {
  int64_t count; /* 0: not set */
  union {
    int64_t number[FAKE_AXES];
    void *pointer[FAKE_AXES];
    fake_desc *desc;
    cudnnHandle_t handle;
    float real;
    int choice;
  } of;
} fake_value;

struct fake_desc {
  cudnnBackendDescriptorType_t type;
  bool finalized;
  int users;                    /* whoever created it, and descriptors that refer to it */
  fake_value value[ATTRIBUTES]; /* as the rules for the type */
  /* Of a configuration, an engine and a plan, what they compute, and what a plan needs. */
  int64_t engine, bytes;
  fake_conv conv;
  atomic_bool loaded; /* the code of a plan */
};

static struct {
  pthread_mutex_t lock;
  int descriptors;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void count_descriptors(int more) {
  pthread_mutex_lock(&world.lock);
  world.descriptors += more;
  pthread_mutex_unlock(&world.lock);
}
int fake_descriptors(void) {
  pthread_mutex_lock(&world.lock);
  const int count = world.descriptors;
  pthread_mutex_unlock(&world.lock);
  return count;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out) {
  const bool given = type == CUDNN_BACKEND_ENGINE_DESCRIPTOR ||
                     type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || first_rule(type) < RULES;
  fake_desc *desc = NULL;
  if (!given) return CUDNN_STATUS_NOT_SUPPORTED;
  desc = calloc(1, sizeof *desc);
  if (desc == NULL) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  desc->type = type;
  desc->users = 1;
  /* Nobody destroys a plan when the driver has gone. */
  if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) fake_keep(desc);
  count_descriptors(1);
  *out = desc;
  return CUDNN_STATUS_SUCCESS;
}

static void leave(fake_desc *desc) {
  const int first = first_rule(desc->type);
  if (--desc->users > 0) return;
  for (int i = first; i < RULES && rules[i].desc == desc->type; ++i) {
    const fake_value *value = &desc->value[i - first];
    if (rules[i].type == CUDNN_TYPE_BACKEND_DESCRIPTOR && value->count > 0) leave(value->of.desc);
  }
  free(desc);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  fake_desc *desc = descriptor;
  if (desc == NULL) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (desc->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && fake_unloaded()) abort();
  count_descriptors(-1);
  leave(desc);
  return CUDNN_STATUS_SUCCESS;
}

/* The value of an attribute that the descriptor's kind has. */
static const fake_value *value_of(const fake_desc *desc, cudnnBackendAttributeName_t name) {
  const int first = first_rule(desc->type);
  int i = first;
  while (i < RULES && rules[i].name != name) ++i;
  return &desc->value[i - first];
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
  fake_desc *desc = descriptor, *child = NULL;
  if (desc == NULL || values == NULL) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (desc->finalized) return CUDNN_STATUS_NOT_INITIALIZED;
  const int first = first_rule(desc->type);
  int i = first;
  while (i < RULES && rules[i].desc == desc->type && rules[i].name != name) ++i;
  if (i == RULES || rules[i].desc != desc->type) return CUDNN_STATUS_BAD_PARAM;
  if (type != rules[i].type) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
  if (count < rules[i].least || count > rules[i].most) return CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
  fake_value *value = &desc->value[i - first];
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    memcpy(&child, values, sizeof child);
    if (child == NULL) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!child->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (value->count > 0) leave(value->of.desc);
    ++child->users;
  }
  value->count = count;
  memcpy(&value->of, values, (size_t)count * element_size(type));
  return CUDNN_STATUS_SUCCESS;
}

/* ---- finalizing ---- */

static bool is_set(const fake_desc *desc) {
  const int first = first_rule(desc->type);
  for (int i = first; i < RULES && rules[i].desc == desc->type; ++i) {
    if (desc->value[i - first].count == 0) return false;
  }
  return true;
}

static int64_t number(const fake_desc *desc, cudnnBackendAttributeName_t name) {
  return value_of(desc, name)->of.number[0];
}
static int choice(const fake_desc *desc, cudnnBackendAttributeName_t name) {
  return value_of(desc, name)->of.choice;
}

static bool take_type(int type, crema_dtype *out) {
  if (type == CUDNN_DATA_HALF) *out = CREMA_F16;
  else *out = type == CUDNN_DATA_BFLOAT16 ? CREMA_BF16 : CREMA_F32;
  return type == CUDNN_DATA_FLOAT || *out != CREMA_F32;
}

/* Whether the strides fit the extents in row-major order, or with the channels last. */
static bool is_ordered(const fake_tensor *t, const int64_t *stride, bool last) {
  int64_t step = 1;
  if (last) {
    if (stride[1] != 1) return false;
    step = t->dim[1];
  }
  for (int a = t->axes - 1; a >= 0; --a) {
    if (last && a == 1) continue;
    if (stride[a] != step) return false;
    step *= t->dim[a];
  }
  return true;
}

/* Only these two orders are imitated. */
static cudnnStatus_t read_tensor(const fake_desc *desc, fake_tensor *t) {
  const fake_value *dim = value_of(desc, CUDNN_ATTR_TENSOR_DIMENSIONS);
  const fake_value *stride = value_of(desc, CUDNN_ATTR_TENSOR_STRIDES);
  if (desc->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
  *t = (fake_tensor){.uid = number(desc, CUDNN_ATTR_TENSOR_UNIQUE_ID),
                     .alignment = number(desc, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
                     .axes = (int)dim->count};
  if (!take_type(choice(desc, CUDNN_ATTR_TENSOR_DATA_TYPE), &t->type)) {
    return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  }
  if (t->uid <= 0 || t->axes < 4 || stride->count != dim->count ||
      t->alignment < (t->type == CREMA_F32 ? 4 : 2) || (t->alignment & (t->alignment - 1)) != 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  for (int a = 0; a < t->axes; ++a) {
    t->dim[a] = (int)dim->of.number[a];
    if (t->dim[a] < 1) return CUDNN_STATUS_BAD_PARAM;
  }
  t->plain = is_ordered(t, stride->of.number, false);
  t->last = is_ordered(t, stride->of.number, true);
  return t->plain || t->last ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
}

static cudnnStatus_t read_window(const fake_desc *desc, fake_conv *c) {
  if (desc->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const fake_value *pad = value_of(desc, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const fake_value *post = value_of(desc, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  const fake_value *stride = value_of(desc, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const fake_value *dilation = value_of(desc, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const int64_t axes = number(desc, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  if (choice(desc, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT ||
      choice(desc, CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION || axes < 2 ||
      axes > FAKE_SPATIAL || pad->count != axes || post->count != axes || stride->count != axes ||
      dilation->count != axes) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  c->axes = (int)axes;
  for (int a = 0; a < c->axes; ++a) {
    c->pad[a] = (int)pad->of.number[a];
    c->stride[a] = (int)stride->of.number[a];
    c->dilation[a] = (int)dilation->of.number[a];
    if (c->pad[a] < 0 || post->of.number[a] != c->pad[a] || c->stride[a] < 1 ||
        c->dilation[a] < 1) {
      return CUDNN_STATUS_BAD_PARAM;
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

/* The attributes of the three passes' operations come in the same order. */
static cudnnStatus_t read_operation(const fake_desc *desc, fake_conv *c) {
  fake_tensor *tensor[TENSORS] = {&c->x, &c->w, &c->y};
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  for (int i = 0; i < TENSORS && status == CUDNN_STATUS_SUCCESS; ++i) {
    status = read_tensor(desc->value[i].of.desc, tensor[i]);
  }
  if (status == CUDNN_STATUS_SUCCESS) status = read_window(desc->value[TENSORS].of.desc, c);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  c->alpha = desc->value[TENSORS + 1].of.real;
  c->beta = desc->value[TENSORS + 2].of.real;
  switch (desc->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR: c->pass = FAKE_FORWARD; break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR: c->pass = FAKE_DATA; break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      c->pass = FAKE_WEIGHTS;
      break;
    default: return CUDNN_STATUS_BAD_PARAM;
  }
  if (c->x.uid == c->w.uid || c->x.uid == c->y.uid || c->w.uid == c->y.uid) {
    return CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES;
  }
  return fake_fits(c) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
}

static cudnnStatus_t finalize_graph(fake_desc *desc) {
  if (value_of(desc, CUDNN_ATTR_OPERATIONGRAPH_HANDLE)->of.handle == NULL) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  return read_operation(value_of(desc, CUDNN_ATTR_OPERATIONGRAPH_OPS)->of.desc, &desc->conv);
}

static cudnnStatus_t finalize_heuristics(fake_desc *desc) {
  const fake_desc *graph = value_of(desc, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->of.desc;
  const int mode = choice(desc, CUDNN_ATTR_ENGINEHEUR_MODE);
  if (graph->type != CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (mode != CUDNN_HEUR_MODE_A && mode != CUDNN_HEUR_MODE_FALLBACK) return CUDNN_STATUS_BAD_PARAM;
  desc->conv = graph->conv;
  return fake_list_status(&desc->conv);
}

static cudnnStatus_t finalize_plan(fake_desc *desc) {
  const fake_desc *config = value_of(desc, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->of.desc;
  if (value_of(desc, CUDNN_ATTR_EXECUTION_PLAN_HANDLE)->of.handle == NULL) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  if (config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (fake_bound() < 0) return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
  desc->engine = config->engine;
  desc->bytes = fake_plan_bytes(desc->engine);
  desc->conv = config->conv;
  return fake_plan_status(desc->engine, &desc->conv);
}

static cudnnStatus_t finalize_pack(const fake_desc *desc) {
  const fake_value *uid = value_of(desc, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const fake_value *data = value_of(desc, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (uid->count != data->count) return CUDNN_STATUS_BAD_PARAM;
  for (int64_t i = 0; i < data->count; ++i) {
    if (data->of.pointer[i] == NULL) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize(fake_desc *desc) {
  fake_tensor tensor;
  fake_conv conv = {.axes = 0};
  switch (desc->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return read_tensor(desc, &tensor);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return read_window(desc, &conv);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return finalize_graph(desc);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return finalize_heuristics(desc);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return finalize_plan(desc);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return finalize_pack(desc);
    default: return read_operation(desc, &conv);
  }
}

/* Configurations and engines come finalized from other descriptors. */
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  fake_desc *desc = descriptor;
  if (desc == NULL) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (desc->finalized || first_rule(desc->type) == RULES || !is_set(desc)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const cudnnStatus_t status = finalize(desc);
  desc->finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

/* ---- what descriptors tell ---- */

/* Descriptors that the caller has created become the results. */
static cudnnStatus_t fill(fake_desc *to, cudnnBackendDescriptorType_t type, int64_t engine,
                          const fake_conv *conv) {
  if (to == NULL) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (to->type != type || to->finalized) return CUDNN_STATUS_BAD_PARAM;
  to->engine = engine;
  to->conv = *conv;
  to->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t tell_results(const fake_desc *desc, int64_t wanted, int64_t *count,
                                  fake_desc **out) {
  enum { MOST = 32 };
  int64_t engine[MOST];
  *count =
      fake_list((cudnnBackendHeurMode_t)choice(desc, CUDNN_ATTR_ENGINEHEUR_MODE), engine, MOST);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  for (int64_t i = 0; i < *count && i < wanted && status == CUDNN_STATUS_SUCCESS; ++i) {
    status = fill(out[i], CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, engine[i], &desc->conv);
  }
  return status;
}

/* A question about a kind of descriptor. */
static bool is_asked(const fake_desc *desc, cudnnBackendDescriptorType_t of,
                     cudnnBackendAttributeName_t name, cudnnBackendAttributeName_t about) {
  return desc->type == of && name == about;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t *count, void *out) {
  const fake_desc *desc = descriptor;
  cudnnBackendNumericalNote_t numerical[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  cudnnBackendBehaviorNote_t behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
  int64_t told = 0, known = 1;
  const void *from = &told;
  cudnnBackendAttributeType_t of = CUDNN_TYPE_INT64;
  if (desc == NULL || (wanted > 0 && out == NULL)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (!desc->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (is_asked(desc, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, name, CUDNN_ATTR_ENGINEHEUR_RESULTS)) {
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    return tell_results(desc, wanted, count, out);
  }
  if (is_asked(desc, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, name, CUDNN_ATTR_ENGINECFG_ENGINE)) {
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    *count = 1;
    return fill(*(fake_desc **)out, CUDNN_BACKEND_ENGINE_DESCRIPTOR, desc->engine, &desc->conv);
  }
  if (is_asked(desc, CUDNN_BACKEND_ENGINE_DESCRIPTOR, name, CUDNN_ATTR_ENGINE_GLOBAL_INDEX)) {
    told = desc->engine;
  } else if (is_asked(desc, CUDNN_BACKEND_ENGINE_DESCRIPTOR, name,
                      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)) {
    of = CUDNN_TYPE_NUMERICAL_NOTE;
    known = fake_numerical_notes(desc->engine, desc->conv.x.type, numerical);
    from = numerical;
  } else if (is_asked(desc, CUDNN_BACKEND_ENGINE_DESCRIPTOR, name,
                      CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE)) {
    of = CUDNN_TYPE_BEHAVIOR_NOTE;
    known = fake_behavior_notes(desc->engine, behavior);
    from = behavior;
  } else if (is_asked(desc, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, name,
                      CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)) {
    told = desc->bytes;
  } else {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (type != of) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
  *count = known;
  if (known > wanted) known = wanted;
  if (known > 0) memcpy(out, from, (size_t)known * element_size(of));
  return CUDNN_STATUS_SUCCESS;
}

/* ---- running ---- */

/* The address that the pack has for the tensor, aligned as was promised. */
static cudnnStatus_t find_data(const fake_desc *pack, fake_tensor *t) {
  const fake_value *uid = value_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  t->data = NULL;
  for (int64_t i = 0; i < uid->count; ++i) {
    if (uid->of.number[i] != t->uid) continue;
    if (t->data != NULL) return CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES;
    t->data = value_of(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->of.pointer[i];
  }
  if (t->data == NULL) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  return (uintptr_t)t->data % (uintptr_t)t->alignment == 0
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
}

/* A plan may be run with another handle of its device than the one that it was made with. */
/* A convolution with its values. */
typedef struct fake_run {
  fake_conv conv;
  void *workspace;
  size_t bytes;
} fake_run;

static void run(const void *data) {
  const fake_run *r = data;
  if (fake_is_idle()) return;
  if (!fake_convolve(&r->conv)) abort();
  if (r->bytes > 0) memset(r->workspace, 0xff, r->bytes);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const fake_desc *p = plan, *v = pack;
  if (handle == NULL || handle->stream == NULL || p == NULL || v == NULL) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  if (p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      v->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (!p->finalized || !v->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (fake_works_on()) return CUDNN_STATUS_EXECUTION_FAILED;
  fake_conv conv = p->conv;
  fake_tensor *tensor[TENSORS] = {&conv.x, &conv.w, &conv.y};
  for (int i = 0; i < TENSORS; ++i) {
    const cudnnStatus_t status = find_data(v, tensor[i]);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  void *workspace = value_of(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->of.pointer[0];
  const size_t bytes = (size_t)p->bytes;
  if (bytes > 0 && workspace == NULL) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if ((uintptr_t)workspace % 256 != 0) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  fake_load_code(&((fake_desc *)plan)->loaded);
  fake_note_run(p->engine, handle);
  const fake_run started = {.conv = conv, .workspace = workspace, .bytes = bytes};
  if (!fake_record(handle->stream, run, &started, sizeof started)) run(&started);
  return CUDNN_STATUS_SUCCESS;
}
