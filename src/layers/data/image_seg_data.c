/* ImageSegData: batches of image files with a label for each pixel (Chen et al., "DeepLab",
 * 2015).
 *
 * Formula: none: each line of the list source names an image and a gray picture of the same size,
 * whose values are the labels; both get the same crop and are mirrored alike. An image that is
 * smaller than the crop is continued, to the right and downwards, with its mean and ignore_label.
 * With label_type: IMAGE a line has a number in place of the picture, which is the label of each
 * pixel, with NONE the image alone, and the label of each pixel is ignore_label.
 * Before the crop both are resized by one of scale_factors, drawn for each sample.
 * Shapes: no bottom -> data (batch, channels, height, width) and, optionally, label (batch,
 * 1, height, width), and the height and width of each image as far as it is in data (batch, 1, 1,
 * 2).
 * Fields: image_data_param, transform_param.
 * Caffe: as in the forks of DeepLab and PSPNet, but that label_type is PIXEL where it is not given,
 * as in DeepLab's first version, and not IMAGE; labels are never mixed when pictures are resized
 * (new_height, new_width), files are also looked for in the folder of their list, and fields of
 * transform_param that would move pixels alone (resize_param, expand_param) are refused.
 * Example:
 *   layer { name: "data" type: "ImageSegData" top: "data" top: "label" top: "size"
 *     image_data_param { source: "pairs.txt" batch_size: 2 label_type: PIXEL ignore_label: 255 }
 *     transform_param { crop_size: 24 mirror: true mean_value: 104 } } */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/augment/augment.h"
#include "data/augment/transformer.h"
#include "data/image/image.h"
#include "data/pipeline/load_pixels.h"
#include "data/pipeline/order.h"
#include "layers/data/adapters/batch_loader.h"

typedef Caffe__ImageDataParameter__LabelType label_type;

#define NO_LABEL CAFFE__IMAGE_DATA_PARAMETER__LABEL_TYPE__NONE
#define IMAGE_LABEL CAFFE__IMAGE_DATA_PARAMETER__LABEL_TYPE__IMAGE
#define PIXEL_LABEL CAFFE__IMAGE_DATA_PARAMETER__LABEL_TYPE__PIXEL

enum { PREFETCH = 3 };

/* A line of the list. */
typedef struct seg_line {
  const char *image, *map; /* map NULL: there is none */
  long label;
  size_t number;
} seg_line;

/* The memory of one thread. */
typedef struct seg_worker {
  cr_buffer path, file;
  cr_image image, map, resized, padded;
} seg_worker;

typedef struct seg_item {
  const seg_line *line;
  uint64_t sample;
} seg_item;

typedef struct seg_data_state {
  cr_batch_input batches; /* has to be the first member */
  const Caffe__ImageDataParameter *param;
  const Caffe__TransformationParameter *transform; /* may be NULL */
  char *path, *root;                               /* of the list; before the names in it */
  cr_buffer text;                                  /* holds the names */
  seg_line *line;
  size_t lines;
  uint64_t skip;
  cr_order order;
  Caffe__TransformationParameter pixels; /* transform without what this file does */
  uint64_t scale_key;                    /* of the draws among scale_factors */
  cr_transformer *transformer;
  int threads;
  seg_worker *worker; /* `threads` of them */
} seg_data_state;

/* ---- the list ------------------------------------------------------------ */

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

static crema_status parse_line(seg_data_state *s, char *text, size_t number) {
  const label_type type = s->param->label_type;
  seg_line line = {.image = text, .number = number};
  char *end = text + strlen(text);
  while (end > text && is_blank(end[-1])) *--end = '\0';
  if (end == text) return CREMA_OK;
  if (type != NO_LABEL) {
    char *last = end, *rest = NULL;
    while (last > text && !is_blank(last[-1])) --last;
    line.map = last;
    errno = 0;
    if (type == IMAGE_LABEL) line.label = strtol(last, &rest, 10);
    char *gap = last;
    while (gap > text && is_blank(gap[-1])) --gap;
    if (gap == text || (rest != NULL && (*rest != '\0' || errno != 0))) {
      return cr_fail(CREMA_E_PARSE, "%s:%zu: expected an image and its %s, found \"%s\"", s->path,
                     number, type == IMAGE_LABEL ? "integer label" : "label map", text);
    }
    *gap = '\0';
  }
  if (type != PIXEL_LABEL) line.map = NULL;
  s->line[s->lines++] = line;
  return CREMA_OK;
}

