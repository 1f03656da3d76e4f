#include "data/sample.h"

#include <stdlib.h>

#include "core/fail.h"

static crema_status load_floats(cr_sample *sample, const cr_datum *datum) {
  if (datum->float_count > sample->float_capacity) {
    size_t bytes = datum->float_count * sizeof *sample->floats;
    float *floats = malloc(bytes);
    if (floats == NULL) return cr_fail_memory(bytes, "a Datum's floats");
    free(sample->floats);
    sample->floats = floats;
    sample->float_capacity = datum->float_count;
  }
  return cr_datum_floats(datum, sample->floats, datum->float_count);
}

crema_status cr_sample_load(cr_sample *sample, const uint8_t *bytes, size_t size,
                            cr_image_color color) {
  cr_datum datum;
  CR_TRY(cr_datum_parse(bytes, size, &datum));
  sample->label = datum.label;
  if (datum.encoded) {
    CR_TRY(cr_image_decode(datum.data, datum.size, color, &sample->image));
    sample->pixels = (cr_pixels){.values = sample->image.pixels,
                                 .type = CREMA_U8,
                                 .interleaved = true,
                                 .channels = sample->image.channels,
                                 .height = sample->image.height,
                                 .width = sample->image.width};
    return CREMA_OK;
  }
  CR_TRY(cr_datum_check_raw(&datum));
  bool bytes_given = datum.size > 0;
  if (!bytes_given) CR_TRY(load_floats(sample, &datum));
  sample->pixels = (cr_pixels){.values = bytes_given ? (const void *)datum.data : sample->floats,
                               .type = bytes_given ? CREMA_U8 : CREMA_F32,
                               .channels = datum.channels,
                               .height = datum.height,
                               .width = datum.width};
  return CREMA_OK;
}

crema_status cr_sample_probe(const uint8_t *bytes, size_t size, cr_image_color color, int out[3]) {
  cr_datum datum;
  CR_TRY(cr_datum_parse(bytes, size, &datum));
  if (datum.encoded) {
    CR_TRY(cr_image_probe(datum.data, datum.size, &out[1], &out[2], &out[0]));
    if (color != CR_IMAGE_NATIVE) out[0] = color == CR_IMAGE_COLOR ? 3 : 1;
    return CREMA_OK;
  }
  CR_TRY(cr_datum_check_raw(&datum));
  out[0] = datum.channels;
  out[1] = datum.height;
  out[2] = datum.width;
  return CREMA_OK;
}

void cr_sample_free(cr_sample *sample) {
  cr_image_free(&sample->image);
  free(sample->floats);
  *sample = (cr_sample){0};
}
