/* An epoch from the files of a list through convert_imageset, a database and the layer Data:
 * exactly the pixels of the files, in the order of the list. With CREMA_TEST_IMAGES=<folder>,
 * <folder>/list.txt and the pictures that it names are taken instead of generated ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/pipeline/image_list.h"
#include "fixture.h"
#include "image_file.h"
#include "net/net_values.h"

enum { PICTURES = 500, SIDE = 32, BATCH = 50 };

/* Of SIDE x SIDE pixels: PNGs of nothing but noise, every fifth a JPEG. */
static void make_pictures(const fixture *f) {
  cr_image image = {0};
  cr_buffer file = {0}, list = {0};
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 17);
  ok(cr_image_reserve(&image, SIDE, SIDE, 3));
  for (int i = 0; i < PICTURES; ++i) {
    char name[32];
    const char *kind = i % 5 == 4 ? "jpg" : "png";
    for (int k = 0; k < SIDE * SIDE * 3; ++k) {
      image.pixels[k] = (uint8_t)cr_mt19937_below(&rng, 256);
    }
    cr_buffer_clear(&file);
    ok(cr_image_encode(&image, kind, &file));
    /* Names whose order is not that of the list. */
    snprintf(name, sizeof name, "%d_%d.%s", (i * 7919) % 1000, i, kind);
    ok(cr_file_write(fixture_path(f, name), file.data, file.size));
    ok(cr_buffer_print(&list, "%s %d\n", name, (i * 3) % 10));
  }
  ok(cr_file_write(fixture_path(f, "list.txt"), list.data, list.size));
  cr_buffer_free(&list);
  cr_buffer_free(&file);
  cr_image_free(&image);
}

static void convert(const char *folder, const char *db, const char *backend) {
  char command[2048];
  snprintf(command, sizeof command,
           "'%s/bin/crema' convert_imageset -backend %s '%s' '%s/list.txt' '%s' 2>/dev/null "
           ">/dev/null",
           CREMA_BINARY_DIR, backend, folder, folder, db);
  assert_int_equal(system(command), 0);
}

static crema_net *make_net(const char *db, const char *backend) {
  crema_net *net = NULL;
  ok(parse_net(NULL, NULL, &net,
               "layer { name: 'in' type: 'Data' top: 'data' top: 'label' "
               "data_param { source: '%s' backend: %s batch_size: %d } }",
               db, backend, BATCH));
  return net;
}

/* Planes of blue, green and red, as the file has them. */
static bool shows(const float *item, const cr_image *image) {
  size_t plane = (size_t)image->height * (size_t)image->width;
  size_t channels = (size_t)image->channels;
  for (size_t i = 0; i < plane * channels; ++i) {
    if (item[i % channels * plane + i / channels] != (float)image->pixels[i]) return false;
  }
  return true;
}

/* Whole batches of the list, beginning again at its end. */
static void check_epoch(crema_net *net, const char *folder, const cr_image_list *list) {
  cr_image image = {0};
  size_t batches = (list->count + BATCH - 1) / BATCH + 1;
  for (size_t k = 0; k < batches * BATCH; ++k) {
    char path[1024];
    const cr_list_entry *entry = &list->entry[k % list->count];
    if (k % BATCH == 0) ok(crema_net_forward(net, NULL));
    snprintf(path, sizeof path, "%s/%s", folder, entry->name);
    ok(read_image(path, CR_IMAGE_COLOR, &image));
    size_t size = (size_t)image.height * (size_t)image.width * (size_t)image.channels;
    if (values(net, "label")[k % BATCH] != (float)entry->label ||
        !shows(values(net, "data") + k % BATCH * size, &image)) {
      fail_msg("sample %zu is not %s", k, entry->name);
    }
  }
  cr_image_free(&image);
}

FIXTURE_TEST(test_an_epoch_has_the_pixels_of_the_files) {
  static const char *const backends[][2] = {{"lmdb", "LMDB"}, {"leveldb", "LEVELDB"}};
  const char *given = getenv("CREMA_TEST_IMAGES");
  const fixture *f = *state;
  cr_image_list list;
  if (given == NULL) make_pictures(f);
  const char *folder = given == NULL ? f->path : given;
  char path[1024];
  snprintf(path, sizeof path, "%s/list.txt", folder);
  ok(cr_image_list_read(path, &list));
  for (size_t i = 0; i < sizeof backends / sizeof *backends; ++i) {
    const char *db = fixture_path(f, backends[i][0]);
    convert(folder, db, backends[i][0]);
    crema_net *net = make_net(db, backends[i][1]);
    check_epoch(net, folder, &list);
    crema_net_destroy(net);
  }
  cr_image_list_free(&list);
}

/* The generated PNGs are what was drawn: the files are compared with memory, not with what reads
 * them. */
FIXTURE_TEST(test_png_files_hold_the_pixels) {
  const fixture *f = *state;
  cr_image image = {0};
  cr_mt19937 rng;
  make_pictures(f);
  cr_mt19937_seed(&rng, 17);
  for (int i = 0; i < PICTURES; ++i) {
    char name[32];
    snprintf(name, sizeof name, "%d_%d.png", (i * 7919) % 1000, i);
    if (i % 5 != 4) {
      ok(read_image(fixture_path(f, name), CR_IMAGE_COLOR, &image));
    }
    for (int k = 0; k < SIDE * SIDE * 3; ++k) {
      uint8_t drawn = (uint8_t)cr_mt19937_below(&rng, 256);
      if (i % 5 != 4) assert_int_equal(image.pixels[k], drawn);
    }
  }
  cr_image_free(&image);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
