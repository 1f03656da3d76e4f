#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/did_you_mean.h"
#include "crema/log.h"

enum { CLI_MAX_FLAGS = 64, CLI_ERROR_TEXT_MAX = 4096 };

int cli_error(const char *fmt, ...) {
  char text[CLI_ERROR_TEXT_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  cli_log_print_error(text);
  return 1;
}

int cli_fail(void) {
  const char *text = crema_error_text();
  return cli_error("%s", text[0] != '\0' ? text : "unknown failure");
}

/* Whether a UTF-8 character may begin so; if not, it has a shorter form, is half of a pair of
 * UTF-16 or lies beyond the last character. */
static bool may_follow(unsigned char first, unsigned char second) {
  if (first == 0xE0) return second >= 0xA0;
  if (first == 0xED) return second < 0xA0;
  if (first == 0xF0) return second >= 0x90;
  return first != 0xF4 || second < 0x90;
}

size_t cli_character_size(const char *text) {
  const unsigned char *byte = (const unsigned char *)text;
  if (byte[0] < 0x80) return (byte[0] >= 0x20 && byte[0] != 0x7F) || byte[0] == '\t';
  size_t size = byte[0] >= 0xF0 ? 4 : byte[0] >= 0xE0 ? 3 : 2;
  if (byte[0] < 0xC2 || byte[0] > 0xF4 || !may_follow(byte[0], byte[1])) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte[i] & 0xC0) != 0x80) return 0;
  }
  bool control = byte[0] == 0xC2 && byte[1] < 0xA0;
  return control ? 0 : size;
}

/* ---- the log's flags, which every command knows ---- */

typedef struct log_flags {
  int64_t minloglevel, v;
  const char *log_dir, *log_file;
  bool log_prefix;
  bool logtostderr, alsologtostderr, colorlogtostderr;
  int64_t stderrthreshold;
} log_flags;

enum { LOG_FLAG_COUNT = 9 };

static void list_log_flags(log_flags *log, cli_flag flags[LOG_FLAG_COUNT]) {
  const cli_flag list[LOG_FLAG_COUNT] = {
      {"minloglevel", CLI_INT, &log->minloglevel, "0 all messages, 1 warnings, 2 errors only"},
      {"v", CLI_INT, &log->v, "above 0: debugging messages as well"},
      {"log_file", CLI_STRING, &log->log_file, "append the log to this file as well"},
      {"log_dir", CLI_STRING, &log->log_dir, "append the log to crema.INFO in this folder"},
      {"log_prefix", CLI_BOOL, &log->log_prefix, "severity, time and place before each message"},
      {"logtostderr", CLI_BOOL, &log->logtostderr, "accepted; the log always goes there"},
      {"alsologtostderr", CLI_BOOL, &log->alsologtostderr, "accepted; the log always goes there"},
      {"colorlogtostderr", CLI_BOOL, &log->colorlogtostderr, "accepted without effect"},
      {"stderrthreshold", CLI_INT, &log->stderrthreshold, "accepted; all severities go there"},
  };
  memcpy(flags, list, sizeof list);
}

