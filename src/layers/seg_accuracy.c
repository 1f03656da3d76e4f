/* SegAccuracy: how well pixels are classified (Chen et al., "DeepLab", 2015). It has no gradient.
 *
 * Formula: over all pixels whose label is not ignored: accuracy = the share of those whose class
 * has the best score, the last one of several; recall = its mean over the classes of the labels;
 * overlap = the mean over all classes of the pixels that are of the class in labels and scores,
 * divided by those that are in either; 1 for a class that occurs in neither.
 * Shapes: scores (N, C, ...), labels (N, 1, ...), whole numbers as floats -> (1, 1, 1, 3):
 * accuracy, recall, overlap.
 * Fields: seg_accuracy_param.
 * Caffe: as in DeepLab's fork. Where many classes occur in no picture, the overlap is high for
 * that alone; with reset: false it is that of all pictures so far.
 * Example, scores 1 3 4 4, label 1 1 4 4:
 *   layer { name: "accuracy" type: "SegAccuracy" bottom: "scores" bottom: "label" top: "accuracy"
 *     seg_accuracy_param { ignore_label: 255 } } */
#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"

enum { WIDTH = 256 /* pixels that are looked at together: a few cache lines of each class */ };

typedef struct seg_state {
  int64_t classes;
  int64_t *right, *labels, *guesses; /* of each class */
} seg_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  seg_state *s = layer->state;
  void *memory = NULL;
  (void)top;
  if (bottom[0]->shape.axes < 2 || bottom[0]->shape.dim[1] < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have scores of classes (axis 1)");
  }
  s->classes = bottom[0]->shape.dim[1];
  if (s->classes > 1000000) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "%lld classes are too many", (long long)s->classes);
  }
  CR_TRY(cr_layer_memory(layer, 3 * (size_t)s->classes * sizeof *s->right, &memory));
  s->right = memory;
  s->labels = s->right + s->classes;
  s->guesses = s->labels + s->classes;
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const seg_state *s = layer->state;
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

static bool is_ignored(const cr_layer *layer, double label) {
  const Caffe__SegAccuracyParameter *p = layer->param->seg_accuracy_param;
  for (size_t i = 0; p && i < p->n_ignore_label; ++i) {
    if (label == (double)p->ignore_label[i]) return true;
  }
  return false;
}

/* The best class of `width` pixels side by side, the last one of several; score c of pixel i is
 * score[c * step + i]. A loop for each result, so that compilers find vectors for both. */
#define FIND_BEST(name, real)                                                           \
  static void name(const real *score, int64_t step, int64_t classes, int64_t width,     \
                   int32_t *best) {                                                     \
    real top[WIDTH];                                                                    \
    for (int64_t i = 0; i < width; ++i) top[i] = score[i], best[i] = 0;                 \
    for (int64_t c = 1; c < classes; ++c) {                                             \
      const real *here = score + c * step;                                              \
      for (int64_t i = 0; i < width; ++i) {                                             \
        const int32_t before = best[i];                                                 \
        best[i] = here[i] >= top[i] ? (int32_t)c : before;                              \
      }                                                                                 \
      for (int64_t i = 0; i < width; ++i) top[i] = here[i] > top[i] ? here[i] : top[i]; \
    }                                                                                   \
  }
FIND_BEST(find_best_wide, double)
FIND_BEST(find_best_narrow, float)

/* Pixel i of `first` and behind it has label first + i. */
static crema_status add_strip(const cr_layer *layer, const cr_host_values *labels, int64_t first,
                              int64_t width, const int32_t *best) {
  const seg_state *s = layer->state;
  for (int64_t i = 0; i < width; ++i) {
    const double label = cr_host_get(labels, first + i);
    if (is_ignored(layer, label)) continue;
    if (!(label >= 0 && label < (double)s->classes)) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "pixel %lld has label %g, must be 0 to %lld or an ignore_label",
                           (long long)(first + i), label, (long long)s->classes - 1);
    }
    ++s->labels[(int64_t)label];
    ++s->guesses[best[i]];
    s->right[best[i]] += best[i] == (int64_t)label;
  }
  return CREMA_OK;
}

static crema_status add_pixels(const cr_layer *layer, const crema_shape *f,
                               const cr_host_values *scores, const cr_host_values *labels) {
  const int64_t classes = f->dim[1], pixels = f->dim[2];
  int32_t best[WIDTH];
  for (int64_t n = 0; n < f->dim[0]; ++n) {
    for (int64_t begin = 0; begin < pixels; begin += WIDTH) {
      const int64_t width = pixels - begin < WIDTH ? pixels - begin : WIDTH;
      const int64_t from = n * classes * pixels + begin;
      if (scores->wide) find_best_wide(scores->wide + from, pixels, classes, width, best);
      else find_best_narrow(scores->narrow + from, pixels, classes, width, best);
      CR_TRY(add_strip(layer, labels, n * pixels + begin, width, best));
    }
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  seg_state *s = layer->state;
  const Caffe__SegAccuracyParameter *p = layer->param->seg_accuracy_param;
  const crema_shape f = cr_layer_fold(&bottom[0]->shape, 1, 2);
  double all = 0, right = 0, recall = 0, overlap = 0, known = 0;
  cr_host_values scores, labels;
  cr_host_results to;
  (void)context;
  if (p == NULL || p->reset) memset(s->right, 0, 3 * (size_t)s->classes * sizeof *s->right);
  CR_TRY(cr_host_read(bottom[0]->data, &scores));
  CR_TRY(cr_host_read(bottom[1]->data, &labels));
  CR_TRY(add_pixels(layer, &f, &scores, &labels));
  for (int64_t c = 0; c < s->classes; ++c) {
    const double own = (double)s->right[c], either = (double)(s->labels[c] + s->guesses[c]) - own;
    all += (double)s->labels[c];
    right += own;
    if (s->labels[c] > 0) recall += own / (double)s->labels[c], ++known;
    overlap += either > 0 ? own / either : 1;
  }
  CR_TRY(cr_host_write(top[0]->data, &to));
  cr_host_put(&to, 0, all > 0 ? right / all : 0);
  cr_host_put(&to, 1, known > 0 ? recall / known : 0);
  cr_host_put(&to, 2, overlap / (double)s->classes);
  return CREMA_OK;
}

const cr_layer_class cr_layer_seg_accuracy = {
    .type = "SegAccuracy",
    .state_size = sizeof(seg_state),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .integer_bottoms = 1u << 1,
    .wide_tops = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
};
