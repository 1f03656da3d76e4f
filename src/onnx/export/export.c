/* From the layers of a net to the nodes of a graph. */
#include "onnx/export/export.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/export/layer.h"

/* The value that a blob of the net holds. */
typedef struct value {
  const char *name; /* in the graph */
  bool source;      /* a data layer makes it: an input of the graph once it is used */
  float constant;   /* of a source whose values are all this number; NaN: they are not */
  bool given;       /* it is an input of the graph */
  bool used;        /* a node reads it */
  bool listed;      /* it is an output of the graph */
  int open_axis;    /* 1 + the axis whose size depends on the data; 0: none */
  bool fixed;       /* its shape does not depend on a symbolic batch */
} value;

typedef struct exporter {
  cr_onnx_graph graph;
  const crema_net *net;
  value **value; /* one per blob */
  int *writer;   /* one per blob: the last layer with nodes that makes it; -1: none */
  cr_buffer rejected;
  int rejections;
} exporter;

/* ---- the table ----------------------------------------------------------------- */

static const struct {
  const char *type;
  cr_onnx_export_fn *function;
} layers[] = {
#define CR_ONNX_LAYER(type, function) {type, cr_onnx_export_##function},
#include "onnx/export/layers.inc"
#undef CR_ONNX_LAYER
};

cr_onnx_export_fn *cr_onnx_find_export(const char *type) {
  for (size_t i = 0; i < sizeof layers / sizeof *layers; ++i) {
    if (strcmp(layers[i].type, type) == 0) return layers[i].function;
  }
  return NULL;
}

void cr_onnx_export_source(cr_onnx_layer *l) {
  (void)l;
}
void cr_onnx_export_alias(cr_onnx_layer *l) {
  (void)l;
}
void cr_onnx_export_nothing(cr_onnx_layer *l) {
  (void)l;
}

void cr_onnx_export_silence(cr_onnx_layer *l) {
  (void)l;
}

/* A layer that changes values only in TRAIN is an alias, whatever the table says. */
static cr_onnx_export_fn *function_of(const cr_net_layer *layer) {
  const cr_layer_class *kind = layer->layer->kind;
  if (kind->fusion.noop_in_test != NULL && kind->fusion.noop_in_test(layer->layer->param)) {
    return cr_onnx_export_alias;
  }
  return cr_onnx_find_export(kind->type);
}

/* ---- rejections ------------------------------------------------------------------ */

void cr_onnx_reject(cr_onnx_layer *l, const char *nearest, const char *reason, ...) {
  char text[512];
  va_list args;
  if (l->g->status != CREMA_OK) return;
  va_start(args, reason);
  (void)vsnprintf(text, sizeof text, reason, args);
  va_end(args);
  l->g->status = cr_buffer_print(
      l->rejected, "\n  layer '%s' (%s): %s%s%s", l->layer->name, l->layer->kind->type, text,
      nearest == NULL ? "" : "; nearest: ", nearest == NULL ? "" : nearest);
  *l->rejections += 1;
}

bool cr_onnx_rejects_any_batch(cr_onnx_layer *l) {
  if (!l->g->any_batch) return false;
  cr_onnx_reject(l, NULL, "it needs a fixed batch size");
  return true;
}

/* ---- values ------------------------------------------------------------------------ */

static value *add_value(exporter *x, int blob, const char *name) {
  value *v = cr_onnx_memory(&x->graph, sizeof *v);
  if (v == NULL) return NULL;
  v->name = name;
  v->constant = NAN;
  x->value[blob] = v;
  return v;
}

/* A source becomes an input, or a constant. */
static void give_source(exporter *x, int blob) {
  const crema_shape *shape = &x->net->blob[blob]->shape;
  value *v = x->value[blob];
  v->given = true;
  if (isnan(v->constant)) {
    cr_onnx_graph_input(&x->graph, v->name, shape);
    return;
  }
  float *values;
  v->name = cr_onnx_new_floats(&x->graph, v->name, shape, &values);
  const int64_t count = crema_shape_count(shape, 0, shape->axes);
  for (int64_t i = 0; values != NULL && i < count; ++i) values[i] = v->constant;
}

/* The name of a value that a node reads. */
static const char *use(exporter *x, int blob) {
  value *v = x->value[blob];
  if (v == NULL) return "";
  if (v->source && !v->given) give_source(x, blob);
  v->used = true;
  return v->name;
}

