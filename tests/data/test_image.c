/* Images: every kind of PNG and JPEG that is decoded, damage, limits, resizing. */
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>
#include <zlib.h>

#include "check.h"
#include "core/rng.h"
#include "data/image/image.h"
#include "fixture.h"

static crema_status decode(const cr_buffer *file, cr_image_color color, cr_image *out) {
  return cr_image_decode((const uint8_t *)file->data, file->size, color, out);
}

static int difference(int a, int b) {
  return a < b ? b - a : a - b;
}

/* ---- making files that cr_image_encode does not make --------------------- */

static void append_bytes(png_structp png, png_bytep bytes, size_t size) {
  cr_buffer *out = png_get_io_ptr(png);
  if (cr_buffer_append(out, bytes, size) != CREMA_OK) png_error(png, "no memory");
}

static void flush_bytes(png_structp png) {
  (void)png;
}

/* Writes `rows` (already packed as the type and depth ask) as a PNG. */
static void make_png(int width, int height, int depth, int type, bool interlaced,
                     const uint8_t *rows, size_t stride, cr_buffer *out) {
  static const png_color palette[4] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {10, 20, 30}};
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png_create_info_struct(png);
  assert_int_equal(setjmp(png_jmpbuf(png)), 0);
  png_set_write_fn(png, out, append_bytes, flush_bytes);
  png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, depth, type,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 4);
  png_write_info(png, info);
  int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < height; ++y) png_write_row(png, rows + (size_t)y * stride);
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
}

static void make_jpeg(const uint8_t *pixels, int width, int height, int format, int sampling,
                      int flags, cr_buffer *out) {
  tjhandle jpeg = tjInitCompress();
  unsigned char *bytes = NULL;
  unsigned long size = 0;
  assert_int_equal(
      tjCompress2(jpeg, pixels, width, 0, height, format, &bytes, &size, sampling, 100, flags), 0);
  ok(cr_buffer_append(out, bytes, size));
  tjFree(bytes);
  tjDestroy(jpeg);
}

/* ---- round trips --------------------------------------------------------- */

TEST(test_png_round_trip_is_exact) {
  for (int channels = 1; channels <= 3; channels += 2) {
    cr_image in = {0}, out = {0};
    cr_buffer file = {0};
    int height = 0, width = 0, found = 0;
    fixture_image(&in, 17, 23, channels);
    ok(cr_image_encode(&in, "PNG", &file));
    ok(decode(&file, CR_IMAGE_NATIVE, &out));
    assert_int_equal(out.channels, channels);
    assert_int_equal(out.height, 17);
    assert_int_equal(out.width, 23);
    assert_memory_equal(in.pixels, out.pixels, (size_t)(17 * 23 * channels));
    ok(cr_image_probe((const uint8_t *)file.data, file.size, &height, &width, &found));
    assert_true(height == 17 && width == 23 && found == channels);
    cr_buffer_free(&file);
    cr_image_free(&in);
    cr_image_free(&out);
  }
}

TEST(test_jpeg_round_trip_is_close) {
  for (int channels = 1; channels <= 3; channels += 2) {
    cr_image in = {0}, out = {0};
    cr_buffer file = {0};
    int worst = 0;
    /* A smooth picture: chroma is halved both ways. */
    ok(cr_image_reserve(&in, 64, 48, channels));
    for (int i = 0; i < 64 * 48 * channels; ++i) {
      in.pixels[i] = (uint8_t)(i / channels / 48 + i / channels % 48 + 20 * (i % channels));
    }
    ok(cr_image_encode(&in, "jpeg", &file));
    ok(decode(&file, CR_IMAGE_NATIVE, &out));
    assert_int_equal(out.channels, channels);
    for (int i = 0; i < 64 * 48 * channels; ++i) {
      int d = difference(in.pixels[i], out.pixels[i]);
      if (d > worst) worst = d;
    }
    assert_in_range(worst, 0, 6);
    cr_buffer_free(&file);
    cr_image_free(&in);
    cr_image_free(&out);
  }
}

