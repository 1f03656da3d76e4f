#include "crema/status.h"

const char *crema_version(void) {
  return CREMA_VERSION;
}