static crema_status read_lines(seg_data_state *s) {
  size_t lines = 1;
  CR_TRY(cr_file_read(s->path, &s->text));
  CR_TRY(cr_buffer_make_text(&s->text, s->path));
  for (size_t i = 0; i < s->text.size; ++i) lines += s->text.data[i] == '\n';
  CR_TRY(CR_NEW(s->line, lines, "the list"));
  char *text = s->text.data;
  for (size_t number = 1; text != NULL; ++number) {
    char *next = strchr(text, '\n');
    if (next != NULL) *next++ = '\0';
    CR_TRY(parse_line(s, text, number));
    text = next;
  }
  if (s->lines > 0) return CREMA_OK;
  return cr_fail(CREMA_E_PARSE, "%s: the list is empty", s->path);
}

/* ---- one image ----------------------------------------------------------- */

static crema_status decode(const seg_data_state *s, seg_worker *w, const char *name,
                           cr_image_color color, cr_image *out) {
  char *found = NULL;
  cr_buffer_clear(&w->path);
  cr_buffer_clear(&w->file);
  CR_TRY(cr_buffer_print(&w->path, "%s%s", s->root, name));
  CR_TRY(cr_file_resolve(s->path, w->path.data, &found));
  crema_status status = cr_file_read(found, &w->file);
  if (status == CREMA_OK) {
    status = cr_fail_in(cr_image_decode((const uint8_t *)w->file.data, w->file.size, color, out),
                        "%s", found);
  }
  free(found);
  return status;
}

/* Labels are not mixed: each pixel gets that of the nearest. */
static crema_status resize_pair(seg_worker *w, bool has_map, int height, int width) {
  if (height == w->image.height && width == w->image.width) return CREMA_OK;
  CR_TRY(cr_image_resize(&w->image, height, width, &w->resized));
  cr_image_swap(&w->image, &w->resized);
  if (!has_map) return CREMA_OK;
  CR_TRY(cr_image_resize_with(&w->map, height, width, CAFFE__RESIZE_PARAMETER__INTERP_MODE__NEAREST,
                              &w->resized));
  cr_image_swap(&w->map, &w->resized);
  return CREMA_OK;
}

/* Resizes both by the factor that belongs to the sample. As in DeepLab the product is a float: 0.7
 * times 100 is 70, which the product of doubles, 69.9999988, is not. */
static crema_status scale_pair(const seg_data_state *s, seg_worker *w, const seg_item *item) {
  uint32_t draw[4];
  if (s->transform == NULL || s->transform->n_scale_factors == 0) return CREMA_OK;
  cr_philox(s->scale_key, 0, item->sample, draw);
  const uint64_t which = ((uint64_t)draw[0] * s->transform->n_scale_factors) >> 32;
  const float factor = s->transform->scale_factors[which];
  const float height = floorf(factor * (float)w->image.height);
  const float width = floorf(factor * (float)w->image.width);
  if (height < 1 || width < 1 || height > CR_IMAGE_MAX_SIDE || width > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_RANGE, "an image of %d x %d pixels, resized by %g of scale_factors",
                   w->image.height, w->image.width, (double)factor);
  }
  return resize_pair(w, item->line->map != NULL, (int)height, (int)width);
}

/* Reads the image and its map, and brings both to new_height x new_width. */
static crema_status read_pair(const seg_data_state *s, seg_worker *w, const seg_line *line) {
  const int height = (int)s->param->new_height, width = (int)s->param->new_width;
  cr_image_color color = s->param->is_color ? CR_IMAGE_COLOR : CR_IMAGE_GRAY;
  const cr_image_color wanted = cr_transformer_color(s->transformer);
  if (wanted != CR_IMAGE_NATIVE) color = wanted;
  CR_TRY(decode(s, w, line->image, color, &w->image));
  if (line->map != NULL) {
    CR_TRY(decode(s, w, line->map, CR_IMAGE_NATIVE, &w->map));
    if (w->map.channels != 1) {
      return cr_fail(CREMA_E_UNSUPPORTED,
                     "%s is in colours; a label map is a gray picture whose values are the labels",
                     line->map);
    }
    if (w->map.height != w->image.height || w->map.width != w->image.width) {
      return cr_fail(CREMA_E_SHAPE, "an image of %d x %d pixels with a label map of %d x %d",
                     w->image.height, w->image.width, w->map.height, w->map.width);
    }
  }
  return height == 0 ? CREMA_OK : resize_pair(w, line->map != NULL, height, width);
}

