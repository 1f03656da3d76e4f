#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/did_you_mean.h"

enum { CLI_MAX_FLAGS = 64, CLI_ERROR_TEXT_MAX = 4096 };

static bool usage_failed;

int cli_error(const char *fmt, ...) {
  char text[CLI_ERROR_TEXT_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  cli_log_print_error(text);
  return 1;
}

int cli_usage_error(const char *fmt, ...) {
  char text[CLI_ERROR_TEXT_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  cli_log_print_error(text);
  usage_failed = true;
  return CLI_EXIT_USAGE;
}

int cli_exit_code(int code) {
  return code == 1 && usage_failed ? CLI_EXIT_USAGE : code;
}

int cli_fail(void) {
  const char *text = crema_error_text();
  return cli_error("%s", text[0] != '\0' ? text : "unknown failure");
}

/* ---- flags ---- */

/* Compares `size` letters of `word` with a flag's name; '-' and '_' are the same. */
static bool same_name(const char *word, size_t size, const char *name) {
  if (strlen(name) != size) return false;
  for (size_t i = 0; i < size; ++i) {
    char letter = word[i] == '-' ? '_' : word[i];
    if (letter != name[i]) return false;
  }
  return true;
}

const cli_flag *cli_find_flag(const cli_flag *flags, size_t count, const char *word, size_t size) {
  for (size_t i = 0; i < count; ++i) {
    if (flags[i].type != CLI_GROUP && same_name(word, size, flags[i].name)) return &flags[i];
  }
  return NULL;
}

static bool parse_bool(const char *text, bool *out) {
  static const char *const yes[] = {"true", "1", "t", "yes", "y"};
  static const char *const no[] = {"false", "0", "f", "no", "n"};
  for (size_t i = 0; i < sizeof yes / sizeof *yes; ++i) {
    if (strcasecmp(text, yes[i]) == 0) *out = true;
    else if (strcasecmp(text, no[i]) == 0) *out = false;
    else continue;
    return true;
  }
  return false;
}

bool cli_set_flag(const cli_flag *flag, const char *prefix, const char *text) {
  char *end = NULL;
  bool good = text[0] != '\0';
  const char *wanted = "";
  if (cli_has_text(flag)) {
    *(const char **)flag->value = text;
    return true;
  }
  errno = 0;
  if (flag->type == CLI_BOOL) {
    wanted = "true or false";
    good = parse_bool(text, flag->value);
  } else if (flag->type == CLI_INT) {
    wanted = "a whole number";
    long long value = strtoll(text, &end, 10);
    good = good && *end == '\0' && errno == 0;
    if (good) *(int64_t *)flag->value = value;
  } else {
    wanted = "a number";
    double value = strtod(text, &end);
    good = good && *end == '\0' && errno == 0;
    if (good) *(double *)flag->value = value;
  }
  if (!good) cli_usage_error("%s%s: expected %s, found \"%s\"", prefix, flag->name, wanted, text);
  return good;
}

/* "a, b or c" */
static void list_words(const char *const *word, int words, char *out, size_t size) {
  size_t used = 0;
  out[0] = '\0';
  for (int i = 0; i < words && used < size; ++i) {
    const char *before = i == 0 ? "" : i == words - 1 ? " or " : ", ";
    used += (size_t)snprintf(out + used, size - used, "%s%s", before, word[i]);
  }
}

int cli_find_word(const char *name, const char *text, const char *const *word, int words) {
  char list[512];
  for (int i = 0; i < words; ++i) {
    if (strcasecmp(text, word[i]) == 0) return i;
  }
  const char *nearest = cr_did_you_mean(text, word, (size_t)words);
  list_words(word, words, list, sizeof list);
  cli_usage_error("%s: expected %s, found \"%s\"%s%s%s", name, list, text,
                  nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest,
                  nearest == NULL ? "" : "?");
  return -1;
}

static void unknown_flag(const cli_spec *spec, const cli_flag *flags, size_t count,
                         const char *word, size_t size) {
  char name[128];
  const char *names[CLI_MAX_FLAGS];
  snprintf(name, sizeof name, "%.*s", (int)size, word);
  size_t named = 0;
  for (size_t i = 0; i < count; ++i) {
    if (flags[i].type != CLI_GROUP) names[named++] = flags[i].name;
  }
  const char *nearest = cr_did_you_mean(name, names, named);
  if (strcmp(name, "gpu") == 0) {
    cli_usage_error("%s: there is no flag -gpu, as the command does not run a net", spec->command);
  } else if (nearest != NULL) {
    cli_usage_error("%s: unknown flag -%s; did you mean -%s?", spec->command, name, nearest);
  } else {
    cli_usage_error("%s: unknown flag -%s; `crema help %s` lists them", spec->command, name,
                    spec->command);
  }
}

/* Reads the flag argv[*at] (and its value, the next word, when it needs one). */
static bool read_flag(const cli_spec *spec, const cli_flag *flags, size_t count, int argc,
                      char **argv, int *at) {
  const char *word = argv[*at] + 1;
  if (*word == '-') ++word;
  const char *equals = strchr(word, '=');
  size_t size = equals == NULL ? strlen(word) : (size_t)(equals - word);
  const cli_flag *flag = cli_find_flag(flags, count, word, size);
  if (flag == NULL && equals == NULL && strncmp(word, "no", 2) == 0) {
    flag = cli_find_flag(flags, count, word + 2, size - 2);
    if (flag != NULL && flag->type == CLI_BOOL) {
      *(bool *)flag->value = false;
      return true;
    }
    flag = NULL;
  }
  if (flag == NULL) {
    unknown_flag(spec, flags, count, word, size);
    return false;
  }
  if (equals != NULL) return cli_set_flag(flag, "-", equals + 1);
  if (flag->type == CLI_BOOL) {
    *(bool *)flag->value = true;
    return true;
  }
  if (*at + 1 >= argc) {
    cli_usage_error("%s: flag -%s requires a value: -%s %s", spec->command, flag->name, flag->name,
                    cli_value_word(flag));
    return false;
  }
  return cli_set_flag(flag, "-", argv[++*at]);
}

static bool asks_for_help(const char *word) {
  return strcmp(word, "-help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* ---- positional arguments ---- */

static const char *text_of(const cli_flag *flag) {
  const char *text = *(const char **)flag->value;
  return text == NULL ? "" : text;
}

static bool report_missing(const cli_spec *spec, const cli_flag *flag) {
  cli_usage_error("%s: missing required flag -%s %s", spec->command, flag->name,
                  flag->type == CLI_FILES ? "FILE" : cli_value_word(flag));
  return false;
}

static bool has_too_many(const cli_spec *spec, int argc) {
  return spec->max_arguments >= 0 && argc - 1 > spec->max_arguments;
}

bool cli_is_onnx(const char *path) {
  static const char end[] = ".onnx";
  const size_t length = strlen(path), size = sizeof end - 1;
  return length > size && strcmp(path + length - size, end) == 0;
}

/* Whether the flag is -weights and the net is an ONNX file, which has its weights. `model`: the net
 * if -model is not given. */
static bool is_in_model(const cli_spec *spec, const cli_flag *flag, const char *model) {
  const cli_flag *net = cli_find_flag(spec->flags, spec->flag_count, "model", strlen("model"));
  if (net == NULL || strcmp(flag->name, "weights") != 0) return false;
  return cli_is_onnx(text_of(net)[0] == '\0' ? model : text_of(net));
}

/* Gives the file flags that are not set the first arguments, which it removes. */
static bool take_files(const cli_spec *spec, int *argc, char **argv) {
  const cli_flag *given = NULL;
  for (int i = 0; i < CLI_MAX_FILE_FLAGS && spec->file_flag[i] != NULL; ++i) {
    const char *name = spec->file_flag[i];
    const cli_flag *flag = cli_find_flag(spec->flags, spec->flag_count, name, strlen(name));
    if (text_of(flag)[0] != '\0') {
      given = flag;
      continue;
    }
    if (is_in_model(spec, flag, *argc < 2 ? "" : argv[1])) continue;
    if (*argc < 2) return report_missing(spec, flag);
    *(const char **)flag->value = argv[1];
    --*argc;
    memmove(argv + 1, argv + 2, (size_t)*argc * sizeof *argv);
  }
  if (given == NULL || !has_too_many(spec, *argc)) return true;
  cli_usage_error("%s: give the file once, as -%s %s or as the argument %s", spec->command,
                  given->name, text_of(given), argv[1]);
  return false;
}

static bool check_required(const cli_spec *spec) {
  for (int i = 0; i < CLI_MAX_REQUIRED && spec->required[i] != NULL; ++i) {
    const char *name = spec->required[i];
    const cli_flag *flag = cli_find_flag(spec->flags, spec->flag_count, name, strlen(name));
    if (text_of(flag)[0] == '\0' && !is_in_model(spec, flag, "")) return report_missing(spec, flag);
  }
  return true;
}

static bool take_arguments(const cli_spec *spec, int *argc, char **argv) {
  if (!take_files(spec, argc, argv)) return false;
  if (*argc - 1 < spec->min_arguments) {
    cli_usage_error("%s: too few arguments; usage: crema %s %s [flags]", spec->command,
                    spec->command, spec->arguments);
    return false;
  }
  if (has_too_many(spec, *argc)) {
    cli_usage_error("%s: unexpected argument \"%s\"; `crema help %s` explains the command",
                    spec->command, argv[1 + spec->max_arguments], spec->command);
    return false;
  }
  return check_required(spec);
}

bool cli_parse(const cli_spec *spec, int *argc, char **argv, int *exit_code) {
  cli_log_flags log;
  cli_flag flags[CLI_MAX_FLAGS];
  size_t count = spec->flag_count;
  *exit_code = CLI_EXIT_USAGE;
  if (count + CLI_LOG_FLAGS > CLI_MAX_FLAGS) {
    cli_error("%s: too many flags are declared", spec->command);
    return false;
  }
  if (count > 0) memcpy(flags, spec->flags, count * sizeof *flags);
  cli_log_flags_list(&log, flags + count);
  if (!cli_log_flags_read(flags + count)) return false;
  int kept = 1;
  bool only_arguments = false;
  for (int i = 1; i < *argc; ++i) {
    char *word = argv[i];
    if (only_arguments || word[0] != '-' || word[1] == '\0') {
      argv[kept++] = word;
    } else if (strcmp(word, "--") == 0) {
      only_arguments = true;
    } else if (asks_for_help(word)) {
      cli_print_help(spec);
      *exit_code = 0;
      return false;
    } else if (!read_flag(spec, flags, count + CLI_LOG_FLAGS, *argc, argv, &i)) {
      return false;
    }
  }
  *argc = kept;
  argv[kept] = NULL;
  if (!take_arguments(spec, argc, argv)) return false;
  *exit_code = cli_log_flags_apply(&log) ? 0 : 1;
  return *exit_code == 0;
}
