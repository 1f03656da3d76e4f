/* crema onnx: nets out to ONNX files, and ONNX files in. */
#include "crema/onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/list.h"
#include "device_flag.h"

static const char help_text[] =
    "Converts between Caffe and ONNX.\n"
    "\n"
    "  crema onnx export NET [WEIGHTS] OUT.onnx    writes a net of phase TEST as ONNX\n"
    "  crema onnx import IN.onnx NET WEIGHTS       writes an ONNX file as a net and its weights\n"
    "\n"
    "Inputs and outputs keep the names of their blobs. If a layer or node has no counterpart, the\n"
    "command writes nothing and lists all of them. Commands that take a net also read .onnx files\n"
    "directly.\n"
    "\n"
    "With -verify, the written file is read as well, both nets run on the same random inputs, and\n"
    "the command fails if an output differs by more than 1e-5 of its largest value. It names the\n"
    "layers that were read from the file's metadata, whose nodes take no part.\n"
    "\n";

static const char example[] =
    "\n"
    "Example:\n"
    "  crema onnx export -verify deploy.prototxt net.caffemodel net.onnx\n";

typedef struct onnx_flags {
  int64_t opset, level;
  const char *batch, *stage;
  bool verify, warn_unknown_fields;
} onnx_flags;

static const double tolerance = 1e-5;

/* ---- the batch ------------------------------------------------------------ */

/* Reads -batch: *any for "dynamic", a number, or 0 if it is not given. */
static bool read_batch(const char *text, int64_t *batch, bool *any) {
  char *end;
  *any = strcmp(text, "dynamic") == 0;
  *batch = 0;
  if (*any || text[0] == '\0') return true;
  *batch = strtoll(text, &end, 10);
  if (*end == '\0' && *batch > 0) return true;
  cli_usage_error("-batch %s: expected a number above 0, or dynamic", text);
  return false;
}

static crema_status set_batch(crema_net *net, int64_t batch) {
  if (batch == 0) return CREMA_OK;
  for (int i = 0; i < crema_net_input_count(net); ++i) {
    crema_shape shape = *crema_blob_shape(crema_net_input(net, i));
    if (shape.axes == 0) continue;
    shape.dim[0] = batch;
    crema_status status = crema_blob_reshape(crema_net_input(net, i), &shape);
    if (status != CREMA_OK) return status;
  }
  return crema_net_reshape(net);
}

/* ---- verifying ------------------------------------------------------------- */

/* The exit code. */
static int verify(crema_net *net, const char *path) {
  crema_onnx_comparison result;
  if (crema_onnx_compare(net, path, &result) != CREMA_OK) return cli_fail();
  if (result.difference > tolerance) {
    return cli_error("%s: output '%s' differs by %.3g of its largest value", path, result.output,
                     result.difference);
  }
  if (result.restored[0] != '\0') {
    printf("Not verified node by node: %s\n", result.restored);
  }
  printf("Verified: all outputs agree within %.3g of the largest value.\n", result.difference);
  return 0;
}

/* ---- export ------------------------------------------------------------------ */

static crema_status open_net(const onnx_flags *flags, const char *path, const char *weights,
                             crema_net **out) {
  crema_net_options options;
  cr_list stages = {0};
  crema_net_options_init(&options);
  crema_status status = cr_list_split(flags->stage, &stages);
  options.level = (int)flags->level;
  options.stages = (const char *const *)stages.item;
  options.stage_count = stages.count;
  options.warn_unknown_fields = flags->warn_unknown_fields;
  options.seed = weights == NULL ? 1 : -1;
  if (status == CREMA_OK) status = crema_net_load(path, &options, out);
  cr_list_free(&stages);
  return status;
}

static int export_net(const onnx_flags *flags, const char *path, const char *weights,
                      const char *to) {
  crema_onnx_options options;
  crema_net *net = NULL;
  int64_t batch;
  crema_onnx_options_init(&options);
  options.opset = (int)flags->opset;
  if (!read_batch(flags->batch, &batch, &options.any_batch)) return CLI_EXIT_USAGE;
  if (!cli_check_level(flags->level)) return CLI_EXIT_USAGE;
  if (open_net(flags, path, weights, &net) != CREMA_OK) return cli_fail();
  int code = weights == NULL || cli_load_weights(net, weights, false) ? 0 : 1;
  if (code == 0 && set_batch(net, batch) != CREMA_OK) code = cli_fail();
  if (code == 0 && crema_onnx_export(net, &options, to) != CREMA_OK) code = cli_fail();
  if (code == 0 && flags->verify) code = verify(net, to);
  crema_net_destroy(net);
  return code;
}

/* ---- import -------------------------------------------------------------------- */

static int verify_import(const char *from, const char *net_path, const char *weights) {
  crema_net *net = NULL;
  int code = 0;
  if (crema_net_load(net_path, NULL, &net) != CREMA_OK) return cli_fail();
  if (!cli_load_weights(net, weights, false)) code = 1;
  if (code == 0) code = verify(net, from);
  crema_net_destroy(net);
  return code;
}

static int import_net(const onnx_flags *flags, const char *from, const char *net_path,
                      const char *weights) {
  if (crema_onnx_import(from, net_path, weights) != CREMA_OK) return cli_fail();
  return flags->verify ? verify_import(from, net_path, weights) : 0;
}

/* ---- the command ----------------------------------------------------------------- */

static int run(const onnx_flags *flags, int count, char **argv) {
  static const char *const words[] = {"export", "import"};
  const int task = cli_find_word("onnx", argv[1], words, 2);
  if (task < 0) return CLI_EXIT_USAGE;
  char **file = argv + 2;
  if (task == 0 && count == 3) return export_net(flags, file[0], NULL, file[1]);
  if (task == 0) return export_net(flags, file[0], file[1], file[2]);
  if (count != 4) return cli_usage_error("onnx import: expected IN.onnx NET WEIGHTS");
  if (!cli_is_onnx(file[0])) {
    return cli_usage_error("onnx import: %s: the name must end in .onnx", file[0]);
  }
  return import_net(flags, file[0], file[1], file[2]);
}

int crema_cmd_onnx(int argc, char **argv) {
  onnx_flags flags = {.opset = 13, .batch = "", .stage = ""};
  char help[sizeof help_text + sizeof example];
  snprintf(help, sizeof help, "%s%s", help_text, example);
  const cli_flag list[] = {
      {"opset", CLI_INT, &flags.opset, "export: version of ONNX's operators, 11 to 21"},
      {"batch", CLI_WORD, &flags.batch,
       "export: the batch size, or dynamic for a symbolic one; the net's by default"},
      {"verify", CLI_BOOL, &flags.verify, "compare the outputs of both nets"},
      {"level", CLI_INT, &flags.level, "level of the net's state"},
      {"stage", CLI_NAMES, &flags.stage, "stages of the net's state, separated by commas"},
      {"warn_unknown_fields", CLI_BOOL, &flags.warn_unknown_fields, CLI_UNKNOWN_FIELDS_HELP},
  };
  const cli_spec spec = {.command = "onnx",
                         .arguments = "export|import FILE...",
                         .min_arguments = 3,
                         .max_arguments = 4,
                         .help = help,
                         .flags = list,
                         .flag_count = sizeof list / sizeof *list};
  int code;
  if (!cli_parse(&spec, &argc, argv, &code)) return code;
  return run(&flags, argc - 1, argv);
}
