/* Layers of forks, forward and backward, against independent implementations: torch*.inc, yolo.inc,
 * peers.inc, openvino.inc and intel.inc have the results, and name the implementations. */
#include "layers/layer_rig.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

typedef struct peer_case {
  const char *type, *origin, *body, *shapes;
  int tops, with_gradient; /* how many; of bottoms, the first ones have a gradient */
  const double *wanted;    /* the tops, then the gradients of bottoms and parameters; or nan */
  int64_t count;           /* of wanted */
  const double *given;     /* values of the other bottoms */
  double tolerance;        /* absolute; 0: 2e-8 of the larger of the value and 1 */
} peer_case;

typedef struct drop_case {
  const char *type;
  double ratio, x, kept, dropped; /* what becomes of x */
} drop_case;

#include "layers/intel.inc"
#include "layers/openvino.inc"
#include "layers/peers.inc"
#include "layers/torch.inc"
#include "layers/torch_losses.inc"
#include "layers/yolo.inc"

static void fill(rig_values v, int number, double factor) {
  for (int64_t i = 0; i < v.count; ++i) {
    rig_set(v, i, factor * ((double)((i + 11 * number) * 37 % 101) - 50.5) / 32);
  }
}

static void fill_blobs(rig *r, const peer_case *c) {
  const double *given = c->given, factor = strcmp(c->type, "ReLU6") == 0 ? 7.5 : 1;
  for (int i = 0; i < r->bottoms; ++i) {
    rig_values v = rig_data_of(r->bottom[i]);
    if (i < c->with_gradient) fill(v, i, factor);
    for (int64_t k = 0; i >= c->with_gradient && k < v.count; ++k) rig_set(v, k, *given++);
  }
  for (int p = 0; p < r->layer->params; ++p) {
    fill(rig_data_of(r->layer->blob[p]), r->bottoms + p, factor);
    cr_tensor_set_zero(r->layer->blob[p]->diff);
  }
}

/* Compares with the next values of what is wanted and returns the one behind them. */
static const double *compare(const peer_case *c, const char *what, int index, rig_values found,
                             const double *wanted) {
  assert_true(wanted + found.count <= c->wanted + c->count);
  for (int64_t i = 0; i < found.count; ++i) {
    const double value = rig_get(found, i);
    if (isnan(wanted[i])) continue;
    const double most = c->tolerance > 0 ? c->tolerance : 2e-8 * fmax(1, fabs(wanted[i]));
    if (fabs(value - wanted[i]) <= most) continue;
    print_error("%s %s, %s %d, element %lld: %.12g, %s %.12g\n", c->type, c->body, what, index,
                (long long)i, value, c->origin, wanted[i]);
    fail();
  }
  return wanted + found.count;
}

static void check(const peer_case *c) {
  const double *wanted = c->wanted;
  rig r;
  rig_make_of(&r, CREMA_F64, c->type, c->body, CAFFE__PHASE__TRAIN, c->shapes, c->tops);
  ok(rig_setup(&r));
  fill_blobs(&r, c);
  ok(rig_forward(&r));
  for (int t = 0; t < r.tops; ++t) wanted = compare(c, "top", t, rig_data_of(r.top[t]), wanted);
  for (int t = 0; t < r.tops; ++t) {
    rig_values diff = rig_diff_of(r.top[t]);
    fill(diff, 5, t == 0 ? 1 : 0);
    if (t == 0 && strstr(c->type, "Loss") != NULL) rig_set(diff, 0, 1);
  }
  if (c->with_gradient > 0) ok(rig_backward(&r));
  for (int i = 0; i < c->with_gradient; ++i) {
    wanted = compare(c, "gradient of bottom", i, rig_diff_of(r.bottom[i]), wanted);
  }
  for (int p = 0; p < r.layer->params; ++p) {
    wanted = compare(c, "gradient of parameter", p, rig_diff_of(r.layer->blob[p]), wanted);
  }
  assert_ptr_equal(wanted, c->wanted + c->count);
  rig_free(&r);
}

TEST(layers_of_forks_compute_as_pytorch_does) {
  for (int64_t i = 0; i < COUNT(torch_cases); ++i) check(&torch_cases[i]);
  for (int64_t i = 0; i < COUNT(torch_loss_cases); ++i) check(&torch_loss_cases[i]);
}

TEST(layers_of_detectors_compute_as_others_do) {
  for (int64_t i = 0; i < COUNT(peer_cases); ++i) check(&peer_cases[i]);
  for (int64_t i = 0; i < COUNT(intel_cases); ++i) check(&intel_cases[i]);
  for (int64_t i = 0; i < COUNT(openvino_cases); ++i) check(&openvino_cases[i]);
  for (int64_t i = 0; i < COUNT(yolo_cases); ++i) check(&yolo_cases[i]);
}

/* How many values of x became c->dropped; all others have to be c->kept. */
static int count_dropped(const drop_case *c) {
  char body[120];
  int dropped = 0;
  rig r;
  snprintf(body, sizeof body, "%s { dropout_ratio: %g }",
           strcmp(c->type, "SpatialDropout") == 0 && c->x > 0 ? "spatial_dropout_param"
                                                              : "dropout_param",
           c->ratio);
  rig_make_of(&r, CREMA_F64, c->type, body, CAFFE__PHASE__TRAIN, "100 100", 1);
  ok(rig_setup(&r));
  rig_values x = rig_data_of(r.bottom[0]), y = rig_data_of(r.top[0]);
  for (int64_t i = 0; i < x.count; ++i) rig_set(x, i, c->x);
  ok(rig_forward(&r));
  for (int64_t i = 0; i < y.count; ++i) {
    const bool is_dropped = fabs(rig_get(y, i) - c->dropped) < 1e-7;
    if (!is_dropped && fabs(rig_get(y, i) - c->kept) >= 1e-7) {
      fail_msg("%s of %g made %.9g, PyTorch %g or %g", c->type, c->x, rig_get(y, i), c->kept,
               c->dropped);
    }
    dropped += is_dropped;
  }
  rig_free(&r);
  return dropped;
}

TEST(values_are_dropped_as_pytorch_drops_them) {
  for (int64_t i = 0; i < COUNT(torch_drops); ++i) {
    const drop_case *c = &torch_drops[i];
    const int dropped = count_dropped(c);
    /* Of 10,000, within five standard deviations. */
    assert_true(fabs(dropped - 1e4 * c->ratio) < 5 * sqrt(1e4 * c->ratio * (1 - c->ratio)));
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
