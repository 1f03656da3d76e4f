/* Decoding to a size: exact where the picture is not much larger, near enough where it is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/rng.h"
#include "data/image/image_codec.h"
#include "data/image/image_scaled.h"

typedef struct pictures {
  cr_image source, raw, resized, whole, wanted;
  cr_buffer file;
} pictures;

static void free_pictures(pictures *p) {
  cr_image_free(&p->source);
  cr_image_free(&p->raw);
  cr_image_free(&p->resized);
  cr_image_free(&p->whole);
  cr_image_free(&p->wanted);
  cr_buffer_free(&p->file);
}

/* Soft waves, as photographs have them at this distance, and `grain` of noise. */
static void draw(cr_image *image, int height, int width, int channels, int grain) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 5);
  ok(cr_image_reserve(image, height, width, channels));
  uint8_t *out = image->pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        double wave = sin(6.0 * x / width + c) * cos(5.0 * y / height - c);
        int noise = grain == 0 ? 0 : (int)cr_mt19937_below(&rng, 2 * (uint32_t)grain) - grain;
        *out++ = (uint8_t)(128 + 90 * wave + noise);
      }
    }
  }
}

/* The result of cr_image_decode_to, and in p->wanted that of decoding and resizing the whole. */
static cr_image *decode_with(pictures *p, cr_image_color color, int height, int width, bool exact) {
  const uint8_t *bytes = (const uint8_t *)p->file.data;
  const cr_image_size size = {height, width, exact};
  const cr_image_sizer sizer = cr_image_sizer_of(&size);
  cr_image *found = NULL;
  ok(cr_image_decode_to(bytes, p->file.size, color, &sizer, &p->raw, &p->resized, &found));
  ok(cr_image_decode(bytes, p->file.size, color, &p->whole));
  ok(cr_image_resize(&p->whole, height, width, &p->wanted));
  assert_true(found->height == height && found->width == width);
  assert_int_equal(found->channels, p->wanted.channels);
  return found;
}

static cr_image *decode_both(pictures *p, cr_image_color color, int height, int width) {
  return decode_with(p, color, height, width, false);
}

static void assert_equal_images(const cr_image *a, const cr_image *b) {
  size_t size = (size_t)a->height * (size_t)a->width * (size_t)a->channels;
  assert_memory_equal(a->pixels, b->pixels, size);
}

static void compare(const cr_image *a, const cr_image *b, int *most, double *mean) {
  size_t size = (size_t)a->height * (size_t)a->width * (size_t)a->channels;
  double sum = 0;
  *most = 0;
  for (size_t i = 0; i < size; ++i) {
    int difference = abs((int)a->pixels[i] - (int)b->pixels[i]);
    *most = difference > *most ? difference : *most;
    sum += difference;
  }
  *mean = sum / (double)size;
}

/* Below twice the size in one direction, and PNGs of any size: the whole picture counts. */
TEST(test_exact_where_pictures_are_not_much_larger) {
  static const int sizes[][4] = {{64, 64, 64, 64},  {64, 64, 33, 33}, {64, 200, 40, 20},
                                 {127, 90, 64, 45}, {50, 60, 90, 70}, {65, 65, 33, 32},
                                 {40, 400, 21, 21}, {1, 1, 1, 1},     {3, 2, 2, 1}};
  pictures p = {0};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const int *s = sizes[i];
    for (int channels = 1; channels <= 3; channels += 2) {
      draw(&p.source, s[0], s[1], channels, 20);
      cr_buffer_clear(&p.file);
      ok(cr_image_encode(&p.source, "jpg", &p.file));
      assert_equal_images(decode_both(&p, CR_IMAGE_NATIVE, s[2], s[3]), &p.wanted);
      assert_true(p.raw.height == s[0] && p.raw.width == s[1]);
    }
  }
  draw(&p.source, 100, 120, 3, 20);
  cr_buffer_clear(&p.file);
  ok(cr_image_encode(&p.source, "png", &p.file));
  assert_equal_images(decode_both(&p, CR_IMAGE_COLOR, 10, 12), &p.wanted);
  free_pictures(&p);
}

/* What is decoded is at least the size wanted and less than the picture; the result is within a
 * few levels of the whole picture's, on average within two. With grain, resizing the whole takes
 * single pixels of it while the scaled picture has their mean: then only averages agree. */
