#include "net_flags.h"

#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "device_flag.h"
#include "infer/session.h"

void cli_net_flags_list(cli_net_flags *flags, const char *iterations_help, const char *phase_help,
                        cli_flag out[CLI_NET_FLAGS]) {
  *flags = (cli_net_flags){.model = "",
                           .weights = "",
                           .gpu = "",
                           .math = "exact",
                           .phase = "",
                           .stage = "",
                           .plugin = "",
                           .iterations = 50,
                           .precision = "f32"};
  const cli_flag list[CLI_NET_FLAGS] = {
      {"model", CLI_FILE, &flags->model, "the net (text)"},
      {"weights", CLI_FILES, &flags->weights, "its weights; several files are separated by commas"},
      {"iterations", CLI_INT, &flags->iterations, iterations_help},
      {"gpu", CLI_DEVICE, &flags->gpu, CLI_GPU_HELP},
      {"math", CLI_WORD, &flags->math, CLI_MATH_HELP},
      {"phase", CLI_WORD, &flags->phase, phase_help},
      {"level", CLI_INT, &flags->level, "level of the net's state"},
      {"stage", CLI_NAMES, &flags->stage, "stages of the net's state, separated by commas"},
      {"skip_corrupt", CLI_BOOL, &flags->skip_corrupt,
       "skip records that cannot be decoded, with a warning"},
      {"compiled", CLI_BOOL, &flags->compiled, CLI_COMPILED_HELP},
      {"plugin", CLI_FILES, &flags->plugin, CLI_PLUGIN_HELP},
      {"precision", CLI_WORD, &flags->precision, CLI_PRECISION_HELP},
      {"table", CLI_FILE, &flags->table, CLI_TABLE_HELP},
      {"warn_unknown_fields", CLI_BOOL, &flags->warn_unknown_fields, CLI_UNKNOWN_FIELDS_HELP},
  };
  memcpy(out, list, sizeof list);
}

bool cli_choose_precision(const char *text, crema_precision *out) {
  static const char *const words[] = {"f32", "bf16", "int8"};
  const int found = cli_find_word("-precision", text, words, 3);
  if (found >= 0) *out = (crema_precision)found;
  return found >= 0;
}

cli_flag *cli_iterations_flag(cli_flag *list) {
  while (strcmp(list->name, "iterations") != 0) ++list;
  return list;
}

crema_status cli_net_compile(const char *model, const char *weights,
                             const crema_model_options *options, crema_device *device,
                             crema_math math, cli_net *out) {
  crema_session_options session;
  crema_session_options_init(&session);
  session.device = device;
  session.math = math;
  crema_status status = crema_model_load(model, weights, options, &out->model);
  if (status == CREMA_OK) status = crema_session_create(out->model, &session, &out->session);
  if (status == CREMA_OK) out->net = cr_session_net(out->session);
  else cli_net_close(out);
  return status;
}

void cli_net_close(cli_net *net) {
  if (net->session == NULL) crema_net_destroy(net->net);
  crema_session_destroy(net->session);
  crema_model_destroy(net->model);
  *net = (cli_net){0};
}

static bool check_flags(cli_net_flags *flags, crema_phase phase) {
  if (flags->iterations < 1) {
    cli_usage_error("-iterations: expected a number above 0");
    return false;
  }
  if (flags->compiled && phase == CREMA_TRAIN) {
    cli_usage_error("-compiled is for phase TEST: give -phase TEST");
    return false;
  }
  if (flags->compiled && flags->graphs) {
    cli_usage_error("-graphs is for nets that are not compiled: leave -compiled out");
    return false;
  }
  if (!cli_choose_precision(flags->precision, &flags->chosen)) return false;
  if (flags->chosen != CREMA_PRECISION_F32 && !flags->compiled) {
    cli_usage_error("-precision %s is for -compiled", flags->precision);
    return false;
  }
  return cli_check_level(flags->level) && cli_load_plugins(flags->plugin);
}

static crema_status load_compiled(const cli_net_flags *flags, const crema_net_options *net,
                                  cli_net *out) {
  crema_model_options options;
  crema_model_options_init(&options);
  options.precision = flags->chosen;
  options.table = flags->table;
  options.level = net->level;
  options.stages = net->stages;
  options.stage_count = net->stage_count;
  options.skip_corrupt = net->skip_corrupt;
  options.warn_unknown_fields = net->warn_unknown_fields;
  options.allow_missing = flags->allow_missing;
  return cli_net_compile(flags->model, flags->weights[0] == '\0' ? NULL : flags->weights, &options,
                         net->device, net->math, out);
}

/* The error is printed. */
static bool load(const cli_net_flags *flags, const crema_net_options *options, cli_net *out) {
  crema_status status = flags->compiled ? load_compiled(flags, options, out)
                                        : crema_net_load(flags->model, options, &out->net);
  if (status != CREMA_OK) {
    cli_fail();
    return false;
  }
  if (crema_net_layer_count(out->net) == 0) {
    cli_error("%s: the net has no layers in phase %s", flags->model,
              options->phase == CREMA_TRAIN ? "TRAIN" : "TEST");
    return false;
  }
  if (flags->compiled || flags->weights[0] == '\0') return true;
  return cli_load_weights(out->net, flags->weights, flags->allow_missing);
}

bool cli_net_flags_load(cli_net_flags *flags, crema_phase phase, cli_net *out) {
  crema_net_options options;
  cr_list stages = {0};
  *out = (cli_net){0};
  if (!check_flags(flags, phase)) return false;
  crema_net_options_init(&options);
  options.phase = phase;
  if (!cli_choose_math(flags->math, &options.math)) return false;
  if (!cli_choose_first_device(flags->gpu, &options.device)) return false;
  bool good = cr_list_split(flags->stage, &stages) == CREMA_OK;
  if (!good) cli_fail();
  options.level = (int)flags->level;
  options.stages = (const char *const *)stages.item;
  options.stage_count = stages.count;
  options.skip_corrupt = flags->skip_corrupt;
  options.warn_unknown_fields = flags->warn_unknown_fields;
  options.graphs = flags->graphs;
  options.plan_memory = flags->plan_memory && phase == CREMA_TRAIN;
  good = good && load(flags, &options, out);
  cr_list_free(&stages);
  if (!good) cli_net_close(out);
  return good;
}
