/* The common part of Data, AnnotatedData, BoxData, RoIData and CPMData: batches of records of a
 * database. One thread reads for all solvers that train the net. */
#ifndef CR_LAYERS_RECORD_INPUT_H
#define CR_LAYERS_RECORD_INPUT_H

#include "data/augment/transformer.h"
#include "data/pipeline/record_source.h"
#include "layers/data/adapters/batch_loader.h"

/* The state of such a layer, or its first member. */
typedef struct cr_record_input {
  cr_record_source from; /* the records; must be the first member */
  char *source;          /* resolved path */
  uint64_t skip;         /* records to skip at the start */
  uint64_t count;        /* records, once counted by cr_record_input_count */
  cr_reader *reader;
  cr_batch_loader loader;
  /* As of the end of the batch whose memory the tops share: */
  uint64_t index;  /* records that were consumed, by all solvers */
  cr_buffer key;   /* of the last one */
  uint64_t stream; /* the key of the random stream */
  cr_transformer *transformer;
} cr_record_input;

/* Checks data_param. Errors: CREMA_E_ARGUMENT, CREMA_E_RANGE. */
crema_status cr_record_input_check(const cr_layer *layer) CREMA_MUST_USE;

/* Sets `stream`, makes the transformer and opens the reader, or joins the reader of other solvers.
 * `skip_key`: the key of the random stream for rand_skip; 0: `stream`. */
crema_status cr_record_input_open(cr_record_input *records, const cr_layer *layer,
                                  uint64_t skip_key) CREMA_MUST_USE;
/* Accepts a zeroed one. Afterwards only the caller uses the source's data. */
void cr_record_input_close(cr_record_input *records, const cr_layer *layer);

/* The number of threads in data_param (0: automatic). */
int cr_record_input_threads(const cr_layer *layer);

/* Shapes the tops and starts, as cr_batch_loader_open; the depth is set here. */
crema_status cr_record_input_start(cr_record_input *records, const cr_layer *layer,
                                   const cr_pipeline_options *options,
                                   crema_blob *const *top) CREMA_MUST_USE;

/* The next batch, as cr_batch_loader_next. */
crema_status cr_record_input_next(cr_record_input *records, const cr_layer *layer,
                                  crema_context *context, crema_blob *const *top) CREMA_MUST_USE;

/* The reader's cursor as text: "index <records consumed> solvers <number> skip <records at the
 * start> sorted <1: caching was given up> key <bytes>:<key of the last record>". Each solver has
 * its own cursor. */
crema_status cr_record_input_print(const cr_record_input *records, cr_buffer *out) CREMA_MUST_USE;
/* Parses such a text, which has a NUL after its `size` bytes and which the key points into. A text
 * without solvers, skip and sorted was saved by a single solver with this layer's skip. Errors:
 * CREMA_E_CORRUPT. */
crema_status cr_record_input_parse(const cr_record_input *records, const char *text, size_t size,
                                   cr_reader_cursor *out) CREMA_MUST_USE;

/* For the input class's progress: the number of records in a text that holds a reader's cursor. */
uint64_t cr_record_input_progress(const char *bytes, size_t size);

/* For the input class's restore: hands `from` a copy of the text with a NUL behind it. */
crema_status cr_record_input_restore(const cr_layer *layer, const char *bytes, size_t size,
                                     crema_status (*from)(const cr_layer *layer,
                                                          const cr_buffer *text)) CREMA_MUST_USE;

/* Resumes at a cursor, with the random stream `stream`; the loader must be stopped. */
crema_status cr_record_input_resume(cr_record_input *records, const cr_layer *layer,
                                    uint64_t stream, cr_reader_cursor *cursor) CREMA_MUST_USE;

/* For layers that do nothing in a pass but take the next batch, and whose state begins with a
 * cr_record_input with a stream: forward, and the input class. A saved position is the loader's
 * text, which ends in a full stop, and the reader's cursor. */
cr_layer_forward_fn cr_record_input_forward;
extern const cr_input_class cr_record_input_class;

/* Functions of the input class. */
uint64_t cr_record_input_epoch(const cr_layer *layer);
crema_status cr_record_input_count(const cr_layer *layer, uint64_t *out) CREMA_MUST_USE;
void cr_record_input_stats(const cr_layer *layer, struct cr_input_stats *out);

#endif
