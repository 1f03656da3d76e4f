/* Where the library's log goes: standard error, in glog's line format because log parsers
 * match on it, a file if asked for, and a progress line below both. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "core/utf8.h"
#include "core/system.h"
#include "crema/log.h"

enum { MAX_FILES = 2, PROGRESS_MAX = 256, TEXT_MAX = 4200 };

typedef struct log_sink {
  pthread_mutex_t lock;
  bool terminal;
  FILE *file[MAX_FILES];
  char *path[MAX_FILES]; /* of the files */
  int files;
  bool optional; /* the command's work outlasts the log */
  bool bare;     /* lines on standard error have no prefix */
  bool colored;
  char progress[PROGRESS_MAX];
} log_sink;

static log_sink sink = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const clear_line = "\r\033[K";
static const char *const yellow = "\033[33m", *const red = "\033[31m", *const plain = "\033[0m";

/* Whether a list continues on an indented line, which cannot be taken for a line of the log. */
static bool continues(const char *text) {
  return text[0] == '\n' && text[1] == ' ' && text[2] == ' ';
}

/* Names come from files that anybody may have written: they must neither control the terminal nor
 * look like log lines. */
static const char *printable(const char *text, char out[TEXT_MAX]) {
  size_t n = 0;
  for (const char *at = text; *at != '\0';) {
    size_t size = cr_utf8_size(at);
    if (size == 0 && continues(at)) size = 1;
    if (n + (size == 0 ? 1 : size) >= TEXT_MAX) break;
    if (size == 0) out[n] = '?';
    else memcpy(out + n, at, size);
    n += size == 0 ? 1 : size;
    at += size == 0 ? 1 : size;
  }
  out[n] = '\0';
  return out;
}

/* Adds a line to the files. Returns the path of a file that could not be written and is given up,
 * to be freed; NULL: all is well. */
static char *write_to_files(log_sink *self, const char *head, const char *message) {
  for (int i = 0; i < self->files; ++i) {
    if (fprintf(self->file[i], "%s%s\n", head, message) >= 0 && fflush(self->file[i]) == 0)
      continue;
    char *path = self->path[i];
    fclose(self->file[i]);
    --self->files;
    self->file[i] = self->file[self->files];
    self->path[i] = self->path[self->files];
    return path;
  }
  return NULL;
}

/* On a terminal, words and colours stand for the letters of the prefix. */
static void write_to_stderr(const log_sink *self, crema_log_level level, const char *head,
                            const char *message) {
  const bool progress = self->progress[0] != '\0', error = level >= CREMA_LOG_ERROR;
  const bool notable = self->terminal && level >= CREMA_LOG_WARNING;
  const char *color = notable && self->colored ? error ? red : yellow : "";
  const char *word = notable && self->bare ? error ? "error: " : "warning: " : "";
  fprintf(stderr, "%s%s%s%s%s%s\n%s", progress ? clear_line : "", color, self->bare ? "" : head,
          word, color[0] != '\0' ? plain : "", message, self->progress);
}

static void write_line(void *user, crema_log_level level, const char *file, int line,
                       const char *message) {
  log_sink *self = user;
  char clean[TEXT_MAX];
  message = printable(message, clean);
  struct timespec now;
  struct tm local;
  clock_gettime(CLOCK_REALTIME, &now);
  localtime_r(&now.tv_sec, &local);
  char letter = level >= CREMA_LOG_ERROR ? 'E' : level == CREMA_LOG_WARNING ? 'W' : 'I';
  char head[160];
  snprintf(head, sizeof head, "%c%02d%02d %02d:%02d:%02d.%06ld %5ld %.80s:%d] ", letter,
           local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
           now.tv_nsec / 1000, cr_system_thread(), file, line);
  pthread_mutex_lock(&self->lock);
  write_to_stderr(self, level, head, message);
  if (self->bare && !self->terminal) head[0] = '\0';
  char *full = write_to_files(self, head, message);
  pthread_mutex_unlock(&self->lock);
  if (full == NULL) return;
  snprintf(clean, sizeof clean, "%s: cannot be written; the log continues without it", full);
  free(full);
  write_line(user, CREMA_LOG_WARNING, "log_sink.c", __LINE__, clean);
}

bool cli_log_is_terminal(void) {
  return isatty(STDERR_FILENO) == 1;
}

void cli_log_start(void) {
  const char *no_color = getenv("NO_COLOR"), *kind = getenv("TERM");
  sink.terminal = cli_log_is_terminal();
  sink.bare = sink.terminal;
  sink.colored = sink.terminal && (no_color == NULL || no_color[0] == '\0') && kind != NULL &&
                 strcmp(kind, "dumb") != 0;
  crema_log_set(write_line, &sink, CREMA_LOG_INFO);
}

void cli_log_level(int level) {
  crema_log_set(write_line, &sink, (crema_log_level)level);
}

void cli_log_prefix(bool wanted) {
  sink.bare = !wanted;
}

bool cli_log_file(const char *path) {
  if (sink.files == MAX_FILES) {
    cli_error("%s: too many log files", path);
    return false;
  }
  FILE *file = fopen(path, "ae");
  char *copy = strdup(path);
  if (file == NULL || copy == NULL) {
    if (file != NULL) fclose(file);
    free(copy);
    cli_error("%s: cannot open the log file", path);
    return false;
  }
  pthread_mutex_lock(&sink.lock);
  sink.file[sink.files] = file;
  sink.path[sink.files++] = copy;
  pthread_mutex_unlock(&sink.lock);
  return true;
}

void cli_log_optional(void) {
  sink.optional = true;
}

bool cli_log_stop(void) {
  crema_log_set(NULL, NULL, CREMA_LOG_ERROR);
  cli_progress("");
  bool whole = sink.optional || sink.files > 0 || ferror(stderr) == 0;
  while (sink.files > 0) {
    --sink.files;
    if (fclose(sink.file[sink.files]) != 0) {
      fprintf(stderr, "crema: warning: %s: cannot be written\n", sink.path[sink.files]);
    }
    free(sink.path[sink.files]);
  }
  return whole;
}

void cli_log_print_error(const char *text) {
  char clean[TEXT_MAX];
  text = printable(text, clean);
  cli_progress("");
  fprintf(stderr, "%screma: error:%s %s\n", sink.colored ? red : "", sink.colored ? plain : "",
          text);
  for (int i = 0; i < sink.files; ++i) fprintf(sink.file[i], "crema: error: %s\n", text);
}

bool cli_progress_wanted(void) {
  return sink.terminal;
}

/* A line that wraps could not be rewritten in place, so it must leave the last column free. */
static size_t progress_limit(void) {
  struct winsize window;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return PROGRESS_MAX;
  return window.ws_col < PROGRESS_MAX ? window.ws_col : PROGRESS_MAX;
}

void cli_terminal_line(const char *text) {
  char clean[TEXT_MAX];
  if (!sink.terminal) return;
  text = printable(text, clean);
  pthread_mutex_lock(&sink.lock);
  fprintf(stderr, "%s%s\n%s", sink.progress[0] != '\0' ? clear_line : "", text, sink.progress);
  pthread_mutex_unlock(&sink.lock);
}

void cli_progress(const char *text) {
  if (!sink.terminal) return;
  pthread_mutex_lock(&sink.lock);
  if (sink.progress[0] != '\0' || text[0] != '\0') {
    snprintf(sink.progress, progress_limit(), "%s", text);
    fprintf(stderr, "%s%s", clear_line, sink.progress);
    fflush(stderr);
  }
  pthread_mutex_unlock(&sink.lock);
}
