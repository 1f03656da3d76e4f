#include "data/transformer.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/augment.h"
#include "data/mean.h"

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

/* What happens to one row: value i of the result is scale * (value of place i or, mirrored,
 * width - 1 - i of the source, minus its mean). */
typedef struct row_job {
  int width;
  bool mirror;
  float scale;
  float mean;            /* where mean_row is NULL */
  const float *mean_row; /* one for each place of the source */
} row_job;

static inline void flip(float *row, int width) {
  for (int a = 0, b = width - 1; a < b; ++a, --b) {
    float swap = row[a];
    row[a] = row[b];
    row[b] = swap;
  }
}

/* `stride` is the distance of two neighbours; a constant at each call, so that the loops
 * become vector code. */
static inline void run_row_u8(const row_job *job, const uint8_t *in, int stride, float *out) {
  float scale = job->scale, mean = job->mean;
  if (job->mean_row != NULL) {
    const float *mean_row = job->mean_row;
    for (int x = 0; x < job->width; ++x) out[x] = ((float)in[x * stride] - mean_row[x]) * scale;
  } else {
    for (int x = 0; x < job->width; ++x) out[x] = ((float)in[x * stride] - mean) * scale;
  }
  if (job->mirror) flip(out, job->width);
}

static inline void run_row_f32(const row_job *job, const float *in, int stride, float *out) {
  float scale = job->scale, mean = job->mean;
  for (int x = 0; x < job->width; ++x) {
    float m = job->mean_row != NULL ? job->mean_row[x] : mean;
    out[x] = (in[x * stride] - m) * scale;
  }
  if (job->mirror) flip(out, job->width);
}

static void run_row(const row_job *job, const cr_pixels *pixels, size_t offset, int stride,
                    float *out) {
  if (pixels->type == CREMA_F32) {
    run_row_f32(job, (const float *)pixels->values + offset, stride, out);
    return;
  }
  const uint8_t *in = (const uint8_t *)pixels->values + offset;
  if (stride == 1) run_row_u8(job, in, 1, out);
  else if (stride == 3) run_row_u8(job, in, 3, out);
  else run_row_u8(job, in, stride, out);
}

/* Uniform in 0..count-1; the bias of at most count / 2^32 does not matter here. */
static int draw_below(uint32_t word, int count) {
  return (int)(((uint64_t)word * (uint64_t)count) >> 32);
}

crema_status cr_transformer_run(const cr_transformer *t, const cr_pixels *pixels, uint64_t sample,
                                float *out) {
  int shape[3];
  CR_TRY(cr_transformer_shape(t, pixels->channels, pixels->height, pixels->width, shape));
  if (pixels->type != CREMA_U8 && pixels->type != CREMA_F32) {
    return cr_fail(CREMA_E_TYPE, "pixels of type %s cannot be transformed",
                   crema_dtype_name(pixels->type));
  }
  /* Words: row of the crop, column of the crop, mirror. */
  uint32_t draw[4];
  cr_philox(t->key, 0, sample, draw);
  int spare_y = pixels->height - shape[1], spare_x = pixels->width - shape[2];
  int top = t->random_crop ? draw_below(draw[0], spare_y + 1) : spare_y / 2;
  int left = t->random_crop ? draw_below(draw[1], spare_x + 1) : spare_x / 2;
  row_job job = {.width = shape[2], .mirror = t->mirror && draw[2] >> 31, .scale = t->scale};
  int stride = pixels->interleaved ? pixels->channels : 1;
  size_t plane = (size_t)pixels->height * (size_t)pixels->width;
  for (int c = 0; c < shape[0]; ++c) {
    if (t->mean_values > 0) job.mean = t->mean_value[t->mean_values > 1 ? c : 0];
    for (int y = 0; y < shape[1]; ++y) {
      size_t place = (size_t)(top + y) * (size_t)pixels->width + (size_t)left;
      size_t offset =
          pixels->interleaved ? place * (size_t)stride + (size_t)c : (size_t)c * plane + place;
      if (t->mean.values != NULL) job.mean_row = t->mean.values + (size_t)c * plane + place;
      run_row(&job, pixels, offset, stride, out);
      out += shape[2];
    }
  }
  return CREMA_OK;
}
