#include "layers/loss/triplet_batch.h"

#include <math.h>

#include "core/fail.h"

/* Rows i and j. Terms read |x_i - x_j|^2 or, for CR_TRIPLETS_NUMBERS, the product x_i x_j. The sum
 * of the terms has the gradients own[0] x_i + cross x_j by x_i, and own[1] x_j + cross x_i by x_j.
 */
typedef struct edge {
  int64_t i, j;
  double value, slope; /* slope: the derivative of the sum by the value */
  double own[2], cross;
} edge;

/* One pass. */
typedef struct triplet_pass {
  const cr_layer *layer;
  cr_triplet_batch *batch;
  edge *edge;
  double *square;
  cr_host_values x, label;
  cr_host_results diff;
  double weight;
  int64_t columns; /* of one part of the gradient */
} triplet_pass;

static const Caffe__TripletLossParameter *param_of(const cr_layer *layer) {
  static const Caffe__TripletLossParameter defaults = CAFFE__TRIPLET_LOSS_PARAMETER__INIT;
  return layer->param->triplet_loss_param ? layer->param->triplet_loss_param : &defaults;
}

static double eps_of(const cr_layer *layer) {
  const Caffe__TripletLossParameter *param = param_of(layer);
  return param->has_eps ? (double)param->eps : 1e-10;
}

/* ---- form ---- */

static crema_status refuse_form(const cr_layer *layer, const char *why) {
  return cr_layer_fail(
      layer, CREMA_E_ARGUMENT,
      "%s; the forms with %d bottom%s are: num_negatives (sets of a reference, a positive and "
      "negatives)%s",
      why, layer->bottoms, layer->bottoms > 1 ? "s" : "",
      layer->bottoms > 1 ? ", group_size and labels, a label per sample, or the numbers of three "
                           "samples per triplet"
                         : "; anchors, positives and negatives are three bottoms");
}

static crema_status find_form(const cr_layer *layer, crema_blob *const *bottom,
                              cr_triplet_form *out) {
  const Caffe__TripletLossParameter *param = param_of(layer);
  if (param->has_num_triplets) {
    return refuse_form(layer, "num_triplets is the size of a set or its number of negatives");
  }
  if (param->has_num_negatives && param->has_group_size) {
    return refuse_form(layer, "num_negatives and group_size exclude each other");
  }
  *out = CR_TRIPLETS_SETS;
  if (param->has_num_negatives) return CREMA_OK;
  if (layer->bottoms < 2) return refuse_form(layer, "num_negatives is missing");
  const crema_shape *shape = &bottom[1]->shape;
  const int64_t count = crema_blob_count(bottom[1]), rows = bottom[0]->shape.dim[0];
  *out = param->has_group_size ? CR_TRIPLETS_GROUPS : CR_TRIPLETS_LABELS;
  if (count == rows && shape->axes > 0 && shape->dim[0] == rows) return CREMA_OK;
  *out = CR_TRIPLETS_NUMBERS;
  if (!param->has_group_size && shape->axes > 1 && shape->dim[1] == 3 &&
      count == 3 * shape->dim[0]) {
    return CREMA_OK;
  }
  return refuse_form(layer, "bottom 1 is neither a label per sample nor three numbers per triplet");
}

static crema_status check_size(const cr_layer *layer, const char *field, int64_t size,
                               int64_t rows) {
  if (size > 0 && rows % size == 0) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE, "%s makes sets of %lld samples, and there are %lld",
                       field, (long long)size, (long long)rows);
}

static crema_status check_fields(const cr_layer *layer, const cr_triplet_batch *b) {
  const Caffe__TripletLossParameter *param = param_of(layer);
  if (!(eps_of(layer) > 0)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "eps is %g, must be above 0", eps_of(layer));
  }
  if (b->form == CR_TRIPLETS_GROUPS) {
    return check_size(layer, "group_size", param->group_size, b->rows);
  }
  if (b->form != CR_TRIPLETS_SETS) return CREMA_OK;
  if (param->num_negatives == 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "num_negatives is 0, must be 1 or more");
  }
  if (param->losstype > 2) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "losstype is %u, must be 0, 1 or 2",
                         param->losstype);
  }
  if (param->losstype > 0 && !(param->margin > 0)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "margin is %g, must be above 0 with losstype %u",
                         (double)param->margin, param->losstype);
  }
  return check_size(layer, "num_negatives", 2 + (int64_t)param->num_negatives, b->rows);
}

/* The labels, which only forward knows, may form fewer. */
static double most_edges(const cr_triplet_batch *b, crema_blob *const *bottom) {
  switch (b->form) {
    case CR_TRIPLETS_SETS:
    case CR_TRIPLETS_GROUPS: return (double)b->rows;
    case CR_TRIPLETS_LABELS: return (double)b->rows * (double)b->rows / 2;
    case CR_TRIPLETS_NUMBERS: break;
  }
  return 2 * (double)bottom[1]->shape.dim[0];
}

