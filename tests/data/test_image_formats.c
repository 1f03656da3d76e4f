/* BMP, GIF, PNM, TIFF and WebP: every kind of file, damage and limits. */
#include <gif_lib.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <unistd.h>
#include <webp/encode.h>

#include "check.h"
#include "core/buffer.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/image/image.h"
#include "folder.h"

static crema_status decode(const cr_buffer *file, cr_image_color color, cr_image *out) {
  return cr_image_decode((const uint8_t *)file->data, file->size, color, out);
}

/* The first `channels` of red, green, blue, white in two rows. */
static const uint8_t four_bgr[] = {0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255, 255};
/* Their luma. */
static const uint8_t four_gray[] = {76, 150, 29, 255};

/* Decodes a 2 x 2 image in all three ways. */
static void expect(const cr_buffer *file, int channels, const uint8_t *bgr, const uint8_t *gray) {
  cr_image out = {0};
  int height = 0, width = 0, found = 0;
  ok(cr_image_probe((const uint8_t *)file->data, file->size, &height, &width, &found));
  assert_true(height == 2 && width == 2);
  assert_int_equal(found, channels);
  ok(decode(file, CR_IMAGE_NATIVE, &out));
  assert_int_equal(out.channels, channels);
  assert_memory_equal(out.pixels, channels == 1 ? gray : bgr, 4 * (size_t)channels);
  ok(decode(file, CR_IMAGE_COLOR, &out));
  assert_int_equal(out.channels, 3);
  assert_memory_equal(out.pixels, bgr, 12);
  ok(decode(file, CR_IMAGE_GRAY, &out));
  assert_int_equal(out.channels, 1);
  assert_memory_equal(out.pixels, gray, 4);
  cr_image_free(&out);
}

/* Every truncated file fails with a text; damaged bytes do no harm. */
static void damage(const cr_buffer *file, size_t needed) {
  cr_image out = {0};
  for (size_t size = 0; size < needed; ++size) {
    assert_int_not_equal(cr_image_decode((const uint8_t *)file->data, size, CR_IMAGE_NATIVE, &out),
                         CREMA_OK);
    assert_true(crema_error_text()[0] != '\0');
  }
  for (uint64_t run = 0; run < 300; ++run) {
    uint32_t draw[4];
    cr_buffer copy = {0};
    cr_philox(17, run, 0, draw);
    ok(cr_buffer_append(&copy, file->data, file->size));
    copy.data[draw[0] % copy.size] = (char)draw[1];
    copy.data[draw[2] % copy.size] ^= (char)(1 << draw[3] % 8);
    (void)!decode(&copy, CR_IMAGE_COLOR, &out);
    cr_buffer_free(&copy);
  }
  cr_image_free(&out);
}

static void put(cr_buffer *out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    const char byte = (char)(value >> (8 * i));
    ok(cr_buffer_append(out, &byte, 1));
  }
}

/* ---- BMP ----------------------------------------------------------------- */

/* A header of 40 bytes, then `more` (masks or a palette) and the pixels. */
static void make_bmp(int bits, int compression, int height, const char *more, size_t more_size,
                     const char *pixels, size_t size, cr_buffer *out) {
  cr_buffer_clear(out);
  ok(cr_buffer_append(out, "BM", 2));
  put(out, (uint32_t)(54 + more_size + size), 4);
  put(out, 0, 4);
  put(out, (uint32_t)(54 + more_size), 4);
  put(out, 40, 4);
  put(out, 2, 4);
  put(out, (uint32_t)height, 4);
  put(out, 1, 2);
  put(out, (uint32_t)bits, 2);
  put(out, (uint32_t)compression, 4);
  for (int i = 0; i < 3; ++i) put(out, 0, 4);
  put(out, bits <= 8 ? 4 : 0, 4); /* colours */
  put(out, 0, 4);
  ok(cr_buffer_append(out, more, more_size));
  ok(cr_buffer_append(out, pixels, size));
}

#define BMP(bits, compression, height, more, pixels) \
  make_bmp(bits, compression, height, more, sizeof(more) - 1, pixels, sizeof(pixels) - 1, &file)
#define PALETTE "\0\0\377\0\0\377\0\0\377\0\0\0\377\377\377\0"

