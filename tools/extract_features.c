/* crema extract_features: blobs of a network, computed over a data set, into databases or HDF5
 * files.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "core/fail.h"
#include "core/hdf5_api.h"
#include "core/log.h"
#include "crema/net.h"
#include "data/pipeline/hdf5_set.h"
#include "db_writer.h"
#include "device/registry.h"
#include "device_flag.h"
#include "image_flags.h"
#include "net_flags.h"

enum { MAX_FEATURES = 64 };

/* One blob and its output. */
typedef struct feature {
  char *blob_name, *path;
  crema_blob *blob;
  db_writer writer;
  cr_hdf5_writer *file; /* HDF5; NULL: not open */
} feature;

typedef struct extractor {
  cli_net opened;
  crema_net *net;              /* of `opened` */
  crema_preprocessing *images; /* with -images */
  bool hdf5;
  const char *backend;
  crema_device *device; /* NULL: the CPU */
  crema_math math;
  int count;
  feature feature[MAX_FEATURES];
  char *names, *paths; /* split in place */
} extractor;

typedef struct extract_flags {
  const char *weights, *model, *gpu, *math, *images;
  crema_weights_options options;
  bool compiled;
  cli_image_flags image;
} extract_flags;

/* ---- HDF5 ---------------------------------------------------------------- */

/* Adds to the data set named after the blob, which grows along its first axis. */
static crema_status hdf5_put(feature *f, const float *values) {
  crema_shape shape = *crema_blob_shape(f->blob);
  if (shape.axes == 0) shape = (crema_shape){.axes = 1, .dim = {1}};
  size_t count = (size_t)crema_shape_count(&shape, 0, shape.axes);
  CR_TRY(cr_hdf5_writer_reserve(f->file, count * sizeof *values));
  CR_TRY(cr_hdf5_writer_append(f->file, f->blob_name, &shape, CREMA_F32, values));
  return cr_hdf5_writer_flush(f->file);
}

/* ---- databases ----------------------------------------------------------- */

/* One Datum per item: extents of axes 1 to 3 (1 for missing axes), values as floats. */
static crema_status db_put(feature *f, const float *values) {
  const crema_shape *shape = crema_blob_shape(f->blob);
  int64_t items = shape->axes > 0 ? shape->dim[0] : 1;
  if (shape->axes > 4) {
    return cr_fail(CREMA_E_SHAPE, "%s: %d axes; a Datum has at most 3, without the batch",
                   f->blob_name, shape->axes);
  }
  int extent[3] = {1, 1, 1};
  for (int i = 1; i < shape->axes; ++i) extent[i - 1] = (int)shape->dim[i];
  size_t size = (size_t)extent[0] * (size_t)extent[1] * (size_t)extent[2];
  for (int64_t i = 0; i < items; ++i) {
    char key[24];
    snprintf(key, sizeof key, "%010" PRId64, f->writer.count);
    const cr_datum datum = {.channels = extent[0],
                            .height = extent[1],
                            .width = extent[2],
                            .floats = values + (size_t)i * size,
                            .float_count = size};
    CR_TRY(db_writer_put(&f->writer, key, &datum));
  }
  return CREMA_OK;
}

/* ---- all of it ----------------------------------------------------------- */

/* Splits "a,b,c"; the pieces stay in the text. Returns their number, -1 for too many. */
static int split(char *text, char **piece) {
  int count = 0;
  for (char *at = text; at != NULL;) {
    char *comma = strchr(at, ',');
    if (comma != NULL) *comma++ = '\0';
    if (count == MAX_FEATURES) return -1;
    piece[count++] = at;
    at = comma;
  }
  return count;
}

static crema_status read_lists(extractor *x, const char *names, const char *paths) {
  char *name[MAX_FEATURES], *path[MAX_FEATURES];
  x->names = strdup(names);
  x->paths = strdup(paths);
  if (x->names == NULL || x->paths == NULL) return cr_fail_memory(strlen(names), "names");
  int count = split(x->names, name);
  if (count < 1 || split(x->paths, path) != count) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "as many blobs as data sets are needed, at most %d: \"%s\" and \"%s\"",
                   MAX_FEATURES, names, paths);
  }
  for (int i = 0; i < count; ++i) {
    x->feature[i] = (feature){.blob_name = name[i], .path = path[i]};
  }
  x->count = count;
  return CREMA_OK;
}

