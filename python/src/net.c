#include <string.h>

#include "core.h"

typedef struct net_object {
  PyObject_HEAD crema_net *net;
  PyObject *owner;  /* the solver that owns the net; NULL: this object owns it */
  PyObject *inputs; /* pairs of arrays that a MemoryData layer and its tops use; NULL: none */
  py_guard *guard;
  bool hooked; /* the library calls this object's hooks */
} net_object;

static PyTypeObject *net_type;
static PyObject *net_class; /* the class of solvers' nets */

static net_object *self_of(PyObject *object) {
  net_object *self = (net_object *)object;
  if (self->net != NULL) return self;
  PyErr_SetString(PyExc_RuntimeError, "the net was not built: __init__ was not called or failed");
  return NULL;
}

crema_net *py_net_get(PyObject *object) {
  if (!PyType_IsSubtype(Py_TYPE(object), net_type)) {
    PyErr_SetString(PyExc_TypeError, "expected a Net");
    return NULL;
  }
  net_object *self = self_of(object);
  return self == NULL ? NULL : self->net;
}

py_guard *py_net_guard(PyObject *object) {
  return ((net_object *)object)->guard;
}

PyObject *py_net_set_class(PyObject *module, PyObject *class) {
  (void)module;
  Py_XDECREF(net_class);
  net_class = Py_NewRef(class);
  Py_RETURN_NONE;
}

PyObject *py_net_wrap(crema_net *net, PyObject *owner, py_guard *guard) {
  PyObject *empty = PyTuple_New(0);
  if (empty == NULL) return NULL;
  /* Skips __init__, which would build a net. */
  PyObject *make = PyObject_GetAttrString(net_class, "__new__");
  PyObject *object = make == NULL ? NULL : PyObject_CallFunctionObjArgs(make, net_class, NULL);
  Py_XDECREF(make);
  Py_DECREF(empty);
  if (object == NULL) return NULL;
  net_object *self = (net_object *)object;
  self->net = net;
  self->owner = Py_NewRef(owner);
  self->guard = guard;
  py_guard_retain(guard);
  return object;
}

static PyObject *net_new(PyTypeObject *type, PyObject *args, PyObject *names) {
  (void)args, (void)names;
  return PyType_GenericAlloc(type, 0);
}

static int net_traverse(PyObject *object, visitproc visit, void *arg) {
  net_object *self = (net_object *)object;
  Py_VISIT(self->owner);
  Py_VISIT(self->inputs);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static int net_clear(PyObject *object) {
  (void)object; /* cycles go through the instance's dictionary, which the Python class clears */
  return 0;
}

static void net_dealloc(PyObject *object) {
  net_object *self = (net_object *)object;
  PyObject_GC_UnTrack(object);
  if (self->net != NULL && self->hooked && self->owner != NULL && py_guard_is_ours(self->guard)) {
    (void)!crema_net_set_hooks(self->net, NULL); /* setting none cannot fail */
  }
  if (self->net != NULL && self->owner == NULL && py_guard_is_ours(self->guard)) {
    Py_BEGIN_ALLOW_THREADS crema_net_destroy(self->net);
    Py_END_ALLOW_THREADS
  }
  py_guard_release(self->guard);
  Py_XDECREF(self->inputs);
  Py_XDECREF(self->owner);
  py_free_object(object);
}

const char **py_names_read(PyObject *sequence, PyObject **bytes, size_t *count) {
  Py_ssize_t size = sequence == Py_None ? 0 : PySequence_Size(sequence);
  if (size < 0) return NULL;
  const char **names = PyMem_Calloc((size_t)size + 1, sizeof *names);
  *bytes = PyList_New(0);
  if (names == NULL || *bytes == NULL) {
    PyMem_Free((void *)names);
    return NULL;
  }
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject *item = PySequence_GetItem(sequence, i);
    names[i] = item == NULL ? NULL : PyUnicode_AsUTF8AndSize(item, NULL);
    if (names[i] == NULL || PyList_Append(*bytes, item) != 0) {
      Py_XDECREF(item);
      PyMem_Free((void *)names);
      return NULL;
    }
    Py_DECREF(item);
  }
  *count = (size_t)size;
  return names;
}

static crema_status build(net_object *self, const char *path, const char *text, Py_ssize_t size,
                          const crema_net_options *options) {
  crema_status status;
  crema_net *net = NULL;
  if (text != NULL) {
    PY_BUILD(self->guard, status, crema_net_parse(text, (size_t)size, path, options, &net));
  } else {
    PY_BUILD(self->guard, status, crema_net_load(path, options, &net));
  }
  if (status == CREMA_OK) self->net = net;
  return status;
}

