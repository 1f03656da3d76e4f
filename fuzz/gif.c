/* GIF files: any blocks after the signature. */
#include <string.h>

#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size >= 6 && memcmp(bytes, "GIF8", 4) == 0) fuzz_image(bytes, size);
  return 0;
}
