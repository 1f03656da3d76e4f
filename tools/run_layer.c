/* `crema run_layer`: one layer by itself. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blob_dump.h"
#include "cli.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/hdf5_reader.h"
#include "core/rng.h"
#include "device_flag.h"
#include "grad_check.h"
#include "layer_net.h"
#include "net/net.h"
#include "net_view.h"

typedef struct run_flags {
  const char *input, *fill, *weights, *phase, *gpu, *math, *plugin, *folder;
  int64_t labels, seed, iterations, values;
  double tolerance;
  bool check, warn_unknown_fields;
} run_flags;

static const cr_net_layer *last_layer(const crema_net *net) {
  return &net->layer[net->layers - 1];
}

/* ---- the inputs ---------------------------------------------------------- */

/* Whether the input says where the sequences of a recurrent layer begin: 0 at their first step. */
static bool is_marks(const crema_net *net, const char *name) {
  const Caffe__LayerParameter *param = last_layer(net)->layer->param;
  return param->recurrent_param != NULL && param->n_bottom > 1 &&
         strcmp(param->bottom[1], name) == 0;
}

/* The number of classes for an input that holds labels; 0: it holds other values. */
static int64_t classes_of(const crema_net *net, const char *name, int64_t labels) {
  const cr_net_layer *layer = last_layer(net);
  const cr_layer *self = layer->layer;
  const Caffe__LayerParameter *param = self->param;
  for (size_t j = 0; j < param->n_bottom && j < 32; ++j) {
    if (strcmp(param->bottom[j], name) != 0) continue;
    if ((self->kind->no_gradient_bottoms >> j & 1u) == 0) return 0;
    if (labels > 0) return labels;
    if (param->embed_param != NULL) return (int64_t)param->embed_param->input_dim;
    const crema_shape *first = crema_blob_shape(layer->bottom[0]);
    return j > 0 && first->axes > 1 ? first->dim[1] : 2;
  }
  return 0;
}

static crema_status fill_from_file(crema_net *net, const char *path) {
  cr_hdf5_reader *file;
  crema_status status = CREMA_OK;
  CR_TRY(cr_hdf5_reader_open(path, &file));
  for (int i = 0; i < crema_net_input_count(net) && status == CREMA_OK; ++i) {
    char name[1024];
    float *values;
    crema_blob *blob = crema_net_input(net, i);
    snprintf(name, sizeof name, "/blobs/%s/data", crema_net_input_name(net, i));
    CR_TRY_GOTO(crema_blob_mutable_cpu_data(blob, &values), out);
    status = cr_fail_in(cr_hdf5_read(file, name, CR_HDF5_F32, values,
                                     (uint64_t)crema_blob_count(blob) * sizeof *values),
                        "%s", path);
  }
out:
  cr_hdf5_reader_close(file);
  return status;
}

/* `classes`: see classes_of. `how`: the first letter of counting, positive or random. */
static void fill_values(float *values, int64_t count, int64_t classes, char how, cr_mt19937 *rng) {
  for (int64_t k = 0; k < count; ++k) {
    if (how == 'c') values[k] = (float)(classes > 0 ? k % classes : k);
    else if (classes > 0) values[k] = (float)cr_mt19937_below(rng, (uint32_t)classes);
    else if (how == 'p') values[k] = 0.1f + 0.9f * cr_mt19937_uniform(rng);
    else values[k] = 2 * cr_mt19937_uniform(rng) - 1;
  }
}

static crema_status fill_inputs(crema_net *net, const run_flags *flags) {
  const char first = flags->fill[0]; /* checked: of counting, positive or random */
  cr_mt19937 rng;
  if (cli_is_dump(flags->input)) return fill_from_file(net, flags->input);
  cr_mt19937_seed(&rng, (uint32_t)flags->seed);
  for (int i = 0; i < crema_net_input_count(net); ++i) {
    float *values;
    crema_blob *blob = crema_net_input(net, i);
    const char *name = crema_net_input_name(net, i);
    const int64_t count = crema_blob_count(blob);
    const crema_shape *shape = crema_blob_shape(blob);
    CR_TRY(crema_blob_mutable_cpu_data(blob, &values));
    if (is_marks(net, name) && shape->axes > 0) {
      for (int64_t k = 0; k < count; ++k) values[k] = k >= count / shape->dim[0];
    } else {
      fill_values(values, count, classes_of(net, name, flags->labels), first, &rng);
    }
  }
  return CREMA_OK;
}

