/* The bits of a float. */
#ifndef CR_CORE_FLOAT_BITS_H
#define CR_CORE_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t cr_f32_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float cr_f32_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

#endif
