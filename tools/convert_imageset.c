/* crema convert_imageset: image files named in a list to a database of Datum. */
#include "cli.h"
#include "core/fail.h"
#include "core/log.h"
#include "data/pipeline/image_list.h"
#include "db_writer.h"
#include "image_record.h"

typedef struct convert_options {
  bool shuffle, skip_corrupt;
  const char *backend;
  int64_t seed;
} convert_options;

typedef struct converter {
  const convert_options *options;
  cr_image_list list;
  image_recorder recorder;
  cr_buffer key;
  int64_t skipped;
  db_writer writer;
} converter;

static crema_status convert_one(converter *c, size_t number, const cr_list_entry *entry) {
  cr_datum datum;
  crema_status status = image_record_make(&c->recorder, entry->name, &datum, NULL);
  bool unreadable = status == CREMA_E_CORRUPT || status == CREMA_E_UNSUPPORTED ||
                    status == CREMA_E_NOT_FOUND || status == CREMA_E_IO;
  if (unreadable && c->options->skip_corrupt) {
    cr_log_warning("%s; skipped", crema_error_text());
    ++c->skipped;
    return CREMA_OK;
  }
  if (status != CREMA_OK) return cr_fail_in(status, "%s:%zu", c->list.path, entry->line);
  datum.label = entry->label;
  CR_TRY(db_writer_key(number, entry->name, &c->key));
  return db_writer_put(&c->writer, c->key.data, &datum);
}

/* ---- all of them --------------------------------------------------------- */

static crema_status convert(converter *c, const char *list_path, const char *db_path) {
  CR_TRY(image_record_check(c->recorder.options));
  CR_TRY(cr_image_list_read(list_path, &c->list));
  if (c->options->shuffle) {
    cr_log_info("Shuffling data");
    image_record_shuffle(c->list.entry, c->list.count, sizeof *c->list.entry, c->options->seed);
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
  cr_buffer_free(&c->key);
  image_recorder_free(&c->recorder);
  cr_image_list_free(&c->list);
}

static const char help_text[] =
    "Makes a database of the images in LIST. Each line of LIST has a file name, relative to ROOT,\n"
    "and a label. Record n has the key <n in eight digits>_<file name>. Images are stored as\n"
    "pixels, or with -encoded as files: the original file if it can stay as it is.\n"
    "A JPEG of at least twice the wanted size is decoded at a reduced size, which averages "
    "pixels;\n"
    "-exact_resize decodes it whole and resizes it, as Caffe does.\n"
    "A file that cannot be read stops the command; -skip_corrupt skips it.\n"
    "\n"
    "Example:\n"
    "  crema convert_imageset -resize_height 256 -resize_width 256 -shuffle \\\n"
    "    images/ train.txt train_lmdb\n";

int crema_cmd_convert_imageset(int argc, char **argv) {
  convert_options o = {.backend = "lmdb", .seed = -1};
  image_record_options image = {.encode_type = ""};
  const cli_flag flags[] = {
      {"gray", CLI_BOOL, &image.gray, "store one channel"},
      {"shuffle", CLI_BOOL, &o.shuffle, "shuffle the list"},
      {"seed", CLI_INT, &o.seed, "seed of -shuffle; below 0: another order each time"},
      {"backend", CLI_WORD, &o.backend, "kind of database: lmdb, leveldb"},
      {"resize_width", CLI_INT, &image.resize_width, "width to resize to; 0: none"},
      {"resize_height", CLI_INT, &image.resize_height, "height to resize to; 0: none"},
      {"exact_resize", CLI_BOOL, &image.exact_resize, "decode large JPEGs whole, as Caffe does"},
      {"check_size", CLI_BOOL, &image.check_size, "fail when images have different sizes"},
      {"encoded", CLI_BOOL, &image.encoded, "store image files instead of pixels"},
      {"encode_type", CLI_WORD, &image.encode_type,
       "jpg or png; default: as the file's name ends, else png"},
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
  if (image.encode_type[0] != '\0') image.encoded = true;
  converter c = {.options = &o, .recorder = {.options = &image, .root = argv[1]}};
  crema_status status = convert(&c, argv[2], argv[3]);
  free_converter(&c);
  return status == CREMA_OK ? 0 : cli_fail();
}