/* Continues an image to the right and downwards; clear_padding has the values. */
static crema_status pad(seg_worker *w, int height, int width) {
  const int channels = w->image.channels;
  if (height <= w->image.height && width <= w->image.width) return CREMA_OK;
  if (height < w->image.height) height = w->image.height;
  if (width < w->image.width) width = w->image.width;
  CR_TRY(cr_image_reserve(&w->padded, height, width, channels));
  const size_t from_row = (size_t)w->image.width * (size_t)channels;
  const size_t to_row = (size_t)width * (size_t)channels;
  memset(w->padded.pixels, 0, (size_t)height * to_row);
  for (int y = 0; y < w->image.height; ++y) {
    memcpy(w->padded.pixels + (size_t)y * to_row, w->image.pixels + (size_t)y * from_row, from_row);
  }
  cr_image_swap(&w->image, &w->padded);
  return CREMA_OK;
}

static void crop_sides(const Caffe__TransformationParameter *p, int *height, int *width) {
  *height = p == NULL ? 0 : (int)(p->crop_h > 0 ? p->crop_h : p->crop_size);
  *width = p == NULL ? 0 : (int)(p->crop_w > 0 ? p->crop_w : p->crop_size);
}

static bool is_inside(const cr_image_part *part, bool mirror, const int real[2], int y, int x) {
  const int column = part->left + (mirror ? part->width - 1 - x : x);
  return part->top + y < real[0] && column < real[1];
}

/* Behind the image's right and lower border is its mean, which has become 0. */
static crema_status clear_padding(const seg_data_state *s, const seg_item *item,
                                  const cr_load *load, const seg_worker *w, const int real[2]) {
  const crema_shape *shape = &load->batch->top[0].shape;
  const int64_t size = crema_shape_count(shape, 1, 4);
  float *value = load->batch->top[0].values + load->item * size;
  cr_image_part part;
  bool mirror = false;
  if (w->image.height == real[0] && w->image.width == real[1]) return CREMA_OK;
  CR_TRY(cr_transformer_crop(s->transformer, item->sample, w->image.height, w->image.width, &part,
                             &mirror));
  for (int64_t i = 0; i < size; ++i) {
    const int y = (int)(i / part.width % part.height), x = (int)(i % part.width);
    if (!is_inside(&part, mirror, real, y, x)) value[i] = 0;
  }
  return CREMA_OK;
}

/* The label of a pixel of the image. */
static float label_at(const seg_data_state *s, const seg_worker *w, const seg_line *line, int row,
                      int column) {
  switch (s->param->label_type) {
    case PIXEL_LABEL: return (float)w->map.pixels[(int64_t)row * w->map.width + column];
    case IMAGE_LABEL: return (float)line->label;
    default: return (float)s->param->ignore_label;
  }
}

/* The labels of the part that the image, of real[0] x real[1] pixels, was cropped to, mirrored like
 * it. */
static void put_map(const seg_data_state *s, const seg_worker *w, const seg_line *line,
                    const int real[2], const cr_image_part *part, bool mirror, float *out) {
  const float ignored = (float)s->param->ignore_label;
  for (int y = 0; y < part->height; ++y) {
    for (int x = 0; x < part->width; ++x) {
      const int column = part->left + (mirror ? part->width - 1 - x : x);
      const bool inside = is_inside(part, mirror, real, y, x);
      *out++ = inside ? label_at(s, w, line, part->top + y, column) : ignored;
    }
  }
}

static crema_status put_label(const seg_data_state *s, const seg_item *item, const cr_load *load,
                              const seg_worker *w, const int real[2]) {
  cr_batch_top *top = &load->batch->top[1];
  const cr_batch_top *data = &load->batch->top[0];
  cr_image_part part;
  bool mirror = false;
  const crema_shape shape =
      cr_shape_4(load->batch->items, 1, data->shape.dim[2], data->shape.dim[3]);
  if (load->item == 0) CR_TRY(cr_batch_reserve(load->batch, 1, &shape, NULL));
  CR_TRY(cr_transformer_crop(s->transformer, item->sample, w->image.height, w->image.width, &part,
                             &mirror));
  put_map(s, w, item->line, real, &part, mirror,
          top->values + load->item * crema_shape_count(&shape, 1, 4));
  return CREMA_OK;
}

