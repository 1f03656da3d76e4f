/* TIFF through libtiff: the first image. Its interface for 8-bit RGBA decodes every kind of file
 * that the library knows; alpha is applied as OpenCV does. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

#include "core/fail.h"
#include "data/image/image_codec.h"

typedef struct tiff_source {
  const uint8_t *bytes;
  size_t size, at;
  char message[160]; /* the first error */
} tiff_source;

static tmsize_t read_bytes(thandle_t user, void *out, tmsize_t size) {
  tiff_source *source = user;
  if (source->at >= source->size || size <= 0) return 0;
  const size_t left = source->size - source->at;
  const size_t count = (size_t)size < left ? (size_t)size : left;
  memcpy(out, source->bytes + source->at, count);
  source->at += count;
  return (tmsize_t)count;
}

static tmsize_t write_bytes(thandle_t user, void *bytes, tmsize_t size) {
  (void)user, (void)bytes, (void)size;
  return 0;
}

static toff_t seek(thandle_t user, toff_t offset, int whence) {
  tiff_source *source = user;
  const toff_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? source->at : source->size;
  source->at = base + offset;
  return source->at;
}

static int close_source(thandle_t user) {
  (void)user;
  return 0;
}

static toff_t size_of(thandle_t user) {
  return ((tiff_source *)user)->size;
}

static int on_error(TIFF *tiff, void *user, const char *module, const char *format, va_list args) {
  tiff_source *source = user;
  (void)tiff, (void)module;
  if (source->message[0] == '\0') vsnprintf(source->message, sizeof source->message, format, args);
  return 1;
}

/* Warnings concern tags that do not affect the pixels. */
static int on_warning(TIFF *tiff, void *user, const char *module, const char *format,
                      va_list args) {
  (void)tiff, (void)user, (void)module, (void)format, (void)args;
  return 1;
}

static crema_status fail_tiff(const tiff_source *source, const char *otherwise) {
  return cr_fail(CREMA_E_CORRUPT, "TIFF: %s",
                 source->message[0] != '\0' ? source->message : otherwise);
}

static TIFF *open_source(tiff_source *source, size_t most) {
  TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
  if (options == NULL) return NULL;
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)most);
  TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, source);
  TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, source);
  TIFF *tiff = TIFFClientOpenExt("image", "rm", source, read_bytes, write_bytes, seek, close_source,
                                 size_of, NULL, NULL, options);
  TIFFOpenOptionsFree(options);
  return tiff;
}

/* Fills `out`, which has its extents, from 32-bit words with red in the lowest byte. */
static crema_status read_words(TIFF *tiff, const tiff_source *source, cr_image *out) {
  const size_t pixels = (size_t)out->height * (size_t)out->width;
  uint32_t *words = malloc(pixels * sizeof *words);
  if (words == NULL) return cr_fail_memory(pixels * sizeof *words, "an image");
  crema_status status = CREMA_OK;
  if (!TIFFReadRGBAImageOriented(tiff, (uint32_t)out->width, (uint32_t)out->height, words,
                                 ORIENTATION_TOPLEFT, 1)) {
    status = fail_tiff(source, "the file is damaged");
  }
  for (size_t i = 0; status == CREMA_OK && i < pixels; ++i) {
    const uint8_t bgr[3] = {TIFFGetB(words[i]) & 255, TIFFGetG(words[i]) & 255,
                            TIFFGetR(words[i]) & 255};
    cr_image_put(out->pixels + i * (size_t)out->channels, out->channels, bgr);
  }
  free(words);
  return status;
}

static bool is_gray(TIFF *tiff) {
  uint16_t meaning = PHOTOMETRIC_RGB;
  (void)TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &meaning);
  return meaning == PHOTOMETRIC_MINISBLACK || meaning == PHOTOMETRIC_MINISWHITE;
}

/* The values of an image must take a byte for some 4096 bytes of them. In files of fax machines a
 * row can take one bit. */
static crema_status check_density(TIFF *tiff, uint32_t height, uint32_t width, size_t size) {
  uint16_t bits = 1, samples = 1;
  (void)TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &bits);
  (void)TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &samples);
  const uint64_t raw = (uint64_t)height * width * bits / 8 * samples;
  if (raw / 8192 <= size + 128) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "TIFF: %u x %u pixels in %zu bytes", height, width, size);
}

static crema_status decode(TIFF *tiff, const tiff_source *source, cr_image_color color, bool probe,
                           cr_image *out) {
  uint32_t height = 0, width = 0;
  char reason[1024] = "";
  (void)TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  (void)TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  if (height < 1 || width < 1 || height > CR_IMAGE_MAX_SIDE || width > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_RANGE, "TIFF: an image of %u x %u pixels (at most %d a side)", height,
                   width, CR_IMAGE_MAX_SIDE);
  }
  CR_TRY(check_density(tiff, height, width, source->size));
  if (!TIFFRGBAImageOK(tiff, reason)) return cr_fail(CREMA_E_UNSUPPORTED, "TIFF: %s", reason);
  const int channels = cr_image_channels(color, is_gray(tiff));
  if (probe) return cr_image_set_extents(out, (int)height, (int)width, channels);
  CR_TRY(cr_image_reserve(out, (int)height, (int)width, channels));
  return read_words(tiff, source, out);
}

crema_status cr_tiff_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                            cr_image *out) {
  enum { MOST = 4 }; /* bytes of memory for each pixel of the largest image */
  tiff_source source = {.bytes = bytes, .size = size};
  TIFF *tiff = open_source(&source, (size_t)MOST * CR_IMAGE_MAX_PIXELS);
  if (tiff == NULL) return fail_tiff(&source, "cannot start the decoder");
  const crema_status status = decode(tiff, &source, color, probe, out);
  TIFFClose(tiff);
  return status;
}
