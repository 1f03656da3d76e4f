/* ImageData: batches of image files.
 *
 * Formula: none: each line of the list `source` names a file and its label; files are read, resized
 * and transformed in the list's order or, with shuffle, in another order in each epoch.
 * Shapes: no bottom -> data (batch, channels, height, width) and, optionally, label (batch).
 * Fields: image_data_param, transform_param.
 * Caffe: files are also looked for in the folder of their list; several threads load them; a JPEG
 * of at least twice the wanted size is decoded to a half, a quarter or an eighth, which averages
 * (exact_resize: true decodes it whole, as Caffe does); shuffle and rand_skip depend on the seed
 * alone; cache and precache have no effect; dataset_share_per_node is refused.
 * Example:
 *   layer { name: "data" type: "ImageData" top: "data" top: "label"
 *     image_data_param { source: "images.txt" batch_size: 2 new_height: 32 new_width: 32 }
 *     transform_param { crop_size: 24 mean_value: 104 mean_value: 117 mean_value: 123 } } */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/augment/transformer.h"
#include "data/image/image_scaled.h"
#include "data/pipeline/image_list.h"
#include "data/pipeline/load_pixels.h"
#include "data/pipeline/order.h"
#include "layers/data/adapters/batch_loader.h"

/* The memory of one thread. */
typedef struct image_worker {
  cr_buffer path, file;
  cr_image raw, resized;
} image_worker;

/* An item of a batch. */
typedef struct image_item {
  const cr_list_entry *entry;
  uint64_t sample;
} image_item;

typedef struct image_data_state {
  cr_batch_input batches; /* has to be the first member */
  const Caffe__ImageDataParameter *param;
  cr_image_list list;
  char *root; /* resolved, with a slash at its end; or empty */
  uint64_t skip;
  cr_order order;
  cr_transformer *transformer;
  int threads;
  image_worker *worker; /* `threads` of them */
} image_data_state;

enum { PREFETCH = 3 };

static cr_image_color color_of(const image_data_state *s) {
  cr_image_color wanted = s->transformer ? cr_transformer_color(s->transformer) : CR_IMAGE_NATIVE;
  if (wanted != CR_IMAGE_NATIVE) return wanted;
  return s->param->is_color ? CR_IMAGE_COLOR : CR_IMAGE_GRAY;
}

/* ---- one image ----------------------------------------------------------- */

/* The name from the list under the root folder; a file that does not exist there is looked for
 * beside the list. */
static crema_status find_file(const image_data_state *s, const char *name, cr_buffer *path) {
  cr_buffer_clear(path);
  CR_TRY(cr_buffer_print(path, "%s%s", s->root, name));
  char *found = NULL;
  CR_TRY(cr_file_resolve(s->list.path, path->data, &found));
  cr_buffer_clear(path);
  crema_status status = cr_buffer_print(path, "%s", found);
  free(found);
  return status;
}

/* A side, when the other one goes from `from` to `to`. */
static int scaled(int64_t side, int64_t to, int64_t from) {
  return (int)fmin(fmax(round((double)side * (double)to / (double)from), 1), INT_MAX);
}

/* An image that is too small in some direction gets min_height or min_width, whichever it lacks
 * more pixels of; its proportions stay. */
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

static crema_status decode(const image_data_state *s, image_worker *w, cr_image **out) {
  const uint8_t *bytes = (const uint8_t *)w->file.data;
  const cr_image_sizer sizer = {choose_size, s->param, s->param->exact_resize};
  return cr_image_decode_to(bytes, w->file.size, color_of(s), &sizer, &w->raw, &w->resized, out);
}

/* Reads image `sample` of the stream and prepares it for the transformer; the pixels belong to the
 * worker. */
static crema_status read_image(const image_data_state *s, image_worker *w, const image_item *item,
                               cr_load *load, cr_pixels *out) {
  cr_image *image = NULL;
  double start = cr_clock_seconds();
  CR_TRY(find_file(s, item->entry->name, &w->path));
  cr_buffer_clear(&w->file);
  CR_TRY(cr_file_read(w->path.data, &w->file));
  double read = cr_clock_seconds();
  CR_TRY(cr_fail_in(decode(s, w, &image), "%s", w->path.data));
  load->read_seconds = read - start;
  load->decode_seconds = cr_clock_seconds() - read;
  *out = cr_image_pixels(image);
  return cr_fail_in(cr_transformer_augment(s->transformer, item->sample, out, image), "%s",
                    w->path.data);
}

static crema_status fail_in_line(const image_data_state *s, const cr_list_entry *entry,
                                 crema_status status) {
  return cr_fail_in(status, "%s:%zu: %s", s->list.path, entry->line, entry->name);
}

static crema_status transform_image(const image_data_state *s, const image_item *item,
                                    cr_load *load) {
  static const char advice[] =
      "images of different sizes need new_height and new_width, crop_size or batch_size: 1";
  cr_pixels pixels;
  CR_TRY(read_image(s, &s->worker[load->worker], item, load, &pixels));
  CR_TRY(cr_load_pixels(load, s->transformer, &pixels, item->sample, advice));
  if (load->batch->tops > 1) load->batch->top[1].values[load->item] = (float)item->entry->label;
  return CREMA_OK;
}

static crema_status load_item(void *user, cr_load *load) {
  const image_data_state *s = user;
  const image_item *item = cr_batch_item(load->batch, load->item);
  return fail_in_line(s, item->entry, transform_image(s, item, load));
}

/* Which image goes where. */
static crema_status take_item(void *user, cr_batch *batch, int i) {
  image_data_state *s = user;
  image_item *item = cr_batch_item(batch, i);
  size_t index = 0;
  item->sample = batch->sample + (uint64_t)i * (uint64_t)batch->solvers;
  CR_TRY(cr_order_at(&s->order, item->sample + s->skip, &index));
  item->entry = &s->list.entry[index];
  return CREMA_OK;
}

