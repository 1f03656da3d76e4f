/* DenseCRF and its lattice against sums over all pairs of pixels, in double. */
#include "layers/dense_crf/lattice.h"
#include "layers/layer_rig.h"

static double kernel_of(const float *a, const float *b, int axes) {
  double sum = 0;
  for (int k = 0; k < axes; ++k)
    sum += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
  return exp(-sum / 2);
}

/* Weighted means by the lattice against the exact ones: how far off is known for such data. */
static void check_lattice(int axes, double spread, double most, double usual, int bands) {
  enum { POINTS = 600, WIDTH = 3 };
  static float feature[POINTS * CR_LATTICE_MOST_AXES], in[POINTS * WIDTH], ones[POINTS];
  static float out[POINTS * WIDTH], sum[POINTS];
  uint32_t random = 77;
  cr_lattice lattice = {0};
  double worst = 0, total = 0;
  for (int i = 0; i < POINTS * axes; ++i) {
    feature[i] = (float)(spread * ((double)(rig_random(&random) % 10000) / 10000));
  }
  for (int i = 0; i < POINTS; ++i) {
    ones[i] = 1;
    /* What is filtered has a slope, which a lattice that mixed up its points would lose. */
    for (int k = 0; k < WIDTH; ++k) in[WIDTH * i + k] = (float)k + feature[i * axes + k % axes];
  }
  ok(cr_lattice_make(&lattice, feature, POINTS, axes, bands > 1 ? POINTS / bands : 0, bands));
  ok(cr_lattice_filter(&lattice, in, WIDTH, bands, false, out));
  ok(cr_lattice_filter(&lattice, ones, 1, bands, false, sum));
  for (int i = 0; i < POINTS; ++i) {
    double wanted[WIDTH] = {0}, all = 0;
    for (int k = 0; k < POINTS; ++k) {
      const double weight = kernel_of(feature + i * axes, feature + k * axes, axes);
      all += weight;
      for (int c = 0; c < WIDTH; ++c) wanted[c] += weight * (double)in[WIDTH * k + c];
    }
    for (int c = 0; c < WIDTH; ++c) {
      const double off = fabs((double)(out[WIDTH * i + c] / sum[i]) - wanted[c] / all);
      worst = fmax(worst, off);
      total += off / (POINTS * WIDTH);
    }
  }
  if (worst > most || total > usual) {
    print_error("%d axes: off by %g at most, %g on average\n", axes, worst, total);
    fail();
  }
  cr_lattice_free(&lattice);
}

TEST(the_lattice_sums_as_all_pairs_do) {
  for (int bands = 1; bands < 8; bands += 3) {
    check_lattice(1, 6, 0.15, 0.05, bands);
    check_lattice(2, 6, 0.25, 0.05, bands);
    check_lattice(5, 3, 0.35, 0.08, bands);
  }
}

/* Rows of some widths are worked on in vectors; the numbers of a row know nothing of each other. */
TEST(rows_of_any_width_are_filtered_as_single_numbers_are) {
  enum { POINTS = 50, AXES = 5, MOST = 40 };
  static float feature[POINTS * AXES], in[POINTS * MOST], out[POINTS * MOST];
  float column[POINTS], wanted[POINTS];
  uint32_t random = 78;
  for (int i = 0; i < POINTS * AXES; ++i) feature[i] = (float)(rig_random(&random) % 1000) / 500;
  for (int i = 0; i < POINTS * MOST; ++i) in[i] = (float)(rig_random(&random) % 1000) / 100;
  for (int width = 1; width <= MOST; width += width < 3 ? 1 : width == 3 ? 5 : 8) {
    cr_lattice lattice = {0};
    ok(cr_lattice_make(&lattice, feature, POINTS, AXES, POINTS / 3, 1));
    ok(cr_lattice_filter(&lattice, in, width, 1, false, out));
    for (int c = 0; c < width; ++c) {
      for (int i = 0; i < POINTS; ++i) column[i] = in[i * width + c];
      ok(cr_lattice_filter(&lattice, column, 1, 1, false, wanted));
      for (int i = 0; i < POINTS; ++i) {
        assert_true(wanted[i] > 0);
        assert_true(out[i * width + c] == wanted[i]);
      }
    }
    cr_lattice_free(&lattice);
  }
}

