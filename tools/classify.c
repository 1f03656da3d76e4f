/* crema classify: image files in, the likeliest classes with their names out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "core/buffer.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "crema/preprocessing.h"
#include "device_flag.h"
#include "image_flags.h"
#include "net_flags.h"

typedef struct classify_options {
  const char *model, *weights, *labels, *precision, *table, *gpu, *math;
  int64_t top;
  cli_image_flags image;
  bool compiled, allow_missing;
} classify_options;

typedef struct classifier {
  classify_options options;
  crema_precision precision;
  crema_device *device; /* NULL: the CPU */
  crema_math math;
  cli_net opened;
  crema_net *net; /* of `opened` */
  crema_preprocessing *images;
  const char *const *name; /* the labels, of `images` */
  size_t count;
  cr_buffer model, weights; /* paths of the bundled model */
} classifier;

/* ---- the bundled model --------------------------------------------------- */

#define BUNDLED "squeezenet_v1.0"

/* The folder of the command's own file, with a slash at the end; "" when it is not known. */
static void find_own_folder(char *path, size_t size) {
  ssize_t length = readlink("/proc/self/exe", path, size - 1);
  path[length < 0 ? 0 : length] = '\0';
  char *slash = strrchr(path, '/');
  if (slash != NULL) slash[1] = '\0';
  else path[0] = '\0';
}

/* Tries the working directory, the source tree around a build folder, an installed tree. */
static crema_status find_bundled(cr_buffer *folder) {
  static const char *const places[] = {"../share/crema/models/", "../../models/"};
  char own[4096];
  find_own_folder(own, sizeof own);
  CR_TRY(cr_buffer_print(folder, "models/%s", BUNDLED));
  for (size_t i = 0; i <= sizeof places / sizeof *places; ++i) {
    cr_buffer file = {0};
    CR_TRY(cr_buffer_print(&file, "%s/deploy.prototxt", folder->data));
    bool found = cr_file_exists(file.data);
    cr_buffer_free(&file);
    if (found) return CREMA_OK;
    if (i == sizeof places / sizeof *places) break;
    cr_buffer_clear(folder);
    CR_TRY(cr_buffer_print(folder, "%s%s%s", own, places[i], BUNDLED));
  }
  return cr_fail(CREMA_E_NOT_FOUND,
                 "the model %s is not installed; give a network with -model and -weights", BUNDLED);
}

static crema_status use_bundled(classifier *c) {
  cr_buffer folder = {0};
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(find_bundled(&folder), out);
  CR_TRY_GOTO(cr_buffer_print(&c->model, "%s/deploy.prototxt", folder.data), out);
  CR_TRY_GOTO(cr_buffer_print(&c->weights, "%s/%s.caffemodel", folder.data, BUNDLED), out);
  classify_options *o = &c->options;
  o->model = c->model.data;
  if (o->weights == NULL) o->weights = c->weights.data;
out:
  cr_buffer_free(&folder);
  return status;
}

/* ---- setting up ---------------------------------------------------------- */

static crema_status open_net(classifier *c) {
  const classify_options *o = &c->options;
  if (o->compiled) {
    crema_model_options options;
    crema_model_options_init(&options);
    options.allow_missing = o->allow_missing;
    options.precision = c->precision;
    options.table = o->table;
    return cli_net_compile(o->model, o->weights, &options, c->device, c->math, &c->opened);
  }
  const crema_weights_options weights = {.allow_missing = o->allow_missing};
  crema_net_options plain;
  crema_net_options_init(&plain);
  plain.device = c->device;
  plain.math = c->math;
  CR_TRY(crema_net_load(o->model, &plain, &c->opened.net));
  if (o->weights == NULL) return CREMA_OK;
  return crema_net_load_weights_with(c->opened.net, o->weights, &weights);
}

static crema_status load_net(classifier *c) {
  CR_TRY(open_net(c));
  c->net = c->opened.net;
  if (crema_net_input_count(c->net) == 1 && crema_net_output_count(c->net) >= 1) return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT,
                 "%s: has %d inputs and %d outputs; classifying needs one Input layer and a result",
                 c->options.model, crema_net_input_count(c->net), crema_net_output_count(c->net));
}

/* Whether a blob has one number for each class of one image. */
static bool is_scores(const crema_shape *shape) {
  for (int i = 0; i < shape->axes; ++i) {
    if (i != 1 && shape->dim[i] != 1) return false;
  }
  return shape->axes >= 2 && shape->dim[1] > 1;
}

static const char *advice_for(const crema_net *net) {
  for (int i = 0; i < crema_net_layer_count(net); ++i) {
    if (strncmp(crema_net_layer_type(net, i), "Detection", 9) == 0) {
      return "the net finds boxes; crema test scores such a net, and extract_features stores boxes";
    }
  }
  return "crema extract_features stores the values of a blob";
}

static crema_status check_output(const classifier *c) {
  const crema_shape *shape = crema_blob_shape(crema_net_output(c->net, 0));
  char text[128];
  if (is_scores(shape)) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE,
                 "%s: the output '%s' has the shape %s, but classify needs one score per class; %s",
                 c->options.model, crema_net_output_name(c->net, 0),
                 crema_shape_text(shape, text, sizeof text), advice_for(c->net));
}

static crema_status set_up(classifier *c) {
  classify_options *o = &c->options;
  if (o->model == NULL) CR_TRY(use_bundled(c));
  CR_TRY(load_net(c));
  CR_TRY(cli_image_flags_fit(&o->image, o->model, c->net, &c->images));
  CR_TRY(check_output(c));
  if (o->labels != NULL) CR_TRY(crema_preprocessing_set_labels(c->images, o->labels));
  const int64_t classes = crema_blob_count(crema_net_output(c->net, 0));
  return crema_preprocessing_labels(c->images, classes, &c->name, &c->count);
}

