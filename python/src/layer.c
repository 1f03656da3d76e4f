/* Layers of type "Python": objects of a class in the user's module. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* A layer's handle in Python, which is also the layer's state in the library. */
typedef struct layer_object {
  PyObject_HEAD crema_layer *layer; /* NULL: destroyed */
  PyObject *object;                 /* the user's */
  PyObject *bottom, *top, *params;  /* lists of blobs */
  py_guard *guard;                  /* of the net */
} layer_object;

static PyTypeObject *layer_type;
static PyObject *maker;  /* makes the user's object */
static PyObject *lister; /* makes a list of bottoms or tops, from a list */
static bool closed;      /* the interpreter ends */

static int layer_traverse(PyObject *object, visitproc visit, void *arg) {
  layer_object *self = (layer_object *)object;
  Py_VISIT(self->object);
  Py_VISIT(self->bottom);
  Py_VISIT(self->top);
  Py_VISIT(self->params);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static int layer_clear(PyObject *object) {
  layer_object *self = (layer_object *)object;
  Py_CLEAR(self->object);
  Py_CLEAR(self->bottom);
  Py_CLEAR(self->top);
  Py_CLEAR(self->params);
  return 0;
}

static void layer_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  layer_clear(object);
  py_guard_release(((layer_object *)object)->guard);
  py_free_object(object);
}

static crema_layer *layer_of(PyObject *object) {
  crema_layer *layer = ((layer_object *)object)->layer;
  if (layer == NULL) PyErr_SetString(PyExc_RuntimeError, "the net that had this layer is gone");
  return layer;
}

/* field(path): the value of a field of the layer's description as text. */
static PyObject *layer_field(PyObject *object, PyObject *path) {
  const crema_layer *layer = layer_of(object);
  const char *name = layer == NULL ? NULL : PyUnicode_AsUTF8AndSize(path, NULL);
  char *text = NULL;
  if (name == NULL) return NULL;
  crema_status status = crema_layer_field(layer, name, &text);
  if (status != CREMA_OK) return py_error_raise(NULL, status);
  PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
  crema_free(text);
  return result;
}

/* add_param(shape, filler or None): adds a parameter and returns its blob; in setup only. */
static PyObject *layer_add_param(PyObject *object, PyObject *args) {
  crema_layer *layer = layer_of(object);
  PyObject *extents = NULL;
  const char *filler = NULL;
  crema_shape shape = {0};
  crema_blob *blob = NULL;
  if (layer == NULL || !PyArg_ParseTuple(args, "Oz", &extents, &filler)) return NULL;
  if (py_shape_read(extents, &shape) != 0) return NULL;
  crema_status status = crema_layer_add_param(layer, &shape, filler, &blob);
  if (status != CREMA_OK) return py_error_raise(NULL, status);
  PyObject *param = py_blob_wrap(blob, NULL, NULL);
  if (param != NULL && PyList_Append(((layer_object *)object)->params, param) != 0) Py_CLEAR(param);
  return param;
}

static PyObject *layer_learns(PyObject *object, PyObject *number) {
  const crema_layer *layer = layer_of(object);
  const long index = layer == NULL ? -1 : PyLong_AsLong(number);
  if (layer == NULL || PyErr_Occurred() != NULL) return NULL;
  return PyBool_FromLong(crema_layer_param_learns(layer, (int)index));
}

static PyObject *layer_phase(PyObject *object, void *unused) {
  const crema_layer *layer = layer_of(object);
  (void)unused;
  return layer == NULL ? NULL : PyLong_FromLong(crema_layer_phase(layer));
}

