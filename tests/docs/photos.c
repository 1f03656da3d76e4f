/* photos FOLDER PHOTO: makes FOLDER/photos/cats and FOLDER/photos/others with twelve pictures each,
 * cut out of PHOTO at different positions: upright ones, and ones upside down in other colours, for
 * want of other photos. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "../image_file.h"
#include "core/buffer.h"
#include "core/fail.h"
#include "data/image/image.h"

enum { PICTURES = 12 };

static void check(crema_status status) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "photos: %s\n", crema_error_text());
  exit(1);
}

/* Cuts out height x width pixels from (top, left) on; `turned` turns them by 180 degrees and gives
 * them the colours of a negative. */
static void cut(const cr_image *from, int top, int left, bool turned, cr_image *to) {
  for (int y = 0; y < to->height; ++y) {
    for (int x = 0; x < to->width; ++x) {
      const uint8_t *source = from->pixels + ((top + y) * from->width + left + x) * 3;
      int place = y * to->width + x;
      if (turned) place = to->height * to->width - 1 - place;
      for (int c = 0; c < 3; ++c) {
        to->pixels[place * 3 + c] = (uint8_t)(turned ? 255 - source[c] : source[c]);
      }
    }
  }
}

static void write_picture(const cr_image *image, const char *path) {
  cr_buffer bytes = {0};
  check(cr_image_encode(image, "jpg", &bytes));
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(bytes.data, 1, bytes.size, file) != bytes.size || fclose(file) != 0) {
    fprintf(stderr, "photos: %s cannot be written\n", path);
    exit(1);
  }
  cr_buffer_free(&bytes);
}

int main(int argc, char **argv) {
  cr_image photo = {0}, part = {0};
  char path[4096];
  if (argc != 3) return 2;
  check(read_image(argv[2], CR_IMAGE_COLOR, &photo));
  check(cr_image_reserve(&part, photo.height * 3 / 4, photo.width * 3 / 4, 3));
  snprintf(path, sizeof path, "%s/photos", argv[1]);
  mkdir(path, 0777);
  for (int turned = 0; turned < 2; ++turned) {
    const char *kind = turned ? "others" : "cats";
    snprintf(path, sizeof path, "%s/photos/%s", argv[1], kind);
    mkdir(path, 0777);
    for (int i = 0; i < PICTURES; ++i) {
      cut(&photo, (photo.height / 4) * (i / 4) / 2, (photo.width / 4) * (i % 4) / 3, turned, &part);
      snprintf(path, sizeof path, "%s/photos/%s/%02d.jpg", argv[1], kind, i);
      write_picture(&part, path);
    }
  }
  cr_image_free(&part);
  cr_image_free(&photo);
  return 0;
}
