/* noise_param: effects that degrade an image, in Caffe-SSD's order. */
#include <math.h>
#include <string.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "data/augment/augment_private.h"
#include "data/image/image_codec.h"

crema_status cr_noise_check(const Caffe__NoiseParameter *param) {
  if (param->convert_to_lab) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "noise_param: convert_to_lab is not supported (its values are not bytes)");
  }
  if (param->jpeg > 100) {
    return cr_fail(CREMA_E_RANGE, "noise_param: jpeg: %g (a quality is from 1 to 100)",
                   (double)param->jpeg);
  }
  const Caffe__SaltPepperParameter *salt = param->saltpepper_param;
  if (param->saltpepper && (salt == NULL || salt->n_value == 0)) {
    return cr_fail(CREMA_E_ARGUMENT, "noise_param: saltpepper needs saltpepper_param with value");
  }
  if (salt != NULL && !(salt->fraction >= 0 && salt->fraction <= 1)) {
    return cr_fail(CREMA_E_RANGE, "noise_param: saltpepper_param: fraction: %g (0 to 1)",
                   (double)salt->fraction);
  }
  return CREMA_OK;
}

static size_t bytes_of(const cr_image *image) {
  return cr_pixel_count(image) * (size_t)image->channels;
}

int cr_mirrored_index(int position, int limit) {
  if (limit == 1) return 0;
  int period = 2 * (limit - 1);
  int within = ((position % period) + period) % period;
  return within < limit ? within : period - within;
}

/* All three channels become the luma. */
static void decolorize(cr_image *image) {
  uint8_t *end = image->pixels + bytes_of(image);
  for (uint8_t *p = image->pixels; p < end; p += 3) {
    uint8_t luma = (uint8_t)((1868 * p[0] + 9617 * p[1] + 4899 * p[2] + (1 << 13)) >> 14);
    p[0] = p[1] = p[2] = luma;
  }
}

enum { BLUR_SIDE = 7, BLUR_HALF = BLUR_SIDE / 2 };

/* Weights exp(-x^2 / (2 sigma^2)), sigma 1.5, with the sum 1. */
static void blur_weights(float weight[BLUR_SIDE]) {
  double value[BLUR_SIDE], sum = 0;
  for (int i = 0; i < BLUR_SIDE; ++i) {
    double x = i - BLUR_HALF;
    value[i] = exp(-x * x / (2 * 1.5 * 1.5));
    sum += value[i];
  }
  for (int i = 0; i < BLUR_SIDE; ++i) weight[i] = (float)(value[i] / sum);
}

/* Extends the row of floats by three mirrored pixels at both ends. */
static void extend_row(float *row, int width, int channels) {
  size_t bytes = (size_t)channels * sizeof *row;
  for (int k = 1; k <= BLUR_HALF; ++k) {
    memcpy(row - k * channels, row + cr_mirrored_index(-k, width) * channels, bytes);
    memcpy(row + (width - 1 + k) * channels,
           row + cr_mirrored_index(width - 1 + k, width) * channels, bytes);
  }
}

/* A Gaussian blur of 7 x 7: down the columns into a row of floats, then along the row. */
static crema_status blur(cr_image *image, cr_image *scratchpad) {
  int height = image->height, width = image->width, channels = image->channels;
  size_t stride = (size_t)width * (size_t)channels, margin = (size_t)(BLUR_HALF * channels);
  float weight[BLUR_SIDE];
  cr_buffer memory = {0};
  CR_TRY(cr_image_reserve(scratchpad, height, width, channels));
  CR_TRY(cr_buffer_reserve(&memory, (stride + 2 * margin) * sizeof(float)));
  float *row = (float *)(void *)memory.data + margin;
  blur_weights(weight);
  for (int y = 0; y < height; ++y) {
    memset(row, 0, stride * sizeof *row);
    for (int k = 0; k < BLUR_SIDE; ++k) {
      const uint8_t *from =
          image->pixels + (size_t)cr_mirrored_index(y + k - BLUR_HALF, height) * stride;
      for (size_t i = 0; i < stride; ++i) row[i] += weight[k] * (float)from[i];
    }
    extend_row(row, width, channels);
    uint8_t *to = scratchpad->pixels + (size_t)y * stride;
    for (size_t i = 0; i < stride; ++i) {
      const float *position = row + i - margin;
      float sum = 0;
      for (int k = 0; k < BLUR_SIDE; ++k) sum += weight[k] * position[k * channels];
      to[i] = cr_saturate(sum);
    }
  }
  cr_buffer_free(&memory);
  cr_image_swap(scratchpad, image);
  return CREMA_OK;
}

