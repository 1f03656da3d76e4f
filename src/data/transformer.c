#include "data/transformer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/augment.h"
#include "data/mean.h"
#include "data/transform_rows.h"

struct cr_transformer {
  uint64_t key;
  bool random_crop, mirror;
  int crop_height, crop_width; /* 0: the whole picture */
  float scale;
  cr_image_color color;
  int mean_values; /* 0, 1 or one for each channel */
  float *mean_value;
  cr_mean mean;        /* values NULL: none */
  cr_augment *augment; /* NULL: none */
};

/* ---- making -------------------------------------------------------------- */

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

static crema_status read_mean_file(cr_transformer *t, const char *name, const char *net_path) {
  char *path = NULL;
  CR_TRY(cr_file_resolve(net_path, name, &path));
  crema_status status = cr_mean_read(path, &t->mean);
  free(path);
  return status == CREMA_OK ? CREMA_OK : cr_fail_in(status, "transform_param: mean_file");
}

static crema_status read_mean(cr_transformer *t, const Caffe__TransformationParameter *param,
                              const char *net_path) {
  bool file = param->mean_file != NULL && param->mean_file[0] != '\0';
  if (file && param->n_mean_value > 0) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "transform_param: mean_file and mean_value exclude each other");
  }
  if (file) return read_mean_file(t, param->mean_file, net_path);
  if (param->n_mean_value == 0) return CREMA_OK;
  size_t bytes = param->n_mean_value * sizeof *t->mean_value;
  t->mean_value = malloc(bytes);
  if (t->mean_value == NULL) return cr_fail_memory(bytes, "mean values");
  memcpy(t->mean_value, param->mean_value, bytes);
  t->mean_values = (int)param->n_mean_value;
  return CREMA_OK;
}

static crema_status read_param(cr_transformer *t, const Caffe__TransformationParameter *param,
                               Caffe__Phase phase, const char *net_path) {
  CR_TRY(cr_augment_create(param, &t->augment));
  if (param->force_color && param->force_gray) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "transform_param: force_color and force_gray exclude each other");
  }
  if (param->force_color) t->color = CR_IMAGE_COLOR;
  if (param->force_gray) t->color = CR_IMAGE_GRAY;
  t->scale = param->scale;
  t->mirror = param->mirror;
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

