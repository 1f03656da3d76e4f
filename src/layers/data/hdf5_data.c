/* HDF5Data: samples from HDF5 files.
 *
 * Formula: none: samples come in the order of the list and of each file or, with shuffle, in a
 * different order in each epoch. Batches cross the ends of files. Nothing is transformed.
 * Shapes: no bottom -> each top is the data set of its name: (batch, ...).
 * Fields: hdf5_data_param.
 * Caffe: files are also searched for in the folder of their list. transform_param is refused. The
 * order of shuffle depends only on the seed, so a resumed run continues with the same samples.
 * Example:
 *   layer { name: "data" type: "HDF5Data" top: "data" top: "label"
 *     hdf5_data_param { source: "h5_files.txt" batch_size: 2 } }
 *
 * `source` names a text file with one HDF5 file per line. One file at a time is held in memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/pipeline/hdf5_set.h"
#include "data/pipeline/order.h"
#include "data/pipeline/pipeline.h"
#include "layers/data/adapters/input_base.h"

typedef struct hdf5_file {
  char *path;
  int64_t samples;
} hdf5_file;

typedef struct hdf5_data_state {
  uint64_t key; /* of the random stream */
  hdf5_file *file;
  size_t files;
  uint64_t total;         /* samples in all files */
  cr_layer_cursor cursor; /* counts samples */
  crema_shape *shape;     /* one per top; axis 0 is the batch */
  cr_order file_order, sample_order;
  uint64_t epoch, slot, slot_start; /* which file of the epoch, and the samples before it */
  size_t loaded;                    /* file in memory; `files` for none */
  void **values;                    /* its data sets, one per top */
  crema_dtype *type;                /* of these: doubles for tops that hold more than floats do */
  /* For the statistics; of all solvers together. */
  uint64_t batches;
  double read_seconds, wait_seconds;
} hdf5_data_state;

static crema_status check_param(const cr_layer *layer) {
  const Caffe__HDF5DataParameter *param = layer->param->hdf5_data_param;
  if (layer->param->transform_param != NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "samples of HDF5 files are not transformed; remove transform_param");
  }
  if (param == NULL || param->source == NULL || param->source[0] == '\0') {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "hdf5_data_param with a source is required");
  }
  CR_TRY(cr_layer_check_batch(layer, "hdf5_data_param", param->batch_size));
  return CREMA_OK;
}

/* One file name per line; relative names are also looked for in the folder of the list. */
static crema_status read_names(hdf5_data_state *s, const char *list, char *text) {
  for (char *line = text; line != NULL;) {
    char *next = strchr(line, '\n');
    if (next != NULL) *next++ = '\0';
    size_t length = strlen(line);
    while (length > 0 && strchr(" \t\r", line[length - 1]) != NULL) line[--length] = '\0';
    if (length > 0) CR_TRY(cr_file_resolve(list, line, &s->file[s->files++].path));
    line = next;
  }
  return s->files > 0 ? CREMA_OK : cr_fail(CREMA_E_PARSE, "%s: the list is empty", list);
}

/* A common mistake: the file itself is named, not the list. */
static crema_status check_list(const char *path, const cr_buffer *text) {
  static const char signature[] = "\x89HDF\r\n\x1a\n";
  size_t size = sizeof signature - 1;
  if (text->size < size || memcmp(text->data, signature, size) != 0) return CREMA_OK;
  return cr_fail(CREMA_E_PARSE,
                 "%s: an HDF5 file; source must be a text file that names HDF5 files, one per line",
                 path);
}

static crema_status read_list(const cr_layer *layer, hdf5_data_state *s) {
  char *path = NULL;
  cr_buffer text = {0};
  size_t lines = 1;
  CR_TRY(
      cr_file_resolve_input(layer->source_dir_file, layer->param->hdf5_data_param->source, &path));
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cr_file_read(path, &text), out);
  CR_TRY_GOTO(check_list(path, &text), out);
  CR_TRY_GOTO(cr_buffer_make_text(&text, path), out);
  for (size_t i = 0; i < text.size; ++i) lines += text.data[i] == '\n';
  s->file = calloc(lines, sizeof *s->file);
  if (s->file == NULL) {
    status = cr_fail_memory(lines * sizeof *s->file, "a list of files");
    goto out;
  }
  CR_TRY_GOTO(read_names(s, path, text.data), out);
out:
  cr_buffer_free(&text);
  free(path);
  return status;
}

/* The shape of top t's data set in a file; the first file decides for all. */
static crema_status look_at(const cr_layer *layer, hdf5_data_state *s, size_t f, int t,
                            cr_hdf5_reader *reader) {
  hdf5_file *file = &s->file[f];
  const char *name = layer->param->top[t];
  crema_shape found, *shape = &s->shape[t];
  char text[2][256];
  CR_TRY(cr_fail_in(cr_hdf5_set_probe(reader, name, &found), "%s", file->path));
  if (t == 0) file->samples = found.dim[0];
  if (found.dim[0] != file->samples) {
    return cr_fail(CREMA_E_SHAPE, "%s: data set '%s' has %" PRId64 " samples, '%s' has %" PRId64,
                   file->path, name, found.dim[0], layer->param->top[0], file->samples);
  }
  int64_t samples = found.dim[0];
  found.dim[0] = layer->param->hdf5_data_param->batch_size;
  if (f == 0) *shape = found;
  if (crema_shape_equal(shape, &found)) return crema_shape_check(shape);
  found.dim[0] = samples;
  return cr_fail(CREMA_E_SHAPE, "%s: data set '%s' has shape %s; batches of the first file are %s",
                 file->path, name, crema_shape_text(&found, text[0], sizeof text[0]),
                 crema_shape_text(shape, text[1], sizeof text[1]));
}

