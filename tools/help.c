#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "core/did_you_mean.h"
#include "crema/status.h"

static void list_commands(void) {
  size_t count;
  const cli_command *list = cli_commands(&count);
  printf("crema trains, tests and runs Caffe networks.\n\nUsage: crema COMMAND [flags]\n\n");
  for (size_t i = 0; i < count; ++i) printf("  %-28s %s\n", list[i].name, list[i].summary);
  printf(
      "\n`crema help COMMAND` explains one with an example.\n"
      "\nThe environment:\n"
      "  CREMA_MAX_FILE=SIZE          how large a file may be that is read whole, such as 500M or\n"
      "                               4G; by default 1G, weights and states 64G, a device's or\n"
      "                               pipe's content 64M\n"
      "  CREMA_HDF5_MODULE=FILE       libcrema-hdf5.so, if it is not in the command's folder\n"
      "  CREMA_HDF5_FORK=0            HDF5 files are read in crema's own process, which the HDF5\n"
      "                               library may crash on a damaged file\n"
      "  CREMA_CUDA_PLUGIN=FILE       libcrema-cuda.so, likewise\n"
      "  CREMA_GPU_POOL=KIND          how memory of devices is kept for reuse: bins (the\n"
      "                               default), cub or none\n"
      "  CREMA_NUMA=1                 host memory is placed on the memory node of the thread that\n"
      "                               asks for it\n"
      "  CREMA_VERBOSE=1              logs each run of an op and each conversion of values; 2:\n"
      "                               also why kernels decline, copies, where values are\n"
      "  DEBUG_GPU_MEM=1              logs memory that a device's driver gives and takes back\n"
      "  TMPDIR=FOLDER                where links to LevelDB databases are made, else /tmp\n");
}

int crema_cmd_help(int argc, char **argv) {
  static const cli_spec spec = {
      .command = "help",
      .arguments = "[COMMAND]",
      .max_arguments = 1,
      .help =
          "Lists the commands, or explains one of them.\n\n"
          "Example:\n"
          "  crema help train\n",
  };
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (argc < 2) {
    list_commands();
    return 0;
  }
  size_t count;
  const cli_command *command = cli_find_command(argv[1]);
  if (command != NULL) {
    char flag[] = "-help";
    char *words[] = {argv[1], flag, NULL};
    return command->run(2, words);
  }
  const char *names[64];
  const cli_command *list = cli_commands(&count);
  for (size_t i = 0; i < count; ++i) names[i] = list[i].name;
  const char *nearest = cr_did_you_mean(argv[1], names, count);
  if (nearest == NULL) return cli_error("help: there is no command \"%s\"", argv[1]);
  return cli_error("help: there is no command \"%s\"; did you mean %s?", argv[1], nearest);
}

int crema_cmd_version(int argc, char **argv) {
  static const cli_spec spec = {
      .command = "version",
      .arguments = "",
      .help = "Prints the version.\n\nExample:\n  crema version\n",
  };
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  printf("crema %s\n", crema_version());
  return 0;
}
