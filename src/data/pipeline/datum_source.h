/* Records of images with a label (Datum) as the items of batches: decoded, transformed, and put
 * into top 0, their labels into top 1. */
#ifndef CR_DATA_DATUM_SOURCE_H
#define CR_DATA_DATUM_SOURCE_H

#include "data/augment/sample.h"
#include "data/pipeline/record_source.h"

typedef struct cr_datum_source cr_datum_source;

typedef struct cr_datum_source_options {
  cr_record_source records;          /* its reader outlives the source */
  const cr_transformer *transformer; /* outlives it too */
  cr_image_color color;              /* what encoded records are decoded to */
  /* Per batch; the reader must have at least as many records. */
  int items;
  int tops; /* 1, or 2 with labels */
  /* That decode and transform, at most CR_PIPELINE_MAX_THREADS. 0: automatic: one for small raw
   * records, else as cr_pipeline_threads says. */
  int threads;
} cr_datum_source_options;

/* Makes a source that suits the reader's next record. The reader must not run. Free with
 * cr_datum_source_destroy, after the pipelines that use it. Errors name source and key. */
crema_status cr_datum_source_create(const cr_datum_source_options *options,
                                    cr_datum_source **out) CREMA_MUST_USE;
/* Accepts NULL. */
void cr_datum_source_destroy(cr_datum_source *source);

/* Options for a pipeline of this source; all that is not known here is 0. The shapes of the tops
 * are those that the first record gives. With one item per batch, later batches may have other
 * shapes; with more, a record that gives another shape is an error. */
cr_pipeline_options cr_datum_source_pipeline(cr_datum_source *source);

#endif
