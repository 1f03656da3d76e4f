/* The mean average precision. For each class the detections of all batches, best first, give a
 * curve of precision (the share of true detections) over recall (the share of objects found). The
 * average precision is the area under this curve, in one of three ways (Everingham et al., "The
 * Pascal visual object classes challenge", 2010). */
#include "solver/detections.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/did_you_mean.h"
#include "core/fail.h"
#include "core/log.h"
#include "memory/blob.h"
#include "solver/solver.h"

enum { WIDTH = 5, OBJECTS = 0, FOUND = 1, ELEVEN = 11 };

/* The objects of one class and output in a batch, or a detection. */
typedef struct detection_row {
  double output, label;
  double kind;  /* OBJECTS, FOUND for a false positive, FOUND + 1 for a true positive */
  double value; /* the number of objects, or the detection's score */
  double order; /* of arrival */
} detection_row;

static const char *const versions[] = {"11point", "Integral", "MaxIntegral"};
static const char *const types[] = {"classification", "detection"};

bool cr_detections_wanted(const Caffe__SolverParameter *param) {
  return param->eval_type != NULL && strcmp(param->eval_type, "detection") == 0;
}

static crema_status check_word(const char *field, const char *word, const char *const *words,
                               size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (word == NULL || strcmp(word, words[i]) == 0) return CREMA_OK;
  }
  const char *nearest = cr_did_you_mean(word, words, count);
  return cr_fail(CREMA_E_UNKNOWN_NAME, "unknown %s '%s'%s%s", field, word,
                 nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest);
}

crema_status cr_detections_check(const Caffe__SolverParameter *param) {
  CR_TRY(check_word("eval_type", param->eval_type, types, 2));
  return cr_detections_check_version(param->ap_version);
}

crema_status cr_detections_check_version(const char *ap_version) {
  return check_word("ap_version", ap_version, versions, 3);
}

/* Detections of difficult objects are neither right nor wrong and do not count. */
static crema_status add_value(cr_detections *to, int output, const float *value) {
  detection_row one = {.output = output, .label = (double)value[1], .value = (double)value[2]};
  if (value[0] < 0) {
    one.kind = OBJECTS;
  } else {
    const bool right = value[3] > 0.5f, wrong = value[4] > 0.5f;
    if (!right && !wrong) return CREMA_OK;
    one.kind = FOUND + (right ? 1 : 0);
  }
  return cr_buffer_append(&to->row, &one, sizeof one);
}

crema_status cr_detections_add_output(cr_detections *to, crema_net *net, int output) {
  crema_blob *blob = crema_net_output(net, output);
  const crema_shape *shape = crema_blob_shape(blob);
  const float *value;
  if (shape->axes == 0 || shape->dim[shape->axes - 1] != WIDTH) {
    return cr_fail(CREMA_E_SHAPE,
                   "eval_type 'detection' is for outputs of DetectionEvaluate, which '%s' is not",
                   crema_net_output_name(net, output));
  }
  CR_TRY(crema_blob_cpu_data(blob, &value));
  for (int64_t k = 0; k < crema_blob_count(blob); k += WIDTH) {
    CR_TRY(add_value(to, output, value + k));
  }
  return CREMA_OK;
}

crema_status cr_detections_add(cr_detections *to, crema_net *net) {
  for (int i = 0; i < crema_net_output_count(net); ++i)
    CR_TRY(cr_detections_add_output(to, net, i));
  return CREMA_OK;
}

crema_status cr_detections_append(cr_detections *to, const cr_detections *from) {
  return cr_buffer_append(&to->row, from->row.data, from->row.size);
}

/* Each process adds its rows to a separate range of the sum. */
crema_status cr_detections_gather(cr_detections *of, cr_world *world) {
  const int size = cr_world_size(world), rank = cr_world_rank(world);
  const size_t width = sizeof(detection_row) / sizeof(double);
  double *count = NULL, *all = NULL, before = 0, sum = 0;
  crema_status status = CREMA_OK;
  if (size == 1) return CREMA_OK;
  CR_TRY(CR_NEW(count, (size_t)size, "detections of a test"));
  count[rank] = (double)(of->row.size / sizeof(detection_row));
  CR_TRY_GOTO(cr_world_agree(world, count, size, NULL, 0), out);
  for (int i = 0; i < size; ++i) {
    if (i < rank) before += count[i];
    sum += count[i];
  }
  if (sum * (double)width > (double)INT32_MAX) {
    status = cr_fail(CREMA_E_RANGE, "a test has %g detections, too many for one exchange", sum);
    goto out;
  }
  CR_TRY_GOTO(CR_NEW(all, (size_t)sum * width + 1, "detections of a test"), out);
  if (of->row.size > 0) memcpy(all + (size_t)before * width, of->row.data, of->row.size);
  CR_TRY_GOTO(cr_world_agree(world, all, (int)((size_t)sum * width), NULL, 0), out);
  cr_buffer_clear(&of->row);
  status = cr_buffer_append(&of->row, all, (size_t)sum * sizeof(detection_row));
out:
  free(all);
  free(count);
  return status;
}