TEST(test_channels_are_converted) {
  cr_image in = {0}, out = {0};
  cr_buffer file = {0};
  ok(cr_image_reserve(&in, 1, 3, 3));
  memcpy(in.pixels, "\xff\0\0\0\xff\0\0\0\xff", 9); /* blue, green, red */
  ok(cr_image_encode(&in, "png", &file));
  ok(decode(&file, CR_IMAGE_GRAY, &out));
  assert_int_equal(out.channels, 1);
  assert_true(difference(out.pixels[0], 29) <= 1); /* 0.114 * 255 */
  assert_true(difference(out.pixels[1], 150) <= 1);
  assert_true(difference(out.pixels[2], 76) <= 1);
  cr_buffer_clear(&file);
  in.channels = 1;
  ok(cr_image_encode(&in, "png", &file));
  ok(decode(&file, CR_IMAGE_COLOR, &out));
  assert_int_equal(out.channels, 3);
  assert_memory_equal(out.pixels, "\xff\xff\xff\0\0\0\0\0\0", 9);
  cr_buffer_free(&file);
  cr_image_free(&in);
  cr_image_free(&out);
}

/* ---- kinds of files ------------------------------------------------------ */

static void expect_png(int depth, int type, const uint8_t *rows, size_t stride, int channels,
                       const char *pixels) {
  for (int interlaced = 0; interlaced < 2; ++interlaced) {
    cr_buffer file = {0};
    cr_image out = {0};
    make_png(2, 2, depth, type, interlaced != 0, rows, stride, &file);
    ok(decode(&file, CR_IMAGE_NATIVE, &out));
    assert_int_equal(out.channels, channels);
    assert_memory_equal(out.pixels, pixels, (size_t)(4 * channels));
    cr_buffer_free(&file);
    cr_image_free(&out);
  }
}

TEST(test_kinds_of_png) {
  /* 1 bit gray: white, black / black, white. */
  expect_png(1, PNG_COLOR_TYPE_GRAY, (const uint8_t *)"\x80\x40", 1, 1, "\xff\0\0\xff");
  /* 16 bit gray is cut. */
  expect_png(16, PNG_COLOR_TYPE_GRAY, (const uint8_t *)"\x12\xff\x34\0\x56\x80\xff\xff", 4, 1,
             "\x12\x34\x56\xff");
  /* Palette of 2 bits: red, green / blue, (10, 20, 30). */
  expect_png(2, PNG_COLOR_TYPE_PALETTE, (const uint8_t *)"\x10\xb0", 1, 3,
             "\0\0\xff\0\xff\0\xff\0\0\x1e\x14\x0a");
  /* Alpha is dropped, not blended. */
  expect_png(8, PNG_COLOR_TYPE_RGB_ALPHA,
             (const uint8_t *)"\1\2\3\0\4\5\6\x80\7\x08\x09\xff\x0a\x0b\x0c\1", 8, 3,
             "\3\2\1\6\5\4\x09\x08\7\x0c\x0b\x0a");
  expect_png(8, PNG_COLOR_TYPE_GRAY_ALPHA, (const uint8_t *)"\1\0\2\x80\3\xff\4\1", 4, 1,
             "\1\2\3\4");
}

TEST(test_kinds_of_jpeg) {
  cr_buffer file = {0};
  cr_image out = {0};
  uint8_t pixels[16 * 16 * 4];
  for (int i = 0; i < 16 * 16; ++i) memcpy(pixels + 4 * i, "\x20\x60\xe0\0", 4);
  /* Progressive. */
  make_jpeg(pixels, 16, 16, TJPF_BGRX, TJSAMP_444, TJFLAG_PROGRESSIVE, &file);
  ok(decode(&file, CR_IMAGE_NATIVE, &out));
  assert_true(difference(out.pixels[0], 0x20) < 4 && difference(out.pixels[2], 0xe0) < 4);
  /* CMYK, inverted inks: cyan 255 (none), magenta 128, yellow 0 (all), black 255 (none). */
  cr_buffer_clear(&file);
  for (int i = 0; i < 16 * 16; ++i) memcpy(pixels + 4 * i, "\xff\x80\x00\xff", 4);
  make_jpeg(pixels, 16, 16, TJPF_CMYK, TJSAMP_444, 0, &file);
  ok(decode(&file, CR_IMAGE_NATIVE, &out));
  assert_int_equal(out.channels, 3);
  assert_true(difference(out.pixels[0], 0) < 5);   /* blue: yellow ink takes it */
  assert_true(difference(out.pixels[1], 128) < 5); /* green */
  assert_true(difference(out.pixels[2], 255) < 5); /* red */
  ok(decode(&file, CR_IMAGE_GRAY, &out));
  assert_int_equal(out.channels, 1);
  assert_true(difference(out.pixels[0], (587 * 128 + 299 * 255) / 1000) < 5);
  cr_buffer_free(&file);
  cr_image_free(&out);
}