/* The name of the value that layer `index` puts into a blob: the blob's, unless a later layer works
 * on it in place. */
static const char *name_top(exporter *x, int index, int blob) {
  const char *name = x->net->blob_name[blob];
  return x->writer[blob] == index ? name : cr_onnx_name(&x->graph, name);
}

/* ---- layers -------------------------------------------------------------------------- */

/* The number that fills top `index` of a DummyData; NaN: not one number, or another layer. */
static float constant_of(const cr_net_layer *layer, int index) {
  const Caffe__DummyDataParameter *param = layer->layer->param->dummy_data_param;
  if (param == NULL || strcmp(layer->layer->kind->type, "DummyData") != 0) return NAN;
  if (param->n_data_filler == 0) return 0;
  const Caffe__FillerParameter *filler = param->data_filler[param->n_data_filler == 1 ? 0 : index];
  const bool constant = filler->type == NULL || strcmp(filler->type, "constant") == 0;
  return constant ? filler->value : NAN;
}

/* An input of the graph keeps the blob's name; later values of the blob get other names. */
static void export_sources(exporter *x, const cr_net_layer *layer) {
  const bool input = strcmp(layer->layer->kind->type, "Input") == 0;
  for (int t = 0; t < layer->layer->tops; ++t) {
    const int blob = layer->top_id[t];
    value *v = add_value(x, blob, x->net->blob_name[blob]);
    if (v == NULL) return;
    v->source = true;
    v->constant = constant_of(layer, t);
    if (!input) continue;
    v->given = true;
    cr_onnx_graph_input(&x->graph, v->name, &x->net->blob[blob]->shape);
  }
}

/* The layer as its function sees it, with `bottoms` and `tops`; NULL after a failure. `names` are
 * for the values of both. */
static cr_onnx_layer *open_layer(exporter *x, int index, int bottoms, int tops,
                                 const char **names) {
  const cr_net_layer *layer = &x->net->layer[index];
  cr_onnx_layer *l = cr_onnx_memory(&x->graph, sizeof *l);
  if (l == NULL) return NULL;
  x->graph.layer = layer->layer->name;
  *l = (cr_onnx_layer){.g = &x->graph,
                       .layer = layer->layer,
                       .param = layer->layer->param,
                       .bottoms = bottoms,
                       .tops = tops,
                       .bottom = layer->bottom,
                       .top = layer->top,
                       .in = names,
                       .out = names + bottoms,
                       .rejected = &x->rejected,
                       .rejections = &x->rejections};
  return l;
}

/* Whether axis 0 of a bottom has a size that depends on the data, which is like a symbolic batch.
 * Rejects the layer for other such axes, and for bottoms that are results of layers of training. */
static bool check_bottoms(exporter *x, const cr_net_layer *layer, cr_onnx_layer *l) {
  bool open = false;
  for (int b = 0; b < l->bottoms; ++b) {
    const value *v = x->value[layer->bottom_id[b]];
    if (v == NULL) cr_onnx_reject(l, NULL, "a bottom of it is the result of a layer of training");
    if (v == NULL || v->open_axis == 0) continue;
    open = true;
    if (v->open_axis > 1) {
      cr_onnx_reject(l, NULL, "the size of axis %d of its bottom %d depends on the data",
                     v->open_axis - 1, b);
    }
  }
  return open;
}

static void add_tops(exporter *x, const cr_net_layer *layer, const cr_onnx_layer *l, bool open) {
  for (int t = 0; t < l->tops; ++t) {
    value *v = add_value(x, layer->top_id[t], l->out[t]);
    if (v == NULL) return;
    v->open_axis = l->open_axis > 0 ? l->open_axis : open ? 1 : 0;
    v->fixed = l->fixed;
  }
}

