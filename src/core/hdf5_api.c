#include "core/hdf5_api.h"

#include <pthread.h>
#include <stdio.h>

#include "core/fail.h"
#include "core/mem_probe.h"

/* Loading HDF5 and the libraries that it needs takes 20 MB of address space. */
static const size_t RESERVE = (size_t)32 << 20;

typedef struct hdf5_answer {
  pthread_mutex_t lock;
  bool asked;
  crema_status status;
  char text[1024];
  cr_hdf5_api api;
} hdf5_answer;

static hdf5_answer *the_answer(void) {
  static hdf5_answer answer = {.lock = PTHREAD_MUTEX_INITIALIZER};
  return &answer;
}

crema_status cr_hdf5_load(void) {
  hdf5_answer *answer = the_answer();
  CR_TRY(cr_need_memory(RESERVE, "HDF5"));
  pthread_mutex_lock(&answer->lock);
  if (!answer->asked) {
    answer->status = cr_hdf5_open(&answer->api);
    if (answer->status != CREMA_OK) {
      snprintf(answer->text, sizeof answer->text, "%s", crema_error_text());
    }
    answer->asked = true;
  }
  crema_status status = answer->status;
  pthread_mutex_unlock(&answer->lock);
  return status == CREMA_OK ? CREMA_OK : cr_fail_text(status, answer->text);
}

const cr_hdf5_api *cr_h5(void) {
  return &the_answer()->api;
}