TEST(kinds_of_bmp) {
  cr_buffer file = {0};
  /* The lower row is first, unless the height is negative. */
  BMP(24, 0, 2, "", "\377\0\0\377\377\377\0\0\0\0\377\0\377\0\0\0");
  expect(&file, 3, four_bgr, four_gray);
  damage(&file, file.size);
  BMP(24, 0, -2, "", "\0\0\377\0\377\0\0\0\377\0\0\377\377\377\0\0");
  expect(&file, 3, four_bgr, four_gray);
  BMP(32, 0, -2, "", "\0\0\377\1\0\377\0\1\377\0\0\1\377\377\377\1");
  expect(&file, 3, four_bgr, four_gray);
  BMP(16, 0, -2, "", "\0\174\340\3\37\0\377\177");
  expect(&file, 3, four_bgr, four_gray);
  BMP(16, 3, -2, "\0\370\0\0\340\7\0\0\37\0\0\0", "\0\370\340\7\37\0\377\377");
  expect(&file, 3, four_bgr, four_gray);
  BMP(32, 3, -2, "\377\0\0\0\0\377\0\0\0\0\377\0", "\377\0\0\0\0\377\0\0\0\0\377\0\377\377\377\0");
  expect(&file, 3, four_bgr, four_gray);
  BMP(8, 0, 2, PALETTE, "\2\3\0\0\0\1\0\0");
  expect(&file, 3, four_bgr, four_gray);
  damage(&file, file.size);
  BMP(4, 0, 2, PALETTE, "\043\0\0\0\1\0\0\0");
  expect(&file, 3, four_bgr, four_gray);
  /* Runs: two literal pixels each, then a run and a step. */
  BMP(8, 1, 2, PALETTE, "\1\2\1\3\0\0\1\0\1\1\0\1");
  expect(&file, 3, four_bgr, four_gray);
  BMP(4, 2, 2, PALETTE, "\2\043\0\0\2\1\0\1");
  expect(&file, 3, four_bgr, four_gray);
  damage(&file, 70 + 6);
  cr_buffer_free(&file);
}

TEST(gray_palettes_of_bmp) {
  static const uint8_t gray[] = {0, 255, 9, 9}, bgr[] = {0, 0, 0, 255, 255, 255, 9, 9, 9, 9, 9, 9};
  cr_buffer file = {0};
  BMP(8, 0, -2, "\0\0\0\0\377\377\377\0\11\11\11\0\1\1\1\0", "\0\1\0\0\2\2\0\0");
  expect(&file, 1, bgr, gray);
  BMP(8, 1, -2, "\0\0\0\0\377\377\377\0\11\11\11\0\1\1\1\0", "\1\0\1\1\0\0\0\2\0\0\2\2\0\1");
  expect(&file, 1, bgr, gray);
  cr_buffer_free(&file);
}

TEST(bmps_that_cannot_be) {
  cr_buffer file = {0};
  cr_image out = {0};
  BMP(8, 4, 2, PALETTE, "\0");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_UNSUPPORTED, "compression 4");
  BMP(7, 0, 2, "", "\0");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_UNSUPPORTED, "7 bits per pixel");
  BMP(24, 0, 70000, "", "\0");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_RANGE, "70000 x 2 pixels");
  BMP(24, 0, 60000, "", "\0");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "pixels are truncated");
  BMP(8, 1, 60000, PALETTE, "\1\1");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "60000 x 2 pixels in");
  assert_null(out.pixels);
  cr_buffer_free(&file);
}

/* ---- PNM ----------------------------------------------------------------- */

#define PNM(text)         \
  cr_buffer_clear(&file); \
  ok(cr_buffer_append(&file, text, sizeof(text) - 1))

