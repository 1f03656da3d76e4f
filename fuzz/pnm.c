/* PBM, PGM and PPM files. */
#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size >= 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6') fuzz_image(bytes, size);
  return 0;
}