TEST(test_near_where_pictures_are_much_larger) {
  static const struct {
    int in[2], out[2], denominator;
  } cases[] = {
      {{128, 128}, {64, 64}, 2},   {{480, 640}, {227, 227}, 2}, {{481, 643}, {120, 160}, 4},
      {{500, 375}, {60, 46}, 8},   {{1000, 300}, {64, 64}, 4},  {{333, 777}, {32, 32}, 8},
      {{257, 259}, {128, 129}, 2}, {{240, 240}, {5, 5}, 8},
  };
  static const cr_image_color colors[] = {CR_IMAGE_NATIVE, CR_IMAGE_COLOR, CR_IMAGE_GRAY};
  pictures p = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    for (size_t k = 0; k < 2 * sizeof colors / sizeof *colors; ++k) {
      const int *in = cases[i].in, *out = cases[i].out, den = cases[i].denominator;
      int most = 0, grain = k % 2 == 0 ? 0 : 12;
      double mean = 0;
      draw(&p.source, in[0], in[1], i % 3 == 0 ? 1 : 3, grain);
      cr_buffer_clear(&p.file);
      ok(cr_jpeg_encode_as(&p.source, 92, &p.file));
      const cr_image *found = decode_both(&p, colors[k / 2], out[0], out[1]);
      /* `raw` is what was decoded; where nothing was left to resize, it is the result. */
      assert_int_equal(p.raw.height, (in[0] + den - 1) / den);
      assert_int_equal(p.raw.width, (in[1] + den - 1) / den);
      assert_true(p.raw.height >= out[0] && p.raw.width >= out[1]);
      compare(found, &p.wanted, &most, &mean);
      if (most > (grain == 0 ? 8 : 24) || mean > (grain == 0 ? 2.0 : 6.0)) {
        fail_msg("case %zu, color %zu: differences up to %d, %g on average", i, k, most, mean);
      }
    }
  }
  free_pictures(&p);
}

/* As Caffe does it, on demand. */
TEST(large_pictures_are_decoded_whole_on_demand) {
  pictures p = {0};
  draw(&p.source, 240, 320, 3, 20);
  ok(cr_image_encode(&p.source, "jpg", &p.file));
  assert_equal_images(decode_with(&p, CR_IMAGE_COLOR, 40, 50, true), &p.wanted);
  assert_int_equal(p.raw.height, 240);
  free_pictures(&p);
}

static void short_side(const void *user, int height, int width, int *out_height, int *out_width) {
  int side = *(const int *)user;
  *out_height = height < width ? side : height * side / width;
  *out_width = height < width ? width * side / height : side;
}

/* The sizer is asked for the size of the picture, not of what was decoded of it. */
TEST(test_sizes_go_by_the_picture) {
  pictures p = {0};
  cr_image *found = NULL;
  const int side = 31;
  const cr_image_sizer sizer = {short_side, &side, false};
  draw(&p.source, 205, 299, 3, 0);
  ok(cr_image_encode(&p.source, "jpg", &p.file));
  ok(cr_image_decode_to((const uint8_t *)p.file.data, p.file.size, CR_IMAGE_COLOR, &sizer, &p.raw,
                        &p.resized, &found));
  assert_true(found->height == 31 && found->width == 45);
  assert_int_equal(p.raw.height, 52);
  free_pictures(&p);
}

/* Scaled or not, the same is said of a damaged file; and sizes that cannot be are refused. */
TEST(test_damage) {
  pictures p = {0};
  cr_image *found = NULL;
  char said[512];
  draw(&p.source, 200, 200, 3, 20);
  ok(cr_image_encode(&p.source, "jpg", &p.file));
  const uint8_t *bytes = (const uint8_t *)p.file.data;
  const cr_image_size size = {20, 20, false}, none = {0, 20, false},
                      huge = {CR_IMAGE_MAX_SIDE + 1, 1, false};
  const cr_image_sizer sizer = cr_image_sizer_of(&size);
  for (size_t cut = 0; cut < p.file.size - 2; cut += 97) {
    crema_status status = cr_image_decode(bytes, cut, CR_IMAGE_COLOR, &p.whole);
    assert_int_not_equal(status, CREMA_OK);
    strncpy(said, crema_error_text(), sizeof said - 1);
    said[sizeof said - 1] = '\0';
    assert_int_equal(
        cr_image_decode_to(bytes, cut, CR_IMAGE_COLOR, &sizer, &p.raw, &p.resized, &found), status);
    assert_string_equal(crema_error_text(), said);
  }
  const cr_image_sizer bad = cr_image_sizer_of(&none), worse = cr_image_sizer_of(&huge);
  assert_int_equal(
      cr_image_decode_to(bytes, p.file.size, CR_IMAGE_COLOR, &bad, &p.raw, &p.resized, &found),
      CREMA_E_RANGE);
  assert_int_equal(
      cr_image_decode_to(bytes, p.file.size, CR_IMAGE_COLOR, &worse, &p.raw, &p.resized, &found),
      CREMA_E_RANGE);
  free_pictures(&p);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
