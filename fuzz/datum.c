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
  /* Twice, as the decoder inside is used again; the second time in part. */
  for (int round = 0; round < 2; ++round) {
    const cr_image_part corner = {.height = 8, .width = 8};
    if (cr_sample_open(&sample, bytes, size, CR_IMAGE_NATIVE) != CREMA_OK) break;
    const cr_pixels *pixels = &sample.pixels;
    int height = pixels->height, width = pixels->width;
    bool some = round == 1 && height >= 8 && width >= 8;
    if (cr_sample_decode(&sample, some ? &corner : NULL) != CREMA_OK) continue;
    /* What was decoded is what was opened. */
    if (sample.encoded && !some &&
        (sample.image.height != height || sample.image.width != width ||
         sample.image.channels != pixels->channels)) {
      __builtin_trap();
    }
    if (!some) transform(pixels);
  }
  cr_sample_free(&sample);
  return 0;
}
