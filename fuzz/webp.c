/* WebP files: any chunks. */
#include <string.h>

#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
    fuzz_image(bytes, size);
  return 0;
}
