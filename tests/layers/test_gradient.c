/* Every layer of the registry on the shapes of layer_rows.inc: the backward pass against finite
 * differences of the forward pass, accumulation into parameters, running in place, and changes of
 * shape between passes. */
#include "layers/common/layer_noop.h"
#include "layers/layer_table.h"

/* How gradients of a type are checked: half the distance between the two points of a difference
 * (test values are further apart), and how far the gradient may be off, relative to the larger of
 * the gradient and 1. In DOUBLE a number that is rounded to float on the way, 6e-8, shows. */
typedef struct precision {
  crema_dtype type;
  double step, tolerance;
} precision;

static const precision in_float = {CREMA_F32, 2e-3, 5e-3}, in_double = {CREMA_F64, 1e-5, 1e-8};

static double objective(rig *r, const layer_row *row) {
  double sum = 0;
  ok(rig_forward(r));
  for (int t = 0; t < row->differentiable; ++t) {
    rig_values top = rig_data_of(r->top[t]);
    for (int64_t i = 0; i < top.count; ++i) sum += rig_get(top, i) * (double)top_weight(t, i);
  }
  return sum;
}

/* Compares `expected` gradients of `blob` with differences of the objective. */
static void check_blob(rig *r, const layer_row *row, const precision *in, crema_blob *blob,
                       const double *expected, const char *what, int index) {
  const double tolerance = has_flag(row, 'A') ? fmax(in->tolerance, 1e-3) : in->tolerance;
  int64_t count = crema_blob_count(blob);
  for (int64_t i = 0; i < count; ++i) {
    double kept = rig_get(rig_data_of(blob), i);
    rig_set(rig_data_of(blob), i, kept + in->step);
    double above = rig_get(rig_data_of(blob), i), high = objective(r, row);
    rig_set(rig_data_of(blob), i, kept - in->step);
    double below = rig_get(rig_data_of(blob), i), low = objective(r, row);
    rig_set(rig_data_of(blob), i, kept);
    double found = (high - low) / (above - below);
    double scale = fabs(found) > 1 ? fabs(found) : 1;
    if (fabs(found - expected[i]) <= tolerance * scale) continue;
    print_error("%s %s, %s %s %d, element %lld: gradient %.12g, by differences %.12g\n", row->type,
                row->body, crema_dtype_name(in->type), what, index, (long long)i, expected[i],
                found);
    fail();
  }
}

static double *gradient_of(crema_blob *blob) {
  rig_values diff = rig_diff_of(blob);
  double *out = malloc(((size_t)diff.count + 1) * sizeof *out);
  assert_non_null(out);
  for (int64_t i = 0; i < diff.count; ++i) out[i] = rig_get(diff, i);
  return out;
}

static float *copy_of(const float *from, int64_t count) {
  float *out = malloc(((size_t)count + 1) * sizeof *out);
  assert_non_null(out);
  memcpy(out, from, (size_t)count * sizeof *out);
  return out;
}

static void check_gradients(const layer_row *row, const precision *in) {
  int64_t compared = 0;
  uint32_t random = 2463534242u;
  double *grad[2 * RIG_MAX] = {0};
  rig r;
  make_of(&r, row, in->type, false, &random);
  (void)objective(&r, row);
  if (has_flag(row, 'N')) {
    rig_free(&r);
    return;
  }
  set_top_diffs(&r, row);
  ok(rig_backward(&r));
  for (int i = 0; i < r.bottoms; ++i) grad[i] = gradient_of(r.bottom[i]);
  for (int p = 0; p < r.layer->params; ++p) grad[RIG_MAX + p] = gradient_of(r.layer->blob[p]);
  for (int i = 0; i < r.bottoms; ++i) {
    if (r.propagate_down[i] && (row->values[i] == 'n' || row->values[i] == 'p')) {
      check_blob(&r, row, in, r.bottom[i], grad[i], "bottom", i);
      compared += crema_blob_count(r.bottom[i]);
    }
  }
  for (int p = 0; p < r.layer->params; ++p) {
    if (!r.layer->param_propagate_down[p] || has_flag(row, 'P')) continue;
    check_blob(&r, row, in, r.layer->blob[p], grad[RIG_MAX + p], "parameter", p);
    compared += crema_blob_count(r.layer->blob[p]);
  }
  assert_true(compared > 0); /* else the row wants the flag N */
  for (int i = 0; i < 2 * RIG_MAX; ++i) free(grad[i]);
  rig_free(&r);
}

/* A second backward pass doubles the gradients of parameters and leaves those of bottoms; a
 * parameter that asks for none keeps a diff of 0. */
