/* Measures the scales of a table (infer/scales.h): the range of the bottoms of convolutions, inner
 * products, sums, averages of whole planes, and Scale or BatchNorm after other layers. */
#ifndef CR_INFER_CALIBRATE_H
#define CR_INFER_CALIBRATE_H

#include "net/net.h"

/* Computes from the values of a blob the clipping threshold for int8. */
typedef enum cr_calibrate_method {
  CR_CALIBRATE_MINMAX,     /* the largest of all */
  CR_CALIBRATE_PERCENTILE, /* 99.99 % of those that are not 0 are below it */
  /* The threshold for which 128 steps have the least divergence (Kullback and Leibler) from the
     values: Migacz, "8-bit inference with TensorRT", 2017. */
  CR_CALIBRATE_KL
} cr_calibrate_method;

typedef struct cr_calibration cr_calibration;

/* For `net`, of phase TEST with its weights, which must outlive it. Destroying accepts NULL. */
crema_status cr_calibration_create(crema_net *net, cr_calibration **out) CREMA_MUST_USE;
void cr_calibration_destroy(cr_calibration *calibration);

/* Runs the net once and counts the values. */
crema_status cr_calibration_run(cr_calibration *calibration) CREMA_MUST_USE;

/* How many layers are watched. */
int cr_calibration_layers(const cr_calibration *calibration);

/* Writes the table. */
crema_status cr_calibration_write(const cr_calibration *calibration, cr_calibrate_method method,
                                  const char *path) CREMA_MUST_USE;

#endif
