/* Shared by all subcommands of `crema`: flags, help, errors.
 *
 * A subcommand is one file tools/<name>.c with a function crema_cmd_<name> and one row in
 * commands.inc. The function describes itself in a cli_spec, calls cli_parse and does its work:
 *
 *   int crema_cmd_greet(int argc, char **argv) {
 *     const char *name = "you";
 *     int64_t times = 1;
 *     const cli_flag flags[] = {
 *         {"name", CLI_STRING, &name, "whom to greet"},
 *         {"times", CLI_INT, &times, "how often"},
 *     };
 *     const cli_spec spec = {
 *         .command = "greet", .arguments = "FILE", .min_arguments = 1, .max_arguments = 1,
 *         .help = "Greets a user.\n\nExample:\n  crema greet -name Ada out.txt\n",
 *         .flags = flags, .flag_count = sizeof flags / sizeof *flags};
 *     int exit_code;
 *     if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
 *     ... argv[1] is the file ...
 *     if (crema_...(...) != CREMA_OK) return cli_fail();
 *     return 0;
 *   }
 */
#ifndef CREMA_TOOLS_CLI_H
#define CREMA_TOOLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema/status.h"

/* The type of a flag's value, to which cli_flag.value points. The kinds of text differ only in the
 * word that the help shows for the value. */
typedef enum cli_flag_type {
  CLI_STRING,  /* const char *; points into argv */
  CLI_WORD,    /* the same: one of the words that the help lists */
  CLI_FILE,    /* the same: a path */
  CLI_FILES,   /* the same: paths with commas */
  CLI_DIR,     /* the same: the path of a folder */
  CLI_NAMES,   /* the same: names with commas */
  CLI_NUMBERS, /* the same: numbers with commas */
  CLI_DEVICE,  /* the same: the number of a device */
  CLI_SHAPES,  /* the same: shapes of blobs */
  CLI_INT,     /* int64_t */
  CLI_DOUBLE,  /* double */
  CLI_BOOL,    /* bool; -x, -x=false, -nox */
  CLI_GROUP    /* no flag: `help` is the heading of the flags after it */
} cli_flag_type;

typedef struct cli_flag {
  const char *name; /* without dashes */
  cli_flag_type type;
  void *value; /* holds the default, receives the user's value */
  const char *help;
} cli_flag;

enum { CLI_MAX_FILE_FLAGS = 2, CLI_MAX_REQUIRED = 3, CLI_EXIT_USAGE = 2 };

typedef struct cli_spec {
  const char *command;
  const char *arguments; /* positional arguments for the usage line, "" for none */
  /* Required flags of text. The first positional arguments stand for flags that are not given. The
   * flag "weights" may be missing if "model" is an ONNX file. */
  const char *file_flag[CLI_MAX_FILE_FLAGS];
  const char *required[CLI_MAX_REQUIRED]; /* further flags of text without a default */
  int min_arguments;                      /* these and the next without the file flags */
  int max_arguments;                      /* -1: any number */
  const char *help;                       /* a description, then an example; ends in a newline */
  const char *more;                       /* sections after the flags; may be NULL */
  const cli_flag *flags;
  size_t flag_count;
} cli_spec;

/* Whether a file is ONNX by the end of its name, ".onnx": a net with its weights. */
bool cli_is_onnx(const char *path);

/* Reads the flags of argv[1..*argc-1] into spec->flags. Accepted: -flag value, -flag=value and the
 * same with two dashes; flags and positional arguments in any order; "--" ends the flags. A bool
 * flag never takes the next word as its value; true, false, 0 or 1 may follow after "=". All
 * commands accept the log's flags too (log_flags.c), also from the environment. Afterwards
 * argv[1..*argc-1] are the positional arguments without the values of file flags. Returns true
 * when the command should continue. False: it should return *exit_code, which is 0 after the help
 * that was requested and CLI_EXIT_USAGE after an error in the flags, which is printed. */
bool cli_parse(const cli_spec *spec, int *argc, char **argv, int *exit_code);

