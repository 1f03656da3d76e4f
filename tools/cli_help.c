/* The help of a command: its description and its flags. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

enum { HELP_WIDTH = 98, FLAG_WIDTH = 24, TEXT_MAX = 1024 };

bool cli_has_text(const cli_flag *flag) {
  return flag->type < CLI_INT;
}

const char *cli_value_word(const cli_flag *flag) {
  static const char *const words[] = {
      [CLI_STRING] = "TEXT",    [CLI_WORD] = "WORD", [CLI_FILE] = "FILE",
      [CLI_FILES] = "FILE,...", [CLI_DIR] = "DIR",   [CLI_NAMES] = "NAME,...",
      [CLI_NUMBERS] = "N,...",  [CLI_DEVICE] = "N",  [CLI_SHAPES] = "SHAPES",
      [CLI_INT] = "N",          [CLI_DOUBLE] = "X",  [CLI_BOOL] = "",
      [CLI_GROUP] = ""};
  return words[flag->type];
}

static void default_text(const cli_flag *flag, char *out, size_t size) {
  const char *text = cli_has_text(flag) ? *(const char **)flag->value : NULL;
  out[0] = '\0';
  if (text != NULL && text[0] != '\0') snprintf(out, size, " (default %s)", text);
  if (flag->type == CLI_INT) {
    snprintf(out, size, " (default %lld)", (long long)*(int64_t *)flag->value);
  }
  if (flag->type == CLI_DOUBLE) snprintf(out, size, " (default %g)", *(double *)flag->value);
  if (flag->type == CLI_BOOL && *(bool *)flag->value) snprintf(out, size, " (default true)");
}

/* Prints words up to HELP_WIDTH columns; `indent` is the column of the first word and the start
 * of the other lines. */
static void print_wrapped(const char *text, int indent) {
  int column = indent;
  for (const char *word = text; *word != '\0';) {
    const int length = (int)strcspn(word, " ");
    if (column > indent && column + 1 + length > HELP_WIDTH) {
      printf("\n%*s", indent, "");
      column = indent;
    }
    if (column > indent) ++column, putchar(' ');
    printf("%.*s", length, word);
    column += length;
    word += length;
    word += strspn(word, " ");
  }
  putchar('\n');
}

/* The column at which the text of a line such as "  name  text" begins; else its first column. */
static int text_column(const char *line) {
  const int first = (int)strspn(line, " ");
  const char *gap = strstr(line + first, "  ");
  const char *end = strchr(line, '\n');
  if (gap == NULL || (end != NULL && gap > end)) return first;
  return (int)(gap - line) + (int)strspn(gap, " ");
}

/* Prints lines of text; only lines that are too long are wrapped. */
static void print_text(const char *text) {
  while (*text != '\0') {
    char line[TEXT_MAX];
    const size_t length = strcspn(text, "\n");
    const int column = text_column(text);
    snprintf(line, sizeof line, "%.*s", (int)length, text);
    if (length > HELP_WIDTH + 2) {
      printf("%.*s", column, line);
      print_wrapped(line + column, column);
    } else {
      puts(line);
    }
    text += length + (text[length] == '\n');
  }
}

void cli_print_flags(const cli_flag *flags, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    char left[80], with_default[64], text[TEXT_MAX];
    if (flags[i].type == CLI_GROUP) {
      printf("%s%s:\n", i > 0 ? "\n" : "", flags[i].help);
      continue;
    }
    const char *word = cli_value_word(&flags[i]);
    snprintf(left, sizeof left, "-%s%s%s", flags[i].name, word[0] != '\0' ? " " : "", word);
    default_text(&flags[i], with_default, sizeof with_default);
    snprintf(text, sizeof text, "%s%s", flags[i].help, with_default);
    printf("  %-*s ", FLAG_WIDTH, left);
    if (strlen(left) > FLAG_WIDTH) printf("\n%*s", FLAG_WIDTH + 3, "");
    print_wrapped(text, FLAG_WIDTH + 3);
  }
}

void cli_print_help(const cli_spec *spec) {
  const cli_command *command = cli_find_command(spec->command);
  const char *arguments = spec->arguments == NULL ? "" : spec->arguments;
  printf("crema %s: %s\n\nUsage: crema %s%s%s [flags]\n\n", spec->command,
         command != NULL ? command->summary : "", spec->command, arguments[0] != '\0' ? " " : "",
         arguments);
  print_text(spec->help);
  if (spec->flag_count > 0) printf("\n");
  if (spec->flag_count > 0 && spec->flags[0].type != CLI_GROUP) printf("Flags:\n");
  cli_print_flags(spec->flags, spec->flag_count);
  for (int i = 0; i < CLI_MAX_FILE_FLAGS && spec->file_flag[i] != NULL; ++i) {
    printf("%s-%s may also be the %s argument.\n", i == 0 ? "\n" : "", spec->file_flag[i],
           i == 0 ? "first" : "second");
  }
  if (spec->more != NULL) printf("%s", spec->more);
  printf("\nFlags of the log, such as -minloglevel 1: `crema help logging`.\n");
}
