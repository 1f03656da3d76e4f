/* The module caffe._core: the part of the Python package `caffe` that calls libcrema.
 *
 * Only CPython's limited API is used, so that one build serves every version since 3.11. Files:
 *
 * - module.c: the module, its functions and types
 * - error.c: converts statuses to exceptions and back
 * - guard.c: exclusive use of a net by one thread, fork detection, exceptions of callbacks
 * - view.c: memory as a buffer, and arrays that use it
 * - blob.c, net.c, solver.c, model.c: the objects
 * - onnx.c: ONNX files
 * - preprocessing.c: images as inputs of nets and models
 * - layer.c: layers written in Python
 * - log.c: crema's log on standard error */
#ifndef CREMA_PYTHON_CORE_H
#define CREMA_PYTHON_CORE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
/* Requires Python.h. */
#include <pythread.h>

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include "crema/crema.h"

/* Functions of guard.c. */

/* Lets one thread at a time use a net, or a solver with its nets. */
typedef struct py_guard py_guard;

/* NULL with an exception on failure. */
py_guard *py_guard_create(void);
void py_guard_retain(py_guard *guard);
void py_guard_release(py_guard *guard);

/* Releases the interpreter's lock and waits until no other thread has the guard. A thread may enter
 * it several times. Returns 0, or -1 with an exception in a child process made by fork. */
int py_guard_enter(py_guard *guard);
void py_guard_leave(py_guard *guard);

/* Records that nets have run in this process. */
void py_guard_note_run(void);

/* Whether this process can run nets. A child process cannot if nets ran in its parent before the
 * fork: OpenMP would wait forever for threads that do not exist in the child. Returns 0, or -1 with
 * an exception. */
int py_guard_may_run(void);

/* Keeps the exception of a callback until the library call returns. Any thread that works for the
 * guard's net or solver may call it; the first exception is kept. Without a guard the exception is
 * dropped. */
void py_guard_keep(py_guard *guard);

/* Raises the kept exception. Returns false if there is none. */
bool py_guard_raise(py_guard *guard);

/* Sets the guard of the net for which this thread runs a Python layer, NULL for none. Returns the
 * previous guard. */
py_guard *py_guard_work(py_guard *guard);

/* Sets the guard of the net for which this thread builds Python layers. Returns the previous guard.
 */
py_guard *py_guard_build(py_guard *guard);

/* The guard of the net being built, retained; NULL if none is being built. */
py_guard *py_guard_building(void);

/* Whether the guard was made in this process. */
bool py_guard_is_ours(const py_guard *guard);

/* Functions of error.c. */

/* Adds the exception class caffe.Error to the module. Returns 0 or -1. */
int py_error_init(PyObject *module);

/* Raises the exception that the guard (may be NULL) keeps, or else caffe.Error with the thread's
 * error text. Returns NULL. */
PyObject *py_error_raise(py_guard *guard, crema_status status);

/* Keeps the exception of a callback (py_guard_keep) and returns a failure with the same text. */
crema_status py_error_keep(py_guard *guard);

/* Returns None for CREMA_OK, unless a signal handler raised. Otherwise as py_error_raise. */
PyObject *py_error_none(py_guard *guard, crema_status status);

/* Functions of view.c. */

/* Finds NumPy. Returns 0 or -1. */
int py_view_init(PyObject *module);

/* A float32 array that owns `view`. */
PyObject *py_array_of_view(crema_view *view, const crema_shape *shape);

/* Converts a shape to a tuple, and back. */
PyObject *py_shape_tuple(const crema_shape *shape);
int py_shape_read(PyObject *sequence, crema_shape *out);

/* Functions of blob.c. */

int py_blob_init(PyObject *module);

/* A blob of a net; it keeps `owner` alive. A blob without an owner belongs to a layer that is being
 * built or run, which calls py_blob_forget when the blob ends. */
PyObject *py_blob_wrap(crema_blob *blob, PyObject *owner, py_guard *guard);
void py_blob_forget(PyObject *self);

/* The blob of a Blob object that no other thread uses; NULL with an exception for other objects. */
crema_blob *py_blob_get(PyObject *self);