crema_status cr_triplet_batch_reshape(const cr_layer *layer, cr_triplet_batch *batch,
                                      crema_blob *const *bottom) {
  const crema_shape *x = &bottom[0]->shape;
  if (x->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have axes, found a scalar");
  }
  CR_TRY(find_form(layer, bottom, &batch->form));
  batch->rows = x->dim[0];
  batch->width = crema_shape_count(x, 1, x->axes);
  batch->edges = 0;
  CR_TRY(check_fields(layer, batch));
  const double most = most_edges(batch, bottom);
  if (most > (double)(1 << 26)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "%lld samples form up to %.0f pairs, too many",
                         (long long)batch->rows, most);
  }
  CR_TRY(cr_buffer_reserve(&batch->edge, ((size_t)most + 1) * sizeof(edge)));
  return cr_buffer_reserve(&batch->square, (size_t)(batch->rows + 1) * sizeof(double));
}

void cr_triplet_batch_free(cr_triplet_batch *batch) {
  cr_buffer_free(&batch->edge);
  cr_buffer_free(&batch->square);
}

/* ---- edges ---- */

static void add_edge(triplet_pass *w, int64_t i, int64_t j) {
  w->edge[w->batch->edges++] = (edge){.i = i, .j = j};
}

/* The number of rows from the first with the same label on. */
static int64_t first_class(const triplet_pass *w) {
  int64_t count = 0;
  while (count < w->batch->rows && cr_host_get(&w->label, count) == cr_host_get(&w->label, 0)) {
    ++count;
  }
  return count;
}

static void join_sets(triplet_pass *w, int64_t size) {
  for (int64_t first = 0; first < w->batch->rows; first += size) {
    for (int64_t k = 1; k < size; ++k) add_edge(w, first, first + k);
  }
}

static void join_labels(triplet_pass *w) {
  const int64_t positives = first_class(w);
  for (int64_t a = 0; a < positives; ++a) {
    for (int64_t i = a + 1; i < w->batch->rows; ++i) add_edge(w, a, i);
  }
}

static crema_status row_of(const triplet_pass *w, int64_t at, int64_t *out) {
  const double number = cr_host_get(&w->label, at);
  if (!(number >= 0 && number < (double)w->batch->rows)) {
    return cr_layer_fail(w->layer, CREMA_E_RANGE,
                         "triplet %lld has the sample %g, and there are %lld", (long long)(at / 3),
                         number, (long long)w->batch->rows);
  }
  *out = (int64_t)number;
  return CREMA_OK;
}

static crema_status join_numbers(triplet_pass *w, int64_t triplets) {
  for (int64_t t = 0; t < triplets; ++t) {
    int64_t row[3] = {0};
    for (int k = 0; k < 3; ++k) CR_TRY(row_of(w, 3 * t + k, &row[k]));
    add_edge(w, row[0], row[1]);
    add_edge(w, row[0], row[2]);
  }
  return CREMA_OK;
}

static crema_status join(triplet_pass *w, crema_blob *const *bottom) {
  const Caffe__TripletLossParameter *param = param_of(w->layer);
  w->batch->edges = 0;
  switch (w->batch->form) {
    case CR_TRIPLETS_SETS: join_sets(w, 2 + (int64_t)param->num_negatives); break;
    case CR_TRIPLETS_GROUPS: join_sets(w, param->group_size); break;
    case CR_TRIPLETS_LABELS: join_labels(w); break;
    case CR_TRIPLETS_NUMBERS: return join_numbers(w, bottom[1]->shape.dim[0]);
  }
  return CREMA_OK;
}

static crema_status measure(void *state, int worker, int64_t index) {
  triplet_pass *w = state;
  edge *e = &w->edge[index];
  const int64_t width = w->batch->width, i = e->i * width, j = e->j * width;
  const bool product = w->batch->form == CR_TRIPLETS_NUMBERS;
  double sum = 0;
  (void)worker;
  for (int64_t k = 0; k < width; ++k) {
    const double a = cr_host_get(&w->x, i + k), b = cr_host_get(&w->x, j + k);
    sum += product ? a * b : (a - b) * (a - b);
  }
  e->value = sum;
  return CREMA_OK;
}

static crema_status measure_row(void *state, int worker, int64_t index) {
  triplet_pass *w = state;
  const int64_t first = index * w->batch->width;
  double sum = 0;
  (void)worker;
  for (int64_t k = 0; k < w->batch->width; ++k) {
    sum += cr_host_get(&w->x, first + k) * cr_host_get(&w->x, first + k);
  }
  w->square[index] = sum;
  return CREMA_OK;
}

