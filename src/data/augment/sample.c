#include "data/augment/sample.h"

#include <stdlib.h>

#include "core/fail.h"

/* Does not copy bytes. */
static crema_status load_raw(cr_sample *sample, const cr_datum *datum) {
  const bool bytes_given = datum->size > 0;
  const void *values = datum->data;
  CR_TRY(cr_datum_check_raw(datum));
  if (!bytes_given) {
    CR_TRY(cr_buffer_reserve(&sample->floats, datum->float_count * sizeof(float)));
    values = sample->floats.data;
    float *floats = (float *)(void *)sample->floats.data;
    CR_TRY(cr_datum_floats(datum, floats, datum->float_count));
  }
  sample->pixels = (cr_pixels){.values = values,
                               .type = bytes_given ? CREMA_U8 : CREMA_F32,
                               .channels = datum->channels,
                               .height = datum->height,
                               .width = datum->width};
  return CREMA_OK;
}

crema_status cr_sample_open(cr_sample *sample, const uint8_t *bytes, size_t size,
                            cr_image_color color) {
  cr_datum datum;
  const cr_picture *picture = &sample->picture;
  CR_TRY(cr_datum_parse(bytes, size, &datum));
  sample->label = datum.label;
  sample->encoded = datum.encoded;
  if (!datum.encoded) return load_raw(sample, &datum);
  CR_TRY(cr_picture_open(&sample->picture, datum.data, datum.size, color));
  sample->pixels = (cr_pixels){.type = CREMA_U8,
                               .interleaved = true,
                               .channels = picture->channels,
                               .height = picture->height,
                               .width = picture->width};
  return CREMA_OK;
}

crema_status cr_sample_decode(cr_sample *sample, const cr_image_part *wanted) {
  if (!sample->encoded) return CREMA_OK;
  CR_TRY(cr_picture_decode(&sample->picture, wanted, &sample->image, &sample->pixels.part));
  sample->pixels.values = sample->image.pixels;
  return CREMA_OK;
}

crema_status cr_sample_load(cr_sample *sample, const uint8_t *bytes, size_t size,
                            cr_image_color color) {
  CR_TRY(cr_sample_open(sample, bytes, size, color));
  return cr_sample_decode(sample, NULL);
}

void cr_sample_free(cr_sample *sample) {
  cr_picture_free(&sample->picture);
  cr_image_free(&sample->image);
  cr_buffer_free(&sample->floats);
  *sample = (cr_sample){0};
}
