/* crema calibrate: the scales with which a net computes in int8. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "core/fail.h"
#include "crema/net.h"
#include "device_flag.h"
#include "image_flags.h"
#include "infer/calibrate.h"
#include "net_flags.h"

typedef struct calibrate_flags {
  const char *model, *weights, *method, *out, *images, *gpu;
  int64_t iterations;
  bool allow_missing;
  cli_image_flags image;
} calibrate_flags;

static bool choose_method(const char *text, cr_calibrate_method *out) {
  static const char *const words[] = {"minmax", "percentile", "kl"};
  const int found = cli_find_word("-method", text, words, 3);
  if (found >= 0) *out = (cr_calibrate_method)found;
  return found >= 0;
}

static crema_status run_images(cr_calibration *c, crema_net *net, calibrate_flags *flags) {
  int64_t count = 0;
  cli_image_list list = {0};
  crema_preprocessing *images = NULL;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cli_image_list_read(flags->images, &list), out);
  CR_TRY_GOTO(cli_image_flags_fit(&flags->image, flags->model, net, &images), out);
  for (const char *path; count < flags->iterations && (path = cli_image_list_next(&list)) != NULL;
       ++count) {
    CR_TRY_GOTO(crema_preprocessing_load(images, path, crema_net_input(net, 0), 0), out);
    CR_TRY_GOTO(cr_calibration_run(c), out);
  }
out:
  crema_preprocessing_destroy(images);
  cli_image_list_free(&list);
  return status;
}

static crema_status run(cr_calibration *c, crema_net *net, calibrate_flags *flags) {
  crema_status status = CREMA_OK;
  if (flags->images != NULL) return run_images(c, net, flags);
  for (int64_t i = 0; i < flags->iterations && status == CREMA_OK; ++i) {
    status = cr_calibration_run(c);
  }
  return status;
}

static crema_status calibrate(calibrate_flags *flags, cr_calibrate_method method,
                              crema_device *device) {
  crema_net_options options;
  crema_net *net = NULL;
  cr_calibration *c = NULL;
  const crema_weights_options weights = {.allow_missing = flags->allow_missing};
  crema_status status = CREMA_OK;
  crema_net_options_init(&options);
  options.phase = CREMA_TEST;
  options.device = device;
  CR_TRY_GOTO(cr_file_draft_check(flags->out), out);
  CR_TRY_GOTO(crema_net_load(flags->model, &options, &net), out);
  if (flags->weights != NULL) {
    CR_TRY_GOTO(crema_net_load_weights_with(net, flags->weights, &weights), out);
  }
  CR_TRY_GOTO(cr_calibration_create(net, &c), out);
  CR_TRY_GOTO(run(c, net, flags), out);
  CR_TRY_GOTO(cr_calibration_write(c, method, flags->out), out);
  printf("%s: scales of %d layers\n", flags->out, cr_calibration_layers(c));
out:
  cr_calibration_destroy(c);
  crema_net_destroy(net);
  return status;
}

static const char help_text[] =
    "Runs a network on its own data, or on the images that a list names, one path per line. "
    "Writes\n"
    "the ranges of the inputs of convolutions, inner products and sums: the table for -precision\n"
    "int8 of other commands, in the format of ncnn's tools. A layer without a line in the table\n"
    "computes in FLOAT.\n"
    "\n"
    "Methods:\n"
    "  minmax      the largest value\n"
    "  percentile  the value that 99.99 % of the values stay below\n"
    "  kl          the value for which int8 has the least Kullback-Leibler divergence\n"
    "\n"
    "Examples:\n"
    "  crema calibrate train_val.prototxt -weights net.caffemodel -iterations 10 -out net.table\n"
    "  crema calibrate deploy.prototxt -weights net.caffemodel -images list.txt \\\n"
    "    -mean_value 104,117,123 -resize 256 -out net.table\n";

int crema_cmd_calibrate(int argc, char **argv) {
  calibrate_flags flags = {.method = "kl", .iterations = 100};
  enum { OWN = 8 };
  cli_flag list[OWN + CLI_IMAGE_FLAGS] = {
      {"model", CLI_FILE, &flags.model, "the net (text)"},
      {"weights", CLI_FILES, &flags.weights, "the net's weights; files separated by commas"},
      {"iterations", CLI_INT, &flags.iterations, "batches, or images, to look at"},
      {"method", CLI_WORD, &flags.method, "minmax, percentile or kl"},
      {"out", CLI_FILE, &flags.out, "the table to write"},
      {"images", CLI_FILE, &flags.images, "a file that lists image files"},
      {"gpu", CLI_DEVICE, &flags.gpu, CLI_GPU_HELP},
      {"allow_missing", CLI_BOOL, &flags.allow_missing, CLI_ALLOW_MISSING_HELP},
  };
  cli_image_flags_list(&flags.image, &list[OWN]);
  const cli_spec spec = {.command = "calibrate",
                         .arguments = "NET",
                         .file_flag = {"model"},
                         .required = {"weights", "out"},
                         .help = help_text,
                         .flags = list,
                         .flag_count = OWN + CLI_IMAGE_FLAGS};
  cr_calibrate_method method;
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (flags.iterations < 1) return cli_usage_error("-iterations: expected a number above 0");
  if (!choose_method(flags.method, &method) || !cli_image_flags_check(&flags.image)) return 1;
  crema_device *device = NULL;
  if (!cli_choose_first_device(flags.gpu, &device)) return 1;
  return calibrate(&flags, method, device) == CREMA_OK ? 0 : cli_fail();
}
