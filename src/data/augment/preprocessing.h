/* The preprocessing of crema/preprocessing.h, from the fields of a deploy net. */
#ifndef CR_DATA_PREPROCESSING_H
#define CR_DATA_PREPROCESSING_H

#include "crema/preprocessing.h"
#include "proto/proto.h"

/* An input of a deploy net. Nothing of it is kept. */
typedef struct cr_preprocessed_input {
  const Caffe__TransformationParameter *param; /* NULL: none */
  const Caffe__ImageDataParameter *image;      /* NULL: none */
  const char *layer, *type;                    /* name and type of the Input layer */
  const char *net_path;                        /* the net's file; NULL: none */
  crema_shape shape;                           /* of the input */
} cr_preprocessed_input;

/* As crema_preprocessing_create. */
crema_status cr_preprocessing_make(const cr_preprocessed_input *input,
                                   crema_preprocessing **out) CREMA_MUST_USE;

#endif