/* build(path, text or None, phase, level, stages, seed, device type, device index, math, graphs) */
static PyObject *net_build(PyObject *object, PyObject *args) {
  net_object *self = (net_object *)object;
  PyObject *path = NULL, *stages = NULL, *kept = NULL;
  const char *text = NULL;
  Py_ssize_t size = 0;
  int phase, level, kind, index, math, graphs;
  long long seed;
  if (!PyArg_ParseTuple(args, "Oz#iiOLiiip", &path, &text, &size, &phase, &level, &stages, &seed,
                        &kind, &index, &math, &graphs)) {
    return NULL;
  }
  if (self->net != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the net is built already");
    return NULL;
  }
  if (py_guard_may_run() != 0) return NULL;
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = phase == CREMA_TRAIN ? CREMA_TRAIN : CREMA_TEST;
  options.level = level;
  options.seed = seed;
  options.math = (crema_math)math;
  options.graphs = graphs != 0;
  const char *file = NULL;
  PyObject *name = py_path(path, &file);
  if (name == NULL) return NULL;
  options.stages = py_names_read(stages, &kept, &options.stage_count);
  self->guard = options.stages == NULL ? NULL : py_guard_create();
  PyObject *result = NULL;
  if (self->guard != NULL) {
    crema_status status = CREMA_OK;
    if (kind >= 0) status = py_device_get(kind, index, &options.device);
    if (status == CREMA_OK) status = build(self, file, text, size, &options);
    result = py_error_none(self->guard, status);
  }
  PyMem_Free((void *)options.stages);
  Py_XDECREF(kept);
  Py_DECREF(name);
  return result;
}

/* forward(first, last): the loss. */
static PyObject *net_forward(PyObject *object, PyObject *args) {
  net_object *self = self_of(object);
  int first, last;
  double loss = 0;
  crema_status status;
  if (self == NULL || !PyArg_ParseTuple(args, "ii", &first, &last)) return NULL;
  PY_ENTER(self->guard);
  PY_RUN(status, crema_net_forward_range(self->net, first, last, &loss));
  py_guard_leave(self->guard);
  if (status != CREMA_OK) return py_error_raise(self->guard, status);
  return PyErr_CheckSignals() != 0 ? NULL : PyFloat_FromDouble(loss);
}

/* backward(last, first): from the last layer to the first. */
static PyObject *net_backward(PyObject *object, PyObject *args) {
  net_object *self = self_of(object);
  int first, last;
  crema_status status;
  if (self == NULL || !PyArg_ParseTuple(args, "ii", &last, &first)) return NULL;
  PY_ENTER(self->guard);
  PY_RUN(status, crema_net_backward_range(self->net, first, last));
  py_guard_leave(self->guard);
  return py_error_none(self->guard, status);
}

static PyObject *net_reshape(PyObject *object, PyObject *unused) {
  net_object *self = self_of(object);
  crema_status status;
  (void)unused;
  if (self == NULL) return NULL;
  PY_ENTER(self->guard);
  PY_RUN(status, crema_net_reshape(self->net));
  py_guard_leave(self->guard);
  return py_error_none(self->guard, status);
}

static PyObject *net_clear_diffs(PyObject *object, PyObject *unused) {
  net_object *self = self_of(object);
  (void)unused;
  if (self == NULL) return NULL;
  PY_ENTER(self->guard);
  crema_net_clear_param_diffs(self->net);
  py_guard_leave(self->guard);
  Py_RETURN_NONE;
}

static crema_status call_hook(void *user, const char *kind, int layer) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *result = PyObject_CallMethod(user, "_call_hooks", "si", kind, layer);
  crema_status status = result == NULL ? py_error_keep(((net_object *)user)->guard) : CREMA_OK;
  Py_XDECREF(result);
  PyGILState_Release(state);
  return status;
}

static crema_status before_forward(void *user, crema_net *net, int layer) {
  (void)net;
  return call_hook(user, "before_forward", layer);
}

static crema_status after_forward(void *user, crema_net *net, int layer) {
  (void)net;
  return call_hook(user, "after_forward", layer);
}

static crema_status before_backward(void *user, crema_net *net, int layer) {
  (void)net;
  return call_hook(user, "before_backward", layer);
}

static crema_status after_backward(void *user, crema_net *net, int layer) {
  (void)net;
  return call_hook(user, "after_backward", layer);
}

