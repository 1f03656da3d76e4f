/* ImageData: batches of image files.
 *
 * Formula: none: each line of the list `source` names a file and its label. Files are read, resized
 * and transformed in the list's order or, with shuffle, in a different order in each epoch.
 * Shapes: no bottom -> data (batch, channels, height, width) and, optionally, label (batch).
 * Fields: image_data_param, transform_param.
 * Caffe: files are also searched for in the folder of their list. Several threads load them. A JPEG
 * of at least twice the wanted size is decoded at 1/2, 1/4 or 1/8 of its size, which averages
 * pixels. With exact_resize: true it is decoded at full size, as in Caffe. The effects of shuffle
 * and rand_skip depend only on the seed. The fields cache and precache have no effect. Here
 * dataset_share_per_node is refused.
 * Example:
 *   layer { name: "data" type: "ImageData" top: "data" top: "label"
 *     image_data_param { source: "images.txt" batch_size: 2 new_height: 32 new_width: 32 }
 *     transform_param { crop_size: 24 mean_value: 104 mean_value: 117 mean_value: 123 } } */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "data/image/image_scaled.h"
#include "data/pipeline/image_list.h"
#include "data/pipeline/load_pixels.h"
#include "layers/data/adapters/listed_input.h"

/* The memory of one thread. */
typedef struct image_worker {
  cr_buffer path, file;
  cr_image raw, resized;
} image_worker;

typedef struct image_data_state {
  cr_listed_input input; /* must be the first member */
  cr_image_list list;
  image_worker *worker; /* `input.threads` of them */
} image_data_state;

/* The length of a side if the other side is scaled from `from` to `to`. */
static int scaled(int64_t side, int64_t to, int64_t from) {
  return (int)fmin(fmax(round((double)side * (double)to / (double)from), 1), INT_MAX);
}

/* An image that is too small in a direction is scaled to min_height or min_width, whichever lacks
 * more pixels. Its aspect ratio stays. */
static void grow(const Caffe__ImageDataParameter *param, int *height, int *width) {
  const int64_t rows = (int64_t)param->min_height - *height;
  const int64_t columns = (int64_t)param->min_width - *width;
  if (rows <= 0 && columns <= 0) return;
  if (columns > rows) {
    *height = scaled(*height, param->min_width, *width);
    *width = (int)param->min_width;
  } else {
    *width = scaled(*width, param->min_height, *height);
    *height = (int)param->min_height;
  }
}

/* The size that images are resized to. */
static void choose_size(const void *user, int height, int width, int *out_height, int *out_width) {
  const Caffe__ImageDataParameter *param = user;
  *out_height = height;
  *out_width = width;
  if (param->new_height > 0) {
    *out_height = (int)param->new_height;
    *out_width = (int)param->new_width;
  } else if (param->short_side > 0) {
    double ratio = (double)param->short_side / (height < width ? height : width);
    *out_height = height <= width ? (int)param->short_side : (int)lround(height * ratio);
    *out_width = width <= height ? (int)param->short_side : (int)lround(width * ratio);
  } else {
    grow(param, out_height, out_width);
  }
}

/* Reads an item's image and prepares it for the transformer; the pixels belong to the worker. */
static crema_status read_image(const image_data_state *s, image_worker *w,
                               const cr_listed_item *item, cr_load *load, cr_pixels *out) {
  const Caffe__ImageDataParameter *param = s->input.param;
  const cr_image_sizer sizer = {choose_size, param, param->exact_resize};
  cr_image *image = NULL;
  const double start = cr_clock_seconds();
  CR_TRY(cr_listed_file_read(s->list.path, s->input.root, s->list.entry[item->line].name, &w->path,
                             &w->file));
  const double read = cr_clock_seconds();
  CR_TRY(cr_fail_in(
      cr_image_decode_to((const uint8_t *)w->file.data, w->file.size,
                         cr_listed_input_color(&s->input), &sizer, &w->raw, &w->resized, &image),
      "%s", w->path.data));
  load->read_seconds = read - start;
  load->decode_seconds = cr_clock_seconds() - read;
  *out = cr_image_pixels(image);
  return cr_fail_in(cr_transformer_augment(s->input.transformer, item->sample, out, image), "%s",
                    w->path.data);
}

