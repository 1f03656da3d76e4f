/* WindowData: windows of images for training detectors (Girshick et al., "Rich feature hierarchies
 * for accurate object detection", 2014).
 *
 * Formula: none: a batch has windows drawn from the background (overlap below bg_threshold, label
 * 0), then floor(batch_size * fg_fraction) foreground windows, which overlap an object by
 * fg_threshold or more. Each is brought to crop_size squared, warped or as the tightest square
 * around it, with context_pad pixels of surroundings, and mirrored at random.
 * Shapes: no bottom -> data (batch, channels, crop_size, crop_size), label (batch).
 * Fields: window_data_param, transform_param.
 * Caffe: the windows drawn depend only on the seed and the sample's number; several threads load
 * the images; resize_param, noise_param, distort_param, expand_param and emit_constraint are
 * refused.
 * Example:
 *   layer { name: "data" type: "WindowData" top: "data" top: "label"
 *     window_data_param { source: "windows.txt" batch_size: 4 fg_fraction: 0.5 }
 *     transform_param { crop_size: 24 mean_value: 128 } } */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/augment/augment.h"
#include "data/augment/mean.h"
#include "data/image/image.h"
#include "data/pipeline/window_crop.h"
#include "layers/data/adapters/listed_input.h"

/* The memory of one thread. */
typedef struct window_worker {
  cr_buffer path, file;
  cr_image image, part, scaled;
} window_worker;

/* The bytes of a file that is kept in memory. NULL until some thread has read it. */
typedef struct kept_file {
  _Atomic(cr_buffer *) bytes;
} kept_file;

typedef struct window_data_state {
  cr_batch_input batches; /* must be the first member */
  const Caffe__WindowDataParameter *param;
  cr_window_list list;
  size_t *chosen[2]; /* windows of the background, of the foreground */
  size_t count[2];
  char *root; /* folder of the images, with a slash at its end; or empty */
  int channels;
  cr_window_crop_options crop;
  bool mirror;
  float scale;
  cr_mean mean; /* values NULL: none */
  const float *mean_value;
  size_t mean_values; /* 0, 1 or one per channel */
  int threads;
  window_worker *worker; /* `threads` of them */
  kept_file *kept;       /* one per image, with cache_images; else NULL */
} window_data_state;

enum { PREFETCH = 3 };

/* Makes the worker's file available to all threads, unless another thread was faster. */
static void keep_file(kept_file *kept, cr_buffer *file) {
  cr_buffer *bytes = malloc(sizeof *bytes), *none = NULL;
  if (bytes == NULL) return;
  *bytes = *file;
  *file = (cr_buffer){0};
  if (atomic_compare_exchange_strong(&kept->bytes, &none, bytes)) return;
  *file = *bytes;
  free(bytes);
}

static crema_status load_image(const window_data_state *s, window_worker *w, size_t index,
                               cr_load *load) {
  const char *name = cr_window_list_image(&s->list, index)->name;
  const cr_image_color color = s->channels == 3 ? CR_IMAGE_COLOR : CR_IMAGE_GRAY;
  const cr_buffer *kept = s->kept == NULL ? NULL : atomic_load(&s->kept[index].bytes);
  const cr_buffer *file = kept == NULL ? &w->file : kept;
  const double start = cr_clock_seconds();
  if (kept == NULL) {
    CR_TRY(cr_listed_file_read(s->list.path, s->root, name, &w->path, &w->file));
  }
  const double read = cr_clock_seconds();
  CR_TRY(cr_fail_in(cr_image_decode((const uint8_t *)file->data, file->size, color, &w->image),
                    "%s%s", s->root, name));
  load->read_seconds = read - start;
  load->decode_seconds = cr_clock_seconds() - read;
  if (kept == NULL && s->kept != NULL) keep_file(&s->kept[index], &w->file);
  return CREMA_OK;
}

/* The part of the image, scaled. */
static crema_status cut(window_worker *w, const cr_window_crop *crop) {
  const cr_image *image = &w->image;
  size_t pixel = (size_t)image->channels, row = (size_t)crop->width * pixel;
  CR_TRY(cr_image_reserve(&w->part, crop->height, crop->width, image->channels));
  for (int y = 0; y < crop->height; ++y) {
    size_t from = (size_t)(crop->y + y) * (size_t)image->width + (size_t)crop->x;
    memcpy(w->part.pixels + (size_t)y * row, image->pixels + from * pixel, row);
  }
  return cr_image_resize(&w->part, crop->out_height, crop->out_width, &w->scaled);
}