/* use_hooks(kinds): makes the library call _call_hooks(kind, layer) for these kinds. */
static PyObject *net_use_hooks(PyObject *object, PyObject *kinds) {
  net_object *self = self_of(object);
  crema_net_hooks hooks = {.user = object};
  if (self == NULL) return NULL;
  for (Py_ssize_t i = 0; i < PySequence_Size(kinds); ++i) {
    PyObject *kind = PySequence_GetItem(kinds, i);
    const char *name = kind == NULL ? NULL : PyUnicode_AsUTF8AndSize(kind, NULL);
    if (name == NULL) {
      Py_XDECREF(kind);
      return NULL;
    }
    if (strcmp(name, "before_forward") == 0) hooks.before_forward = before_forward;
    if (strcmp(name, "after_forward") == 0) hooks.after_forward = after_forward;
    if (strcmp(name, "before_backward") == 0) hooks.before_backward = before_backward;
    if (strcmp(name, "after_backward") == 0) hooks.after_backward = after_backward;
    Py_DECREF(kind);
  }
  PY_ENTER(self->guard);
  crema_status status = crema_net_set_hooks(self->net, &hooks);
  self->hooked = true;
  py_guard_leave(self->guard);
  return py_error_none(self->guard, status);
}

/* copy_from(path, allow_missing) */
static PyObject *net_copy_from(PyObject *object, PyObject *args) {
  net_object *self = self_of(object);
  PyObject *path = NULL;
  crema_weights_options options;
  crema_weights_options_init(&options);
  int allow = 0;
  crema_status status;
  const char *file = NULL;
  if (self == NULL || !PyArg_ParseTuple(args, "Op", &path, &allow)) return NULL;
  options.allow_missing = allow != 0;
  PyObject *name = py_path(path, &file);
  if (name == NULL || py_guard_enter(self->guard) != 0) {
    Py_XDECREF(name);
    return NULL;
  }
  PY_RUN(status, crema_net_load_weights_with(self->net, file, &options));
  py_guard_leave(self->guard);
  Py_DECREF(name);
  return py_error_none(self->guard, status);
}

/* save(path, diffs, hdf5) */
static PyObject *net_save(PyObject *object, PyObject *args) {
  net_object *self = self_of(object);
  PyObject *path = NULL;
  crema_save_options options;
  crema_save_options_init(&options);
  int diffs = 0, hdf5 = 0;
  crema_status status;
  const char *file = NULL;
  if (self == NULL || !PyArg_ParseTuple(args, "Opp", &path, &diffs, &hdf5)) return NULL;
  options.diffs = diffs != 0;
  options.hdf5 = hdf5 != 0;
  PyObject *name = py_path(path, &file);
  if (name == NULL || py_guard_enter(self->guard) != 0) {
    Py_XDECREF(name);
    return NULL;
  }
  PY_RUN(status, crema_net_save_weights_with(self->net, file, &options));
  py_guard_leave(self->guard);
  Py_DECREF(name);
  return py_error_none(self->guard, status);
}

static PyObject *net_to_bytes(PyObject *object, PyObject *unused) {
  net_object *self = self_of(object);
  void *bytes = NULL;
  size_t size = 0;
  crema_status status;
  (void)unused;
  if (self == NULL) return NULL;
  PY_ENTER(self->guard);
  PY_RUN(status, crema_net_save_weights_memory(self->net, NULL, &bytes, &size));
  py_guard_leave(self->guard);
  if (status != CREMA_OK) return py_error_raise(self->guard, status);
  PyObject *result = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
  crema_free(bytes);
  return result;
}

/* from_bytes(bytes, allow_missing) */
static PyObject *net_from_bytes(PyObject *object, PyObject *args) {
  net_object *self = self_of(object);
  const char *bytes = NULL;
  Py_ssize_t size = 0;
  int allow = 0;
  crema_status status;
  crema_weights_options options;
  crema_weights_options_init(&options);
  if (self == NULL || !PyArg_ParseTuple(args, "y#p", &bytes, &size, &allow)) return NULL;
  options.allow_missing = allow != 0;
  PY_ENTER(self->guard);
  PY_RUN(status, crema_net_load_weights_memory(self->net, bytes, (size_t)size, NULL, &options));
  py_guard_leave(self->guard);
  return py_error_none(self->guard, status);
}

