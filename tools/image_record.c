#include "image_record.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/image/image_scaled.h"
#include "db_writer.h"

static crema_status check_side(const char *name, int64_t side) {
  if (side >= 0 && side <= CR_IMAGE_MAX_SIDE) return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT, "-%s %lld: expected 0 to %d", name, (long long)side,
                 CR_IMAGE_MAX_SIDE);
}

crema_status image_record_check(const image_record_options *options) {
  const int64_t height = options->resize_height, width = options->resize_width;
  if ((height > 0) != (width > 0) || height < 0 || width < 0 || height > CR_IMAGE_MAX_SIDE ||
      width > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "-resize_height %lld -resize_width %lld: give both, at most %d, or neither",
                   (long long)height, (long long)width, CR_IMAGE_MAX_SIDE);
  }
  CR_TRY(check_side("min_dim", options->min_dim));
  CR_TRY(check_side("max_dim", options->max_dim));
  if (height > 0 && (options->min_dim > 0 || options->max_dim > 0)) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "-resize_height and -resize_width exclude -min_dim and -max_dim");
  }
  return CREMA_OK;
}

/* ---- the size ------------------------------------------------------------ */

/* Enlarges a shorter side below min_dim, then bounds the longer one by max_dim. */
static void choose_size(const void *user, int height, int width, int *out_height, int *out_width) {
  const image_record_options *o = user;
  const int shorter = height < width ? height : width, longer = height < width ? width : height;
  double scale = 1;
  *out_height = height;
  *out_width = width;
  if (o->resize_height > 0) {
    *out_height = (int)o->resize_height;
    *out_width = (int)o->resize_width;
    return;
  }
  if (o->min_dim > shorter) scale = (double)o->min_dim / shorter;
  if (o->max_dim > 0 && (int64_t)(scale * longer) > o->max_dim) scale = (double)o->max_dim / longer;
  if (scale == 1) return;
  const int scaled_height = (int)(height * scale + 0.5), scaled_width = (int)(width * scale + 0.5);
  *out_height = scaled_height > 0 ? scaled_height : 1;
  *out_width = scaled_width > 0 ? scaled_width : 1;
}

/* ---- the record ---------------------------------------------------------- */

/* "jpg" or "png": as the option says, else the ending of the file's name. Files of other formats,
 * such as BMP, become PNG, which keeps their pixels. */
static crema_status choose_kind(const image_recorder *r, const char *name, const char **out) {
  const char *given = r->options->encode_type;
  if (given[0] == '\0') {
    const char *dot = strrchr(name, '.');
    if (dot == NULL) {
      return cr_fail(CREMA_E_ARGUMENT,
                     "%s: the format does not follow from the name; give -encode_type", name);
    }
    const bool jpeg = strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0;
    given = jpeg ? "jpg" : "png";
  }
  *out = strcasecmp(given, "jpeg") == 0 ? "jpg" : given;
  return CREMA_OK;
}

/* Whether the file itself can be the record: of the wanted kind, size and number of channels. */
static bool can_keep(const image_recorder *r, const char *kind, bool resized) {
  int height = 0, width = 0, channels = 0;
  const uint8_t *bytes = (const uint8_t *)r->file.data;
  const char *found = r->file.size > 1 && bytes[0] == 0xff ? "jpg" : "png";
  if (resized || strcasecmp(kind, found) != 0) return false;
  return cr_image_probe(bytes, r->file.size, &height, &width, &channels) == CREMA_OK &&
         (channels == 3) == !r->options->gray;
}

static crema_status encode_datum(image_recorder *r, const cr_image *image, const char *name,
                                 bool resized, cr_datum *datum) {
  const image_record_options *o = r->options;
  const cr_buffer *bytes = &r->file;
  if (!o->keep_file || o->gray || resized || o->encode_type[0] != '\0') {
    const char *kind = NULL;
    CR_TRY(choose_kind(r, name, &kind));
    if (!can_keep(r, kind, resized)) {
      cr_buffer_clear(&r->encoded);
      CR_TRY(cr_image_encode(image, kind, &r->encoded));
      bytes = &r->encoded;
    }
  }
  datum->data = (const uint8_t *)bytes->data;
  datum->size = bytes->size;
  datum->encoded = true;
  return CREMA_OK;
}

