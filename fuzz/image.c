/* Image files of any bytes: decoding to each kind of result, and resizing. */
#include "data/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  cr_image image = {0}, small = {0};
  for (int color = CR_IMAGE_NATIVE; color <= CR_IMAGE_GRAY; ++color) {
    crema_status status = cr_image_decode(bytes, size, (cr_image_color)color, &image);
    if (status == CREMA_OK) status = cr_image_resize(&image, 9, 7, &small);
    if (status != CREMA_OK && crema_error_text()[0] == '\0') __builtin_trap();
  }
  cr_image_free(&small);
  cr_image_free(&image);
  return 0;
}
