/* CTCGreedyDecoder: the labels of scores that CTCLoss trains. It has no gradient.
 *
 * Formula: BEST_PATH: the class with the highest score in each step; of repetitions one is kept
 * unless ctc_merge_repeated is false, and blanks are omitted. IN_PLACE: these classes with
 * repetitions and blanks. BEAM_SEARCH: the labels with the highest probability, the sum over their
 * paths, of those that a search with beam_width prefixes per step finds.
 * Shapes: scores (T, N, C), indicators (T, N), optionally labels (L, N) -> sequences (N, T, 1, 1),
 * filled up with -1. A further top is, with labels, the accuracy (1, 1, 1, 1) and, without labels,
 * minus the sum of the best scores or minus the logarithm of the sum over paths (N, 1, 1, 1).
 * Three tops: sequences, sums, accuracy. A sequence ends before its second indicator 0, its labels
 * before the first negative one. The accuracy is 1 - the mean of edit distance / length of the
 * longer sequence. With ctc_param: scores (N, C, T), or with the axes that nct_axis gives, or (T,
 * N, C) and indicators (T, N) -> sequences. With ctc_loss_param: scores (T, N, C) -> sequences, or
 * scores (T, N, C), labels (N, L) -> that accuracy and the share of sequences without a fault (1,
 * 2, 1, 1).
 * Fields: ctc_decoder_param, ctc_param, ctc_loss_param.
 * Caffe: ctc_decoder_param as in Wick's fork; ctc_param as in hzli-ucas/caffe, whose type
 * CTCDecoder becomes this type; ctc_loss_param as in CC4.0. CTCBeamSearchDecoder of OpenVINO's
 * training toolbox becomes this type with a beam_width of 1000: there, prefixes are never dropped.
 * A beam search needs logarithms of probabilities, or scores before a softmax. With already_softmax
 * of ctc_param, the scores are probabilities.
 * Example, scores 12 2 6, cont 12 2:
 *   layer { name: "text" type: "CTCGreedyDecoder" bottom: "scores" bottom: "cont" top: "text"
 *     ctc_decoder_param { blank_index: 0 } } */
#include <math.h>
#include <string.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "layers/common/layer_ctc.h"
#include "layers/common/layer_ctc_beam.h"
#include "layers/common/layer_noop.h"

enum {
  IN_PLACE = CAFFE__CTCPARAMETER__DECODE_OPT__IN_PLACE,
  BEST_PATH = CAFFE__CTCPARAMETER__DECODE_OPT__BEST_PATH,
  BEAM_SEARCH = CAFFE__CTCPARAMETER__DECODE_OPT__BEAM_SEARCH,
  MOST_WIDTH = 1 << 16
};

typedef struct decoder_state {
  cr_buffer memory;         /* of the threads */
  cr_buffer paths, results; /* int32_t: N x T; one `decoded` per sequence */
} decoder_state;

typedef struct decoded {
  int64_t count; /* of labels */
  double sum;    /* minus the scores */
  double lost;   /* the wrong part of the sequence */
} decoded;

static const Caffe__CTCDecoderParameter *param_of(const cr_layer *layer) {
  static const Caffe__CTCDecoderParameter defaults = CAFFE__CTCDECODER_PARAMETER__INIT;
  return layer->param->ctc_decoder_param ? layer->param->ctc_decoder_param : &defaults;
}

/* ---- form ---- */

static bool by_axes(const cr_layer *layer) {
  return layer->param->ctc_param != NULL;
}

static bool by_lines(const cr_layer *layer) {
  return !by_axes(layer) && (layer->param->ctc_loss_param != NULL || layer->bottoms == 1);
}

static int decode_of(const cr_layer *layer) {
  if (by_axes(layer)) return (int)layer->param->ctc_param->decode;
  return param_of(layer)->beam_width > 0 ? BEAM_SEARCH : BEST_PATH;
}

static int64_t width_of(const cr_layer *layer) {
  return by_axes(layer) ? layer->param->ctc_param->beam_width : param_of(layer)->beam_width;
}

static int64_t blank_given(const cr_layer *layer) {
  const Caffe__LayerParameter *param = layer->param;
  if (by_axes(layer)) return param->ctc_param->blank_index;
  return param->ctc_loss_param ? param->ctc_loss_param->blank_label : param_of(layer)->blank_index;
}

/* Which bottom has labels or indicators; 0: none. */
static int bottom_of_labels(const cr_layer *layer) {
  if (by_axes(layer)) return 0;
  return by_lines(layer) ? layer->bottoms - 1 : layer->bottoms > 2 ? 2 : 0;
}

