/* crema convert_imageset: image files named in a list to a database of Datum. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/image/image.h"
#include "data/image/image_scaled.h"
#include "data/pipeline/image_list.h"
#include "db_writer.h"

typedef struct convert_options {
  bool gray, shuffle, check_size, encoded, exact_resize, skip_corrupt;
  const char *backend, *encode_type;
  int64_t resize_width, resize_height, seed;
} convert_options;

typedef struct converter {
  const convert_options *options;
  const char *root;
  cr_image_list list;
  cr_image raw, resized;
  cr_buffer file, encoded, path, key;
  uint8_t *planes; /* channel-major copy of the pixels */
  size_t plane_capacity;
  size_t first_size;
  int64_t skipped;
  db_writer writer;
} converter;

/* ---- the list ------------------------------------------------------------ */

/* Fisher and Yates. */
static void shuffle_list(cr_image_list *list, int64_t seed) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed < 0 ? cr_random_seed() : (uint32_t)seed);
  for (size_t i = list->count; i > 1 && i <= UINT32_MAX; --i) {
    size_t k = cr_mt19937_below(&rng, (uint32_t)i);
    cr_list_entry swap = list->entry[k];
    list->entry[k] = list->entry[i - 1];
    list->entry[i - 1] = swap;
  }
}

/* ---- one image ----------------------------------------------------------- */

/* "jpg" or "png": as the flag says, else the ending of the file's name. */
static crema_status choose_kind(const converter *c, const char *name, const char **out) {
  const char *given = c->options->encode_type;
  if (given[0] == '\0') {
    const char *dot = strrchr(name, '.');
    if (dot == NULL) {
      return cr_fail(CREMA_E_ARGUMENT,
                     "%s: the format does not follow from the name; give -encode_type", name);
    }
    given = dot + 1;
  }
  *out = strcasecmp(given, "jpeg") == 0 ? "jpg" : given;
  return CREMA_OK;
}

/* Whether the file itself can be the record: of the wanted kind, size and number of channels. */
static bool can_keep(const converter *c, const char *kind, bool resized) {
  int height = 0, width = 0, channels = 0;
  const uint8_t *bytes = (const uint8_t *)c->file.data;
  const char *found = c->file.size > 1 && bytes[0] == 0xff ? "jpg" : "png";
  if (resized || strcasecmp(kind, found) != 0) return false;
  return cr_image_probe(bytes, c->file.size, &height, &width, &channels) == CREMA_OK &&
         (channels == 3) == !c->options->gray;
}

static crema_status encode_datum(converter *c, const cr_image *image, const char *name,
                                 bool resized, cr_datum *datum) {
  const char *kind = NULL;
  CR_TRY(choose_kind(c, name, &kind));
  const cr_buffer *bytes = &c->file;
  if (!can_keep(c, kind, resized)) {
    cr_buffer_clear(&c->encoded);
    CR_TRY(cr_image_encode(image, kind, &c->encoded));
    bytes = &c->encoded;
  }
  datum->data = (const uint8_t *)bytes->data;
  datum->size = bytes->size;
  datum->encoded = true;
  return CREMA_OK;
}

/* Interleaved pixels to planes. */
static crema_status raw_datum(converter *c, const cr_image *image, cr_datum *datum) {
  size_t channels = (size_t)image->channels;
  size_t plane = (size_t)image->height * (size_t)image->width;
  if (plane * channels > c->plane_capacity) {
    free(c->planes);
    c->planes = malloc(plane * channels);
    c->plane_capacity = c->planes == NULL ? 0 : plane * channels;
    if (c->planes == NULL) return cr_fail_memory(plane * channels, "an image");
  }
  for (size_t k = 0; k < channels; ++k) {
    for (size_t i = 0; i < plane; ++i) c->planes[k * plane + i] = image->pixels[i * channels + k];
  }
  datum->channels = image->channels;
  datum->height = image->height;
  datum->width = image->width;
  datum->data = c->planes;
  datum->size = plane * channels;
  return CREMA_OK;
}

/* Reads the file at c->path, decodes it (also when its bytes are kept, as a check) and fills
 * `datum`, which points into the converter's memory. */
static crema_status make_datum(converter *c, const cr_list_entry *entry, cr_datum *datum) {
  const convert_options *options = c->options;
  cr_buffer_clear(&c->file);
  CR_TRY(cr_file_read(c->path.data, &c->file));
  cr_image_color color = options->gray ? CR_IMAGE_GRAY : CR_IMAGE_COLOR;
  bool resized = options->resize_width > 0 && options->resize_height > 0;
  const cr_image_size size = {(int)options->resize_height, (int)options->resize_width,
                              options->exact_resize};
  const cr_image_sizer sizer = cr_image_sizer_of(&size);
  const uint8_t *bytes = (const uint8_t *)c->file.data;
  cr_image *image = &c->raw;
  crema_status status =
      resized ? cr_image_decode_to(bytes, c->file.size, color, &sizer, &c->raw, &c->resized, &image)
              : cr_image_decode(bytes, c->file.size, color, &c->raw);
  if (status != CREMA_OK) return cr_fail_in(status, "%s", c->path.data);
  *datum = (cr_datum){.label = entry->label, .has_encoded = true};
  if (options->encoded) return encode_datum(c, image, entry->name, resized, datum);
  return raw_datum(c, image, datum);
}