/* ---- running ------------------------------------------------------------- */

/* Picks the best remaining class again and again, which is cheap because few are wanted. */
static crema_status print_best(const classifier *c, const float *score, size_t classes) {
  bool *taken = calloc(classes, sizeof *taken);
  if (taken == NULL) return cr_fail_memory(classes, "the classes");
  for (int64_t n = 0; n < c->options.top && n < (int64_t)classes; ++n) {
    size_t best = classes;
    for (size_t i = 0; i < classes; ++i) {
      if (!taken[i] && (best == classes || score[i] > score[best])) best = i;
    }
    taken[best] = true;
    if (best < c->count) printf("%.4f - \"%s\"\n", (double)score[best], c->name[best]);
    else printf("%.4f - class %zu\n", (double)score[best], best);
  }
  free(taken);
  return CREMA_OK;
}

static crema_status classify(const classifier *c, const char *path) {
  const float *score = NULL;
  CR_TRY(crema_preprocessing_load(c->images, path, crema_net_input(c->net, 0), 0));
  CR_TRY(crema_net_forward(c->net, NULL));
  crema_blob *output = crema_net_output(c->net, 0);
  CR_TRY(crema_blob_cpu_data(output, &score));
  const size_t classes = (size_t)crema_blob_count(output);
  size_t at = 0;
  while (at < classes && !isnan(score[at])) ++at;
  if (at < classes) {
    cr_log_warning("%s: the score of class %zu is NaN; is there a NaN in the weights or the mean?",
                   path, at);
  }
  printf("---------- Prediction for %s ----------\n", path);
  return print_best(c, score, classes);
}

static void free_classifier(classifier *c) {
  crema_preprocessing_destroy(c->images);
  cr_buffer_free(&c->weights);
  cr_buffer_free(&c->model);
  cli_net_close(&c->opened);
}

/* `image`: the first argument. */
static bool check_flags(classify_options *o, const char *image) {
  const char *ending = strrchr(image, '.');
  if (o->model != NULL && o->weights == NULL && !cli_is_onnx(o->model)) {
    cli_usage_error("classify: missing required flag -weights FILE, as -model is given");
  } else if (o->top < 1) {
    cli_usage_error("-top: expected a number above 0, found %lld", (long long)o->top);
  } else if (ending != NULL && (strcmp(ending, ".prototxt") == 0 || cli_is_onnx(image))) {
    cli_usage_error("classify: %s is a network, not an image; use -model %s", image, image);
  } else {
    return cli_image_flags_check(&o->image);
  }
  return false;
}

static const char help_text[] =
    "Prints the likeliest classes of each image. Without -model it uses the SqueezeNet that comes\n"
    "with crema (1000 classes of ImageNet). The flags for pixels and -labels override the\n"
    "transform_param of the network's Input layer and the file labels.txt or labels in its "
    "folder.\n"
    "The image is resized to -resize pixels per side and then cropped at its centre to the size\n"
    "of the network's input. Without -resize it is resized to that size at once.\n"
    "\n"
    "Examples:\n"
    "  crema classify examples/images/cat.jpg\n"
    "  crema classify -model deploy.prototxt -weights net.caffemodel -labels names.txt \\\n"
    "    -mean_value 104,117,123 -resize 256 *.jpg\n";

int crema_cmd_classify(int argc, char **argv) {
  classifier c = {.options = {.top = 5, .precision = "f32", .math = "exact"}};
  classify_options *o = &c.options;
  enum { OWN = 10 };
  cli_flag flags[OWN + CLI_IMAGE_FLAGS] = {
      {"model", CLI_FILE, &o->model, "the network (deploy form), or an .onnx file"},
      {"weights", CLI_FILE, &o->weights, "its .caffemodel; an .onnx file needs none"},
      {"labels", CLI_FILE, &o->labels, "names of the classes, one per line"},
      {"top", CLI_INT, &o->top, "how many classes to print"},
      {"gpu", CLI_DEVICE, &o->gpu, CLI_GPU_HELP},
      {"math", CLI_WORD, &o->math, CLI_MATH_HELP},
      {"compiled", CLI_BOOL, &o->compiled, CLI_COMPILED_HELP},
      {"precision", CLI_WORD, &o->precision, CLI_PRECISION_HELP},
      {"table", CLI_FILE, &o->table, CLI_TABLE_HELP},
      {"allow_missing", CLI_BOOL, &o->allow_missing, CLI_ALLOW_MISSING_HELP},
  };
  cli_image_flags_list(&o->image, &flags[OWN]);
  const cli_spec spec = {.command = "classify",
                         .arguments = "IMAGE...",
                         .min_arguments = 1,
                         .max_arguments = -1,
                         .help = help_text,
                         .flags = flags,
                         .flag_count = sizeof flags / sizeof *flags};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (!check_flags(o, argv[1]) || !cli_choose_precision(o->precision, &c.precision) ||
      !cli_choose_math(o->math, &c.math) || !cli_choose_first_device(o->gpu, &c.device)) {
    return 1;
  }
  if (c.precision != CREMA_PRECISION_F32) o->compiled = true;
  int code = set_up(&c) == CREMA_OK ? 0 : cli_fail();
  bool ready = code == 0;
  /* The command continues with the next image when one cannot be read. */
  for (int i = 1; ready && i < argc; ++i) {
    if (classify(&c, argv[i]) != CREMA_OK) code = cli_fail();
  }
  free_classifier(&c);
  return code;
}
