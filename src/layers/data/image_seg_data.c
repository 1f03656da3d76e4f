/* ImageSegData: batches of image files with a label for each pixel (Chen et al., "DeepLab", 2015).
 *
 * Formula: none: each line of the list source names an image and a gray image of the same size with
 * its labels. Both get the same crop and are mirrored alike. An image that is smaller than the crop
 * is padded at the right and at the bottom, with its mean and ignore_label. With label_type: IMAGE,
 * a line has a number instead of the second image: the label of all pixels. With NONE, a line has
 * only the image, and each label is ignore_label. Both images are resized by one of scale_factors,
 * drawn for each sample, and then cropped. Labels of pixels are multiplied by label_scale and, with
 * round_labels, rounded.
 * Shapes: no bottom -> data (batch, channels, height, width) and, optionally, label (batch, 1,
 * height, width) and the height and width of each image's part in data (batch, 1, 1, 2).
 * Fields: image_data_param, transform_param.
 * Caffe: as in the forks of DeepLab and PSPNet, except that label_type's default is PIXEL, as in
 * DeepLab's first version, and not IMAGE. Labels are never mixed when images are resized
 * (new_height, new_width). HED's ImageLabelmapData is this layer with label_scale 1 / 255 and
 * round_labels. Files are also searched for in the folder of their list. Fields of transform_param
 * that would move only pixels (resize_param, expand_param) are refused.
 * Example:
 *   layer { name: "data" type: "ImageSegData" top: "data" top: "label" top: "size"
 *     image_data_param { source: "pairs.txt" batch_size: 2 label_type: PIXEL ignore_label: 255 }
 *     transform_param { crop_size: 24 mirror: true mean_value: 104 } } */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/augment/augment.h"
#include "data/image/image.h"
#include "data/pipeline/load_pixels.h"
#include "layers/data/adapters/listed_input.h"

typedef Caffe__ImageDataParameter__LabelType label_type;

#define NO_LABEL CAFFE__IMAGE_DATA_PARAMETER__LABEL_TYPE__NONE
#define IMAGE_LABEL CAFFE__IMAGE_DATA_PARAMETER__LABEL_TYPE__IMAGE
#define PIXEL_LABEL CAFFE__IMAGE_DATA_PARAMETER__LABEL_TYPE__PIXEL

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

typedef struct seg_data_state {
  cr_listed_input input;                           /* must be the first member */
  const Caffe__TransformationParameter *transform; /* may be NULL */
  Caffe__TransformationParameter pixels;           /* transform without scale_factors */
  cr_buffer text;                                  /* holds the names of the list */
  seg_line *line;
  size_t lines;
  seg_worker *worker; /* `input.threads` of them */
} seg_data_state;

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

static crema_status parse_line(seg_data_state *s, char *text, size_t number) {
  const label_type type = s->input.param->label_type;
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
      return cr_fail(CREMA_E_PARSE, "%s:%zu: expected an image and its %s, found \"%s\"",
                     s->input.path, number, type == IMAGE_LABEL ? "integer label" : "label map",
                     text);
    }
    *gap = '\0';
  }
  if (type != PIXEL_LABEL) line.map = NULL;
  s->line[s->lines++] = line;
  return CREMA_OK;
}

static crema_status read_lines(seg_data_state *s) {
  size_t lines = 1;
  CR_TRY(cr_file_read(s->input.path, &s->text));
  CR_TRY(cr_buffer_make_text(&s->text, s->input.path));
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
  return cr_fail(CREMA_E_PARSE, "%s: the list is empty", s->input.path);
}

static crema_status decode(const seg_data_state *s, seg_worker *w, const char *name,
                           cr_image_color color, cr_image *out) {
  CR_TRY(cr_listed_file_read(s->input.path, s->input.root, name, &w->path, &w->file));
  return cr_fail_in(cr_image_decode((const uint8_t *)w->file.data, w->file.size, color, out), "%s",
                    w->path.data);
}

/* Labels are not mixed: each pixel gets the nearest label. */
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
static crema_status scale_pair(const seg_data_state *s, seg_worker *w, const cr_listed_item *item) {
  uint32_t draw[4];
  if (s->transform == NULL || s->transform->n_scale_factors == 0) return CREMA_OK;
  cr_philox(cr_mix_key(s->input.batches.key, cr_hash_text("scale_factors")), 0, item->sample, draw);
  const uint64_t which = ((uint64_t)draw[0] * s->transform->n_scale_factors) >> 32;
  const float factor = s->transform->scale_factors[which];
  const float height = floorf(factor * (float)w->image.height);
  const float width = floorf(factor * (float)w->image.width);
  if (height < 1 || width < 1 || height > CR_IMAGE_MAX_SIDE || width > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_RANGE, "an image of %d x %d pixels, resized by %g of scale_factors",
                   w->image.height, w->image.width, (double)factor);
  }
  return resize_pair(w, s->line[item->line].map != NULL, (int)height, (int)width);
}

