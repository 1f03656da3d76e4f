/* What fuzz targets share. A target is one file fuzz/<name>.c with LLVMFuzzerTestOneInput. */
#ifndef FUZZ_SUPPORT_H
#define FUZZ_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/image/image.h"
#include "net/net.h"
#include "net/weights/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A finding unless it holds. */
void fuzz_require(bool holds);
/* A failed call must leave a text behind. */
void fuzz_require_text(crema_status status);

/* A folder of this process alone, made at the first call and removed at its end. It stays where the
 * environment variable FUZZ_KEEP is set. */
const char *fuzz_folder(void);
/* The path of a file or folder in it; valid until the next call. */
const char *fuzz_path(const char *name);
/* Makes the file `name` there and returns its path, as fuzz_path. */
const char *fuzz_file(const char *name, const uint8_t *data, size_t size);

/* Whether a net or solver in text format names files of its own, which are for tests with files. */
bool fuzz_names_files(const uint8_t *text, size_t size);
/* Whether a net is small enough to run in a moment. */
bool fuzz_net_is_small(const crema_net *net);

/* Decodes an image file to each kind of result, whole and in part, resizes it, and does both at
 * once. */
void fuzz_image(const uint8_t *bytes, size_t size);

#endif
