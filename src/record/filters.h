/* Images of filters. */
#ifndef CR_RECORD_FILTERS_H
#define CR_RECORD_FILTERS_H

#include "data/image/image.h"
#include "layers/common/layer.h"

/* Whether a layer's first parameter can be shown: filters of 1 or 3 channels and at least 2 x 2. */
bool cr_filters_can_draw(const cr_layer *layer);

/* Draws the filters side by side, each scaled so that its values fill the range from black to
 * white. Three channels are blue, green and red. Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_filters_draw(const cr_layer *layer, cr_image *out) CREMA_MUST_USE;

#endif