/* Encodes the image as a JPEG of the given quality and decodes it again. */
static crema_status compress(float quality, cr_image *image, cr_image *scratchpad) {
  cr_buffer file = {0};
  int level = quality < 1 ? 1 : (int)quality;
  crema_status status = cr_jpeg_encode_as(image, level, &file);
  if (status == CREMA_OK) {
    status = cr_image_decode((const uint8_t *)file.data, file.size,
                             image->channels == 1 ? CR_IMAGE_GRAY : CR_IMAGE_COLOR, scratchpad);
  }
  cr_buffer_free(&file);
  if (status != CREMA_OK) return cr_fail_in(status, "noise_param: jpeg");
  cr_image_swap(scratchpad, image);
  return CREMA_OK;
}

/* The smallest of a pixel and its four neighbours: the 3 x 3 ellipse is a cross. */
static crema_status erode(cr_image *image, cr_image *scratchpad) {
  int height = image->height, width = image->width, channels = image->channels;
  CR_TRY(cr_image_reserve(scratchpad, height, width, channels));
  size_t stride = (size_t)width * (size_t)channels;
  uint8_t *to = scratchpad->pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const uint8_t *p = image->pixels + (size_t)y * stride + (size_t)x * (size_t)channels;
      for (int c = 0; c < channels; ++c, ++p) {
        uint8_t low = *p;
        if (x > 0 && p[-channels] < low) low = p[-channels];
        if (x + 1 < width && p[channels] < low) low = p[channels];
        if (y > 0 && *(p - stride) < low) low = *(p - stride);
        if (y + 1 < height && p[stride] < low) low = p[stride];
        *to++ = low;
      }
    }
  }
  cr_image_swap(scratchpad, image);
  return CREMA_OK;
}

/* Four levels, 64 apart: 32, 96, 160, 224. */
static void posterize(cr_image *image) {
  size_t count = bytes_of(image);
  for (size_t i = 0; i < count; ++i) image->pixels[i] = (image->pixels[i] & 0xc0) + 32;
}

/* `fraction` of the pixels, drawn with repetition, take the given value. */
static crema_status add_salt(const Caffe__SaltPepperParameter *param, cr_random *random,
                             cr_image *image) {
  if (param->n_value != 1 && param->n_value != (size_t)image->channels) {
    return cr_fail(CREMA_E_SHAPE, "noise_param: %zu values of saltpepper_param for %d channels",
                   param->n_value, image->channels);
  }
  size_t count = (size_t)floorf(param->fraction * (float)cr_pixel_count(image));
  for (size_t i = 0; i < count; ++i) {
    size_t x = (size_t)cr_random_below(random, image->width);
    size_t y = (size_t)cr_random_below(random, image->height);
    uint8_t *p = image->pixels + (y * (size_t)image->width + x) * (size_t)image->channels;
    for (int c = 0; c < image->channels; ++c) {
      p[c] = cr_saturate(param->value[param->n_value > 1 ? (size_t)c : 0]);
    }
  }
  return CREMA_OK;
}

void cr_equalize(uint8_t *values, int stride, size_t count) {
  size_t histogram[256] = {0}, sum = 0;
  uint8_t table[256] = {0};
  for (size_t i = 0; i < count; ++i) ++histogram[values[i * (size_t)stride]];
  int lowest = 0;
  while (lowest < 255 && histogram[lowest] == 0) ++lowest;
  /* With a single value there is no range to spread. */
  if (histogram[lowest] == count) return;
  float scale = 255.0F / (float)(count - histogram[lowest]);
  for (int v = lowest + 1; v < 256; ++v) {
    sum += histogram[v];
    table[v] = cr_saturate((float)sum * scale);
  }
  for (size_t i = 0; i < count; ++i) values[i * (size_t)stride] = table[values[i * (size_t)stride]];
}

enum { TILES = 8 };

/* The table of one tile: its histogram is clipped at `limit`, the excess spread evenly over all
 * bins, and its remainder over bins at even distances. */
static void tile_table(int histogram[256], int area, int limit, uint8_t table[256]) {
  int cut = 0, sum = 0;
  for (int v = 0; v < 256; ++v) {
    if (histogram[v] <= limit) continue;
    cut += histogram[v] - limit;
    histogram[v] = limit;
  }
  int rest = cut % 256, step = rest > 0 ? 256 / rest : 1;
  for (int v = 0; v < 256; ++v) histogram[v] += cut / 256;
  for (int v = 0; v < 256 && rest > 0; v += step, --rest) ++histogram[v];
  float scale = 255.0F / (float)area;
  for (int v = 0; v < 256; ++v) {
    sum += histogram[v];
    table[v] = cr_saturate((float)sum * scale);
  }
}

/* The two tiles next to a pixel and the share of the second. */
static void near_tiles(int position, int side, int tile[2], float *share) {
  float at = (float)position * (1.0F / (float)side) - 0.5F;
  int first = (int)floorf(at);
  *share = at - (float)first;
  tile[0] = first < 0 ? 0 : first;
  tile[1] = first + 1 < TILES ? first + 1 : TILES - 1;
}

