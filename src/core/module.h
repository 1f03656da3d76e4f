/* Parts of crema in separate shared objects, opened on first use. */
#ifndef CR_CORE_MODULE_H
#define CR_CORE_MODULE_H

#include "crema/status.h"

/* Opens the shared object `name` ("libcrema-x.so") with its symbols kept to itself; *out is a
 * handle for dlsym. Looks at the path in the environment variable `variable`; if that is unset or
 * empty, in the library's folder, then in the dynamic loader's. For a program that contains the
 * library, its folder is the program's and the library folder next to it. Never looks in the
 * working directory, and ignores the variable in a program that runs with more rights than its
 * caller has. Errors: CREMA_E_NOT_FOUND; the text names the file and says why it cannot be
 * opened. */
crema_status cr_module_open(const char *name, const char *variable, void **out) CREMA_MUST_USE;

/* Opens the shared object at exactly `path`, which may refer to the library's public functions, and
 * finds `symbol` in it. It stays open. Errors: CREMA_E_UNSUPPORTED, with the loader's message. */
crema_status cr_module_open_file(const char *path, const char *symbol, void **out) CREMA_MUST_USE;

#endif
