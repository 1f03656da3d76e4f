#include <stdio.h>

#include "core.h"

static PyObject *error_class; /* caffe.Error */

int py_error_init(PyObject *module) {
  error_class = PyErr_NewExceptionWithDoc("caffe.Error",
                                          "A failure in crema. Attributes: status (such "
                                          "as 'E_SHAPE'), layer, blob, file, line.",
                                          PyExc_RuntimeError, NULL);
  if (error_class == NULL) return -1;
  return PyModule_AddObjectRef(module, "Error", error_class);
}

static int set_text(PyObject *error, const char *name, const char *text) {
  PyObject *value = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  int result = value == NULL ? -1 : PyObject_SetAttrString(error, name, value);
  Py_XDECREF(value);
  return result;
}

static int set_number(PyObject *error, const char *name, size_t number) {
  PyObject *value = PyLong_FromSize_t(number);
  int result = value == NULL ? -1 : PyObject_SetAttrString(error, name, value);
  Py_XDECREF(value);
  return result;
}

static PyObject *raise_own(crema_status status) {
  const char *text = crema_error_text();
  if (text[0] == '\0') text = crema_status_message(status);
  PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  PyObject *error = NULL;
  if (message != NULL) error = PyObject_CallFunctionObjArgs(error_class, message, NULL);
  if (error != NULL && set_text(error, "status", crema_status_name(status)) == 0 &&
      set_text(error, "layer", crema_error_layer()) == 0 &&
      set_text(error, "blob", crema_error_blob()) == 0 &&
      set_text(error, "file", crema_error_file()) == 0 &&
      set_number(error, "line", crema_error_line()) == 0) {
    PyErr_SetObject(error_class, error);
  }
  Py_XDECREF(error);
  Py_XDECREF(message);
  return NULL;
}

crema_status py_error_keep(py_guard *guard) {
  PyObject *type = NULL, *value = NULL, *trace = NULL;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject *text = value == NULL ? NULL : PyObject_Repr(value);
  const char *words = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);
  PyErr_Clear(); /* raised by an exception without a text */
  const crema_status status =
      crema_error_set(CREMA_E_STATE, words == NULL ? "an exception in Python" : words);
  Py_XDECREF(text);
  PyErr_Restore(type, value, trace);
  py_guard_keep(guard);
  return status;
}

/* Adds a note to the current exception: the layer it comes from and the layer's line in the net's
 * file. */
static void add_place(void) {
  char text[600];
  PyObject *type = NULL, *value = NULL, *trace = NULL;
  const char *file = crema_error_file();
  if (crema_error_layer()[0] == '\0' && crema_error_line() == 0) return;
  if (file[0] == '\0') {
    snprintf(text, sizeof text, "layer '%.100s'", crema_error_layer());
  } else {
    snprintf(text, sizeof text, "%.400s:%zu: layer '%.100s'", file, crema_error_line(),
             crema_error_layer());
  }
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject *note = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  PyObject *done = NULL;
  if (note != NULL && value != NULL) done = PyObject_CallMethod(value, "add_note", "O", note);
  Py_XDECREF(note);
  Py_XDECREF(done);
  PyErr_Clear(); /* without the note, the exception is still the one to raise */
  PyErr_Restore(type, value, trace);
}

PyObject *py_error_raise(py_guard *guard, crema_status status) {
  if (!py_guard_raise(guard)) return raise_own(status);
  add_place();
  return NULL;
}

PyObject *py_error_none(py_guard *guard, crema_status status) {
  if (status != CREMA_OK) return py_error_raise(guard, status);
  if (PyErr_CheckSignals() != 0) return NULL;
  Py_RETURN_NONE;
}