/* Of the same amount of all inks, which compression leaves as it is. */
TEST(inks_become_the_colours_of_opencv) {
  static const uint8_t cases[][3] = {
      /* ink, black, blue and green and red */
      {0, 255, 1}, {128, 255, 129}, {50, 200, 40}, {255, 100, 100}, {99, 180, 71}, {37, 0, 0}};
  cr_buffer file = {0};
  cr_image out = {0};
  uint8_t pixels[16 * 16 * 4];
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    memset(pixels, cases[k][0], sizeof pixels);
    for (int i = 0; i < 16 * 16; ++i) pixels[4 * i + 3] = cases[k][1];
    cr_buffer_clear(&file);
    make_jpeg(pixels, 16, 16, TJPF_CMYK, TJSAMP_444, 0, &file);
    ok(decode(&file, CR_IMAGE_NATIVE, &out));
    for (int c = 0; c < 3; ++c) assert_int_equal(out.pixels[c], cases[k][2]);
  }
  cr_buffer_free(&file);
  cr_image_free(&out);
}

/* ---- damage -------------------------------------------------------------- */

TEST(test_truncated_files_are_refused) {
  static const char *const kinds[] = {"png", "jpg"};
  for (int k = 0; k < 2; ++k) {
    cr_image in = {0}, out = {0};
    cr_buffer file = {0};
    fixture_image(&in, 40, 40, 3);
    ok(cr_image_encode(&in, kinds[k], &file));
    for (size_t size = 0; size + 4 < file.size; size += 7) {
      uint8_t *bytes = malloc(size + 1);
      memcpy(bytes, file.data, size);
      assert_int_equal(cr_image_decode(bytes, size, CR_IMAGE_COLOR, &out), CREMA_E_CORRUPT);
      free(bytes);
    }
    cr_buffer_free(&file);
    cr_image_free(&in);
    cr_image_free(&out);
  }
}

TEST(test_extra_bytes_in_a_jpeg_are_tolerated) {
  cr_image in = {0}, plain = {0}, padded = {0};
  cr_buffer file = {0}, longer = {0};
  fixture_image(&in, 32, 32, 1);
  ok(cr_image_encode(&in, "jpg", &file));
  /* Before the closing marker. */
  ok(cr_buffer_append(&longer, file.data, file.size - 2));
  ok(cr_buffer_append(&longer, "\x11\x22\x33\x44", 4));
  ok(cr_buffer_append(&longer, file.data + file.size - 2, 2));
  ok(decode(&file, CR_IMAGE_NATIVE, &plain));
  ok(decode(&longer, CR_IMAGE_NATIVE, &padded));
  assert_memory_equal(plain.pixels, padded.pixels, 32 * 32);
  cr_buffer_free(&file);
  cr_buffer_free(&longer);
  cr_image_free(&in);
  cr_image_free(&plain);
  cr_image_free(&padded);
}

TEST(test_other_formats_are_named) {
  cr_image out = {0};
  assert_fails(cr_image_decode((const uint8_t *)"8BPS..", 6, CR_IMAGE_NATIVE, &out),
               CREMA_E_UNSUPPORTED, "Photoshop");
  assert_fails(cr_image_decode((const uint8_t *)"\1\2", 2, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT,
               "01 02");
  assert_int_equal(cr_image_decode(NULL, 0, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT);
}

/* Files that claim a huge picture must not make us take the memory. */
TEST(test_bombs_are_refused) {
  cr_image in = {0}, out = {0};
  cr_buffer file = {0};
  fixture_image(&in, 8, 8, 1);
  ok(cr_image_encode(&in, "jpg", &file));
  uint8_t *bytes = (uint8_t *)file.data;
  size_t at = 2;
  while (bytes[at + 1] != 0xc0) at += 2 + (size_t)(bytes[at + 2] << 8 | bytes[at + 3]);
  memcpy(bytes + at + 5, "\xf0\x00\xf0\x00", 4); /* height and width of the frame */
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "61440 x 61440");
  assert_null(out.pixels);
  cr_buffer_clear(&file);
  /* A PNG of 40000 x 60000 pixels: its header alone, with the right check sum. */
  uint8_t row[1] = {0};
  make_png(1, 1, 8, PNG_COLOR_TYPE_GRAY, false, row, 1, &file);
  bytes = (uint8_t *)file.data;
  memcpy(bytes + 16, "\x00\x00\xea\x60\x00\x00\x9c\x40", 8);
  uint32_t sum = (uint32_t)crc32(crc32(0, NULL, 0), bytes + 12, 17);
  for (int i = 0; i < 4; ++i) bytes[29 + i] = (uint8_t)(sum >> (24 - 8 * i));
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "PNG");
  assert_null(out.pixels);
  assert_int_equal(cr_image_reserve(&out, 65501, 1, 1), CREMA_E_RANGE);
  assert_int_equal(cr_image_reserve(&out, 65000, 65000, 1), CREMA_E_RANGE);
  assert_int_equal(cr_image_reserve(&out, 0, 5, 1), CREMA_E_RANGE);
  cr_buffer_free(&file);
  cr_image_free(&in);
}