static crema_status look_at_file(const cr_layer *layer, hdf5_data_state *s, size_t f) {
  cr_hdf5_reader *reader = NULL;
  CR_TRY(cr_hdf5_reader_open(s->file[f].path, &reader));
  crema_status status = CREMA_OK;
  for (int t = 0; status == CREMA_OK && t < layer->tops; ++t) {
    status = look_at(layer, s, f, t, reader);
  }
  cr_hdf5_reader_close(reader);
  return status;
}

static crema_status look_at_files(const cr_layer *layer, hdf5_data_state *s) {
  for (size_t f = 0; f < s->files; ++f) {
    CR_TRY(cr_fail_in(look_at_file(layer, s, f), "%s", layer->param->hdf5_data_param->source));
    s->total += (uint64_t)s->file[f].samples;
  }
  if (s->total > 0) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "%s: the files have no samples",
                 layer->param->hdf5_data_param->source);
}

/* Memory for the largest file. */
static crema_status make_memory(const cr_layer *layer, hdf5_data_state *s) {
  int64_t most = 0;
  for (size_t f = 0; f < s->files; ++f)
    most = most > s->file[f].samples ? most : s->file[f].samples;
  for (int t = 0; t < layer->tops; ++t) {
    crema_shape whole = s->shape[t];
    whole.dim[0] = most;
    CR_TRY(crema_shape_check(&whole));
    size_t bytes =
        ((size_t)crema_shape_count(&whole, 0, whole.axes) + 1) * crema_dtype_size(s->type[t]);
    s->values[t] = malloc(bytes);
    if (s->values[t] == NULL) return cr_fail_memory(bytes, "samples");
  }
  return CREMA_OK;
}

static void set_key(hdf5_data_state *s, uint64_t key) {
  s->key = key;
  s->file_order.key = cr_mix_key(key, cr_hash_text("files"));
  s->file_order.drawn = false;
  s->slot = s->slot_start = 0;
  s->loaded = s->files;
}

static crema_status open_files(const cr_layer *layer, hdf5_data_state *s, crema_blob *const *top) {
  size_t tops = (size_t)layer->tops;
  CR_TRY(read_list(layer, s));
  s->shape = calloc(tops, sizeof *s->shape);
  s->values = calloc(tops, sizeof *s->values);
  s->type = calloc(tops, sizeof *s->type);
  if (s->shape == NULL || s->values == NULL || s->type == NULL) return cr_fail_memory(tops, "tops");
  for (size_t t = 0; t < tops; ++t) {
    const crema_dtype type = crema_blob_data_type(top[t]);
    const bool wide = type == CREMA_F64 || type == CREMA_I32 || type == CREMA_U32;
    s->type[t] = wide ? CREMA_F64 : CREMA_F32;
  }
  CR_TRY(look_at_files(layer, s));
  s->file_order.count = s->files;
  s->file_order.shuffle = s->sample_order.shuffle = layer->param->hdf5_data_param->shuffle;
  set_key(s, layer->key);
  return make_memory(layer, s);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  hdf5_data_state *s = layer->state;
  (void)bottom;
  CR_TRY(check_param(layer));
  CR_TRY(cr_layer_in(layer, cr_layer_cursor_open(&s->cursor, layer)));
  CR_TRY(cr_layer_in(layer, open_files(layer, s, top)));
  for (int t = 0; t < layer->tops; ++t) CR_TRY(crema_blob_reshape(top[t], &s->shape[t]));
  return CREMA_OK;
}

static crema_status load_file(const cr_layer *layer, hdf5_data_state *s, size_t f) {
  const hdf5_file *file = &s->file[f];
  cr_hdf5_reader *reader = NULL;
  crema_status status = CREMA_OK;
  if (s->loaded == f) return CREMA_OK;
  double start = cr_clock_seconds();
  s->loaded = s->files;
  CR_TRY(cr_hdf5_reader_open(file->path, &reader));
  for (int t = 0; status == CREMA_OK && t < layer->tops; ++t) {
    crema_shape whole = s->shape[t];
    whole.dim[0] = file->samples;
    status = cr_hdf5_set_read(reader, layer->param->top[t], &whole, s->type[t], s->values[t]);
  }
  cr_hdf5_reader_close(reader);
  CR_TRY(cr_fail_in(status, "%s", file->path));
  s->read_seconds += cr_clock_seconds() - start;
  s->loaded = f;
  cr_order_free(&s->sample_order);
  s->sample_order.count = (size_t)file->samples;
  s->sample_order.key = cr_mix_key(cr_mix_key(s->key, cr_hash_text("samples")), f);
  return CREMA_OK;
}