static void check_accumulation(const layer_row *row) {
  uint32_t random = 88172645u;
  rig r;
  make(&r, row, false, &random);
  ok(rig_forward(&r));
  for (int p = 0; p < r.layer->params && !has_flag(row, 'N'); ++p) {
    crema_blob *blob = r.layer->blob[p];
    int64_t count = crema_blob_count(blob);
    bool wanted = r.layer->param_propagate_down[p];
    for (int k = 0; k < r.layer->params; ++k) r.layer->param_propagate_down[k] = k == p && wanted;
    for (int k = 0; k < r.layer->params; ++k) cr_tensor_set_zero(r.layer->blob[k]->diff);
    set_top_diffs(&r, row);
    ok(rig_backward(&r));
    float *once = copy_of(rig_diff(blob), count);
    set_top_diffs(&r, row);
    ok(rig_backward(&r));
    const float *twice = rig_diff(blob);
    for (int64_t i = 0; i < count; ++i) {
      assert_true(fabsf(twice[i] - 2 * once[i]) <= 1e-5f * (1 + fabsf(twice[i])));
    }
    for (int k = 0; k < r.layer->params; ++k) {
      const float *diff = rig_diff(r.layer->blob[k]);
      for (int64_t i = 0; k != p && i < crema_blob_count(r.layer->blob[k]); ++i) {
        assert_true(diff[i] == 0);
      }
    }
    free(once);
    r.layer->param_propagate_down[p] = wanted;
  }
  rig_free(&r);
}

static void assert_near(const layer_row *row, const char *what, const float *a, const float *b,
                        int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (fabsf(a[i] - b[i]) <= 1e-6f * (1 + fabsf(a[i]))) continue;
    print_error("%s %s, %s, element %lld: %g and %g\n", row->type, row->body, what, (long long)i,
                (double)a[i], (double)b[i]);
    fail();
  }
}

/* The same values and gradients in place as with a top of its own. */
static void check_in_place(const layer_row *row) {
  rig apart, joined;
  uint32_t random = 123459876u;
  make(&apart, row, false, &random);
  random = 123459876u;
  make(&joined, row, true, &random);
  int64_t count = crema_blob_count(apart.top[0]);
  ok(rig_forward(&apart));
  ok(rig_forward(&joined));
  assert_near(row, "top in place", rig_data(apart.top[0]), rig_data(joined.top[0]), count);
  set_top_diffs(&apart, row);
  set_top_diffs(&joined, row);
  ok(rig_backward(&apart));
  ok(rig_backward(&joined));
  for (int i = 0; i < apart.bottoms; ++i) {
    assert_near(row, "bottom gradient in place", rig_diff(apart.bottom[i]),
                rig_diff(joined.bottom[i]), crema_blob_count(apart.bottom[i]));
  }
  for (int p = 0; p < apart.layer->params; ++p) {
    assert_near(row, "parameter gradient in place", rig_diff(apart.layer->blob[p]),
                rig_diff(joined.layer->blob[p]), crema_blob_count(apart.layer->blob[p]));
  }
  rig_free(&joined);
  rig_free(&apart);
}

/* Asked for the gradient of one bottom at a time, a layer writes the same values and leaves the
 * other diffs alone. */
static void check_propagation(const layer_row *row) {
  static const float untouched = 1234.5f;
  uint32_t random = 123459876u;
  bool wanted[RIG_MAX];
  rig r;
  make(&r, row, false, &random);
  memcpy(wanted, r.propagate_down, sizeof wanted);
  for (int i = 0; i < r.bottoms && !has_flag(row, 'N'); ++i) {
    int64_t count = crema_blob_count(r.bottom[i]);
    if (!wanted[i]) continue;
    ok(rig_forward(&r));
    memcpy(r.propagate_down, wanted, sizeof wanted);
    set_top_diffs(&r, row);
    ok(rig_backward(&r));
    float *all = copy_of(rig_diff(r.bottom[i]), count);
    for (int k = 0; k < r.bottoms; ++k) {
      r.propagate_down[k] = k == i;
      float *diff = rig_diff(r.bottom[k]);
      for (int64_t j = 0; j < crema_blob_count(r.bottom[k]); ++j) diff[j] = untouched;
    }
    set_top_diffs(&r, row);
    ok(rig_backward(&r));
    assert_near(row, "gradient of one bottom", all, rig_diff(r.bottom[i]), count);
    for (int k = 0; k < r.bottoms; ++k) {
      const float *diff = rig_diff(r.bottom[k]);
      for (int64_t j = 0; k != i && j < crema_blob_count(r.bottom[k]); ++j) {
        assert_true(diff[j] == untouched);
      }
    }
    free(all);
  }
  rig_free(&r);
}

/* Adds `more` to the first extent of every bottom that has as many as bottom 0. */
static void grow(rig *r, int64_t more) {
  int64_t extent = r->bottom[0]->shape.dim[0];
  for (int i = 0; i < r->bottoms; ++i) {
    crema_shape shape = r->bottom[i]->shape;
    if (shape.axes < 1 || shape.dim[0] != extent) continue;
    shape.dim[0] += more;
    ok(crema_blob_reshape(r->bottom[i], &shape));
  }
  ok(r->layer->kind->reshape(r->layer, r->bottom, r->top));
}

