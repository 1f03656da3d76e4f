#include "core.h"

PyObject *py_onnx_export(PyObject *module, PyObject *args) {
  PyObject *object = NULL, *path = NULL;
  const char *file = NULL;
  crema_onnx_options options;
  int any_batch = 0;
  crema_status status;
  (void)module;
  crema_onnx_options_init(&options);
  if (!PyArg_ParseTuple(args, "OOip", &object, &path, &options.opset, &any_batch)) return NULL;
  options.any_batch = any_batch != 0;
  crema_net *net = py_net_get(object);
  PyObject *name = net == NULL ? NULL : py_path(path, &file);
  if (name == NULL) return NULL;
  py_guard *guard = py_net_guard(object);
  if (py_guard_enter(guard) != 0) {
    Py_DECREF(name);
    return NULL;
  }
  PY_RUN(status, crema_onnx_export(net, &options, file));
  py_guard_leave(guard);
  Py_DECREF(name);
  return py_error_none(guard, status);
}

PyObject *py_onnx_import(PyObject *module, PyObject *args) {
  PyObject *path[3], *name[3] = {NULL, NULL, NULL};
  const char *file[3];
  crema_status status = CREMA_OK;
  bool failed = false;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOO", &path[0], &path[1], &path[2])) return NULL;
  for (int i = 0; i < 3 && !failed; ++i) {
    name[i] = py_path(path[i], &file[i]);
    failed = name[i] == NULL;
  }
  if (!failed) PY_RUN(status, crema_onnx_import(file[0], file[1], file[2]));
  for (int i = 0; i < 3; ++i) Py_XDECREF(name[i]);
  return failed ? NULL : py_error_none(NULL, status);
}

PyObject *py_onnx_compare(PyObject *module, PyObject *args) {
  PyObject *object = NULL, *path = NULL;
  const char *file = NULL;
  crema_onnx_comparison result;
  crema_status status;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &object, &path) || py_guard_may_run() != 0) return NULL;
  crema_net *net = py_net_get(object);
  PyObject *name = net == NULL ? NULL : py_path(path, &file);
  if (name == NULL) return NULL;
  py_guard *guard = py_net_guard(object);
  if (py_guard_enter(guard) != 0) {
    Py_DECREF(name);
    return NULL;
  }
  py_guard_note_run();
  PY_BUILD(guard, status, crema_onnx_compare(net, file, &result));
  py_guard_leave(guard);
  Py_DECREF(name);
  if (status != CREMA_OK) return py_error_raise(guard, status);
  return Py_BuildValue("(ds)", result.difference, result.output);
}
