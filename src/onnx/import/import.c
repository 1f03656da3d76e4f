/* From the graph of an ONNX file to the layers of a net. */
#include "onnx/import/import.h"

#include <stdlib.h>
#include <string.h>

#include "core/c_locale.h"
#include "core/fail.h"
#include "onnx/import/graph.h"
#include "onnx/import/live.h"
#include "onnx/import/metadata.h"
#include "onnx/import/outputs.h"
#include "proto/field.h"

enum { OPSET_FIRST = 7, OPSET_LAST = 21 };

/* ---- values ---------------------------------------------------------------- */

/* The value that a node or the graph makes, which must not exist yet. */
static crema_status define(cr_import *import, const char *name, cr_import_value **out) {
  if (cr_import_find_value(import, name) != NULL) {
    return cr_fail(CREMA_E_CORRUPT, "%s: two nodes make the value '%s'", import->model->path, name);
  }
  return cr_import_add_value(import, name, out);
}

/* ---- the graph's inputs ---------------------------------------------------- */

static crema_status read_initializers(cr_import *import) {
  const Onnx__GraphProto *graph = import->model->proto->graph;
  for (size_t i = 0; i < graph->n_initializer; ++i) {
    const Onnx__TensorProto *tensor = graph->initializer[i];
    cr_import_value *value;
    CR_TRY(define(import, tensor->name == NULL ? "" : tensor->name, &value));
    CR_TRY(cr_import_tensor(import, tensor, value));
  }
  return CREMA_OK;
}

/* The shape that an input states; a first dimension without a number is a batch of 1. */
static crema_status read_shape(const cr_import *import, const Onnx__ValueInfoProto *info,
                               crema_shape *out) {
  const Onnx__TypeProto *type = info->type;
  const char *path = import->model->path;
  if (type == NULL || type->tensor_type == NULL || type->tensor_type->shape == NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "%s: input '%s' has no shape", path, info->name);
  }
  const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
  if (shape->n_dim > CREMA_MAX_AXES) {
    return cr_fail(CREMA_E_SHAPE, "%s: input '%s' has %zu axes", path, info->name, shape->n_dim);
  }
  out->axes = (int)shape->n_dim;
  for (int i = 0; i < out->axes; ++i) {
    const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
    const bool fixed = dim->has_dim_value && dim->dim_value > 0;
    if (!fixed && i > 0) {
      return cr_fail(CREMA_E_UNSUPPORTED,
                     "%s: axis %d of input '%s' has no fixed size ('%s'); export the model with a "
                     "fixed size",
                     path, i, info->name, dim->dim_param == NULL ? "" : dim->dim_param);
    }
    out->dim[i] = fixed ? dim->dim_value : 1;
  }
  return crema_shape_check(out);
}

static crema_status add_input(cr_import *import, const Onnx__ValueInfoProto *info) {
  static const Onnx__NodeProto nothing = ONNX__NODE_PROTO__INIT;
  Onnx__NodeProto node = nothing;
  char *output = info->name;
  cr_buffer text = {0};
  crema_shape shape;
  cr_import_value *value;
  CR_TRY(read_shape(import, info, &shape));
  CR_TRY(define(import, info->name, &value));
  CR_TRY(cr_import_set_shape(import, value, &shape));
  value->type = info->type->tensor_type->elem_type;
  node.n_output = 1;
  node.output = &output;
  cr_import_node maker = {.import = import, .proto = &node, .op = "Input"};
  crema_status status = cr_buffer_print(&text, "type: \"Input\" input_param { shape {");
  for (int i = 0; i < shape.axes && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&text, " dim: %lld", (long long)shape.dim[i]);
  }
  if (status == CREMA_OK) status = cr_buffer_print(&text, " } }");
  if (status == CREMA_OK) status = cr_import_wide_layer(&maker, NULL, 0, &value, 1, text.data);
  cr_buffer_free(&text);
  return status;
}

static crema_status add_inputs(cr_import *import) {
  const Onnx__GraphProto *graph = import->model->proto->graph;
  for (size_t i = 0; i < graph->n_input; ++i) {
    const Onnx__ValueInfoProto *info = graph->input[i];
    if (info->name == NULL || info->name[0] == '\0') {
      return cr_fail(CREMA_E_CORRUPT, "%s: an input has no name", import->model->path);
    }
    if (cr_import_find_value(import, info->name) != NULL)
      continue; /* the default of an initializer */
    CR_TRY(add_input(import, info));
  }
  return CREMA_OK;
}

/* ---- nodes ------------------------------------------------------------------ */

