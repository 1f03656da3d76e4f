/* Windows of convolutions and poolings, as ONNX describes them. */
#ifndef CR_ONNX_IMPORT_WINDOW_H
#define CR_ONNX_IMPORT_WINDOW_H

#include "onnx/import/graph.h"

enum { CR_IMPORT_SPACE = 3 }; /* the most spatial axes */

typedef struct cr_import_window {
  int axes; /* spatial axes */
  int64_t kernel[CR_IMPORT_SPACE], stride[CR_IMPORT_SPACE], dilation[CR_IMPORT_SPACE];
  int64_t begin[CR_IMPORT_SPACE], end[CR_IMPORT_SPACE]; /* padding on each side */
} cr_import_window;

/* Reads the attributes kernel_shape, strides, dilations, pads and auto_pad for input 0, whose
 * spatial axes follow two other axes. `kernel` (may be NULL) are the extents of the weights.
 * Rejects windows of more than three axes and attributes of the wrong length. */
crema_status cr_import_read_window(cr_import_node *node, const int64_t *kernel,
                                   cr_import_window *out) CREMA_MUST_USE;

/* Whether the padding is the same on both sides of each axis. */
bool cr_import_is_symmetric(const cr_import_window *window);

/* Positions of the window along an axis of `size`: rounded down, or up with `ceil`. */
int64_t cr_import_positions(const cr_import_window *window, int axis, int64_t size, bool ceil);

/* Appends "<name>: <value>" for each spatial axis. */
crema_status cr_import_print_extents(cr_buffer *text, const char *name, const int64_t *values,
                                     int axes) CREMA_MUST_USE;

#endif