/* Labels are stored values, but scaled labels are brightnesses. */
static cr_image_color map_color(const seg_data_state *s) {
  return s->input.param->has_label_scale ? CR_IMAGE_GRAY : CR_IMAGE_NATIVE;
}

/* Reads the image and its map, and brings both to new_height x new_width. */
static crema_status read_pair(const seg_data_state *s, seg_worker *w, const seg_line *line) {
  const int height = (int)s->input.param->new_height, width = (int)s->input.param->new_width;
  CR_TRY(decode(s, w, line->image, cr_listed_input_color(&s->input), &w->image));
  if (line->map != NULL) {
    CR_TRY(decode(s, w, line->map, map_color(s), &w->map));
    if (w->map.channels != 1) {
      return cr_fail(CREMA_E_UNSUPPORTED,
                     "%s is in colours; a label map is a gray image whose values are the labels",
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

static bool is_inside(const cr_image_part *part, bool mirror, const int real[2], int y, int x) {
  const int column = part->left + (mirror ? part->width - 1 - x : x);
  return part->top + y < real[0] && column < real[1];
}

/* Clears the values of the padding, which was the image's mean. */
static void clear_padding(const cr_load *load, const cr_image_part *part, bool mirror,
                          const int real[2]) {
  const int64_t size = crema_shape_count(&load->batch->top[0].shape, 1, 4);
  float *value = load->batch->top[0].values + load->item * size;
  for (int64_t i = 0; i < size; ++i) {
    const int y = (int)(i / part->width % part->height), x = (int)(i % part->width);
    if (!is_inside(part, mirror, real, y, x)) value[i] = 0;
  }
}

/* Writes the labels of the part that the image, of real[0] x real[1] pixels, was cropped to. */
static crema_status put_label(const seg_data_state *s, const cr_listed_item *item,
                              const cr_load *load, const seg_worker *w, const int real[2],
                              const cr_image_part *part, bool mirror) {
  const label_type type = s->input.param->label_type;
  const float ignored = (float)s->input.param->ignore_label;
  const float scale = s->input.param->label_scale;
  const float label = type == IMAGE_LABEL ? (float)s->line[item->line].label : ignored;
  const crema_shape *data = &load->batch->top[0].shape;
  const crema_shape shape = cr_shape_4(load->batch->items, 1, data->dim[2], data->dim[3]);
  if (load->item == 0) CR_TRY(cr_batch_reserve(load->batch, 1, &shape, NULL));
  float *out = load->batch->top[1].values + load->item * crema_shape_count(&shape, 1, 4);
  for (int y = 0; y < part->height; ++y) {
    for (int x = 0; x < part->width; ++x, ++out) {
      const int row = part->top + y, column = part->left + (mirror ? part->width - 1 - x : x);
      const bool inside = is_inside(part, mirror, real, y, x);
      *out = !inside ? ignored : label;
      if (!inside || type != PIXEL_LABEL) continue;
      *out = scale * w->map.pixels[(int64_t)row * w->map.width + column];
      if (s->input.param->round_labels) *out = rintf(*out);
    }
  }
  return CREMA_OK;
}

/* Reads, colours and pads an image; real: its extents before that. */
static crema_status prepare(const seg_data_state *s, seg_worker *w, const cr_listed_item *item,
                            cr_pixels *pixels, int real[2]) {
  const Caffe__TransformationParameter *p = s->transform;
  int height = 0, width = 0;
  CR_TRY(read_pair(s, w, &s->line[item->line]));
  CR_TRY(scale_pair(s, w, item));
  real[0] = w->image.height;
  real[1] = w->image.width;
  if (p != NULL) height = (int)(p->crop_h > 0 ? p->crop_h : p->crop_size);
  if (p != NULL) width = (int)(p->crop_w > 0 ? p->crop_w : p->crop_size);
  *pixels = cr_image_pixels(&w->image);
  CR_TRY(cr_transformer_augment(s->input.transformer, item->sample, pixels, &w->image));
  CR_TRY(pad(w, height, width));
  *pixels = cr_image_pixels(&w->image);
  return CREMA_OK;
}

static crema_status load_pair(const seg_data_state *s, const cr_listed_item *item, cr_load *load) {
  static const char advice[] =
      "images of different sizes need new_height and new_width, crop_size or batch_size: 1";
  seg_worker *w = &s->worker[load->worker];
  cr_image_part part;
  bool mirror = false;
  cr_pixels pixels;
  int real[2];
  const double start = cr_clock_seconds();
  CR_TRY(prepare(s, w, item, &pixels, real));
  load->decode_seconds = cr_clock_seconds() - start;
  CR_TRY(cr_load_pixels(load, s->input.transformer, &pixels, item->sample, advice));
  CR_TRY(cr_transformer_crop(s->input.transformer, item->sample, w->image.height, w->image.width,
                             &part, &mirror));
  if (w->image.height != real[0] || w->image.width != real[1]) {
    clear_padding(load, &part, mirror, real);
  }
  if (load->batch->tops > 1) CR_TRY(put_label(s, item, load, w, real, &part, mirror));
  for (int i = 0; i < 2 && load->batch->tops > 2; ++i) {
    load->batch->top[2].values[2 * load->item + i] =
        fminf((float)real[i], (float)load->batch->top[0].shape.dim[2 + i]);
  }
  return CREMA_OK;
}

static crema_status in_line(const seg_data_state *s, const seg_line *line, crema_status status) {
  return cr_fail_in(status, "%s:%zu: %s", s->input.path, line->number, line->image);
}

static crema_status load_item(void *user, cr_load *load) {
  const seg_data_state *s = user;
  const cr_listed_item *item = cr_batch_item(load->batch, load->item);
  return in_line(s, &s->line[item->line], load_pair(s, item, load));
}

static const cr_source pair_source = {.take = cr_listed_input_take, .load = load_item};

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

/* Reads the list, and its first pair for the shape of a batch. */
static crema_status open_list(cr_layer *layer, seg_data_state *s, crema_blob *const *top) {
  const int64_t items = s->input.param->batch_size;
  int extent[3], real[2];
  cr_listed_item first;
  cr_pixels pixels;
  CR_TRY(read_lines(s));
  if (s->transform != NULL) s->pixels = *s->transform;
  s->pixels.n_scale_factors = 0;
  CR_TRY(cr_listed_input_open(layer, s->lines, s->transform != NULL ? &s->pixels : NULL));
  CR_TRY(CR_NEW(s->worker, s->input.threads, "decoding threads"));
  CR_TRY(cr_listed_input_at(&s->input, 0, &first));
  crema_status status = prepare(s, &s->worker[0], &first, &pixels, real);
  if (status == CREMA_OK) {
    status = cr_transformer_shape(s->input.transformer, pixels.channels, pixels.height,
                                  pixels.width, extent);
  }
  CR_TRY(in_line(s, &s->line[first.line], status));
  const crema_shape shape[3] = {cr_shape_4(items, extent[0], extent[1], extent[2]),
                                cr_shape_4(items, 1, extent[1], extent[2]),
                                cr_shape_4(items, 1, 1, 2)};
  return cr_listed_input_start(layer, &pair_source, shape, top);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  seg_data_state *s = layer->state;
  (void)bottom;
  CR_TRY(cr_listed_input_begin(layer));
  CR_TRY(check_fields(layer));
  s->transform = layer->param->transform_param;
  return cr_layer_in(layer, open_list(layer, s, top));
}

static void destroy(cr_layer *layer) {
  seg_data_state *s = layer->state;
  cr_batch_loader_close(&s->input.batches.loader);
  for (int i = 0; s->worker != NULL && i < s->input.threads; ++i) {
    seg_worker *w = &s->worker[i];
    cr_image_free(&w->padded);
    cr_image_free(&w->resized);
    cr_image_free(&w->map);
    cr_image_free(&w->image);
    cr_buffer_free(&w->file);
    cr_buffer_free(&w->path);
  }
  free(s->worker);
  cr_listed_input_free(&s->input);
  free(s->line);
  cr_buffer_free(&s->text);
}

const cr_layer_class cr_layer_image_seg_data = {
    CR_LAYER_INPUT("ImageSegData", sizeof(seg_data_state), 1, 3),
    .input = &cr_batch_input_class_with_epochs,
    .graph.shareable = true,
    .setup = setup,
    .forward = cr_batch_input_forward,
    .destroy = destroy,
};
