/* Crema: Caffe networks in C. This header includes all other public headers.
 *
 * NULL arguments: a pointer may be NULL only if the function's comment says so. Otherwise a call
 * that returns a status fails with CREMA_E_ARGUMENT and names itself and the argument. A call that
 * returns a plain value returns 0, false or NULL. A call that frees does nothing.
 *
 * Unloading: dlclose has no effect on the shared library, because threads that used it run its code
 * when they end. For the same reason, link a plug-in that contains the static library with
 * -Wl,-z,nodelete.
 *
 * Threads:
 *
 * - One thread at a time uses an object and everything that belongs to it, even for reading. This
 *   includes a net and its blobs, a solver and its nets, and a context. Pass an object to another
 *   thread through a lock or a join.
 * - Several threads may use different objects at once. Devices and the log may be used by all
 *   threads.
 * - Exception: the TEST nets of one solver share weights, but each may run forward in its own
 *   thread, all at once. The results are the same as in sequence. Sessions of a model
 *   (crema/model.h) are made for this use.
 * - A call that changes weights needs the solver and all its nets for itself. Examples are
 *   training, loading, crema_blob_mutable_cpu_data, and a pass of a TRAIN net, which collects
 *   statistics.
 * - Calls that load or reshape nets must return before main returns or exit is called. Otherwise
 *   oneDNN may destroy objects that they use.
 *
 * Signals: oneDNN's kernels use the stack pointer for data, so the frame of a signal handler would
 * overwrite their data. Crema therefore blocks signals:
 *
 * - Crema's threads receive no signals. This includes the OpenMP threads, which crema shares with a
 *   host program that uses OpenMP.
 * - A thread that calls crema receives no signals while it computes. Pending signals are delivered
 *   at the end of a pass, while the pass waits for data, or after 10 ms, between two layers.
 * - The signals that an instruction causes are not blocked: SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 *   SIGTRAP, SIGABRT, SIGSYS. Run their handlers on their own stack (sigaltstack, SA_ONSTACK). Do
 *   not send these signals to a thread that computes.
 * - glibc's internal signals cannot be blocked. While nets run, do not call setuid or similar
 *   functions, and do not call pthread_cancel for a thread that runs a net.
 *
 * Handlers in the host program need no other changes.
 *
 * Fork: reading an HDF5 file (weights, a state, HDF5Data) forks a child process, because the HDF5
 * library crashes on some damaged files.
 *
 * - The child ends before the call returns. It closes the host program's files and does not run its
 *   signal handlers.
 * - The host program receives SIGCHLD. If it waits for any child, wait can return this child.
 * - If fork fails, the file is read in the calling process, with a warning.
 * - A sandbox that kills processes for forking needs CREMA_HDF5_FORK=0 in the environment.
 * - A fork takes about 50 ms for each GiB of memory that the process uses in small pages.
 *
 * GCC's OpenMP library does not survive a fork. In a child process made by fork without exec, nets
 * run only if the forking thread had not run a net earlier. Otherwise limit crema to one thread
 * (OMP_NUM_THREADS=1). */
#ifndef CREMA_CREMA_H
#define CREMA_CREMA_H

#include "crema/blob.h"
#include "crema/device.h"
#include "crema/event.h"
#include "crema/image.h"
#include "crema/layer.h"
#include "crema/log.h"
#include "crema/memory_data.h"
#include "crema/model.h"
#include "crema/net.h"
#include "crema/onnx.h"
#include "crema/preprocessing.h"
#include "crema/solver.h"
#include "crema/status.h"
#include "crema/syncedmem.h"
#include "crema/types.h"

#endif
