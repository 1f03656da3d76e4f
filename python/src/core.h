/* The module caffe._core: what the Python files of `caffe` need of libcrema.
 *
 * Only CPython's limited API is used, so that one build serves every version since 3.11. Files:
 *   module.c  the module: its functions and types
 *   error.c   statuses as exceptions, and exceptions as statuses
 *   guard.c   one thread at a time uses a net; none does after fork; exceptions of its callbacks
 *   view.c    memory as a buffer, and arrays made of it
 *   blob.c, net.c, solver.c, model.c  the objects
 *   layer.c   layers written in Python
 *   log.c     crema's log on the standard error output */
#ifndef CREMA_PYTHON_CORE_H
#define CREMA_PYTHON_CORE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
/* Needs the one above. */
#include <pythread.h>

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include "crema/crema.h"

/* ---- guard.c ---- */

/* What keeps the threads that use a net, or a solver with its nets, apart. */
typedef struct py_guard py_guard;

/* Sets an exception when it fails. */
py_guard *py_guard_create(void);
void py_guard_retain(py_guard *guard);
void py_guard_release(py_guard *guard);

/* Waits, without the interpreter's lock, until no other thread has the guard. A thread may enter it
 * several times. Returns 0, or -1 with an exception in a child process made by fork. */
int py_guard_enter(py_guard *guard);
void py_guard_leave(py_guard *guard);

/* Notes that nets run in this process. */
void py_guard_note_run(void);

/* Whether this process can run nets: not when nets ran in its parent before a fork, as OpenMP's
 * threads are gone then and would be waited for without end. Returns 0, or -1 with an exception. */
int py_guard_may_run(void);

/* Keeps the exception that a callback raised, of any thread that works for the guard's net or
 * solver, until the call of the library returns; the first, if there are several. Without a guard
 * it is dropped. */
void py_guard_keep(py_guard *guard);

/* Raises the exception that was kept. Returns false when there is none. */
bool py_guard_raise(py_guard *guard);

/* Says for whose net this thread runs a layer in Python from now on, NULL for none; returns what
 * held before. */
py_guard *py_guard_work(py_guard *guard);

/* Says for whose net this thread makes layers in Python from now on; returns what held before. */
py_guard *py_guard_build(py_guard *guard);

/* The guard that was said, retained; NULL outside of building. */
py_guard *py_guard_building(void);

/* Whether the process is the one that made the guard. */
bool py_guard_is_ours(const py_guard *guard);

/* ---- error.c ---- */

/* Makes the exception class caffe.Error in the module. Returns 0 or -1. */
int py_error_init(PyObject *module);

/* Raises the exception that a callback kept in the guard (may be NULL), or else caffe.Error with
 * the thread's error text. Returns NULL. */
PyObject *py_error_raise(py_guard *guard, crema_status status);

/* Keeps the exception that a callback raised, as py_guard_keep does, and makes its text that of the
 * failure which is returned. */
crema_status py_error_keep(py_guard *guard);

/* None, or what py_error_raise does. */
PyObject *py_error_none(py_guard *guard, crema_status status);

/* ---- view.c ---- */

/* Finds NumPy. Returns 0 or -1. */
int py_view_init(PyObject *module);

/* An array of float32 that keeps `view`, which is taken over. */
PyObject *py_array_of_view(crema_view *view, const crema_shape *shape);

/* A shape as a tuple, and back. */
PyObject *py_shape_tuple(const crema_shape *shape);
int py_shape_read(PyObject *sequence, crema_shape *out);

/* ---- blob.c ---- */

int py_blob_init(PyObject *module);

/* A blob of a net: `owner` is kept alive. A blob without an owner belongs to a layer that is being
 * built or run, which says when it goes (py_blob_forget). */
PyObject *py_blob_wrap(crema_blob *blob, PyObject *owner, py_guard *guard);
void py_blob_forget(PyObject *self);

/* The blob of an object that no other thread uses; NULL with an exception for another object. */
crema_blob *py_blob_get(PyObject *self);

/* ---- net.c ---- */

int py_net_init(PyObject *module);

/* An object of the class that Python has set for nets, for a net of a solver. */
PyObject *py_net_wrap(crema_net *net, PyObject *owner, py_guard *guard);
crema_net *py_net_get(PyObject *self);
PyObject *py_net_set_class(PyObject *module, PyObject *class);

/* The names in a sequence (none in None), which *kept holds; to be freed with PyMem_Free. NULL with
 * an exception. */
const char **py_names_read(PyObject *sequence, PyObject **kept, size_t *count);

/* ---- model.c ---- */

int py_model_init(PyObject *module);

/* ---- solver.c ---- */

int py_solver_init(PyObject *module);

/* Of processes that train together; see crema_group_find and crema_group_make_id. */
PyObject *py_group_find(PyObject *module, PyObject *unused);
PyObject *py_group_make_id(PyObject *module, PyObject *unused);

/* ---- layer.c ---- */

/* Registers the layer type "Python". Returns 0 or -1. */
int py_layer_init(PyObject *module);

/* Sets the function that makes a layer: make(handle) returns the object. */
PyObject *py_layer_set_maker(PyObject *module, PyObject *maker);

/* The object of a layer in Python, whose state is `state`; a new reference. */
PyObject *py_layer_object(void *state);

/* From now on layers in Python fail: the interpreter ends. */
PyObject *py_layer_close(PyObject *module, PyObject *unused);

/* ---- log.c ---- */

PyObject *py_log_set(PyObject *module, PyObject *args);
PyObject *py_log_set_bar(PyObject *module, PyObject *there);
PyObject *py_log_write(PyObject *module, PyObject *args);

/* ---- helpers ---- */

/* A device that the program has named: its first use is nothing to warn of. */
crema_status py_device_get(int type, int index, crema_device **out) CREMA_MUST_USE;

/* A type made from its spec, added to the module; NULL with an exception. */
PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec);

/* Frees the object's memory and its hold on its type. */
void py_free_object(PyObject *self);

/* The bytes of a str, bytes or path-like object as the system's file name; a new object that holds
 * them. NULL with an exception. */
PyObject *py_path(PyObject *path, const char **out);

/* Runs `call`, an expression that gives a crema_status, without the interpreter's lock. */
#define PY_RUN(status, call)                 \
  do {                                       \
    Py_BEGIN_ALLOW_THREADS(status) = (call); \
    Py_END_ALLOW_THREADS                     \
  } while (0)

/* The same for what makes nets: their layers in Python work for the guard. */
#define PY_BUILD(guard, status, call)          \
  do {                                         \
    py_guard *before_ = py_guard_build(guard); \
    PY_RUN(status, call);                      \
    (void)py_guard_build(before_);             \
  } while (0)

/* Within the guard; returns NULL when it cannot be entered. */
#define PY_ENTER(guard)                          \
  do {                                           \
    if (py_guard_enter(guard) != 0) return NULL; \
    py_guard_note_run();                         \
  } while (0)

#endif
