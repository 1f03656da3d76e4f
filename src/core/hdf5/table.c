/* The only file that refers to HDF5's symbols. By itself it is libcrema-hdf5.so; the static library
 * contains it. */
#include "core/hdf5/table.h"

#include <string.h>

/* HDF5 checks this too, where its constants are first used, and aborts. */
static bool is_release_of_headers(void) {
  unsigned major, minor, release;
  return H5get_libversion(&major, &minor, &release) >= 0 && major == H5_VERS_MAJOR &&
         minor == H5_VERS_MINOR && release == H5_VERS_RELEASE;
}

bool crema_hdf5_api(const char *abi, cr_hdf5_api *api) {
  if (strcmp(abi, CR_HDF5_ABI) != 0 || !is_release_of_headers() || H5open() < 0) return false;
#define CR_HDF5_FILL(name) api->name = H5##name;
  CR_HDF5_FUNCTIONS(CR_HDF5_FILL)
  CR_HDF5_IDS(CR_HDF5_FILL)
  CR_HDF5_FLAGS(CR_HDF5_FILL)
#undef CR_HDF5_FILL
  return true;
}