static crema_status begin(extractor *x) {
  for (int i = 0; i < x->count; ++i) {
    feature *f = &x->feature[i];
    CR_TRY(crema_net_blob(x->net, f->blob_name, &f->blob));
    CR_TRY(x->hdf5 ? cr_hdf5_writer_open_new(f->path, &f->file)
                   : db_writer_begin(&f->writer, x->backend, f->path));
  }
  return CREMA_OK;
}

static crema_status run_batch(extractor *x) {
  CR_TRY(crema_net_forward(x->net, NULL));
  for (int i = 0; i < x->count; ++i) {
    const float *values = NULL;
    CR_TRY(crema_blob_cpu_data(x->feature[i].blob, &values));
    CR_TRY(x->hdf5 ? hdf5_put(&x->feature[i], values) : db_put(&x->feature[i], values));
  }
  return CREMA_OK;
}

/* One batch for each image of the list, and at most `batches`. */
static crema_status run_images(extractor *x, const char *list_path, int64_t batches) {
  cli_image_list list = {0};
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cli_image_list_read(list_path, &list), out);
  for (const char *path; batches > 0 && (path = cli_image_list_next(&list)) != NULL; --batches) {
    CR_TRY_GOTO(crema_preprocessing_load(x->images, path, crema_net_input(x->net, 0), 0), out);
    CR_TRY_GOTO(run_batch(x), out);
  }
out:
  cli_image_list_free(&list);
  return status;
}

static crema_status run_batches(extractor *x, const extract_flags *flags, int64_t batches) {
  if (flags->images != NULL) return run_images(x, flags->images, batches);
  cli_warn_of_inputs(flags->model, x->net, "-images gives images to it");
  for (int64_t k = 0; k < batches; ++k) CR_TRY(run_batch(x));
  return CREMA_OK;
}

static crema_status end(extractor *x, crema_status status) {
  for (int i = 0; i < x->count; ++i) {
    feature *f = &x->feature[i];
    if (!x->hdf5) status = db_writer_end(&f->writer, status);
    else if (f->file != NULL) status = cr_hdf5_writer_finish(f->file, status);
    if (status == CREMA_OK) cr_log_info("Extracted features of %s to %s", f->blob_name, f->path);
  }
  return status;
}

static crema_status open_net(extractor *x, const extract_flags *flags) {
  const char *keep[MAX_FEATURES];
  crema_model_options model;
  if (!flags->compiled) {
    crema_net_options plain;
    crema_net_options_init(&plain);
    plain.device = x->device;
    plain.math = x->math;
    CR_TRY(crema_net_load(flags->model, &plain, &x->opened.net));
    if (flags->weights == NULL) return CREMA_OK;
    return crema_net_load_weights_with(x->opened.net, flags->weights, &flags->options);
  }
  for (int i = 0; i < x->count; ++i) keep[i] = x->feature[i].blob_name;
  crema_model_options_init(&model);
  model.keep = keep;
  model.keep_count = (size_t)x->count;
  model.allow_missing = flags->options.allow_missing;
  return cli_net_compile(flags->model, flags->weights, &model, x->device, x->math, &x->opened);
}

static crema_status extract(extractor *x, extract_flags *flags, char **argv, int64_t batches) {
  CR_TRY(read_lists(x, argv[1], argv[2]));
  if (x->hdf5) CR_TRY(cr_hdf5_load());
  CR_TRY(open_net(x, flags));
  x->net = x->opened.net;
  if (flags->images != NULL) {
    CR_TRY(cli_image_flags_fit(&flags->image, flags->model, x->net, &x->images));
  }
  crema_status status = begin(x);
  if (status == CREMA_OK) status = run_batches(x, flags, batches);
  return end(x, status);
}