static crema_status fail_in_line(const image_data_state *s, const cr_listed_item *item,
                                 crema_status status) {
  const cr_list_entry *entry = &s->list.entry[item->line];
  return cr_fail_in(status, "%s:%zu: %s", s->list.path, entry->line, entry->name);
}

static crema_status load_item(void *user, cr_load *load) {
  static const char advice[] =
      "images of different sizes need new_height and new_width, crop_size or batch_size: 1";
  const image_data_state *s = user;
  const cr_listed_item *item = cr_batch_item(load->batch, load->item);
  cr_pixels pixels;
  crema_status status = read_image(s, &s->worker[load->worker], item, load, &pixels);
  if (status == CREMA_OK) {
    status = cr_load_pixels(load, s->input.transformer, &pixels, item->sample, advice);
  }
  CR_TRY(fail_in_line(s, item, status));
  if (load->batch->tops > 1) {
    load->batch->top[1].values[load->item] = (float)s->list.entry[item->line].label;
  }
  return CREMA_OK;
}

static const cr_source image_source = {.take = cr_listed_input_take, .load = load_item};

static crema_status check_param(const cr_layer *layer) {
  const Caffe__ImageDataParameter *param = layer->param->image_data_param;
  if ((param->min_height > 0) != (param->min_width > 0) || param->min_height > CR_IMAGE_MAX_SIDE ||
      param->min_width > CR_IMAGE_MAX_SIDE || param->short_side > CR_IMAGE_MAX_SIDE) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "image_data_param: min_height %u and min_width %u: give both, at most %d, "
                         "or neither; short_side %u: at most %d",
                         param->min_height, param->min_width, CR_IMAGE_MAX_SIDE, param->short_side,
                         CR_IMAGE_MAX_SIDE);
  }
  if (param->dataset_share_per_node != 1) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "image_data_param: dataset_share_per_node is not supported");
  }
  return CREMA_OK;
}

/* Reads the list, and its first image for the shape of a batch. */
static crema_status open_list(cr_layer *layer, image_data_state *s, crema_blob *const *top) {
  const int64_t items = s->input.param->batch_size;
  int extent[3];
  cr_listed_item first;
  cr_pixels pixels;
  cr_load load = {0};
  CR_TRY(cr_image_list_read(s->input.path, &s->list));
  CR_TRY(cr_listed_input_open(layer, s->list.count, layer->param->transform_param));
  CR_TRY(CR_NEW(s->worker, s->input.threads, "decoding threads"));
  CR_TRY(cr_listed_input_at(&s->input, 0, &first));
  crema_status status = read_image(s, &s->worker[0], &first, &load, &pixels);
  if (status == CREMA_OK) {
    status = cr_transformer_shape(s->input.transformer, pixels.channels, pixels.height,
                                  pixels.width, extent);
  }
  CR_TRY(fail_in_line(s, &first, status));
  const crema_shape shape[2] = {cr_shape_4(items, extent[0], extent[1], extent[2]),
                                cr_shape_1(items)};
  return cr_listed_input_start(layer, &image_source, shape, top);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom;
  CR_TRY(cr_listed_input_begin(layer));
  CR_TRY(check_param(layer));
  return cr_layer_in(layer, open_list(layer, layer->state, top));
}

static void destroy(cr_layer *layer) {
  image_data_state *s = layer->state;
  cr_batch_loader_close(&s->input.batches.loader);
  for (int i = 0; s->worker != NULL && i < s->input.threads; ++i) {
    cr_image_free(&s->worker[i].resized);
    cr_image_free(&s->worker[i].raw);
    cr_buffer_free(&s->worker[i].file);
    cr_buffer_free(&s->worker[i].path);
  }
  free(s->worker);
  cr_listed_input_free(&s->input);
  cr_image_list_free(&s->list);
}

const cr_layer_class cr_layer_image_data = {
    CR_LAYER_INPUT("ImageData", sizeof(image_data_state), 1, 2),
    .input = &cr_batch_input_class_with_epochs,
    .graph.shareable = true,
    .setup = setup,
    .forward = cr_batch_input_forward,
    .destroy = destroy,
};
