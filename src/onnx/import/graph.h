/* The import of an ONNX graph, as the operators see it.
 *
 * Nodes are taken in the order of the file. Each gives its outputs a shape, by the rules of ONNX,
 * and adds layers to the net that compute them. The blob of a value has the value's name and shape.
 * Values that do not depend on an input of the graph are constants and need no layer. */
#ifndef CR_ONNX_IMPORT_GRAPH_H
#define CR_ONNX_IMPORT_GRAPH_H

#include "core/arena.h"
#include "core/name_map.h"
#include "crema/types.h"
#include "onnx/format/model_file.h"

/* A tensor of the graph. */
typedef struct cr_import_value {
  const char *name;
  const crema_shape *shape; /* NULL: unknown, because a node before it is not supported */
  int32_t type;             /* cr_onnx_type; 0: unknown */
  const float *floats;      /* a constant of a floating type: its numbers; else NULL */
  const uint8_t *unread; /* where the numbers are in the file, which floats do not have yet; NULL:
                            they have. Only products get such constants. */
  const int64_t *ints;   /* a constant of integers or booleans: its numbers; else NULL */
  const char *blob;      /* the blob that has the value; NULL: not in the net (yet) */
  const int64_t *zeros;  /* zeros around the blob that belong to the value: the numbers before the
                            blob along each axis, then those after it; NULL: none */
} cr_import_value;

/* A node that reads a value. */
typedef struct cr_import_reader {
  int node, next; /* the place of the next reader of the same value; -1: none */
} cr_import_reader;

typedef struct cr_import {
  cr_arena arena;
  cr_onnx_model *model;
  int64_t opset;
  cr_name_map index; /* names of values to their places in `value` */
  cr_import_value **value;
  int values, capacity;
  cr_name_map layer_index;  /* names of layers */
  cr_name_map reader_index; /* names of values to their newest places in `reader` */
  cr_import_reader *reader; /* NULL: not needed yet */
  Caffe__NetParameter *net;
  cr_buffer rejected; /* a line for each node that cannot be imported */
  int rejections;
  struct cr_import_groups *groups; /* layers in the metadata (metadata.h); NULL: none */
  cr_buffer restored;              /* the names of layers that were made from them */
  const Onnx__NodeProto **node; /* the graph's nodes; NULL: not needed */
  cr_name_map used;             /* names of the values that nodes or the graph read */
  int64_t folded;               /* numbers of the computed constants */
} cr_import;

/* A node that is being imported. */
typedef struct cr_import_node {
  cr_import *import;
  const Onnx__NodeProto *proto;
  const char *op;
  int inputs, outputs;
  cr_import_value **input;  /* NULL: an optional input that is not given */
  cr_import_value **output; /* NULL: an output after the first that nothing reads */
} cr_import_node;

/* Imports a node of one operator. The shapes of all inputs are known; input 0 and output 0 exist.
 * Any input may be constant: cr_import_layer puts it into the net as a Parameter layer.
 * Errors: CREMA_E_UNSUPPORTED by cr_import_reject; others end the import. */
typedef crema_status cr_import_fn(cr_import_node *node);

/* Notes that the node cannot be imported, for this reason, and returns CREMA_E_UNSUPPORTED. */
crema_status cr_import_reject(cr_import_node *node, const char *reason, ...) CREMA_PRINTF(2, 3);

/* ---- attributes ----------------------------------------------------------- */

/* NULL: not given. */
const Onnx__AttributeProto *cr_import_attribute(const cr_import_node *node, const char *name);
int64_t cr_import_int(const cr_import_node *node, const char *name, int64_t fallback);
float cr_import_float(const cr_import_node *node, const char *name, float fallback);
/* NULL, and *count is 0, if it is not given. */
const int64_t *cr_import_ints(const cr_import_node *node, const char *name, size_t *count);
/* Whether a text attribute has this value; without the attribute: `fallback`. */
bool cr_import_is_text(const cr_import_node *node, const char *name, const char *value,
                       bool fallback);

/* ---- values ---------------------------------------------------------------- */

/* A value by its name; NULL: none. Adds a value, whose name must live as long as the import. */
cr_import_value *cr_import_find_value(const cr_import *import, const char *name);
crema_status cr_import_add_value(cr_import *import, const char *name,
                                 cr_import_value **out) CREMA_MUST_USE;

/* Whether nodes of this operator, and nothing else, read output 0 of the node as their input 0. */
crema_status cr_import_is_read_by(cr_import_node *node, const char *op, bool *out) CREMA_MUST_USE;