/* Functions of net.c. */

int py_net_init(PyObject *module);

/* An object of the Python class for nets (set_net_class), for a net of a solver. */
PyObject *py_net_wrap(crema_net *net, PyObject *owner, py_guard *guard);
crema_net *py_net_get(PyObject *self);

/* The guard of a Net object that py_net_get accepts. */
py_guard *py_net_guard(PyObject *self);
PyObject *py_net_set_class(PyObject *module, PyObject *class);

/* The names in a sequence (None: no names). Free the result with PyMem_Free. *kept keeps the
 * strings alive. NULL with an exception on failure. */
const char **py_names_read(PyObject *sequence, PyObject **kept, size_t *count);

/* Functions of model.c. */

int py_model_init(PyObject *module);

/* Functions of onnx.c. */

/* onnx_export(net, path, opset, any_batch) */
PyObject *py_onnx_export(PyObject *module, PyObject *args);
/* onnx_import(path, net path, weights path) */
PyObject *py_onnx_import(PyObject *module, PyObject *args);
/* onnx_compare(net, path): the largest relative difference, and the output that has it. */
PyObject *py_onnx_compare(PyObject *module, PyObject *args);

/* Functions of preprocessing.c. */

int py_preprocessing_init(PyObject *module);

/* An object for a preprocessing. It keeps `owner` alive; NULL: the object frees the preprocessing,
 * which is freed on failure too. */
PyObject *py_preprocessing_wrap(crema_preprocessing *preprocessing, PyObject *owner);

/* net_preprocessing(net): the preprocessing of a net's first input. */
PyObject *py_preprocessing_of_net(PyObject *module, PyObject *object);

/* Functions of solver.c. */

int py_solver_init(PyObject *module);

/* Wrappers of crema_group_find and crema_group_make_id. */
PyObject *py_group_find(PyObject *module, PyObject *unused);
PyObject *py_group_make_id(PyObject *module, PyObject *unused);

/* Functions of layer.c. */

/* Registers the layer type "Python". Returns 0 or -1. */
int py_layer_init(PyObject *module);

/* Sets the functions that create layer objects, make(handle), and lists of bottoms or tops,
 * list(blobs). */
PyObject *py_layer_set_makers(PyObject *module, PyObject *args);

/* The object of a Python layer with the state `state`; a new reference. */
PyObject *py_layer_object(void *state);

/* Makes all later calls of Python layers fail, because the interpreter ends. */
PyObject *py_layer_close(PyObject *module, PyObject *unused);

/* Functions of log.c. */

PyObject *py_log_set(PyObject *module, PyObject *args);
PyObject *py_log_set_bar(PyObject *module, PyObject *there);
PyObject *py_log_write(PyObject *module, PyObject *args);

/* Helpers. */

/* A device that the program named explicitly, so its first use logs no warning. */
crema_status py_device_get(int type, int index, crema_device **out) CREMA_MUST_USE;

/* Creates a type from its spec and adds it to the module; NULL with an exception on failure. */
PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec);

/* Frees the object's memory and drops its reference to its type. */
void py_free_object(PyObject *self);

/* The file name in a str, bytes or path-like object, as a new bytes object. NULL with an exception
 * on failure. */
PyObject *py_path(PyObject *path, const char **out);

/* Evaluates `call`, a crema_status expression, without the interpreter's lock. */
#define PY_RUN(status, call)                 \
  do {                                       \
    Py_BEGIN_ALLOW_THREADS(status) = (call); \
    Py_END_ALLOW_THREADS                     \
  } while (0)

/* As above, for calls that build nets: their Python layers work for the guard. */
#define PY_BUILD(guard, status, call)          \
  do {                                         \
    py_guard *before_ = py_guard_build(guard); \
    PY_RUN(status, call);                      \
    (void)py_guard_build(before_);             \
  } while (0)

/* Enters the guard. On failure it returns NULL from the calling function. */
#define PY_ENTER(guard)                          \
  do {                                           \
    if (py_guard_enter(guard) != 0) return NULL; \
    py_guard_note_run();                         \
  } while (0)

#endif