TEST(test_random_damage) {
  enum { SEED = 42, ROUNDS = 1500 };
  static const char *const kinds[] = {"png", "jpg"};
  cr_mt19937 rng;
  print_message("seed %d\n", SEED);
  cr_mt19937_seed(&rng, SEED);
  for (int k = 0; k < 2; ++k) {
    cr_image in = {0}, out = {0};
    cr_buffer file = {0};
    fixture_image(&in, 24, 24, 3);
    ok(cr_image_encode(&in, kinds[k], &file));
    uint8_t *bytes = malloc(file.size);
    for (int round = 0; round < ROUNDS; ++round) {
      memcpy(bytes, file.data, file.size);
      for (int d = 0; d < 4; ++d) {
        bytes[cr_mt19937_below(&rng, (uint32_t)file.size)] = (uint8_t)cr_mt19937_next(&rng);
      }
      crema_status status = cr_image_decode(bytes, file.size, CR_IMAGE_COLOR, &out);
      assert_true(status == CREMA_OK || crema_error_text()[0] != '\0');
    }
    free(bytes);
    cr_buffer_free(&file);
    cr_image_free(&in);
    cr_image_free(&out);
  }
}

/* ---- resizing ------------------------------------------------------------ */

/* Bilinear in double precision. */
static double reference_pixel(const cr_image *in, double y, double x, int c) {
  int y0 = (int)(y + 1) - 1, x0 = (int)(x + 1) - 1; /* floor for y, x > -1 */
  double fy = y - y0, fx = x - x0, sum = 0;
  for (int k = 0; k < 4; ++k) {
    int yy = y0 + k / 2, xx = x0 + k % 2;
    yy = yy < 0 ? 0 : yy >= in->height ? in->height - 1 : yy;
    xx = xx < 0 ? 0 : xx >= in->width ? in->width - 1 : xx;
    double weight = (k / 2 ? fy : 1 - fy) * (k % 2 ? fx : 1 - fx);
    sum += weight * in->pixels[(yy * in->width + xx) * in->channels + c];
  }
  return sum;
}

TEST(test_resize_is_bilinear) {
  static const int sizes[][4] = {{7, 9, 7, 9}, {7, 9, 20, 31}, {40, 30, 13, 11}, {1, 1, 5, 4},
                                 {5, 4, 1, 1}, {16, 16, 8, 8}, {3, 50, 50, 3},   {10, 1, 4, 6}};
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 3);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    for (int channels = 1; channels <= 3; channels += 2) {
      cr_image in = {0}, out = {0};
      int height = sizes[s][2], width = sizes[s][3];
      ok(cr_image_reserve(&in, sizes[s][0], sizes[s][1], channels));
      for (int i = 0; i < in.height * in.width * channels; ++i) {
        in.pixels[i] = (uint8_t)cr_mt19937_next(&rng);
      }
      ok(cr_image_resize(&in, height, width, &out));
      for (int i = 0; i < height * width * channels; ++i) {
        double y = (i / channels / width + 0.5) * in.height / height - 0.5;
        double x = (i / channels % width + 0.5) * in.width / width - 0.5;
        double wanted = reference_pixel(&in, y, x, i % channels);
        assert_true(out.pixels[i] > wanted - 1.1 && out.pixels[i] < wanted + 1.1);
      }
      cr_image_free(&in);
      cr_image_free(&out);
    }
  }
}

TEST(test_resize_by_two_averages_four) {
  cr_image in = {0}, out = {0};
  ok(cr_image_reserve(&in, 2, 4, 1));
  memcpy(in.pixels, "\x00\x02\xff\xff\x04\x06\xff\xfd", 8);
  ok(cr_image_resize(&in, 1, 2, &out));
  assert_int_equal(out.pixels[0], 3);
  assert_int_equal(out.pixels[1], 255); /* 254.5 rounds up */
  assert_int_equal(cr_image_resize(&in, 1, 2, &in), CREMA_E_ARGUMENT);
  assert_int_equal(cr_image_resize(&in, 0, 2, &out), CREMA_E_RANGE);
  cr_image_free(&in);
  cr_image_free(&out);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
