#include "net_flags.h"

#include <stdlib.h>
#include <string.h>

#include "device_flag.h"

void cli_net_flags_list(cli_net_flags *flags, const char *iterations_help, const char *phase_help,
                        cli_flag out[CLI_NET_FLAGS]) {
  *flags = (cli_net_flags){
      .model = "", .weights = "", .gpu = "", .phase = "", .stage = "", .iterations = 50};
  const cli_flag list[CLI_NET_FLAGS] = {
      {"model", CLI_STRING, &flags->model, "the net (text)"},
      {"weights", CLI_STRING, &flags->weights,
       "its weights; several files are separated by commas"},
      {"iterations", CLI_INT, &flags->iterations, iterations_help},
      {"gpu", CLI_STRING, &flags->gpu, "the GPU to run on; without it the CPU"},
      {"phase", CLI_STRING, &flags->phase, phase_help},
      {"level", CLI_INT, &flags->level, "level of the net's state"},
      {"stage", CLI_STRING, &flags->stage, "stages of the net's state, separated by commas"},
      {"skip_corrupt", CLI_BOOL, &flags->skip_corrupt,
       "warn of records that cannot be decoded and go on"},
      {"warn_unknown_fields", CLI_BOOL, &flags->warn_unknown_fields,
       "go on when a text file has a field that is not known"},
  };
  memcpy(out, list, sizeof list);
}

bool cli_net_flags_load(const cli_net_flags *flags, const char *command, crema_phase phase,
                        crema_net **out) {
  enum { MAX_STAGES = 64 };
  const char *stages[MAX_STAGES];
  crema_net_options options;
  *out = NULL;
  if (flags->model[0] == '\0') {
    cli_error("%s: -model FILE is needed", command);
    return false;
  }
  if (flags->iterations < 1) {
    cli_error("-iterations: expected a number above 0");
    return false;
  }
  if (!cli_check_level(flags->level)) return false;
  crema_net_options_init(&options);
  options.phase = phase;
  if (!cli_choose_first_device(flags->gpu, &options.device)) return false;
  char *text = strdup(flags->stage);
  if (text == NULL) {
    cli_error("out of memory");
    return false;
  }
  options.level = (int)flags->level;
  options.stages = stages;
  options.stage_count = cli_split_list(text, stages, MAX_STAGES);
  options.skip_corrupt = flags->skip_corrupt;
  options.warn_unknown_fields = flags->warn_unknown_fields;
  bool good = crema_net_load(flags->model, &options, out) == CREMA_OK;
  if (!good) cli_fail();
  if (good && crema_net_layer_count(*out) == 0) {
    cli_error("%s: the net has no layers in phase %s", flags->model,
              phase == CREMA_TRAIN ? "TRAIN" : "TEST");
    good = false;
  }
  free(text);
  if (good && flags->weights[0] != '\0')
    good = cli_load_weights(*out, flags->weights, flags->allow_missing);
  if (good) return true;
  crema_net_destroy(*out);
  *out = NULL;
  return false;
}