/* Parameters that the text leaves all zero would hide most faults. */
static crema_status fill_params(crema_net *net, const run_flags *flags) {
  const cr_layer *layer = last_layer(net)->layer;
  cr_mt19937 rng;
  if (flags->weights[0] != '\0' || layer->kind->graph.statistics) return CREMA_OK;
  cr_mt19937_seed(&rng, (uint32_t)flags->seed + 1);
  for (int p = 0; p < layer->params; ++p) {
    double most;
    float *values;
    CR_TRY(crema_blob_amax_data(layer->blob[p], &most));
    if (most != 0) continue;
    CR_TRY(crema_blob_mutable_cpu_data(layer->blob[p], &values));
    for (int64_t k = 0; k < crema_blob_count(layer->blob[p]); ++k) {
      values[k] = cr_mt19937_uniform(&rng) - 0.5f;
    }
    printf("param %d is all 0 in the text and gets random values\n", p);
  }
  return CREMA_OK;
}

/* ---- the report ----------------------------------------------------- */

static crema_status print_blob(const char *kind, const char *name, crema_blob *blob) {
  const void *data;
  char shape[256];
  double least = INFINITY, most = -INFINITY, sum = 0;
  int64_t nans = 0, infinite = 0;
  const int64_t count = crema_blob_count(blob);
  CR_TRY(crema_blob_data_as(blob, CREMA_F64, &data));
  for (int64_t k = 0; k < count; ++k) {
    const double value = ((const double *)data)[k];
    if (isnan(value)) ++nans;
    else if (isinf(value)) ++infinite;
    if (!isfinite(value)) continue;
    least = fmin(least, value);
    most = fmax(most, value);
    sum += value;
  }
  cli_view_shape_text(blob, shape, sizeof shape);
  printf("%-7s %-16s %-20s", kind, name, shape);
  const int64_t finite = count - nans - infinite;
  if (finite > 0) printf(" min %.6g max %.6g mean %.6g", least, most, sum / (double)finite);
  if (infinite > 0) printf(" infinite %" PRId64, infinite);
  printf(" NaN %" PRId64 "\n", nans);
  return CREMA_OK;
}

static crema_status print_values(crema_net *net) {
  const cr_net_layer *layer = last_layer(net);
  for (int p = 0; p < layer->layer->params; ++p) {
    char name[16];
    snprintf(name, sizeof name, "%d", p);
    CR_TRY(print_blob("param", name, layer->layer->blob[p]));
  }
  for (int j = 0; j < layer->layer->tops; ++j) {
    CR_TRY(print_blob("top", crema_net_blob_name(net, layer->top_id[j]), layer->top[j]));
  }
  return CREMA_OK;
}

/* Mean times of the layer's own passes. Inputs are filled before each, for a layer in place. */
static crema_status time_passes(crema_net *net, const run_flags *flags, bool backward) {
  double sum[2] = {0, 0};
  const int last = net->layers - 1;
  for (int64_t i = 0; i < flags->iterations; ++i) {
    CR_TRY(fill_inputs(net, flags));
    if (last > 0) CR_TRY(crema_net_forward_range(net, 0, last - 1, NULL));
    CR_TRY(crema_context_finish(net->context));
    const double begin = cr_clock_seconds();
    CR_TRY(crema_net_forward_range(net, last, last, NULL));
    CR_TRY(crema_context_finish(net->context));
    const double middle = cr_clock_seconds();
    if (backward) CR_TRY(crema_net_backward_range(net, last, last));
    CR_TRY(crema_context_finish(net->context));
    sum[0] += middle - begin;
    sum[1] += cr_clock_seconds() - middle;
  }
  const double scale = 1e3 / (double)flags->iterations;
  printf("time    forward %.4g ms", sum[0] * scale);
  if (backward) printf(", backward %.4g ms", sum[1] * scale);
  printf(" (mean of %" PRId64 ")\n", flags->iterations);
  return CREMA_OK;
}

