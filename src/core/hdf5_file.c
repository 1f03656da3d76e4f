#include "core/hdf5_file.h"

#include <pthread.h>

#include "core/fail.h"

enum { GROW_BYTES = 1 << 22 };

static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;

cr_hdf5_hush cr_hdf5_hush_begin(void) {
  pthread_mutex_lock(&calls);
  cr_hdf5_hush before = {0};
  cr_h5()->Eget_auto2(H5E_DEFAULT, &before.function, &before.data);
  cr_h5()->Eset_auto2(H5E_DEFAULT, NULL, NULL);
  return before;
}

void cr_hdf5_hush_end(cr_hdf5_hush before) {
  cr_h5()->Eset_auto2(H5E_DEFAULT, before.function, before.data);
  pthread_mutex_unlock(&calls);
}

crema_status cr_hdf5_create(hid_t *out) {
  hid_t access = cr_h5()->Pcreate(cr_h5()->P_FILE_ACCESS);
  *out = -1;
  /* The name has no effect for a file that stays in memory. */
  if (access >= 0 && cr_h5()->Pset_fapl_core(access, GROW_BYTES, 0) >= 0) {
    *out = cr_h5()->Fcreate("crema", cr_h5()->F_ACC_TRUNC, H5P_DEFAULT, access);
  }
  if (access >= 0) cr_h5()->Pclose(access);
  return *out >= 0 ? CREMA_OK : cr_fail(CREMA_E_NO_MEMORY, "cannot make an HDF5 file in memory");
}

hid_t cr_hdf5_dataset(hid_t where, const char *name, hid_t type, hid_t space, hid_t links) {
  hid_t how = cr_h5()->Pcreate(cr_h5()->P_DATASET_CREATE);
  if (how < 0) return how;
  hid_t set = -1;
  if (cr_h5()->Pset_obj_track_times(how, 0) >= 0) {
    set = cr_h5()->Dcreate2(where, name, type, space, links, how, H5P_DEFAULT);
  }
  cr_h5()->Pclose(how);
  return set;
}

crema_status cr_hdf5_finish(hid_t file, cr_file_draft *draft, crema_status content) {
  crema_status status = content;
  void *bytes = NULL;
  if (status == CREMA_OK) {
    ssize_t size = -1;
    if (cr_h5()->Fflush(file, H5F_SCOPE_GLOBAL) >= 0)
      size = cr_h5()->Fget_file_image(file, NULL, 0);
    if (size < 0 || cr_h5()->Fget_vfd_handle(file, H5P_DEFAULT, &bytes) < 0) {
      status = cr_fail(CREMA_E_NO_MEMORY, "%s: cannot build the HDF5 file", draft->path);
    } else {
      /* With the core driver the handle is the address of the pointer to the image. */
      status = cr_file_draft_write(draft, *(void **)bytes, (size_t)size);
    }
  }
  cr_h5()->Fclose(file);
  return status;
}
