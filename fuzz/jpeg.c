/* JPEG files: whatever follows the first marker. */
#include <string.h>

#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const uint8_t start[] = {0xff, 0xd8};
  if (size >= sizeof start && memcmp(bytes, start, sizeof start) == 0) fuzz_image(bytes, size);
  return 0;
}