/* ---- the run ------------------------------------------------------------- */

/* All tops but losses get gradients of 1. */
static crema_status seed_gradients(crema_net *net) {
  const cr_net_layer *layer = last_layer(net);
  for (int j = 0; j < layer->layer->tops; ++j) {
    float *diff;
    if (layer->layer->kind->loss || layer->layer->loss_weight[j] != 0) continue;
    CR_TRY(crema_blob_mutable_cpu_diff(layer->top[j], &diff));
    for (int64_t k = 0; k < crema_blob_count(layer->top[j]); ++k) diff[k] = 1;
  }
  return CREMA_OK;
}

static crema_status check(const cli_layer_net *what, const crema_net_options *options,
                          crema_net *net, const run_flags *flags, bool *good) {
  crema_net *oracle = NULL;
  cli_layer_net same = *what;
  crema_net_options plain = *options;
  same.oracle = true;
  plain.device = NULL;
  plain.math = CREMA_MATH_EXACT;
  CR_TRY(cli_layer_net_create(&same, &plain, &oracle));
  const cli_grad_options how = {
      .values = flags->values, .tolerance = flags->tolerance, .seed = (uint32_t)flags->seed};
  crema_status status = fill_inputs(oracle, flags);
  if (status == CREMA_OK) status = cli_grad_check(net, oracle, &how, good);
  crema_net_destroy(oracle);
  return status;
}

static crema_status run(const cli_layer_net *what, const crema_net_options *options, crema_net *net,
                        const run_flags *flags, bool *good) {
  const cr_layer *layer = last_layer(net)->layer;
  const bool backward = layer->kind->backward != NULL && !layer->kind->graph.ends_gradient;
  printf("layer   %s (%s), phase %s\n", layer->name, layer->kind->type,
         options->phase == CREMA_TRAIN ? "TRAIN" : "TEST");
  CR_TRY(fill_params(net, flags));
  CR_TRY(fill_inputs(net, flags));
  for (int i = 0; i < crema_net_input_count(net); ++i) {
    CR_TRY(print_blob("bottom", crema_net_input_name(net, i), crema_net_input(net, i)));
  }
  CR_TRY(crema_net_forward(net, NULL));
  CR_TRY(print_values(net));
  if (backward) {
    CR_TRY(seed_gradients(net));
    CR_TRY(crema_net_backward(net));
  }
  CR_TRY(cli_dump_write(net, flags->folder, backward));
  if (flags->check) CR_TRY(check(what, options, net, flags, good));
  return time_passes(net, flags, backward);
}

static bool check_flags(const run_flags *flags) {
  static const char *const fills[] = {"random", "positive", "counting"};
  if (cli_find_word("-fill", flags->fill, fills, 3) < 0) {
    return false;
  } else if (flags->iterations < 1 || flags->values < 1) {
    cli_usage_error("-iterations and -check_values: expected a number above 0");
  } else if (flags->labels < 0 || flags->labels > 1 << 24) {
    cli_usage_error("-labels: expected a number from 0 to 16777216");
  } else if (!(flags->tolerance > 0)) {
    cli_usage_error("-tolerance: expected a number above 0");
  } else {
    return cli_load_plugins(flags->plugin);
  }
  return false;
}

