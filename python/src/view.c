/* Memory as a buffer of float32, and arrays that use it. */
#include <string.h>

#include "core.h"

typedef struct view_object {
  PyObject_HEAD crema_view *view;
  int axes;
  Py_ssize_t shape[CREMA_MAX_AXES], strides[CREMA_MAX_AXES];
  Py_ssize_t bytes;
} view_object;

static PyTypeObject *view_type;
static PyObject *ndarray, *float32; /* of NumPy */

static void view_dealloc(PyObject *self) {
  crema_view_release(((view_object *)self)->view);
  py_free_object(self);
}

static int view_get_buffer(PyObject *object, Py_buffer *out, int flags) {
  static char format[] = "f";
  view_object *self = (view_object *)object;
  *out = (Py_buffer){.buf = crema_view_values(self->view),
                     .obj = object,
                     .len = self->bytes,
                     .itemsize = sizeof(float),
                     .ndim = self->axes};
  if ((flags & PyBUF_FORMAT) != 0) out->format = format;
  if ((flags & PyBUF_ND) == PyBUF_ND) out->shape = self->shape;
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) out->strides = self->strides;
  Py_INCREF(object);
  return 0;
}

static PyType_Slot view_slots[] = {
    {Py_tp_doc, (void *)"The memory of a blob's values as a buffer of float32."},
    {Py_tp_dealloc, view_dealloc},
    {Py_bf_getbuffer, view_get_buffer},
    {0, NULL},
};
static PyType_Spec view_spec = {.name = "caffe._core.View",
                                .basicsize = sizeof(view_object),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .slots = view_slots};

int py_view_init(PyObject *module) {
  view_type = py_add_type(module, &view_spec);
  if (view_type == NULL) return -1;
  PyObject *numpy = PyImport_ImportModule("numpy");
  if (numpy == NULL) return -1;
  ndarray = PyObject_GetAttrString(numpy, "ndarray");
  float32 = PyObject_CallMethod(numpy, "dtype", "s", "float32");
  Py_DECREF(numpy);
  return ndarray != NULL && float32 != NULL ? 0 : -1;
}

PyObject *py_shape_tuple(const crema_shape *shape) {
  PyObject *tuple = PyTuple_New(shape->axes);
  for (int i = 0; tuple != NULL && i < shape->axes; ++i) {
    PyObject *extent = PyLong_FromLongLong(shape->dim[i]);
    if (extent == NULL || PyTuple_SetItem(tuple, i, extent) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

int py_shape_read(PyObject *sequence, crema_shape *out) {
  const Py_ssize_t axes = PySequence_Size(sequence);
  if (axes < 0) return -1;
  if (axes > CREMA_MAX_AXES) {
    PyErr_Format(PyExc_ValueError, "a shape of %zd axes; %d is the limit", axes, CREMA_MAX_AXES);
    return -1;
  }
  *out = (crema_shape){.axes = (int)axes};
  for (Py_ssize_t i = 0; i < axes; ++i) {
    PyObject *item = PySequence_GetItem(sequence, i);
    PyObject *number = item == NULL ? NULL : PyNumber_Index(item);
    if (number != NULL) out->dim[i] = PyLong_AsLongLong(number);
    Py_XDECREF(number);
    Py_XDECREF(item);
    if (PyErr_Occurred() != NULL) return -1;
  }
  return 0;
}

static PyObject *view_make(crema_view *view, const crema_shape *shape) {
  view_object *self = (view_object *)PyType_GenericAlloc(view_type, 0);
  if (self == NULL) {
    crema_view_release(view);
    return NULL;
  }
  self->view = view;
  self->axes = shape->axes;
  self->bytes = sizeof(float);
  for (int i = shape->axes - 1; i >= 0; --i) {
    self->shape[i] = (Py_ssize_t)shape->dim[i];
    self->strides[i] = self->bytes;
    self->bytes *= self->shape[i];
  }
  return (PyObject *)self;
}

PyObject *py_array_of_view(crema_view *view, const crema_shape *shape) {
  PyObject *memory = view_make(view, shape);
  if (memory == NULL) return NULL;
  PyObject *extents = py_shape_tuple(shape), *array = NULL;
  if (extents != NULL) {
    array = PyObject_CallFunctionObjArgs(ndarray, extents, float32, memory, NULL);
  }
  Py_XDECREF(extents);
  Py_DECREF(memory);
  return array;
}
