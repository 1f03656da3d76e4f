/* SegAccuracy: the accuracy of pixel classification (Chen et al., "DeepLab", 2015). It has no
 * gradient.
 *
 * Formula: all values cover the pixels whose label is not ignored. A pixel's predicted class is the
 * last class with the best score. Accuracy is the fraction of pixels whose prediction is right.
 * Recall is the mean of this fraction over the classes of the labels. Overlap is the mean over all
 * classes of intersection / union of the labelled and predicted pixels. A class that occurs in
 * neither counts as 1.
 * Shapes: scores (N, C, ...), labels (N, 1, ...), whole numbers as floats -> (1, 1, 1, 3):
 * accuracy, recall, overlap.
 * Fields: seg_accuracy_param.
 * Caffe: as in DeepLab's fork. Classes that occur in no image raise the overlap. With reset: false
 * it covers all images so far.
 * Example, scores 1 3 4 4, label 1 1 4 4:
 *   layer { name: "accuracy" type: "SegAccuracy" bottom: "scores" bottom: "label" top: "accuracy"
 *     seg_accuracy_param { ignore_label: 255 } } */
#include <string.h>

#include "core/buffer.h"
#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"

enum {
  WIDTH = 2048,  /* pixels that are looked at together: long enough runs of each class */
  ASKED = 64,    /* number of pixels whose next scores are prefetched at a time */
  PIECE = 8192,  /* number of pixels of an image that a thread processes at a time */
  OPERATIONS = 8 /* approximate number of multiply-adds that take the time of a score */
};

/* How often each class occurs. */
typedef struct tally {
  int64_t *right, *labels, *guesses;
} tally;

typedef struct seg_accuracy_state {
  int64_t classes;
  tally all;
  cr_buffer part; /* the same for each thread, one after the other */
} seg_accuracy_state;

/* Numbers of a thread's share; two threads do not write the same cache line. */
static size_t room_of(const seg_accuracy_state *s) {
  return 3 * (size_t)s->classes + 16;
}

static tally tally_at(int64_t *memory, int64_t classes) {
  return (tally){memory, memory + classes, memory + 2 * classes};
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  seg_accuracy_state *s = layer->state;
  void *memory = NULL;
  (void)top;
  if (bottom[0]->shape.axes < 2 || bottom[0]->shape.dim[1] < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have scores of classes (axis 1)");
  }
  s->classes = bottom[0]->shape.dim[1];
  if (s->classes > 1000000) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "%lld classes are too many", (long long)s->classes);
  }
  CR_TRY(cr_layer_memory(layer, 3 * (size_t)s->classes * sizeof(int64_t), &memory));
  s->all = tally_at(memory, s->classes);
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const seg_accuracy_state *s = layer->state;
  const crema_shape *scores = &bottom[0]->shape;
  const crema_shape to = cr_shape(4, (const int64_t[]){1, 1, 1, 3});
  char a[128], b[128];
  if (scores->axes < 2 || scores->dim[1] != s->classes ||
      crema_blob_count(bottom[1]) * s->classes != crema_blob_count(bottom[0])) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "scores of shape %s need a label for each pixel, found labels of shape %s",
                         crema_shape_text(scores, a, sizeof a),
                         crema_shape_text(&bottom[1]->shape, b, sizeof b));
  }
  return crema_blob_reshape(top[0], &to);
}

/* The best class of `width` pixels side by side, the last one of several; score c of pixel i is
 * score[c * step + i]. The scores of two classes are far apart, so the processor does not prefetch
 * them. So the scores of the next class are prefetched, and after the last class the first scores
 * of the next pixels. */
