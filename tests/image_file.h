/* A picture from a file, as it is. */
#ifndef CR_TESTS_IMAGE_FILE_H
#define CR_TESTS_IMAGE_FILE_H

#include "core/buffer.h"
#include "core/file.h"
#include "data/image/image.h"

static inline crema_status read_image(const char *path, cr_image_color color, cr_image *out) {
  cr_buffer file = {0};
  crema_status status = cr_file_read(path, &file);
  if (status == CREMA_OK) {
    status = cr_image_decode((const uint8_t *)file.data, file.size, color, out);
  }
  cr_buffer_free(&file);
  return status;
}

#endif
