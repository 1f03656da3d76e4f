/* Windows of convolutions and poolings, as ONNX describes them. */
#ifndef CR_ONNX_IMPORT_WINDOW_H
#define CR_ONNX_IMPORT_WINDOW_H

#include "onnx/import/numbers.h"

enum { CR_IMPORT_SPACE = 3 }; /* the most spatial axes */

typedef struct cr_import_window {
  int axes; /* spatial axes */
  int64_t kernel[CR_IMPORT_SPACE], stride[CR_IMPORT_SPACE], dilation[CR_IMPORT_SPACE];
  int64_t size[CR_IMPORT_SPACE];                           /* extents of the input's blob */
  int64_t begin[CR_IMPORT_SPACE], end[CR_IMPORT_SPACE];    /* padding of the blob on each side */
  int64_t before[CR_IMPORT_SPACE], after[CR_IMPORT_SPACE]; /* zeros of the input among it */
} cr_import_window;

/* How a layer whose padding is symmetric makes the positions of a window. Its padding is larger,
 * and `skip` positions at the start and some at the end are cut off. */
typedef struct cr_import_fit {
  int64_t pad[CR_IMPORT_SPACE], made[CR_IMPORT_SPACE], skip[CR_IMPORT_SPACE];
  bool cuts;
} cr_import_fit;

/* Reads the attributes kernel_shape, strides, dilations, pads and auto_pad for input 0, whose
 * spatial axes follow two other axes. `kernel` (may be NULL) are the extents of the weights.
 * Rejects windows of more than three axes and attributes of the wrong length. */
crema_status cr_import_read_window(cr_import_node *node, const int64_t *kernel,
                                   cr_import_window *out) CREMA_MUST_USE;

/* Positions of the window along an axis: rounded down, or up with `ceil`. */
int64_t cr_import_positions(const cr_import_window *window, int axis, bool ceil);

/* The least padding of a layer that rounds down, and makes `positions` of the window. */
void cr_import_fit_window(const cr_import_window *window, const int64_t *positions,
                          cr_import_fit *out);

/* The value that a layer with this fit makes: output 0, whose shape is set, or a larger value which
 * cr_import_cut_fit cuts into output 0. */
crema_status cr_import_fit_value(cr_import_node *node, const cr_import_fit *fit,
                                 cr_import_value **out) CREMA_MUST_USE;
crema_status cr_import_cut_fit(cr_import_node *node, const cr_import_fit *fit,
                               cr_import_value *made) CREMA_MUST_USE;

/* A new value that has `number` everywhere, of a DummyData layer. */
crema_status cr_import_fill(cr_import_node *node, const crema_shape *shape, float number,
                            cr_import_value **out) CREMA_MUST_USE;

/* Adds a Crop layer: the part of `from` with the shape of `to` that starts at `offset`, which has a
 * number for each axis. */
crema_status cr_import_cut(cr_import_node *node, cr_import_value *from, const int64_t *offset,
                           cr_import_value *to) CREMA_MUST_USE;

/* Adds layers that surround `from` with `value`, up to the shape of `to`; `begin` has the number of
 * values before the first along each axis. */
crema_status cr_import_surround(cr_import_node *node, cr_import_value *from, const int64_t *begin,
                                float value, cr_import_value *to) CREMA_MUST_USE;

/* Appends "<name>: <value>" for each spatial axis. */
crema_status cr_import_print_extents(cr_buffer *text, const char *name, const int64_t *values,
                                     int axes) CREMA_MUST_USE;

#endif