static PyGetSetDef layer_getters[] = {
    {"phase", layer_phase, NULL, "The phase of the layer's net.", NULL},
    {0},
};
static PyMethodDef layer_methods[] = {
    {"field", layer_field, METH_O, "field(path): the value of a field of the description as text."},
    {"add_param", layer_add_param, METH_VARARGS,
     "add_param(shape, filler): adds a parameter and returns its blob; in setup only."},
    {"learns", layer_learns, METH_O, "learns(index): whether the parameter needs a gradient."},
    {0},
};
static PyType_Slot layer_slots[] = {
    {Py_tp_doc, (void *)"The handle of a layer, for objects of caffe.Layer."},
    {Py_tp_dealloc, layer_dealloc},
    {Py_tp_traverse, layer_traverse},
    {Py_tp_clear, layer_clear},
    {Py_tp_methods, layer_methods},
    {Py_tp_getset, layer_getters},
    {0, NULL},
};
static PyType_Spec layer_spec = {
    .name = "caffe._core.LayerHandle",
    .basicsize = sizeof(layer_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = layer_slots};

typedef crema_blob *blob_at(crema_layer *layer, int index);

static PyObject *blob_list(crema_layer *layer, int count, blob_at *at) {
  PyObject *list = PyList_New(count);
  for (int i = 0; list != NULL && i < count; ++i) {
    PyObject *blob = py_blob_wrap(at(layer, i), NULL, NULL);
    if (blob == NULL || PyList_SetItem(list, i, blob) != 0) Py_CLEAR(list);
  }
  PyObject *made = list == NULL ? NULL : PyObject_CallFunctionObjArgs(lister, list, NULL);
  Py_XDECREF(list);
  return made;
}

/* Prints the exception with its traceback. */
static void print_exception(void) {
  PyObject *type = NULL, *value = NULL, *trace = NULL;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject *printer = PyImport_ImportModule("traceback");
  PyObject *done = printer == NULL ? NULL
                                   : PyObject_CallMethod(printer, "print_exception", "OOO", type,
                                                         value, trace == NULL ? Py_None : trace);
  Py_XDECREF(done);
  Py_XDECREF(printer);
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

/* Names the layer in the failure's text. Without a guard, a net of the command has the layer, and
 * the exception reaches no program. */
static crema_status fail(const crema_layer *layer) {
  char text[1024];
  const layer_object *self = crema_layer_state(layer);
  if (self == NULL || self->guard == NULL) print_exception();
  const crema_status status = py_error_keep(self == NULL ? NULL : self->guard);
  snprintf(text, sizeof text, "%s", crema_error_text());
  return crema_layer_fail(layer, status, text);
}

static PyObject *call_shapes(layer_object *self, const char *method) {
  py_guard *before = py_guard_work(self->guard);
  PyObject *result = PyObject_CallMethod(self->object, method, "OO", self->bottom, self->top);
  (void)py_guard_work(before);
  return result;
}

static PyObject *call_backward(const layer_object *self, PyObject *down) {
  py_guard *before = py_guard_work(self->guard);
  PyObject *result =
      PyObject_CallMethod(self->object, "backward", "OOO", self->top, down, self->bottom);
  (void)py_guard_work(before);
  return result;
}

static PyObject *make(crema_layer *layer) {
  layer_object *self = (layer_object *)PyType_GenericAlloc(layer_type, 0);
  if (self == NULL) return NULL;
  self->layer = layer;
  self->guard = py_guard_building();
  crema_layer_set_state(layer, self); /* the library's reference */
  self->bottom = blob_list(layer, crema_layer_bottom_count(layer), crema_layer_bottom);
  self->top = blob_list(layer, crema_layer_top_count(layer), crema_layer_top);
  self->params = PyList_New(0);
  if (self->bottom == NULL || self->top == NULL || self->params == NULL) return NULL;
  self->object = PyObject_CallFunctionObjArgs(maker, (PyObject *)self, NULL);
  if (self->object == NULL) return NULL;
  return call_shapes(self, "setup");
}

static crema_status refuse(const crema_layer *layer) {
  return crema_layer_fail(layer, CREMA_E_CLOSED, "the Python interpreter has ended");
}

static crema_status finish(const crema_layer *layer, PyObject *result, PyGILState_STATE state) {
  crema_status status = result == NULL ? fail(layer) : CREMA_OK;
  Py_XDECREF(result);
  PyGILState_Release(state);
  return status;
}

static crema_status setup(crema_layer *layer) {
  if (closed) return refuse(layer);
  PyGILState_STATE state = PyGILState_Ensure();
  return finish(layer, make(layer), state);
}

static crema_status reshape(crema_layer *layer) {
  if (closed) return refuse(layer);
  PyGILState_STATE state = PyGILState_Ensure();
  return finish(layer, call_shapes(crema_layer_state(layer), "reshape"), state);
}

static crema_status forward(crema_layer *layer) {
  if (closed) return refuse(layer);
  PyGILState_STATE state = PyGILState_Ensure();
  return finish(layer, call_shapes(crema_layer_state(layer), "forward"), state);
}

static crema_status backward(crema_layer *layer) {
  if (closed) return refuse(layer);
  PyGILState_STATE state = PyGILState_Ensure();
  const layer_object *self = crema_layer_state(layer);
  const int bottoms = crema_layer_bottom_count(layer);
  PyObject *down = PyList_New(bottoms), *result = NULL;
  for (int i = 0; down != NULL && i < bottoms; ++i) {
    if (PyList_SetItem(down, i, PyBool_FromLong(crema_layer_propagate_down(layer, i))) != 0) {
      Py_CLEAR(down);
    }
  }
  if (down != NULL) result = call_backward(self, down);
  Py_XDECREF(down);
  return finish(layer, result, state);
}

static void forget_all(PyObject *list) {
  for (Py_ssize_t i = 0; list != NULL && i < PyList_Size(list); ++i) {
    py_blob_forget(PyList_GetItem(list, i));
  }
}

static void destroy(crema_layer *layer) {
  if (closed || crema_layer_state(layer) == NULL) return;
  PyGILState_STATE state = PyGILState_Ensure();
  layer_object *self = crema_layer_state(layer);
  PyObject *type = NULL, *value = NULL, *trace = NULL;
  PyErr_Fetch(&type, &value, &trace);
  self->layer = NULL;
  forget_all(self->bottom);
  forget_all(self->top);
  forget_all(self->params);
  PyObject *result =
      self->object == NULL ? NULL : PyObject_CallMethod(self->object, "_forget", NULL);
  if (result == NULL) PyErr_Clear();
  Py_XDECREF(result);
  Py_DECREF((PyObject *)self);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(state);
}

/* A failure to import is reported when the layer is created. */
static bool has_module(void *user, const char *name) {
  (void)user;
  if (closed) return true;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *finder = PyImport_ImportModule("importlib.util");
  PyObject *spec = finder == NULL ? NULL : PyObject_CallMethod(finder, "find_spec", "s", name);
  const bool missing =
      spec == Py_None || (spec == NULL && PyErr_ExceptionMatches(PyExc_ModuleNotFoundError) != 0);
  PyErr_Clear();
  Py_XDECREF(spec);
  Py_XDECREF(finder);
  PyGILState_Release(state);
  return !missing;
}

int py_layer_init(PyObject *module) {
  static const crema_layer_type type = {.type = "Python",
                                        .max_bottoms = CREMA_ANY,
                                        .max_tops = CREMA_ANY,
                                        .setup = setup,
                                        .reshape = reshape,
                                        .forward = forward,
                                        .backward = backward,
                                        .destroy = destroy,
                                        .has_module = has_module};
  layer_type = py_add_type(module, &layer_spec);
  if (layer_type == NULL) return -1;
  crema_status status = crema_layer_register(&type);
  if (status == CREMA_OK) return 0;
  (void)py_error_raise(NULL, status);
  return -1;
}

PyObject *py_layer_set_makers(PyObject *module, PyObject *args) {
  PyObject *layer = NULL, *list = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &layer, &list)) return NULL;
  Py_XDECREF(maker);
  Py_XDECREF(lister);
  maker = Py_NewRef(layer);
  lister = Py_NewRef(list);
  Py_RETURN_NONE;
}

PyObject *py_layer_object(void *state) {
  const layer_object *self = state;
  if (self == NULL || self->object == NULL) Py_RETURN_NONE;
  return Py_NewRef(self->object);
}

PyObject *py_layer_close(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  closed = true;
  Py_RETURN_NONE;
}
