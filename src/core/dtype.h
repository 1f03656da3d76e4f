/* Kinds of element types. */
#ifndef CR_CORE_DTYPE_H
#define CR_CORE_DTYPE_H

#include "crema/types.h"

/* False for integers and bool. */
static inline bool cr_dtype_is_floating(crema_dtype type) {
  return type == CREMA_F32 || type == CREMA_F64 || type == CREMA_F16 || type == CREMA_BF16;
}

#endif