/* Reads, colours and pads an image; real: its extents before that. */
static crema_status prepare(const seg_data_state *s, seg_worker *w, const seg_item *item,
                            cr_pixels *pixels, int real[2]) {
  int height = 0, width = 0;
  CR_TRY(read_pair(s, w, item->line));
  CR_TRY(scale_pair(s, w, item));
  real[0] = w->image.height;
  real[1] = w->image.width;
  crop_sides(s->transform, &height, &width);
  *pixels = cr_image_pixels(&w->image);
  CR_TRY(cr_transformer_augment(s->transformer, item->sample, pixels, &w->image));
  CR_TRY(pad(w, height, width));
  *pixels = cr_image_pixels(&w->image);
  return CREMA_OK;
}

static crema_status load_pair(const seg_data_state *s, const seg_item *item, cr_load *load) {
  static const char advice[] =
      "images of different sizes need new_height and new_width, crop_size or batch_size: 1";
  seg_worker *w = &s->worker[load->worker];
  cr_pixels pixels;
  int real[2];
  const double start = cr_clock_seconds();
  CR_TRY(prepare(s, w, item, &pixels, real));
  load->decode_seconds = cr_clock_seconds() - start;
  CR_TRY(cr_load_pixels(load, s->transformer, &pixels, item->sample, advice));
  CR_TRY(clear_padding(s, item, load, w, real));
  if (load->batch->tops > 1) CR_TRY(put_label(s, item, load, w, real));
  for (int i = 0; i < 2 && load->batch->tops > 2; ++i) {
    load->batch->top[2].values[2 * load->item + i] =
        fminf((float)real[i], (float)load->batch->top[0].shape.dim[2 + i]);
  }
  return CREMA_OK;
}

static crema_status in_line(const seg_data_state *s, const seg_line *line, crema_status status) {
  return cr_fail_in(status, "%s:%zu: %s", s->path, line->number, line->image);
}

static crema_status load_item(void *user, cr_load *load) {
  const seg_data_state *s = user;
  const seg_item *item = cr_batch_item(load->batch, load->item);
  return in_line(s, item->line, load_pair(s, item, load));
}

static crema_status take_item(void *user, cr_batch *batch, int i) {
  seg_data_state *s = user;
  seg_item *item = cr_batch_item(batch, i);
  size_t index = 0;
  item->sample = batch->sample + (uint64_t)i * (uint64_t)batch->solvers;
  CR_TRY(cr_order_at(&s->order, item->sample + s->skip, &index));
  item->line = &s->line[index];
  return CREMA_OK;
}

static const cr_source pair_source = {.take = take_item, .load = load_item};

/* ---- setting up ---------------------------------------------------------- */

/* Fields that would move pixels, but not their labels, or that have no meaning here. */
static crema_status check_fields(const cr_layer *layer) {
  const Caffe__ImageDataParameter *p = layer->param->image_data_param;
  const Caffe__TransformationParameter *t = layer->param->transform_param;
  if (t != NULL &&
      (t->resize_param != NULL || t->expand_param != NULL || t->random_resize_param != NULL ||
       t->img_rand_resize_upper != 0 || (t->mean_file != NULL && t->mean_file[0] != '\0'))) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "transform_param: resize_param, expand_param, random_resize_param, "
                         "img_rand_resize_lower and mean_file are not supported with label maps");
  }
  for (size_t i = 0; t != NULL && i < t->n_scale_factors; ++i) {
    if (isfinite(t->scale_factors[i]) && t->scale_factors[i] > 0) continue;
    return cr_layer_fail(layer, CREMA_E_RANGE, "scale_factors has %g; it must be above 0",
                         (double)t->scale_factors[i]);
  }
  if (p->short_side != 0 || p->min_height != 0 || p->min_width != 0 ||
      p->dataset_share_per_node != 1) {
    return cr_layer_fail(
        layer, CREMA_E_UNSUPPORTED,
        "image_data_param: short_side, min_height, min_width and dataset_share_per_node are not "
        "supported");
  }
  return CREMA_OK;
}

static crema_status check_param(const cr_layer *layer) {
  const Caffe__ImageDataParameter *p = layer->param->image_data_param;
  if (p == NULL || p->source == NULL || p->source[0] == '\0') {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "image_data_param with a source is required");
  }
  CR_TRY(cr_layer_check_batch(layer, "image_data_param", p->batch_size));
  if ((p->new_height > 0) != (p->new_width > 0) || p->new_height > CR_IMAGE_MAX_SIDE ||
      p->new_width > CR_IMAGE_MAX_SIDE) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "image_data_param: new_height %u and new_width %u: give both, at most %d, "
                         "or neither",
                         p->new_height, p->new_width, CR_IMAGE_MAX_SIDE);
  }
  return check_fields(layer);
}

