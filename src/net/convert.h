/* Changing the element type of the parameters in a model file. */
#ifndef CR_NET_CONVERT_H
#define CR_NET_CONVERT_H

#include <stdint.h>

#include "crema/types.h"

/* What a conversion met. Values that were not finite before count as values only. */
typedef struct cr_convert_report {
  uint64_t blobs, values;
  uint64_t kept;     /* blobs of integers, which stay as they are */
  uint64_t infinite; /* values beyond the range of the new type */
  uint64_t zero;     /* values other than 0 that became 0 */
  double worst;      /* largest relative error of the others */
} cr_convert_report;

/* Reads the binary model `in`, of any dialect and format, and writes it to `out` with all values of
 * parameters (and their gradients) rounded to `type`: F64, F32, F16 or BF16. With `old_format` they
 * are in fields that BVLC's Caffe reads, doubles or floats; see crema_save_options. All else in the
 * file is copied byte for byte; no net is built. In memory are the file and, while it is written,
 * two copies of the result for one layer. `out` may be `in`. Errors name the file: those of
 * reading, CREMA_E_CORRUPT, CREMA_E_NOT_FOUND for a file without parameters, CREMA_E_IO. */
crema_status cr_model_convert(const char *in, const char *out, crema_dtype type, bool old_format,
                              cr_convert_report *report) CREMA_MUST_USE;

#endif