static PyObject *net_share_with(PyObject *object, PyObject *donor) {
  net_object *self = self_of(object), *other = NULL;
  crema_status status;
  if (self == NULL || py_net_get(donor) == NULL) return NULL;
  other = (net_object *)donor;
  PY_ENTER(self->guard);
  if (py_guard_enter(other->guard) != 0) {
    py_guard_leave(self->guard);
    return NULL;
  }
  status = crema_net_share_weights(self->net, other->net);
  py_guard_leave(other->guard);
  py_guard_leave(self->guard);
  return py_error_none(self->guard, status);
}

static float *floats_of(PyObject *array, Py_ssize_t *count) {
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0) return NULL;
  float *values = view.buf;
  *count = view.len / (Py_ssize_t)sizeof(float);
  PyBuffer_Release(&view); /* the caller holds a reference to the object, which keeps the memory */
  return values;
}

/* Whether the layer's top still uses the data of the pair. */
static bool is_shown(const net_object *self, int layer, PyObject *pair) {
  crema_blob *top = crema_net_blob_at(self->net, crema_net_layer_top(self->net, layer, 0));
  const float *shown = NULL;
  Py_ssize_t count = 0;
  const float *given = floats_of(PyTuple_GetItem(pair, 0), &count);
  if (given == NULL) PyErr_Clear(); /* not readable now, so nothing is known about it */
  if (given == NULL || crema_blob_cpu_data(top, &shown) != CREMA_OK) return true;
  return shown >= given && shown < given + count;
}

/* The pairs to keep when the layer gets `newest`: this one, and the one that the tops use until the
 * next pass. */
static PyObject *pairs_needed(const net_object *self, int layer, PyObject *newest) {
  PyObject *pairs = PyList_New(0);
  const Py_ssize_t before = self->inputs == NULL ? 0 : PyList_Size(self->inputs);
  for (Py_ssize_t i = 0; pairs != NULL && i < before; ++i) {
    PyObject *pair = PyList_GetItem(self->inputs, i);
    if (is_shown(self, layer, pair) && PyList_Append(pairs, pair) != 0) Py_CLEAR(pairs);
  }
  if (pairs != NULL && PyList_Append(pairs, newest) != 0) Py_CLEAR(pairs);
  return pairs;
}

/* Within the guard. */
static PyObject *give_samples(net_object *self, int layer, PyObject *pair, float *data,
                              float *labels, int64_t samples) {
  PyObject *pairs = pairs_needed(self, layer, pair);
  if (pairs == NULL) return NULL;
  const char *name = crema_net_layer_name(self->net, layer);
  crema_status status = crema_memory_data_set(self->net, name, data, labels, samples);
  if (status == CREMA_OK) {
    PyObject *before = self->inputs;
    self->inputs = pairs;
    pairs = before;
  }
  Py_XDECREF(pairs);
  return py_error_none(self->guard, status);
}

/* set_samples(layer, data, labels, samples): gives float32 arrays to the layer and keeps them. */
static PyObject *net_set_samples(PyObject *object, PyObject *args) {
  net_object *self = self_of(object);
  PyObject *data = NULL, *labels = NULL;
  int layer = 0;
  long long samples = 0;
  Py_ssize_t values = 0, marks = 0;
  if (self == NULL || !PyArg_ParseTuple(args, "iOOL", &layer, &data, &labels, &samples))
    return NULL;
  float *value = floats_of(data, &values), *mark = value == NULL ? NULL : floats_of(labels, &marks);
  if (mark == NULL) return NULL;
  PyObject *pair = PyTuple_Pack(2, data, labels);
  if (pair == NULL || py_guard_enter(self->guard) != 0) {
    Py_XDECREF(pair);
    return NULL;
  }
  PyObject *result = give_samples(self, layer, pair, value, mark, samples);
  py_guard_leave(self->guard);
  Py_DECREF(pair);
  return result;
}