static int compare(double a, double b) {
  return (a > b) - (a < b);
}

/* By output and class; objects first, then detections, best first; ties in order of arrival. */
static int in_order(const void *left, const void *right) {
  const detection_row *a = left, *b = right;
  if (a->output != b->output) return compare(a->output, b->output);
  if (a->label != b->label) return compare(a->label, b->label);
  const bool found = a->kind >= FOUND;
  if (found != (b->kind >= FOUND)) return found ? 1 : -1;
  if (found && a->value != b->value) return compare(b->value, a->value);
  return compare(a->order, b->order);
}

/* The mean of the best precision at each tenth of the recall. */
static double eleven_points(const double *precision, const double *recall, size_t count) {
  double sum = 0;
  for (int point = 0; point < ELEVEN; ++point) {
    double best = 0;
    for (size_t i = 0; i < count; ++i) {
      if (recall[i] >= (double)point / (ELEVEN - 1) && precision[i] > best) best = precision[i];
    }
    sum += best;
  }
  return sum / ELEVEN;
}

/* The area; with `best`, under the curve of the best precision at this or a higher recall. */
static double area(const double *precision, const double *recall, size_t count, bool best) {
  double sum = 0, highest = 0;
  for (size_t i = count; i-- > 0;) {
    highest = precision[i] > highest ? precision[i] : highest;
    const double width = recall[i] - (i > 0 ? recall[i - 1] : 0);
    sum += width * (best ? highest : precision[i]);
  }
  return sum;
}

/* The average precision of one class; `curve` has room for 2 count values. */
static double average_precision(const detection_row *rows, size_t count, const char *version,
                                double *curve) {
  double objects = 0, right = 0;
  size_t first = 0;
  for (; first < count && rows[first].kind < FOUND; ++first) objects += rows[first].value;
  const size_t found = count - first;
  double *precision = curve, *recall = curve + found;
  if (objects == 0) return 0;
  for (size_t i = 0; i < found; ++i) {
    right += rows[first + i].kind - FOUND;
    precision[i] = right / (double)(i + 1);
    recall[i] = right / objects;
  }
  if (strcmp(version, "11point") == 0) return eleven_points(precision, recall, found);
  return area(precision, recall, found, strcmp(version, "MaxIntegral") == 0);
}

static size_t run_length(const detection_row *rows, size_t count, bool of_class) {
  size_t length = 0;
  while (length < count && rows[length].output == rows->output &&
         (!of_class || rows[length].label == rows->label)) {
    ++length;
  }
  return length;
}

/* The mean over the classes of one output. */
static double mean_precision(const detection_row *rows, size_t count,
                             const Caffe__SolverParameter *param, bool logs, double *curve) {
  double sum = 0;
  int classes = 0;
  for (size_t at = 0; at < count; ++classes) {
    const size_t length = run_length(rows + at, count - at, true);
    const double precision = average_precision(rows + at, length, param->ap_version, curve);
    if (logs && param->show_per_class_result) {
      cr_log_info("class%d: %g", (int)rows[at].label, precision);
    }
    sum += precision;
    at += length;
  }
  return sum / classes;
}

crema_status cr_detections_report(cr_detections *of, const Caffe__SolverParameter *param,
                                  crema_net *net, bool logs, double *score) {
  detection_row *rows = (detection_row *)(void *)of->row.data;
  const size_t count = of->row.size / sizeof *rows;
  double *curve = NULL;
  *score = 0;
  if (count == 0) return CREMA_OK;
  CR_TRY(CR_NEW(curve, 2 * count, "a precision curve"));
  for (size_t i = 0; i < count; ++i) rows[i].order = (double)i;
  qsort(rows, count, sizeof *rows, in_order);
  for (size_t at = 0; at < count;) {
    const size_t length = run_length(rows + at, count - at, false);
    const int output = (int)rows[at].output;
    const double mean = mean_precision(rows + at, length, param, logs, curve);
    if (logs) cr_report_output("Test", output, crema_net_output_name(net, output), mean, 0);
    if (at == 0) *score = mean;
    at += length;
  }
  free(curve);
  return CREMA_OK;
}

void cr_detections_free(cr_detections *of) {
  cr_buffer_free(&of->row);
}
