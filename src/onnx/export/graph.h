/* The ONNX graph that an export builds.
 *
 * A function that adds to the graph returns nothing: after the first failure the graph keeps its
 * status, and later calls do nothing. Names that these functions return live as long as the graph.
 *
 *   const char *sum = cr_onnx_name(g, "sum");
 *   CR_ONNX_NODE(g, "Add", sum, in, bias);
 *   CR_ONNX_NODE(g, "Softmax", out, sum);
 *   cr_onnx_int(g, "axis", 1);              ... of the newest node */
#ifndef CR_ONNX_EXPORT_GRAPH_H
#define CR_ONNX_EXPORT_GRAPH_H

#include "core/arena.h"
#include "core/name_map.h"
#include "net/net.h"
#include "onnx/format/model_file.h"

/* A list that grows in the arena; the message has the items and their number. */
typedef struct cr_onnx_graph {
  cr_arena arena;
  crema_status status;
  int opset;
  bool any_batch;    /* dimension 0 of the inputs is symbolic */
  const char *layer; /* the prefix of new names: the layer that is being exported */
  Onnx__ModelProto model;
  Onnx__GraphProto graph;
  size_t node_room, initializer_room, input_room, output_room, metadata_room;
  cr_name_map names; /* of all values; for new names, the last number that was tried */
} cr_onnx_graph;

void cr_onnx_graph_begin(cr_onnx_graph *g, int opset);
void cr_onnx_graph_free(cr_onnx_graph *g);

/* Memory of the graph, all zero; NULL after a failure. */
void *cr_onnx_memory(cr_onnx_graph *g, size_t size);

/* ---- names ------------------------------------------------------------------ */

/* A new name "<layer>/<what>", with a number if it is taken. */
const char *cr_onnx_name(cr_onnx_graph *g, const char *what);
/* Takes a name, such as a blob's, so that no new name equals it. */
void cr_onnx_take_name(cr_onnx_graph *g, const char *name);

/* ---- nodes ------------------------------------------------------------------ */

/* Adds a node with one output. The inputs end with NULL; "" omits an optional input. */
void cr_onnx_node(cr_onnx_graph *g, const char *op, const char *output, const char *const *inputs);
#define CR_ONNX_NODE(g, op, output, ...) \
  cr_onnx_node(g, op, output, (const char *const[]){__VA_ARGS__, NULL})
/* One more output of the newest node. */
void cr_onnx_output(cr_onnx_graph *g, const char *output);

/* Attributes of the newest node. Lists are copied. */
void cr_onnx_int(cr_onnx_graph *g, const char *name, int64_t value);
void cr_onnx_ints(cr_onnx_graph *g, const char *name, const int64_t *values, size_t count);
void cr_onnx_float(cr_onnx_graph *g, const char *name, float value);
void cr_onnx_text(cr_onnx_graph *g, const char *name, const char *value);

/* ---- constants --------------------------------------------------------------- */

/* An initializer; returns its name. The numbers are copied. */
const char *cr_onnx_floats(cr_onnx_graph *g, const char *what, const crema_shape *shape,
                           const float *values);
const char *cr_onnx_integers(cr_onnx_graph *g, const char *what, const int64_t *values,
                             size_t count);
/* A float without axes, and the same as DOUBLE. */
const char *cr_onnx_scalar(cr_onnx_graph *g, const char *what, float value);
const char *cr_onnx_double(cr_onnx_graph *g, const char *what, double value);
/* An initializer with room for the numbers of `shape`, which the caller writes to *out (NULL after
 * a failure). */
const char *cr_onnx_new_floats(cr_onnx_graph *g, const char *what, const crema_shape *shape,
                               float **out);
/* The values of a parameter, which are not copied: the blob must outlive the graph. `shape` may be
 * NULL: the blob's. */
const char *cr_onnx_parameter(cr_onnx_graph *g, const char *what, crema_blob *blob,
                              const crema_shape *shape);

/* ---- operators whose form depends on the operator set ------------------------- */

void cr_onnx_unsqueeze(cr_onnx_graph *g, const char *out, const char *in, const int64_t *axes,
                       size_t count);
/* op: ReduceSum, ReduceMean, ReduceMax and so on. */
void cr_onnx_reduce(cr_onnx_graph *g, const char *op, const char *out, const char *in,
                    const int64_t *axes, size_t count, bool keep);
/* Softmax over one axis of a tensor with `axes` axes. */
void cr_onnx_softmax(cr_onnx_graph *g, const char *out, const char *in, int axis, int axes);
/* From `start` to `end` - 1 of an axis. */
void cr_onnx_slice(cr_onnx_graph *g, const char *out, const char *in, int axis, int64_t start,
                   int64_t end);
/* Numbers of `in` under another shape: 0 keeps the dimension of that place, -1 stands for the rest.
 */
void cr_onnx_reshape(cr_onnx_graph *g, const char *out, const char *in, const int64_t *dims,
                     size_t count);
/* As above, to the shape of a blob; a symbolic batch stays symbolic in dimension 0. */
void cr_onnx_reshape_to(cr_onnx_graph *g, const char *out, const char *in,
                        const crema_shape *shape);
/* Pads with a constant: `pads` are the begins of all axes, then their ends. */
void cr_onnx_pad(cr_onnx_graph *g, const char *out, const char *in, const int64_t *pads,
                 size_t count, float value);
/* Limits values; NaN as a limit: none. */
void cr_onnx_clip(cr_onnx_graph *g, const char *out, const char *in, float low, float high);
void cr_onnx_transpose(cr_onnx_graph *g, const char *out, const char *in, const int64_t *order,
                       size_t count);
/* Parts of an axis, with their sizes; `out` has `count` names. */
void cr_onnx_split(cr_onnx_graph *g, const char *const *out, const char *in, int axis,
                   const int64_t *sizes, size_t count);

/* ---- the model ----------------------------------------------------------------- */

/* An input or output of the graph: a FLOAT tensor of this shape. */
void cr_onnx_graph_input(cr_onnx_graph *g, const char *name, const crema_shape *shape);
void cr_onnx_graph_output(cr_onnx_graph *g, const char *name, const crema_shape *shape);
/* An output whose axis `axis` has a size that depends on the data; -1: all sizes are fixed. */
void cr_onnx_graph_open_output(cr_onnx_graph *g, const char *name, const crema_shape *shape,
                               int axis);
/* An entry of the model's metadata. The texts are copied. */
void cr_onnx_metadata(cr_onnx_graph *g, const char *key, const char *value);

/* Writes the file. Errors: the status of the graph, CREMA_E_IO, CREMA_E_NO_MEMORY. */
crema_status cr_onnx_graph_write(cr_onnx_graph *g, const char *name,
                                 const char *path) CREMA_MUST_USE;

#endif
