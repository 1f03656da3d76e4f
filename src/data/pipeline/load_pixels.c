#include "data/pipeline/load_pixels.h"

#include "core/clock.h"
#include "core/fail.h"

crema_status cr_load_pixels(cr_load *load, const cr_transformer *transformer,
                            const cr_pixels *pixels, uint64_t sample, const char *advice) {
  const double start = cr_clock_seconds();
  int extent[3];
  float *out = NULL;
  CR_TRY(
      cr_transformer_shape(transformer, pixels->channels, pixels->height, pixels->width, extent));
  CR_TRY(cr_load_image(load, extent, advice, &out));
  CR_TRY(cr_transformer_run(transformer, pixels, sample, out));
  load->transform_seconds = cr_clock_seconds() - start;
  return CREMA_OK;
}
