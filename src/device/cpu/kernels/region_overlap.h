/* The overlaps of REGION's boxes with the objects of an image. */
#ifndef CR_DEVICE_CPU_KERNELS_REGION_OVERLAP_H
#define CR_DEVICE_CPU_KERNELS_REGION_OVERLAP_H

#include "device/cpu/kernels/element_type.h"

#define cr_region_overlaps CR_REF_NAME(cr_region_overlaps)

enum { CR_REGION_NUMBERS = 5 /* of a box or an object */ };

/* Objects of an image: one of them is the first, one the last. */
typedef struct cr_reach {
  int64_t begin, end;
} cr_reach;

/* best[cells]: for each box, the largest overlap with an object of `image`, whose objects are in
 * `reach`: the common area over the area of either. A box has x, y, width and height, `cells`
 * apart; an object has its image before them. */
void cr_region_overlaps(int64_t cells, const cr_real *box, const cr_real *object, cr_reach reach,
                        cr_real image, cr_real *best);

#endif