static int bottom_of_indicators(const cr_layer *layer) {
  return layer->bottoms > 1 && !by_lines(layer) ? 1 : 0;
}

/* Which top has the sequences, the sums, and the accuracy; -1: none. */
static int top_of_sequences(const cr_layer *layer) {
  return by_lines(layer) && layer->bottoms > 1 ? -1 : 0;
}

static int top_of_sums(const cr_layer *layer) {
  return layer->tops > 2 || (layer->tops == 2 && layer->bottoms == 2) ? 1 : -1;
}

static int top_of_accuracy(const cr_layer *layer) {
  if (by_lines(layer)) return layer->bottoms > 1 ? 0 : -1;
  return layer->bottoms > 2 && layer->tops > 1 ? layer->tops - 1 : -1;
}

static crema_status check_form(const cr_layer *layer) {
  const Caffe__LayerParameter *param = layer->param;
  const int forms = (param->ctc_param != NULL) + (param->ctc_decoder_param != NULL) +
                    (param->ctc_loss_param != NULL);
  if (forms > 1) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "ctc_decoder_param (indicators and labels L x N), ctc_param (nct_axis) "
                         "and ctc_loss_param (labels N x L) exclude each other");
  }
  if (by_axes(layer) && layer->bottoms > 2) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "with ctc_param, the bottoms are scores and optionally indicators, found "
                         "%d bottoms",
                         layer->bottoms);
  }
  if ((by_axes(layer) || by_lines(layer)) && layer->tops > 1) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%d tops need ctc_decoder_param and indicators",
                         layer->tops);
  }
  if (layer->tops > layer->bottoms) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "the accuracy needs labels as bottom 2");
  }
  if (decode_of(layer) == BEAM_SEARCH && !(width_of(layer) > 0 && width_of(layer) <= MOST_WIDTH)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "beam_width is %lld, must be 1 to %d",
                         (long long)width_of(layer), MOST_WIDTH);
  }
  return CREMA_OK;
}

/* ---- shapes ---- */

/* Bottom `i` has a column, or with `by_sequence` a row, for each sequence. */
static crema_status check_rows(const cr_layer *layer, crema_blob *const *bottom, int i,
                               int64_t sequences, int64_t steps, bool by_sequence) {
  const crema_shape *shape = &bottom[i]->shape;
  char text[128];
  if (shape->axes >= 2 && shape->dim[by_sequence ? 0 : 1] == sequences &&
      (steps < 0 || shape->dim[0] == steps) && crema_shape_count(shape, 2, shape->axes) == 1) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "bottom %d must have a %s for each of %lld sequences, found shape %s", i,
                       by_sequence ? "row" : "column", (long long)sequences,
                       crema_shape_text(shape, text, sizeof text));
}

static crema_status axes_of(const cr_layer *layer, const crema_shape *scores, cr_ctc_axes *out) {
  char text[128];
  *out = (cr_ctc_axes){.sequences = 1, .classes = 2, .steps = 0};
  if (by_axes(layer) && layer->bottoms == 1) return cr_ctc_find_axes(layer, scores, out);
  if (by_axes(layer) && layer->param->ctc_param->n_nct_axis > 0) {
    return cr_layer_fail(
        layer, CREMA_E_ARGUMENT,
        "nct_axis is for scores without indicators; with them, the shape is T N C");
  }
  if (scores->axes >= 3 && crema_shape_count(scores, 3, scores->axes) == 1) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have shape T N C, found %s",
                       crema_shape_text(scores, text, sizeof text));
}

static crema_status check_bottoms(const cr_layer *layer, crema_blob *const *bottom,
                                  const cr_ctc_axes *axes) {
  const crema_shape *scores = &bottom[0]->shape;
  const int64_t sequences = scores->dim[axes->sequences], steps = scores->dim[axes->steps];
  int64_t blank = 0;
  if (bottom_of_indicators(layer) > 0) {
    CR_TRY(check_rows(layer, bottom, 1, sequences, steps, false));
  }
  const int labels = bottom_of_labels(layer);
  if (labels > 0) CR_TRY(check_rows(layer, bottom, labels, sequences, -1, by_lines(layer)));
  return cr_ctc_blank(layer, blank_given(layer), scores->dim[axes->classes], &blank);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape *scores = &bottom[0]->shape;
  cr_ctc_axes axes;
  CR_TRY(check_form(layer));
  CR_TRY(axes_of(layer, scores, &axes));
  CR_TRY(check_bottoms(layer, bottom, &axes));
  const int64_t sequences = scores->dim[axes.sequences];
  const crema_shape all = cr_shape_4(sequences, scores->dim[axes.steps], 1, 1);
  const crema_shape sums = cr_shape_4(sequences, 1, 1, 1);
  const crema_shape accuracy = cr_shape_4(1, by_lines(layer) ? 2 : 1, 1, 1);
  const int at = top_of_accuracy(layer);
  if (top_of_sequences(layer) >= 0) CR_TRY(crema_blob_reshape(top[0], &all));
  if (top_of_sums(layer) >= 0) CR_TRY(crema_blob_reshape(top[1], &sums));
  return at >= 0 ? crema_blob_reshape(top[at], &accuracy) : CREMA_OK;
}

