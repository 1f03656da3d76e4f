/* Decoding a part of a JPEG: the pixels of the whole picture, for every subsampling, size, part;
 * damage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <turbojpeg.h>

#include "check.h"
#include "core/rng.h"
#include "data/augment/sample.h"
#include "data/image/image.h"
#include "data/image/image_codec.h"

typedef struct jpeg_file {
  unsigned char *bytes;
  unsigned long size;
} jpeg_file;

/* Noise: every block differs from its neighbours, so that a wrong neighbour shows. */
static jpeg_file make_file(cr_mt19937 *rng, int height, int width, int subsampling, int flags) {
  size_t count = (size_t)height * (size_t)width * 3;
  uint8_t *pixels = malloc(count);
  jpeg_file file = {0};
  assert_non_null(pixels);
  for (size_t i = 0; i < count; ++i) pixels[i] = (uint8_t)cr_mt19937_below(rng, 256);
  tjhandle jpeg = tjInitCompress();
  assert_int_equal(tjCompress2(jpeg, pixels, width, 0, height, TJPF_BGR, &file.bytes, &file.size,
                               subsampling, 80, flags),
                   0);
  tjDestroy(jpeg);
  free(pixels);
  return file;
}

static cr_image_part draw_part(cr_mt19937 *rng, int height, int width) {
  cr_image_part part;
  part.height = 1 + (int)cr_mt19937_below(rng, (uint32_t)height);
  part.width = 1 + (int)cr_mt19937_below(rng, (uint32_t)width);
  part.top = (int)cr_mt19937_below(rng, (uint32_t)(height - part.height + 1));
  part.left = (int)cr_mt19937_below(rng, (uint32_t)(width - part.width + 1));
  return part;
}

/* One decoder for all files of a test. */
static cr_picture picture;

/* Compares the part asked for, pixel by pixel; returns the number of pixels decoded. */
static size_t check_part(const jpeg_file *file, cr_image_color color, cr_image_part wanted) {
  cr_image all = {0}, some = {0};
  cr_image_part part;
  ok(cr_image_decode(file->bytes, file->size, color, &all));
  ok(cr_picture_open(&picture, file->bytes, file->size, color));
  assert_true(picture.height == all.height && picture.width == all.width);
  assert_int_equal(picture.channels, all.channels);
  ok(cr_picture_decode(&picture, &wanted, &some, &part));
  assert_true(some.height == part.height && some.width == part.width);
  assert_int_equal(some.channels, all.channels);
  assert_true(part.top <= wanted.top && part.left <= wanted.left);
  assert_true(part.top + part.height >= wanted.top + wanted.height);
  assert_true(part.left + part.width >= wanted.left + wanted.width);
  size_t channels = (size_t)all.channels;
  for (int y = wanted.top; y < wanted.top + wanted.height; ++y) {
    const uint8_t *a = all.pixels + (size_t)(y * all.width + wanted.left) * channels;
    const uint8_t *b =
        some.pixels + (size_t)((y - part.top) * some.width + wanted.left - part.left) * channels;
    if (memcmp(a, b, (size_t)wanted.width * channels) == 0) continue;
    fail_msg("row %d of the part %d x %d at (%d, %d) of %d x %d differs", y, wanted.height,
             wanted.width, wanted.top, wanted.left, all.height, all.width);
  }
  size_t decoded = (size_t)some.height * (size_t)some.width;
  cr_image_free(&some);
  cr_image_free(&all);
  return decoded;
}

TEST(test_parts_are_exact) {
  static const int subsamplings[] = {TJSAMP_444, TJSAMP_422,  TJSAMP_420,
                                     TJSAMP_440, TJSAMP_GRAY, TJSAMP_411};
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 20);
  for (int s = 0; s < 6; ++s) {
    for (int round = 0; round < 12; ++round) {
      int height = 1 + (int)cr_mt19937_below(&rng, 150);
      int width = 1 + (int)cr_mt19937_below(&rng, 150);
      int flags = round % 6 == 5 ? TJFLAG_PROGRESSIVE : 0;
      jpeg_file file = make_file(&rng, height, width, subsamplings[s], flags);
      for (int k = 0; k < 20; ++k) {
        cr_image_color color = (cr_image_color)(k % 3);
        const cr_image_part whole = {0, 0, height, width};
        check_part(&file, color, k < 3 ? whole : draw_part(&rng, height, width));
      }
      tjFree(file.bytes);
    }
  }
  cr_picture_free(&picture);
}

/* It does leave something out. */
TEST(test_less_is_decoded) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 21);
  jpeg_file file = make_file(&rng, 256, 256, TJSAMP_420, 0);
  cr_image_part middle = {112, 112, 32, 32};
  assert_true(check_part(&file, CR_IMAGE_COLOR, middle) < 100 * 100);
  cr_picture_free(&picture);
  tjFree(file.bytes);
}

/* A file that is cut anywhere fails as it does when all of it is decoded. So does one with a
 * changed byte, or the change is below the part, whose pixels are then sound. */
