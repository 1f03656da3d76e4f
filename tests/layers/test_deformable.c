/* DeformablePSROIPooling by its formula, with cells weighted by their distance, and places at the
 * border of DeformableConvolution. */
#include "layers/layer_rig.h"

enum { REGIONS = 4, HEIGHT = 5, WIDTH = 6, OUTPUTS = 4, GROUP = 2, CLASSES = 2, PART = 3 };

typedef struct pooling {
  int pooled, samples;
  double scale, deviation;
} pooling;

static void fill(rig_values v, uint32_t *random) {
  for (int64_t i = 0; i < v.count; ++i) rig_set(v, i, (rig_random(random) % 1000) / 400.0 - 1);
}

static void fill_regions(rig_values v) {
  static const double region[REGIONS][5] = {
      {0, 0.4, 1.5, 7.6, 5}, {1, 3, 2, 3, 2}, {1, 4.5, 4, 30, 20}, {0, 5, 5, 2, 3}};
  for (int i = 0; i < REGIONS * 5; ++i) rig_set(v, i, region[i / 5][i % 5]);
}

static double into(double at, double last) {
  return at < 0 ? 0 : at > last ? last : at;
}

/* The value of a plane at a place, from all cells less than one cell away. */
static double value_at(rig_values x, int64_t plane, double row, double column) {
  double sum = 0;
  for (int i = 0; i < HEIGHT * WIDTH; ++i) {
    const double down = 1 - fabs(into(row, HEIGHT - 1) - i / WIDTH);
    const double right = 1 - fabs(into(column, WIDTH - 1) - i % WIDTH);
    if (down > 0 && right > 0) sum += down * right * rig_get(x, plane * HEIGHT * WIDTH + i);
  }
  return sum;
}

/* Result o of part (i, j) of region r. */
static double expect(rig *r, const pooling *p, int region, int o, int i, int j) {
  const rig_values rois = rig_data_of(r->bottom[1]), offsets = rig_data_of(r->bottom[2]);
  const int part[2] = {i * PART / p->pooled, j * PART / p->pooled};
  const int group = (o * GROUP + i * GROUP / p->pooled) * GROUP + j * GROUP / p->pooled;
  const int64_t plane = (int64_t)rig_get(rois, 5 * region) * OUTPUTS * GROUP * GROUP + group;
  double start[2], step[2], sum = 0;
  int count = 0;
  for (int a = 0; a < 2; ++a) { /* rows, then columns */
    const int pair = (region * CLASSES + o * CLASSES / OUTPUTS) * 2 + (a == 0);
    const double shift = rig_get(offsets, (pair * PART + part[0]) * PART + part[1]);
    const double low = round(rig_get(rois, 5 * region + 2 - a)) * p->scale - 0.5;
    const double high = (round(rig_get(rois, 5 * region + 4 - a)) + 1) * p->scale - 0.5;
    const double extent = fmax(high - low, 0.1);
    start[a] = low + extent * ((a == 0 ? i : j) / (double)p->pooled + p->deviation * shift);
    step[a] = extent / p->pooled / p->samples;
  }
  for (int k = 0; k < p->samples * p->samples; ++k) {
    const double row = start[0] + k / p->samples * step[0];
    const double column = start[1] + k % p->samples * step[1];
    if (row < -0.5 || row > HEIGHT - 0.5 || column < -0.5 || column > WIDTH - 0.5) continue;
    sum += value_at(rig_data_of(r->bottom[0]), plane, row, column);
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

static void check_pooling(const pooling *p, const char *more) {
  uint32_t random = 41;
  char body[250];
  int zeros = 0;
  rig r;
  snprintf(body, sizeof body,
           "deformable_psroi_pooling_param { spatial_scale: %g output_dim: 4 group_size: 2 "
           "part_size: 3 sample_per_part: %d trans_std: %g %s }",
           p->scale, p->samples, p->deviation, more);
  rig_make_of(&r, CREMA_F64, "DeformablePSROIPooling", body, CAFFE__PHASE__TRAIN,
              "2 16 5 6|4 5|4 4 3 3", 1);
  ok(rig_setup(&r));
  fill(rig_data_of(r.bottom[0]), &random);
  fill_regions(rig_data_of(r.bottom[1]));
  fill(rig_data_of(r.bottom[2]), &random);
  ok(rig_forward(&r));
  const rig_values y = rig_data_of(r.top[0]);
  assert_int_equal(y.count, REGIONS * OUTPUTS * p->pooled * p->pooled);
  for (int v = 0; v < (int)y.count; ++v) {
    const int j = v % p->pooled, i = v / p->pooled % p->pooled, o = v / p->pooled / p->pooled;
    const double wanted = expect(&r, p, o / OUTPUTS, o % OUTPUTS, i, j);
    zeros += wanted == 0;
    if (fabs(rig_get(y, v) - wanted) <= 1e-12) continue;
    fail_msg("%s: region %d, result %d, part %d %d is %.12g, by distances %.12g", body, o / OUTPUTS,
             o % OUTPUTS, i, j, rig_get(y, v), wanted);
  }
  assert_true(zeros > 0 && zeros < y.count / 2); /* some parts are outside of the map */
  rig_free(&r);
}

TEST(shifted_parts_by_distances) {
  check_pooling(&(pooling){2, 3, 0.75, 0.25}, "");
  check_pooling(&(pooling){5, 2, 0.5, 0.5}, "pooled_size: 5");
}

TEST(regions_need_an_image) {
  static const double bad[] = {2, -1, NAN};
  rig r;
  rig_make(
      &r, "DeformablePSROIPooling",
      "deformable_psroi_pooling_param { spatial_scale: 1 output_dim: 1 group_size: 1 no_trans: "
      "true }",
      CAFFE__PHASE__TRAIN, "2 1 5 6|2 5", 1);
  ok(rig_setup(&r));
  for (int i = 0; i < 3; ++i) {
    rig_data(r.bottom[1])[5] = (float)bad[i];
    assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
    assert_error_has("region 1 is of image");
  }
  rig_data(r.bottom[1])[5] = 1;
  ok(rig_forward(&r));
  rig_free(&r);
}

/* Each place of one row of three pixels: where the map's border is, as in the forks' code. */
TEST(places_at_the_border_of_a_convolution) {
  static const struct {
    float offset, wanted;
  } places[] = {{-0.01F, 0}, {0, 1},     {0.5F, 1.5F}, {1.75F, 2.75F}, {2, 3},
                {2.25F, 3},  {2.99F, 3}, {3, 0},       {4, 0},         {-1, 0}};
  rig r;
  rig_make(&r, "DeformableConvolution",
           "deformable_convolution_param { num_output: 1 kernel_size: 1 bias_term: false }",
           CAFFE__PHASE__TRAIN, "1 1 1 3|1 2 1 3", 1);
  ok(rig_setup(&r));
  rig_data(r.layer->blob[0])[0] = 1;
  for (int i = 0; i < 3; ++i) rig_data(r.bottom[0])[i] = (float)(i + 1);
  for (size_t k = 0; k < sizeof places / sizeof places[0]; ++k) {
    rig_data(r.bottom[1])[3] = places[k].offset; /* of the first place, to the right */
    ok(rig_forward(&r));
    const float found = rig_data(r.top[0])[0];
    if (fabsf(found - places[k].wanted) <= 1e-6F) continue;
    fail_msg("offset %g: %g, must be %g", (double)places[k].offset, (double)found,
             (double)places[k].wanted);
  }
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