static void use_key(void *state) {
  seg_data_state *s = state;
  uint32_t draw[4];
  s->order.key = cr_mix_key(s->batches.key, cr_hash_text("shuffle"));
  s->order.drawn = false;
  cr_transformer_set_key(s->transformer, cr_mix_key(s->batches.key, cr_hash_text("transform")));
  s->scale_key = cr_mix_key(s->batches.key, cr_hash_text("scale_factors"));
  cr_philox(cr_mix_key(s->batches.key, cr_hash_text("rand_skip")), 0, 0, draw);
  s->skip = ((uint64_t)draw[0] * s->param->rand_skip) >> 32;
}

static crema_status read_list(cr_layer *layer, seg_data_state *s) {
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, s->param->source, &s->path));
  CR_TRY(read_lines(s));
  s->order.count = s->lines;
  s->order.shuffle = s->param->shuffle;
  s->batches.epoch = s->lines;
  CR_TRY(cr_layer_root_folder(layer, s->param->root_folder, &s->root));
  if (s->transform != NULL) s->pixels = *s->transform;
  s->pixels.n_scale_factors = 0;
  CR_TRY(cr_transformer_create(s->transform != NULL ? &s->pixels : NULL, layer->phase, 0,
                               layer->source_dir_file, &s->transformer));
  s->batches.key = layer->key;
  s->batches.key_restored = use_key;
  use_key(s);
  cr_log_info("A total of %zu images.", s->lines);
  return CREMA_OK;
}

static crema_status open_loader(const cr_layer *layer, seg_data_state *s, crema_blob *const *top) {
  const int64_t items = s->param->batch_size;
  size_t index = 0;
  int extent[3], real[2];
  cr_pixels pixels;
  CR_TRY(cr_pipeline_threads(s->param->has_threads ? s->param->threads : 0, &s->threads));
  CR_TRY(CR_NEW(s->worker, s->threads, "decoding threads"));
  CR_TRY(cr_order_at(&s->order, s->skip, &index));
  const seg_item first = {.line = &s->line[index]};
  crema_status status = prepare(s, &s->worker[0], &first, &pixels, real);
  if (status == CREMA_OK) {
    status =
        cr_transformer_shape(s->transformer, pixels.channels, pixels.height, pixels.width, extent);
  }
  CR_TRY(in_line(s, first.line, status));
  const crema_shape shape[3] = {cr_shape_4(items, extent[0], extent[1], extent[2]),
                                cr_shape_4(items, 1, extent[1], extent[2]),
                                cr_shape_4(items, 1, 1, 2)};
  cr_log_info("output data size: %" PRId64 ",%d,%d,%d", items, extent[0], extent[1], extent[2]);
  const cr_pipeline_options options = {.name = s->path,
                                       .source = &pair_source,
                                       .user = s,
                                       .tops = layer->tops,
                                       .items = (int)items,
                                       .depth = PREFETCH,
                                       .threads = s->threads,
                                       .item_size = sizeof(seg_item),
                                       .shape = shape};
  return cr_batch_loader_open(&s->batches.loader, layer, &options, top);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  seg_data_state *s = layer->state;
  (void)bottom;
  CR_TRY(check_param(layer));
  s->param = layer->param->image_data_param;
  s->transform = layer->param->transform_param;
  CR_TRY(cr_layer_in(layer, read_list(layer, s)));
  return cr_layer_in(layer, open_loader(layer, s, top));
}

static void destroy(cr_layer *layer) {
  seg_data_state *s = layer->state;
  cr_batch_loader_close(&s->batches.loader);
  for (int i = 0; s->worker != NULL && i < s->threads; ++i) {
    seg_worker *w = &s->worker[i];
    cr_image_free(&w->padded);
    cr_image_free(&w->resized);
    cr_image_free(&w->map);
    cr_image_free(&w->image);
    cr_buffer_free(&w->file);
    cr_buffer_free(&w->path);
  }
  free(s->worker);
  cr_transformer_destroy(s->transformer);
  cr_order_free(&s->order);
  free(s->line);
  cr_buffer_free(&s->text);
  free(s->root);
  free(s->path);
}

const cr_layer_class cr_layer_image_seg_data = {
    CR_LAYER_INPUT("ImageSegData", sizeof(seg_data_state), 1, 3),
    .input = &cr_batch_input_class_with_epochs,
    .graph.shareable = true,
    .setup = setup,
    .forward = cr_batch_input_forward,
    .destroy = destroy,
};
