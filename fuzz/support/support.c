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

void fuzz_image(const uint8_t *bytes, size_t size) {
  cr_image image = {0}, small = {0}, *sized = NULL;
  const cr_image_size wanted = {9, 7};
  const cr_image_sizer sizer = cr_image_sizer_of(&wanted);
  for (int color = CR_IMAGE_NATIVE; color <= CR_IMAGE_GRAY; ++color) {
    crema_status status = cr_image_decode(bytes, size, (cr_image_color)color, &image);
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