TEST(kinds_of_pnm) {
  static const uint8_t gray[] = {0, 255, 127, 9};
  static const uint8_t bgr[] = {0, 0, 0, 255, 255, 255, 127, 127, 127, 9, 9, 9};
  static const uint8_t bits[] = {0, 255, 255, 0};
  static const uint8_t bits_bgr[] = {0, 0, 0, 255, 255, 255, 255, 255, 255, 0, 0, 0};
  cr_buffer file = {0};
  PNM("P6\n# a comment\n2 2 255\n\377\0\0\0\377\0\0\0\377\377\377\377");
  expect(&file, 3, four_bgr, four_gray);
  damage(&file, file.size);
  PNM("P3 2 2 15  15 0 0  0 15 0\n0 0 15 # blue\n15 15 15");
  expect(&file, 3, four_bgr, four_gray);
  damage(&file, file.size - 1);
  PNM("P6 2 2 65535\n\377\377\0\0\0\0\0\0\377\377\0\0\0\0\0\0\377\377\377\377\377\377\377\377");
  expect(&file, 3, four_bgr, four_gray);
  PNM("P5 2 2 255\n\0\377\177\11");
  expect(&file, 1, bgr, gray);
  PNM("P2 2 2 255\n0 255 127 9\n");
  expect(&file, 1, bgr, gray);
  PNM("P1 2 2\n1001");
  expect(&file, 1, bits_bgr, bits);
  damage(&file, file.size);
  PNM("P4 2 2\n\200\100");
  expect(&file, 1, bits_bgr, bits);
  cr_buffer_free(&file);
}

TEST(pnms_that_cannot_be) {
  cr_buffer file = {0};
  cr_image out = {0};
  PNM("P5 65501 1 255\n\0");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_RANGE, "a number above 65500");
  PNM("P5 60000 60000 255\n\0");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "truncated");
  PNM("P2 2 2 255\n0 256 127 9\n");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_RANGE, "a number above 255");
  PNM("P1 2 2\n1021");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "expected 0 or 1");
  PNM("P5 0 2 255\n\0");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "a size of 0");
  PNM("P5 x 2 255\n\0");
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "expected a number");
  cr_image_free(&out);
  cr_buffer_free(&file);
}

/* ---- GIF ----------------------------------------------------------------- */

static int append(GifFileType *gif, const GifByteType *bytes, int size) {
  return cr_buffer_append(gif->UserData, bytes, (size_t)size) == CREMA_OK ? size : 0;
}

/* A screen of 2 x 2 with background 3 and frames at the given places. */
static void make_gif(int frames, const GifImageDesc *frame, const uint8_t *pixels, cr_buffer *out) {
  static const GifColorType colors[] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}};
  int code = 0;
  cr_buffer_clear(out);
  GifFileType *gif = EGifOpen(out, append, &code);
  ColorMapObject *map = GifMakeMapObject(4, colors);
  assert_int_equal(EGifPutScreenDesc(gif, 2, 2, 2, 3, map), GIF_OK);
  assert_int_equal(EGifPutComment(gif, "a comment"), GIF_OK);
  for (int i = 0; i < frames; ++i, ++frame) {
    assert_int_equal(EGifPutImageDesc(gif, frame->Left, frame->Top, frame->Width, frame->Height,
                                      frame->Interlace, NULL),
                     GIF_OK);
    for (int y = 0; y < frame->Height; ++y) {
      uint8_t row[2];
      memcpy(row, pixels + (size_t)(y * frame->Width), (size_t)frame->Width);
      assert_int_equal(EGifPutLine(gif, row, frame->Width), GIF_OK);
    }
  }
  GifFreeMapObject(map);
  assert_int_equal(EGifCloseFile(gif, &code), GIF_OK);
}

TEST(kinds_of_gif) {
  static const uint8_t cut_bgr[] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 255};
  static const uint8_t cut_gray[] = {255, 255, 255, 76};
  cr_buffer file = {0};
  cr_image out = {0};
  const GifImageDesc whole[2] = {{.Width = 2, .Height = 2}, {.Width = 2, .Height = 2}};
  make_gif(1, whole, (const uint8_t *)"\0\1\2\3", &file);
  expect(&file, 3, four_bgr, four_gray);
  damage(&file, file.size - 4);
  make_gif(2, whole, (const uint8_t *)"\0\1\2\3", &file);
  expect(&file, 3, four_bgr, four_gray);
  const GifImageDesc interlaced = {.Width = 2, .Height = 2, .Interlace = true};
  make_gif(1, &interlaced, (const uint8_t *)"\0\1\2\3", &file);
  expect(&file, 3, four_bgr, four_gray);
  const GifImageDesc corner = {.Left = 1, .Top = 1, .Width = 1, .Height = 1};
  make_gif(1, &corner, (const uint8_t *)"\0", &file);
  expect(&file, 3, cut_bgr, cut_gray);
  make_gif(0, NULL, NULL, &file);
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "the file has no image");
  /* A screen of 60000 x 60000. */
  make_gif(1, whole, (const uint8_t *)"\0\1\2\3", &file);
  memcpy(file.data + 6, "\x60\xea\x60\xea", 4);
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "60000 x 60000 pixels in");
  assert_null(out.pixels);
  cr_buffer_free(&file);
}

