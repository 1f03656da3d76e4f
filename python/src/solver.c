#include <string.h>

#include "core.h"

typedef struct solver_object {
  PyObject_HEAD crema_solver *solver;
  py_guard *guard;
  bool told;    /* progress is reported */
  bool stopped; /* stopped by an exception in a callback */
} solver_object;

static PyTypeObject *solver_type;

static solver_object *self_of(PyObject *object) {
  solver_object *self = (solver_object *)object;
  if (self->solver != NULL) return self;
  PyErr_SetString(PyExc_RuntimeError,
                  "the solver was not built: __init__ was not called or failed");
  return NULL;
}

static PyObject *solver_new(PyTypeObject *type, PyObject *args, PyObject *names) {
  (void)args, (void)names;
  return PyType_GenericAlloc(type, 0);
}

static int solver_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static void solver_dealloc(PyObject *object) {
  solver_object *self = (solver_object *)object;
  PyObject_GC_UnTrack(object);
  if (self->solver != NULL && py_guard_is_ours(self->guard)) {
    Py_BEGIN_ALLOW_THREADS crema_solver_destroy(self->solver);
    Py_END_ALLOW_THREADS
  }
  py_guard_release(self->guard);
  py_free_object(object);
}

/* Control-C ends training after the current iteration, in all processes that train together. It
 * does not matter where the interpreter notices it. */
static crema_status keep(solver_object *self) {
  if (!PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return py_error_keep(self->guard);
  py_guard_keep(self->guard);
  self->stopped = true;
  return CREMA_OK;
}

static crema_status call_method(PyObject *object, const char *method) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *result = PyObject_CallMethod(object, method, NULL);
  const crema_status status = result == NULL ? keep((solver_object *)object) : CREMA_OK;
  Py_XDECREF(result);
  PyGILState_Release(state);
  return status;
}

static crema_status iteration_start(void *user) {
  return call_method(user, "_on_start");
}

static crema_status gradients_ready(void *user) {
  return call_method(user, "_on_gradients");
}

/* Control-C: the interpreter's handler has recorded it and raises KeyboardInterrupt here. */
static crema_solver_action poll(void *user) {
  solver_object *self = user;
  PyGILState_STATE state = PyGILState_Ensure();
  if (PyErr_CheckSignals() != 0) {
    py_guard_keep(self->guard);
    self->stopped = true;
  }
  PyGILState_Release(state);
  return self->stopped ? CREMA_SOLVER_STOP : CREMA_SOLVER_CONTINUE;
}

static void progress(void *user, const crema_solver_progress *now) {
  solver_object *self = user;
  if (!self->told) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *result = PyObject_CallMethod(user, "_on_progress", "LLddLd", (long long)now->iteration,
                                         (long long)now->max_iterations, now->loss, now->rate,
                                         (long long)now->samples, now->seconds);
  if (result == NULL) {
    py_guard_keep(self->guard);
    self->stopped = true;
  }
  Py_XDECREF(result);
  PyGILState_Release(state);
}

/* _build(path, type or None, seed or None, device type, device indices, rank and count of
 * processes, math, graphs) */