static const cr_source image_source = {.take = take_item, .load = load_item};

/* ---- setting up ---------------------------------------------------------- */

static crema_status check_param(const cr_layer *layer) {
  const Caffe__ImageDataParameter *param = layer->param->image_data_param;
  if (param == NULL || param->source == NULL || param->source[0] == '\0') {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "image_data_param with a source is required");
  }
  CR_TRY(cr_layer_check_batch(layer, "image_data_param", param->batch_size));
  if ((param->new_height > 0) != (param->new_width > 0) || param->new_height > CR_IMAGE_MAX_SIDE ||
      param->new_width > CR_IMAGE_MAX_SIDE || param->short_side > CR_IMAGE_MAX_SIDE) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "image_data_param: new_height %u and new_width %u: give both, at most %d, "
                         "or neither",
                         param->new_height, param->new_width, CR_IMAGE_MAX_SIDE);
  }
  if ((param->min_height > 0) != (param->min_width > 0) || param->min_height > CR_IMAGE_MAX_SIDE ||
      param->min_width > CR_IMAGE_MAX_SIDE) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "image_data_param: min_height %u and min_width %u: give both, at most %d, "
                         "or neither",
                         param->min_height, param->min_width, CR_IMAGE_MAX_SIDE);
  }
  if (param->dataset_share_per_node != 1) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "image_data_param: dataset_share_per_node is not supported");
  }
  return CREMA_OK;
}

static void use_key(void *state) {
  image_data_state *s = state;
  uint64_t key = s->batches.key;
  s->order.key = cr_mix_key(key, cr_hash_text("shuffle"));
  s->order.drawn = false;
  if (s->transformer != NULL) {
    cr_transformer_set_key(s->transformer, cr_mix_key(key, cr_hash_text("transform")));
  }
  uint32_t draw[4], limit = s->param->rand_skip;
  cr_philox(cr_mix_key(key, cr_hash_text("rand_skip")), 0, 0, draw);
  s->skip = ((uint64_t)draw[0] * limit) >> 32;
}

static crema_status read_list(cr_layer *layer, image_data_state *s) {
  char *path = NULL;
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, s->param->source, &path));
  crema_status status = cr_image_list_read(path, &s->list);
  free(path);
  CR_TRY(status);
  s->order.count = s->list.count;
  s->batches.epoch = s->list.count;
  s->order.shuffle = s->param->shuffle;
  CR_TRY(cr_layer_root_folder(layer, s->param->root_folder, &s->root));
  CR_TRY(cr_transformer_create(layer->param->transform_param, layer->phase, 0,
                               layer->source_dir_file, &s->transformer));
  s->batches.key = layer->key;
  s->batches.key_restored = use_key;
  use_key(s);
  cr_log_info("A total of %zu images.", s->list.count);
  if (s->skip > 0) cr_log_info("Skipping first %" PRIu64 " data points.", s->skip);
  return CREMA_OK;
}

static crema_status make_workers(image_data_state *s) {
  CR_TRY(cr_pipeline_threads(s->param->has_threads ? s->param->threads : 0, &s->threads));
  return CR_NEW(s->worker, s->threads, "decoding threads");
}

/* The shape of a batch's items, from the first image. */
static crema_status find_shape(image_data_state *s, int out[3]) {
  size_t index = 0;
  cr_pixels pixels;
  cr_load load = {0};
  CR_TRY(cr_order_at(&s->order, s->skip, &index));
  const image_item item = {.entry = &s->list.entry[index]};
  crema_status status = read_image(s, &s->worker[0], &item, &load, &pixels);
  if (status == CREMA_OK) {
    status =
        cr_transformer_shape(s->transformer, pixels.channels, pixels.height, pixels.width, out);
  }
  return fail_in_line(s, item.entry, status);
}

static crema_status open_loader(const cr_layer *layer, image_data_state *s,
                                crema_blob *const *top) {
  int item[3];
  CR_TRY(make_workers(s));
  CR_TRY(find_shape(s, item));
  int64_t items = s->param->batch_size;
  crema_shape shape[2] = {cr_shape_4(items, item[0], item[1], item[2]), cr_shape_1(items)};
  cr_log_info("output data size: %" PRId64 ",%d,%d,%d", items, item[0], item[1], item[2]);
  const cr_pipeline_options options = {.name = s->list.path,
                                       .source = &image_source,
                                       .user = s,
                                       .tops = layer->tops,
                                       .items = (int)items,
                                       .depth = PREFETCH,
                                       .threads = s->threads,
                                       .item_size = sizeof(image_item),
                                       .shape = shape};
  return cr_batch_loader_open(&s->batches.loader, layer, &options, top);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  image_data_state *s = layer->state;
  (void)bottom;
  CR_TRY(check_param(layer));
  s->param = layer->param->image_data_param;
  CR_TRY(cr_layer_in(layer, read_list(layer, s)));
  return cr_layer_in(layer, open_loader(layer, s, top));
}

static void destroy(cr_layer *layer) {
  image_data_state *s = layer->state;
  cr_batch_loader_close(&s->batches.loader);
  for (int i = 0; s->worker != NULL && i < s->threads; ++i) {
    cr_image_free(&s->worker[i].resized);
    cr_image_free(&s->worker[i].raw);
    cr_buffer_free(&s->worker[i].file);
    cr_buffer_free(&s->worker[i].path);
  }
  free(s->worker);
  cr_transformer_destroy(s->transformer);
  cr_order_free(&s->order);
  free(s->root);
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
