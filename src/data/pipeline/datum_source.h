/* Images with a label (Datum) as items of batches: decoded and transformed images in top 0, labels
 * in top 1. */
#ifndef CR_DATA_DATUM_SOURCE_H
#define CR_DATA_DATUM_SOURCE_H

#include "data/augment/sample.h"
#include "data/pipeline/record_source.h"

typedef struct cr_datum_source cr_datum_source;

typedef struct cr_datum_source_options {
  cr_record_source records;          /* its reader outlives the source */
  const cr_transformer *transformer; /* outlives the source */
  cr_image_color color;              /* for encoded records */
  /* Per batch; the reader must have at least this number of records. */
  int items;
  int tops; /* 1, or 2 with labels */
  /* Threads that decode and transform, at most CR_PIPELINE_MAX_THREADS. 0: one for small raw
   * records, else see cr_pipeline_threads. */
  int threads;
} cr_datum_source_options;

/* Makes a source for records like the reader's next. The reader must not run. Free the source with
 * cr_datum_source_destroy, after its pipelines. Errors name source and key. */
crema_status cr_datum_source_create(const cr_datum_source_options *options,
                                    cr_datum_source **out) CREMA_MUST_USE;
/* Accepts NULL. */
void cr_datum_source_destroy(cr_datum_source *source);

/* Options for a pipeline of this source; unknown options are 0. The first record gives the shapes
 * of the tops. Later batches of one item may have other shapes; with more items, a record of
 * another shape is an error. */
cr_pipeline_options cr_datum_source_pipeline(cr_datum_source *source);

#endif