/* ---- TIFF ---------------------------------------------------------------- */

typedef struct tiff_kind {
  int bits, samples, meaning, compression;
  const char *mode;
} tiff_kind;

static void make_tiff(const tiff_kind *kind, const void *rows, size_t row, cr_buffer *out) {
  const char *path = path_of("a.tif");
  TIFF *tiff = TIFFOpen(path, kind->mode);
  assert_non_null(tiff);
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 2);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 2);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, kind->bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, kind->samples);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, kind->meaning);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, kind->compression);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  for (uint32_t y = 0; y < 2; ++y) {
    uint8_t copy[64];
    memcpy(copy, (const uint8_t *)rows + y * row, row);
    assert_int_equal(TIFFWriteScanline(tiff, copy, y, 0), 1);
  }
  TIFFClose(tiff);
  cr_buffer_clear(out);
  ok(cr_file_read(path, out));
  assert_int_equal(unlink(path), 0);
}

TEST(kinds_of_tiff) {
  static const uint8_t rgb[] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255};
  static const uint8_t gray[] = {0, 255, 127, 9};
  static const uint8_t bgr[] = {0, 0, 0, 255, 255, 255, 127, 127, 127, 9, 9, 9};
  static const uint16_t deep[] = {0, 65535, 127 * 257, 9 * 257};
  static const tiff_kind kinds[] = {{8, 3, PHOTOMETRIC_RGB, COMPRESSION_NONE, "wl"},
                                    {8, 3, PHOTOMETRIC_RGB, COMPRESSION_LZW, "wb"},
                                    {8, 3, PHOTOMETRIC_RGB, COMPRESSION_ADOBE_DEFLATE, "w8"},
                                    {8, 3, PHOTOMETRIC_RGB, COMPRESSION_PACKBITS, "wl"}};
  cr_buffer file = {0};
  cr_image out = {0};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    make_tiff(&kinds[i], rgb, 6, &file);
    expect(&file, 3, four_bgr, four_gray);
  }
  make_tiff(&(tiff_kind){8, 1, PHOTOMETRIC_MINISBLACK, COMPRESSION_NONE, "w"}, gray, 2, &file);
  expect(&file, 1, bgr, gray);
  damage(&file, file.size / 2);
  make_tiff(&(tiff_kind){16, 1, PHOTOMETRIC_MINISBLACK, COMPRESSION_NONE, "w"}, deep, 4, &file);
  expect(&file, 1, bgr, gray);
  make_tiff(&(tiff_kind){32, 1, PHOTOMETRIC_MINISBLACK, COMPRESSION_NONE, "w"}, deep, 4, &file);
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_UNSUPPORTED, "TIFF: ");
  assert_fails(cr_image_decode((const uint8_t *)"II*\0\10\0\0\0", 8, CR_IMAGE_NATIVE, &out),
               CREMA_E_CORRUPT, "TIFF: ");
  assert_null(out.pixels);
  cr_buffer_free(&file);
}

/* ---- WebP ---------------------------------------------------------------- */

TEST(kinds_of_webp) {
  cr_buffer file = {0};
  cr_image out = {0};
  uint8_t *bytes = NULL;
  size_t size = WebPEncodeLosslessBGR(four_bgr, 2, 2, 6, &bytes);
  ok(cr_buffer_append(&file, bytes, size));
  WebPFree(bytes);
  expect(&file, 3, four_bgr, four_gray);
  damage(&file, file.size - 8);
  cr_buffer_clear(&file);
  /* One colour survives the lossy format. */
  const uint8_t plain[12] = {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128};
  size = WebPEncodeBGR(plain, 2, 2, 6, 100, &bytes);
  ok(cr_buffer_append(&file, bytes, size));
  WebPFree(bytes);
  expect(&file, 3, plain, plain);
  assert_fails(
      cr_image_decode((const uint8_t *)"RIFF\x20\0\0\0WEBPVP8Z\0\0\0\0", 20, CR_IMAGE_NATIVE, &out),
      CREMA_E_CORRUPT, "WebP: ");
  assert_null(out.pixels);
  cr_buffer_free(&file);
}