/* Prints "crema: error: <text>" once to standard error and returns 1, the exit code. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
int cli_error(const char *fmt, ...);

/* The same for an error in the command line. Returns CLI_EXIT_USAGE, and cli_exit_code returns it
 * instead of 1 from then on. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
int cli_usage_error(const char *fmt, ...);
int cli_exit_code(int code);

/* As cli_error, with the text of the library call that just failed on this thread. */
int cli_fail(void);

/* Reads one flag's value. Messages show the flag as the user wrote it: `prefix` and its name. False
 * with the error printed. */
bool cli_set_flag(const cli_flag *flag, const char *prefix, const char *text);

/* The flag of that name, `size` letters at `word`; '-' and '_' are the same. NULL: none. */
const cli_flag *cli_find_flag(const cli_flag *flags, size_t count, const char *word, size_t size);

/* One row of commands.inc. */
typedef struct cli_command {
  const char *name;
  int (*run)(int argc, char **argv); /* argv[0] is the command's name */
  const char *task;                  /* the group in the help */
  const char *summary;
} cli_command;

#define CLI_COMMAND(name, task, summary) int crema_cmd_##name(int argc, char **argv);
#include "commands.inc"
#undef CLI_COMMAND

/* The commands in the order of commands.inc. */
const cli_command *cli_commands(size_t *count);

/* NULL when there is none of that name. */
const cli_command *cli_find_command(const char *name);

/* The index of `text` among the words of a flag or argument, in any case. -1 with the error
 * printed, which begins with `name`. */
int cli_find_word(const char *name, const char *text, const char *const *word, int words);

/* ---- cli_help.c ---- */

/* Prints the help of a command, or a list of flags, to standard output. */
void cli_print_help(const cli_spec *spec);
void cli_print_flags(const cli_flag *flags, size_t count);

/* Whether a flag has text for a value, and the word for its value in the help, such as FILE. */
bool cli_has_text(const cli_flag *flag);
const char *cli_value_word(const cli_flag *flag);

/* ---- log_flags.c ---- */

/* The values of the log's flags, which every command accepts. */
typedef struct cli_log_flags {
  int64_t minloglevel, v;
  const char *log_dir, *log_file;
  bool log_prefix;
  bool logtostderr, alsologtostderr, colorlogtostderr;
  int64_t stderrthreshold;
} cli_log_flags;

enum { CLI_LOG_FLAGS = 9 };

/* Sets the defaults and writes the rows of the flags to `out`. */
void cli_log_flags_list(cli_log_flags *log, cli_flag out[CLI_LOG_FLAGS]);
/* Reads GLOG_minloglevel and so on from the environment. False with the error printed. */
bool cli_log_flags_read(const cli_flag flags[CLI_LOG_FLAGS]);
/* Sets up the log. False with the error printed. */
bool cli_log_flags_apply(const cli_log_flags *log);

/* ---- log_sink.c ---- */

/* Sends the library's log to standard error, in lines such as
 *   I1121 10:04:33.123456  1234 solver.c:218] Iteration 100, lr = 0.01
 * and, after cli_log_file, to a file as well. Lines below `level` (crema_log_level) are omitted.
 * The progress line, if one is shown, is moved below each line written. */
void cli_log_start(void);
void cli_log_level(int level);
/* Whether standard error is a terminal. Its lines then have no prefix by default, and colours
 * unless NO_COLOR is set. */
bool cli_log_is_terminal(void);
/* Whether lines on standard error have the prefix; before there are other threads. Lines in files
 * always have it if standard error is a terminal. */
void cli_log_prefix(bool wanted);
/* Appends to `path` as well. False (error printed) when it cannot be opened. */
bool cli_log_file(const char *path);
/* The command succeeds even if no line of its log could be written. */
void cli_log_optional(void);
/* False when lines were lost on standard error and no file took them either. */
bool cli_log_stop(void);
/* The line "crema: error: <text>"; use cli_error. */
void cli_log_print_error(const char *text);

/* The last line of a terminal, rewritten in place; a no-op when standard error is not a terminal.
 * An empty text removes it. */
bool cli_progress_wanted(void);
void cli_progress(const char *text);
/* A line above the progress line; a no-op when standard error is not a terminal. */
void cli_terminal_line(const char *text);

#endif
