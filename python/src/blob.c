#include "core.h"

typedef struct blob_object {
  PyObject_HEAD crema_blob *blob; /* NULL: the layer that had it is gone */
  PyObject *owner;                /* of the blob; NULL: a layer, or this object */
  py_guard *guard;
  bool own;
} blob_object;

static PyTypeObject *blob_type;

static PyObject *blob_new(PyTypeObject *type, PyObject *args, PyObject *names) {
  crema_shape shape = {0};
  PyObject *extents = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : args;
  (void)names;
  if (!PySequence_Check(extents)) extents = args;
  if (py_shape_read(extents, &shape) != 0) return NULL;
  blob_object *self = (blob_object *)PyType_GenericAlloc(type, 0);
  if (self == NULL) return NULL;
  crema_status status = crema_blob_create(&shape, &self->blob);
  if (status != CREMA_OK) {
    Py_DECREF(self);
    return py_error_raise(NULL, status);
  }
  self->own = true;
  self->guard = py_guard_create();
  if (self->guard == NULL) Py_CLEAR(self);
  return (PyObject *)self;
}

static int blob_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(((blob_object *)object)->owner);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static int blob_clear(PyObject *object) {
  (void)object; /* the owner lives as long as the blob is used; the owner breaks cycles */
  return 0;
}

static void blob_dealloc(PyObject *object) {
  blob_object *self = (blob_object *)object;
  PyObject_GC_UnTrack(object);
  if (self->own) crema_blob_destroy(self->blob);
  py_guard_release(self->guard);
  Py_XDECREF(self->owner);
  py_free_object(object);
}

PyObject *py_blob_wrap(crema_blob *blob, PyObject *owner, py_guard *guard) {
  blob_object *self = (blob_object *)PyType_GenericAlloc(blob_type, 0);
  if (self == NULL) return NULL;
  self->blob = blob;
  self->owner = Py_XNewRef(owner);
  self->guard = guard;
  py_guard_retain(guard);
  return (PyObject *)self;
}

void py_blob_forget(PyObject *self) {
  ((blob_object *)self)->blob = NULL;
}

crema_blob *py_blob_get(PyObject *self) {
  if (PyType_IsSubtype(Py_TYPE(self), blob_type)) return ((blob_object *)self)->blob;
  PyErr_SetString(PyExc_TypeError, "expected a Blob");
  return NULL;
}

static int enter(blob_object *self) {
  if (self->blob != NULL) return py_guard_enter(self->guard);
  PyErr_SetString(PyExc_RuntimeError, "the layer that had this blob is gone");
  return -1;
}

typedef crema_status view_fn(crema_blob *blob, crema_view **out);

static PyObject *array_of(PyObject *object, view_fn *call) {
  blob_object *self = (blob_object *)object;
  crema_view *view = NULL;
  if (enter(self) != 0) return NULL;
  crema_status status = call(self->blob, &view);
  PyObject *array = status == CREMA_OK ? py_array_of_view(view, crema_blob_shape(self->blob))
                                       : py_error_raise(NULL, status);
  py_guard_leave(self->guard);
  return array;
}

static PyObject *blob_data(PyObject *object, void *unused) {
  (void)unused;
  return array_of(object, crema_blob_view_data);
}

static PyObject *blob_diff(PyObject *object, void *unused) {
  (void)unused;
  return array_of(object, crema_blob_view_diff);
}

static const crema_shape *shape_of(PyObject *object) {
  blob_object *self = (blob_object *)object;
  if (enter(self) != 0) return NULL;
  py_guard_leave(self->guard);
  return crema_blob_shape(self->blob);
}

static PyObject *blob_shape(PyObject *object, void *unused) {
  const crema_shape *shape = shape_of(object);
  (void)unused;
  return shape == NULL ? NULL : py_shape_tuple(shape);
}

static PyObject *blob_count(PyObject *object, void *unused) {
  (void)unused;
  if (shape_of(object) == NULL) return NULL;
  return PyLong_FromLongLong(crema_blob_count(((blob_object *)object)->blob));
}

