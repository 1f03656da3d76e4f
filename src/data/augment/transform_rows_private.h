/* Rows of bytes for any processor, and for the instructions of some. */
#ifndef CR_DATA_TRANSFORM_ROWS_PRIVATE_H
#define CR_DATA_TRANSFORM_ROWS_PRIVATE_H

#include "data/augment/transform_rows.h"

/* As cr_rows_u8. */
void cr_rows_u8_ref(const cr_rows *rows, cr_row_target *target);

/* As cr_rows_u8; false: the processor or the rows are not fit for it, nothing was done. */
bool cr_rows_u8_vector(const cr_rows *rows, cr_row_target *target);

/* Whether targets may be written past the caches by the function above. */
bool cr_row_can_stream(void);

/* Makes what was sent past the caches visible before all that is written later. */
void cr_row_drain(void);

#endif
