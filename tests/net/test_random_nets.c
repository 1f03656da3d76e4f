/* Gradients of random nets (random_nets.h): every parameter's is compared with differences of the
 * loss, unless building the net warned that a layer in place spoils one. */
#include "net/random_nets.h"

#include <math.h>

#include "crema/log.h"
#include "log_lines.h"

/* The loss with the same masks every time. */
static double loss_of(crema_net *net) {
  double loss = 0;
  for (int i = 0; i < net->layers; ++i) net->layer[i].layer->pass = 3;
  ok(crema_net_forward(net, &loss));
  return loss;
}

/* d loss / d step along `direction`, from below and from above. */
static void slopes(crema_net *net, crema_blob *blob, const float *start, const float *direction,
                   float step, double out[2]) {
  const int64_t count = crema_blob_count(blob);
  double loss[3];
  for (int k = -1; k <= 1; ++k) {
    float *value = NULL;
    ok(crema_blob_mutable_cpu_data(blob, &value));
    for (int64_t i = 0; i < count; ++i) value[i] = start[i] + (float)k * step * direction[i];
    loss[k + 1] = loss_of(net);
  }
  float *value = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &value));
  memcpy(value, start, (size_t)count * sizeof *value);
  for (int k = 0; k < 2; ++k) out[k] = (loss[k + 1] - loss[k]) / (double)step;
}

/* How far the gradient is from the two slopes' mean, or, where they differ (the loss bends), from
 * the nearer one. */
static double distance(double along, const double slope[2]) {
  double low = fmin(slope[0], slope[1]), high = fmax(slope[0], slope[1]);
  if (along >= low && along <= high) return 0;
  return fmin(fabs(along - (low + high) / 2), fmax(low - along, along - high));
}

/* Along the gradient and a random direction of the same length. */
static bool agrees(crema_net *net, sketch *s, crema_blob *blob, double loss, double *want,
                   double *found) {
  static const float steps[] = {3e-3f, 1e-2f, 1e-3f, 3e-2f, 3e-4f};
  const int64_t count = crema_blob_count(blob);
  const size_t bytes = (size_t)count * sizeof(float);
  float *start = malloc(bytes), *direction = malloc(bytes);
  assert_true(start != NULL && direction != NULL);
  memcpy(start, data_of(blob), bytes);
  const float *gradient = diff_of(blob);
  double length = 0, along = 0, best = INFINITY;
  for (int64_t i = 0; i < count; ++i) length += (double)gradient[i] * (double)gradient[i];
  length = sqrt(length);
  for (int64_t i = 0; i < count; ++i) {
    double part = length > 0 ? (double)gradient[i] / length : 0;
    direction[i] = (float)(part + ((double)draw(s, 2001) / 1000 - 1) / sqrt((double)count));
    along += (double)direction[i] * (double)gradient[i];
  }
  for (size_t k = 0; k < sizeof steps / sizeof steps[0] && best > 1; ++k) {
    double now[2];
    slopes(net, blob, start, direction, steps[k], now);
    double allowed = 0.02 * fabs(along) + 2e-6 * (1 + fabs(loss)) / (double)steps[k] + 1e-4;
    double error = distance(along, now) / allowed;
    if (error < best) {
      best = error;
      *found = (now[0] + now[1]) / 2;
    }
  }
  *want = along;
  free(start);
  free(direction);
  return best <= 1;
}

/* Parameter layers start with zeros; ties between them would bend the loss. */
static void spread_parameters(crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    cr_layer *layer = net->layer[i].layer;
    if (strcmp(layer->kind->type, "Parameter") == 0) fill(layer->blob[0], -0.25f, 0.07f);
  }
}

static int wrong_blobs(crema_net *net, sketch *s, bool tell) {
  int wrong = 0;
  fill(blob_of(net, "data"), -1, 0.011f);
  double loss = loss_of(net);
  if (!(fabs(loss) < 1000)) return 0; /* differences say nothing then */
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
  for (int p = 0; p < net->learnables; ++p) {
    double want = 0, found = 0;
    if (net->lr_mult[p] == 0 || agrees(net, s, net->learnable[p], loss, &want, &found)) continue;
    wrong += 1;
    if (tell) print_error("parameter %d: gradient %g, by differences %g\n", p, want, found);
  }
  return wrong;
}

/* All gradients of parameters after a pass over a batch of `items`. */
static float *gradients_of(crema_net *net, int64_t items, size_t *count) {
  const crema_shape shape = cr_shape_4(items, 3, 6, 5);
  ok(crema_blob_reshape(blob_of(net, "data"), &shape));
  fill(blob_of(net, "data"), -1, 0.011f);
  (void)loss_of(net);
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
  *count = 0;
  for (int p = 0; p < net->learnables; ++p) {
    *count += (size_t)crema_blob_count(net->learnable[p]);
  }
  float *all = malloc((*count + 1) * sizeof *all), *at = all;
  assert_non_null(all);
  for (int p = 0; p < net->learnables; ++p) {
    size_t values = (size_t)crema_blob_count(net->learnable[p]);
    memcpy(at, diff_of(net->learnable[p]), values * sizeof *at);
    at += values;
  }
  return all;
}

/* Passes over batches of other sizes in between leave nothing behind. */
static bool forgets_other_batches(crema_net *net) {
  static const int64_t items[] = {2, 5, 1, 2};
  float *first = NULL;
  bool same = true;
  for (size_t k = 0; k < sizeof items / sizeof items[0]; ++k) {
    size_t count = 0;
    float *now = gradients_of(net, items[k], &count);
    if (k == 0) {
      first = now;
      continue;
    }
    for (size_t i = 0; i < count && items[k] == items[0]; ++i) {
      same = same &&
             (first[i] == now[i] || fabsf(first[i] - now[i]) <= 1e-4f * fabsf(first[i]) + 1e-5f ||
              !isfinite(first[i]));
    }
    free(now);
  }
  free(first);
  return same;
}

TEST(gradients_are_right) {
  const char *given = getenv("CREMA_TEST_SEED"), *nets = getenv("CREMA_TEST_NETS");
  const uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
  const uint64_t count = nets != NULL ? strtoull(nets, NULL, 10) : 150;
  static sketch s;
  static log_lines lines;
  int warned = 0, spoiled = 0;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (uint64_t i = 0; i < count; ++i) {
    draw_net(&s, seed * 1000003 + i, FOR_TRAINING);
    listen_to(&lines, CREMA_LOG_WARNING);
    crema_net *net = build(s.text, CREMA_TRAIN);
    stop_listening();
    int warnings = count_lines(&lines, "in place");
    spread_parameters(net);
    int wrong = wrong_blobs(net, &s, warnings == 0);
    warned += warnings > 0;
    spoiled += warnings > 0 && wrong > 0;
    bool forgets = forgets_other_batches(net);
    if (!forgets) print_error("gradients differ after passes over other batches\n");
    if ((warnings == 0 && wrong > 0) || !forgets) {
      print_error("net %llu of seed %llu:\n", (unsigned long long)i, (unsigned long long)seed);
      fputs(s.text, stderr); /* longer than cmocka's lines */
      fail();
    }
    crema_net_destroy(net);
  }
  print_message("%d of %d nets that warned have wrong gradients\n", spoiled, warned);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
