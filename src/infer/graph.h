/* A net for the passes: layers in the order of execution, and the values between them.
 *
 * One layer makes a value, and one layer at most reads it: the net has been split. A layer in place
 * reads one value and makes another value with the same name and memory. Names and memory are given
 * back when the passes are done (infer/program.h).
 *
 * The graph is taken from a net that was built and has its weights, and refers to it. */
#ifndef CR_INFER_GRAPH_H
#define CR_INFER_GRAPH_H

#include "core/arena.h"
#include "core/buffer.h"
#include "infer/scales.h"
#include "layers/common/layer_int8.h"
#include "memory/tensor_source.h"
#include "net/net.h"

typedef struct cr_graph_value {
  const char *name; /* of the net's blob that has held it */
  bool last;        /* the blob holds it at the end of a pass */
  bool wanted;      /* an output or to be kept: it must stay, under its name */
  bool output;      /* of the net */
  bool input;       /* the caller gives it: it must stay, under its name */
  bool overwritten; /* in memory that is read after it was overwritten under another name */
  int maker;        /* the layer */
  int reader;       /* the layer; -1: none */
} cr_graph_value;

typedef struct cr_graph_layer {
  Caffe__LayerParameter *param; /* a copy without bottoms, tops, parameters and rules; owned */
  const cr_layer_class *kind;
  const cr_layer *built; /* the net's */
  /* For the program's net. Parameters, whose values may be the net's, and int8 are owned. */
  cr_net_frozen_layer frozen;
  bool removed;
  bool rewritten;     /* it differs from `built` in more than types and name */
  bool in_place;      /* its first top may have the memory of its first bottom */
  bool adds_in_place; /* its top has the memory of the addend */
  bool selects;       /* made by a pass: its top has some of its bottom's values unchanged */
  bool moved;         /* its bottom is another value than the net's layer has */
  int sum,
      sum_bottom; /* with an addend: the layer that added it, and its number as a bottom there */
  int bottoms, tops;
  int *bottom, *top; /* values */
} cr_graph_layer;

/* The cost of computing samples of a batch one after the other. */
typedef struct cr_batch_cost {
  bool apart;             /* it can be done */
  double weights, values; /* bytes: of all weights; of the values of one sample */
  double largest;         /* of these, what one layer reads and writes */
} cr_batch_cost;

typedef struct cr_graph {
  cr_arena arena; /* of the arrays */
  crema_net *net;
  int layers;
  cr_graph_layer *layer;
  int values;
  cr_graph_value *value;
  cr_tensor_scratch *spare;    /* of the sources that passes make */
  cr_tensor_scratch *rounding; /* of those that read from such sources */
  cr_tensor_scratch *once;     /* of both, for the first use */
  cr_buffer *text;             /* a line for each step of the passes */
  cr_batch_cost batch;
  crema_precision precision;
  const cr_scales *scales; /* with CREMA_PRECISION_INT8 */
} cr_graph;

/* Takes the graph of `net`, which must outlive it, as `text` must. `keep` names the blobs to keep
 * in addition to inputs and outputs. Zero-initialise it, and free it for any result. Errors:
 * CREMA_E_UNKNOWN_NAME for a blob that the net does not have. */
crema_status cr_graph_make(cr_graph *graph, crema_net *net, const char *const *keep, size_t keeps,
                           cr_buffer *text) CREMA_MUST_USE;
void cr_graph_free(cr_graph *graph);

/* Whether the layer exists and has the class. */
bool cr_graph_is(const cr_graph *graph, int layer, const cr_layer_class *kind);

/* The shape of the value when the net was built. */
const crema_shape *cr_graph_shape(const cr_graph *graph, int value);

/* The receptive field of one output value. */
cr_layer_reach cr_graph_reach(const cr_graph_layer *layer);

/* Whether the layer writes its first top over the value, one of its bottoms. */
bool cr_graph_overwrites(const cr_graph_layer *reader, int value);

/* Whether the layer's tops have the memory of its first bottom, or parts of it. */
bool cr_graph_shares(const cr_graph_layer *layer);

/* An array of `count` elements of `width` bytes, all zero, that lives as long as the graph:
 * *(void **)out is set. */