/* ---- a pass, which threads make a sequence at a time ---- */

typedef struct pass {
  const cr_layer *layer;
  cr_ctc_scores scores;
  cr_ctc_rows indicators, labels;
  cr_ctc_beam beam;
  int decode;
  int32_t *paths;
  decoded *results;
  char *memory;
  size_t per_worker, beam_bytes;
} pass;

static double log_of(const pass *p, int64_t n, int64_t t, int64_t c) {
  const double score = cr_ctc_score(&p->scores, n, t, c);
  const bool chances = by_axes(p->layer) && p->layer->param->ctc_param->already_softmax;
  return chances ? log(score > 0 ? score : 0) : score;
}

static void search(const pass *p, int64_t n, int64_t steps, char *memory, int32_t *to, decoded *r) {
  double *log_p = (double *)(void *)(memory + p->beam_bytes);
  const int64_t classes = p->scores.classes;
  double log_sum = 0;
  for (int64_t t = 0; t < steps; ++t) {
    for (int64_t c = 0; c < classes; ++c) log_p[t * classes + c] = log_of(p, n, t, c);
  }
  r->count = cr_ctc_beam_search(&p->beam, log_p, steps, memory, to, &log_sum);
  r->sum = -log_sum;
}

static void take_classes(const pass *p, int64_t n, int64_t steps, int32_t *to, decoded *r) {
  r->count = steps;
  for (int64_t t = 0; t < steps; ++t) {
    int32_t best = 0;
    for (int32_t c = 1; c < p->scores.classes; ++c) {
      if (cr_ctc_score(&p->scores, n, t, c) > cr_ctc_score(&p->scores, n, t, best)) best = c;
    }
    to[t] = best;
  }
}

static crema_status work_on(void *state, int worker, int64_t n) {
  const pass *p = state;
  char *memory = p->memory + (size_t)worker * p->per_worker;
  const int64_t length = p->scores.rows.length;
  const bool ends = bottom_of_indicators(p->layer) > 0;
  const int64_t steps = ends ? cr_ctc_steps(&p->indicators, n, length) : length;
  int32_t *path = p->paths + n * length, *label = (int32_t *)(void *)memory;
  decoded *r = &p->results[n];
  int64_t wanted = 0;
  *r = (decoded){0};
  if (p->decode == BEAM_SEARCH) search(p, n, steps, memory, path, r);
  else if (p->decode == IN_PLACE) take_classes(p, n, steps, path, r);
  else r->count = cr_ctc_decode(&p->scores, n, steps, p->beam.blank, p->beam.merge, path, &r->sum);
  if (top_of_accuracy(p->layer) < 0) return CREMA_OK;
  CR_TRY(cr_ctc_labels(p->layer, &p->labels, n, p->scores.classes,
                       by_lines(p->layer) ? p->beam.blank : -1, label, &wanted));
  const int64_t longer = wanted > r->count ? wanted : r->count;
  const int32_t edits =
      cr_ctc_edit_distance(path, r->count, label, wanted, label + p->labels.length);
  r->lost = longer > 0 ? (double)edits / (double)longer : 0;
  return CREMA_OK;
}

