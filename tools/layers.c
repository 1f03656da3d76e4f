/* crema layers: the types of layers that a net may have. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "core/did_you_mean.h"
#include "layers/registry.h"

static bool is_known(const char *type) {
  size_t count = 0;
  const char *const *name = cr_layer_class_names(&count);
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(name[i], type) == 0) return true;
  }
  const char *nearest = cr_did_you_mean(type, name, count);
  cli_error("there is no layer type \"%s\"%s%s%s", type, nearest == NULL ? "" : "; did you mean ",
            nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
  return false;
}

int crema_cmd_layers(int argc, char **argv) {
  static const cli_spec spec = {.command = "layers",
                                .arguments = "[TYPE]",
                                .max_arguments = 1,
                                .help =
                                    "Lists the values that a layer's `type` may have in a net, one "
                                    "per line. With TYPE, checks\n"
                                    "that there is such a type: the exit code is 1 if not.\n"
                                    "\n"
                                    "Examples:\n"
                                    "  crema layers\n"
                                    "  crema layers Convolution\n"};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (argc > 1 && !is_known(argv[1])) return 1;
  size_t count = 0;
  const char *const *name = cr_layer_class_names(&count);
  if (argc > 1) puts(argv[1]);
  for (size_t i = 0; i < count && argc < 2; ++i) puts(name[i]);
  return 0;
}
