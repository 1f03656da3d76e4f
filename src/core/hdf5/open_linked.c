/* HDF5 for the static library: linked in. */
#include "core/fail.h"
#include "core/hdf5/table.h"

crema_status cr_hdf5_open(cr_hdf5_api *api) {
  if (crema_hdf5_api(CR_HDF5_ABI, api)) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "no HDF5 files: the HDF5 library does not start");
}