static crema_status begin(cr_layer *layer, crema_blob *const *bottom, pass *p) {
  cr_ctc_axes axes;
  *p = (pass){.layer = layer, .decode = decode_of(layer)};
  CR_TRY(axes_of(layer, &bottom[0]->shape, &axes));
  CR_TRY(cr_ctc_read_axes(bottom[0], &axes, &p->scores));
  if (bottom_of_indicators(layer) > 0) {
    CR_TRY(cr_ctc_read_rows(layer, "bottom 1", bottom[1], false, &p->indicators));
  }
  const int labels = bottom_of_labels(layer);
  if (labels > 0) {
    CR_TRY(cr_ctc_read_rows(layer, "the labels", bottom[labels], by_lines(layer), &p->labels));
  }
  p->beam = (cr_ctc_beam){.width = width_of(layer),
                          .classes = p->scores.classes,
                          .merge = param_of(layer)->ctc_merge_repeated};
  return cr_ctc_blank(layer, blank_given(layer), p->scores.classes, &p->beam.blank);
}

static crema_status reserve(cr_layer *layer, pass *p, int workers) {
  decoder_state *s = layer->state;
  const int64_t steps = p->scores.rows.length, sequences = p->scores.rows.sequences;
  size_t bytes = (size_t)(2 * p->labels.length + 2) * sizeof(int32_t);
  if (p->decode == BEAM_SEARCH) {
    p->beam_bytes = (cr_ctc_beam_bytes(&p->beam, steps) + 7) / 8 * 8;
    const size_t search_bytes =
        p->beam_bytes + (size_t)(steps * p->scores.classes) * sizeof(double);
    if (search_bytes > bytes) bytes = search_bytes;
  }
  p->per_worker = (bytes + 63) / 64 * 64;
  CR_TRY(cr_buffer_reserve(&s->memory, p->per_worker * (size_t)workers));
  CR_TRY(cr_buffer_reserve(&s->paths, (size_t)(sequences * steps + 1) * sizeof(int32_t)));
  CR_TRY(cr_buffer_reserve(&s->results, (size_t)(sequences + 1) * sizeof(decoded)));
  p->memory = s->memory.data;
  p->paths = (int32_t *)(void *)s->paths.data;
  p->results = (decoded *)(void *)s->results.data;
  return CREMA_OK;
}

static void put_sequences(const pass *p, const cr_host_results *to) {
  const int64_t steps = p->scores.rows.length;
  for (int64_t n = 0; n < p->scores.rows.sequences; ++n) {
    for (int64_t t = 0; t < steps; ++t) {
      cr_host_put(to, n * steps + t, t < p->results[n].count ? p->paths[n * steps + t] : -1);
    }
  }
}

static void put_accuracy(const pass *p, const cr_host_results *to) {
  const int64_t sequences = p->scores.rows.sequences;
  double lost = 0, right = 0;
  for (int64_t n = 0; n < sequences; ++n) {
    lost += p->results[n].lost;
    right += p->results[n].lost == 0;
  }
  cr_host_put(to, 0, 1 - (sequences > 0 ? lost / (double)sequences : 0));
  if (by_lines(p->layer)) cr_host_put(to, 1, sequences > 0 ? right / (double)sequences : 0);
}

static crema_status put_tops(const pass *p, crema_blob *const *top) {
  const int sums = top_of_sums(p->layer), accuracy = top_of_accuracy(p->layer);
  cr_host_results to;
  if (top_of_sequences(p->layer) >= 0) {
    CR_TRY(cr_host_write(top[0]->data, &to));
    put_sequences(p, &to);
  }
  if (sums >= 0) {
    CR_TRY(cr_host_write(top[sums]->data, &to));
    for (int64_t n = 0; n < p->scores.rows.sequences; ++n) cr_host_put(&to, n, p->results[n].sum);
  }
  if (accuracy >= 0) {
    CR_TRY(cr_host_write(top[accuracy]->data, &to));
    put_accuracy(p, &to);
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  pass p;
  CR_TRY(begin(layer, bottom, &p));
  const double scores = (double)crema_blob_count(bottom[0]);
  const double each = p.decode == BEAM_SEARCH ? 4.0 * (double)p.beam.width : 1;
  const int workers = cr_host_workers(context, scores * each);
  CR_TRY(reserve(layer, &p, workers));
  CR_TRY(cr_host_spread(workers, p.scores.rows.sequences, work_on, &p));
  return put_tops(&p, top);
}

static void destroy(cr_layer *layer) {
  decoder_state *s = layer->state;
  cr_buffer_free(&s->memory);
  cr_buffer_free(&s->paths);
  cr_buffer_free(&s->results);
}

const cr_layer_class cr_layer_ctc_decoder = {
    CR_LAYER_HOST("CTCGreedyDecoder", sizeof(decoder_state), cr_layer_noop, reshape, forward,
                  destroy),
    .bottoms = {1, 3},
    .tops = {1, 3},
    .graph.integer_bottoms = 1u << 2,
};
