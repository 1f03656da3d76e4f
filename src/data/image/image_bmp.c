/* BMP: headers of 12, 40, 52, 56, 108 and 124 bytes; 1 to 32 bits per pixel, bit fields and run
 * lengths. Alpha is ignored. */
#include <string.h>

#include "core/fail.h"
#include "data/image/image_codec.h"

typedef enum bmp_compression {
  BMP_RGB = 0,
  BMP_RLE8 = 1,
  BMP_RLE4 = 2,
  BMP_BITFIELDS = 3,
  BMP_ALPHA_BITFIELDS = 6
} bmp_compression;

typedef struct bmp_job {
  const uint8_t *bytes;
  size_t size;
  uint32_t pixels; /* where they begin */
  int width, height, bits;
  uint32_t compression, mask[3]; /* of blue, green, red */
  bool upwards;                  /* the lowest row is first */
  uint8_t palette[256][4];       /* blue, green, red */
  int colors;
} bmp_job;

static uint32_t word16(const uint8_t *b) {
  return (uint32_t)b[0] | (uint32_t)b[1] << 8;
}

static uint32_t word32(const uint8_t *b) {
  return word16(b) | word16(b + 2) << 16;
}

static crema_status fail_bmp(const char *text) {
  return cr_fail(CREMA_E_CORRUPT, "BMP: %s", text);
}

/* Copies the colours; an index without a colour stays black. */
static crema_status read_palette(bmp_job *job, size_t at, int entry, uint32_t used) {
  const int most = job->bits <= 8 ? 1 << job->bits : 0;
  job->colors = used == 0 || used > (uint32_t)most ? most : (int)used;
  if (at > job->size || (job->size - at) / (size_t)entry < (size_t)job->colors) {
    return fail_bmp("the palette is truncated");
  }
  for (int i = 0; i < job->colors; ++i) {
    memcpy(job->palette[i], job->bytes + at + (size_t)(i * entry), 3);
  }
  return CREMA_OK;
}

/* The masks of red, green and blue follow the 40 bytes of the first header, in it or behind it. */
static crema_status read_masks(bmp_job *job) {
  enum { MASKS = 14 + 40 };
  static const uint32_t usual[2][3] = {{0x1F, 0x3E0, 0x7C00}, {0xFF, 0xFF00, 0xFF0000}};
  memcpy(job->mask, usual[job->bits == 32], sizeof job->mask);
  if (job->compression != BMP_BITFIELDS && job->compression != BMP_ALPHA_BITFIELDS) return CREMA_OK;
  if (job->size < MASKS + 12) return fail_bmp("the file is truncated");
  for (int i = 0; i < 3; ++i) job->mask[2 - i] = word32(job->bytes + MASKS + 4 * i);
  return CREMA_OK;
}

/* Whether the compression is one for the number of bits. */
static bool is_known(const bmp_job *job) {
  switch (job->compression) {
    case BMP_RGB:
      return job->bits == 1 || job->bits == 4 || job->bits == 8 || job->bits == 16 ||
             job->bits == 24 || job->bits == 32;
    case BMP_RLE8: return job->bits == 8;
    case BMP_RLE4: return job->bits == 4;
    case BMP_BITFIELDS:
    case BMP_ALPHA_BITFIELDS: return job->bits == 16 || job->bits == 32;
    default: return false;
  }
}

static crema_status read_header(bmp_job *job) {
  enum { FILE_HEADER = 14, OLD = 12, USUAL = 40 };
  const uint8_t *b = job->bytes;
  if (job->size < FILE_HEADER + 4) return fail_bmp("the file is truncated");
  job->pixels = word32(b + 10);
  const uint32_t header = word32(b + FILE_HEADER);
  const bool old = header == OLD;
  if (!old && header < USUAL) return fail_bmp("the header is too short");
  if (header > job->size - FILE_HEADER) return fail_bmp("the file is truncated");
  const int64_t height = old ? (int64_t)word16(b + 20) : (int64_t)(int32_t)word32(b + 22);
  const uint32_t width = old ? word16(b + 18) : word32(b + 18);
  job->bits = (int)word16(b + (old ? 24 : 28));
  job->compression = old ? BMP_RGB : word32(b + 30);
  job->upwards = height > 0;
  if (!is_known(job)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "BMP: %d bits per pixel with compression %u", job->bits,
                   job->compression);
  }
  if (width < 1 || width > CR_IMAGE_MAX_SIDE || height == 0 || height > CR_IMAGE_MAX_SIDE ||
      -height > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_RANGE, "BMP: an image of %lld x %u pixels (at most %d a side)",
                   (long long)height, width, CR_IMAGE_MAX_SIDE);
  }
  job->width = (int)width;
  job->height = (int)(height > 0 ? height : -height);
  CR_TRY(read_masks(job));
  const size_t behind = header == USUAL && job->compression == BMP_BITFIELDS ? 12 : 0;
  return read_palette(job, FILE_HEADER + header + behind, old ? 3 : 4, old ? 0 : word32(b + 46));
}

static bool is_gray(const bmp_job *job) {
  for (int i = 0; i < job->colors; ++i) {
    const uint8_t *color = job->palette[i];
    if (color[0] != color[1] || color[1] != color[2]) return false;
  }
  return job->colors > 0;
}

