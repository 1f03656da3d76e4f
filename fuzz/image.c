/* Image files of any bytes: decoding to each kind of result, resizing, and both at once. */
#include "data/image_scaled.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  cr_image image = {0}, small = {0}, *sized = NULL;
  const cr_image_size wanted = {9, 7};
  const cr_image_sizer sizer = cr_image_sizer_of(&wanted);
  for (int color = CR_IMAGE_NATIVE; color <= CR_IMAGE_GRAY; ++color) {
    crema_status status = cr_image_decode(bytes, size, (cr_image_color)color, &image);
    if (status == CREMA_OK) status = cr_image_resize(&image, 9, 7, &small);
    if (status != CREMA_OK && crema_error_text()[0] == '\0') __builtin_trap();
    /* What is scaled while it is decoded can be decoded whole. */
    crema_status both =
        cr_image_decode_to(bytes, size, (cr_image_color)color, &sizer, &image, &small, &sized);
    if (status != CREMA_OK && both == CREMA_OK) __builtin_trap();
  }
  cr_image_free(&small);
  cr_image_free(&image);
  return 0;
}
