/* The module's entry. */
#ifndef CR_CORE_HDF5_TABLE_H
#define CR_CORE_HDF5_TABLE_H

#include "core/hdf5_api.h"

/* A cr_hdf5_entry. */
CREMA_API bool crema_hdf5_api(const char *abi, cr_hdf5_api *api);

#endif
