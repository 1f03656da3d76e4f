/* Images: the largest that are taken, what files are known by, and resizing against the arithmetic
 * in double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data/image/image.h"

TEST(extents) {
  static const struct {
    int height, width;
    bool fits;
  } cases[] = {{1, 1, true},         {65500, 1, true},     {1, 65500, true},
               {0, 1, false},        {1, 0, false},        {-1, -1, false},
               {65501, 1, false},    {1, 65501, false},    {8192, 16384, true},
               {16384, 8192, true},  {8192, 16385, false}, {16385, 8192, false},
               {65500, 65500, false}};
  cr_image image = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    crema_status status = cr_image_reserve(&image, cases[i].height, cases[i].width, 1);
    assert_int_equal(status, cases[i].fits ? CREMA_OK : CREMA_E_RANGE);
    if (cases[i].fits) {
      assert_true(image.height == cases[i].height && image.width == cases[i].width);
      assert_int_equal(image.channels, 1);
    }
  }
  assert_int_equal(image.capacity, 8192 * 16384);
  /* Memory is kept for smaller ones. */
  const uint8_t *pixels = image.pixels;
  ok(cr_image_reserve(&image, 3, 4, 3));
  assert_ptr_equal(image.pixels, pixels);
  assert_int_equal(image.capacity, 8192 * 16384);
  assert_int_equal(image.channels, 3);
  cr_image_free(&image);
  assert_true(image.pixels == NULL && image.capacity == 0 && image.height == 0);
  ok(cr_image_reserve(&image, 5, 7, 3));
  assert_int_equal(image.capacity, 5 * 7 * 3);
  ok(cr_image_reserve(&image, 7, 5, 3));
  assert_int_equal(image.capacity, 5 * 7 * 3);
  ok(cr_image_reserve(&image, 4, 9, 3));
  assert_int_equal(image.capacity, 4 * 9 * 3);
  cr_image_free(&image);
}

#define START(bytes, status, words) \
  { bytes, sizeof(bytes) - 1, status, words }

TEST(beginnings_of_files) {
  static const struct {
    const char *bytes;
    size_t size;
    crema_status status;
    const char *words;
  } cases[] = {
      START("", CREMA_E_CORRUPT, "an image of 0 bytes"),
      START("a", CREMA_E_CORRUPT,
            "no image of a known format (JPEG, PNG, BMP, GIF, PNM, TIFF and WebP): it begins with "
            "61"),
      START("abc", CREMA_E_CORRUPT, ": it begins with 61 62 63"),
      START("\x01\xfe\x20\x80z", CREMA_E_CORRUPT, ": it begins with 01 fe 20 80"),
      START("\xff\xd8", CREMA_E_CORRUPT, ": it begins with ff d8"),
      START("\x89PNG\r\n\x1a", CREMA_E_CORRUPT, ": it begins with 89 50 4e 47"),
      START("GIF8", CREMA_E_CORRUPT, ": it begins with 47 49 46 38"),
      START("GIF89a", CREMA_E_CORRUPT, "GIF: "),
      START("BM", CREMA_E_CORRUPT, "BMP: the file is truncated"),
      START("B", CREMA_E_CORRUPT, ": it begins with 42"),
      START("II*\0", CREMA_E_CORRUPT, "TIFF: "),
      START("MM\0*", CREMA_E_CORRUPT, "TIFF: "),
      START("RIFFabcd", CREMA_E_CORRUPT, ": it begins with 52 49 46 46"),
      START("RIFF\x20\0\0\0WEBPVP8 ", CREMA_E_CORRUPT, "WebP: the file is truncated"),
      START("\0\0\0\x0cjP  ", CREMA_E_UNSUPPORTED,
            "JPEG 2000 images cannot be decoded (JPEG, PNG,"),
      START("P6 1", CREMA_E_CORRUPT, "PNM: the file is truncated"),
      START("P7\n", CREMA_E_UNSUPPORTED, "PAM images"),
      START("<html>", CREMA_E_CORRUPT, "no image: the file looks like an HTML page"),
      START("version https://git-lfs.github.com", CREMA_E_CORRUPT, "a Git LFS pointer"),
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const uint8_t *bytes = (const uint8_t *)cases[i].bytes;
    cr_image image = {0};
    cr_picture picture = {0};
    int height = 0, width = 0, channels = 0;
    assert_fails(cr_image_decode(bytes, cases[i].size, CR_IMAGE_NATIVE, &image), cases[i].status,
                 cases[i].words);
    assert_fails(cr_image_probe(bytes, cases[i].size, &height, &width, &channels), cases[i].status,
                 cases[i].words);
    assert_fails(cr_picture_open(&picture, bytes, cases[i].size, CR_IMAGE_NATIVE), cases[i].status,
                 cases[i].words);
    cr_picture_free(&picture);
    cr_image_free(&image);
  }
}

