#include "layers/dense_crf/meanfield.h"

#include <math.h>

#include "core/fail.h"

cr_host_results cr_meanfield_map(const cr_meanfield_pass *pass, int step, int which) {
  const int64_t map = pass->of->pixels * pass->of->width;
  return cr_meanfield_from(pass->maps,
                           ((pass->keeps ? step : 0) * CR_MEANFIELD_MAPS + which) * map);
}

static int axes_of(int kernel) {
  return kernel == CR_SPATIAL ? 2 : 5;
}

/* The data of threads that make a kernel. */
typedef struct kernel_making {
  const cr_meanfield_pass *pass;
  int kernel;
} kernel_making;

/* Positions and, for the bilateral kernel, colours in units of their deviations. */
static crema_status fill_features(void *state, int worker, int64_t index) {
  const kernel_making *m = state;
  const cr_meanfield *s = m->pass->of;
  const int axes = axes_of(m->kernel);
  const float place = m->kernel == CR_SPATIAL ? s->gamma : s->alpha;
  float *to = (float *)(void *)s->feature.data + index * CR_MEANFIELD_BAND * axes;
  (void)worker;
  for (int64_t i = index * CR_MEANFIELD_BAND; i < cr_meanfield_end(s, index); ++i) {
    *to++ = (float)(i % s->columns) / place;
    *to++ = (float)(i / s->columns) / place;
    for (int c = 0; c < axes - 2; ++c) {
      const int64_t at = (m->pass->sample * 3 + c) * s->pixels + i;
      *to++ = (float)(cr_host_get(&m->pass->image, at) / (double)s->beta);
    }
  }
  return CREMA_OK;
}

crema_status cr_meanfield_filter(const cr_meanfield_pass *pass, int kernel, int width, bool reverse,
                                 cr_host_results in, cr_host_results out) {
  cr_lattice *l = &pass->of->lattice[kernel];
  if (in.wide != NULL) {
    return cr_lattice_filter_wide(l, in.wide, width, pass->workers, reverse, out.wide);
  }
  return cr_lattice_filter(l, in.narrow, width, pass->workers, reverse, out.narrow);
}

/* The lattice of a kernel, and its norm. */
static crema_status make_kernel(const cr_meanfield_pass *pass, int kernel) {
  cr_meanfield *s = pass->of;
  const int axes = axes_of(kernel);
  CR_TRY(cr_buffer_reserve(&s->feature, (size_t)(s->pixels * axes + 1) * sizeof(float)));
  kernel_making m = {pass, kernel};
  CR_TRY(cr_host_spread(pass->workers, cr_meanfield_bands(s), fill_features, &m));
  CR_TRY(cr_lattice_make(&s->lattice[kernel], (const float *)(const void *)s->feature.data,
                         s->pixels, axes, CR_MEANFIELD_BAND, pass->workers));
  const cr_host_results ones = cr_meanfield_map(pass, 0, 0),
                        norm = cr_meanfield_from(pass->norm, kernel * s->pixels);
  for (int64_t i = 0; i < s->pixels; ++i) cr_host_put(&ones, i, 1);
  CR_TRY(cr_meanfield_filter(pass, kernel, 1, false, ones, norm));
  for (int64_t i = 0; i < s->pixels; ++i) {
    const cr_host_values sum = cr_meanfield_values(norm);
    cr_host_put(&norm, i, 1 / (cr_host_get(&sum, i) + 1e-20));
  }
  return CREMA_OK;
}

crema_status cr_meanfield_make(const cr_meanfield_pass *pass) {
  cr_meanfield *s = pass->of;
  if (!s->spatial_made) CR_TRY(make_kernel(pass, CR_SPATIAL));
  s->spatial_made = true;
  return make_kernel(pass, CR_BILATERAL);
}

void cr_meanfield_mean(const cr_meanfield_pass *pass, int step, int kernel, int64_t i, double *to) {
  const cr_meanfield *s = pass->of;
  const cr_host_values norms = cr_meanfield_values(pass->norm),
                       sums = cr_meanfield_values(cr_meanfield_map(pass, step, 1 + kernel));
  const double norm = cr_host_get(&norms, kernel * s->pixels + i);
  for (int64_t c = 0; c < s->classes; ++c) to[c] = norm * cr_host_get(&sums, i * s->width + c);
}

static void softmax(double *x, int64_t count) {
  double most = x[0], sum = 0;
  for (int64_t c = 1; c < count; ++c) most = x[c] > most ? x[c] : most;
  for (int64_t c = 0; c < count; ++c) sum += x[c] = exp(x[c] - most);
  for (int64_t c = 0; c < count; ++c) x[c] /= sum;
}

/* x of a pixel at the start of iteration `step`, from the means of the iteration before. */
static void compute_x(const cr_meanfield_pass *pass, int worker, int64_t i, double *x) {
  const cr_meanfield *s = pass->of;
  const int64_t n = s->classes, first = pass->sample * n * s->pixels + i;
  const cr_host_values *start = pass->step == 0 ? &pass->estimate : &pass->scores;
  for (int64_t c = 0; c < n; ++c) x[c] = cr_host_get(start, first + c * s->pixels);
  for (int k = 0; k < CR_MEANFIELD_KERNELS && pass->step > 0; ++k) {
    const double *product = cr_meanfield_product(s, k);
    double *mean = cr_meanfield_row(s, worker, 1);
    cr_meanfield_mean(pass, pass->step - 1, k, i, mean);
    for (int64_t j = 0; j < n; ++j, product += n) {
      for (int64_t c = 0; c < n; ++c) x[c] -= product[c] * mean[j];
    }
  }
}

/* Makes the probabilities of an iteration or, after the last one, the top. */
static crema_status step_band(void *state, int worker, int64_t index) {
  const cr_meanfield_pass *pass = state;
  const cr_meanfield *s = pass->of;
  const int64_t first = pass->sample * s->classes * s->pixels;
  double *x = cr_meanfield_row(s, worker, 0);
  for (int64_t i = index * CR_MEANFIELD_BAND; i < cr_meanfield_end(s, index); ++i) {
    compute_x(pass, worker, i, x);
    if (pass->step == s->iterations) {
      for (int64_t c = 0; c < s->classes; ++c) {
        cr_host_put(&pass->top, first + c * s->pixels + i, x[c]);
      }
      continue;
    }
    const cr_host_results p =
        cr_meanfield_from(cr_meanfield_map(pass, pass->step, 0), i * s->width);
    softmax(x, s->classes);
    for (int64_t c = 0; c < s->width; ++c) cr_host_put(&p, c, c < s->classes ? x[c] : 0);
  }
  return CREMA_OK;
}

crema_status cr_meanfield_infer(cr_meanfield_pass *pass) {
  const cr_meanfield *s = pass->of;
  for (pass->step = 0; pass->step <= s->iterations; ++pass->step) {
    if (pass->step == s->iterations && !cr_meanfield_wants(&pass->top)) break;
    CR_TRY(cr_host_spread(pass->workers, cr_meanfield_bands(s), step_band, pass));
    for (int k = 0; k < CR_MEANFIELD_KERNELS && pass->step < s->iterations; ++k) {
      CR_TRY(cr_meanfield_filter(pass, k, (int)s->width, false,
                                 cr_meanfield_map(pass, pass->step, 0),
                                 cr_meanfield_map(pass, pass->step, 1 + k)));
    }
  }
  return CREMA_OK;
}
