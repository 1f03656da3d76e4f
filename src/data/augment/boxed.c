#include "data/augment/boxed.h"

#include <string.h>

#include "core/fail.h"
#include "data/db/datum.h"

enum { STORED = 6 };

/* Class, whether it is difficult, centre, width and height. */
static crema_status read_objects(cr_boxed *boxed, const cr_datum *datum) {
  const size_t count = datum->float_count;
  if (count == 0 || count % STORED != 0) {
    return cr_fail(
        CREMA_E_CORRUPT,
        "%zu numbers alongside the image; expected six per object and at least one object", count);
  }
  CR_TRY(cr_buffer_reserve(&boxed->floats, count * sizeof(float)));
  float *at = (float *)(void *)boxed->floats.data;
  CR_TRY(cr_datum_floats(datum, at, count));
  boxed->objects = 0;
  for (size_t i = 0; i < count / STORED && boxed->objects < CR_BOXED_MOST; ++i, at += STORED) {
    if (!(at[0] >= 0)) return cr_fail(CREMA_E_CORRUPT, "an object of class %g", (double)at[0]);
    boxed->object[boxed->objects++] = (cr_boxed_object){at[0], at[2], at[3], at[4], at[5]};
  }
  return CREMA_OK;
}

crema_status cr_boxed_load(cr_boxed *boxed, const uint8_t *bytes, size_t size,
                           cr_image_color color) {
  cr_datum datum;
  CR_TRY(cr_datum_parse(bytes, size, &datum));
  if (!datum.encoded) {
    return cr_fail(CREMA_E_UNSUPPORTED, "the image is not encoded as JPEG or PNG");
  }
  CR_TRY(read_objects(boxed, &datum));
  return cr_image_decode(datum.data, datum.size, color, &boxed->image);
}

int cr_boxed_in_part(const cr_boxed *boxed, const cr_image_part *part, cr_boxed_object *out) {
  const float height = (float)boxed->image.height, width = (float)boxed->image.width;
  const bool whole = part->height == boxed->image.height && part->width == boxed->image.width;
  int count = 0;
  if (whole) memcpy(out, boxed->object, sizeof boxed->object);
  if (whole) return boxed->objects;
  for (int i = 0; i < boxed->objects; ++i) {
    const cr_boxed_object *o = &boxed->object[i];
    const float x = o->x * width - (float)part->left, y = o->y * height - (float)part->top;
    if (!(x >= 0 && x < (float)part->width && y >= 0 && y < (float)part->height)) continue;
    out[count++] = (cr_boxed_object){o->label, x / (float)part->width, y / (float)part->height,
                                     o->width * width / (float)part->width,
                                     o->height * height / (float)part->height};
  }
  return count;
}

void cr_boxed_free(cr_boxed *boxed) {
  cr_buffer_free(&boxed->floats);
  cr_image_free(&boxed->image);
  *boxed = (cr_boxed){0};
}