static PyObject *solver_build(PyObject *object, PyObject *args) {
  solver_object *self = (solver_object *)object;
  PyObject *path = NULL, *seed = NULL, *indices = NULL;
  const char *type = NULL, *file = NULL;
  int kind = -1, math = 0, graphs = 0;
  enum { MOST_DEVICES = 64 };
  crema_device *devices[MOST_DEVICES];
  crema_solver_options options;
  crema_solver_options_init(&options);
  if (!PyArg_ParseTuple(args, "OzOiOiiip", &path, &type, &seed, &kind, &indices,
                        &options.process_rank, &options.process_count, &math, &graphs)) {
    return NULL;
  }
  if (self->solver != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the solver is built already");
    return NULL;
  }
  if (py_guard_may_run() != 0) return NULL;
  options.type = type;
  options.math = (crema_math)math;
  options.graphs = graphs != 0;
  options.has_seed = seed != Py_None;
  if (options.has_seed) options.seed = PyLong_AsUnsignedLongLongMask(seed);
  options.poll = poll;
  options.progress = progress;
  options.user = object;
  options.no_memory_plan = true; /* programs read any blob after a step or a pass */
  Py_ssize_t count = kind < 0 ? 0 : PySequence_Size(indices);
  if (PyErr_Occurred() != NULL) return NULL;
  crema_status status = CREMA_OK;
  for (Py_ssize_t i = 0; i < count && i < MOST_DEVICES && status == CREMA_OK; ++i) {
    PyObject *item = PySequence_GetItem(indices, i);
    const long index = item == NULL ? -1 : PyLong_AsLong(item);
    Py_XDECREF(item);
    if (PyErr_Occurred() != NULL) return NULL;
    status = py_device_get(kind, (int)index, &devices[i]);
    options.device_count = (size_t)i + 1;
  }
  if (status != CREMA_OK) return py_error_raise(self->guard, status);
  options.devices = devices;
  PyObject *name = py_path(path, &file);
  self->guard = name == NULL ? NULL : py_guard_create();
  if (self->guard == NULL) {
    Py_XDECREF(name);
    return NULL;
  }
  crema_solver *solver = NULL;
  PY_BUILD(self->guard, status, crema_solver_load(file, &options, &solver));
  self->solver = solver;
  Py_DECREF(name);
  return py_error_none(self->guard, status);
}

/* The exception that stopped training, if one did. */
static PyObject *finish(solver_object *self, crema_status status) {
  py_guard_leave(self->guard);
  if (status != CREMA_OK) return py_error_raise(self->guard, status);
  if (self->stopped) {
    self->stopped = false;
    return py_error_raise(self->guard, CREMA_E_INTERRUPTED);
  }
  return py_error_none(self->guard, CREMA_OK);
}

/* _set_calls(starts, ready): a callback may call it, while the guard is held. */
static PyObject *solver_set_calls(PyObject *object, PyObject *args) {
  solver_object *self = self_of(object);
  int starts = 0, ready = 0;
  if (self == NULL || !PyArg_ParseTuple(args, "pp", &starts, &ready)) return NULL;
  return py_error_none(self->guard,
                       crema_solver_set_calls(self->solver, starts ? iteration_start : NULL,
                                              ready ? gradients_ready : NULL));
}

/* _solve(report progress) */
static PyObject *solver_solve(PyObject *object, PyObject *told) {
  solver_object *self = self_of(object);
  crema_status status;
  if (self == NULL) return NULL;
  PY_ENTER(self->guard);
  self->told = PyObject_IsTrue(told) == 1;
  self->stopped = false;
  PY_RUN(status, crema_solver_solve(self->solver));
  return finish(self, status);
}

/* _step(iterations, report progress) */
static PyObject *solver_step(PyObject *object, PyObject *args) {
  solver_object *self = self_of(object);
  long long iterations = 0;
  int told = 0;
  crema_status status;
  if (self == NULL || !PyArg_ParseTuple(args, "Lp", &iterations, &told)) return NULL;
  PY_ENTER(self->guard);
  self->told = told != 0;
  self->stopped = false;
  PY_RUN(status, crema_solver_step(self->solver, iterations));
  return finish(self, status);
}

static PyObject *run_plain(PyObject *object, crema_status (*call)(crema_solver *)) {
  solver_object *self = self_of(object);
  crema_status status;
  if (self == NULL) return NULL;
  PY_ENTER(self->guard);
  PY_RUN(status, call(self->solver));
  py_guard_leave(self->guard);
  return py_error_none(self->guard, status);
}

static PyObject *solver_snapshot(PyObject *object, PyObject *unused) {
  (void)unused;
  return run_plain(object, crema_solver_snapshot);
}

static PyObject *solver_apply_update(PyObject *object, PyObject *unused) {
  (void)unused;
  return run_plain(object, crema_solver_apply_update);
}