/* The mean that belongs to a pixel of the square. */
static float mean_at(const window_data_state *s, int c, int y, int x) {
  const cr_mean *mean = &s->mean;
  if (mean->values == NULL) {
    return s->mean_values == 0 ? 0 : s->mean_value[s->mean_values > 1 ? c : 0];
  }
  int offset = (mean->width - s->crop.crop_size) / 2;
  return mean
      ->values[((size_t)c * (size_t)mean->height + (size_t)(y + offset)) * (size_t)mean->width +
               (size_t)(x + offset)];
}

static void put(const window_data_state *s, const cr_image *scaled, const cr_window_crop *crop,
                bool mirror, float *out) {
  int size = s->crop.crop_size, width = crop->out_width, channels = scaled->channels;
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < crop->out_height; ++y) {
      const uint8_t *in = scaled->pixels + (size_t)y * (size_t)(width * channels) + c;
      int row = y + crop->pad_y;
      float *to = out + ((size_t)c * (size_t)size + (size_t)row) * (size_t)size + crop->pad_x;
      for (int x = 0; x < width; ++x) {
        int from = mirror ? width - 1 - x : x;
        to[x] = ((float)in[from * channels] - mean_at(s, c, row, x + crop->pad_x)) * s->scale;
      }
    }
  }
}

/* Loads a window into its slot. */
static crema_status load_window(const window_data_state *s, const cr_listed_window *window,
                                bool mirror, cr_load *load, float *data) {
  window_worker *w = &s->worker[load->worker];
  cr_window_crop crop;
  CR_TRY(load_image(s, w, window->image, load));
  CR_TRY(cr_window_crop_plan(window, w->image.height, w->image.width, &s->crop, mirror, &crop));
  if (crop.out_height <= 0 || crop.out_width <= 0) return CREMA_OK;
  double start = cr_clock_seconds();
  CR_TRY(cut(w, &crop));
  put(s, &w->scaled, &crop, mirror, data);
  load->transform_seconds = cr_clock_seconds() - start;
  return CREMA_OK;
}

static int foreground_items(const window_data_state *s) {
  return (int)((float)s->param->batch_size * s->param->fg_fraction);
}

/* The random words are: which window, mirrored or not. */
static crema_status load_item(void *user, cr_load *load) {
  const window_data_state *s = user;
  uint32_t draw[4];
  int items = (int)s->param->batch_size;
  int foreground = load->item >= items - foreground_items(s);
  cr_batch_top *top = load->batch->top;
  size_t size = (size_t)crema_shape_count(&top[0].shape, 1, 4);
  float *data = top[0].values + (size_t)load->item * size;
  uint64_t sample = load->batch->sample + (uint64_t)load->item * (uint64_t)load->batch->solvers;
  cr_philox(s->batches.key, 0, sample, draw);
  uint64_t wide = (uint64_t)draw[2] << 32 | draw[0];
  size_t index = s->chosen[foreground][wide % s->count[foreground]];
  const cr_listed_window *window = cr_window_list_window(&s->list, index);
  bool mirror = s->mirror && draw[1] >> 31;
  memset(data, 0, size * sizeof(float));
  top[1].values[load->item] = foreground ? (float)window->label : 0;
  return cr_fail_in(load_window(s, window, mirror, load, data), "%s:%zu: %s", s->list.path,
                    window->line, cr_window_list_image(&s->list, window->image)->name);
}

static const cr_source window_source = {.load = load_item};

/* Windows are cropped and warped directly. */
static crema_status check_augment(const cr_layer *layer) {
  cr_augment *augment = NULL;
  CR_TRY(cr_layer_in(layer, cr_augment_create(layer->param->transform_param, &augment)));
  if (augment == NULL) return CREMA_OK;
  cr_augment_destroy(augment);
  return cr_layer_fail(
      layer, CREMA_E_UNSUPPORTED,
      "transform_param: resize_param, noise_param, distort_param, expand_param and "
      "img_rand_resize_lower are not supported by WindowData");
}