static void encoded(const char *kind, int channels, cr_buffer *out) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, 20, 28, channels));
  for (int i = 0; i < 20 * 28 * channels; ++i) {
    image.pixels[i] = (uint8_t)(i / channels / 28 * 9 + i / channels % 28 * 3 + i % channels * 20);
  }
  cr_buffer_clear(out);
  ok(cr_image_encode(&image, kind, out));
  cr_image_free(&image);
}

/* A probe and an opened picture say what will be decoded, in whatever colours. */
TEST(extents_before_decoding) {
  static const char *const kinds[] = {"jpg", "JPEG", "png", "PNG"};
  static const cr_image_color colors[] = {CR_IMAGE_NATIVE, CR_IMAGE_COLOR, CR_IMAGE_GRAY};
  cr_buffer file = {0};
  cr_picture picture = {0};
  for (int i = 0; i < 4 * 2 * 3; ++i) {
    const int of = i % 2 == 0 ? 1 : 3;
    const cr_image_color color = colors[i / 8];
    const int wanted = color == CR_IMAGE_NATIVE ? of : color == CR_IMAGE_COLOR ? 3 : 1;
    int height = 0, width = 0, channels = 0;
    cr_image whole = {0}, image = {0};
    cr_image_part part = {9, 9, 9, 9};
    encoded(kinds[i / 2 % 4], of, &file);
    const uint8_t *bytes = (const uint8_t *)file.data;
    ok(cr_image_probe(bytes, file.size, &height, &width, &channels));
    assert_true(height == 20 && width == 28 && channels == of);
    ok(cr_image_decode(bytes, file.size, color, &whole));
    assert_true(whole.height == 20 && whole.width == 28 && whole.channels == wanted);
    ok(cr_picture_open(&picture, bytes, file.size, color));
    assert_true(picture.height == 20 && picture.width == 28 && picture.channels == wanted);
    ok(cr_picture_decode(&picture, NULL, &image, &part));
    assert_true(part.top == 0 && part.left == 0 && part.height == 20 && part.width == 28);
    assert_memory_equal(image.pixels, whole.pixels, (size_t)(20 * 28 * wanted));
    /* Once more, without asking for the part; a picture that was decoded can be decoded again. */
    ok(cr_picture_decode(&picture, NULL, &image, NULL));
    assert_memory_equal(image.pixels, whole.pixels, (size_t)(20 * 28 * wanted));
    cr_image_free(&whole);
    cr_image_free(&image);
  }
  cr_picture_free(&picture);
  assert_null(picture.jpeg);
  cr_image image = {.height = 1, .width = 1, .channels = 1, .pixels = (uint8_t[]){1}};
  assert_fails(cr_image_encode(&image, "gif", &file), CREMA_E_UNKNOWN_NAME,
               "cannot encode images as 'gif' (known: jpg, png)");
  cr_buffer_free(&file);
}

