/* The fields of transform_param that an Input layer honours. */
#ifndef CR_DATA_PREPROCESSING_FIELDS_H
#define CR_DATA_PREPROCESSING_FIELDS_H

#include "data/augment/preprocessing.h"

/* Checks the input's fields and fills *out. Its mean values are the message's, and mean_file is the
 * field's text. Warns about fields without effect. Errors: as crema_preprocessing_create. */
crema_status cr_preprocessing_read(const cr_preprocessed_input *input,
                                   crema_image_options *out) CREMA_MUST_USE;

#endif
