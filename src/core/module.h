/* Parts of crema that lie in files of their own and are opened when first asked for. */
#ifndef CR_CORE_MODULE_H
#define CR_CORE_MODULE_H

#include "crema/status.h"

/* Opens the shared object `name` ("libcrema-x.so") with its symbols kept to itself; *out is a
 * handle for dlsym. Looks at the path that the environment variable `variable` holds and, when that
 * is unset or empty, beside the library; for a program that contains the library, that is its own
 * folder and the library folder next to it; then in the dynamic loader's folders. Never looks in
 * the working directory, and ignores the variable in a program that runs with more rights than its
 * caller has. Errors: CREMA_E_NOT_FOUND; the text names the file and says why it cannot be
 * opened. */
crema_status cr_module_open(const char *name, const char *variable, void **out) CREMA_MUST_USE;

/* Opens the shared object at exactly `path`, which may refer to the library's public functions, and
 * finds `symbol` in it. It stays open. Errors: CREMA_E_UNSUPPORTED, with what the loader says. */
crema_status cr_module_open_file(const char *path, const char *symbol, void **out) CREMA_MUST_USE;

#endif