static crema_status check_param(const cr_layer *layer) {
  const Caffe__WindowDataParameter *param = layer->param->window_data_param;
  const Caffe__TransformationParameter *transform = layer->param->transform_param;
  if (param == NULL || param->source == NULL || param->source[0] == '\0') {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "window_data_param with a source is required");
  }
  CR_TRY(cr_layer_check_batch(layer, "window_data_param", param->batch_size));
  if (!(param->fg_fraction >= 0 && param->fg_fraction <= 1)) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "window_data_param: fg_fraction is %g, must be in "
                         "[0, 1]",
                         (double)param->fg_fraction);
  }
  const char *mode = param->crop_mode == NULL ? "warp" : param->crop_mode;
  if (strcmp(mode, "warp") != 0 && strcmp(mode, "square") != 0) {
    return cr_layer_fail(layer, CREMA_E_UNKNOWN_NAME,
                         "window_data_param: crop_mode '%s' (known: warp, square)", mode);
  }
  CR_TRY(check_augment(layer));
  uint32_t crop = transform == NULL ? 0 : transform->crop_size;
  if (crop < 1 || crop > CR_IMAGE_MAX_SIDE) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "transform_param: crop_size must be 1 to %d, found %u", CR_IMAGE_MAX_SIDE,
                         crop);
  }
  if (param->context_pad > (crop - 1) / 2) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "window_data_param: context_pad of %u pixels on each side of a crop of %u",
                         param->context_pad, crop);
  }
  return CREMA_OK;
}

static crema_status check_mean(const window_data_state *s) {
  const cr_mean *mean = &s->mean;
  int size = s->crop.crop_size;
  int offset = (mean->width - size) / 2;
  if (s->mean_values > 1 && s->mean_values != (size_t)s->channels) {
    return cr_fail(CREMA_E_SHAPE, "transform_param: %zu mean values for %d channels",
                   s->mean_values, s->channels);
  }
  if (mean->values == NULL ||
      (mean->channels == s->channels && mean->width >= size && mean->height >= size + offset)) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE,
                 "transform_param: the mean image is %d x %d x %d, the windows are %d x %d x %d",
                 mean->channels, mean->height, mean->width, s->channels, size, size);
}

static crema_status read_transform(const cr_layer *layer, window_data_state *s) {
  const Caffe__TransformationParameter *transform = layer->param->transform_param;
  s->scale = transform->scale;
  s->mirror = transform->mirror;
  s->crop.crop_size = (int)transform->crop_size;
  s->crop.context_pad = (int)s->param->context_pad;
  s->crop.square = s->param->crop_mode != NULL && strcmp(s->param->crop_mode, "square") == 0;
  s->mean_value = transform->mean_value;
  s->mean_values = transform->n_mean_value;
  if (transform->mean_file == NULL || transform->mean_file[0] == '\0') return check_mean(s);
  if (s->mean_values > 0) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "transform_param: mean_file and mean_value exclude each other");
  }
  char *path = NULL;
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, transform->mean_file, &path));
  crema_status status = cr_mean_read(path, &s->mean);
  free(path);
  return status == CREMA_OK ? check_mean(s) : cr_fail_in(status, "transform_param: mean_file");
}

/* All images must have the same number of channels. */
static crema_status check_images(window_data_state *s) {
  s->channels = cr_window_list_image(&s->list, 0)->channels;
  for (size_t i = 0; i < cr_window_list_images(&s->list); ++i) {
    const cr_window_image *image = cr_window_list_image(&s->list, i);
    if (image->channels == s->channels && (s->channels == 1 || s->channels == 3)) continue;
    return cr_fail(CREMA_E_SHAPE,
                   "%s: %s has %d channels, the first image %d (all must have 1, or all 3)",
                   s->list.path, image->name, image->channels, s->channels);
  }
  return CREMA_OK;
}