/* Calls the function of the layer. */
static void write_nodes(exporter *x, const cr_net_layer *layer, cr_onnx_layer *l,
                        cr_onnx_export_fn *function) {
  const size_t nodes = x->graph.graph.n_node, constants = x->graph.graph.n_initializer;
  const bool any_batch = x->graph.any_batch;
  const int rejections = x->rejections;
  int *axes = cr_onnx_memory(&x->graph, ((size_t)(l->bottoms + l->tops) + 1) * sizeof *axes);
  const bool open = check_bottoms(x, layer, l);
  for (int b = 0; axes != NULL && b < l->bottoms; ++b) {
    const value *v = x->value[layer->bottom_id[b]];
    axes[b] = v == NULL ? 0 : v->open_axis;
  }
  x->graph.any_batch = any_batch || open;
  if (function == NULL) cr_onnx_reject(l, NULL, "no operator of ONNX computes it");
  else if (x->rejections == rejections) function(l);
  x->graph.any_batch = any_batch;
  add_tops(x, layer, l, open);
  for (int t = 0; axes != NULL && t < l->tops; ++t) {
    axes[l->bottoms + t] = l->open_axis > 0 ? l->open_axis : open ? 1 : 0;
  }
  if (axes != NULL) cr_onnx_keep_layer(l, nodes, constants, axes);
}

/* A layer that has only bottoms without values, the results of layers of training, disappears. */
static void export_nodes(exporter *x, int index, cr_onnx_export_fn *function) {
  const cr_net_layer *layer = &x->net->layer[index];
  const int bottoms = layer->layer->bottoms, tops = layer->layer->tops;
  int missing = 0;
  for (int b = 0; b < bottoms; ++b) missing += x->value[layer->bottom_id[b]] == NULL;
  if (missing > 0 && missing == bottoms) return;
  const char **names = cr_onnx_memory(&x->graph, ((size_t)(bottoms + tops) + 1) * sizeof *names);
  cr_onnx_layer *l = names == NULL ? NULL : open_layer(x, index, bottoms, tops, names);
  if (l == NULL) return;
  for (int b = 0; b < bottoms; ++b) names[b] = use(x, layer->bottom_id[b]);
  for (int t = 0; t < tops; ++t) names[bottoms + t] = name_top(x, index, layer->top_id[t]);
  write_nodes(x, layer, l, function);
}

/* A loss whose scores become probabilities: top 1 or, without one, an output "prob", or
 * "<top>/prob" if that name is taken. */
static void export_loss(exporter *x, int index, cr_onnx_export_fn *function) {
  const cr_net_layer *layer = &x->net->layer[index];
  const bool has_top = layer->layer->tops > 1;
  if (x->value[layer->bottom_id[0]] == NULL) return;
  const char **names = cr_onnx_memory(&x->graph, 2 * sizeof *names);
  cr_onnx_layer *l = names == NULL ? NULL : open_layer(x, index, 1, 1, names);
  if (l == NULL) return;
  names[0] = use(x, layer->bottom_id[0]);
  if (has_top) {
    names[1] = name_top(x, index, layer->top_id[1]);
  } else if (cr_name_map_get(&x->graph.names, "prob") < 0) {
    names[1] = "prob";
    cr_onnx_take_name(&x->graph, "prob");
  } else {
    x->graph.layer = x->net->blob_name[layer->top_id[0]];
    names[1] = cr_onnx_name(&x->graph, "prob");
    x->graph.layer = layer->layer->name;
  }
  function(l);
  if (has_top) add_value(x, layer->top_id[1], names[1]);
  else cr_onnx_graph_output(&x->graph, names[1], cr_onnx_bottom_shape(l, 0));
}

static void export_layer(exporter *x, int index) {
  const cr_net_layer *layer = &x->net->layer[index];
  cr_onnx_export_fn *function = function_of(layer);
  if (function == cr_onnx_export_nothing) return;
  if (function == cr_onnx_export_silence) {
    for (int b = 0; b < layer->layer->bottoms; ++b) {
      value *v = x->value[layer->bottom_id[b]];
      if (v != NULL) v->used = true;
    }
  } else if (function == cr_onnx_export_source) {
    export_sources(x, layer);
  } else if (function == cr_onnx_export_alias) {
    value *v = x->value[layer->bottom_id[0]];
    for (int t = 0; t < layer->layer->tops; ++t) x->value[layer->top_id[t]] = v;
  } else if (function != NULL && layer->layer->kind->loss) {
    export_loss(x, index, function);
  } else {
    export_nodes(x, index, function);
  }
}

/* ---- outputs --------------------------------------------------------------------------- */

static void list_output(exporter *x, int blob, const char *name) {
  value *v = x->value[blob];
  if (strcmp(v->name, name) == 0) {
    if (v->listed) return;
    v->listed = true;
  } else {
    CR_ONNX_NODE(&x->graph, "Identity", name, use(x, blob));
  }
  const crema_shape *shape = &x->net->blob[blob]->shape;
  if (v->open_axis > 0) cr_onnx_graph_open_output(&x->graph, name, shape, v->open_axis - 1);
  else if (v->fixed) cr_onnx_graph_open_output(&x->graph, name, shape, -1);
  else cr_onnx_graph_output(&x->graph, name, shape);
}

