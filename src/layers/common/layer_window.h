/* Windows of convolutions and poolings as the fields of a layer give them. */
#ifndef CR_LAYERS_LAYER_WINDOW_H
#define CR_LAYERS_LAYER_WINDOW_H

#include "layers/common/layer.h"

/* One extent of a window: a list with one entry or one per axis, or (two axes) _h and _w. */
typedef struct cr_window_field {
  const char *name;
  const uint32_t *list;
  size_t listed; /* entries of `list` */
  bool has_h, has_w;
  uint32_t h, w;
  bool both;        /* _h and _w must be given together */
  int64_t fallback; /* the default; negative: the field is required */
  int64_t least;    /* the minimum */
} cr_window_field;

/* Reads one field for `axes` spatial axes. Errors: CREMA_E_ARGUMENT, CREMA_E_RANGE for a value
 * below the minimum or above INT32_MAX. */
crema_status cr_layer_read_extents(const cr_layer *layer, const cr_window_field *field, int axes,
                                   int64_t *out) CREMA_MUST_USE;

/* Reads kernel, stride, pad and dilation for `axes` spatial axes. Stride and dilation default to 1,
 * pad to 0. Errors: CREMA_E_ARGUMENT, CREMA_E_RANGE for a kernel, stride or dilation of 0,
 * CREMA_E_UNSUPPORTED beyond CR_MAX_SPATIAL axes. */
crema_status cr_layer_read_window(const cr_layer *layer, const Caffe__ConvolutionParameter *param,
                                  int axes, cr_window *out) CREMA_MUST_USE;

/* The same for a pooling layer, whose pads may be lists as well. A kernel is 0 if global_pooling
 * makes it the bottom's extent. */
crema_status cr_layer_read_pool_window(const cr_layer *layer, const Caffe__PoolingParameter *param,
                                       int axes, cr_window *out) CREMA_MUST_USE;

/* Positions of a pooling window along an axis of `size`, as Caffe counts them: (size + 2 pad -
 * kernel) / stride, rounded up or, with `floor`, down, plus 1. If some axis has padding (`padded`),
 * a last window that would begin after the input does not count. Less than 1: the window does not
 * fit. */
int64_t cr_layer_pool_extent(int64_t size, int64_t kernel, int64_t stride, int64_t pad, bool padded,
                             bool floor);

/* Fails with CREMA_E_SHAPE: along spatial axis `axis` of `window` the kernel exceeds the input of
 * `size` with its padding. */
crema_status cr_layer_fail_kernel(const cr_layer *layer, const cr_window *window, int axis,
                                  int64_t size);

#endif
