#include <unistd.h>

#include "core.h"

struct py_guard {
  Py_ssize_t users;
  PyThread_type_lock lock;
  unsigned long owner; /* the thread that has the guard, if depth > 0 */
  int depth;
  pid_t process;
  PyObject *type, *value, *trace; /* see py_guard_keep */
};

static pid_t ran; /* the process in which nets have run; 0: no net has run */

void py_guard_note_run(void) {
  ran = getpid();
}

int py_guard_may_run(void) {
  if (ran == 0 || ran == getpid()) return 0;
  PyErr_SetString(
      PyExc_RuntimeError,
      "nets ran in this process before a fork: the child has not the threads that they "
      "compute with; start processes with the method 'spawn', or before the first pass");
  return -1;
}

static _Thread_local py_guard *building;

py_guard *py_guard_build(py_guard *guard) {
  py_guard *before = building;
  building = guard;
  return before;
}

py_guard *py_guard_building(void) {
  py_guard_retain(building);
  return building;
}

/* The guard of the net for which this thread runs a Python layer; NULL: none. */
static _Thread_local py_guard *working;

py_guard *py_guard_work(py_guard *guard) {
  py_guard *before = working;
  working = guard;
  return before;
}

py_guard *py_guard_create(void) {
  py_guard *guard = PyMem_Calloc(1, sizeof *guard);
  if (guard == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  guard->lock = PyThread_allocate_lock();
  if (guard->lock == NULL) {
    PyMem_Free(guard);
    PyErr_NoMemory();
    return NULL;
  }
  guard->users = 1;
  guard->process = getpid();
  return guard;
}

void py_guard_retain(py_guard *guard) {
  if (guard != NULL) ++guard->users;
}

static void clear(py_guard *guard) {
  Py_CLEAR(guard->type);
  Py_CLEAR(guard->value);
  Py_CLEAR(guard->trace);
}

void py_guard_keep(py_guard *guard) {
  PyObject *type = NULL, *value = NULL, *trace = NULL;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (guard != NULL && guard->type == NULL) {
    guard->type = type;
    guard->value = value;
    guard->trace = trace;
    return;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

bool py_guard_raise(py_guard *guard) {
  if (guard == NULL || guard->type == NULL) return false;
  PyErr_Restore(guard->type, guard->value, guard->trace);
  guard->type = guard->value = guard->trace = NULL;
  return true;
}

void py_guard_release(py_guard *guard) {
  if (guard == NULL || --guard->users > 0) return;
  clear(guard);
  PyThread_free_lock(guard->lock);
  PyMem_Free(guard);
}

bool py_guard_is_ours(const py_guard *guard) {
  return guard == NULL || guard->process == getpid();
}

int py_guard_enter(py_guard *guard) {
  if (guard == NULL) return 0;
  if (!py_guard_is_ours(guard)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "a net, blob or solver from before a fork cannot be used in the child process; "
                    "start processes with the method 'spawn'");
    return -1;
  }
  const unsigned long me = PyThread_get_thread_ident();
  if (guard->depth > 0 && guard->owner == me) {
    ++guard->depth;
    return 0;
  }
  if (guard == working) { /* a solver's thread: the thread that has the guard waits for it */
    PyErr_SetString(
        PyExc_RuntimeError,
        "a layer of one of a solver's devices cannot use the solver and its nets meanwhile; its "
        "bottoms, tops and blobs are its own");
    return -1;
  }
  if (!PyThread_acquire_lock(guard->lock, NOWAIT_LOCK)) {
    Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(guard->lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS
  }
  guard->owner = me;
  guard->depth = 1;
  clear(guard);
  return 0;
}

void py_guard_leave(py_guard *guard) {
  if (guard != NULL && --guard->depth == 0) PyThread_release_lock(guard->lock);
}
