/* Sliding windows over any number of spatial axes, for convolution and pooling. */
#ifndef CR_DEVICE_CPU_KERNELS_WINDOW_H
#define CR_DEVICE_CPU_KERNELS_WINDOW_H

#include "device/backend/op_desc.h"

/* A window with the extents it slides over. There is at least one axis. */
typedef struct cr_slide {
  int axes;
  int64_t in[CR_MAX_SPATIAL], out[CR_MAX_SPATIAL];
  int64_t kernel[CR_MAX_SPATIAL], stride[CR_MAX_SPATIAL], pad[CR_MAX_SPATIAL];
  int64_t dilation[CR_MAX_SPATIAL];
  int64_t in_count, out_count, kernel_count; /* elements of one plane and one window */
} cr_slide;

/* Computes the shape `out` (N, C, S'...) of applying `window` to the spatial axes of `in` (N, C,
 * S...).
 * Errors: CREMA_E_SHAPE when axes or extents do not fit; CREMA_E_UNSUPPORTED for windows of more
 * than INT32_MAX elements, whose indices are stored in 32 bits. */
crema_status cr_slide_make(const cr_window *window, const crema_shape *in, const crema_shape *out,
                           cr_slide *slide) CREMA_MUST_USE;

/* The same for u.conv of an op whose arguments `image`, `weights` and `map` have a convolution's
 * shapes. Errors: also CREMA_E_SHAPE when groups or weights do not fit. */
crema_status cr_slide_conv(const cr_op_desc *desc, int image, int weights, int map,
                           cr_slide *slide) CREMA_MUST_USE;

/* Accepts only forward convolutions of floats over two axes with shapes that are not empty.
 * Errors: CREMA_E_UNSUPPORTED. */
crema_status cr_slide_check_floats(const cr_op_desc *desc) CREMA_MUST_USE;

/* Declines a padded copy of a plane, rows x parts x columns, that would be far larger than the
 * planes of the slide: a large stride, dilation or padding. Errors: CREMA_E_UNSUPPORTED. */
crema_status cr_slide_check_padded(const cr_slide *slide, int64_t rows, int64_t parts,
                                   int64_t columns) CREMA_MUST_USE;

/* The same for two axes without dilation. Errors: also CREMA_E_UNSUPPORTED for other windows and
 * for an empty shape. */
crema_status cr_slide_dense_conv(const cr_op_desc *desc, int image, int weights, int map,
                                 cr_slide *slide) CREMA_MUST_USE;

/* The part of one window inside the input. Dense windows only. */
typedef struct cr_span {
  int64_t first[CR_MAX_SPATIAL]; /* start of the unclipped window; may be negative */
  int64_t begin[CR_MAX_SPATIAL], end[CR_MAX_SPATIAL]; /* clipped to the input */
  int64_t padded_count; /* elements when clipped to the padded input instead */
  bool empty;
} cr_span;

/* The window of output element `index` (row-major in its plane). */
void cr_slide_span(const cr_slide *slide, int64_t index, cr_span *span);

/* Walks over the rows (runs along the last axis) of a span that is not empty: start with
 * `at` = span->begin; false when there is no further row. */
bool cr_span_next(const cr_slide *slide, const cr_span *span, int64_t *at);

/* Index of `at` in the unclipped window (row-major). */
int32_t cr_span_index(const cr_slide *slide, const cr_span *span, const int64_t *at);

/* Index of `at` in the input plane. */
int64_t cr_slide_in_index(const cr_slide *slide, const int64_t *at);

/* The index in the input plane of element `inside` (row-major in the unclipped window) of the
 * window of output element `index`; -1 if it is outside the input. */
int64_t cr_slide_locate(const cr_slide *slide, int64_t index, int64_t inside);

/* One element of the window. Along the last axis, output x meets input x * stride + shift, which is
 * inside the input for begin <= x < end. */
typedef struct cr_tap {
  int64_t offset[CR_MAX_SPATIAL]; /* of the element in the window */
  int64_t shift, begin, end;
} cr_tap;

/* The tap of element `inside` (row-major in the window). */
void cr_slide_tap(const cr_slide *slide, int64_t inside, cr_tap *tap);

/* Index in the input plane of the row that output row `row` (row-major over all axes but the last)
 * meets at the tap; -1 in the padding. */
int64_t cr_tap_row(const cr_slide *slide, const cr_tap *tap, int64_t row);

#endif
