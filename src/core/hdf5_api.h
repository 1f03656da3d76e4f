/* The HDF5 library as a table of functions. It needs forty shared libraries, so it is loaded with
 * the first HDF5 file. libcrema-hdf5.so, which is linked against it, holds the table. The static
 * library holds the table itself.
 *
 * Files outside hdf5/ use only the types, enumerations and plain constants of hdf5.h; its functions
 * and variables come from the table. */
#ifndef CR_CORE_HDF5_API_H
#define CR_CORE_HDF5_API_H

#include <hdf5.h>
#include <stdbool.h>

#include "crema/status.h"

/* clang-format off */
/* Names without their "H5". */
#define CR_HDF5_FUNCTIONS(X)                                                                \
  X(Dclose) X(Dcreate2) X(Dget_create_plist) X(Dget_space) X(Dget_storage_size)             \
  X(Dget_type) X(Dopen2) X(Dread) X(Dset_extent) X(Dwrite) X(Eget_auto2) X(Eset_auto2)      \
  X(Fclose) X(Fcreate) X(Fflush) X(Fget_file_image) X(Fget_filesize) X(Fget_vfd_handle)     \
  X(Fopen) X(Gclose) X(Gcreate2) X(Gget_info) X(Gopen2) X(Iget_file_id) X(Lexists)          \
  X(Literate_by_name) X(Pclose) X(Pcreate) X(Pget_chunk) X(Pget_layout) X(Piterate)         \
  X(Pset_chunk) X(Pset_create_intermediate_group) X(Pset_fapl_core) X(Pset_fapl_stdio)      \
  X(Pset_obj_track_times) X(Sclose) X(Screate) X(Screate_simple)                            \
  X(Sget_simple_extent_dims) X(Sget_simple_extent_ndims) X(Sget_simple_extent_npoints)      \
  X(Sselect_hyperslab) X(Tclose) X(Tcopy) X(Tget_class) X(Tget_size) X(Tis_variable_str)    \
  X(Tset_size)

/* Identifiers that HDF5 gives out when it starts. */
#define CR_HDF5_IDS(X)                                                                      \
  X(T_NATIVE_FLOAT) X(T_NATIVE_DOUBLE) X(T_NATIVE_INT) X(T_NATIVE_UINT8) X(T_IEEE_F32LE)    \
  X(T_IEEE_F64LE) X(T_STD_I32LE) X(T_STD_U8LE) X(T_C_S1) X(P_FILE_ACCESS)                   \
  X(P_DATASET_CREATE) X(P_LINK_CREATE)

/* Constants that hdf5.h wraps in calls. */
#define CR_HDF5_FLAGS(X) X(F_ACC_RDONLY) X(F_ACC_TRUNC) X(F_ACC_EXCL)
/* clang-format on */

typedef struct cr_hdf5_api {
#define CR_HDF5_FIELD(name) __typeof__(H5##name) *name;
  CR_HDF5_FUNCTIONS(CR_HDF5_FIELD)
#undef CR_HDF5_FIELD
#define CR_HDF5_FIELD(name) hid_t name;
  CR_HDF5_IDS(CR_HDF5_FIELD)
#undef CR_HDF5_FIELD
#define CR_HDF5_FIELD(name) unsigned name;
  CR_HDF5_FLAGS(CR_HDF5_FIELD)
#undef CR_HDF5_FIELD
} cr_hdf5_api;

/* A module and the library that opens it must agree on this: the names above in their order, and
 * the release of the HDF5 headers. */
#define CR_HDF5_NAME(name) #name " "
#define CR_HDF5_ABI                                                           \
  H5_VERS_INFO ": " CR_HDF5_FUNCTIONS(CR_HDF5_NAME) CR_HDF5_IDS(CR_HDF5_NAME) \
      CR_HDF5_FLAGS(CR_HDF5_NAME)

/* The module's one function, called "crema_hdf5_api": starts HDF5 and fills *api. False when `abi`
 * is not the module's own CR_HDF5_ABI or HDF5 does not start. */
typedef bool cr_hdf5_entry(const char *abi, cr_hdf5_api *api);

/* Loads HDF5, once per process; later calls return the same status. Called before each file: HDF5
 * does not survive an allocation that fails. Errors: CREMA_E_UNSUPPORTED, with a text that names
 * the missing part; CREMA_E_NO_MEMORY where memory is limited and short. */
crema_status cr_hdf5_load(void) CREMA_MUST_USE;

/* The table; only after cr_hdf5_load has succeeded. */
const cr_hdf5_api *cr_h5(void);

/* Fills *api: one of hdf5/open_linked.c and hdf5/open_module.c is linked in. */
crema_status cr_hdf5_open(cr_hdf5_api *api) CREMA_MUST_USE;

#endif
