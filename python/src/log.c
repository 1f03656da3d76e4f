/* Writes crema's log to standard error in Caffe's format. It does not use the interpreter, because
 * any thread may log, with or without the interpreter's lock. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core.h"

/* Whether a progress bar occupies the terminal's last line. A log line replaces it, and the bar is
 * redrawn below. */
static atomic_bool bar;

static void write_line(void *user, crema_log_level level, const char *file, int line,
                       const char *message) {
  static const char letters[] = "DIWE";
  char text[2048];
  const char *clear = atomic_load(&bar) ? "\r\033[K" : "";
  struct timespec now;
  struct tm parts;
  const char *slash = strrchr(file, '/');
  (void)user;
  clock_gettime(CLOCK_REALTIME, &now);
  localtime_r(&now.tv_sec, &parts);
  int size = snprintf(text, sizeof text - 1, "%s%c%02d%02d %02d:%02d:%02d.%06ld %5d %s:%d] %s",
                      clear, letters[level], parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                      parts.tm_min, parts.tm_sec, now.tv_nsec / 1000, (int)getpid(),
                      slash == NULL ? file : slash + 1, line, message);
  if (size < 0) return;
  size_t length = (size_t)size < sizeof text - 2 ? (size_t)size : sizeof text - 2;
  text[length++] = '\n';
  (void)!write(STDERR_FILENO, text, length);
}

PyObject *py_log_set(PyObject *module, PyObject *args) {
  int level = 0;
  (void)module;
  if (!PyArg_ParseTuple(args, "i", &level)) return NULL;
  if (level > CREMA_LOG_ERROR) crema_log_set(NULL, NULL, CREMA_LOG_ERROR);
  else crema_log_set(write_line, NULL, level < 0 ? CREMA_LOG_DEBUG : (crema_log_level)level);
  Py_RETURN_NONE;
}

PyObject *py_log_set_bar(PyObject *module, PyObject *there) {
  (void)module;
  atomic_store(&bar, PyObject_IsTrue(there) == 1);
  Py_RETURN_NONE;
}

PyObject *py_log_write(PyObject *module, PyObject *args) {
  const char *text = NULL, *file = NULL;
  int line = 0;
  (void)module;
  if (!PyArg_ParseTuple(args, "ssi", &text, &file, &line)) return NULL;
  write_line(NULL, CREMA_LOG_INFO, file, line, text);
  Py_RETURN_NONE;
}
