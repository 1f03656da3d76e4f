/* A file of weights in wire format while it is being loaded. */
#ifndef CR_NET_STORED_H
#define CR_NET_STORED_H

#include "memory/tensor_source.h"
#include "proto/proto.h"

typedef struct cr_net_stored {
  cr_stored_net net;
  cr_tensor_source *source; /* of the values that are in the file; NULL: none are */
} cr_net_stored;

/* As cr_stored_net_open. */
crema_status cr_net_stored_open(const char *path, size_t run, cr_net_stored *out) CREMA_MUST_USE;
/* For a net that is not trained, which may run no more than once: see memory/tensor_source.h. */
crema_status cr_net_stored_use_once(cr_net_stored *stored) CREMA_MUST_USE;
/* Tensors whose values are still in the file keep it open. */
void cr_net_stored_close(cr_net_stored *stored);

#endif
