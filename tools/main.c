/* The command `crema`, which also answers to the name `caffe`. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "core/did_you_mean.h"
#include "help.h"
#include "python_layers.h"

enum { MAX_COMMANDS = 64 };

static const cli_command commands[] = {
#define CLI_COMMAND(name, task, summary) {#name, crema_cmd_##name, task, summary},
#include "commands.inc"
#undef CLI_COMMAND
};

_Static_assert(sizeof commands / sizeof *commands <= MAX_COMMANDS, "raise MAX_COMMANDS");

const cli_command *cli_commands(size_t *count) {
  *count = sizeof commands / sizeof *commands;
  return commands;
}

const cli_command *cli_find_command(const char *name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; ++i) {
    if (strcmp(name, commands[i].name) == 0) return &commands[i];
  }
  return NULL;
}

/* Names that other programs give to the same work. */
const char *cli_command_hint(const char *word) {
  static const struct {
    const char *words, *hint; /* words with a blank on both sides */
  } hints[] = {
      {" predict infer inference run ", "classify for images, or extract_features for a data set"},
      {" eval evaluate val validate score ", "test"},
      {" fit finetune fine_tune learn resume ", "train"},
      {" convert ", "convert_model for weights, or convert_imageset for images"},
      {" export optimize ", "compile for inference, or convert_model for weights"},
      {" upgrade ",
       "upgrade_net_proto_text, upgrade_net_proto_binary or upgrade_solver_proto_text"},
      {" quantize int8 ", "calibrate"},
      {" bench profile speed ", "benchmark for a network, or time for its layers"},
      {" info inspect show print view ", "summary"},
      {" visualize graph ", "draw"},
      {" devices gpu gpus ", "device_query"},
      {" features extract embed ", "extract_features"},
      {" mean ", "compute_image_mean"},
      {" stats ", "data_stats"},
  };
  char key[40];
  snprintf(key, sizeof key, " %.30s ", word);
  for (size_t i = 0; i < sizeof hints / sizeof *hints; ++i) {
    if (strstr(hints[i].words, key) != NULL) return hints[i].hint;
  }
  return NULL;
}

static int unknown_command(const char *word) {
  if (word[0] == '-') {
    return cli_usage_error("no command given; flags belong to a command, as in `crema train %s`",
                           word);
  }
  const char *hint = cli_command_hint(word);
  if (hint != NULL) return cli_usage_error("unknown command \"%s\"; use %s", word, hint);
  const char *names[MAX_COMMANDS];
  size_t count = sizeof commands / sizeof *commands;
  for (size_t i = 0; i < count; ++i) names[i] = commands[i].name;
  const char *nearest = cr_did_you_mean(word, names, count);
  if (nearest != NULL) {
    return cli_usage_error("unknown command \"%s\"; did you mean %s?", word, nearest);
  }
  return cli_usage_error("unknown command \"%s\"; `crema help` lists the commands", word);
}

/* Moves the command's name to the front, as flags may come before it. */
static void command_first(int argc, char **argv) {
  if (argv[1][0] != '-') return;
  for (int i = 2; i < argc; ++i) {
    if (cli_find_command(argv[i]) == NULL) continue;
    char *name = argv[i];
    memmove(argv + 2, argv + 1, (size_t)(i - 1) * sizeof *argv);
    argv[1] = name;
    return;
  }
}

static int run(int argc, char **argv) {
  if (argc < 2) {
    cli_print_overview();
    return 0;
  }
  const char *word = argv[1];
  if (strcmp(word, "-version") == 0 || strcmp(word, "--version") == 0) {
    return crema_cmd_version(1, argv);
  }
  command_first(argc, argv);
  word = argv[1];
  if (strcmp(word, "-help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
    return crema_cmd_help(1, argv);
  }
  const cli_command *command = cli_find_command(word);
  if (command == NULL) return unknown_command(word);
  return command->run(argc - 1, argv + 1);
}

/* A caller may have closed the standard streams. The next files to be opened would get their
 * descriptors, and with them the output that is meant for a terminal. */
static void open_standard_streams(void) {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
  if (fd >= 0) close(fd);
}

/* Output that was lost, at whatever moment, makes the command fail. Some file systems report a loss
 * only when the file is closed. */
static bool finish_output(void) {
  bool lost = fflush(stdout) != 0 || ferror(stdout) != 0;
  return (fclose(stdout) == 0 || errno == EINTR) && !lost;
}

int main(int argc, char **argv) {
  open_standard_streams();
  /* A write to a file that may not grow, or to a pipe without a reader, must fail with a message
   * instead of a signal. */
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  cli_log_start();
  cli_python_allow();
  int code = cli_exit_code(run(argc, argv));
  cli_python_stop();
  if (!cli_log_stop() && code == 0) code = cli_error("cannot write the log to the standard error");
  if (!finish_output() && code == 0) code = cli_error("cannot write the standard output");
  return code;
}
