/* Shared by the files of the augmentation. */
#ifndef CR_DATA_AUGMENT_PRIVATE_H
#define CR_DATA_AUGMENT_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "data/image/image.h"
#include "proto/proto.h"

/* Random numbers: */

/* Each stage has its own random stream. 0 is the transformer's. */
typedef enum cr_stage {
  CR_STAGE_DISTORT = 1,
  CR_STAGE_EXPAND,
  CR_STAGE_RAND_RESIZE,
  CR_STAGE_RESIZE,
  CR_STAGE_NOISE,
  CR_STAGE_PATCH,
  CR_STAGE_CHOICE,
  CR_STAGE_POSE
} cr_stage;

/* The random words of one (key, sample, stage). */
typedef struct cr_random {
  uint64_t key, sample, counter;
  uint32_t word[4];
  int used; /* of the four words */
} cr_random;

cr_random cr_random_begin(uint64_t key, uint64_t sample, cr_stage stage);
uint32_t cr_random_next(cr_random *random);
/* Uniform in [lower, upper), with 24 significant bits; `lower` when they are equal. */
float cr_random_uniform(cr_random *random, float lower, float upper);
/* Uniform in 0..count-1; count > 0. */
int cr_random_below(cr_random *random, int count);

/* Values: */

/* Rounds to the nearest integer, ties to even, and clips to 0..255. */
uint8_t cr_saturate(float value);
/* The source index for an index outside 0..limit - 1, mirrored at the border pixel's centre
 * (... 2 1 | 0 1 2 ...). */
int cr_mirrored_index(int position, int limit);
static inline size_t cr_pixel_count(const cr_image *image) {
  return (size_t)image->height * (size_t)image->width;
}

/* Colours (8 bits, as OpenCV converts them): */

/* Blue, green, red of `count` pixels to hue (0..179), saturation and value, in place, and back. A
 * hue of 180 or more is taken around the circle. */
void cr_bgr_to_hsv(uint8_t *pixels, size_t count);
void cr_hsv_to_bgr(uint8_t *pixels, size_t count);
/* To luma and the red and blue differences (Y, Cr, Cb), in place, and back. */
void cr_bgr_to_ycrcb(uint8_t *pixels, size_t count);
void cr_ycrcb_to_bgr(uint8_t *pixels, size_t count);

/* Stages: */

crema_status cr_distort_check(const Caffe__DistortionParameter *param) CREMA_MUST_USE;
crema_status cr_distort(const Caffe__DistortionParameter *param, cr_random *random,
                        cr_image *image) CREMA_MUST_USE;

crema_status cr_noise_check(const Caffe__NoiseParameter *param) CREMA_MUST_USE;
/* `scratchpad` is memory to work in. */
crema_status cr_noise(const Caffe__NoiseParameter *param, cr_random *random, cr_image *image,
                      cr_image *scratchpad) CREMA_MUST_USE;

/* Equalises the histogram of bytes `stride` apart: over the image, and in 8 x 8 tiles with at most
 * `limit` times the mean in a bin (Zuiderveld, "Contrast limited adaptive histogram equalization",
 * 1994). */
void cr_equalize(uint8_t *values, int stride, size_t count);
crema_status cr_equalize_tiles(uint8_t *values, int stride, int height, int width,
                               float limit) CREMA_MUST_USE;

/* Sizes: */

crema_status cr_resize_check(const Caffe__ResizeParameter *param) CREMA_MUST_USE;
/* Height and width after resizing and padding an image of height in[0] and width in[1]. */
void cr_resize_extent(const Caffe__ResizeParameter *param, const int in[2], int out[2]);
/* Resizes and pads `in` into `out`, another image. */
crema_status cr_resize(const Caffe__ResizeParameter *param, cr_random *random, const cr_image *in,
                       cr_image *out) CREMA_MUST_USE;

#endif
