/* Crema: Caffe networks in C. This header includes all the others.
 *
 * Where a pointer may be NULL, the function's comment says so. Elsewhere NULL is an error: a call
 * that returns a status fails with CREMA_E_ARGUMENT and names itself and the argument, one that
 * returns a plain value returns 0, false or NULL, and one that frees does nothing.
 *
 * A shared library once loaded stays loaded: dlclose has no effect on it, because threads that used
 * it end through its code. A plug-in of yours that has the static library inside must be linked
 * with -Wl,-z,nodelete for the same reason.
 *
 * Threads: an object and all that belongs to it (a net and its blobs, a solver and its nets, a
 * context) is used by one thread at a time, also where it is only read. It may go to another thread
 * by way of a lock or a join. Different objects may be used by different threads at once, and
 * devices and the log by all. The nets of phase TEST that belong to one solver are an exception to
 * the first rule: although they share their weights, each may run forward in a thread of its own,
 * all at once, with the same results as one after the other; sessions of a model (crema/model.h)
 * are made for that. Whatever changes weights (training, loading, crema_blob_mutable_cpu_data; a
 * pass of a TRAIN net, which collects statistics) needs the solver with all its nets for itself.
 *
 * Threads that load nets or give them new shapes must have come back from that before main returns
 * or exit is called: oneDNN takes down what they use.
 *
 * Signals: oneDNN's kernels use the stack pointer for data, so a signal's frame would be written
 * over it. Hence no thread of crema's gets a signal, OpenMP's threads included, which it shares
 * with a host that uses OpenMP itself; and a thread that calls crema gets none while it computes. A
 * signal for it comes at the end of a pass, while the pass waits for data, or after 10 ms between
 * two layers. A host's handlers need nothing for that. Left alone are the signals that an
 * instruction causes (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS): give their
 * handlers a stack of their own (sigaltstack, SA_ONSTACK), and send none of them to a thread that
 * computes. glibc's own signals cannot be blocked: while nets run, do not call setuid and its like,
 * nor pthread_cancel on a thread that runs one.
 *
 * Reading an HDF5 file (weights, a state, the files of HDF5Data) forks once: the HDF5 library
 * crashes on some damaged files, and so works in a child process, which ends before the call
 * returns. The host's handlers do not run in it, its files are closed in it, and no signal needs
 * attention; only SIGCHLD comes, and a host that waits for any child may be told of one that it did
 * not make. Where the system refuses to fork, the file is read without this protection, with a
 * warning. A sandbox that kills whoever forks needs CREMA_HDF5_FORK=0 in the environment. For each
 * GiB that the process has in use in small pages, a fork takes some 50 ms.
 *
 * GCC's OpenMP library does not outlive a fork: in a child made by fork alone, nets run only when
 * the thread that forked had run none before, or with one thread (OMP_NUM_THREADS=1). */
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
#include "crema/solver.h"
#include "crema/status.h"
#include "crema/syncedmem.h"
#include "crema/types.h"

#endif
