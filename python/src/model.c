/* Compiled models and their sessions. */
#include "core.h"

typedef struct model_object {
  PyObject_HEAD crema_model *model;
  int threads; /* of each session */
} model_object;

typedef struct session_object {
  PyObject_HEAD crema_session *session;
  py_guard *guard;
} session_object;

static PyTypeObject *model_type, *session_type;

static int session_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static void session_dealloc(PyObject *object) {
  session_object *self = (session_object *)object;
  PyObject_GC_UnTrack(object);
  if (py_guard_is_ours(self->guard)) {
    Py_BEGIN_ALLOW_THREADS crema_session_destroy(self->session);
    Py_END_ALLOW_THREADS
  }
  py_guard_release(self->guard);
  py_free_object(object);
}

static PyObject *session_names(const session_object *self,
                               int (*count)(const crema_session *session),
                               const char *(*name)(const crema_session *session, int index)) {
  const int names = count(self->session);
  PyObject *list = PyList_New(names);
  for (int i = 0; list != NULL && i < names; ++i) {
    const char *text = name(self->session, i);
    PyObject *item = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (item == NULL || PyList_SetItem(list, i, item) != 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *session_inputs(PyObject *object, void *unused) {
  (void)unused;
  return session_names((session_object *)object, crema_session_input_count,
                       crema_session_input_name);
}

static PyObject *session_outputs(PyObject *object, void *unused) {
  (void)unused;
  return session_names((session_object *)object, crema_session_output_count,
                       crema_session_output_name);
}

static PyObject *session_blob(PyObject *object, PyObject *name) {
  session_object *self = (session_object *)object;
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  crema_blob *blob = NULL;
  crema_status status;
  if (text == NULL) return NULL;
  PY_ENTER(self->guard);
  PY_RUN(status, crema_session_blob(self->session, text, &blob));
  py_guard_leave(self->guard);
  return status == CREMA_OK ? py_blob_wrap(blob, object, self->guard)
                            : py_error_raise(self->guard, status);
}

static PyObject *session_run(PyObject *object, PyObject *unused) {
  session_object *self = (session_object *)object;
  crema_status status;
  (void)unused;
  PY_ENTER(self->guard);
  PY_RUN(status, crema_session_run(self->session));
  py_guard_leave(self->guard);
  return py_error_none(self->guard, status);
}

static PyObject *session_memory(PyObject *object, PyObject *unused) {
  session_object *self = (session_object *)object;
  crema_session_memory memory;
  (void)unused;
  PY_ENTER(self->guard);
  crema_status status = crema_session_memory_read(self->session, &memory);
  py_guard_leave(self->guard);
  if (status != CREMA_OK) return py_error_raise(self->guard, status);
  return Py_BuildValue("nn", (Py_ssize_t)memory.weights, (Py_ssize_t)memory.activations);
}

static PyGetSetDef session_getters[] = {
    {"inputs", session_inputs, NULL, "The names of the inputs.", NULL},
    {"outputs", session_outputs, NULL, "The names of the outputs.", NULL},
    {0},
};
static PyMethodDef session_methods[] = {
    {"blob", session_blob, METH_O, "blob(name): the blob of the net with this name."},
    {"run", session_run, METH_NOARGS, "run(): computes the outputs from the inputs."},
    {"memory", session_memory, METH_NOARGS, "memory(): the bytes of (weights, activations)."},
    {0},
};
static PyType_Slot session_slots[] = {
    {Py_tp_doc, (void *)"A session: lets one thread run a compiled model."},
    {Py_tp_dealloc, session_dealloc},
    {Py_tp_traverse, session_traverse},
    {Py_tp_methods, session_methods},
    {Py_tp_getset, session_getters},
    {0, NULL},
};
static PyType_Spec session_spec = {
    .name = "caffe._core.Session",
    .basicsize = sizeof(session_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = session_slots};

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *names) {
  (void)args, (void)names;
  return PyType_GenericAlloc(type, 0);
}

static int model_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static void model_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  crema_model_destroy(((model_object *)object)->model);
  py_free_object(object);
}

/* Fills the three lists of names of the options. *kept keeps the strings alive. False with an
 * exception on failure. */
static bool read_lists(PyObject *const lists[3], crema_model_options *options, PyObject *kept[3]) {
  options->stages = py_names_read(lists[0], &kept[0], &options->stage_count);
  if (options->stages == NULL) return false;
  options->keep = py_names_read(lists[1], &kept[1], &options->keep_count);
  if (options->keep == NULL) return false;
  options->without = py_names_read(lists[2], &kept[2], &options->without_count);
  return options->without != NULL;
}

/* _build(net, weights or None, level, stages, keep, without, seed, allow_missing, precision, table
 * or None, threads) */
static PyObject *model_build(PyObject *object, PyObject *args) {
  model_object *self = (model_object *)object;
  PyObject *path = NULL, *lists[3], *kept[3] = {NULL, NULL, NULL}, *result = NULL;
  const char *weights = NULL, *file = NULL;
  long long seed = 0;
  int allow = 0, precision = 0;
  crema_model_options options;
  crema_model_options_init(&options);
  if (!PyArg_ParseTuple(args, "OziOOOLpizi", &path, &weights, &options.level, &lists[0], &lists[1],
                        &lists[2], &seed, &allow, &precision, &options.table, &self->threads)) {
    return NULL;
  }
  options.seed = seed;
  options.allow_missing = allow != 0;
  options.precision = (crema_precision)precision;
  PyObject *name = py_path(path, &file);
  py_guard *guard = name == NULL ? NULL : py_guard_create();
  if (guard != NULL && py_guard_may_run() == 0 && self->model == NULL &&
      read_lists(lists, &options, kept)) {
    crema_status status;
    crema_model *model = NULL;
    py_guard_note_run();
    PY_BUILD(guard, status, crema_model_load(file, weights, &options, &model));
    self->model = model;
    result = py_error_none(guard, status);
  }
  PyMem_Free((void *)options.without);
  PyMem_Free((void *)options.keep);
  PyMem_Free((void *)options.stages);
  for (int i = 0; i < 3; ++i) Py_XDECREF(kept[i]);
  py_guard_release(guard);
  Py_XDECREF(name);
  return result;
}

static PyObject *model_session(PyObject *object, PyObject *unused) {
  const model_object *self = (model_object *)object;
  crema_session *session = NULL;
  crema_session_options options;
  crema_status status;
  (void)unused;
  crema_session_options_init(&options);
  options.threads = self->threads;
  if (self->model == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the model was not built");
    return NULL;
  }
  if (py_guard_may_run() != 0) return NULL;
  session_object *made = (session_object *)PyType_GenericAlloc(session_type, 0);
  if (made == NULL) return NULL;
  made->guard = py_guard_create();
  if (made->guard == NULL) {
    Py_DECREF(made);
    return NULL;
  }
  PY_BUILD(made->guard, status, crema_session_create(self->model, &options, &session));
  made->session = session;
  if (status == CREMA_OK) return (PyObject *)made;
  (void)py_error_raise(made->guard, status);
  Py_DECREF(made);
  return NULL;
}

static PyObject *model_explain(PyObject *object, PyObject *unused) {
  const model_object *self = (model_object *)object;
  const char *text = crema_model_explain(self->model);
  (void)unused;
  return PyUnicode_FromString(text == NULL ? "" : text);
}

static PyObject *model_preprocessing(PyObject *object, PyObject *unused) {
  const model_object *self = (model_object *)object;
  crema_preprocessing *found = NULL;
  (void)unused;
  const crema_status status = crema_model_preprocessing(self->model, 0, &found);
  return status == CREMA_OK ? py_preprocessing_wrap(found, object) : py_error_raise(NULL, status);
}

static PyMethodDef model_methods[] = {
    {"_build", model_build, METH_VARARGS, "Compiles the model."},
    {"session", model_session, METH_NOARGS, "session(): a new session, for one thread."},
    {"_preprocessing", model_preprocessing, METH_NOARGS,
     "The preprocessing of images for the first input."},
    {"explain", model_explain, METH_NOARGS, "explain(): a report of the changes by the passes."},
    {0},
};
static PyType_Slot model_slots[] = {
    {Py_tp_doc, (void *)"The base class of caffe.Model."},
    {Py_tp_new, model_new},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_traverse, model_traverse},
    {Py_tp_methods, model_methods},
    {0, NULL},
};
static PyType_Spec model_spec = {
    .name = "caffe._core.Model",
    .basicsize = sizeof(model_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = model_slots};

int py_model_init(PyObject *module) {
  model_type = py_add_type(module, &model_spec);
  session_type = model_type == NULL ? NULL : py_add_type(module, &session_spec);
  return session_type == NULL ? -1 : 0;
}