/* Input `index`; NULL if it is not given. */
cr_import_value *cr_import_input(const cr_import_node *node, int index);
bool cr_import_is_constant(const cr_import_value *value);
int64_t cr_import_count(const cr_import_value *value);

/* An axis counted from the end if it is negative. Rejects the node for an axis that the value does
 * not have. */
crema_status cr_import_axis(cr_import_node *node, int64_t axis, int axes, int *out) CREMA_MUST_USE;

/* The integers of an attribute or, from the operator set in which it became an input, of constant
 * input `index`. *out is NULL if it is given in neither way. Rejects the node if the input is not
 * constant. */
crema_status cr_import_int_list(cr_import_node *node, const char *name, int index,
                                const int64_t **out, size_t *count) CREMA_MUST_USE;

/* Sets the shape of a value. Errors: CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
crema_status cr_import_set_shape(cr_import *import, cr_import_value *value,
                                 const crema_shape *shape) CREMA_MUST_USE;

/* A new value between two layers of a node, named after the node and `what`. */
crema_status cr_import_between(cr_import_node *node, const char *what, const crema_shape *shape,
                               cr_import_value **out) CREMA_MUST_USE;

/* Makes constants of `count` zeros, which the caller fills. */
crema_status cr_import_make_floats(cr_import *import, cr_import_value *value,
                                   const crema_shape *shape, float **out) CREMA_MUST_USE;
crema_status cr_import_make_ints(cr_import *import, cr_import_value *value,
                                 const crema_shape *shape, int64_t **out) CREMA_MUST_USE;

/* Lets `to` be the value `from` under another name, without a layer. */
void cr_import_alias(cr_import_value *to, const cr_import_value *from);

/* ---- layers ---------------------------------------------------------------- */

/* Adds a layer. `text` is the text format of its fields besides name, bottoms and tops, such as
 * "type: \"Pooling\" pooling_param { pool: MAX kernel_size: 3 }". Constants among the bottoms
 * become Parameter layers. The shapes of the tops are the caller's task. */
typedef struct cr_import_ends {
  cr_import_value *bottom[8], *top[8]; /* each list ends with NULL */
} cr_import_ends;
crema_status cr_import_layer(cr_import_node *node, const cr_import_ends *ends, const char *text,
                             ...) CREMA_MUST_USE CREMA_PRINTF(3, 4);

/* The same with any number of bottoms and tops. */
crema_status cr_import_wide_layer(cr_import_node *node, cr_import_value *const *bottom, int bottoms,
                                  cr_import_value *const *top, int tops,
                                  const char *text) CREMA_MUST_USE;

/* A layer from input 0 to output 0, which has the same shape. */
crema_status cr_import_simple(cr_import_node *node, const char *text, ...) CREMA_MUST_USE
    CREMA_PRINTF(2, 3);

/* A parameter for the newest layer: *out has room for its values, which the caller writes. */
crema_status cr_import_weights(cr_import *import, const crema_shape *shape,
                               float **out) CREMA_MUST_USE;
/* The same with the numbers of `values`. */
crema_status cr_import_weights_of(cr_import *import, const crema_shape *shape,
                                  const float *values) CREMA_MUST_USE;

/* ---- folding ---------------------------------------------------------------- */

/* The same with the numbers of a constant, which need not be in memory. */
crema_status cr_import_weights_from(cr_import *import, const crema_shape *shape,
                                    const cr_import_value *value) CREMA_MUST_USE;

/* Reads the numbers of a constant into memory. */
crema_status cr_import_load(cr_import *import, cr_import_value *value) CREMA_MUST_USE;

/* Computes the outputs of a node whose inputs are constant, or which needs their shapes only. *done
 * is false for an operator that is not folded. */
crema_status cr_import_fold(cr_import_node *node, bool *done) CREMA_MUST_USE;
/* Whether constants of this operator are computed. */
bool cr_import_folds(const char *op);

/* The numbers of a tensor of the file as a constant. Rejects types that no constant has. */
crema_status cr_import_tensor(cr_import *import, const Onnx__TensorProto *tensor,
                              cr_import_value *out) CREMA_MUST_USE;

/* ---- operators --------------------------------------------------------------- */

#define CR_ONNX_OPERATOR(op, function) cr_import_fn cr_import_##function;
#include "onnx/import/operators.inc"
#undef CR_ONNX_OPERATOR

/* The function that imports an operator; NULL: none does. */
cr_import_fn *cr_import_find(const char *op);

/* Why no function imports an operator. */
const char *cr_import_reason(const char *op);

#endif