static PyObject *run_with_path(PyObject *object, PyObject *path,
                               crema_status (*call)(crema_solver *, const char *)) {
  solver_object *self = self_of(object);
  const char *file = NULL;
  crema_status status;
  PyObject *name = self == NULL ? NULL : py_path(path, &file);
  if (name == NULL || py_guard_enter(self->guard) != 0) {
    Py_XDECREF(name);
    return NULL;
  }
  PY_RUN(status, call(self->solver, file));
  py_guard_leave(self->guard);
  Py_DECREF(name);
  return py_error_none(self->guard, status);
}

static PyObject *solver_restore(PyObject *object, PyObject *path) {
  return run_with_path(object, path, crema_solver_restore);
}

static PyObject *solver_load_weights(PyObject *object, PyObject *path) {
  return run_with_path(object, path, crema_solver_load_weights);
}

/* _join(uid, seconds) */
static PyObject *solver_join(PyObject *object, PyObject *args) {
  solver_object *self = self_of(object);
  crema_group_id id;
  const char *bytes = NULL;
  Py_ssize_t size = 0;
  double patience = 0;
  crema_status status;
  if (self == NULL || !PyArg_ParseTuple(args, "y#d", &bytes, &size, &patience)) return NULL;
  if ((size_t)size != sizeof id.bytes) {
    PyErr_SetString(PyExc_ValueError, "the uid is not one that NCCL.new_uid() has made");
    return NULL;
  }
  memcpy(id.bytes, bytes, sizeof id.bytes);
  PY_ENTER(self->guard);
  PY_RUN(status, crema_solver_join(self->solver, &id, patience));
  py_guard_leave(self->guard);
  return py_error_none(self->guard, status);
}

static PyObject *solver_broadcast(PyObject *object, PyObject *unused) {
  (void)unused;
  return run_plain(object, crema_solver_broadcast);
}

PyObject *py_group_find(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return py_error_none(NULL, crema_group_find());
}

PyObject *py_group_make_id(PyObject *module, PyObject *unused) {
  crema_group_id id;
  (void)module, (void)unused;
  const crema_status status = crema_group_make_id(&id);
  if (status != CREMA_OK) return py_error_raise(NULL, status);
  return PyBytes_FromStringAndSize(id.bytes, sizeof id.bytes);
}

/* _net(index): the train net for -1, else a test net. */
static PyObject *solver_net(PyObject *object, PyObject *number) {
  solver_object *self = self_of(object);
  const long index = self == NULL ? -1 : PyLong_AsLong(number);
  if (self == NULL || PyErr_Occurred() != NULL) return NULL;
  crema_net *net =
      index < 0 ? crema_solver_net(self->solver) : crema_solver_test_net(self->solver, (int)index);
  if (net != NULL) return py_net_wrap(net, object, self->guard);
  PyErr_Format(PyExc_IndexError, "no test net %ld", index);
  return NULL;
}

static PyObject *solver_test_nets(PyObject *object, void *unused) {
  const solver_object *self = self_of(object);
  (void)unused;
  return self == NULL ? NULL : PyLong_FromLong(crema_solver_test_net_count(self->solver));
}

static PyObject *solver_iter(PyObject *object, void *unused) {
  const solver_object *self = self_of(object);
  (void)unused;
  return self == NULL ? NULL : PyLong_FromLongLong(crema_solver_iteration(self->solver));
}

static PyObject *solver_rate(PyObject *object, void *unused) {
  const solver_object *self = self_of(object);
  (void)unused;
  return self == NULL ? NULL : PyFloat_FromDouble(crema_solver_rate(self->solver));
}

static PyObject *solver_base_lr(PyObject *object, void *unused) {
  const solver_object *self = self_of(object);
  (void)unused;
  return self == NULL ? NULL : PyFloat_FromDouble(crema_solver_base_lr(self->solver));
}

/* Whether there is a value to set: deleting an attribute sets NULL. */
static bool is_given(PyObject *value) {
  if (value == NULL) PyErr_SetString(PyExc_TypeError, "the attribute cannot be deleted");
  return value != NULL;
}