void cr_transformer_destroy(cr_transformer *transformer) {
  if (transformer == NULL) return;
  cr_augment_destroy(transformer->augment);
  cr_mean_free(&transformer->mean);
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

/* ---- augmentation -------------------------------------------------------- */

crema_status cr_transformer_augment(const cr_transformer *t, uint64_t sample, cr_pixels *pixels,
                                    cr_image *store) {
  return cr_augment_pixels(t->augment, t->key, sample, pixels, store);
}

crema_status cr_transformer_extent(const cr_transformer *t, uint64_t sample, int extent[3]) {
  return cr_augment_extent(t->augment, t->key, sample, extent + 1, extent + 1);
}

bool cr_transformer_augments(const cr_transformer *transformer) {
  return transformer->augment != NULL;
}

/* ---- running ------------------------------------------------------------- */

crema_status cr_transformer_shape(const cr_transformer *t, int channels, int height, int width,
                                  int out[3]) {
  out[0] = channels;
  out[1] = t->crop_height > 0 ? t->crop_height : height;
  out[2] = t->crop_width > 0 ? t->crop_width : width;
  if (out[1] > height || out[2] > width) {
    return cr_fail(CREMA_E_SHAPE, "transform_param: a crop of %d x %d from pixels of %d x %d",
                   out[1], out[2], height, width);
  }
  const cr_mean *mean = &t->mean;
  if (mean->values != NULL &&
      (mean->channels != channels || mean->height != height || mean->width != width)) {
    return cr_fail(CREMA_E_SHAPE,
                   "transform_param: the mean image is %d x %d x %d, the pixels are %d x %d x %d",
                   mean->channels, mean->height, mean->width, channels, height, width);
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

/* Where the crop of `shape` lies in pixels of height x width, and whether it is mirrored.
 * Words of the draw: row of the crop, column of the crop, mirror. */
static void draw_crop(const cr_transformer *t, uint64_t sample, int height, int width,
                      const int shape[3], int *top, int *left, bool *mirror) {
  uint32_t draw[4];
  cr_philox(t->key, 0, sample, draw);
  int spare_y = height - shape[1], spare_x = width - shape[2];
  *top = t->random_crop ? draw_below(draw[0], spare_y + 1) : spare_y / 2;
  *left = t->random_crop ? draw_below(draw[1], spare_x + 1) : spare_x / 2;
  *mirror = t->mirror && draw[2] >> 31;
}

bool cr_transformer_part(const cr_transformer *t, uint64_t sample, int height, int width,
                         cr_image_part *out) {
  const int shape[3] = {1, t->crop_height, t->crop_width};
  bool mirror = false;
  if (t->augment != NULL || shape[1] < 1 || shape[2] < 1) return false;
  if (shape[1] > height || shape[2] > width) return false;
  draw_crop(t, sample, height, width, shape, &out->top, &out->left, &mirror);
  out->height = shape[1];
  out->width = shape[2];
  return true;
}

crema_status cr_transformer_crop(const cr_transformer *t, uint64_t sample, int height, int width,
                                 cr_image_part *out, bool *mirror) {
  const int shape[3] = {1, t->crop_height > 0 ? t->crop_height : height,
                        t->crop_width > 0 ? t->crop_width : width};
  if (shape[1] > height || shape[2] > width) {
    return cr_fail(CREMA_E_SHAPE, "transform_param: a crop of %d x %d from pixels of %d x %d",
                   shape[1], shape[2], height, width);
  }
  draw_crop(t, sample, height, width, shape, &out->top, &out->left, mirror);
  out->height = shape[1];
  out->width = shape[2];
  return CREMA_OK;
}

/* One crop on its way: where its rows are in the values at hand and in the mean image. */
typedef struct crop_job {
  cr_row_job row;
  const cr_transformer *t;
  const cr_pixels *pixels;
  int channels, height;
  size_t first, pitch; /* place of its first value in the values at hand; places a row */
  size_t plane;        /* places a channel, where they are not interleaved */
  size_t mean_first, mean_pitch, mean_plane;
} crop_job;

static cr_row_mean mean_of(const crop_job *job, int c, int y) {
  const cr_transformer *t = job->t;
  cr_row_mean mean = {0};
  if (t->mean_values > 0) mean.value = t->mean_value[t->mean_values > 1 ? c : 0];
  if (t->mean.values != NULL) {
    mean.row = t->mean.values + (size_t)c * job->mean_plane + job->mean_first +
               (size_t)y * job->mean_pitch;
  }
  return mean;
}

static void run_channel(const crop_job *job, int c, float *out) {
  const cr_pixels *pixels = job->pixels;
  int stride = pixels->interleaved ? pixels->channels : 1;
  size_t skip = pixels->interleaved ? (size_t)c : (size_t)c * job->plane;
  for (int y = 0; y < job->height; ++y, out += job->row.width) {
    size_t offset = (job->first + (size_t)y * job->pitch) * (size_t)stride + skip;
    cr_row_mean mean = mean_of(job, c, y);
    if (pixels->type == CREMA_F32) {
      cr_row_f32(&job->row, (const float *)pixels->values + offset, stride, mean, out);
    } else {
      cr_row_u8(&job->row, (const uint8_t *)pixels->values + offset, stride, mean, out);
    }
  }
}

static void run_three(const crop_job *job, float *out) {
  size_t width = (size_t)job->row.width, plane = width * (size_t)job->height;
  for (int y = 0; y < job->height; ++y, out += width) {
    size_t offset = 3 * (job->first + (size_t)y * job->pitch);
    const cr_row_mean mean[3] = {mean_of(job, 0, y), mean_of(job, 1, y), mean_of(job, 2, y)};
    float *const to[3] = {out, out + plane, out + 2 * plane};
    cr_row_u8x3(&job->row, (const uint8_t *)job->pixels->values + offset, mean, to);
  }
}

/* Whole rows that are not mirrored follow each other everywhere: they are as good as one. */
static void join_rows(crop_job *job, const cr_image_part *part) {
  size_t places = (size_t)job->row.width * (size_t)job->height;
  if (job->row.mirror || job->row.width != part->width || job->row.width != job->pixels->width) {
    return;
  }
  if (places > INT_MAX / 4) return;
  job->row.width = (int)places;
  job->height = 1;
}

/* The part of the picture that is at hand. */
static cr_image_part part_of(const cr_pixels *pixels) {
  if (pixels->part.height > 0) return pixels->part;
  return (cr_image_part){.height = pixels->height, .width = pixels->width};
}

crema_status cr_transformer_run(const cr_transformer *t, const cr_pixels *pixels, uint64_t sample,
                                float *out) {
  int shape[3], top = 0, left = 0;
  CR_TRY(cr_transformer_shape(t, pixels->channels, pixels->height, pixels->width, shape));
  if (pixels->type != CREMA_U8 && pixels->type != CREMA_F32) {
    return cr_fail(CREMA_E_TYPE, "pixels of type %s cannot be transformed",
                   crema_dtype_name(pixels->type));
  }
  crop_job job = {.row = {.width = shape[2], .scale = t->scale},
                  .t = t,
                  .pixels = pixels,
                  .channels = shape[0],
                  .height = shape[1]};
  draw_crop(t, sample, pixels->height, pixels->width, shape, &top, &left, &job.row.mirror);
  cr_image_part part = part_of(pixels);
  if (top < part.top || left < part.left || top + shape[1] > part.top + part.height ||
      left + shape[2] > part.left + part.width) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "a crop of %d x %d at (%d, %d) from a part of %d x %d at "
                   "(%d, %d)",
                   shape[1], shape[2], top, left, part.height, part.width, part.top, part.left);
  }
  job.pitch = (size_t)part.width;
  job.plane = (size_t)part.height * job.pitch;
  job.first = (size_t)(top - part.top) * job.pitch + (size_t)(left - part.left);
  job.mean_pitch = (size_t)pixels->width;
  job.mean_plane = (size_t)pixels->height * job.mean_pitch;
  job.mean_first = (size_t)top * job.mean_pitch + (size_t)left;
  join_rows(&job, &part);
  /* A batch of samples of this size does not stay in the caches until it is used. */
  enum { LARGE = 1 << 16 };
  job.row.stream = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2] >= LARGE;
  if (pixels->interleaved && pixels->channels == 3 && pixels->type == CREMA_U8) {
    run_three(&job, out);
    cr_row_finish(&job.row);
    return CREMA_OK;
  }
  for (int c = 0; c < shape[0]; ++c) {
    run_channel(&job, c, out + (size_t)c * (size_t)shape[1] * (size_t)shape[2]);
  }
  cr_row_finish(&job.row);
  return CREMA_OK;
}