static PyObject *names_of(PyObject *object, int (*count)(const crema_net *),
                          const char *(*name)(const crema_net *, int)) {
  net_object *self = self_of(object);
  if (self == NULL) return NULL;
  const int names = count(self->net);
  PyObject *list = PyList_New(names);
  for (int i = 0; list != NULL && i < names; ++i) {
    const char *text = name(self->net, i);
    PyObject *item = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (item == NULL || PyList_SetItem(list, i, item) != 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *net_layer_names(PyObject *object, void *unused) {
  (void)unused;
  return names_of(object, crema_net_layer_count, crema_net_layer_name);
}

static PyObject *net_layer_types(PyObject *object, void *unused) {
  (void)unused;
  return names_of(object, crema_net_layer_count, crema_net_layer_type);
}

static PyObject *net_blob_names(PyObject *object, void *unused) {
  (void)unused;
  return names_of(object, crema_net_blob_count, crema_net_blob_name);
}

static PyObject *net_input_names(PyObject *object, void *unused) {
  (void)unused;
  return names_of(object, crema_net_input_count, crema_net_input_name);
}

static PyObject *net_output_names(PyObject *object, void *unused) {
  (void)unused;
  return names_of(object, crema_net_output_count, crema_net_output_name);
}

static PyObject *net_name(PyObject *object, void *unused) {
  const net_object *self = self_of(object);
  (void)unused;
  return self == NULL ? NULL : PyUnicode_FromString(crema_net_name(self->net));
}

static PyObject *net_phase(PyObject *object, void *unused) {
  const net_object *self = self_of(object);
  (void)unused;
  return self == NULL ? NULL : PyLong_FromLong(crema_net_phase(self->net));
}

static PyObject *net_loss_weights(PyObject *object, void *unused) {
  const net_object *self = self_of(object);
  (void)unused;
  if (self == NULL) return NULL;
  const int blobs = crema_net_blob_count(self->net);
  PyObject *list = PyList_New(blobs);
  for (int i = 0; list != NULL && i < blobs; ++i) {
    PyObject *weight = PyFloat_FromDouble((double)crema_net_blob_loss_weight(self->net, i));
    if (weight == NULL || PyList_SetItem(list, i, weight) != 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *ids_of(PyObject *object, PyObject *number, int (*count)(const crema_net *, int),
                        int (*at)(const crema_net *, int, int)) {
  const net_object *self = self_of(object);
  const long layer = self == NULL ? -1 : PyLong_AsLong(number);
  if (self == NULL || PyErr_Occurred() != NULL) return NULL;
  if (layer < 0 || layer >= crema_net_layer_count(self->net)) {
    PyErr_Format(PyExc_IndexError, "no layer %ld", layer);
    return NULL;
  }
  const int ids = count(self->net, (int)layer);
  PyObject *list = PyList_New(ids);
  for (int i = 0; list != NULL && i < ids; ++i) {
    PyObject *id = PyLong_FromLong(at(self->net, (int)layer, i));
    if (id == NULL || PyList_SetItem(list, i, id) != 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *net_bottom_ids(PyObject *object, PyObject *layer) {
  return ids_of(object, layer, crema_net_layer_bottom_count, crema_net_layer_bottom);
}

static PyObject *net_top_ids(PyObject *object, PyObject *layer) {
  return ids_of(object, layer, crema_net_layer_top_count, crema_net_layer_top);
}

static PyObject *net_blob(PyObject *object, PyObject *number) {
  net_object *self = self_of(object);
  const long index = self == NULL ? -1 : PyLong_AsLong(number);
  if (self == NULL || PyErr_Occurred() != NULL) return NULL;
  crema_blob *blob = crema_net_blob_at(self->net, (int)index);
  if (blob != NULL) return py_blob_wrap(blob, object, self->guard);
  PyErr_Format(PyExc_IndexError, "no blob %ld", index);
  return NULL;
}

/* params(layer): the layer's parameters, as a list. */
static PyObject *net_params(PyObject *object, PyObject *number) {
  net_object *self = self_of(object);
  const long layer = self == NULL ? -1 : PyLong_AsLong(number);
  if (self == NULL || PyErr_Occurred() != NULL) return NULL;
  const int params = crema_net_layer_param_count(self->net, (int)layer);
  PyObject *list = PyList_New(params);
  for (int i = 0; list != NULL && i < params; ++i) {
    crema_blob *param = crema_net_layer_param(self->net, (int)layer, i);
    PyObject *blob = py_blob_wrap(param, object, self->guard);
    if (blob == NULL || PyList_SetItem(list, i, blob) != 0) Py_CLEAR(list);
  }
  return list;
}

/* _python_layer(layer): the object of a Python layer; None for a layer of another type. */
static PyObject *net_python_layer(PyObject *object, PyObject *number) {
  const net_object *self = self_of(object);
  const long layer = self == NULL ? -1 : PyLong_AsLong(number);
  if (self == NULL || PyErr_Occurred() != NULL) return NULL;
  const char *type = crema_net_layer_type(self->net, (int)layer);
  const bool ours = type != NULL && strcmp(type, "Python") == 0;
  return py_layer_object(ours ? crema_net_layer_state(self->net, (int)layer) : NULL);
}

static PyObject *take_text(const net_object *self, crema_status status, char *text) {
  if (status != CREMA_OK) return py_error_raise(self->guard, status);
  PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  crema_free(text);
  return result;
}

static PyObject *net_layer_text(PyObject *object, PyObject *number) {
  const net_object *self = self_of(object);
  const long layer = self == NULL ? -1 : PyLong_AsLong(number);
  char *text = NULL;
  if (self == NULL || PyErr_Occurred() != NULL) return NULL;
  crema_status status = crema_net_layer_text(self->net, (int)layer, &text);
  return take_text(self, status, text);
}

static PyObject *net_text(PyObject *object, PyObject *unused) {
  const net_object *self = self_of(object);
  char *text = NULL;
  (void)unused;
  if (self == NULL) return NULL;
  crema_status status = crema_net_text(self->net, &text);
  return take_text(self, status, text);
}

static PyGetSetDef net_getters[] = {
    {"_name", net_name, NULL, "The net's name.", NULL},
    {"phase", net_phase, NULL, "caffe.TRAIN or caffe.TEST.", NULL},
    {"_layer_names", net_layer_names, NULL, "The names of all layers.", NULL},
    {"_layer_types", net_layer_types, NULL, "The types of all layers.", NULL},
    {"_blob_names", net_blob_names, NULL, "The names of all blobs.", NULL},
    {"_blob_loss_weights", net_loss_weights, NULL, "The loss weights of all blobs.", NULL},
    {"_input_names", net_input_names, NULL, "The names of the inputs.", NULL},
    {"_output_names", net_output_names, NULL, "The names of the outputs.", NULL},
    {0},
};
static PyMethodDef net_methods[] = {
    {"_build", net_build, METH_VARARGS, "Builds the net."},
    {"_forward", net_forward, METH_VARARGS,
     "_forward(first, last): runs these layers and returns their loss."},
    {"_backward", net_backward, METH_VARARGS,
     "_backward(last, first): computes the gradients of these layers."},
    {"reshape", net_reshape, METH_NOARGS,
     "reshape(): propagates the shapes of the inputs through all layers."},
    {"clear_param_diffs", net_clear_diffs, METH_NOARGS,
     "clear_param_diffs(): sets the gradients of all parameters to zero."},
    {"_use_hooks", net_use_hooks, METH_O, "Sets the kinds of hooks to call."},
    {"_copy_from", net_copy_from, METH_VARARGS, "Loads weights from a file."},
    {"_save", net_save, METH_VARARGS, "Writes weights to a file."},
    {"_to_bytes", net_to_bytes, METH_NOARGS, "The weights in wire format."},
    {"_from_bytes", net_from_bytes, METH_VARARGS, "Loads weights in wire format."},
    {"_share_with", net_share_with, METH_O, "Shares the weights of another net."},
    {"_set_samples", net_set_samples, METH_VARARGS, "Gives a MemoryData layer its samples."},
    {"_bottom_ids", net_bottom_ids, METH_O, "_bottom_ids(layer): the indices of its bottoms."},
    {"_top_ids", net_top_ids, METH_O, "_top_ids(layer): the indices of its tops."},
    {"_blob", net_blob, METH_O, "_blob(index): a blob."},
    {"_params_of", net_params, METH_O, "_params_of(layer): its parameters."},
    {"_python_layer", net_python_layer, METH_O,
     "_python_layer(layer): the object of a layer written in Python, or None."},
    {"_layer_text", net_layer_text, METH_O, "_layer_text(layer): its description."},
    {"to_prototxt", net_text, METH_NOARGS,
     "to_prototxt(): the net as text, with inserted Split layers and without the layers that its "
     "rules removed. Building a net from it for the same phase gives the same net."},
    {0},
};
static PyType_Slot net_slots[] = {
    {Py_tp_doc, (void *)"The base class of caffe.Net."},
    {Py_tp_new, net_new},
    {Py_tp_dealloc, net_dealloc},
    {Py_tp_traverse, net_traverse},
    {Py_tp_clear, net_clear},
    {Py_tp_methods, net_methods},
    {Py_tp_getset, net_getters},
    {0, NULL},
};
static PyType_Spec net_spec = {
    .name = "caffe._core.Net",
    .basicsize = sizeof(net_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = net_slots};

int py_net_init(PyObject *module) {
  net_type = py_add_type(module, &net_spec);
  return net_type == NULL ? -1 : 0;
}
