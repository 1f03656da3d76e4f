/* A layer that is being exported, and the table of functions that export layers. */
#ifndef CR_ONNX_EXPORT_LAYER_H
#define CR_ONNX_EXPORT_LAYER_H

#include "onnx/export/graph.h"

typedef struct cr_onnx_layer {
  cr_onnx_graph *g;
  const cr_layer *layer;              /* params: layer->blob */
  const Caffe__LayerParameter *param; /* its fields */
  int bottoms, tops;
  crema_blob *const *bottom, *const *top; /* for their shapes */
  const char *const *in;                  /* the values of the bottoms */
  const char *const *out;                 /* names for the values of the tops */
  cr_buffer *rejected;                    /* a line for each layer that ONNX cannot express */
  int *rejections;
  /* For the function to set: */
  int open_axis;    /* 1 + the axis of the tops whose size depends on the data; 0: none */
  bool fixed;       /* the shapes of the tops do not depend on a symbolic batch */
  bool kept;        /* the importer cannot make this layer from its nodes: metadata describes it */
  const char *text; /* the layer's own fields for the metadata; NULL: as the net has them */
} cr_onnx_layer;

/* Adds the nodes that compute the tops. */
typedef void cr_onnx_export_fn(cr_onnx_layer *l);

/* Notes that the layer cannot be exported: the reason, and the nearest layer that can (NULL: none).
 */
void cr_onnx_reject(cr_onnx_layer *l, const char *nearest, const char *reason, ...)
    CREMA_PRINTF(3, 4);

/* Rejects the layer, and returns true, if the batch is symbolic and the layer's nodes depend on it.
 */
bool cr_onnx_rejects_any_batch(cr_onnx_layer *l);

/* Attributes of the newest node: a window over `axes` spatial axes, with the pads at all begins and
 * then at all ends. */
void cr_onnx_window(cr_onnx_graph *g, const cr_window *window, int axes, const int64_t *pads,
                    bool dilates);

/* A parameter that spans the axes of a blob of `axes` axes from `first` on, with axes of extent 1
 * up to its end. */
const char *cr_onnx_span_parameter(cr_onnx_graph *g, const char *what, crema_blob *blob, int first,
                                   int axes);

/* An axis of a shape from a field that may count from the end. The layer has checked it. */
static inline int cr_onnx_axis(const crema_shape *shape, int axis) {
  return axis < 0 ? axis + shape->axes : axis;
}

/* Writes metadata about the layer if the importer needs it. `nodes` and `constants` are the numbers
 * of nodes and initializers before the layer. `open` has, for each bottom, then for each top, 1 +
 * the axis whose size depends on the data, or 0. */
void cr_onnx_keep_layer(cr_onnx_layer *l, size_t nodes, size_t constants, const int *open);

/* The shape of a bottom or top. */
static inline const crema_shape *cr_onnx_bottom_shape(const cr_onnx_layer *l, int index) {
  return &l->bottom[index]->shape;
}
static inline const crema_shape *cr_onnx_top_shape(const cr_onnx_layer *l, int index) {
  return &l->top[index]->shape;
}

/* Special rows of the table: layers without nodes. */
cr_onnx_export_fn cr_onnx_export_source;  /* the tops that are used become inputs of the graph */
cr_onnx_export_fn cr_onnx_export_alias;   /* each top is bottom 0 */
cr_onnx_export_fn cr_onnx_export_nothing; /* the layer disappears; its bottom 0 is an output */
cr_onnx_export_fn cr_onnx_export_silence; /* the layer disappears; its bottoms are no outputs */

#define CR_ONNX_LAYER(type, function) cr_onnx_export_fn cr_onnx_export_##function;
#include "onnx/export/layers.inc"
#undef CR_ONNX_LAYER

/* The function for a type of layer; NULL: none. */
cr_onnx_export_fn *cr_onnx_find_export(const char *type);

#endif
