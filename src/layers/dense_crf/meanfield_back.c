/* The backward pass of the mean field. The gradient of an iteration's x reaches the scores, through
 * each kernel the probabilities of the iteration before, and through their softmax its x. */
#include "core/fail.h"
#include "layers/dense_crf/meanfield.h"

/* The gradient of the sums of kernel k, or of the probabilities through that kernel. */
static cr_host_results gradient_of(const cr_meanfield_pass *pass, int k, bool of_probabilities) {
  const int64_t map = pass->of->pixels * pass->of->width;
  return cr_meanfield_from(pass->gradient,
                           (k + (of_probabilities ? CR_MEANFIELD_KERNELS : 0)) * map);
}

/* The gradient of x of a pixel: the top's, or through the softmax of iteration `step`. */
static void read_gradient(const cr_meanfield_pass *pass, int worker, int64_t i, double *dx) {
  const cr_meanfield *s = pass->of;
  const int64_t n = s->classes, first = pass->sample * n * s->pixels + i;
  double *p = cr_meanfield_row(s, worker, 1), dot = 0;
  if (pass->step == s->iterations) {
    for (int64_t c = 0; c < n; ++c) dx[c] = cr_host_get(&pass->diff, first + c * s->pixels);
    return;
  }
  const cr_host_values probability = cr_meanfield_values(cr_meanfield_map(pass, pass->step, 0)),
                       one = cr_meanfield_values(gradient_of(pass, CR_SPATIAL, true)),
                       two = cr_meanfield_values(gradient_of(pass, CR_BILATERAL, true));
  for (int64_t c = 0; c < n; ++c) {
    p[c] = cr_host_get(&probability, i * s->width + c);
    dx[c] = cr_host_get(&one, i * s->width + c) + cr_host_get(&two, i * s->width + c);
    dot += p[c] * dx[c];
  }
  for (int64_t c = 0; c < n; ++c) dx[c] = p[c] * (dx[c] - dot);
}

/* The gradient of kernel k's sum at a pixel, and the band's products of gradient and mean. */
static void pass_down(const cr_meanfield_pass *pass, int worker, int k, int64_t band, int64_t i) {
  const cr_meanfield *s = pass->of;
  const int64_t n = s->classes;
  const double *dx = cr_meanfield_row(s, worker, 0);
  double *mean = cr_meanfield_row(s, worker, 1);
  const double *product = cr_meanfield_product(s, k);
  double *sum = (double *)(void *)s->sum.data + (band * CR_MEANFIELD_KERNELS + k) * n * n;
  const cr_host_results to = cr_meanfield_from(gradient_of(pass, k, false), i * s->width);
  const cr_host_values norms = cr_meanfield_values(pass->norm);
  const double norm = cr_host_get(&norms, k * s->pixels + i);
  cr_meanfield_mean(pass, pass->step - 1, k, i, mean);
  for (int64_t j = 0; j < n; ++j, product += n, sum += n) {
    double dot = 0;
    for (int64_t c = 0; c < n; ++c) {
      dot += product[c] * dx[c];
      sum[c] += dx[c] * mean[j];
    }
    cr_host_put(&to, j, -norm * dot);
  }
  for (int64_t j = n; j < s->width; ++j) cr_host_put(&to, j, 0);
}

static crema_status back_band(void *state, int worker, int64_t index) {
  const cr_meanfield_pass *pass = state;
  const cr_meanfield *s = pass->of;
  const bool last = pass->step == s->iterations, scores = cr_meanfield_wants(&pass->diff_scores);
  double *dx = cr_meanfield_row(s, worker, 0);
  const cr_host_values old = cr_meanfield_values(pass->diff_scores);
  for (int64_t i = index * CR_MEANFIELD_BAND; i < cr_meanfield_end(s, index); ++i) {
    const int64_t at = pass->sample * s->classes * s->pixels + i;
    read_gradient(pass, worker, i, dx);
    for (int64_t c = 0; c < s->classes; ++c) {
      const int64_t to = at + c * s->pixels;
      if (pass->step == 0) cr_host_put(&pass->diff_estimate, to, dx[c]);
      else if (scores) {
        cr_host_put(&pass->diff_scores, to, (last ? 0 : cr_host_get(&old, to)) + dx[c]);
      }
    }
    for (int k = 0; k < CR_MEANFIELD_KERNELS && pass->step > 0; ++k)
      pass_down(pass, worker, k, index, i);
  }
  return CREMA_OK;
}

crema_status cr_meanfield_back(cr_meanfield_pass *pass) {
  const cr_meanfield *s = pass->of;
  for (pass->step = s->iterations; pass->step >= 0; --pass->step) {
    if (pass->step == 0 && !cr_meanfield_wants(&pass->diff_estimate)) break;
    CR_TRY(cr_host_spread(pass->workers, cr_meanfield_bands(s), back_band, pass));
    for (int k = 0; k < CR_MEANFIELD_KERNELS && pass->step > 0; ++k) {
      CR_TRY(cr_meanfield_filter(pass, k, (int)s->width, true, gradient_of(pass, k, false),
                                 gradient_of(pass, k, true)));
    }
  }
  return CREMA_OK;
}