static PyObject *blob_types(PyObject *object, void *unused) {
  (void)unused;
  if (shape_of(object) == NULL) return NULL;
  const crema_blob *blob = ((blob_object *)object)->blob;
  return Py_BuildValue("ss", crema_dtype_name(crema_blob_data_type(blob)),
                       crema_dtype_name(crema_blob_diff_type(blob)));
}

/* num, channels, height and width. A missing axis has extent 1. */
static PyObject *blob_axis(PyObject *object, void *closure) {
  const crema_shape *shape = shape_of(object);
  const int axis = *(const int *)closure;
  if (shape == NULL) return NULL;
  if (shape->axes > 4) {
    PyErr_Format(PyExc_ValueError,
                 "the blob has %d axes; num, channels, height and width are for 4", shape->axes);
    return NULL;
  }
  return PyLong_FromLongLong(axis < shape->axes ? shape->dim[axis] : 1);
}

static PyObject *blob_reshape(PyObject *object, PyObject *args) {
  blob_object *self = (blob_object *)object;
  crema_shape shape = {0};
  PyObject *first = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : NULL;
  PyObject *extents = first != NULL && PySequence_Check(first) ? first : args;
  if (py_shape_read(extents, &shape) != 0 || enter(self) != 0) return NULL;
  crema_status status = crema_blob_reshape(self->blob, &shape);
  py_guard_leave(self->guard);
  return py_error_none(NULL, status);
}

static PyObject *blob_text(PyObject *object, PyObject *unused) {
  blob_object *self = (blob_object *)object;
  char text[CREMA_BLOB_TEXT];
  (void)unused;
  if (enter(self) != 0) return NULL;
  crema_status status = crema_blob_text(self->blob, text, sizeof text);
  py_guard_leave(self->guard);
  return status == CREMA_OK ? PyUnicode_FromString(text) : py_error_raise(NULL, status);
}

/* Whether two objects represent the same blob. */
static PyObject *blob_is(PyObject *object, PyObject *other) {
  if (Py_TYPE(other) != blob_type && !PyType_IsSubtype(Py_TYPE(other), blob_type)) Py_RETURN_FALSE;
  return PyBool_FromLong(((blob_object *)object)->blob == ((blob_object *)other)->blob);
}

static int axes[] = {0, 1, 2, 3};
static PyGetSetDef blob_getters[] = {
    {"data", blob_data, NULL, "The values, as a float32 array that shares the blob's memory.",
     NULL},
    {"diff", blob_diff, NULL, "The gradient, as a float32 array that shares the blob's memory.",
     NULL},
    {"shape", blob_shape, NULL, "The extents as a tuple.", NULL},
    {"count", blob_count, NULL, "The number of values.", NULL},
    {"types", blob_types, NULL, "The element types of data and diff inside crema.", NULL},
    {"num", blob_axis, NULL, "Extent of axis 0.", &axes[0]},
    {"channels", blob_axis, NULL, "Extent of axis 1.", &axes[1]},
    {"height", blob_axis, NULL, "Extent of axis 2.", &axes[2]},
    {"width", blob_axis, NULL, "Extent of axis 3.", &axes[3]},
    {0},
};
static PyMethodDef blob_methods[] = {
    {"reshape", blob_reshape, METH_VARARGS, "reshape(*extents): changes the shape."},
    {"text", blob_text, METH_NOARGS,
     "text(): a description with shape, copies held and first values."},
    {"is_blob", blob_is, METH_O, "is_blob(other): whether both objects are the same blob."},
    {0},
};
static PyType_Slot blob_slots[] = {
    {Py_tp_doc, (void *)"Blob(*extents): an array of values with a gradient."},
    {Py_tp_new, blob_new},
    {Py_tp_dealloc, blob_dealloc},
    {Py_tp_traverse, blob_traverse},
    {Py_tp_clear, blob_clear},
    {Py_tp_methods, blob_methods},
    {Py_tp_getset, blob_getters},
    {0, NULL},
};
static PyType_Spec blob_spec = {
    .name = "caffe._core.Blob",
    .basicsize = sizeof(blob_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = blob_slots};

int py_blob_init(PyObject *module) {
  blob_type = py_add_type(module, &blob_spec);
  return blob_type == NULL ? -1 : 0;
}
