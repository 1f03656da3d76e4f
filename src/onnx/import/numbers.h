/* The numbers of constants, and shapes that broadcast. */
#ifndef CR_ONNX_IMPORT_NUMBERS_H
#define CR_ONNX_IMPORT_NUMBERS_H

#include "onnx/import/graph.h"

/* Rejects the node if it has fewer inputs than `count`. */
crema_status cr_import_need(cr_import_node *node, int count) CREMA_MUST_USE;

/* Constants of a node: as cr_import_make_floats and cr_import_make_ints, but rejects the node if
 * all computed constants become larger than a file of this size justifies. */
crema_status cr_import_fold_floats(cr_import_node *node, cr_import_value *value,
                                   const crema_shape *shape, float **out) CREMA_MUST_USE;
crema_status cr_import_fold_ints(cr_import_node *node, cr_import_value *value,
                                 const crema_shape *shape, int64_t **out) CREMA_MUST_USE;
/* The same for numbers of the kind and type of `like`, each `*width` bytes. */
crema_status cr_import_fold_like(cr_import_node *node, const cr_import_value *like,
                                 cr_import_value *value, const crema_shape *shape, size_t *width,
                                 void **out) CREMA_MUST_USE;

/* The numbers of a constant, whatever their kind. */
const void *cr_import_numbers(const cr_import_value *value);

/* An integer constant of one number. */
bool cr_import_is_one_int(const cr_import_value *value, int64_t *out);

/* Whether a constant of floats has the same number everywhere, and which. */
bool cr_import_is_uniform(const cr_import_value *value, float *out);

/* ---- reading in another order ------------------------------------------------ */

/* The strides of a dense tensor. */
void cr_import_dense(const crema_shape *shape, int64_t *stride);

/* Visits the places of a shape in their order. at[k] is the place in tensor k, whose strides are
 * stride[k]. */
enum { CR_IMPORT_WALKERS = 3 };
typedef struct cr_import_walk {
  const crema_shape *shape;
  int64_t index[CREMA_MAX_AXES];
  int64_t stride[CR_IMPORT_WALKERS][CREMA_MAX_AXES], at[CR_IMPORT_WALKERS];
} cr_import_walk;
void cr_import_step(cr_import_walk *walk);

/* Fills a constant of walk->shape: each number is `from`'s at walk->at[0]. */
crema_status cr_import_remap(cr_import_node *node, const cr_import_value *from,
                             cr_import_walk *walk, cr_import_value *out) CREMA_MUST_USE;

/* ---- broadcasting ------------------------------------------------------------- */

/* The shape that two shapes broadcast to. Rejects the node if they do not. */
crema_status cr_import_broadcast(cr_import_node *node, const crema_shape *a, const crema_shape *b,
                                 crema_shape *out) CREMA_MUST_USE;

/* The extent of `shape` along axis `axis` of a broadcast shape with `axes` axes. */
int64_t cr_import_aligned(const crema_shape *shape, int axes, int axis);

/* The strides with which a dense tensor is read as `to`, which it broadcasts to. */
void cr_import_broadcast_strides(const crema_shape *from, const crema_shape *to, int64_t *stride);

/* `out`: `value` repeated to a shape that it broadcasts to; a constant stays constant. If *out is
 * NULL, it becomes a new value or `value` itself; else it is an output of the node. */
crema_status cr_import_expand_to(cr_import_node *node, cr_import_value *value,
                                 const crema_shape *shape, cr_import_value **out) CREMA_MUST_USE;

/* ---- the same numbers under another shape ---------------------------------------- */

/* `out`: the numbers of `value` in this shape, whose count is the same. *out as above. */
crema_status cr_import_view(cr_import_node *node, cr_import_value *value, const crema_shape *shape,
                            cr_import_value **out) CREMA_MUST_USE;

/* `out`: `value` with axis i = axis order[i] of it. *out as above. */
crema_status cr_import_permute(cr_import_node *node, cr_import_value *value, const int *order,
                               cr_import_value **out) CREMA_MUST_USE;

#endif