/* ---- terms ---- */

/* A term of squared distances p to the positive and n to the negative, and its derivatives. */
static double term(const Caffe__TripletLossParameter *param, double p, double n, double by[2]) {
  const double margin = (double)param->margin;
  double value = margin + p - n;
  by[0] = 1;
  by[1] = -1;
  if (param->losstype == 1) {
    value = 1 - n / (p + margin);
    by[0] = n / ((p + margin) * (p + margin));
    by[1] = -1 / (p + margin);
  } else if (param->losstype == 2) {
    /* 1 - exp(n) / (exp(p) + margin), without powers that overflow. */
    const double share = 1 / (1 + margin * exp(-p)), ratio = exp(n - p) * share;
    value = 1 - ratio;
    by[0] = ratio * share;
    by[1] = -ratio;
  }
  if (value > 0) return value;
  by[0] = by[1] = 0;
  return 0;
}

static double add_sets(triplet_pass *w, double *divisor) {
  const Caffe__TripletLossParameter *param = param_of(w->layer);
  const int64_t negatives = param->num_negatives, sets = w->batch->rows / (2 + negatives);
  double sum = 0;
  *divisor = 2 * (double)sets;
  for (int64_t s = 0; s < sets; ++s) {
    edge *near = &w->edge[s * (1 + negatives)];
    if (param->use_pair) {
      sum += near->value;
      near->slope = 1;
    }
    for (int64_t k = 1; k <= negatives; ++k) {
      double by[2];
      sum += term(param, near->value, near[k].value, by);
      near->slope += by[0];
      near[k].slope = by[1];
    }
  }
  return sum;
}

/* The hardest positive is the farthest, the hardest negative the nearest; NULL: there is none. */
static void find_hardest(triplet_pass *w, edge *first, int64_t count, edge *hardest[2]) {
  hardest[0] = hardest[1] = NULL;
  for (int64_t k = 0; k < count; ++k) {
    edge *e = &first[k];
    const bool other = cr_host_get(&w->label, e->i) != cr_host_get(&w->label, e->j);
    edge **best = &hardest[other];
    if (*best == NULL || (other ? e->value < (*best)->value : e->value > (*best)->value)) *best = e;
  }
}

static double add_groups(triplet_pass *w, double *divisor) {
  const Caffe__TripletLossParameter *param = param_of(w->layer);
  const double square = (double)param->scale * (double)param->scale;
  const int64_t others = (int64_t)param->group_size - 1;
  double sum = 0;
  *divisor = 0;
  for (int64_t first = 0; first < w->batch->edges; first += others) {
    edge *hardest[2];
    find_hardest(w, &w->edge[first], others, hardest);
    if (hardest[0] == NULL || hardest[1] == NULL) continue;
    *divisor += 2;
    const double gap = (double)param->margin + square * (hardest[0]->value - hardest[1]->value);
    if (!(gap > 0)) continue;
    sum += gap;
    hardest[0]->slope = square;
    hardest[1]->slope = -square;
  }
  return sum;
}

static double add_labels(triplet_pass *w, double *divisor) {
  const Caffe__TripletLossParameter *param = param_of(w->layer);
  const int64_t positives = first_class(w), rows = w->batch->rows;
  edge *first = w->edge; /* of anchor a to row a + 1 */
  double sum = 0;
  for (int64_t a = 0; a < positives; ++a) {
    edge *far = first + (positives - a - 1);
    for (edge *near = first; near < far; ++near) {
      for (int64_t n = 0; n < rows - positives; ++n) {
        const double gap = (double)param->margin + near->value - far[n].value;
        if (!(gap > 0)) continue;
        sum += gap;
        near->slope += 1;
        far[n].slope -= 1;
      }
    }
    first += rows - a - 1;
  }
  *divisor = (double)positives * (double)(positives - 1) / 2 * (double)(rows - positives);
  return sum;
}

static double add_numbers(triplet_pass *w, double *divisor) {
  const Caffe__TripletLossParameter *param = param_of(w->layer);
  const double eps = eps_of(w->layer);
  double sum = 0;
  *divisor = (double)w->batch->rows;
  for (int64_t t = 0; t < w->batch->edges; t += 2) {
    double cosine[2];
    for (int k = 0; k < 2; ++k) {
      const edge *e = &w->edge[t + k];
      cosine[k] = e->value / sqrt((w->square[e->i] + eps) * (w->square[e->j] + eps));
    }
    const double gap = (double)param->margin + cosine[1] - cosine[0];
    if (!(gap > 0)) continue;
    sum += gap;
    w->edge[t].slope = -1;
    w->edge[t + 1].slope = 1;
  }
  return sum;
}

