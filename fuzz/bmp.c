/* BMP files: any header and pixels. */
#include <string.h>

#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size >= 2 && memcmp(bytes, "BM", 2) == 0) fuzz_image(bytes, size);
  return 0;
}
