/* Blocks of memory that know how they are released.
 *
 * A block stores its release function at allocation, so that no later change of settings makes the
 * wrong function release it. */
#ifndef CR_DEVICE_BLOCK_H
#define CR_DEVICE_BLOCK_H

#include "device/backend/backend.h"

typedef struct cr_block {
  uintptr_t address; /* host or device address; 0: no memory */
  size_t bytes;
  void (*release)(struct cr_block *block);
  crema_device *device;
  uint64_t user; /* device memory: id of the context whose queued work may still use it when it is
                    freed; 0: none */
  cr_heap *heap; /* the heap that it was cut from; NULL: none */
  bool reported; /* counted by the host memory report */
} cr_block;

typedef struct cr_block_options {
  bool keep_content; /* host memory: do not fill with zeros */
  bool pinned;       /* host memory that `device` can copy asynchronously */
} cr_block_options;

/* `bytes` bytes of the device's memory, or of host memory for the CPU and with `pinned`. `options`
 * may be NULL. 0 bytes give no memory. Free with cr_block_free. */
crema_status cr_block_new(crema_device *device, size_t bytes, const cr_block_options *options,
                          cr_block *out) CREMA_MUST_USE;

/* Releases the memory and zeroes the struct. Accepts a zeroed block. Errors: CREMA_E_ARGUMENT for a
 * counted block that is missing from the report; it is not released. */
crema_status cr_block_free(cr_block *block);

/* Page-locked host memory of `bytes` > 0 bytes together with the address by which the device
 * reaches it. */
crema_status cr_block_new_pinned(crema_device *device, size_t bytes, cr_block *out,
                                 crema_devptr *alias) CREMA_MUST_USE;

/* The report of host memory: while it is on, new blocks are listed with their bytes. Blocks made
 * while it is off are never listed. */
void cr_block_report_enable(bool on);
typedef struct cr_block_report {
  size_t blocks;
  size_t bytes;
} cr_block_report;
cr_block_report cr_block_report_read(void);

#endif