TEST(test_damage) {
  cr_mt19937 rng;
  int failures = 0, below = 0;
  cr_image sound = {0};
  cr_mt19937_seed(&rng, 22);
  jpeg_file file = make_file(&rng, 96, 96, TJSAMP_420, 0);
  cr_image_part top = {0, 0, 16, 96};
  ok(cr_image_decode(file.bytes, file.size, CR_IMAGE_COLOR, &sound));
  for (int round = 0; round < 300; ++round) {
    cr_image all = {0}, some = {0};
    unsigned long size = file.size;
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    memcpy(bytes, file.bytes, size);
    if (round % 2 == 0) size -= 3 + cr_mt19937_below(&rng, (uint32_t)size - 3);
    else
      bytes[cr_mt19937_below(&rng, (uint32_t)size)] ^= (uint8_t)(1 + cr_mt19937_below(&rng, 255));
    crema_status wanted = cr_image_decode(bytes, size, CR_IMAGE_COLOR, &all);
    crema_status found = cr_picture_open(&picture, bytes, size, CR_IMAGE_COLOR);
    if (found == CREMA_OK) found = cr_picture_decode(&picture, &top, &some, NULL);
    failures += wanted != CREMA_OK;
    if (found != wanted) {
      assert_true(round % 2 == 1 && found == CREMA_OK);
      assert_memory_equal(some.pixels, sound.pixels, (size_t)16 * 96 * 3);
      ++below;
    }
    free(bytes);
    cr_image_free(&all);
    cr_image_free(&some);
  }
  assert_true(failures > 140 && below < 60);
  cr_picture_free(&picture);
  cr_image_free(&sound);
  tjFree(file.bytes);
}

/* Takes the segments of a kind out of the file's header. */
static void cut_segments(jpeg_file *file, uint8_t kind) {
  unsigned long at = 2;
  while (at + 4 < file->size && file->bytes[at + 1] != 0xDA) {
    const unsigned long length = 2 + 256u * file->bytes[at + 2] + file->bytes[at + 3];
    if (file->bytes[at + 1] != kind) {
      at += length;
      continue;
    }
    file->size -= length;
    memmove(file->bytes + at, file->bytes + at + length, file->size - at);
  }
}

/* Tables that a file lacks are not taken from the file before. */
TEST(test_tables_are_the_files_own) {
  static const uint8_t quantization = 0xDB;
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 23);
  jpeg_file file = make_file(&rng, 40, 40, TJSAMP_420, 0);
  const cr_image_part wanted = {.height = 8, .width = 8};
  cr_image out = {0};
  check_part(&file, CR_IMAGE_COLOR, wanted);
  cut_segments(&file, quantization);
  crema_status status = cr_picture_open(&picture, file.bytes, file.size, CR_IMAGE_COLOR);
  if (status == CREMA_OK) status = cr_picture_decode(&picture, &wanted, &out, NULL);
  assert_fails(status, CREMA_E_CORRUPT, "uantization table");
  cr_picture_free(&picture);
  cr_image_free(&out);
  tjFree(file.bytes);
}

enum { SIDE = 300, CROP = 270 };

/* Crop, mean, scale and mirror of whole pixels, one value at a time. */
static void check_values(const float *out, const cr_image *all, const int position[2],
                         bool mirror) {
  static const float mean[3] = {104, 117, 123};
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < CROP; ++y) {
      for (int x = 0; x < CROP; ++x) {
        int column = position[1] + (mirror ? CROP - 1 - x : x);
        float pixel = all->pixels[((position[0] + y) * SIDE + column) * 3 + c];
        assert_true(*out++ == (pixel - mean[c]) * 0.25F);
      }
    }
  }
}

/* A sample of which only a part is decoded is transformed as the whole one is. */
TEST(test_samples_in_part) {
  static float some[3 * CROP * CROP], whole[3 * CROP * CROP];
  Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
  float mean[3] = {104, 117, 123};
  cr_transformer *transformer = NULL;
  cr_mt19937 rng;
  cr_buffer record = {0};
  cr_image all = {0};
  cr_sample a = {0}, b = {0};
  int mirrored = 0;
  cr_mt19937_seed(&rng, 23);
  param.crop_size = CROP;
  param.mirror = true;
  param.scale = 0.25F;
  param.mean_value = mean;
  param.n_mean_value = 3;
  ok(cr_transformer_create(&param, CAFFE__PHASE__TRAIN, 5, NULL, &transformer));
  jpeg_file file = make_file(&rng, SIDE, SIDE, TJSAMP_420, 0);
  const cr_datum datum = {
      .data = file.bytes, .size = file.size, .label = 3, .encoded = true, .has_encoded = true};
  ok(cr_datum_append(&datum, &record));
  ok(cr_image_decode(file.bytes, file.size, CR_IMAGE_NATIVE, &all));
  const uint8_t *bytes = (const uint8_t *)record.data;
  for (uint64_t i = 0; i < 12; ++i) {
    cr_image_part part;
    assert_true(cr_transformer_part(transformer, i, SIDE, SIDE, &part));
    ok(cr_sample_open(&a, bytes, record.size, CR_IMAGE_NATIVE));
    assert_true(a.pixels.height == SIDE && a.pixels.width == SIDE && a.pixels.values == NULL);
    ok(cr_sample_decode(&a, &part));
    ok(cr_transformer_run(transformer, &a.pixels, i, some));
    ok(cr_sample_load(&b, bytes, record.size, CR_IMAGE_NATIVE));
    ok(cr_transformer_run(transformer, &b.pixels, i, whole));
    assert_memory_equal(some, whole, sizeof some);
    int column = part.left + CROP - 1;
    bool mirror = some[0] == ((float)all.pixels[(part.top * SIDE + column) * 3] - 104) * 0.25F;
    mirrored += mirror;
    check_values(some, &all, (const int[2]){part.top, part.left}, mirror);
  }
  assert_true(mirrored > 0 && mirrored < 12);
  /* Pixels of another sample's part are not taken for this one's. */
  a.pixels.part.top += 3;
  assert_int_equal(cr_transformer_run(transformer, &a.pixels, 11, some), CREMA_E_ARGUMENT);
  cr_sample_free(&a);
  cr_sample_free(&b);
  cr_image_free(&all);
  cr_buffer_free(&record);
  cr_transformer_destroy(transformer);
  tjFree(file.bytes);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