/* A picture that was decoded in part leaves the decoder ready for the next one. */
TEST(one_part_after_the_other) {
  cr_buffer file = {0};
  cr_picture picture = {0};
  cr_image whole = {0}, image = {0};
  encoded("jpg", 3, &file);
  const uint8_t *bytes = (const uint8_t *)file.data;
  ok(cr_image_decode(bytes, file.size, CR_IMAGE_NATIVE, &whole));
  for (int top = 0; top < 12; ++top) {
    const cr_image_part wanted = {top, 3, 5, 6};
    cr_image_part part = {0};
    ok(cr_picture_open(&picture, bytes, file.size, CR_IMAGE_NATIVE));
    assert_true(picture.in_part);
    if (top % 3 == 2) continue; /* opened and not decoded at all */
    ok(cr_picture_decode(&picture, &wanted, &image, &part));
    assert_false(picture.in_part);
    assert_true(part.top <= top && part.top + part.height >= top + 5 && part.height < 20);
    assert_true(part.left <= 3 && part.left + part.width >= 9);
    for (int y = top; y < top + 5; ++y) {
      assert_memory_equal(image.pixels + ((y - part.top) * part.width + 3 - part.left) * 3,
                          whole.pixels + (y * 28 + 3) * 3, 6 * 3);
    }
  }
  cr_picture_free(&picture);
  cr_image_free(&whole);
  cr_image_free(&image);
  cr_buffer_free(&file);
}

/* ---- resizing ------------------------------------------------------------ */

static int clamp(int value, int limit) {
  return value < 0 ? 0 : value >= limit ? limit - 1 : value;
}

static double mixed(const cr_image *in, int height, int width, int y, int x, int c) {
  const double down = (y + 0.5) * in->height / height - 0.5;
  const double across = (x + 0.5) * in->width / width - 0.5;
  double sum = 0;
  for (int k = 0; k < 4; ++k) {
    const int row = (int)floor(down) + k / 2, column = (int)floor(across) + k % 2;
    const double weight = (1 - fabs(down - row)) * (1 - fabs(across - column));
    const int at = clamp(row, in->height) * in->width + clamp(column, in->width);
    sum += weight * in->pixels[at * in->channels + c];
  }
  return sum;
}

/* The weights have 11 bits, and products are cut: off by one at most. */
TEST(linear_sizes) {
  static const int sizes[][4] = {{5, 7, 10, 14}, {5, 7, 3, 4},  {5, 7, 5, 3}, {5, 7, 2, 7},
                                 {1, 1, 3, 5},   {1, 9, 4, 6},  {9, 1, 6, 4}, {16, 12, 1, 1},
                                 {6, 6, 13, 2},  {20, 3, 7, 11}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    const int channels = s % 2 == 0 ? 3 : 1, height = sizes[s][2], width = sizes[s][3];
    cr_image in = {0}, out = {0};
    uint32_t random = (uint32_t)s;
    ok(cr_image_reserve(&in, sizes[s][0], sizes[s][1], channels));
    for (int i = 0; i < in.height * in.width * channels; ++i) {
      random = random * 1664525u + 1013904223u;
      in.pixels[i] = (uint8_t)(random >> 24);
    }
    ok(cr_image_resize(&in, height, width, &out));
    assert_true(out.height == height && out.width == width && out.channels == channels);
    for (int i = 0; i < height * width * channels; ++i) {
      const int y = i / channels / width, x = i / channels % width;
      const double exact = mixed(&in, height, width, y, x, i % channels);
      if (fabs(out.pixels[i] - exact) > 1.01) {
        fail_msg("size %zu: (%d, %d) is %d, not %g", s, y, x, out.pixels[i], exact);
      }
    }
    cr_image_free(&in);
    cr_image_free(&out);
  }
}

TEST(sizes_that_cannot_be) {
  cr_image in = {0}, out = {0};
  assert_fails(cr_image_resize(&in, 2, 2, &out), CREMA_E_ARGUMENT, "cannot resize an image into");
  ok(cr_image_reserve(&in, 2, 3, 1));
  assert_fails(cr_image_resize(&in, 2, 2, &in), CREMA_E_ARGUMENT, "cannot resize an image into");
  assert_fails(cr_image_resize(&in, 0, 2, &out), CREMA_E_RANGE, "an image of 0 x 2 pixels");
  assert_fails(cr_image_resize(&in, 2, 65501, &out), CREMA_E_RANGE, "an image of 2 x 65501 pixels");
  cr_image_free(&in);
  cr_image_free(&out);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
