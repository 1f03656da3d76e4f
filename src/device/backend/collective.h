/* Collective operations of a back end's library, for several devices of one process or of several.
 *
 * Each rank has a member of the group. Joining and calls only start an operation; `progress` says
 * when it is queued and the member may be used again. No function waits for another rank, so that
 * the caller can learn of a failure. Different threads may use different members; `abort` may be
 * called by any. */
#ifndef CR_DEVICE_BACKEND_COLLECTIVE_H
#define CR_DEVICE_BACKEND_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "crema/device.h"
#include "crema/types.h"

/* One rank's part in a group. */
typedef struct cr_member cr_member;

/* The name of a group, in all processes. */
typedef struct cr_group_id {
  char bytes[128];
} cr_group_id;

/* A sum or broadcast, in place. All ranks make the same calls in the same order. */
typedef struct cr_collective {
  bool sum;            /* else rank 0's values are copied to all */
  crema_devptr memory; /* of the member's device */
  int64_t count;
  crema_dtype type; /* F64, F32, F16 or BF16 */
} cr_collective;

typedef struct cr_collectives {
  /* Whether the library works. Errors: CREMA_E_UNSUPPORTED; the text names the missing part. */
  crema_status (*find)(void);
  /* A number that no other device of any host has. */
  crema_status (*identity)(const crema_device *device, uint64_t *out);
  crema_status (*make_id)(cr_group_id *out);
  /* Ranks `first`, `first` + 1 ... of a group of `ranks` begin to join it, one for each of `count`
   * devices. On failure out[] is all NULL. */
  crema_status (*join)(const cr_group_id *id, crema_device *const *device, int count, int first,
                       int ranks, cr_member **out);
  crema_status (*start)(cr_member *member, crema_context *context, const cr_collective *call);
  /* *busy: the operation is not queued yet. Errors: failures in the group. */
  crema_status (*progress)(cr_member *member, bool *busy);
  /* Ends work under way, also on the device: contexts that wait for other ranks continue, with
   * undefined values. Later calls fail. */
  void (*abort)(cr_member *member);
  /* Begins to end the group, which every rank does after its last call. `progress` says when all
   * ranks have done so and the library has freed the memory that they share. */
  crema_status (*finalize)(cr_member *member);
  /* Frees the member. Aborts it first unless its group has ended. Accepts NULL. */
  void (*leave)(cr_member *member);
} cr_collectives;

#endif
