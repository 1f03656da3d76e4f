#include "data/augment/transformer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/augment/augment.h"
#include "data/augment/transform_rows.h"

struct cr_transformer {
  uint64_t key;
  bool random_crop, mirror, reversed; /* the order of three channels is */
  int crop_height, crop_width;        /* 0: the whole image */
  float scale;
  cr_image_color color;
  int mean_values; /* 0, 1 or one for each channel */
  float *mean_value;
  cr_mean mean; /* values NULL: none */
  bool borrows_mean;
  char *mean_path;
  cr_augment *augment; /* NULL: none */
};

static crema_status read_crop(cr_transformer *t, const Caffe__TransformationParameter *param) {
  uint32_t height = param->crop_h != 0 ? param->crop_h : param->crop_size;
  uint32_t width = param->crop_w != 0 ? param->crop_w : param->crop_size;
  if (height > CR_IMAGE_MAX_SIDE || width > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_RANGE, "transform_param: a crop of %u x %u pixels", height, width);
  }
  t->crop_height = (int)height;
  t->crop_width = (int)width;
  return CREMA_OK;
}

static crema_status read_mean(cr_transformer *t, const Caffe__TransformationParameter *param,
                              const char *net_path) {
  bool file = param->mean_file != NULL && param->mean_file[0] != '\0';
  if (file && param->n_mean_value > 0) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "transform_param: mean_file and mean_value exclude each other");
  }
  if (file) {
    CR_TRY(cr_file_resolve_input(net_path, param->mean_file, &t->mean_path));
    return cr_fail_in(cr_mean_read(t->mean_path, &t->mean), "transform_param: mean_file");
  }
  if (param->n_mean_value == 0) return CREMA_OK;
  CR_TRY(CR_NEW(t->mean_value, param->n_mean_value, "mean values"));
  memcpy(t->mean_value, param->mean_value, param->n_mean_value * sizeof *t->mean_value);
  t->mean_values = (int)param->n_mean_value;
  return CREMA_OK;
}

static crema_status read_param(cr_transformer *t, const Caffe__TransformationParameter *param,
                               Caffe__Phase phase, const char *net_path) {
  CR_TRY(cr_augment_create(param, &t->augment));
  if (param->fix_crop || param->more_fix_crop || param->multi_scale || param->n_scale_ratios > 0 ||
      param->is_flow || param->original_image) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "transform_param: fix_crop, multi_scale and is_flow are for clips of VideoData "
                   "only, original_image is not supported");
  }
  if (param->force_color && param->force_gray) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "transform_param: force_color and force_gray exclude each other");
  }
  if (param->force_color) t->color = CR_IMAGE_COLOR;
  if (param->force_gray) t->color = CR_IMAGE_GRAY;
  t->scale = param->scale;
  t->mirror = param->mirror;
  t->reversed = param->bgr2rgb;
  t->random_crop = phase == CAFFE__PHASE__TRAIN;
  CR_TRY(read_crop(t, param));
  return read_mean(t, param, net_path);
}

crema_status cr_transformer_create(const Caffe__TransformationParameter *param, Caffe__Phase phase,
                                   uint64_t key, const char *net_path, cr_transformer **out) {
  *out = NULL;
  cr_transformer *t = calloc(1, sizeof *t);
  if (t == NULL) return cr_fail_memory(sizeof *t, "a transformer");
  t->key = key;
  t->scale = 1;
  t->color = CR_IMAGE_NATIVE;
  crema_status status = param == NULL ? CREMA_OK : read_param(t, param, phase, net_path);
  if (status != CREMA_OK) {
    cr_transformer_destroy(t);
    return status;
  }
  *out = t;
  return CREMA_OK;
}

crema_status cr_transformer_borrow_mean(cr_transformer *t, const cr_mean *mean, const char *path) {
  t->mean_path = strdup(path);
  if (t->mean_path == NULL) return cr_fail_memory(strlen(path) + 1, "a path");
  t->mean = *mean;
  t->borrows_mean = true;
  return CREMA_OK;
}

void cr_transformer_destroy(cr_transformer *transformer) {
  if (transformer == NULL) return;
  cr_augment_destroy(transformer->augment);
  free(transformer->mean_path);
  if (!transformer->borrows_mean) cr_mean_free(&transformer->mean);
  free(transformer->mean_value);
  free(transformer);
}

uint64_t cr_transformer_key(const cr_transformer *transformer) {
  return transformer->key;
}

