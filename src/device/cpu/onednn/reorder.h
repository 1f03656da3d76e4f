/* Moving values between oneDNN's layouts without oneDNN: for moments when the library must not be
 * called. */
#ifndef CR_DEVICE_CPU_ONEDNN_REORDER_H
#define CR_DEVICE_CPU_ONEDNN_REORDER_H

#include "device/cpu/onednn/layout.h"

/* Memory in `layout`; NULL: row-major. */
typedef struct cr_dnnl_side {
  const cr_layout *layout;
  char *memory;
} cr_dnnl_side;

/* Moves the values of `shape`, each of `size` bytes, which both sides' layouts have; pads of `to`
 * are filled with zeros. Errors: CREMA_E_UNSUPPORTED for layouts other than blocked ones. */
crema_status cr_dnnl_move(const crema_shape *shape, size_t size, cr_dnnl_side to,
                          cr_dnnl_side from) CREMA_MUST_USE;

/* The same between a channels-last view and the layout without gaps of that order, values as they
 * are. Returns false and does nothing for other layouts. */
bool cr_dnnl_move_view(const crema_shape *shape, size_t size, cr_dnnl_side to, cr_dnnl_side from);

/* The same from row-major memory of three channels to channels-last memory, for values of 4 bytes
 * or of 1, which the library moves one by one. */
bool cr_dnnl_move_pictures(const crema_shape *shape, size_t size, cr_dnnl_side to,
                           cr_dnnl_side from);

#endif
