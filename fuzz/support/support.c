#define _GNU_SOURCE /* memmem */
#include "support/support.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/image/image_scaled.h"

static char folder[64];

void fuzz_require(bool holds) {
  if (!holds) __builtin_trap();
}

void fuzz_require_text(crema_status status) {
  fuzz_require(status == CREMA_OK || crema_error_text()[0] != '\0');
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk) {
  (void)info, (void)type, (void)walk;
  return remove(path);
}

static void remove_folder(void) {
  if (getenv("FUZZ_KEEP") == NULL) nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void) {
  if (folder[0] == '\0') {
    /* In memory where the system has such a place. */
    snprintf(folder, sizeof folder, "%s/crema-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    fuzz_require(mkdtemp(folder) != NULL);
    atexit(remove_folder);
  }
  return folder;
}

const char *fuzz_path(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
  return path;
}

const char *fuzz_file(const char *name, const uint8_t *data, size_t size) {
  const char *path = fuzz_path(name);
  FILE *file = fopen(path, "wb");
  fuzz_require(file != NULL);
  if (size > 0) fuzz_require(fwrite(data, 1, size, file) == size);
  fuzz_require(fclose(file) == 0);
  return path;
}

/* Whether a layer's type ends in Data, other than DummyData, which reads nothing. */
static bool has_data_layer(const uint8_t *text, size_t size) {
  static const char dummy[] = {'D', 'u', 'm', 'm', 'y'};
  for (size_t i = 0; i + 5 <= size; ++i) {
    if (memcmp(text + i, "Data", 4) != 0 || (text[i + 4] != '"' && text[i + 4] != '\'')) continue;
    if (i < sizeof dummy || memcmp(text + i - sizeof dummy, dummy, sizeof dummy) != 0) return true;
  }
  return false;
}

bool fuzz_names_files(const uint8_t *text, size_t size) {
  static const char *const word[] = {"source", "DATA", "snapshot_prefix",
                                     "_file",  "net:", "weights"};
  for (size_t i = 0; i < sizeof word / sizeof word[0]; ++i) {
    if (size > 0 && memmem(text, size, word[i], strlen(word[i])) != NULL) return true;
  }
  return has_data_layer(text, size);
}

bool fuzz_net_is_small(const crema_net *net) {
  int64_t total = 0;
  for (int i = 0; i < net->blobs; ++i) {
    int64_t count = crema_blob_count(net->blob[i]);
    if (count > 10000) return false;
    total += count;
  }
  for (int i = 0; i < net->params; ++i) {
    const cr_net_param *param = &net->net_param[i];
    total += crema_blob_count(net->layer[param->layer].layer->blob[param->index]);
  }
  return total < 20000 && net->layers < 200;
}

/* A part whose place and extents some of the file's bytes say. */
static cr_image_part part_of(const cr_picture *picture, const uint8_t *bytes, size_t size) {
  const uint8_t *at = bytes + (size < 8 ? 0 : size / 2);
  const int a = size > 0 ? at[0] : 0, b = size > 8 ? at[1] : 0, c = size > 8 ? at[2] : 0;
  cr_image_part part = {.top = a % picture->height, .left = b % picture->width};
  part.height = 1 + c % (picture->height - part.top);
  part.width = 1 + (a ^ c) % (picture->width - part.left);
  return part;
}

static const uint8_t *pixel_of(const cr_image *image, int y, int x) {
  return image->pixels + ((size_t)y * (size_t)image->width + (size_t)x) * (size_t)image->channels;
}

/* `some` is `part` of the picture. */
static void require_same_pixels(const cr_image *some, const cr_image_part *part,
                                const cr_image_part *wanted, const cr_image *whole) {
  fuzz_require(some->height == part->height && some->width == part->width);
  fuzz_require(some->channels == whole->channels);
  fuzz_require(part->top <= wanted->top && part->left <= wanted->left);
  fuzz_require(part->top + part->height >= wanted->top + wanted->height);
  fuzz_require(part->left + part->width >= wanted->left + wanted->width);
  for (int y = wanted->top; y < wanted->top + wanted->height; ++y) {
    fuzz_require(memcmp(pixel_of(some, y - part->top, wanted->left - part->left),
                        pixel_of(whole, y, wanted->left),
                        (size_t)wanted->width * (size_t)whole->channels) == 0);
  }
}

/* A part has the pixels of the whole picture, where that can be decoded. The decoder has seen other
 * files before. */
static void decode_part(const uint8_t *bytes, size_t size, cr_image_color color,
                        const cr_image *whole) {
  static cr_picture picture;
  cr_image some = {0};
  cr_image_part part = {0};
  crema_status status = cr_picture_open(&picture, bytes, size, color);
  fuzz_require_text(status);
  if (whole != NULL) fuzz_require(status == CREMA_OK);
  if (status != CREMA_OK) return;
  const cr_image_part wanted = part_of(&picture, bytes, size);
  status = cr_picture_decode(&picture, &wanted, &some, &part);
  fuzz_require_text(status);
  if (whole != NULL) {
    fuzz_require(status == CREMA_OK);
    require_same_pixels(&some, &part, &wanted, whole);
  }
  cr_image_free(&some);
}

void fuzz_image(const uint8_t *bytes, size_t size) {
  cr_image image = {0}, small = {0}, *sized = NULL;
  const cr_image_size wanted = {9, 7, false};
  const cr_image_sizer sizer = cr_image_sizer_of(&wanted);
  for (int color = CR_IMAGE_NATIVE; color <= CR_IMAGE_GRAY; ++color) {
    crema_status status = cr_image_decode(bytes, size, (cr_image_color)color, &image);
    decode_part(bytes, size, (cr_image_color)color, status == CREMA_OK ? &image : NULL);
    if (status == CREMA_OK) status = cr_image_resize(&image, 9, 7, &small);
    fuzz_require_text(status);
    /* What is scaled while it is decoded can be decoded whole. */
    crema_status both =
        cr_image_decode_to(bytes, size, (cr_image_color)color, &sizer, &image, &small, &sized);
    fuzz_require(status == CREMA_OK || both != CREMA_OK);
  }
  cr_image_free(&small);
  cr_image_free(&image);
}