/* The last words of Caffe's tool, "CPU" or "GPU 1", instead of -gpu. */
static bool read_last_words(int argc, char **argv, const char **gpu) {
  static const char prefix[] = "DEVICE_ID=";
  if (argc <= 5) return true;
  const char *device = argc > 6 ? argv[6] : "0";
  if (strncmp(device, prefix, sizeof prefix - 1) == 0) device += sizeof prefix - 1;
  const bool is_gpu = strcasecmp(argv[5], "GPU") == 0;
  *gpu = is_gpu ? device : "";
  if (is_gpu && argc == 6 && crema_device_count(cr_registry_gpu_type()) == 0 &&
      crema_device_count(CREMA_DEVICE_SIM) == 0) {
    cr_log_warning("there is no GPU; running on the CPU");
    *gpu = "";
  }
  if (is_gpu || strcasecmp(argv[5], "CPU") == 0) return true;
  cli_usage_error("extract_features: expected CPU or GPU, found \"%s\"", argv[5]);
  return false;
}

static const char help_text[] =
    "Runs NET (phase TEST) with WEIGHTS for BATCHES batches and stores the values of the named\n"
    "blobs. BLOBS and OUTPUTS are lists with commas, one output for each blob. KIND is:\n"
    "  lmdb, leveldb  one Datum of floats per item; its key is the item's number in ten digits\n"
    "  hdf5           one dataset with the blob's name\n"
    "With -images, NET is a deploy net, and each image of the list is one batch, up to BATCHES.\n"
    "The transform_param of its Input layer says how pixels become values, as for classify.\n"
    "An .onnx file is a NET with its weights; WEIGHTS is omitted.\n"
    "The last arguments CPU, or GPU and a number, stand for -gpu, as in Caffe's tool.\n"
    "\n"
    "Example:\n"
    "  crema extract_features net.caffemodel net.prototxt fc7,prob fc7_lmdb,prob_lmdb 10 lmdb\n"
    "  crema extract_features -images list.txt net.caffemodel deploy.prototxt fc7 out 9 lmdb\n";

int crema_cmd_extract_features(int argc, char **argv) {
  extract_flags flags = {.gpu = "", .math = "exact"};
  enum { OWN = 7 };
  cli_flag list[OWN + CLI_IMAGE_FLAGS] = {
      {"weights", CLI_FILE, &flags.weights, "the net's .caffemodel"},
      {"model", CLI_FILE, &flags.model, "the net (text)"},
      {"images", CLI_FILE, &flags.images, "a file that lists image files, for a deploy net"},
      {"gpu", CLI_DEVICE, &flags.gpu, CLI_GPU_HELP},
      {"math", CLI_WORD, &flags.math, CLI_MATH_HELP},
      {"compiled", CLI_BOOL, &flags.compiled, CLI_COMPILED_HELP},
      {"allow_missing", CLI_BOOL, &flags.options.allow_missing, CLI_ALLOW_MISSING_HELP},
  };
  const cli_spec spec = {.command = "extract_features",
                         .arguments = "WEIGHTS NET BLOBS OUTPUTS BATCHES KIND [CPU|GPU] [N]",
                         .file_flag = {"weights", "model"},
                         .min_arguments = 4,
                         .max_arguments = 6,
                         .help = help_text,
                         .flags = list,
                         .flag_count = OWN + CLI_IMAGE_FLAGS};
  int exit_code;
  cli_image_flags_list(&flags.image, &list[OWN]);
  crema_weights_options_init(&flags.options);
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  char *rest = NULL;
  long long batches = strtoll(argv[3], &rest, 10);
  if (*rest != '\0' || batches < 1) {
    return cli_usage_error("BATCHES: expected a number above 0, found \"%s\"", argv[3]);
  }
  if (!cli_image_flags_check(&flags.image)) return 1;
  if (!db_writer_check_kind("KIND", argv[4], true)) return 1;
  crema_device *device = NULL;
  crema_math math;
  if (!cli_choose_math(flags.math, &math)) return 1;
  if (!read_last_words(argc, argv, &flags.gpu) || !cli_choose_first_device(flags.gpu, &device)) {
    return 1;
  }
  extractor *x = calloc(1, sizeof *x);
  if (x == NULL) return cli_error("out of memory");
  x->device = device;
  x->math = math;
  x->backend = argv[4];
  x->hdf5 = strcasecmp(argv[4], "hdf5") == 0 || strcasecmp(argv[4], "h5") == 0;
  crema_status status = extract(x, &flags, argv, batches);
  crema_preprocessing_destroy(x->images);
  cli_net_close(&x->opened);
  free(x->names);
  free(x->paths);
  free(x);
  return status == CREMA_OK ? 0 : cli_fail();
}