static bool has_unknown_input(const cr_import_node *node) {
  for (int i = 0; i < node->inputs; ++i) {
    if (node->input[i] != NULL && node->input[i]->shape == NULL) return true;
  }
  return false;
}

/* Blobs have floats, so that only operators which move numbers, or look at truth values, take
 * integers. */
static bool takes_integers(const char *op) {
  static const char *const ops[] = {
      "And",    "Cast",     "CastLike", "Concat",    "DepthToSpace", "Expand", "Flatten",
      "Gather", "Identity", "Not",      "Or",        "Reshape",      "Slice",  "SpaceToDepth",
      "Split",  "Squeeze",  "Tile",     "Transpose", "Unsqueeze"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) {
    if (strcmp(ops[i], op) == 0) return true;
  }
  return false;
}

static bool has_integers(const cr_import_node *node) {
  for (int i = 0; i < node->inputs; ++i) {
    const cr_import_value *value = node->input[i];
    if (value == NULL || cr_import_is_constant(value)) continue;
    if (value->type != CR_ONNX_FLOAT && value->type != CR_ONNX_DOUBLE &&
        value->type != CR_ONNX_FLOAT16 && value->type != CR_ONNX_BFLOAT16) {
      return true;
    }
  }
  return false;
}

/* Calls the operator's function. */
static crema_status import_layers(cr_import_node *node) {
  cr_import_fn *function = cr_import_find(node->op);
  if (function == NULL && cr_import_folds(node->op)) {
    return cr_import_reject(node, "no layer computes it; its inputs must be constant");
  }
  if (function == NULL) return cr_import_reject(node, "%s", cr_import_reason(node->op));
  if (node->inputs < 1 || node->input[0] == NULL) return cr_import_reject(node, "no input");
  if (!takes_integers(node->op) && has_integers(node)) {
    return cr_import_reject(node, "integers that are not constant");
  }
  return function(node);
}

/* Loads constants, except for operators that only make them the parameters of a layer. */
static crema_status load_constants(cr_import_node *node) {
  static const char *const lazy[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
  for (size_t i = 0; i < sizeof lazy / sizeof *lazy; ++i) {
    if (strcmp(node->op, lazy[i]) == 0) return CREMA_OK;
  }
  for (int i = 0; i < node->inputs; ++i) {
    if (node->input[i] != NULL) CR_TRY(cr_import_load(node->import, node->input[i]));
  }
  return CREMA_OK;
}

/* Imports the node, or notes why that is impossible: then the shapes of its outputs stay unknown.
 * A node after one that was rejected is only checked for its operator. */
static crema_status import_node(cr_import_node *node) {
  const char *domain = node->proto->domain;
  bool done = false;
  if (domain != NULL && domain[0] != '\0' && strcmp(domain, "ai.onnx") != 0) {
    return cr_import_reject(node, "operators of the domain '%s' are not supported", domain);
  }
  if (has_unknown_input(node)) {
    const bool known = cr_import_find(node->op) != NULL || cr_import_folds(node->op);
    return known ? CREMA_OK : cr_import_reject(node, "%s", cr_import_reason(node->op));
  }
  CR_TRY(load_constants(node));
  CR_TRY(cr_import_fold(node, &done));
  return done ? CREMA_OK : import_layers(node);
}

static crema_status find_inputs(const cr_import *import, cr_import_node *node) {
  for (int i = 0; i < node->inputs; ++i) {
    const char *name = node->proto->input[i];
    if (name[0] == '\0') continue;
    node->input[i] = cr_import_find_value(import, name);
    if (node->input[i] == NULL) {
      return cr_fail(CREMA_E_CORRUPT, "%s: no node before '%s' (%s) makes its input '%s'",
                     import->model->path, node->proto->name == NULL ? "" : node->proto->name,
                     node->op, name);
    }
  }
  return CREMA_OK;
}

/* The values that the node makes; an output after the first that nothing reads is omitted. */
static crema_status define_outputs(cr_import *import, cr_import_node *node) {
  static const crema_shape nothing = {0};
  for (int i = 0; i < node->outputs; ++i) {
    char *name = node->proto->output[i];
    if (name[0] == '\0' && i == 0) {
      CR_TRY(cr_import_between(node, "output", &nothing, &node->output[i]));
      node->output[i]->shape = NULL;
    } else if (i == 0 || (name[0] != '\0' && cr_name_map_get(&import->used, name) >= 0)) {
      CR_TRY(define(import, name, &node->output[i]));
    }
    if (node->output[i] != NULL) node->output[i]->type = CR_ONNX_FLOAT;
  }
  return CREMA_OK;
}

static crema_status take_node(cr_import *import, const Onnx__NodeProto *proto) {
  void *ends;
  cr_import_node node = {.import = import,
                         .proto = proto,
                         .op = proto->op_type == NULL ? "" : proto->op_type,
                         .inputs = (int)proto->n_input,
                         .outputs = (int)proto->n_output};
  if (node.outputs == 0) {
    return cr_fail(CREMA_E_CORRUPT, "%s: node '%s' (%s) has no output", import->model->path,
                   proto->name == NULL ? "" : proto->name, node.op);
  }
  CR_TRY(
      cr_arena_alloc(&import->arena, (proto->n_input + proto->n_output) * sizeof(void *), &ends));
  node.input = ends;
  node.output = node.input + node.inputs;
  CR_TRY(find_inputs(import, &node));
  CR_TRY(define_outputs(import, &node));
  const int rejections = import->rejections;
  crema_status status = import_node(&node);
  if (import->rejections == rejections) {
    return cr_fail_in(status, "%s: node '%s' (%s)", import->model->path,
                      proto->name == NULL ? "" : proto->name, node.op);
  }
  for (int i = 0; i < node.outputs; ++i) {
    cr_import_value *value = node.output[i];
    if (value != NULL) *value = (cr_import_value){.name = value->name};
  }
  return CREMA_OK;
}

/* ---- the whole -------------------------------------------------------------- */

static crema_status check_model(const cr_onnx_model *model) {
  const int64_t opset = cr_onnx_model_opset(model->proto);
  if (model->proto->n_functions > 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "%s: models with local functions are not supported",
                   model->path);
  }
  if (model->proto->graph->n_sparse_initializer > 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "%s: sparse tensors are not supported", model->path);
  }
  if (opset >= OPSET_FIRST && opset <= OPSET_LAST) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "%s: operator set %lld; sets %d to %d are supported",
                 model->path, (long long)opset, OPSET_FIRST, OPSET_LAST);
}

