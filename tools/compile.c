/* crema compile: how the passes of a compiled model change a net. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/list.h"
#include "crema/model.h"
#include "device_flag.h"
#include "infer/passes.h"
#include "net_flags.h"

static const char help_text[] =
    "Compiles a network for inference, as -compiled of other commands does, and prints the\n"
    "result. With -explain, each step of each pass has a line. Without -weights, weights are "
    "random.\n"
    "\n"
    "The passes (-without skips some):\n";

static const char example[] =
    "\n"
    "Example:\n"
    "  crema compile -explain -without fold deploy.prototxt\n";

/* The help with a line for each pass; to be freed. */
static char *make_help(void) {
  cr_buffer text = {0};
  crema_status status = cr_buffer_print(&text, "%s", help_text);
  for (size_t i = 0; i < cr_pass_count && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&text, "  %-10s %s\n", cr_passes[i].name, cr_passes[i].what);
  }
  if (status == CREMA_OK) status = cr_buffer_print(&text, "%s", example);
  if (status == CREMA_OK) return cr_buffer_take(&text);
  cr_buffer_free(&text);
  return NULL;
}

/* All lines, or the last one, which is the sum. */
static void print_text(const char *text, bool all) {
  const char *last = text;
  for (const char *at = strchr(text, '\n'); at != NULL && at[1] != '\0';
       at = strchr(at + 1, '\n')) {
    last = at + 1;
  }
  printf("%s", all ? text : last);
}

typedef struct compile_flags {
  const char *model, *weights, *without, *keep, *stage, *precision, *table;
  int64_t level;
  bool explain, allow_missing, warn_unknown_fields;
} compile_flags;

static crema_status compile(const compile_flags *flags, crema_precision precision) {
  crema_model_options options;
  crema_model *model = NULL;
  cr_list without = {0}, keep = {0}, stages = {0};
  crema_status status = cr_list_split(flags->without, &without);
  if (status == CREMA_OK) status = cr_list_split(flags->keep, &keep);
  if (status == CREMA_OK) status = cr_list_split(flags->stage, &stages);
  crema_model_options_init(&options);
  options.precision = precision;
  options.table = flags->table;
  options.level = (int)flags->level;
  options.without = (const char *const *)without.item;
  options.without_count = without.count;
  options.keep = (const char *const *)keep.item;
  options.keep_count = keep.count;
  options.stages = (const char *const *)stages.item;
  options.stage_count = stages.count;
  options.allow_missing = flags->allow_missing;
  options.warn_unknown_fields = flags->warn_unknown_fields;
  if (status == CREMA_OK) status = crema_model_load(flags->model, flags->weights, &options, &model);
  if (status == CREMA_OK) print_text(crema_model_explain(model), flags->explain);
  crema_model_destroy(model);
  cr_list_free(&stages);
  cr_list_free(&keep);
  cr_list_free(&without);
  return status;
}

int crema_cmd_compile(int argc, char **argv) {
  compile_flags flags = {.without = "", .keep = "", .stage = "", .precision = "f32"};
  char *help = make_help();
  if (help == NULL) return cli_error("out of memory");
  const cli_flag list[] = {
      {"model", CLI_FILE, &flags.model, "the net (text)"},
      {"explain", CLI_BOOL, &flags.explain, "print each step"},
      {"weights", CLI_FILES, &flags.weights, "the net's weights; files separated by commas"},
      {"without", CLI_NAMES, &flags.without, "passes to skip, separated by commas"},
      {"keep", CLI_NAMES, &flags.keep, "blobs that will be read, separated by commas"},
      {"precision", CLI_WORD, &flags.precision, "f32, bf16 or int8, which needs a -table"},
      {"table", CLI_FILE, &flags.table, CLI_TABLE_HELP},
      {"level", CLI_INT, &flags.level, "level of the net's state"},
      {"stage", CLI_NAMES, &flags.stage, "stages of the net's state, separated by commas"},
      {"allow_missing", CLI_BOOL, &flags.allow_missing, CLI_ALLOW_MISSING_HELP},
      {"warn_unknown_fields", CLI_BOOL, &flags.warn_unknown_fields, CLI_UNKNOWN_FIELDS_HELP},
  };
  const cli_spec spec = {.command = "compile",
                         .arguments = "NET",
                         .file_flag = {"model"},
                         .help = help,
                         .flags = list,
                         .flag_count = sizeof list / sizeof *list};
  int code = 0;
  if (cli_parse(&spec, &argc, argv, &code)) {
    crema_precision precision = CREMA_PRECISION_F32;
    bool good = cli_check_level(flags.level) && cli_choose_precision(flags.precision, &precision);
    code = !good ? 1 : compile(&flags, precision) == CREMA_OK ? 0 : cli_fail();
  }
  free(help);
  return code;
}
