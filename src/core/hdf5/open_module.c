/* HDF5 for the shared library and the command: from its module. */
#include <dlfcn.h>
#include <string.h>

#include "core/fail.h"
#include "core/hdf5_api.h"
#include "core/module.h"

crema_status cr_hdf5_open(cr_hdf5_api *api) {
  static const char name[] = "libcrema-hdf5.so";
  void *library = NULL;
  if (cr_module_open(name, "CREMA_HDF5_MODULE", &library) != CREMA_OK) {
    return cr_fail_in(CREMA_E_UNSUPPORTED, "no HDF5 files");
  }
  /* C has no conversion from an object's address to a function's. */
  void *symbol = dlsym(library, "crema_hdf5_api");
  cr_hdf5_entry *entry = NULL;
  memcpy(&entry, &symbol, sizeof entry);
  if (entry != NULL && entry(CR_HDF5_ABI, api)) return CREMA_OK;
  dlclose(library);
  return cr_fail(CREMA_E_UNSUPPORTED, "no HDF5 files: %s is of another version of crema or of HDF5",
                 name);
}
