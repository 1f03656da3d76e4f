/* The shape of a set of samples in an HDF5 file. */
#ifndef CR_TESTS_DATA_HDF5_PROBE_H
#define CR_TESTS_DATA_HDF5_PROBE_H

#include "data/pipeline/hdf5_set.h"

static inline crema_status probe(const char *path, const char *name, crema_shape *out) {
  cr_hdf5_reader *reader = NULL;
  crema_status status = cr_hdf5_reader_open(path, &reader);
  if (status == CREMA_OK) status = cr_hdf5_set_probe(reader, name, out);
  cr_hdf5_reader_close(reader);
  return status;
}

#endif