/* The bits of a mask as a value of 8 bits. */
static uint8_t masked(uint32_t word, uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = __builtin_ctz(mask);
  const uint32_t most = mask >> shift;
  return (uint8_t)((uint64_t)((word & mask) >> shift) * 255 / most);
}

static void put_row(const bmp_job *job, const uint8_t *in, int y, cr_image *out) {
  uint8_t *to = out->pixels + (size_t)y * (size_t)out->width * (size_t)out->channels;
  for (int x = 0; x < job->width; ++x, to += out->channels) {
    uint8_t mixed[3];
    const uint8_t *color = mixed;
    if (job->bits <= 8) {
      const int bit = x * job->bits, shift = 8 - job->bits - bit % 8;
      color = job->palette[in[bit / 8] >> shift & ((1 << job->bits) - 1)];
    } else if (job->bits == 24) {
      color = in + 3 * x;
    } else {
      const uint32_t word = job->bits == 16 ? word16(in + 2 * x) : word32(in + 4 * x);
      for (int c = 0; c < 3; ++c) mixed[c] = masked(word, job->mask[c]);
    }
    cr_image_put(to, out->channels, color);
  }
}

static int row_of(const bmp_job *job, int y) {
  return job->upwards ? job->height - 1 - y : y;
}

static crema_status read_rows(const bmp_job *job, cr_image *out) {
  const size_t stride = ((size_t)job->width * (size_t)job->bits + 31) / 32 * 4;
  for (int y = 0; y < job->height; ++y) {
    put_row(job, job->bytes + job->pixels + (size_t)y * stride, row_of(job, y), out);
  }
  return CREMA_OK;
}

/* Writes `count` pixels of a run from (x, y) on; those beyond the row are dropped. */
static void put_run(const bmp_job *job, int x, int y, int count, const uint8_t *in, bool repeat,
                    cr_image *out) {
  for (int i = 0; i < count && x + i < job->width; ++i) {
    int index = 0;
    if (job->bits == 8) index = in[repeat ? 0 : i];
    else index = in[repeat ? 0 : i / 2] >> (i % 2 == 0 ? 4 : 0) & 15;
    uint8_t *to = out->pixels + ((size_t)row_of(job, y) * (size_t)out->width + (size_t)(x + i)) *
                                    (size_t)out->channels;
    cr_image_put(to, out->channels, job->palette[index]);
  }
}

/* Pairs of a count and a value; a count of 0 is an escape: end of the row, end of the image, a
 * step, or a number of literal pixels. Pixels that no pair reaches have colour 0. */
static crema_status read_runs(const bmp_job *job, cr_image *out) {
  const uint8_t *at = job->bytes + job->pixels, *end = job->bytes + job->size;
  int x = 0, y = 0;
  for (int i = 0; i < job->height * job->width; ++i) {
    cr_image_put(out->pixels + (size_t)i * (size_t)out->channels, out->channels, job->palette[0]);
  }
  while (y < job->height) {
    if (end - at < 2) return fail_bmp("the pixels are truncated");
    const int count = at[0], value = at[1];
    at += 2;
    if (count > 0) {
      put_run(job, x, y, count, at - 1, true, out);
      x += count;
    } else if (value == 0) {
      x = 0;
      ++y;
    } else if (value == 1) {
      return CREMA_OK;
    } else if (value == 2) {
      if (end - at < 2) return fail_bmp("the pixels are truncated");
      x += at[0];
      y += at[1];
      at += 2;
    } else {
      const int bytes = (value * job->bits + 15) / 16 * 2;
      if (end - at < bytes) return fail_bmp("the pixels are truncated");
      put_run(job, x, y, value, at, false, out);
      x += value;
      at += bytes;
    }
    if (x > job->width) x = job->width;
  }
  return CREMA_OK;
}

/* A pair of two bytes holds at most 255 pixels, a step of four bytes 255 rows. */
static crema_status check_pixels(const bmp_job *job) {
  if (job->pixels > job->size) return fail_bmp("the pixels are truncated");
  const uint64_t left = job->size - job->pixels;
  const uint64_t stride = ((uint64_t)job->width * (uint64_t)job->bits + 31) / 32 * 4;
  const bool runs = job->compression == BMP_RLE8 || job->compression == BMP_RLE4;
  if (!runs && stride * (uint64_t)job->height > left) return fail_bmp("the pixels are truncated");
  if (runs && (uint64_t)job->height > 256 * (left + 1)) {
    return cr_fail(CREMA_E_CORRUPT, "BMP: %d x %d pixels in %zu bytes", job->height, job->width,
                   job->size);
  }
  return CREMA_OK;
}

crema_status cr_bmp_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                           cr_image *out) {
  bmp_job job = {.bytes = bytes, .size = size};
  CR_TRY(read_header(&job));
  CR_TRY(check_pixels(&job));
  const int channels = cr_image_channels(color, is_gray(&job));
  if (probe) return cr_image_set_extents(out, job.height, job.width, channels);
  CR_TRY(cr_image_reserve(out, job.height, job.width, channels));
  const bool runs = job.compression == BMP_RLE8 || job.compression == BMP_RLE4;
  return runs ? read_runs(&job, out) : read_rows(&job, out);
}
