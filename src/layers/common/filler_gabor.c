/* A Gabor filter is a plane wave under a bell: over x and y from -1 to 1,
 *
 *   amplitude exp(-(x^2 + y^2) / (2 sigma^2)) cos(omega (x cos theta - y sin theta) + phi),
 *
 * times a factor for each of three channels. The first filters of a bank turn a wave through all
 * directions at several frequencies, the last ones separate colours. The parameters come from Intel
 * Caffe. */
#include "layers/common/filler_gabor.h"

#include <math.h>
#include <stddef.h>

static const double pi = 3.14159265358979323846;

typedef struct gabor {
  double amplitude, sigma;
  double omega; /* where `slow`: as it is; otherwise in half-waves from the middle to an edge */
  double theta, phi; /* in multiples of pi */
  bool slow;
  double channel[3];
} gabor;

/* Filters up to `end`, which differ in their angle and phase: the nth has the angle and phase of
 * `first`, plus n times a step. */
typedef struct gabor_group {
  int end;
  gabor first;
  double theta_step, phi_step;
} gabor_group;

/* Waves in `directions` directions, at eight frequencies each. */
static gabor wave(int filter, double amplitude, double sigma, int directions) {
  const int frequency = filter % 8;
  return (gabor){.amplitude = amplitude / (1 + frequency / 8.0),
                 .sigma = sigma + 0.2 * frequency / 8,
                 .omega = 1 / (1 + frequency / 2.0),
                 .theta = (double)(filter / 8) / directions,
                 .phi = filter % 2 + 12 / 32.0,
                 .channel = {1, 1, 1}};
}

/* Spots of one colour on another; `size` of the `sizes` that there are, then the reverse. */
static gabor spot(int filter, double amplitude, int sizes) {
  const int size = filter % sizes;
  return (gabor){.amplitude = amplitude / (1 + size / 2.0),
                 .sigma = 1 / (2.5 - size / 2.0),
                 .omega = 0.25,
                 .phi = filter / sizes,
                 .slow = true,
                 .channel = {0.25, -1, 1}};
}

/* The filter of the first gabor_group that ends after it; groups start at `start`. */
static gabor of_groups(const gabor_group *groups, int start, int filter) {
  while (filter >= groups->end) {
    start = groups->end;
    ++groups;
  }
  gabor g = groups->first;
  g.theta += (filter - start) * groups->theta_step;
  g.phi += (filter - start) * groups->phi_step;
  return g;
}

/* For CIFAR-10: 32 of 5 x 5. */
static gabor of_32(int filter) {
  static const gabor_group groups[] = {
      {8, {0.5, 0.6, 1, 0, 0, false, {1, 1, 1}}, 1 / 8.0, 0},
      {14, {0.5, 0.6, 1 / 2.0, 1 / 12.0, 0, false, {1, 1, 1}}, 1 / 6.0, 0},
      {16, {0.5, 0.75, 1 / 8.0, 0, 0, false, {1, -1, 1}}, 0, 1},
      {20, {0.5, 0.6, 1 / 4.0, 3 / 8.0, 0.5, false, {1, 1, 1}}, 0.5, 0},
      {24, {0.5, 0.6, 1 / 4.0, 3 / 8.0, 0.5, false, {1, 0, -1}}, 0.5, 0},
      {28, {0.5, 0.6, 1 / 4.0, 3 / 8.0, 0.5, false, {-1, 1, 1}}, 0.5, 0},
      {30, {0.5, 0.6, 1 / 4.0, 1 / 8.0, 0.5, false, {-1, 1, -1}}, 0.5, 0},
      {32, {0.5, 0.6, 1 / 4.0, 3 / 8.0, 0.5, false, {1, 1, 0}}, 0.5, 0},
  };
  return of_groups(groups, 0, filter);
}