static bool apply_log_flags(const log_flags *log) {
  int level = CREMA_LOG_INFO;
  if (log->minloglevel > 0) level += log->minloglevel < 3 ? (int)log->minloglevel : 3;
  if (log->v > 0 && log->minloglevel == 0) level = CREMA_LOG_DEBUG;
  cli_log_level(level);
  cli_log_prefix(log->log_prefix);
  if (log->log_file != NULL && !cli_log_file(log->log_file)) return false;
  if (log->log_dir == NULL || log->log_dir[0] == '\0') return true;
  char path[4096];
  int need = snprintf(path, sizeof path, "%s/crema.INFO", log->log_dir);
  if (need < 0 || (size_t)need >= sizeof path) {
    cli_error("-log_dir: the name is too long");
    return false;
  }
  return cli_log_file(path);
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

static const cli_flag *find_flag(const cli_flag *flags, size_t count, const char *word,
                                 size_t size) {
  for (size_t i = 0; i < count; ++i) {
    if (same_name(word, size, flags[i].name)) return &flags[i];
  }
  return NULL;
}

static bool parse_bool(const char *text, bool *out) {
  static const char *const yes[] = {"true", "1", "t", "yes", "y"};
  static const char *const no[] = {"false", "0", "f", "no", "n"};
  for (size_t i = 0; i < sizeof yes / sizeof *yes; ++i) {
    if (strcmp(text, yes[i]) == 0) *out = true;
    else if (strcmp(text, no[i]) == 0) *out = false;
    else continue;
    return true;
  }
  return false;
}

/* Messages name the flag as the user wrote it: `prefix` and its name. */
static bool set_flag(const cli_flag *flag, const char *prefix, const char *text) {
  char *end = NULL;
  bool good = text[0] != '\0';
  const char *wanted = "";
  errno = 0;
  switch (flag->type) {
    case CLI_STRING: *(const char **)flag->value = text; return true;
    case CLI_BOOL:
      wanted = "true or false";
      good = parse_bool(text, flag->value);
      break;
    case CLI_INT: {
      wanted = "a whole number";
      long long value = strtoll(text, &end, 10);
      good = good && *end == '\0' && errno == 0;
      if (good) *(int64_t *)flag->value = value;
      break;
    }
    case CLI_DOUBLE: {
      wanted = "a number";
      double value = strtod(text, &end);
      good = good && *end == '\0' && errno == 0;
      if (good) *(double *)flag->value = value;
      break;
    }
  }
  if (!good) cli_error("%s%s: expected %s, found \"%s\"", prefix, flag->name, wanted, text);
  return good;
}

/* glog's flags may be given in the environment: GLOG_minloglevel=1. */
static bool read_log_environment(const cli_flag flags[LOG_FLAG_COUNT]) {
  for (int i = 0; i < LOG_FLAG_COUNT; ++i) {
    char name[64];
    snprintf(name, sizeof name, "GLOG_%s", flags[i].name);
    const char *text = getenv(name);
    if (text != NULL && text[0] != '\0' && !set_flag(&flags[i], "GLOG_", text)) return false;
  }
  return true;
}

static void unknown_flag(const cli_spec *spec, const cli_flag *flags, size_t count,
                         const char *word, size_t size) {
  char name[128];
  const char *names[CLI_MAX_FLAGS];
  snprintf(name, sizeof name, "%.*s", (int)size, word);
  for (size_t i = 0; i < count; ++i) names[i] = flags[i].name;
  const char *nearest = cr_did_you_mean(name, names, count);
  if (nearest != NULL) {
    cli_error("%s: unknown flag -%s; did you mean -%s?", spec->command, name, nearest);
  } else {
    cli_error("%s: unknown flag -%s; `crema help %s` lists them", spec->command, name,
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
  const cli_flag *flag = find_flag(flags, count, word, size);
  if (flag == NULL && equals == NULL && strncmp(word, "no", 2) == 0) {
    flag = find_flag(flags, count, word + 2, size - 2);
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
  if (equals != NULL) return set_flag(flag, "-", equals + 1);
  if (flag->type == CLI_BOOL) {
    *(bool *)flag->value = true;
    return true;
  }
  if (*at + 1 >= argc) {
    cli_error("%s: flag -%s needs a value", spec->command, flag->name);
    return false;
  }
  return set_flag(flag, "-", argv[++*at]);
}

/* ---- help ---- */

static void print_default(const cli_flag *flag) {
  switch (flag->type) {
    case CLI_STRING: {
      const char *text = *(const char **)flag->value;
      if (text != NULL && text[0] != '\0') printf(" (default %s)", text);
      break;
    }
    case CLI_INT: printf(" (default %lld)", (long long)*(int64_t *)flag->value); break;
    case CLI_DOUBLE: printf(" (default %g)", *(double *)flag->value); break;
    case CLI_BOOL:
      if (*(bool *)flag->value) printf(" (default true)");
      break;
  }
}

static void print_flags(const cli_flag *flags, size_t count) {
  static const char *const kinds[] = {"TEXT", "N", "X", ""};
  for (size_t i = 0; i < count; ++i) {
    char left[64];
    const char *kind = kinds[flags[i].type];
    snprintf(left, sizeof left, "-%s%s%s", flags[i].name, kind[0] != '\0' ? " " : "", kind);
    printf("  %-24s %s", left, flags[i].help);
    print_default(&flags[i]);
    printf("\n");
  }
}

static void print_help(const cli_spec *spec, const cli_flag *log) {
  const cli_command *command = cli_find_command(spec->command);
  printf("crema %s: %s\n\nUsage: crema %s [flags]%s%s\n\n%s", spec->command,
         command != NULL ? command->summary : "", spec->command,
         spec->arguments != NULL && spec->arguments[0] != '\0' ? " " : "",
         spec->arguments != NULL ? spec->arguments : "", spec->help);
  if (spec->flag_count > 0) printf("\nFlags (-flag value, -flag=value, --flag value, ...):\n");
  print_flags(spec->flags, spec->flag_count);
  printf(
      "\nFlags of the log, known to all commands and to the environment as GLOG_minloglevel "
      "etc.:\n");
  print_flags(log, LOG_FLAG_COUNT);
}

static bool asks_for_help(const char *word) {
  return strcmp(word, "-help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

bool cli_parse(const cli_spec *spec, int *argc, char **argv, int *exit_code) {
  log_flags log = {.log_prefix = true};
  cli_flag flags[CLI_MAX_FLAGS];
  size_t count = spec->flag_count;
  *exit_code = 1;
  if (count + LOG_FLAG_COUNT > CLI_MAX_FLAGS) {
    cli_error("%s: too many flags are declared", spec->command);
    return false;
  }
  if (count > 0) memcpy(flags, spec->flags, count * sizeof *flags);
  list_log_flags(&log, flags + count);
  if (!read_log_environment(flags + count)) return false;
  int kept = 1;
  bool only_arguments = false;
  for (int i = 1; i < *argc; ++i) {
    char *word = argv[i];
    if (only_arguments || word[0] != '-' || word[1] == '\0') {
      argv[kept++] = word;
    } else if (strcmp(word, "--") == 0) {
      only_arguments = true;
    } else if (asks_for_help(word)) {
      print_help(spec, flags + count);
      *exit_code = 0;
      return false;
    } else if (!read_flag(spec, flags, count + LOG_FLAG_COUNT, *argc, argv, &i)) {
      return false;
    }
  }
  *argc = kept;
  argv[kept] = NULL;
  if (kept - 1 < spec->min_arguments) {
    cli_error("%s: too few arguments; usage: crema %s [flags] %s", spec->command, spec->command,
              spec->arguments);
    return false;
  }
  if (spec->max_arguments >= 0 && kept - 1 > spec->max_arguments) {
    cli_error("%s: unexpected argument \"%s\"; `crema help %s` explains the command", spec->command,
              argv[1 + spec->max_arguments], spec->command);
    return false;
  }
  if (!apply_log_flags(&log)) return false;
  *exit_code = 0;
  return true;
}