static crema_status import_graph(cr_import *import) {
  const Onnx__GraphProto *graph = import->model->proto->graph;
  if (graph->name != NULL && (import->net->name = cr_proto_strdup(graph->name)) == NULL) {
    return cr_fail_memory(strlen(graph->name) + 1, "a name");
  }
  CR_TRY(read_initializers(import));
  CR_TRY(add_inputs(import));
  CR_TRY(cr_import_read_groups(import));
  CR_TRY(cr_import_find_patterns(import));
  CR_TRY(cr_import_drop_dead(import));
  for (size_t i = 0, taken = 0; i < graph->n_node; i += taken) {
    CR_TRY(cr_import_take_group(import, i, &taken));
    if (taken > 0) continue;
    if (import->node[i] != NULL) CR_TRY(take_node(import, import->node[i]));
    taken = 1;
  }
  if (import->rejections == 0) return cr_import_make_outputs(import);
  return cr_fail(CREMA_E_UNSUPPORTED, "%s: %d node%s cannot be imported:%s", import->model->path,
                 import->rejections, import->rejections == 1 ? "" : "s", import->rejected.data);
}

static void free_import(cr_import *import) {
  cr_import_free_groups(import);
  cr_buffer_free(&import->restored);
  cr_name_map_free(&import->index);
  cr_name_map_free(&import->used);
  cr_name_map_free(&import->layer_index);
  cr_name_map_free(&import->reader_index);
  cr_buffer_free(&import->rejected);
  free(import->value);
  cr_arena_free(&import->arena);
}

crema_status cr_onnx_import_listing(const char *path, Caffe__NetParameter **out,
                                    cr_buffer *restored) {
  cr_onnx_model model;
  cr_import import = {.model = &model};
  cr_c_locale locale;
  *out = NULL;
  CR_TRY(cr_c_locale_begin(&locale));
  crema_status status = cr_onnx_model_open(path, &model);
  if (status == CREMA_OK) status = check_model(&model);
  if (status == CREMA_OK) {
    import.opset = cr_onnx_model_opset(model.proto);
    status = cr_message_new(&caffe__net_parameter__descriptor, &import.net);
  }
  if (status == CREMA_OK) status = import_graph(&import);
  if (restored != NULL) {
    *restored = import.restored;
    import.restored = (cr_buffer){0};
  }
  free_import(&import);
  cr_onnx_model_close(&model);
  cr_c_locale_end(&locale);
  if (status == CREMA_OK) *out = import.net;
  else if (import.net != NULL) cr_message_free(&import.net->base);
  return status;
}

crema_status cr_onnx_import(const char *path, Caffe__NetParameter **out) {
  return cr_onnx_import_listing(path, out, NULL);
}
