#include "help.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "core/did_you_mean.h"
#include "crema/status.h"

static void print_logging(void) {
  cli_log_flags log;
  cli_flag flags[CLI_LOG_FLAGS];
  cli_log_flags_list(&log, flags);
  printf(
      "The log goes to standard error, one line per message. Every command accepts these flags,\n"
      "after its name: crema train SOLVER -minloglevel 1. The environment variable GLOG_<flag>\n"
      "sets a default: GLOG_minloglevel=1.\n"
      "\nFlags:\n");
  cli_print_flags(flags, CLI_LOG_FLAGS);
}

static void print_flag_forms(void) {
  printf(
      "Flags follow the name of the command, before or after its arguments. These are the same:\n"
      "  -iterations 5   -iterations=5   --iterations 5   --iterations=5\n"
      "A flag without a value in the help is true or false: -shuffle, -shuffle=false, -noshuffle.\n"
      "In names of flags, '-' and '_' are the same. \"--\" ends the flags.\n"
      "A file that a command requires is a flag or the first argument, as in\n"
      "  crema train solver.prototxt\n"
      "  crema train -solver solver.prototxt\n");
}

static void print_exit_codes(void) {
  printf(
      "Exit codes of all commands:\n"
      "  0    success\n"
      "  1    failure; standard error has one line that begins with \"crema: error:\"\n"
      "  2    error in the command line\n"
      "  143  training ended on SIGTERM, after a snapshot\n"
      "  152  training ended on SIGXCPU (limit on CPU time), after a snapshot\n");
}

static const cli_topic topics[] = {
    {"flags", "how flags and arguments are written", print_flag_forms},
    {"logging", "the flags of the log, which all commands accept", print_logging},
    {"environment", "the environment variables that crema reads", cli_print_environment},
    {"exit_codes", "the exit codes of all commands", print_exit_codes},
};

enum { TOPICS = sizeof topics / sizeof *topics, MAX_NAMES = 64 };

void cli_print_overview(void) {
  printf(
      "crema trains, tests and runs Caffe networks.\n"
      "\n"
      "  crema train solver.prototxt                          train a network\n"
      "  crema test net.prototxt -weights net.caffemodel      score it on its test data\n"
      "  crema classify cat.jpg                               classify an image\n"
      "  crema summary net.prototxt                           list its layers and costs\n"
      "  crema time net.prototxt                              measure each layer\n"
      "\n"
      "`crema help` lists all commands; `crema help train` explains one.\n");
}

static void list_commands(void) {
  size_t count;
  const char *task = "";
  const cli_command *list = cli_commands(&count);
  printf("crema trains, tests and runs Caffe networks.\n\nUsage: crema COMMAND [flags]\n");
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(list[i].task, task) != 0) printf("\n%s:\n", list[i].task);
    task = list[i].task;
    printf("  %-26s %s\n", list[i].name, list[i].summary);
  }
  printf("\nTopics:\n");
  for (int i = 0; i < TOPICS; ++i) printf("  %-26s %s\n", topics[i].name, topics[i].summary);
  printf("\n`crema help COMMAND` and `crema help TOPIC` explain one of them.\n");
}

static int report_unknown(const char *word) {
  size_t count;
  const char *name[MAX_NAMES];
  const cli_command *list = cli_commands(&count);
  for (size_t i = 0; i < count; ++i) name[i] = list[i].name;
  for (int i = 0; i < TOPICS; ++i) name[count++] = topics[i].name;
  const char *hint = cli_command_hint(word);
  if (hint != NULL) return cli_usage_error("help: there is no command \"%s\"; use %s", word, hint);
  const char *nearest = cr_did_you_mean(word, name, count);
  if (nearest == NULL) return cli_usage_error("help: there is no command or topic \"%s\"", word);
  return cli_usage_error("help: there is no command or topic \"%s\"; did you mean %s?", word,
                         nearest);
}

int crema_cmd_help(int argc, char **argv) {
  static const cli_spec spec = {
      .command = "help",
      .arguments = "[COMMAND|TOPIC]",
      .max_arguments = 1,
      .help =
          "Lists the commands and topics, or explains one of them.\n\n"
          "Examples:\n"
          "  crema help train\n"
          "  crema help environment\n",
  };
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (argc < 2) {
    list_commands();
    return 0;
  }
  const cli_command *command = cli_find_command(argv[1]);
  if (command != NULL) {
    char flag[] = "-help";
    char *words[] = {argv[1], flag, NULL};
    return command->run(2, words);
  }
  for (int i = 0; i < TOPICS; ++i) {
    if (strcmp(argv[1], topics[i].name) != 0) continue;
    topics[i].print();
    return 0;
  }
  return report_unknown(argv[1]);
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
