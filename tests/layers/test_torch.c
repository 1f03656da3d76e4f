/* Layers of forks, forward and backward, against an independent implementation: torch.inc has what
 * it computes. */
#include "layers/layer_rig.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

typedef struct torch_case {
  const char *type, *body, *shapes;
  int tops, with_gradient; /* how many; of bottoms, the first ones have a gradient */
  const double *wanted;    /* the tops, then the gradients of bottoms and parameters */
  int64_t count;           /* of wanted */
  const double *given;     /* values of the other bottoms */
} torch_case;

#include "layers/torch.inc"

static void fill(rig_values v, int number, double factor) {
  for (int64_t i = 0; i < v.count; ++i) {
    rig_set(v, i, factor * ((double)((i + 11 * number) * 37 % 101) - 50.5) / 32);
  }
}

static void fill_blobs(rig *r, const torch_case *c) {
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
static const double *compare(const torch_case *c, const char *what, int index, rig_values found,
                             const double *wanted) {
  assert_true(wanted + found.count <= c->wanted + c->count);
  for (int64_t i = 0; i < found.count; ++i) {
    const double value = rig_get(found, i);
    if (fabs(value - wanted[i]) <= 2e-8 * fmax(1, fabs(wanted[i]))) continue;
    print_error("%s %s, %s %d, element %lld: %.12g, PyTorch %.12g\n", c->type, c->body, what, index,
                (long long)i, value, wanted[i]);
    fail();
  }
  return wanted + found.count;
}

static void check(const torch_case *c) {
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
  ok(rig_backward(&r));
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
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
