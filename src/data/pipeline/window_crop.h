/* The place of a window in its image and in the square that it is scaled to. */
#ifndef CR_DATA_WINDOW_CROP_H
#define CR_DATA_WINDOW_CROP_H

#include <stdbool.h>

#include "data/pipeline/window_list.h"

typedef struct cr_window_crop_options {
  int crop_size;   /* side of the square, above 0 */
  int context_pad; /* pixels of the square that show the window's surroundings; at most
                    * (crop_size - 1) / 2 */
  bool square;     /* grow the window to a square, instead of stretching it */
} cr_window_crop_options;

/* The part x, y, width, height of the image is scaled to out_height x out_width and put at
 * pad_y, pad_x in the square (from the right if mirrored). The rest of the square is filled.
 */
typedef struct cr_window_crop {
  int x, y, width, height;
  int out_height, out_width; /* 0: the window is outside the image */
  int pad_y, pad_x;
} cr_window_crop;

/* Without context_pad and square the window must be inside the image. Errors: CREMA_E_RANGE. */
crema_status cr_window_crop_plan(const cr_listed_window *window, int image_height, int image_width,
                                 const cr_window_crop_options *options, bool mirror,
                                 cr_window_crop *out) CREMA_MUST_USE;

#endif