/* For GoogLeNet: 64 of 7 x 7. */
static gabor of_64(int filter) {
  static const gabor_group groups[] = {
      {40, {0.5, 0.45, 1, 0, 1, false, {1, 1, 1}}, 1 / 8.0, 0},
      {.end = 46}, /* spots */
      {48, {2 / 3.0, 1, 1 / 12.0, 1 / 8.0, 0.5, false, {1, 0.1, -0.5}}, 1, 0},
      {56, {2 / 3.0, 1, 1 / 12.0, 1 / 32.0, 0.5, false, {-0.5, 0.1, 1}}, 1 / 4.0, 0},
      {60, {1, 1, 1 / 12.0, 1 / 8.0, 0.5, false, {0.25, -1, 1}}, 0.5, 0},
      {64, {2 / 3.0, 1, 1 / 12.0, 1 / 8.0, 0.5, false, {-1, -1, 1}}, 0.5, 0},
  };
  if (filter < 32) return wave(filter, 1, 0.4, 4);
  /* Their phases begin with the reverse. */
  if (filter >= 40 && filter < 46) return spot(filter - 40 + 3, 1, 3);
  return of_groups(groups, 32, filter);
}

/* For VGG: 64 of 3 x 3. */
static gabor of_64_small(int filter) {
  gabor g = of_64(filter);
  g.sigma = 1;
  return g;
}

/* For AlexNet: 96 of 11 x 11. */
static gabor of_96(int filter) {
  static const gabor_group groups[] = {
      {60, {1 / 4.5, 0.75, 1 / 8.0, 1 / 8.0, 0.5, false, {-1, 1, -0.5}}, 0.5, 0},
      {64, {1 / 9.0, 2, 1 / 8.0, 1 / 8.0, 0.5, false, {1, -0.5, -0.75}}, 0.5, 0},
      {72, {1 / 4.5, 0.75, 1 / 4.0, 1 / 32.0, 0.5, false, {1, 0.1, -0.75}}, 1 / 4.0, 0},
      {80, {1 / 4.5, 1, 1 / 12.0, 1 / 32.0, 0.5, false, {-0.5, 0.1, 1}}, 1 / 4.0, 0},
      {88, {1 / 7.5, 1, 1 / 8.0, 1 / 32.0, 0.5, false, {-1, -1, 1}}, 1 / 4.0, 0},
      {92, {1 / 3.0, 0.6, 1 / 16.0, 1 / 16.0, 0.5, false, {1, 1, 1}}, 0.5, 0},
      {96, {1 / 12.0, 0.75, 1 / 4.0, 33 / 32.0, 0.5, false, {-1, -1, 1}}, 1 / 4.0, 0},
  };
  if (filter < 48) return wave(filter, 1 / 3.0, 0.5, 6);
  if (filter < 56) return spot(filter - 48, 1 / 3.0, 4);
  return of_groups(groups, 56, filter);
}

static const struct bank {
  int64_t filters, side;
  gabor (*filter)(int filter);
} banks[] = {{32, 5, of_32}, {64, 7, of_64}, {64, 3, of_64_small}, {96, 11, of_96}};

static const struct bank *find(const crema_shape *shape) {
  if (shape->axes != 4 || shape->dim[1] != 3 || shape->dim[2] != shape->dim[3]) return NULL;
  for (size_t i = 0; i < sizeof banks / sizeof *banks; ++i) {
    if (banks[i].filters == shape->dim[0] && banks[i].side == shape->dim[2]) return &banks[i];
  }
  return NULL;
}

bool cr_gabor_has(const crema_shape *shape) {
  return find(shape) != NULL;
}

double cr_gabor_value(const crema_shape *shape, int64_t index) {
  const struct bank *bank = find(shape);
  const int64_t side = bank->side, plane = side * side;
  const gabor g = bank->filter((int)(index / plane / 3));
  const double half = (double)(side - 1) / 2;
  const double x = (double)(index % side) / half - 1;
  const double y = (double)(index / side % side) / half - 1;
  const double omega = pi * (g.slow ? g.omega : half * g.omega);
  const double along = x * cos(pi * g.theta) - y * sin(pi * g.theta);
  return g.channel[index / plane % 3] * g.amplitude *
         exp(-(x * x + y * y) / (2 * g.sigma * g.sigma)) * cos(along * omega + pi * g.phi);
}
