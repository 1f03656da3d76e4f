/* The preprocessing of images of a net or a compiled model. */
#include "core.h"

typedef struct preprocessing_object {
  PyObject_HEAD crema_preprocessing *preprocessing;
  PyObject *owner; /* the model that owns it; NULL: this object */
} preprocessing_object;

static PyTypeObject *preprocessing_type;

static int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(((preprocessing_object *)object)->owner);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static void dealloc(PyObject *object) {
  preprocessing_object *self = (preprocessing_object *)object;
  PyObject_GC_UnTrack(object);
  if (self->owner == NULL) crema_preprocessing_destroy(self->preprocessing);
  Py_XDECREF(self->owner);
  py_free_object(object);
}

PyObject *py_preprocessing_wrap(crema_preprocessing *preprocessing, PyObject *owner) {
  preprocessing_object *self = (preprocessing_object *)PyType_GenericAlloc(preprocessing_type, 0);
  if (self == NULL) {
    if (owner == NULL) crema_preprocessing_destroy(preprocessing);
    return NULL;
  }
  self->preprocessing = preprocessing;
  self->owner = Py_XNewRef(owner);
  return (PyObject *)self;
}

PyObject *py_preprocessing_of_net(PyObject *module, PyObject *object) {
  crema_preprocessing *made = NULL;
  const crema_net *net = py_net_get(object);
  (void)module;
  if (net == NULL) return NULL;
  const crema_status status = crema_preprocessing_create(net, 0, &made);
  return status == CREMA_OK ? py_preprocessing_wrap(made, NULL) : py_error_raise(NULL, status);
}

static crema_preprocessing *of(PyObject *object) {
  return ((preprocessing_object *)object)->preprocessing;
}

/* load(path, blob, item) */
static PyObject *load(PyObject *object, PyObject *args) {
  PyObject *path = NULL, *blob = NULL;
  const char *file = NULL;
  long long item = 0;
  crema_status status = CREMA_OK;
  if (!PyArg_ParseTuple(args, "OOL", &path, &blob, &item)) return NULL;
  PyObject *name = py_path(path, &file);
  crema_blob *target = name == NULL ? NULL : py_blob_get(blob);
  if (target != NULL) {
    PY_RUN(status, crema_preprocessing_load(of(object), file, target, item));
  }
  Py_XDECREF(name);
  return target == NULL ? NULL : py_error_none(NULL, status);
}

/* decode(bytes, blob, item) */
static PyObject *decode(PyObject *object, PyObject *args) {
  PyObject *blob = NULL;
  Py_buffer bytes;
  long long item = 0;
  crema_status status = CREMA_OK;
  if (!PyArg_ParseTuple(args, "y*OL", &bytes, &blob, &item)) return NULL;
  crema_blob *target = py_blob_get(blob);
  if (target != NULL) {
    const void *start = bytes.len > 0 ? bytes.buf : "";
    PY_RUN(status, crema_preprocessing_decode(of(object), start, (size_t)bytes.len, target, item));
  }
  PyBuffer_Release(&bytes);
  return target == NULL ? NULL : py_error_none(NULL, status);
}

/* convert(pixels, height, width, channels, blob, item): contiguous bytes of red, green, blue */
static PyObject *convert(PyObject *object, PyObject *args) {
  PyObject *blob = NULL;
  Py_buffer bytes;
  long long item = 0;
  crema_pixels pixels = {.rgb = true};
  crema_status status = CREMA_OK;
  if (!PyArg_ParseTuple(args, "y*iiiOL", &bytes, &pixels.height, &pixels.width, &pixels.channels,
                        &blob, &item)) {
    return NULL;
  }
  crema_blob *target = py_blob_get(blob);
  const bool fits = (long long)pixels.height * pixels.width * pixels.channels == bytes.len;
  if (target != NULL && fits) {
    pixels.values = bytes.buf;
    PY_RUN(status, crema_preprocessing_convert(of(object), &pixels, target, item));
  } else if (target != NULL) {
    PyErr_SetString(PyExc_ValueError, "the pixels have another size");
  }
  PyBuffer_Release(&bytes);
  return target == NULL || !fits ? NULL : py_error_none(NULL, status);
}

/* labels(classes): a list of texts */
static PyObject *labels(PyObject *object, PyObject *args) {
  const char *const *name = NULL;
  size_t count = 0;
  long long classes = 0;
  crema_status status = CREMA_OK;
  if (!PyArg_ParseTuple(args, "L", &classes)) return NULL;
  PY_RUN(status, crema_preprocessing_labels(of(object), classes, &name, &count));
  if (status != CREMA_OK) return py_error_raise(NULL, status);
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list != NULL && i < count; ++i) {
    PyObject *text = PyUnicode_DecodeUTF8(name[i], (Py_ssize_t)strlen(name[i]), "replace");
    if (text == NULL || PyList_SetItem(list, (Py_ssize_t)i, text) != 0) Py_CLEAR(list);
  }
  return list;
}

/* options(): (height, width, scale, rgb); a size of 0 is the input's */
static PyObject *options(PyObject *object, PyObject *unused) {
  const crema_image_options *o = crema_preprocessing_options(of(object));
  (void)unused;
  return Py_BuildValue("(iidN)", o->resize_height, o->resize_width, (double)o->scale,
                       PyBool_FromLong(o->rgb));
}

/* guess(): a sentence, or None */
static PyObject *guess(PyObject *object, PyObject *unused) {
  (void)unused;
  return Py_BuildValue("z", crema_preprocessing_guess(of(object)));
}

static PyMethodDef methods[] = {
    {"load", load, METH_VARARGS, "load(path, blob, item): an image file into an item of a blob."},
    {"decode", decode, METH_VARARGS, "decode(bytes, blob, item): the same for a file in memory."},
    {"convert", convert, METH_VARARGS,
     "convert(pixels, height, width, channels, blob, item): the same for 8-bit pixels."},
    {"labels", labels, METH_VARARGS, "labels(classes): the names of the classes; 0: any number."},
    {"options", options, METH_NOARGS, "options(): (height, width, scale, rgb)."},
    {"guess", guess, METH_NOARGS, "guess(): what is guessed, or None."},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"The preprocessing of images that a deploy file describes."},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_methods, methods},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "caffe._core.Preprocessing",
    .basicsize = sizeof(preprocessing_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots};

int py_preprocessing_init(PyObject *module) {
  preprocessing_type = py_add_type(module, &spec);
  return preprocessing_type == NULL ? -1 : 0;
}
