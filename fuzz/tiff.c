/* TIFF files: any directories and pixels, of both byte orders. */
#include <string.h>

#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size >= 4 && (memcmp(bytes, "II", 2) == 0 || memcmp(bytes, "MM", 2) == 0))
    fuzz_image(bytes, size);
  return 0;
}
