/* HDF5 for the shared library and the command: from its module. */
#include <dlfcn.h>
#include <string.h>

#include "core/fail.h"
#include "core/hdf5_api.h"
#include "core/module.h"
#include "core/system.h"

/* At the end of the process HDF5 closes open files, and crashes on a file that it failed to write
 * or close before. Crema closes its files itself, so it switches HDF5's exit handler off, unless
 * the host uses HDF5 for its own files. */
static void do_nothing_at_exit(void *library) {
  void *symbol = dlsym(library, "H5dont_atexit");
  herr_t (*dont_atexit)(void) = NULL;
  memcpy(&dont_atexit, &symbol, sizeof dont_atexit);
  if (dont_atexit != NULL) (void)dont_atexit();
}

crema_status cr_hdf5_open(cr_hdf5_api *api) {
  static const char name[] = "libcrema-hdf5.so";
  void *library = NULL;
  bool of_host = cr_system_has_library("libhdf5");
  if (cr_module_open(name, "CREMA_HDF5_MODULE", &library) != CREMA_OK) {
    return cr_fail_in(CREMA_E_UNSUPPORTED, "no HDF5 files");
  }
  if (!of_host) do_nothing_at_exit(library);
  /* C has no conversion from an object's address to a function's. */
  void *symbol = dlsym(library, "crema_hdf5_api");
  cr_hdf5_entry *entry = NULL;
  memcpy(&entry, &symbol, sizeof entry);
  if (entry != NULL && entry(CR_HDF5_ABI, api)) return CREMA_OK;
  dlclose(library);
  return cr_fail(CREMA_E_UNSUPPORTED, "no HDF5 files: %s is of another version of crema or of HDF5",
                 name);
}