/* A pass over a larger batch in between changes nothing. */
static void check_reshape(const layer_row *row) {
  rig r;
  uint32_t random = 362436069u;
  make(&r, row, false, &random);
  if (r.bottoms == 0 || has_flag(row, 'F')) {
    rig_free(&r);
    return;
  }
  random = 521288629u;
  fill_bottoms(&r, row, &random);
  ok(rig_forward(&r));
  float *before[RIG_MAX] = {0};
  for (int t = 0; t < r.tops; ++t) {
    before[t] = copy_of(rig_data(r.top[t]), crema_blob_count(r.top[t]));
  }
  grow(&r, 2);
  fill_bottoms(&r, row, &random);
  ok(rig_forward(&r));
  set_top_diffs(&r, row);
  if (!has_flag(row, 'N')) ok(rig_backward(&r));
  grow(&r, -2);
  random = 521288629u;
  fill_bottoms(&r, row, &random);
  ok(rig_forward(&r));
  for (int t = 0; t < r.tops; ++t) {
    assert_near(row, "top after reshapes", before[t], rig_data(r.top[t]),
                crema_blob_count(r.top[t]));
    free(before[t]);
  }
  rig_free(&r);
}

/* A batch of no items passes both ways and adds nothing to the gradients of parameters. */
static void check_empty_batch(const layer_row *row) {
  uint32_t random = 77031u;
  rig r;
  make(&r, row, false, &random);
  if (r.bottoms == 0 || has_flag(row, 'F') || r.bottom[0]->shape.axes < 2) {
    rig_free(&r);
    return;
  }
  grow(&r, -r.bottom[0]->shape.dim[0]);
  ok(rig_forward(&r));
  for (int t = 0; t < r.tops; ++t) {
    for (int64_t i = 0; i < crema_blob_count(r.top[t]); ++i) {
      assert_true(isfinite(rig_data(r.top[t])[i]));
    }
  }
  for (int p = 0; p < r.layer->params; ++p) cr_tensor_set_zero(r.layer->blob[p]->diff);
  set_top_diffs(&r, row);
  if (!has_flag(row, 'N')) ok(rig_backward(&r));
  for (int p = 0; p < r.layer->params; ++p) {
    const float *diff = rig_diff(r.layer->blob[p]);
    for (int64_t i = 0; i < crema_blob_count(r.layer->blob[p]); ++i) {
      if (diff[i] == 0) continue;
      print_error("%s %s, parameter %d of an empty batch: gradient %g\n", row->type, row->body, p,
                  (double)diff[i]);
      fail();
    }
  }
  rig_free(&r);
}

TEST(test_rows) {
  for (size_t i = 0; i < ROWS; ++i) {
    if (has_flag(&rows[i], 'S')) continue;
    check_gradients(&rows[i], &in_float);
    check_gradients(&rows[i], &in_double);
    check_accumulation(&rows[i]);
    check_reshape(&rows[i]);
    check_propagation(&rows[i]);
    check_empty_batch(&rows[i]);
    if (has_flag(&rows[i], 'I')) check_in_place(&rows[i]);
  }
}

typedef bool class_filter(const cr_layer_class *kind);
typedef bool row_filter(const layer_row *row);

/* Each type of layer that is `meant` has a row that `fits`. */
static void check_rows(class_filter *meant, row_filter *fits, const char *what) {
  size_t count = 0;
  const char *const *names = cr_layer_class_names(&count);
  for (size_t n = 0; n < count; ++n) {
    const cr_layer_class *kind = NULL;
    bool found = false;
    ok(cr_layer_class_find(names[n], &kind));
    if (!meant(kind)) continue;
    for (size_t i = 0; i < ROWS && !found; ++i) {
      found = strcmp(rows[i].type, names[n]) == 0 && fits(&rows[i]);
    }
    if (!found) fail_msg("layer type %s has no row %s", names[n], what);
  }
}

static bool is_layer(const cr_layer_class *kind) {
  return kind != NULL;
}

static bool is_row(const layer_row *row) {
  return row != NULL;
}

TEST(test_every_layer_has_a_row) {
  check_rows(is_layer, is_row, "in layer_rows.inc");
}

static bool is_in_place(const cr_layer_class *kind) {
  return kind->in_place;
}

static bool runs_in_place(const layer_row *row) {
  return has_flag(row, 'I') || has_flag(row, 'N');
}

TEST(test_every_layer_in_place_has_a_row) {
  check_rows(is_in_place, runs_in_place, "that runs in place");
}

static bool has_gradient(const cr_layer_class *kind) {
  return kind->backward != NULL && kind->backward != cr_layer_noop_backward;
}

static bool has_checked_gradient(const layer_row *row) {
  return !has_flag(row, 'N') && !has_flag(row, 'S');
}

/* A layer with a gradient has a row that checks it; source layers have none. */
TEST(test_every_gradient_has_a_row) {
  check_rows(has_gradient, has_checked_gradient, "that checks its gradient");
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