/* Interleaved pixels to planes. */
static crema_status raw_datum(image_recorder *r, const cr_image *image, cr_datum *datum) {
  size_t channels = (size_t)image->channels;
  size_t plane = (size_t)image->height * (size_t)image->width;
  if (plane * channels > r->plane_capacity) {
    free(r->planes);
    r->planes = malloc(plane * channels);
    r->plane_capacity = r->planes == NULL ? 0 : plane * channels;
    if (r->planes == NULL) return cr_fail_memory(plane * channels, "an image");
  }
  for (size_t k = 0; k < channels; ++k) {
    for (size_t i = 0; i < plane; ++i) r->planes[k * plane + i] = image->pixels[i * channels + k];
  }
  datum->channels = image->channels;
  datum->height = image->height;
  datum->width = image->width;
  datum->data = r->planes;
  datum->size = plane * channels;
  return CREMA_OK;
}

static crema_status check_size(image_recorder *r, const cr_image *image) {
  if (!r->options->check_size) return CREMA_OK;
  size_t count = (size_t)image->height * (size_t)image->width * (size_t)image->channels;
  if (r->first_count == 0) r->first_count = count;
  if (count == r->first_count) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "%s: %zu values, the first image has %zu", r->path.data, count,
                 r->first_count);
}

/* *resized: the image differs from the file's in size, or the user gave its size. */
static crema_status read_image(image_recorder *r, cr_image **out, bool *resized) {
  const image_record_options *o = r->options;
  const cr_image_sizer sizer = {choose_size, o, o->exact_resize};
  const uint8_t *bytes = (const uint8_t *)r->file.data;
  int channels = 0;
  *out = &r->raw;
  CR_TRY(cr_image_probe(bytes, r->file.size, &r->height, &r->width, &channels));
  CR_TRY(cr_image_decode_to(bytes, r->file.size, o->gray ? CR_IMAGE_GRAY : CR_IMAGE_COLOR, &sizer,
                            &r->raw, &r->resized, out));
  *resized = o->resize_height > 0 || (*out)->height != r->height || (*out)->width != r->width;
  return CREMA_OK;
}

crema_status image_record_make(image_recorder *r, const char *name, cr_datum *datum,
                               const cr_image **values) {
  cr_image *image = NULL;
  bool resized = false;
  *datum = (cr_datum){.has_encoded = true};
  cr_buffer_clear(&r->file);
  CR_TRY(db_writer_path(r->root, name, &r->path));
  CR_TRY(cr_file_read(r->path.data, &r->file));
  crema_status status = read_image(r, &image, &resized);
  if (status != CREMA_OK) return cr_fail_in(status, "%s", r->path.data);
  CR_TRY(check_size(r, image));
  if (values != NULL) *values = image;
  if (r->options->encoded) return encode_datum(r, image, name, resized, datum);
  return raw_datum(r, image, datum);
}

void image_recorder_free(image_recorder *r) {
  free(r->planes);
  cr_buffer_free(&r->encoded);
  cr_buffer_free(&r->file);
  cr_buffer_free(&r->path);
  cr_image_free(&r->resized);
  cr_image_free(&r->raw);
}

void image_record_shuffle(void *entries, size_t count, size_t size, int64_t seed) {
  cr_mt19937 rng;
  char *at = entries;
  cr_mt19937_seed(&rng, seed < 0 ? cr_random_seed() : (uint32_t)seed);
  for (size_t i = count; i > 1 && i <= UINT32_MAX; --i) {
    char *a = at + cr_mt19937_below(&rng, (uint32_t)i) * size, *b = at + (i - 1) * size;
    for (size_t k = 0; k < size; ++k) {
      const char swap = a[k];
      a[k] = b[k];
      b[k] = swap;
    }
  }
}
