/* Records of any bytes: parsing, decoding, transforming. */
#include <stdlib.h>

#include "data/augment/sample.h"
#include "data/augment/transformer.h"
#include "support/support.h"

/* Crops to 8 x 8 of whatever there is. */
static void transform(const cr_pixels *pixels) {
  Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
  cr_transformer *transformer = NULL;
  int shape[3];
  param.crop_size = 8;
  param.mirror = 1;
  if (cr_transformer_create(&param, CAFFE__PHASE__TRAIN, 1, NULL, &transformer) != CREMA_OK) return;
  if (cr_transformer_shape(transformer, pixels->channels, pixels->height, pixels->width, shape) ==
      CREMA_OK) {
    float *out = malloc((size_t)shape[0] * 64 * sizeof *out);
    for (uint64_t sample = 0; out != NULL && sample < 4; ++sample) {
      if (cr_transformer_run(transformer, pixels, sample, out) != CREMA_OK) break;
    }
    free(out);
  }
  cr_transformer_destroy(transformer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  cr_sample sample = {0};
  int shape[3];
  crema_status probed = cr_sample_probe(bytes, size, CR_IMAGE_NATIVE, shape);
  crema_status loaded = cr_sample_load(&sample, bytes, size, CR_IMAGE_NATIVE);
  if (loaded == CREMA_OK) {
    /* What can be decoded can be probed, with the same answer. */
    if (probed != CREMA_OK || shape[0] != sample.pixels.channels ||
        shape[1] != sample.pixels.height || shape[2] != sample.pixels.width) {
      __builtin_trap();
    }
    transform(&sample.pixels);
  }
  cr_sample_free(&sample);
  return 0;
}