#define FIND_BEST(name, real)                                                                   \
  CR_INLINE void name##_compare(const real *score, int32_t c, int64_t width, real *top,         \
                                int32_t *best) {                                                \
    _Pragma("omp simd") for (int64_t i = 0; i < width; ++i) {                                   \
      const bool better = c == 0 || score[i] >= top[i];                                         \
      best[i] = better ? c : best[i];                                                           \
      top[i] = c == 0 || score[i] > top[i] ? score[i] : top[i];                                 \
    }                                                                                           \
  }                                                                                             \
  CR_INLINE void name##_class(const real *score, const real *later, int32_t c, int64_t width,   \
                              real *top, int32_t *best) {                                       \
    const size_t line = 64 / sizeof(real);                                                      \
    int64_t i = 0;                                                                              \
    for (; i + ASKED <= width; i += ASKED) {                                                    \
      for (size_t k = 0; k < ASKED; k += line) __builtin_prefetch(later + (size_t)i + k, 0, 2); \
      name##_compare(score + i, c, ASKED, top + i, best + i);                                   \
    }                                                                                           \
    name##_compare(score + i, c, width - i, top + i, best + i);                                 \
  }                                                                                             \
  CR_CLONES static void name(const real *score, int64_t step, int64_t classes, int64_t width,   \
                             const real *next, int32_t *best) {                                 \
    real top[WIDTH];                                                                            \
    name##_class(score, classes > 1 ? score + step : next, 0, width, top, best);                \
    for (int32_t c = 1; c < classes; ++c) {                                                     \
      const real *here = score + c * step;                                                      \
      name##_class(here, c + 1 < classes ? here + step : next, c, width, top, best);            \
    }                                                                                           \
  }
FIND_BEST(find_best_wide, double)
FIND_BEST(find_best_narrow, float)

/* Instead of a class. */
enum { OUT_OF_RANGE = -1, IGNORED = -2 };

CR_INLINE void classes_of(cr_host_values label, int64_t first, int64_t width, int64_t classes,
                          const Caffe__SegAccuracyParameter *p, int32_t *out) {
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    const double one = cr_host_get(&label, first + i);
    const bool known = (one >= 0) & (one < (double)classes);
    out[i] = known ? (int32_t)one : OUT_OF_RANGE;
  }
  for (size_t k = 0; p && k < p->n_ignore_label; ++k) {
    const double ignored = (double)p->ignore_label[k];
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      out[i] = cr_host_get(&label, first + i) == ignored ? IGNORED : out[i];
    }
  }
}

/* Each call is compiled for its type. */
CR_CLONES static void find_classes(const cr_host_values *label, int64_t first, int64_t width,
                                   int64_t classes, const Caffe__SegAccuracyParameter *p,
                                   int32_t *out) {
  if (label->wide) {
    classes_of((cr_host_values){label->wide, NULL}, first, width, classes, p, out);
  } else {
    classes_of((cr_host_values){NULL, label->narrow}, first, width, classes, p, out);
  }
}

/* The data of the threads: adjacent pieces of images. */
typedef struct pixels {
  const cr_layer *layer;
  int64_t per_image, pieces; /* pixels, and pieces of them */
  cr_host_values scores, labels;
} pixels;

/* Pixel i of the strip has label first + i. */
static crema_status add_strip(const pixels *of, int64_t first, int64_t width, const int32_t *best,
                              tally *to) {
  const seg_accuracy_state *s = of->layer->state;
  int32_t label[WIDTH];
  find_classes(&of->labels, first, width, s->classes, of->layer->param->seg_accuracy_param, label);
  for (int64_t i = 0; i < width; ++i) {
    if (label[i] == IGNORED) continue;
    if (label[i] == OUT_OF_RANGE) {
      return cr_layer_fail(
          of->layer, CREMA_E_RANGE, "pixel %lld has label %g, must be 0 to %lld or an ignore_label",
          (long long)(first + i), cr_host_get(&of->labels, first + i), (long long)s->classes - 1);
    }
    ++to->labels[label[i]];
    ++to->guesses[best[i]];
    to->right[best[i]] += best[i] == label[i];
  }
  return CREMA_OK;
}

