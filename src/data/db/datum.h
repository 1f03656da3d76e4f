/* Datum: one record of a database, in wire format, read without copying its bytes. */
#ifndef CR_DATA_DATUM_H
#define CR_DATA_DATUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buffer.h"
#include "crema/status.h"

/* A parsed Datum, whose `data` and floats point into the parsed bytes. Zero-initialise to build one
 * for cr_datum_append. */
typedef struct cr_datum {
  int channels, height, width; /* 0: not in the record */
  int label;
  bool encoded;        /* data is a whole image file */
  bool has_encoded;    /* the record has the field */
  const uint8_t *data; /* channels * height * width values, channel-major, unless encoded */
  size_t size;
  const float *floats; /* the values as floats: for building only, NULL after parsing */
  size_t float_count;  /* after parsing: read them with cr_datum_floats */
  const uint8_t *wire; /* the parsed record */
  size_t wire_size;
} cr_datum;

/* Parses a record. The last field of a name counts; unknown fields are skipped. Errors:
 * CREMA_E_CORRUPT with the byte offset; CREMA_E_UNSUPPORTED for an AnnotatedDatum
 * (data/augment/annotated.h). */
crema_status cr_datum_parse(const uint8_t *bytes, size_t size, cr_datum *out) CREMA_MUST_USE;

/* Checks a record that is not encoded: extents are at least 1, and their product is the number of
 * bytes or floats. Errors: CREMA_E_CORRUPT. */
crema_status cr_datum_check_raw(const cr_datum *datum) CREMA_MUST_USE;

/* Copies the float_data of a parsed record to `out`; `count` must be datum->float_count. */
crema_status cr_datum_floats(const cr_datum *datum, float *out, size_t count) CREMA_MUST_USE;

/* Appends the wire form, fields in the order of their numbers: extents above 0, data or floats,
 * label, and encoded if has_encoded is set. */
crema_status cr_datum_append(const cr_datum *datum, cr_buffer *out) CREMA_MUST_USE;

#endif
