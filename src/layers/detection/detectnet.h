/* The operations of DetectNet (NVIDIA's fork and DIGITS) on an image and its boxes. Images are
 * three planes of floats: blue, green, red. */
#ifndef CR_LAYERS_DETECTION_DETECTNET_H
#define CR_LAYERS_DETECTION_DETECTNET_H

#include <stdbool.h>

#include "core/buffer.h"

/* How an image is varied. */
typedef struct cr_detectnet_choice {
  double hue;        /* degrees that are added */
  double saturation; /* is multiplied by this */
  bool flip;
  int height, width; /* the size after scaling */
  double rotation;   /* degrees, clockwise */
  int top, left;     /* of the crop; below 0: it begins outside */
} cr_detectnet_choice;

/* An image. Zero-initialise; `memory` holds the values. */
typedef struct cr_bgr_planes {
  int height, width;
  cr_buffer memory;
} cr_bgr_planes;

/* Room for three planes; the values are undefined. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_bgr_planes_reserve(cr_bgr_planes *planes, int height, int width) CREMA_MUST_USE;
float *cr_bgr_planes_values(const cr_bgr_planes *planes);

/* Turns the hue and changes the saturation of values in 0..1. */
void cr_bgr_planes_color(cr_bgr_planes *planes, double hue, double saturation);
/* Left becomes right. */
void cr_bgr_planes_flip(cr_bgr_planes *planes);
/* By cubic convolution (a = -0.75), pixel centres at (i + 0.5), borders repeated. */
crema_status cr_bgr_planes_resize(const cr_bgr_planes *in, int height, int width,
                                  cr_bgr_planes *out) CREMA_MUST_USE;
/* Bilinear; 0 outside of the image. */
crema_status cr_bgr_planes_rotate(const cr_bgr_planes *in, double degrees,
                                  cr_bgr_planes *out) CREMA_MUST_USE;
/* Copies the part that begins at top, left; 0 outside. */
void cr_bgr_planes_crop(const cr_bgr_planes *in, int top, int left, int height, int width,
                        float *out);

/* The rotation of an image around its centre: the position of point (x, y), and the size of the
 * upright rectangle around the rotated image. */
typedef struct cr_detectnet_turn {
  double cosine, sine, middle[2], shift[2];
  int height, width;
} cr_detectnet_turn;

cr_detectnet_turn cr_detectnet_turn_of(int height, int width, double degrees);

#endif
