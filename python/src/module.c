#include "core.h"

PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec) {
  PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
  if (type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0) return NULL;
  return (PyTypeObject *)type;
}

void py_free_object(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF((PyObject *)type);
}

PyObject *py_path(PyObject *path, const char **out) {
  PyObject *bytes = NULL;
  if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
  *out = PyBytes_AsString(bytes);
  if (*out == NULL) Py_CLEAR(bytes);
  return bytes;
}

crema_status py_device_get(int type, int index, crema_device **out) {
  const crema_status status = crema_device_open((crema_device_type)type, &index, 1);
  return status != CREMA_OK ? status : crema_device_get((crema_device_type)type, index, out);
}

static PyObject *version(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyUnicode_FromString(crema_version());
}

static PyObject *layer_types(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  const int count = crema_layer_type_count();
  PyObject *list = PyList_New(count);
  for (int i = 0; list != NULL && i < count; ++i) {
    PyObject *name = PyUnicode_FromString(crema_layer_type_name(i));
    if (name == NULL || PyList_SetItem(list, i, name) != 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *device_count(PyObject *module, PyObject *args) {
  int type = 0;
  (void)module;
  if (!PyArg_ParseTuple(args, "i", &type)) return NULL;
  return PyLong_FromLong(crema_device_count((crema_device_type)type));
}

/* load_image(path, blob) */
static PyObject *load_image(PyObject *module, PyObject *args) {
  PyObject *path = NULL, *blob = NULL;
  const char *file = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &path, &blob)) return NULL;
  PyObject *name = py_path(path, &file);
  crema_blob *target = name == NULL ? NULL : py_blob_get(blob);
  crema_status status = CREMA_OK;
  if (target != NULL) PY_RUN(status, crema_image_load(file, NULL, target, 0));
  Py_XDECREF(name);
  return target == NULL ? NULL : py_error_none(NULL, status);
}

/* image_size(path) */
static PyObject *image_size(PyObject *module, PyObject *path) {
  const char *file = NULL;
  int height = 0, width = 0;
  (void)module;
  PyObject *name = py_path(path, &file);
  if (name == NULL) return NULL;
  crema_status status = CREMA_OK;
  PY_RUN(status, crema_image_size(file, &height, &width));
  Py_DECREF(name);
  if (status != CREMA_OK) return py_error_none(NULL, status);
  return Py_BuildValue("(ii)", height, width);
}

static PyMethodDef functions[] = {
    {"image_size", image_size, METH_O, "image_size(path): the height and width of an image file."},
    {"load_image", load_image, METH_VARARGS,
     "load_image(path, blob): loads an image into the blob's first item."},
    {"net_preprocessing", py_preprocessing_of_net, METH_O,
     "net_preprocessing(net): the preprocessing of a net's first input."},
    {"version", version, METH_NOARGS, "version(): crema's version."},
    {"layer_types", layer_types, METH_NOARGS, "layer_types(): the names of all layer types."},
    {"device_count", device_count, METH_VARARGS, "device_count(type): the number of devices."},
    {"set_log", py_log_set, METH_VARARGS,
     "set_log(level): sets the lowest level to log to standard error."},
    {"onnx_compare", py_onnx_compare, METH_VARARGS,
     "onnx_compare(net, path): the largest difference, and its output."},
    {"onnx_export", py_onnx_export, METH_VARARGS,
     "onnx_export(net, path, opset, any_batch): writes the net as ONNX."},
    {"onnx_import", py_onnx_import, METH_VARARGS,
     "onnx_import(path, net_path, weights_path): writes an ONNX file as a net and its weights."},
    {"set_bar", py_log_set_bar, METH_O,
     "set_bar(there): whether a progress bar occupies the last line."},
    {"log", py_log_write, METH_VARARGS, "log(text, file, line): writes a line to the log."},
    {"set_net_class", py_net_set_class, METH_O,
     "set_net_class(class): sets the class of solvers' nets."},
    {"set_layer_makers", py_layer_set_makers, METH_VARARGS,
     "set_layer_makers(layer, list): sets the functions that create layers, and lists of blobs."},
    {"group_find", py_group_find, METH_NOARGS,
     "group_find(): raises an exception if NCCL cannot be used."},
    {"group_make_id", py_group_make_id, METH_NOARGS, "group_make_id(): a new group id for NCCL."},
    {"close", py_layer_close, METH_NOARGS, "close(): called when the interpreter ends."},
    {0},
};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "caffe._core",
    .m_doc = "libcrema for the package caffe.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__core(void); /* found by its name */

PyMODINIT_FUNC PyInit__core(void) {
  PyObject *module = PyModule_Create(&definition);
  if (module == NULL) return NULL;
  if (py_error_init(module) != 0 || py_view_init(module) != 0 || py_blob_init(module) != 0 ||
      py_net_init(module) != 0 || py_solver_init(module) != 0 || py_model_init(module) != 0 ||
      py_preprocessing_init(module) != 0 || py_layer_init(module) != 0) {
    Py_CLEAR(module);
  }
  return module;
}