/* The numbers that the gradient needs; with `scale` as a factor of the sum. */
static void find_gradients(triplet_pass *w, double scale) {
  const double eps = eps_of(w->layer);
  for (int64_t k = 0; k < w->batch->edges; ++k) {
    edge *e = &w->edge[k];
    const double slope = e->slope * scale;
    if (w->batch->form != CR_TRIPLETS_NUMBERS) {
      e->own[0] = e->own[1] = 2 * slope;
      e->cross = -2 * slope;
      continue;
    }
    const double a = w->square[e->i] + eps, b = w->square[e->j] + eps, length = sqrt(a * b);
    e->cross = slope == 0 ? 0 : slope / length;
    e->own[0] = slope == 0 ? 0 : -slope * e->value / (length * a);
    e->own[1] = slope == 0 ? 0 : -slope * e->value / (length * b);
  }
}

static double add_terms(triplet_pass *w) {
  double sum = 0, divisor = 0;
  switch (w->batch->form) {
    case CR_TRIPLETS_SETS: sum = add_sets(w, &divisor); break;
    case CR_TRIPLETS_GROUPS: sum = add_groups(w, &divisor); break;
    case CR_TRIPLETS_LABELS: sum = add_labels(w, &divisor); break;
    case CR_TRIPLETS_NUMBERS: sum = add_numbers(w, &divisor); break;
  }
  const double scale = divisor > 0 ? 1 / divisor : 0;
  find_gradients(w, scale);
  return sum * scale;
}

crema_status cr_triplet_batch_forward(const cr_layer *layer, crema_context *context,
                                      cr_triplet_batch *batch, crema_blob *const *bottom,
                                      double *loss) {
  triplet_pass w = {.layer = layer,
                    .batch = batch,
                    .edge = (edge *)(void *)batch->edge.data,
                    .square = (double *)(void *)batch->square.data};
  CR_TRY(cr_host_read(bottom[0]->data, &w.x));
  if (layer->bottoms > 1) CR_TRY(cr_host_read(bottom[1]->data, &w.label));
  CR_TRY(join(&w, bottom));
  const int workers =
      cr_host_workers(context, 2.0 * (double)batch->width * (double)(batch->edges + batch->rows));
  CR_TRY(cr_host_spread(workers, batch->edges, measure, &w));
  if (batch->form == CR_TRIPLETS_NUMBERS) {
    CR_TRY(cr_host_spread(workers, batch->rows, measure_row, &w));
  }
  *loss = add_terms(&w);
  return CREMA_OK;
}

/* ---- gradient ---- */

/* A part has some columns of all rows, so parts do not share values. */
static crema_status put_part(void *state, int worker, int64_t part) {
  const triplet_pass *w = state;
  const int64_t width = w->batch->width, begin = part * w->columns;
  const int64_t end = begin + w->columns < width ? begin + w->columns : width;
  (void)worker;
  for (int64_t r = 0; r < w->batch->rows; ++r) {
    for (int64_t k = begin; k < end; ++k) cr_host_put(&w->diff, r * width + k, 0);
  }
  for (int64_t k = 0; k < w->batch->edges; ++k) {
    const edge *e = &w->edge[k];
    if (e->cross == 0) continue;
    for (int64_t c = begin; c < end; ++c) {
      const int64_t i = e->i * width + c, j = e->j * width + c;
      const double a = cr_host_get(&w->x, i), b = cr_host_get(&w->x, j);
      const cr_host_values to = {w->diff.wide, w->diff.narrow};
      cr_host_put(&w->diff, i, cr_host_get(&to, i) + w->weight * (e->own[0] * a + e->cross * b));
      cr_host_put(&w->diff, j, cr_host_get(&to, j) + w->weight * (e->own[1] * b + e->cross * a));
    }
  }
  return CREMA_OK;
}

crema_status cr_triplet_batch_backward(crema_context *context, const cr_triplet_batch *batch,
                                       double weight, crema_blob *const *bottom) {
  const double all = 6.0 * (double)batch->width * (double)(batch->edges + batch->rows);
  const int workers = cr_host_workers(context, all);
  const int64_t columns = (batch->width + workers - 1) / workers;
  triplet_pass w = {.batch = (cr_triplet_batch *)batch,
                    .edge = (edge *)(void *)batch->edge.data,
                    .weight = weight,
                    .columns = columns > 0 ? columns : 1};
  CR_TRY(cr_host_read(bottom[0]->data, &w.x));
  CR_TRY(cr_host_write(bottom[0]->diff, &w.diff));
  return cr_host_spread(workers, (batch->width + w.columns - 1) / w.columns, put_part, &w);
}