static void put_chunk(cr_buffer *file, const char *name, const void *bytes, size_t size) {
  const uint8_t length[4] = {(uint8_t)size, (uint8_t)(size >> 8), 0, 0};
  ok(cr_buffer_append(file, name, 4));
  ok(cr_buffer_append(file, length, 4));
  ok(cr_buffer_append(file, bytes, size));
  if (size % 2 == 1) ok(cr_buffer_append(file, "", 1));
}

/* A frame of 2 x 2 pixels. */
static void put_frame(cr_buffer *file, const uint8_t bgr[12], int top, int left) {
  cr_buffer frame = {0};
  uint8_t *bytes = NULL;
  const uint8_t head[16] = {
      (uint8_t)(left / 2), 0, 0, (uint8_t)(top / 2), 0, 0, 1, 0, 0, 1, 0, 0, 9};
  const size_t size = WebPEncodeLosslessBGR(bgr, 2, 2, 6, &bytes);
  ok(cr_buffer_append(&frame, head, sizeof head));
  ok(cr_buffer_append(&frame, bytes + 12, size - 12)); /* without the head of the file */
  WebPFree(bytes);
  put_chunk(file, "ANMF", frame.data, frame.size);
  cr_buffer_free(&frame);
}

/* A canvas of `side` pixels a side, and two frames, the first at (top, left). */
static void make_animation(cr_buffer *file, int side, int top, int left) {
  static const uint8_t other[12] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
  const uint8_t canvas[10] = {2, 0, 0, 0, (uint8_t)(side - 1), 0, 0, (uint8_t)(side - 1)};
  static const uint8_t loop[6] = {255, 255, 255, 255, 0, 0};
  cr_buffer_clear(file);
  ok(cr_buffer_append(file, "RIFF\0\0\0\0WEBP", 12));
  put_chunk(file, "VP8X", canvas, sizeof canvas);
  put_chunk(file, "ANIM", loop, sizeof loop);
  put_frame(file, four_bgr, top, left);
  put_frame(file, other, 0, 0);
  file->data[4] = (char)(file->size - 8);
  file->data[5] = (char)((file->size - 8) >> 8);
}

/* The end of the first frame. */
static size_t first_frame_end(const cr_buffer *file) {
  enum { BEFORE = 12 + 18 + 14 }; /* the heads of the file, VP8X and ANIM */
  return BEFORE + 8 + (uint8_t)file->data[BEFORE + 4];
}

/* The first frame of an animation, also of one that covers a part of the black canvas. */
TEST(animated_webp) {
  static const uint8_t black[3];
  cr_buffer file = {0};
  cr_image out = {0};
  make_animation(&file, 2, 0, 0);
  expect(&file, 3, four_bgr, four_gray);
  make_animation(&file, 5, 2, 0);
  ok(decode(&file, CR_IMAGE_NATIVE, &out));
  assert_true(out.height == 5 && out.width == 5 && out.channels == 3);
  for (int i = 0; i < 25; ++i) {
    const int y = i / 5 - 2, x = i % 5;
    const bool inside = y >= 0 && y < 2 && x < 2;
    assert_memory_equal(out.pixels + 3 * i, inside ? four_bgr + 3 * (2 * y + x) : black, 3);
  }
  make_animation(&file, 3, 2, 0); /* the frame leaves the canvas */
  assert_fails(decode(&file, CR_IMAGE_NATIVE, &out), CREMA_E_CORRUPT, "WebP: the file is damaged");
  make_animation(&file, 2, 0, 0);
  for (size_t size = 20; size < first_frame_end(&file); ++size) {
    char *copy = malloc(size); /* so that the address sanitizer sees the end */
    assert_non_null(copy);
    memcpy(copy, file.data, size);
    assert_int_not_equal(cr_image_decode((const uint8_t *)copy, size, CR_IMAGE_NATIVE, &out),
                         CREMA_OK);
    free(copy);
  }
  ok(cr_image_decode((const uint8_t *)file.data, first_frame_end(&file), CR_IMAGE_NATIVE, &out));
  cr_image_free(&out);
  cr_buffer_free(&file);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