void cr_transformer_set_key(cr_transformer *transformer, uint64_t key) {
  transformer->key = key;
}

cr_image_color cr_transformer_color(const cr_transformer *transformer) {
  return transformer->color;
}

crema_status cr_transformer_augment(const cr_transformer *t, uint64_t sample, cr_pixels *pixels,
                                    cr_image *store) {
  return cr_augment_pixels(t->augment, t->key, sample, pixels, store);
}

crema_status cr_transformer_extent(const cr_transformer *t, uint64_t sample, int extent[3]) {
  return cr_augment_extent(t->augment, t->key, sample, extent + 1, extent + 1);
}

/* The extents of the crop from pixels of height x width. */
static crema_status crop_extent(const cr_transformer *t, int height, int width, int *out_height,
                                int *out_width) {
  *out_height = t->crop_height > 0 ? t->crop_height : height;
  *out_width = t->crop_width > 0 ? t->crop_width : width;
  if (*out_height <= height && *out_width <= width) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "transform_param: a crop of %d x %d from pixels of %d x %d",
                 *out_height, *out_width, height, width);
}

crema_status cr_transformer_shape(const cr_transformer *t, int channels, int height, int width,
                                  int out[3]) {
  out[0] = channels;
  CR_TRY(crop_extent(t, height, width, &out[1], &out[2]));
  const cr_mean *mean = &t->mean;
  if (mean->values != NULL &&
      (mean->channels != channels || mean->height != height || mean->width != width)) {
    return cr_fail(
        CREMA_E_SHAPE,
        "transform_param: the mean image of %s is %d x %d x %d, the pixels are %d x %d x %d",
        t->mean_path, mean->channels, mean->height, mean->width, channels, height, width);
  }
  if (t->mean_values > 1 && t->mean_values != channels) {
    return cr_fail(CREMA_E_SHAPE, "transform_param: %d mean values for %d channels", t->mean_values,
                   channels);
  }
  return CREMA_OK;
}

/* Uniform in 0..count-1; the bias of at most count / 2^32 does not matter here. */
static int draw_below(uint32_t word, int count) {
  return (int)(((uint64_t)word * (uint64_t)count) >> 32);
}

/* The random words are: row of the crop, column of the crop, mirror. */
crema_status cr_transformer_crop(const cr_transformer *t, uint64_t sample, int height, int width,
                                 cr_image_part *out, bool *mirror) {
  uint32_t draw[4];
  CR_TRY(crop_extent(t, height, width, &out->height, &out->width));
  cr_philox(t->key, 0, sample, draw);
  int spare_y = height - out->height, spare_x = width - out->width;
  out->top = t->random_crop ? draw_below(draw[0], spare_y + 1) : spare_y / 2;
  out->left = t->random_crop ? draw_below(draw[1], spare_x + 1) : spare_x / 2;
  *mirror = t->mirror && draw[2] >> 31;
  return CREMA_OK;
}

bool cr_transformer_part(const cr_transformer *t, uint64_t sample, int height, int width,
                         cr_image_part *out) {
  bool mirror = false;
  if (t->augment != NULL || t->crop_height < 1 || t->crop_width < 1) return false;
  if (t->crop_height > height || t->crop_width > width) return false;
  return cr_transformer_crop(t, sample, height, width, out, &mirror) == CREMA_OK;
}

/* The crop to transform: its rows in the decoded values and in the mean image. */
typedef struct crop_job {
  const cr_transformer *t;
  const cr_pixels *pixels;
  cr_rows rows; /* of the first channel */
  size_t plane; /* values per channel, if they are not interleaved */
  size_t mean_plane;
} crop_job;

/* `count` rows of the result's channel c from row y on. */
static cr_rows rows_of(const crop_job *job, int c, int y, int count) {
  const cr_transformer *t = job->t;
  const cr_pixels *pixels = job->pixels;
  cr_rows rows = job->rows;
  size_t size = pixels->type == CREMA_F32 ? sizeof(float) : 1;
  size_t offset = (size_t)y * rows.pitch;
  const int from = t->reversed && pixels->channels == 3 ? 2 - c : c;
  if (pixels->interleaved) rows.channel = from;
  else offset += (size_t)from * job->plane;
  rows.in = (const uint8_t *)rows.in + offset * size;
  rows.height = count;
  if (t->mean_values > 0) rows.mean = t->mean_value[t->mean_values > 1 ? c : 0];
  if (rows.mean_row != NULL) {
    rows.mean_row += (size_t)c * job->mean_plane + (size_t)y * rows.mean_pitch;
  }
  return rows;
}

