/* Metadata about layers that the importer cannot make from their nodes. */
#include <string.h>

#include "core/fail.h"
#include "core/name_map.h"
#include "memory/tensor.h"
#include "onnx/export/layer.h"
#include "onnx/format/group.h"

/* ---- the group ----------------------------------------------------------------- */

typedef struct layer_nodes {
  cr_onnx_layer *l;
  size_t nodes, constants; /* of the graph before the layer */
  cr_name_map index;       /* constants that are no parameters, with their places */
  const char **parameter;  /* the initializer of each parameter */
} layer_nodes;

/* The initializer with the values of a parameter, which it does not copy. */
static crema_status find_parameter(layer_nodes *of, int index, const char **out) {
  const cr_onnx_graph *g = of->l->g;
  const float *values = NULL;
  CR_TRY(cr_tensor_host_read_floats(of->l->layer->blob[index]->data, &values));
  *out = NULL;
  for (size_t i = of->constants; i < g->graph.n_initializer; ++i) {
    const Onnx__TensorProto *tensor = g->graph.initializer[i];
    if (tensor->raw_data.data == (const uint8_t *)values) *out = tensor->name;
  }
  return CREMA_OK;
}

static crema_status find_parameters(layer_nodes *of) {
  for (int i = 0; i < of->l->layer->params; ++i) {
    CR_TRY(find_parameter(of, i, &of->parameter[i]));
    if (of->parameter[i] != NULL) continue;
    of->parameter[i] = cr_onnx_parameter(of->l->g, "parameter", of->l->layer->blob[i], NULL);
    CR_TRY(of->l->g->status);
  }
  return CREMA_OK;
}

static crema_status index_constants(layer_nodes *of) {
  const cr_onnx_graph *g = of->l->g;
  for (size_t i = of->constants; i < g->graph.n_initializer; ++i) {
    bool parameter = false;
    for (int k = 0; k < of->l->layer->params; ++k) {
      parameter = parameter || strcmp(of->parameter[k], g->graph.initializer[i]->name) == 0;
    }
    if (!parameter) CR_TRY(cr_name_map_set(&of->index, g->graph.initializer[i]->name, (int)i));
  }
  return CREMA_OK;
}

/* ---- the text -------------------------------------------------------------------- */

/* `open`: 1 + the axis with a size that depends on the data; 0: none. */
static crema_status print_shape(cr_buffer *out, const char *what, const crema_shape *shape,
                                int open, bool any_batch) {
  CR_TRY(cr_buffer_print(out, "%s", what));
  for (int i = 0; i < shape->axes; ++i) {
    if (i + 1 == open) CR_TRY(cr_buffer_print(out, " ?"));
    else if (i == 0 && any_batch) CR_TRY(cr_buffer_print(out, " N"));
    else CR_TRY(cr_buffer_print(out, " %lld", (long long)shape->dim[i]));
  }
  return cr_buffer_print(out, "\n");
}

static crema_status print_shapes(const layer_nodes *of, const int *open, cr_buffer *out) {
  const cr_onnx_layer *l = of->l;
  const bool any_batch = l->g->any_batch;
  for (int i = 0; i < l->bottoms; ++i) {
    CR_TRY(print_shape(out, "input", cr_onnx_bottom_shape(l, i), open[i], any_batch));
  }
  for (int i = 0; i < l->tops; ++i) {
    CR_TRY(print_shape(out, "output", cr_onnx_top_shape(l, i), open[l->bottoms + i],
                       any_batch && !l->fixed));
  }
  for (int i = 0; i < l->layer->params; ++i) {
    CR_TRY(print_shape(out, "parameter", &l->layer->blob[i]->shape, 0, false));
    out->size -= 1;
    CR_TRY(cr_buffer_print(out, " %s\n", of->parameter[i]));
  }
  return CREMA_OK;
}

/* The layer as it is read again: no parameters, no rules of its net, no files. */
static crema_status print_layer(const cr_onnx_layer *l, cr_buffer *out) {
  Caffe__LayerParameter layer = CAFFE__LAYER_PARAMETER__INIT;
  Caffe__DetectionOutputParameter found;
  if (l->text == NULL) layer = *l->param;
  layer.n_blobs = layer.n_param = layer.n_loss_weight = layer.n_propagate_down = 0;
  layer.n_include = layer.n_exclude = 0;
  layer.has_phase = false;
  layer.name = (char *)(uintptr_t)l->layer->name;
  layer.type = (char *)(uintptr_t)l->layer->kind->type;
  layer.n_bottom = (size_t)l->bottoms;
  layer.bottom = (char **)(uintptr_t)l->in;
  layer.n_top = (size_t)l->tops;
  layer.top = (char **)(uintptr_t)l->out;
  if (layer.detection_output_param != NULL) {
    found = *layer.detection_output_param;
    found.save_output_param = NULL;
    layer.detection_output_param = &found;
  }
  CR_TRY(cr_text_print(&layer.base, out));
  return l->text == NULL ? CREMA_OK : cr_buffer_print(out, "%s\n", l->text);
}

static crema_status print_entry(const layer_nodes *of, const int *open, cr_buffer *out) {
  const cr_onnx_graph *g = of->l->g;
  const size_t count = g->graph.n_node - of->nodes;
  char hash[CR_ONNX_HASH_TEXT];
  CR_TRY(
      cr_onnx_hash_nodes(g->graph.node + of->nodes, count, &of->index, g->graph.initializer, hash));
  CR_TRY(
      cr_buffer_print(out, "nodes %zu %s %s\n", count, hash, g->graph.node[of->nodes]->output[0]));
  CR_TRY(print_shapes(of, open, out));
  CR_TRY(cr_buffer_print(out, "layer\n"));
  return print_layer(of->l, out);
}

static crema_status write_entry(layer_nodes *of, const int *open) {
  cr_onnx_graph *g = of->l->g;
  cr_buffer key = {0}, value = {0};
  crema_status status = find_parameters(of);
  if (status == CREMA_OK) status = index_constants(of);
  if (status == CREMA_OK) status = print_entry(of, open, &value);
  if (status == CREMA_OK) {
    status = cr_buffer_print(&key, CR_ONNX_GROUP_KEY "%s", of->l->layer->name);
  }
  if (status == CREMA_OK) cr_onnx_metadata(g, key.data, value.data);
  cr_buffer_free(&key);
  cr_buffer_free(&value);
  return status;
}

static bool is_always_kept(const char *type) {
  static const char *const types[] = {
#define CR_ONNX_RESTORED(name) name,
#define CR_ONNX_PARTLY(name)
#include "onnx/format/restored.inc"
#undef CR_ONNX_PARTLY
#undef CR_ONNX_RESTORED
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (strcmp(types[i], type) == 0) return true;
  }
  return false;
}

void cr_onnx_keep_layer(cr_onnx_layer *l, size_t nodes, size_t constants, const int *open) {
  layer_nodes of = {.l = l, .nodes = nodes, .constants = constants};
  if (l->g->status != CREMA_OK || l->g->graph.n_node == nodes) return;
  bool wanted = l->kept || is_always_kept(l->layer->kind->type);
  /* Names are the last words of their lines. */
  for (int i = 0; i < l->tops; ++i) wanted = wanted && strchr(l->out[i], '\n') == NULL;
  if (!wanted || strchr(l->layer->name, '\n') != NULL) return;
  of.parameter = cr_onnx_memory(l->g, ((size_t)l->layer->params + 1) * sizeof *of.parameter);
  if (of.parameter == NULL) return;
  l->g->status = write_entry(&of, open);
  cr_name_map_free(&of.index);
}