static crema_status check_size(converter *c, const cr_datum *datum) {
  if (!c->options->check_size || datum->encoded) return CREMA_OK;
  if (c->first_size == 0) c->first_size = datum->size;
  if (datum->size == c->first_size) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "%s: %zu values, the first image has %zu", c->path.data,
                 datum->size, c->first_size);
}

static crema_status convert_one(converter *c, size_t number, const cr_list_entry *entry) {
  cr_datum datum;
  CR_TRY(db_writer_path(c->root, entry->name, &c->path));
  crema_status status = make_datum(c, entry, &datum);
  bool unreadable = status == CREMA_E_CORRUPT || status == CREMA_E_UNSUPPORTED ||
                    status == CREMA_E_NOT_FOUND || status == CREMA_E_IO;
  if (unreadable && c->options->skip_corrupt) {
    cr_log_warning("%s; skipped", crema_error_text());
    ++c->skipped;
    return CREMA_OK;
  }
  if (status != CREMA_OK) return cr_fail_in(status, "%s:%zu", c->list.path, entry->line);
  CR_TRY(check_size(c, &datum));
  CR_TRY(db_writer_key(number, entry->name, &c->key));
  return db_writer_put(&c->writer, c->key.data, &datum);
}

/* ---- all of them --------------------------------------------------------- */

static crema_status check_options(const convert_options *options) {
  const int64_t height = options->resize_height, width = options->resize_width;
  if ((height > 0) != (width > 0) || height < 0 || width < 0 || height > CR_IMAGE_MAX_SIDE ||
      width > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "-resize_height %lld -resize_width %lld: give both, at most %d, or neither",
                   (long long)height, (long long)width, CR_IMAGE_MAX_SIDE);
  }
  return CREMA_OK;
}

static crema_status convert(converter *c, const char *list_path, const char *db_path) {
  CR_TRY(check_options(c->options));
  CR_TRY(cr_image_list_read(list_path, &c->list));
  if (c->options->shuffle) {
    cr_log_info("Shuffling data");
    shuffle_list(&c->list, c->options->seed);
  }
  cr_log_info("A total of %zu %s.", c->list.count, c->list.count == 1 ? "image" : "images");
  crema_status status = db_writer_begin(&c->writer, c->options->backend, db_path);
  for (size_t i = 0; i < c->list.count && status == CREMA_OK; ++i) {
    status = convert_one(c, i, &c->list.entry[i]);
  }
  status = db_writer_end(&c->writer, status);
  if (c->skipped > 0) cr_log_warning("%lld files were skipped", (long long)c->skipped);
  return status;
}

static void free_converter(converter *c) {
  free(c->planes);
  cr_buffer_free(&c->key);
  cr_buffer_free(&c->path);
  cr_buffer_free(&c->encoded);
  cr_buffer_free(&c->file);
  cr_image_free(&c->resized);
  cr_image_free(&c->raw);
  cr_image_list_free(&c->list);
}

static const char help_text[] =
    "Makes a database of the images in LIST. Each line of LIST has a file name, relative to ROOT,\n"
    "and a label. Record n has the key <n in eight digits>_<file name>. Images are stored as\n"
    "pixels, or with -encoded as JPEG or PNG files: the original file if it can stay as it is.\n"
    "A JPEG of at least twice the wanted size is decoded at a reduced size, which averages "
    "pixels;\n"
    "-exact_resize decodes it whole and resizes it, as Caffe does.\n"
    "A file that cannot be read stops the command; -skip_corrupt skips it.\n"
    "\n"
    "Example:\n"
    "  crema convert_imageset -resize_height 256 -resize_width 256 -shuffle \\\n"
    "    images/ train.txt train_lmdb\n";

int crema_cmd_convert_imageset(int argc, char **argv) {
  convert_options o = {.backend = "lmdb", .encode_type = "", .seed = -1};
  const cli_flag flags[] = {
      {"gray", CLI_BOOL, &o.gray, "store one channel"},
      {"shuffle", CLI_BOOL, &o.shuffle, "shuffle the list"},
      {"seed", CLI_INT, &o.seed, "seed of -shuffle; below 0: another order each time"},
      {"backend", CLI_WORD, &o.backend, "kind of database: lmdb, leveldb"},
      {"resize_width", CLI_INT, &o.resize_width, "width to resize to; 0: none"},
      {"resize_height", CLI_INT, &o.resize_height, "height to resize to; 0: none"},
      {"exact_resize", CLI_BOOL, &o.exact_resize, "decode large JPEGs whole, as Caffe does"},
      {"check_size", CLI_BOOL, &o.check_size, "fail when images have different sizes"},
      {"encoded", CLI_BOOL, &o.encoded, "store image files instead of pixels"},
      {"encode_type", CLI_WORD, &o.encode_type, "jpg or png; by default as the file's name says"},
      {"skip_corrupt", CLI_BOOL, &o.skip_corrupt, "skip files that cannot be read, with a warning"},
  };
  const cli_spec spec = {.command = "convert_imageset",
                         .arguments = "ROOT LIST DB",
                         .min_arguments = 3,
                         .max_arguments = 3,
                         .help = help_text,
                         .flags = flags,
                         .flag_count = sizeof flags / sizeof *flags};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (!db_writer_check_kind("-backend", o.backend, false)) return 1;
  if (o.encode_type[0] != '\0') o.encoded = true;
  converter c = {.options = &o, .root = argv[1]};
  crema_status status = convert(&c, argv[2], argv[3]);
  free_converter(&c);
  return status == CREMA_OK ? 0 : cli_fail();
}