/* Channels are written in turn, a few rows of each, so that interleaved pixels are read from memory
 * once and then from the L1 cache. */
enum { TOGETHER = 3, STRIP = 16 };

static void run_channels(const crop_job *job, int first, int count, bool stream, float *out) {
  cr_row_target target[TOGETHER];
  int height = job->rows.height, strip = job->pixels->interleaved ? STRIP : height;
  size_t plane = (size_t)job->rows.width * (size_t)height;
  for (int c = 0; c < count; ++c) cr_row_begin(&target[c], out + (size_t)c * plane, stream);
  for (int y = 0; y < height; y += strip) {
    for (int c = 0; c < count; ++c) {
      const cr_rows rows = rows_of(job, first + c, y, height - y < strip ? height - y : strip);
      if (job->pixels->type == CREMA_F32) cr_rows_f32(&rows, &target[c]);
      else cr_rows_u8(&rows, &target[c]);
    }
  }
  for (int c = 0; c < count; ++c) cr_row_end(&target[c]);
}

static crop_job make_job(const cr_transformer *t, const cr_pixels *pixels,
                         const cr_image_part *given, cr_image_part crop, bool mirror) {
  size_t stride = pixels->interleaved ? (size_t)pixels->channels : 1;
  size_t size = pixels->type == CREMA_F32 ? sizeof(float) : 1;
  size_t row = (size_t)(crop.top - given->top), column = (size_t)(crop.left - given->left);
  size_t pitch = (size_t)given->width * stride;
  crop_job job = {.t = t, .pixels = pixels, .plane = (size_t)given->height * pitch};
  job.rows =
      (cr_rows){.in = (const uint8_t *)pixels->values + (row * pitch + column * stride) * size,
                .width = crop.width,
                .height = crop.height,
                .stride = (int)stride,
                .pitch = pitch,
                .mean_pitch = (size_t)pixels->width,
                .scale = t->scale,
                .mirror = mirror};
  job.mean_plane = (size_t)pixels->height * job.rows.mean_pitch;
  if (t->mean.values != NULL) {
    job.rows.mean_row = t->mean.values + (size_t)crop.top * job.rows.mean_pitch + (size_t)crop.left;
  }
  /* Whole rows that are not mirrored are contiguous in source and target: one long row. */
  const size_t values = (size_t)crop.width * (size_t)crop.height;
  if (!mirror && crop.width == given->width && crop.width == pixels->width &&
      values <= INT_MAX / 4) {
    job.rows.width = (int)values;
    job.rows.height = 1;
  }
  return job;
}

crema_status cr_transformer_run(const cr_transformer *t, const cr_pixels *pixels, uint64_t sample,
                                float *out) {
  int shape[3];
  CR_TRY(cr_transformer_shape(t, pixels->channels, pixels->height, pixels->width, shape));
  if (pixels->type != CREMA_U8 && pixels->type != CREMA_F32) {
    return cr_fail(CREMA_E_TYPE, "pixels of type %s cannot be transformed",
                   crema_dtype_name(pixels->type));
  }
  bool mirror = false;
  cr_image_part crop, part = pixels->part;
  CR_TRY(cr_transformer_crop(t, sample, pixels->height, pixels->width, &crop, &mirror));
  if (part.height == 0) part = (cr_image_part){0, 0, pixels->height, pixels->width};
  if (crop.top < part.top || crop.left < part.left ||
      crop.top + crop.height > part.top + part.height ||
      crop.left + crop.width > part.left + part.width) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "a crop of %d x %d at (%d, %d) from a part of %d x %d at (%d, %d)", crop.height,
                   crop.width, crop.top, crop.left, part.height, part.width, part.top, part.left);
  }
  crop_job job = make_job(t, pixels, &part, crop, mirror);
  /* A batch of samples of this size does not stay in the caches. */
  enum { LARGE = 1 << 16 };
  size_t plane = (size_t)shape[1] * (size_t)shape[2];
  bool stream = (size_t)shape[0] * plane >= LARGE;
  int together = pixels->interleaved ? TOGETHER : 1;
  for (int c = 0; c < shape[0]; c += together) {
    int count = shape[0] - c < together ? shape[0] - c : together;
    run_channels(&job, c, count, stream, out + (size_t)c * plane);
  }
  return CREMA_OK;
}