static crema_status add_piece(void *state, int worker, int64_t index) {
  const pixels *of = state;
  const seg_accuracy_state *s = of->layer->state;
  const int64_t n = index / of->pieces, from = index % of->pieces * PIECE;
  const int64_t end = of->per_image - from < PIECE ? of->per_image : from + PIECE;
  int64_t *memory = (int64_t *)(void *)s->part.data + (size_t)worker * room_of(s);
  tally own = tally_at(memory, s->classes);
  int32_t best[WIDTH];
  for (int64_t begin = from; begin < end; begin += WIDTH) {
    const int64_t width = end - begin < WIDTH ? end - begin : WIDTH;
    const int64_t at = n * s->classes * of->per_image + begin;
    const int64_t next = begin + width < of->per_image ? at + width : at;
    if (of->scores.wide) {
      find_best_wide(of->scores.wide + at, of->per_image, s->classes, width, of->scores.wide + next,
                     best);
    } else {
      find_best_narrow(of->scores.narrow + at, of->per_image, s->classes, width,
                       of->scores.narrow + next, best);
    }
    CR_TRY(add_strip(of, n * of->per_image + begin, width, best, &own));
  }
  return CREMA_OK;
}

static crema_status add_pixels(pixels *of, crema_context *context, int64_t images) {
  seg_accuracy_state *s = of->layer->state;
  const double scores = (double)images * (double)of->per_image * (double)s->classes;
  const int workers = cr_host_workers(context, scores * OPERATIONS);
  const size_t room = room_of(s);
  CR_TRY(cr_buffer_reserve(&s->part, (size_t)workers * room * sizeof(int64_t)));
  int64_t *part = (int64_t *)(void *)s->part.data;
  memset(part, 0, (size_t)workers * room * sizeof *part);
  of->pieces = (of->per_image + PIECE - 1) / PIECE;
  CR_TRY(cr_host_spread(workers, images * of->pieces, add_piece, of));
  for (int k = 0; k < workers; ++k, part += room) {
    for (int64_t i = 0; i < 3 * s->classes; ++i) s->all.right[i] += part[i];
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  seg_accuracy_state *s = layer->state;
  const Caffe__SegAccuracyParameter *p = layer->param->seg_accuracy_param;
  const crema_shape f = cr_layer_fold(&bottom[0]->shape, 1, 2);
  double all = 0, right = 0, recall = 0, overlap = 0, known = 0;
  pixels of = {.layer = layer, .per_image = f.dim[2]};
  cr_host_results to;
  if (p == NULL || p->reset) memset(s->all.right, 0, 3 * (size_t)s->classes * sizeof(int64_t));
  CR_TRY(cr_host_read(bottom[0]->data, &of.scores));
  CR_TRY(cr_host_read(bottom[1]->data, &of.labels));
  CR_TRY(add_pixels(&of, context, f.dim[0]));
  for (int64_t c = 0; c < s->classes; ++c) {
    const double own = (double)s->all.right[c],
                 either = (double)(s->all.labels[c] + s->all.guesses[c]) - own;
    all += (double)s->all.labels[c];
    right += own;
    if (s->all.labels[c] > 0) recall += own / (double)s->all.labels[c], ++known;
    overlap += either > 0 ? own / either : 1;
  }
  CR_TRY(cr_host_write(top[0]->data, &to));
  cr_host_put(&to, 0, all > 0 ? right / all : 0);
  cr_host_put(&to, 1, known > 0 ? recall / known : 0);
  cr_host_put(&to, 2, overlap / (double)s->classes);
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  seg_accuracy_state *s = layer->state;
  cr_buffer_free(&s->part);
}

const cr_layer_class cr_layer_seg_accuracy = {
    .type = "SegAccuracy",
    .state_size = sizeof(seg_accuracy_state),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .graph.integer_bottoms = 1u << 1,
    .graph.wide_tops = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .destroy = destroy,
};
