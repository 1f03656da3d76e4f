/* Rows of bytes for any processor, and for the instructions of some. */
#ifndef CR_DATA_TRANSFORM_ROWS_PRIVATE_H
#define CR_DATA_TRANSFORM_ROWS_PRIVATE_H

#include "data/augment/transform_rows.h"

/* As cr_rows_u8. */
void cr_rows_u8_ref(const cr_rows *rows, cr_row_target *target);

/* As cr_rows_u8; false: the processor or the rows are unsuitable, and nothing was done. */
bool cr_rows_u8_vector(const cr_rows *rows, cr_row_target *target);

/* Whether the function above can write targets past the caches. */
bool cr_row_can_stream(void);

/* Makes values that were streamed past the caches visible before all later writes. */
void cr_row_drain(void);

#endif