static double product(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/* For a matrix F of filtering, x (F y) = y (F' x), F' being the matrix of the reverse order. */
TEST(the_reverse_order_gives_the_transposed_sums) {
  enum { POINTS = 60, AXES = 5, WIDTH = 3, VALUES = POINTS * WIDTH };
  static float feature[POINTS * AXES], narrow[VALUES], of_narrow[VALUES];
  static double in[2][VALUES], out[2][VALUES], once[VALUES];
  uint32_t random = 79;
  cr_lattice lattice = {0};
  for (int i = 0; i < POINTS * AXES; ++i) feature[i] = (float)(rig_random(&random) % 1000) / 500;
  for (int i = 0; i < 2 * VALUES; ++i) {
    in[i / VALUES][i % VALUES] = (double)(rig_random(&random) % 1000) / 100 - 4;
  }
  ok(cr_lattice_make(&lattice, feature, POINTS, AXES, POINTS / 3, 2));
  for (int i = 0; i < 2; ++i) {
    ok(cr_lattice_filter_wide(&lattice, in[i], WIDTH, 2, i == 1, out[i]));
    for (int k = 0; k < VALUES; ++k) narrow[k] = (float)in[i][k];
    ok(cr_lattice_filter(&lattice, narrow, WIDTH, 2, i == 1, of_narrow));
    for (int k = 0; k < VALUES; ++k) {
      /* Sums of 60 floats of up to 6, times weights of up to 8. */
      assert_true(fabs((double)of_narrow[k] - out[i][k]) < 1e-3);
    }
  }
  const double wanted = product(in[1], out[0], VALUES);
  assert_true(fabs(wanted - product(in[0], out[1], VALUES)) <= 1e-12 * fabs(wanted));
  /* The order matters: it is not its own transpose. */
  ok(cr_lattice_filter_wide(&lattice, in[1], WIDTH, 1, false, once));
  assert_true(fabs(wanted - product(in[0], once, VALUES)) > 1e-9 * fabs(wanted));
  cr_lattice_free(&lattice);
}

TEST(features_that_make_no_sense_are_refused) {
  static const float bad[3] = {NAN, INFINITY, -2e6f};
  cr_lattice lattice = {0};
  for (int i = 0; i < 3; ++i) {
    const float feature[4] = {0, 0, bad[i], 0};
    assert_int_equal(cr_lattice_make(&lattice, feature, 2, 2, 1, 2), CREMA_E_RANGE);
    assert_error_has("point 1 has feature");
  }
  cr_lattice_free(&lattice);
}

enum { CLASSES = 3, HEIGHT = 12, WIDTH = 14, PLANE = HEIGHT * WIDTH };

/* Noisy scores of two regions and a stripe, and a picture in which they have colours. */
static void fill(rig *r) {
  uint32_t random = 5;
  float *scores = rig_data(r->bottom[0]);
  for (int i = 0; i < PLANE; ++i) {
    const int x = i % WIDTH, label = x < 5 ? 0 : x < 9 ? 1 : 2;
    for (int c = 0; c < CLASSES; ++c) {
      const float noise = (float)(rig_random(&random) % 1000) / 500 - 1;
      scores[c * PLANE + i] = (c == label ? 0.5f : 0) + noise;
    }
    for (int c = 0; c < 3 && r->bottoms == 3; ++c) {
      rig_data(r->bottom[2])[c * PLANE + i] = (float)(40 * label * (c + 1) % 100);
    }
  }
}

typedef struct crf {
  double weight, place, colour;
} crf;

/* The mean field with sums over all pairs of the first height x width pixels. */
static void brute_force(rig *r, const crf *kernels, int count, int iterations, int height,
                        int width, double *q) {
  static double next[PLANE * CLASSES];
  const float *scores = rig_data(r->bottom[0]);
  for (int step = 0; step <= iterations; ++step) {
    for (int i = 0; i < PLANE; ++i) {
      for (int c = 0; c < CLASSES; ++c) next[c * PLANE + i] = (double)scores[c * PLANE + i];
      for (int n = 0; n < count && step > 0; ++n) {
        double all = 0, sum[CLASSES] = {0};
        for (int k = 0; k < PLANE; ++k) {
          if (k / WIDTH >= height || k % WIDTH >= width) continue;
          double square = pow((i % WIDTH - k % WIDTH) / kernels[n].place, 2) +
                          pow((i / WIDTH - k / WIDTH) / kernels[n].place, 2);
          for (int c = 0; c < 3 && kernels[n].colour > 0; ++c) {
            const float *colour = rig_data(r->bottom[2]) + c * PLANE;
            square += pow((double)(colour[i] - colour[k]) / kernels[n].colour, 2);
          }
          all += exp(-square / 2);
          for (int c = 0; c < CLASSES; ++c) sum[c] += exp(-square / 2) * q[c * PLANE + k];
        }
        for (int c = 0; c < CLASSES; ++c) {
          next[c * PLANE + i] += kernels[n].weight * sum[c] / all;
        }
      }
    }
    for (int i = 0; i < PLANE; ++i) {
      double sum = 0;
      for (int c = 0; c < CLASSES; ++c) sum += exp(next[c * PLANE + i]);
      for (int c = 0; c < CLASSES; ++c) q[c * PLANE + i] = exp(next[c * PLANE + i]) / sum;
    }
  }
}

static void check_crf(const char *body, const crf *kernels, int count, int iterations,
                      bool pictures, int height, int width) {
  static double q[PLANE * CLASSES];
  char shapes[100];
  int moved = 0;
  rig r;
  snprintf(shapes, sizeof shapes, "1 3 12 14|1 2%s", pictures ? "|1 3 12 14" : "");
  rig_make(&r, "DenseCRF", body, CAFFE__PHASE__TEST, shapes, 1);
  ok(rig_setup(&r));
  fill(&r);
  rig_data(r.bottom[1])[0] = (float)height;
  rig_data(r.bottom[1])[1] = (float)width;
  ok(rig_forward(&r));
  brute_force(&r, kernels, count, iterations, height, width, q);
  for (int i = 0; i < PLANE; ++i) {
    int best = 0, before = 0;
    for (int c = 0; c < CLASSES; ++c) {
      const double found = (double)rig_data(r.top[0])[c * PLANE + i];
      if (i / WIDTH >= height || i % WIDTH >= width) {
        assert_true(found == 0);
        continue;
      }
      if (fabs(found - q[c * PLANE + i]) > (iterations > 0 ? 0.12 : 1e-6)) {
        print_error("%s: pixel %d, class %d: %g, exactly %g\n", body, i, c, found,
                    q[c * PLANE + i]);
        fail();
      }
      best = q[c * PLANE + i] > q[best * PLANE + i] ? c : best;
      const float *scores = rig_data(r.bottom[0]);
      before = scores[c * PLANE + i] > scores[before * PLANE + i] ? c : before;
    }
    moved += best != before;
  }
  assert_true(iterations == 0 || moved > 10); /* it changed labels */
  rig_free(&r);
}

TEST(labels_by_brute_force) {
  static const crf places[1] = {{3, 2, 0}}, both[2] = {{1, 1.5, 0}, {4, 10, 13}};
  check_crf("dense_crf_param { max_iter: 0 }", places, 0, 0, false, HEIGHT, WIDTH);
  check_crf("dense_crf_param { max_iter: 4 pos_w: 3 pos_xy_std: 2 }", places, 1, 4, false, HEIGHT,
            WIDTH);
  check_crf("dense_crf_param { max_iter: 4 pos_w: 3 pos_xy_std: 2 }", places, 1, 4, false, 9, 8);
  check_crf(
      "dense_crf_param { max_iter: 3 pos_w: 1 pos_xy_std: 1.5 bi_w: 4 bi_xy_std: 10 bi_rgb_std: 13 "
      "}",
      both, 2, 3, true, HEIGHT, WIDTH);
}

TEST(logarithms_and_larger_sizes) {
  rig r[2];
  for (int i = 0; i < 2; ++i) {
    char text[200];
    snprintf(text, sizeof text,
             "dense_crf_param { max_iter: 2 pos_w: 3 pos_xy_std: 2 output_probability: %s }",
             i == 0 ? "true" : "false");
    rig_make(&r[i], "DenseCRF", text, CAFFE__PHASE__TEST, "1 3 12 14|1 2", 1);
    ok(rig_setup(&r[i]));
    fill(&r[i]);
    rig_data(r[i].bottom[1])[0] = i == 0 ? 500 : 12; /* no more than there is */
    rig_data(r[i].bottom[1])[1] = 14;
    ok(rig_forward(&r[i]));
  }
  for (int i = 0; i < PLANE * CLASSES; ++i) {
    assert_true(fabsf(logf(rig_data(r[0].top[0])[i]) - rig_data(r[1].top[0])[i]) < 1e-5f);
  }
  rig_data(r[0].bottom[1])[0] = 0;
  ok(rig_forward(&r[0]));
  for (int i = 0; i < PLANE * CLASSES; ++i) assert_true(rig_data(r[0].top[0])[i] == 0);
  rig_data(r[0].bottom[1])[0] = -1;
  assert_int_equal(rig_forward(&r[0]), CREMA_E_RANGE);
  assert_error_has("an image of -1 x 14");
  rig_data(r[0].bottom[1])[0] = NAN;
  assert_int_equal(rig_forward(&r[0]), CREMA_E_RANGE);
  for (int i = 0; i < 2; ++i) rig_free(&r[i]);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
