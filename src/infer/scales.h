/* Tables of scales, as `crema calibrate` writes them and ncnn's tools do: in each line a name and
 * numbers. `<layer>_param_0` has a factor for each output channel of the layer's weights, and
 * `<layer>` a factor for each of its bottoms. Values times their factor are integers up to 127. */
#ifndef CR_INFER_SCALES_H
#define CR_INFER_SCALES_H

#include <stddef.h>

#include "crema/model.h"

typedef struct cr_scales_line {
  char *name;
  size_t count;
  float *value;
} cr_scales_line;

typedef struct cr_scales {
  size_t count;
  cr_scales_line *line;
} cr_scales;

/* Reads the file. Zero-initialise it, and free it for any result. Errors: CREMA_E_PARSE with the
 * line, and errors of reading. */
crema_status cr_scales_read(const char *path, cr_scales *out) CREMA_MUST_USE;
void cr_scales_free(cr_scales *scales);

/* The line that begins with `name` and `suffix`; NULL: there is none. */
const cr_scales_line *cr_scales_find(const cr_scales *scales, const char *name, const char *suffix);

#endif
