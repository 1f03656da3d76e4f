#include "data/augment/sample.h"

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

/* The pixels of a record that is not encoded are left where they are. */
static crema_status load_raw(cr_sample *sample, const cr_datum *datum) {
  CR_TRY(cr_datum_check_raw(datum));
  bool bytes_given = datum->size > 0;
  if (!bytes_given) CR_TRY(load_floats(sample, datum));
  sample->pixels = (cr_pixels){.values = bytes_given ? (const void *)datum->data : sample->floats,
                               .type = bytes_given ? CREMA_U8 : CREMA_F32,
                               .channels = datum->channels,
                               .height = datum->height,
                               .width = datum->width};
  return CREMA_OK;
}

static crema_status load(cr_sample *sample, const uint8_t *bytes, size_t size, cr_image_color color,
                         const cr_image_chooser *chooser) {
  cr_datum datum;
  cr_image_part whole = {0}, part = {0};
  CR_TRY(cr_datum_parse(bytes, size, &datum));
  sample->label = datum.label;
  if (!datum.encoded) return load_raw(sample, &datum);
  cr_image *image = &sample->image;
  if (chooser != NULL) {
    CR_TRY(cr_image_decode_part(datum.data, datum.size, color, chooser, image, &whole, &part));
  } else {
    CR_TRY(cr_image_decode(datum.data, datum.size, color, image));
    whole.height = image->height;
    whole.width = image->width;
  }
  sample->pixels = (cr_pixels){.values = image->pixels,
                               .type = CREMA_U8,
                               .interleaved = true,
                               .channels = image->channels,
                               .height = whole.height,
                               .width = whole.width,
                               .part = part};
  return CREMA_OK;
}

crema_status cr_sample_load(cr_sample *sample, const uint8_t *bytes, size_t size,
                            cr_image_color color) {
  return load(sample, bytes, size, color, NULL);
}

/* A sample in the eyes of the decoder. */
typedef struct sample_view {
  const cr_transformer *transformer;
  uint64_t index;
} sample_view;

static bool choose_part(const void *user, int height, int width, cr_image_part *out) {
  const sample_view *view = user;
  return cr_transformer_part(view->transformer, view->index, height, width, out);
}

crema_status cr_sample_load_for(cr_sample *sample, const uint8_t *bytes, size_t size,
                                cr_image_color color, const cr_transformer *transformer,
                                uint64_t index) {
  const sample_view view = {transformer, index};
  const cr_image_chooser chooser = {choose_part, &view};
  return load(sample, bytes, size, color, &chooser);
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