crema_status cr_graph_allocate(cr_graph *graph, void *out, size_t count,
                               size_t width) CREMA_MUST_USE;

/* Whether all types of the layer and of its parameters are F32. */
bool cr_graph_has_floats(const cr_graph *graph, int layer);

/* Whether a top of the layer counts as a loss. */
bool cr_graph_has_loss(const cr_graph *graph, int layer);

/* Whether the layer is as it was built, has one bottom and one top, and no loss weight, and may run
 * earlier or later than it does. */
bool cr_graph_is_simple(const cr_graph *graph, int layer);

/* Whether other layers depend on the layer's position, because it or they overwrite values that
 * other layers read later. As in Caffe, such a net runs in the given order. */
bool cr_graph_is_tied(const cr_graph *graph, int layer);

/* Whether the value may be dropped: no caller requests it by name. */
bool cr_graph_may_go(const cr_graph *graph, int value);

/* Gives layers that overwrite the value in place, under any name for its memory, their own memory.
 */
void cr_graph_protect(cr_graph *graph, int value);

/* The value that the memory of `value` belongs to first. */
int cr_graph_root(const cr_graph *graph, int value);

/* Removes a simple layer whose top has its bottom's values. Returns false and does nothing if both
 * must stay. */
bool cr_graph_pass_by(cr_graph *graph, int layer);

/* Removes `second`, a simple layer that reads the top of `first`: `first` makes its top. */
void cr_graph_merge_back(cr_graph *graph, int first, int second);

/* Removes `first`, a simple layer whose top `second` reads as bottom 0: `second` reads its bottom.
 */
void cr_graph_merge_on(cr_graph *graph, int first, int second);

/* Makes the layer, whose types are F32, one of another type, with the same name and no fields;
 * bottoms, tops and parameters stay. */
crema_status cr_graph_rewrite(cr_graph *graph, int layer,
                              const cr_layer_class *kind) CREMA_MUST_USE;

/* Puts a layer between the value and its reader, after the layer that makes the value. It is named
 * after the reader and `what`, and has no fields. *out is its number; the numbers of later layers
 * grow by one. */
crema_status cr_graph_insert(cr_graph *graph, int value, const cr_layer_class *kind,
                             const char *what, int *out) CREMA_MUST_USE;

/* A message of a layer. */
crema_status cr_graph_new_message(const char *name, const cr_layer_class *kind,
                                  Caffe__LayerParameter **out) CREMA_MUST_USE;

/* Replaces parameter `index` by one of `shape` with F32 values, which the caller fills; the number
 * of parameters grows as needed. */
crema_status cr_graph_new_param(cr_graph *graph, int layer, int index, const crema_shape *shape,
                                float **out) CREMA_MUST_USE;

/* Lets the fields of a convolution or inner product say that it has a bias. */
void cr_graph_set_bias_term(cr_graph_layer *layer);

/* Adds a line "<pass>: ..." to the text. */
crema_status cr_graph_tell(cr_graph *graph, const char *pass, const char *fmt, ...) CREMA_MUST_USE
    CREMA_PRINTF(3, 4);

/* Adds a line "<pass>: <layer>" and `what`; the second function adds "<pass>: <layer> into <into>"
 * and `what`. */
crema_status cr_graph_tell_layer(cr_graph *graph, const char *pass, int layer,
                                 const char *what) CREMA_MUST_USE;
crema_status cr_graph_tell_merge(cr_graph *graph, const char *pass, int layer, int into,
                                 const char *what) CREMA_MUST_USE;

/* Replaces parameter 0 by one of that shape and type whose values a source that a pass made has,
 * and takes the source over. `status` is the result of making the source, and is passed on. */
crema_status cr_graph_set_weights(cr_graph *graph, int layer, const crema_shape *shape,
                                  crema_dtype type, crema_status status,
                                  cr_tensor_source *source) CREMA_MUST_USE;

/* "<type> '<name>'" of a layer for cr_graph_tell. */
enum { CR_GRAPH_NAME = 160 };
const char *cr_graph_name(const cr_graph *graph, int layer, char text[CR_GRAPH_NAME]);

#endif