/* Loads the file of sample number `index` of the stream into memory and finds the sample in it. */
static crema_status find_sample(const cr_layer *layer, hdf5_data_state *s, uint64_t index,
                                size_t *out) {
  uint64_t epoch = index / s->total, at = index % s->total;
  if (epoch != s->epoch || at < s->slot_start) s->slot = s->slot_start = 0;
  s->epoch = epoch;
  for (;; ++s->slot) {
    size_t f = 0;
    CR_TRY(cr_order_at(&s->file_order, epoch * s->files + s->slot, &f));
    uint64_t samples = (uint64_t)s->file[f].samples;
    if (at - s->slot_start < samples) {
      CR_TRY(load_file(layer, s, f));
      return cr_order_at(&s->sample_order, epoch * samples + at - s->slot_start, out);
    }
    s->slot_start += samples;
  }
}

static crema_status fill(const cr_layer *layer, hdf5_data_state *s, crema_blob *const *top) {
  const int64_t items = layer->param->hdf5_data_param->batch_size;
  const int64_t taken = layer->take > 0 ? layer->take : items;
  uint64_t solvers = (uint64_t)layer->solver.solvers;
  uint64_t first =
      cr_layer_cursor_end(&s->cursor, layer, (uint64_t)items) + (uint64_t)layer->solver.rank;
  double start = cr_clock_seconds();
  for (int t = 0; t < layer->tops; ++t) {
    crema_shape shape = s->shape[t];
    shape.dim[0] = taken;
    CR_TRY(crema_blob_reshape(top[t], &shape));
  }
  for (int64_t i = 0; i < taken; ++i) {
    size_t row = 0;
    CR_TRY(find_sample(layer, s, first + (uint64_t)i * solvers, &row));
    for (int t = 0; t < layer->tops; ++t) {
      size_t size = (size_t)crema_shape_count(&s->shape[t], 1, s->shape[t].axes);
      size *= crema_dtype_size(s->type[t]);
      void *to = NULL;
      CR_TRY(crema_blob_mutable_data_as(top[t], s->type[t], &to));
      memcpy((char *)to + (size_t)i * size, (const char *)s->values[t] + row * size, size);
    }
  }
  cr_layer_cursor_advance(&s->cursor, layer);
  if (s->batches++ > 0) s->wait_seconds += cr_clock_seconds() - start;
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  (void)context, (void)bottom;
  return cr_layer_in(layer, fill(layer, layer->state, top));
}

static void destroy(cr_layer *layer) {
  hdf5_data_state *s = layer->state;
  for (int t = 0; s->values != NULL && t < layer->tops; ++t) free(s->values[t]);
  for (size_t f = 0; f < s->files; ++f) free(s->file[f].path);
  free(s->values);
  free(s->type);
  free(s->shape);
  free(s->file);
  cr_order_free(&s->sample_order);
  cr_order_free(&s->file_order);
  cr_layer_cursor_close(&s->cursor);
}

static crema_status save(cr_layer *layer, cr_buffer *out) {
  const hdf5_data_state *s = layer->state;
  uint64_t items = layer->param->hdf5_data_param->batch_size;
  return cr_layer_cursor_print(s->key, "sample", cr_layer_cursor_end(&s->cursor, layer, items),
                               out);
}

static crema_status restore(cr_layer *layer, const char *bytes, size_t size) {
  hdf5_data_state *s = layer->state;
  uint64_t key = 0, next = 0;
  bool done = false;
  CR_TRY(cr_layer_share_restore(layer, bytes, size, &done));
  if (done) return CREMA_OK;
  CR_TRY(cr_layer_in(layer, cr_layer_cursor_parse(bytes, size, "sample", &key, &next)));
  set_key(s, key);
  cr_layer_cursor_set(&s->cursor, next);
  return CREMA_OK;
}

/* Nothing is read ahead: every pass waits for its data. */
static void input_stats(const cr_layer *layer, cr_input_stats *out) {
  const hdf5_data_state *s = layer->state;
  uint64_t samples = s->batches * layer->param->hdf5_data_param->batch_size;
  out->reader = (cr_reader_stats){.records = samples, .busy_seconds = s->read_seconds};
  out->pipeline = (cr_pipeline_stats){
      .samples = samples, .batches = s->batches, .wait_seconds = s->wait_seconds};
}

static uint64_t epoch(const cr_layer *layer) {
  const hdf5_data_state *s = layer->state;
  return s->total;
}

static const cr_input_class input = {
    .save = save, .restore = restore, .epoch = epoch, .short_batches = true, .stats = input_stats};

const cr_layer_class cr_layer_hdf5_data = {
    CR_LAYER_INPUT("HDF5Data", sizeof(hdf5_data_state), 1, CR_ANY),
    .input = &input,
    .graph.integer_tops = true,
    .graph.shareable = true,
    .setup = setup,
    .forward = forward,
    .destroy = destroy,
};