static int answer(crema_status status) {
  if (status == CREMA_OK) return 0;
  (void)py_error_raise(NULL, status);
  return -1;
}

static int solver_set_base_lr(PyObject *object, PyObject *value, void *unused) {
  solver_object *self = self_of(object);
  (void)unused;
  if (self == NULL || !is_given(value)) return -1;
  const double rate = PyFloat_AsDouble(value);
  if (PyErr_Occurred() != NULL) return -1;
  return answer(crema_solver_set_base_lr(self->solver, rate));
}

static PyObject *solver_max_iter(PyObject *object, void *unused) {
  const solver_object *self = self_of(object);
  (void)unused;
  return self == NULL ? NULL : PyLong_FromLongLong(crema_solver_max_iterations(self->solver));
}

static int solver_set_max_iter(PyObject *object, PyObject *value, void *unused) {
  solver_object *self = self_of(object);
  (void)unused;
  if (self == NULL || !is_given(value)) return -1;
  const long long iterations = PyLong_AsLongLong(value);
  if (PyErr_Occurred() != NULL) return -1;
  return answer(crema_solver_set_max_iterations(self->solver, iterations));
}

static PyObject *solver_text(PyObject *object, PyObject *unused) {
  const solver_object *self = self_of(object);
  char *text = NULL;
  (void)unused;
  if (self == NULL) return NULL;
  crema_status status = crema_solver_text(self->solver, &text);
  if (status != CREMA_OK) return py_error_raise(self->guard, status);
  PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  crema_free(text);
  return result;
}

static PyGetSetDef solver_getters[] = {
    {"iter", solver_iter, NULL, "The number of updates so far.", NULL},
    {"lr", solver_rate, NULL, "The learning rate of the next update.", NULL},
    {"base_lr", solver_base_lr, solver_set_base_lr, "base_lr of the solver file.", NULL},
    {"max_iter", solver_max_iter, solver_set_max_iter, "max_iter of the solver file.", NULL},
    {"_test_net_count", solver_test_nets, NULL, "The number of test nets.", NULL},
    {0},
};
static PyMethodDef solver_methods[] = {
    {"_build", solver_build, METH_VARARGS, "Builds the solver."},
    {"_set_calls", solver_set_calls, METH_VARARGS,
     "_set_calls(starts, ready): whether _on_start and _on_gradients are called."},
    {"_solve", solver_solve, METH_O, "Trains until max_iter."},
    {"_step", solver_step, METH_VARARGS, "Trains for some iterations."},
    {"snapshot", solver_snapshot, METH_NOARGS, "snapshot(): writes weights and state."},
    {"apply_update", solver_apply_update, METH_NOARGS,
     "apply_update(): updates the weights once from the current gradients and counts an "
     "iteration."},
    {"restore", solver_restore, METH_O, "restore(path): resumes from a .solverstate file."},
    {"load_weights", solver_load_weights, METH_O,
     "load_weights(paths): loads weights from files, separated by commas."},
    {"_join", solver_join, METH_VARARGS, "_join(uid, seconds): connects to the other processes."},
    {"_broadcast", solver_broadcast, METH_NOARGS,
     "Copies the weights of the first process to all processes."},
    {"_net", solver_net, METH_O, "_net(index): -1 for the train net, else a test net."},
    {"_text", solver_text, METH_NOARGS, "The solver's description."},
    {0},
};
static PyType_Slot solver_slots[] = {
    {Py_tp_doc, (void *)"The base class of caffe.Solver."},
    {Py_tp_new, solver_new},
    {Py_tp_dealloc, solver_dealloc},
    {Py_tp_traverse, solver_traverse},
    {Py_tp_methods, solver_methods},
    {Py_tp_getset, solver_getters},
    {0, NULL},
};
static PyType_Spec solver_spec = {
    .name = "caffe._core.Solver",
    .basicsize = sizeof(solver_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = solver_slots};

int py_solver_init(PyObject *module) {
  solver_type = py_add_type(module, &solver_spec);
  return solver_type == NULL ? -1 : 0;
}