/* Whether a Split that the net inserted makes the blob "<split>_<number>". A net that reads the file
 * would insert a Split of the same name. */
static bool is_automatic(const exporter *x, int blob) {
  const char *name = x->net->blob_name[blob];
  for (int i = 0; i < x->net->layers; ++i) {
    const cr_layer *layer = x->net->layer[i].layer;
    const size_t size = strlen(layer->name);
    if (strcmp(layer->kind->type, "Split") != 0 || strncmp(name, layer->name, size) != 0) continue;
    if (name[size] == '_') return true;
  }
  return false;
}

/* The outputs of the net, and values that only layers without nodes read. */
static void export_outputs(exporter *x) {
  for (int i = 0; i < x->net->outputs; ++i) {
    const int blob = x->net->output[i];
    const value *v = x->value[blob];
    const char *name = x->net->blob_name[blob];
    if (v != NULL && is_automatic(x, blob)) name = v->name;
    if (v == NULL || (v->source && strcmp(v->name, name) == 0)) continue;
    list_output(x, blob, name);
  }
  for (int blob = 0; blob < x->net->blobs; ++blob) {
    const value *v = x->value[blob];
    if (v != NULL && !v->source && !v->used && !v->listed) list_output(x, blob, v->name);
  }
}

/* ---- the whole --------------------------------------------------------------------------- */

static void prepare(exporter *x) {
  const crema_net *net = x->net;
  const size_t blobs = (size_t)net->blobs + 1;
  x->value = cr_onnx_memory(&x->graph, blobs * sizeof *x->value);
  x->writer = cr_onnx_memory(&x->graph, blobs * sizeof *x->writer);
  if (x->writer == NULL) return;
  for (int i = 0; i < net->blobs; ++i) {
    x->writer[i] = -1;
    cr_onnx_take_name(&x->graph, net->blob_name[i]);
  }
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    cr_onnx_export_fn *function = function_of(layer);
    if (function == cr_onnx_export_alias || function == cr_onnx_export_nothing) continue;
    for (int t = 0; t < layer->layer->tops; ++t) {
      int *writer = &x->writer[layer->top_id[t]];
      const bool source =
          *writer >= 0 && function_of(&net->layer[*writer]) == cr_onnx_export_source;
      if (!source) *writer = i;
    }
  }
}

static crema_status check(const crema_net *net, int opset) {
  if (crema_net_phase(net) != CREMA_TEST) {
    return cr_fail(CREMA_E_STATE, "only a net of phase TEST can be exported to ONNX");
  }
  if (opset >= CR_ONNX_OPSET_FIRST && opset <= CR_ONNX_OPSET_LAST) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE, "ONNX operator set %d; sets %d to %d are supported", opset,
                 CR_ONNX_OPSET_FIRST, CR_ONNX_OPSET_LAST);
}

crema_status cr_onnx_export(crema_net *net, int opset, bool any_batch, const char *path) {
  exporter x = {.net = net};
  CR_TRY(check(net, opset));
  cr_onnx_graph_begin(&x.graph, opset);
  x.graph.any_batch = any_batch;
  prepare(&x);
  for (int i = 0; i < net->layers && x.graph.status == CREMA_OK; ++i) export_layer(&x, i);
  if (x.graph.status == CREMA_OK) export_outputs(&x);
  crema_status status = x.graph.status;
  if (status == CREMA_OK && x.rejections == 0 && x.graph.graph.n_output == 0) {
    status = cr_fail(CREMA_E_UNSUPPORTED,
                     "the net has only data and layers of training; ONNX has "
                     "no operators for them");
  }
  if (status == CREMA_OK && x.rejections > 0) {
    status = cr_fail(CREMA_E_UNSUPPORTED, "ONNX cannot express %d layer%s of the net:%s",
                     x.rejections, x.rejections == 1 ? "" : "s", x.rejected.data);
  }
  if (status == CREMA_OK) status = cr_onnx_graph_write(&x.graph, crema_net_name(net), path);
  cr_buffer_free(&x.rejected);
  cr_onnx_graph_free(&x.graph);
  return status;
}
