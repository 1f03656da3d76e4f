/* oneDNN's memory layouts as cr_layouts, conversion between them, and the engine.
 *
 * A layout is interned: the same memory descriptor on the same device is the same pointer, and
 * a descriptor of row-major memory is NULL. Everything here may be called from any thread. */
#ifndef CR_DEVICE_CPU_ONEDNN_LAYOUT_H
#define CR_DEVICE_CPU_ONEDNN_LAYOUT_H

#include "device/backend/layout.h"
#include "device/cpu/onednn/compat.h"

/* Turns oneDNN's status into crema's; `what` names the step in the error text. A missing
 * implementation is CREMA_E_UNSUPPORTED. */
crema_status cr_dnnl_check(dnnl_status_t status, const char *what) CREMA_MUST_USE;

/* The CPU engine of this process, made at the first call; never freed. */
crema_status cr_dnnl_engine(dnnl_engine_t *out) CREMA_MUST_USE;

/* Writes the library's name and version. */
void cr_dnnl_describe(char *text, size_t size);

/* True if the processor has instructions for sums of products of int8, or of bfloat16. */
bool cr_dnnl_has_int8(void);
bool cr_dnnl_has_bf16(void);

/* Errors: CREMA_E_UNSUPPORTED for types that oneDNN does not compute with. */
crema_status cr_dnnl_type(crema_dtype type, dnnl_data_type_t *out) CREMA_MUST_USE;

/* The element type of `md`. Errors: CREMA_E_UNSUPPORTED for types that crema lacks. */
crema_status cr_dnnl_md_type(cr_const_md md, crema_dtype *out) CREMA_MUST_USE;

/* The layout for `md`; *out is NULL when it is row-major. `md` is copied. */
crema_status cr_dnnl_layout(crema_device *device, cr_const_md md,
                            const cr_layout **out) CREMA_MUST_USE;

/* A layout for the library's own data (the workspace of LRN, written forward and read backward) in
 * a tensor of `shape` and `type`. Converted to plain memory it reads as zeros. */
crema_status cr_dnnl_layout_opaque(crema_device *device, cr_const_md md, const crema_shape *shape,
                                   crema_dtype type, const cr_layout **out) CREMA_MUST_USE;

/* The descriptor of a layout; borrowed, lives as long as the layout. */
cr_const_md cr_dnnl_layout_md(const cr_layout *layout);

bool cr_dnnl_layout_is_opaque(const cr_layout *layout);

/* The number of values in memory of a layout that is not opaque, pads included. */
static inline int64_t cr_dnnl_layout_values(const cr_layout *layout) {
  return (int64_t)(layout->bytes / crema_dtype_size(layout->type));
}

/* The order in memory of a tensor (N,C,S...) of 3 to 5 axes. */
typedef enum cr_dnnl_order_kind {
  CR_DNNL_PLAIN,   /* N C S... */
  CR_DNNL_LAST,    /* N S... C */
  CR_DNNL_BLOCKED, /* N C/b S... b */
  CR_DNNL_OTHER
} cr_dnnl_order_kind;

typedef struct cr_dnnl_order {
  cr_dnnl_order_kind kind;
  int block; /* b; 1 unless blocked */
} cr_dnnl_order;

/* CR_DNNL_PLAIN for NULL. */
cr_dnnl_order cr_dnnl_layout_order(const cr_layout *layout);

/* The layout of the same order in another element type; NULL if there is none, or if the order is
 * CR_DNNL_OTHER. */
const cr_layout *cr_dnnl_layout_in(const cr_layout *layout, crema_dtype type);

/* See cr_backend.part. Parts are samples (axis 0), or channels (axis 1) of arrays that are
 * channels-last or that have one sample, in plain order or in blocks of channels. */
bool cr_dnnl_part(cr_format format, const cr_part *part, cr_part_place *out);

/* See cr_backend.enlarge. */
bool cr_dnnl_enlarge(cr_format format, const crema_shape *shape, cr_format *out);

/* The layout as oneDNN's own verbose lines write it: the axes from the outermost to the innermost
 * as letters, capitals for those that have blocks, then the blocks. */
void cr_dnnl_layout_text(const cr_layout *layout, char *text, size_t size);

/* The number of values from one position to the next in a channels-last layout with gaps; 0 for
 * other layouts. */
int64_t cr_dnnl_layout_step(const cr_layout *layout);

/* A descriptor of `shape` in `order` (PLAIN for any number of axes from 1 to 12).
 * Errors: CREMA_E_UNSUPPORTED if there is no such order. The caller destroys *out. */
crema_status cr_dnnl_md_ordered(const crema_shape *shape, crema_dtype type, cr_dnnl_order order,
                                cr_md *out) CREMA_MUST_USE;

/* The layout of a tensor of `shape` in `order`; *out is NULL if it is row-major. Errors: see
 * cr_dnnl_md_ordered. */
crema_status cr_dnnl_layout_ordered(crema_device *device, const crema_shape *shape,
                                    crema_dtype type, cr_dnnl_order order,
                                    const cr_layout **out) CREMA_MUST_USE;

/* Converts `count` values from one format to another, at least one of them private; pads are filled
 * with zeros. Runs on the calling thread and its OpenMP threads; complete on return. Errors:
 * CREMA_E_INTERNAL when count and layout do not fit, CREMA_E_NO_MEMORY. */
crema_status cr_dnnl_convert(crema_context *context, int64_t count, cr_format dst_format,
                             crema_devptr dst, cr_format src_format,
                             crema_devptr src) CREMA_MUST_USE;

#endif