static void map_tiles(uint8_t *values, int stride, const int extent[2], const int side[2],
                      const uint8_t (*table)[256]) {
  for (int y = 0; y < extent[0]; ++y) {
    int row[2], column[2];
    float down, across;
    near_tiles(y, side[0], row, &down);
    for (int x = 0; x < extent[1]; ++x, values += stride) {
      near_tiles(x, side[1], column, &across);
      const uint8_t *upper = &table[row[0] * TILES][*values];
      const uint8_t *lower = &table[row[1] * TILES][*values];
      float above =
          (float)upper[column[0] * 256] * (1 - across) + (float)upper[column[1] * 256] * across;
      float below =
          (float)lower[column[0] * 256] * (1 - across) + (float)lower[column[1] * 256] * across;
      *values = cr_saturate(above * (1 - down) + below * down);
    }
  }
}

/* If the tiles do not fit, mirrored pixels extend both sides to the next multiple of 8 (a multiple
 * of 8 by 8). */
crema_status cr_equalize_tiles(uint8_t *values, int stride, int height, int width, float limit) {
  bool fits = height % TILES == 0 && width % TILES == 0;
  const int extent[2] = {height, width};
  const int side[2] = {height / TILES + !fits, width / TILES + !fits};
  cr_buffer memory = {0};
  CR_TRY(cr_buffer_reserve(&memory, (size_t)TILES * TILES * 256));
  uint8_t(*table)[256] = (uint8_t(*)[256])(void *)memory.data;
  int area = side[0] * side[1];
  int bound = (int)(limit * (float)area / 256);
  if (bound < 1) bound = 1;
  for (int tile = 0; tile < TILES * TILES; ++tile) {
    int histogram[256] = {0};
    int top = tile / TILES * side[0], left = tile % TILES * side[1];
    for (int y = top; y < top + side[0]; ++y) {
      const uint8_t *row =
          values + (size_t)cr_mirrored_index(y, height) * (size_t)width * (size_t)stride;
      for (int x = left; x < left + side[1]; ++x)
        ++histogram[row[cr_mirrored_index(x, width) * stride]];
    }
    tile_table(histogram, area, bound, table[tile]);
  }
  map_tiles(values, stride, extent, side, (const uint8_t(*)[256])table);
  cr_buffer_free(&memory);
  return CREMA_OK;
}

/* In images with colours only the luma is spread. */
static crema_status spread(cr_image *image, bool tiles) {
  size_t count = cr_pixel_count(image);
  crema_status status = CREMA_OK;
  if (image->channels == 3) cr_bgr_to_ycrcb(image->pixels, count);
  if (tiles) {
    status = cr_equalize_tiles(image->pixels, image->channels, image->height, image->width, 4.0F);
  } else {
    cr_equalize(image->pixels, image->channels, count);
  }
  if (image->channels == 3) cr_ycrcb_to_bgr(image->pixels, count);
  return status;
}

static crema_status check_channels(const Caffe__NoiseParameter *param, const cr_image *image) {
  const char *field = NULL;
  if (image->channels != 3 && param->convert_to_hsv) field = "convert_to_hsv";
  if (image->channels != 3 && image->channels != 1) {
    if (param->decolorize) field = "decolorize";
    if (param->hist_eq) field = "hist_eq";
    if (param->clahe) field = "clahe";
    if (param->jpeg > 0) field = "jpeg";
  }
  if (field == NULL) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "noise_param: %s of an image of %d channels", field,
                 image->channels);
}

crema_status cr_noise(const Caffe__NoiseParameter *param, cr_random *random, cr_image *image,
                      cr_image *scratchpad) {
  CR_TRY(check_channels(param, image));
  if (param->has_prob && !(cr_random_uniform(random, 0, 1) < param->prob)) return CREMA_OK;
  if (param->decolorize && image->channels == 3) decolorize(image);
  if (param->gauss_blur) CR_TRY(blur(image, scratchpad));
  if (param->hist_eq) CR_TRY(spread(image, false));
  if (param->clahe) CR_TRY(spread(image, true));
  if (param->jpeg > 0) CR_TRY(compress(param->jpeg, image, scratchpad));
  if (param->erode) CR_TRY(erode(image, scratchpad));
  if (param->posterize) posterize(image);
  for (size_t i = 0; param->inverse && i < bytes_of(image); ++i) {
    image->pixels[i] = (uint8_t)(255 - image->pixels[i]);
  }
  if (param->saltpepper) CR_TRY(add_salt(param->saltpepper_param, random, image));
  if (param->convert_to_hsv) cr_bgr_to_hsv(image->pixels, cr_pixel_count(image));
  return CREMA_OK;
}