static const char help_text[] =
    "Runs one layer by itself: forward, backward, and a mean time of each. The file has one\n"
    "`layer { ... }`; its bottoms become inputs of the shapes that -input gives. Prints minimum,\n"
    "maximum and mean of each bottom, parameter and top, and how many values are NaN or infinite.\n"
    "\n"
    "-input gives one shape per bottom, separated by ';'. It may also name a file of\n"
    "-dump_blobs (blobs.h5): the bottoms then have the shapes and values of that pass. Bottoms\n"
    "that get no gradient, such as labels, hold whole numbers below -labels: by default axis 1 of\n"
    "the first bottom, or input_dim of an Embed. Parameters that are all 0 get random values.\n"
    "\n"
    "-check compares the gradients with differences of forward passes in double precision, for\n"
    "all bottoms that get a gradient and all parameters. The exit code is 1 if one differs.\n"
    "\n"
    "Example:\n"
    "  crema run_layer conv1.prototxt -input 8x3x32x32 -check\n"
    "  crema run_layer loss.prototxt -input '8x10;8' -check\n";

int crema_cmd_run_layer(int argc, char **argv) {
  run_flags flags = {.input = "",
                     .fill = "random",
                     .weights = "",
                     .phase = "",
                     .gpu = "",
                     .math = "exact",
                     .plugin = "",
                     .folder = "",
                     .seed = 1,
                     .iterations = 10,
                     .values = 100,
                     .tolerance = 1e-3};
  const cli_flag list[] = {
      {"input", CLI_SHAPES, &flags.input, "shapes of the bottoms, or a file of -dump_blobs"},
      {"fill", CLI_WORD, &flags.fill,
       "values of the bottoms: random in [-1, 1), positive in [0.1, 1), or counting"},
      {"labels", CLI_INT, &flags.labels,
       "bottoms without a gradient hold 0 to N - 1; 0: see above"},
      {"weights", CLI_FILES, &flags.weights, "a file with the layer's parameters"},
      {"check", CLI_BOOL, &flags.check, "compare the gradients with finite differences"},
      {"check_values", CLI_INT, &flags.values, "how many values of each blob are checked at most"},
      {"tolerance", CLI_DOUBLE, &flags.tolerance, "the largest relative error that passes"},
      {"iterations", CLI_INT, &flags.iterations, "passes to time"},
      {"phase", CLI_WORD, &flags.phase, "TRAIN, the default, or TEST"},
      {"gpu", CLI_DEVICE, &flags.gpu, CLI_GPU_HELP},
      {"math", CLI_WORD, &flags.math, CLI_MATH_HELP},
      {"seed", CLI_INT, &flags.seed, "of the random values and of the layer"},
      {"dump_blobs", CLI_DIR, &flags.folder, CLI_DUMP_HELP},
      {"plugin", CLI_FILES, &flags.plugin, CLI_PLUGIN_HELP},
      {"warn_unknown_fields", CLI_BOOL, &flags.warn_unknown_fields, CLI_UNKNOWN_FIELDS_HELP}};
  const cli_spec spec = {.command = "run_layer",
                         .arguments = "LAYER",
                         .min_arguments = 1,
                         .max_arguments = 1,
                         .help = help_text,
                         .flags = list,
                         .flag_count = sizeof list / sizeof *list};
  int code;
  bool good = true;
  crema_net *net = NULL;
  crema_net_options options;
  if (!cli_parse(&spec, &argc, argv, &code)) return code;
  crema_net_options_init(&options);
  options.phase = CREMA_TRAIN;
  options.seed = flags.seed;
  options.force_backward = true;
  if (!check_flags(&flags) || !cli_choose_phase(flags.phase, &options.phase) ||
      !cli_choose_math(flags.math, &options.math) ||
      !cli_choose_first_device(flags.gpu, &options.device)) {
    return 1;
  }
  const cli_layer_net what = {
      .path = argv[1], .input = flags.input, .warn_unknown_fields = flags.warn_unknown_fields};
  if (cli_layer_net_create(&what, &options, &net) != CREMA_OK) return cli_fail();
  if (flags.weights[0] != '\0' && !cli_load_weights(net, flags.weights, false)) code = 1;
  else if (run(&what, &options, net, &flags, &good) != CREMA_OK) code = cli_fail();
  else if (!good) code = cli_error("%s: gradients differ from finite differences", argv[1]);
  else if (flags.check) printf("PASS\n");
  crema_net_destroy(net);
  return code;
}
