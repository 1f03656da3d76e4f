#include "python_layers.h"

#include <dlfcn.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "crema/status.h"
#include "layers/common/custom_layer.h"

extern char **environ;

/* The program that asks an interpreter for its library. Arguments: crema's version, and a folder in
 * which the package may be. It prints "ok", the library, the home of the standard modules, and the
 * statements that give another interpreter the same modules. Or it prints one line, the reason
 * for its failure. */
static const char question[] =
    "import os, sys, sysconfig\n"
    "sys.path += sys.argv[2:]\n"
    "try:\n"
    "    import caffe\n"
    "except Exception as error:\n"
    "    print('%s cannot import caffe: %s' % (sys.executable, ' '.join(str(error).split())))\n"
    "    sys.exit()\n"
    "found = getattr(caffe, '__version__', 'of another project')\n"
    "if found != sys.argv[1]:\n"
    "    print('%s has caffe %s in %s; the command is crema %s' % (\n"
    "        sys.executable, found, os.path.dirname(caffe.__file__), sys.argv[1]))\n"
    "    sys.exit()\n"
    "name = 'libpython%d.%d%s.so.1.0' % (*sys.version_info[:2], sys.abiflags)\n"
    "folders = [sysconfig.get_config_var('LIBDIR') or '', os.path.join(sys.base_prefix, 'lib')]\n"
    "paths = [os.path.join(folder, name) for folder in folders]\n"
    "print('ok', next(filter(os.path.exists, paths), name), sep='\\n')\n"
    "print(sys.base_prefix, sys.base_exec_prefix, sep=':')\n"
    "print('import sys; sys.path[:] = %a; sys.executable = %a; sys.prefix = %a; '\n"
    "      'sys.exec_prefix = %a; sys.argv = [\"crema\"]; sys.crema_command = True; import caffe'\n"
    "      % (sys.path, sys.executable, sys.prefix, sys.exec_prefix))\n";

/* The functions of Python's library; see its stable ABI. */
static struct {
  void *library; /* NULL: not started */
  void (*initialize)(int handlers);
  int (*run)(const char *statements);
  void *(*leave)(void);
  int (*enter)(void);
  int (*finalize)(void);
} python;

static crema_status read_all(int fd, cr_buffer *out) {
  char part[4096];
  ssize_t size;
  while ((size = read(fd, part, sizeof part)) > 0) {
    CR_TRY(cr_buffer_append(out, part, (size_t)size));
  }
  return cr_buffer_append(out, "", 0);
}

/* Has the interpreter answer the question. */
static crema_status ask(const char *interpreter, cr_buffer *answer) {
  char version[32], folder[4096];
  int pipes[2];
  pid_t pid = 0;
  posix_spawn_file_actions_t actions;
  ssize_t size = readlink("/proc/self/exe", folder, sizeof folder - 16);
  while (size > 0 && folder[size - 1] != '/') --size;
  snprintf(folder + (size < 0 ? 0 : size), 16, "../python"); /* of a build folder */
  snprintf(version, sizeof version, "%s", crema_version());
  const char *argv[] = {interpreter, "-c", question, version, folder, NULL};
  if (pipe(pipes) != 0) return cr_fail(CREMA_E_IO, "no pipe");
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipes[0]);
  posix_spawn_file_actions_addclose(&actions, pipes[1]);
  const int error = posix_spawnp(&pid, interpreter, &actions, NULL, (char *const *)argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipes[1]);
  crema_status status = error != 0 ? cr_fail_errno(error, "%s", interpreter) : CREMA_OK;
  if (status == CREMA_OK) status = read_all(pipes[0], answer);
  close(pipes[0]);
  if (error == 0) waitpid(pid, NULL, 0);
  return status;
}

/* Cuts a line off the text at *at. */
static char *cut_line(char **at) {
  char *line = *at, *end = strchr(line, '\n');
  if (end == NULL) return NULL;
  *end = '\0';
  *at = end + 1;
  return line;
}

static crema_status open_library(const char *path) {
  struct {
    const char *name;
    void *to;
  } functions[] = {{"Py_InitializeEx", &python.initialize},
                   {"PyRun_SimpleString", &python.run},
                   {"PyEval_SaveThread", &python.leave},
                   {"PyGILState_Ensure", &python.enter},
                   {"Py_FinalizeEx", &python.finalize}};
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "%s; install Python's shared library (Debian: libpython3-dev)", dlerror());
  }
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    void *symbol = dlsym(library, functions[i].name);
    if (symbol == NULL) return cr_fail(CREMA_E_UNSUPPORTED, "%s: %s", path, dlerror());
    memcpy(functions[i].to, &symbol, sizeof symbol);
  }
  python.library = library;
  return CREMA_OK;
}

/* Starts the interpreter with the modules of the one that answered. */
static crema_status initialize(const char *home, const char *statements) {
  static const char variable[] = "PYTHONHOME"; /* Python's, not the command's */
  const char *before = getenv(variable);
  char *kept = before == NULL ? NULL : strdup(before);
  setenv(variable, home, 1);
  python.initialize(0);
  if (kept != NULL) setenv(variable, kept, 1);
  else unsetenv(variable);
  free(kept);
  const int failed = python.run(statements);
  (void)python.leave();
  return failed == 0 ? CREMA_OK : cr_fail(CREMA_E_UNSUPPORTED, "the package cannot be imported");
}

static crema_status start(void) {
  const char *interpreter = getenv("CREMA_PYTHON");
  if (interpreter == NULL || interpreter[0] == '\0') interpreter = "python3";
  cr_buffer answer = {0};
  crema_status status = ask(interpreter, &answer);
  char *at = answer.data, *first = status == CREMA_OK ? cut_line(&at) : NULL;
  if (status == CREMA_OK && (first == NULL || strcmp(first, "ok") != 0)) {
    status = cr_fail(CREMA_E_UNSUPPORTED, "%s", first == NULL ? "it does not answer" : first);
  }
  if (status == CREMA_OK) {
    const char *library = cut_line(&at), *home = cut_line(&at), *statements = cut_line(&at);
    status = open_library(library);
    if (status == CREMA_OK) status = initialize(home, statements);
  }
  cr_buffer_free(&answer);
  return cr_fail_in(status,
                    "layers of type 'Python' need an interpreter (%s; CREMA_PYTHON names another)",
                    interpreter);
}

void cli_python_allow(void) {
  cr_custom_layer_on_python(start);
}

void cli_python_stop(void) {
  if (python.library == NULL) return;
  (void)python.enter();
  (void)python.finalize();
  python.library = NULL;
}
