/* PNG files: whatever follows the signature. Each is decoded as it is, and once more with the check
 * sums of its chunks put right, behind which most of the decoder lies. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "support/support.h"

enum { SIGNATURE = 8, LENGTH = 4, TYPE = 4, SUM = 4 };

static uint32_t word_at(const uint8_t *b) {
  return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
}

static void put_sums_right(uint8_t *bytes, size_t size) {
  size_t at = SIGNATURE;
  while (size - at >= LENGTH + TYPE + SUM) {
    size_t length = word_at(bytes + at);
    if (length > size - at - (LENGTH + TYPE + SUM)) return;
    uint8_t *sum = bytes + at + LENGTH + TYPE + length;
    uint32_t crc = (uint32_t)crc32(0, bytes + at + LENGTH, (uInt)(TYPE + length));
    for (int i = 0; i < SUM; ++i) sum[i] = (uint8_t)(crc >> (24 - 8 * i));
    at += LENGTH + TYPE + length + SUM;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const uint8_t signature[SIGNATURE] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (size < SIGNATURE || memcmp(bytes, signature, SIGNATURE) != 0) return 0;
  fuzz_image(bytes, size);
  uint8_t *copy = malloc(size);
  if (copy == NULL) return 0;
  memcpy(copy, bytes, size);
  put_sums_right(copy, size);
  fuzz_image(copy, size);
  free(copy);
  return 0;
}
