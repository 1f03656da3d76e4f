/* Records of detection data sets as BoxData reads them: a Datum with an encoded image, whose
 * float_data has six numbers for each object. */
#ifndef CR_DATA_BOXED_H
#define CR_DATA_BOXED_H

#include "data/image/image.h"

enum { CR_BOXED_MOST = 30 };

/* An object, in shares of the image. */
typedef struct cr_boxed_object {
  float label, x, y, width, height; /* x, y: the centre */
} cr_boxed_object;

/* A parsed record. Zero-initialise ({0}); the next record reuses its memory. */
typedef struct cr_boxed {
  cr_image image;
  cr_boxed_object object[CR_BOXED_MOST];
  int objects; /* the first CR_BOXED_MOST of the record */
  cr_buffer floats;
} cr_boxed;

/* Parses and decodes a record. Errors: CREMA_E_CORRUPT (also a record without objects),
 * CREMA_E_UNSUPPORTED (pixels that are not encoded), errors of cr_image_decode. */
crema_status cr_boxed_load(cr_boxed *boxed, const uint8_t *bytes, size_t size,
                           cr_image_color color) CREMA_MUST_USE;

/* Writes the objects whose centre is in a part of the image, in shares of that part, to `out`,
 * which has room for CR_BOXED_MOST. If the part is the whole image, it has all objects. Returns
 * their number. */
int cr_boxed_in_part(const cr_boxed *boxed, const cr_image_part *part, cr_boxed_object *out);

/* Frees the memory and zeroes the struct. */
void cr_boxed_free(cr_boxed *boxed);

#endif