static crema_status choose_windows(window_data_state *s) {
  size_t total = cr_window_list_windows(&s->list);
  for (int k = 0; k < 2; ++k) {
    s->chosen[k] = malloc(total * sizeof *s->chosen[k]);
    if (s->chosen[k] == NULL) return cr_fail_memory(total * sizeof *s->chosen[k], "windows");
  }
  for (size_t i = 0; i < total; ++i) {
    const cr_listed_window *window = cr_window_list_window(&s->list, i);
    if (window->overlap >= s->param->fg_threshold) {
      if (window->label < 1) {
        return cr_fail(CREMA_E_RANGE, "%s:%zu: a foreground window of class %d", s->list.path,
                       window->line, window->label);
      }
      s->chosen[1][s->count[1]++] = i;
    } else if (window->overlap < s->param->bg_threshold) {
      s->chosen[0][s->count[0]++] = i;
    }
  }
  int wanted[2] = {(int)s->param->batch_size - foreground_items(s), foreground_items(s)};
  for (int k = 0; k < 2; ++k) {
    if (wanted[k] == 0 || s->count[k] > 0) continue;
    return cr_fail(CREMA_E_RANGE, "%s: a batch needs %d %s windows, the file has none",
                   s->list.path, wanted[k], k == 0 ? "background" : "foreground");
  }
  cr_log_info("Number of images: %zu, foreground windows: %zu, background windows: %zu",
              cr_window_list_images(&s->list), s->count[1], s->count[0]);
  return CREMA_OK;
}

static crema_status open_windows(const cr_layer *layer, window_data_state *s) {
  char *path = NULL;
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, s->param->source, &path));
  crema_status status = cr_window_list_read(path, &s->list);
  free(path);
  CR_TRY(status);
  CR_TRY(check_images(s));
  CR_TRY(cr_layer_root_folder(layer, s->param->root_folder, &s->root));
  CR_TRY(read_transform(layer, s));
  CR_TRY(choose_windows(s));
  CR_TRY(cr_pipeline_threads(0, &s->threads));
  CR_TRY(CR_NEW(s->worker, s->threads, "decoding threads"));
  if (!s->param->cache_images) return CREMA_OK;
  return CR_NEW(s->kept, cr_window_list_images(&s->list), "images");
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  window_data_state *s = layer->state;
  (void)bottom;
  CR_TRY(check_param(layer));
  s->param = layer->param->window_data_param;
  s->batches.key = cr_mix_key(layer->key, cr_hash_text("windows"));
  CR_TRY(cr_layer_in(layer, open_windows(layer, s)));
  int64_t items = s->param->batch_size, size = s->crop.crop_size;
  crema_shape shape[2] = {cr_shape_4(items, s->channels, size, size), cr_shape_1(items)};
  const cr_pipeline_options options = {.name = s->list.path,
                                       .source = &window_source,
                                       .user = s,
                                       .tops = 2,
                                       .items = (int)items,
                                       .depth = PREFETCH,
                                       .threads = s->threads,
                                       .shape = shape};
  return cr_layer_in(layer, cr_batch_loader_open(&s->batches.loader, layer, &options, top));
}

static void destroy(cr_layer *layer) {
  window_data_state *s = layer->state;
  cr_batch_loader_close(&s->batches.loader);
  for (size_t i = 0; s->kept != NULL && i < cr_window_list_images(&s->list); ++i) {
    cr_buffer *bytes = atomic_load(&s->kept[i].bytes);
    if (bytes != NULL) cr_buffer_free(bytes);
    free(bytes);
  }
  free(s->kept);
  for (int i = 0; s->worker != NULL && i < s->threads; ++i) {
    cr_image_free(&s->worker[i].scaled);
    cr_image_free(&s->worker[i].part);
    cr_image_free(&s->worker[i].image);
    cr_buffer_free(&s->worker[i].file);
    cr_buffer_free(&s->worker[i].path);
  }
  free(s->worker);
  cr_mean_free(&s->mean);
  free(s->root);
  free(s->chosen[1]);
  free(s->chosen[0]);
  cr_window_list_free(&s->list);
}

const cr_layer_class cr_layer_window_data = {
    CR_LAYER_INPUT("WindowData", sizeof(window_data_state), 2, 2),
    .input = &cr_batch_input_class,
    .graph.shareable = true,
    .setup = setup,
    .forward = cr_batch_input_forward,
    .destroy = destroy,
};
