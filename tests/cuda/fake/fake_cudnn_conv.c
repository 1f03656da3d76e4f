/* The convolutions of the fake cuDNN. */
#include <stdlib.h>

#include "fake_cudnn.h"

static int group_of(const fake_conv *c) {
  return c->x.dim[1] / c->w.dim[1];
}

/* Groups are implied by the numbers of channels. */
bool fake_fits(const fake_conv *c) {
  const fake_tensor *x = &c->x, *w = &c->w, *y = &c->y;
  if (x->type != w->type || x->type != y->type) return false;
  if (!(x->plain && w->plain && y->plain) && !(x->last && w->last && y->last)) return false;
  if (x->axes != c->axes + 2 || w->axes != x->axes || y->axes != x->axes) return false;
  if (x->dim[0] != y->dim[0] || w->dim[0] != y->dim[1] || x->dim[1] % w->dim[1] != 0 ||
      w->dim[0] % group_of(c) != 0) {
    return false;
  }
  for (int a = 0; a < c->axes; ++a) {
    const int reach = c->dilation[a] * (w->dim[a + 2] - 1) + 1;
    const int room = x->dim[a + 2] + 2 * c->pad[a] - reach;
    if (room < 0 || room / c->stride[a] + 1 != y->dim[a + 2]) return false;
  }
  return true;
}

static int size_of(const fake_tensor *t, int from) {
  int size = 1;
  for (int a = from; a < t->axes; ++a) size *= t->dim[a];
  return size;
}

static void decode(int index, int axes, const int *dim, int *at) {
  for (int a = axes - 1; a >= 0; --a) {
    at[a] = index % dim[a];
    index /= dim[a];
  }
}

/* The index of x that output `p` sees through window element `k`; -1 in the padding. */
static int seen(const fake_conv *c, int p, int k) {
  int out[FAKE_SPATIAL], inside[FAKE_SPATIAL], index = 0;
  decode(p, c->axes, c->y.dim + 2, out);
  decode(k, c->axes, c->w.dim + 2, inside);
  for (int a = 0; a < c->axes; ++a) {
    const int at = out[a] * c->stride[a] - c->pad[a] + inside[a] * c->dilation[a];
    if (at < 0 || at >= c->x.dim[a + 2]) return -1;
    index = index * c->x.dim[a + 2] + at;
  }
  return index;
}

static cr_hd_values values_of(const fake_tensor *t) {
  return (cr_hd_values){t->data, (int32_t)t->type};
}

/* The place in memory of the element of row-major index i. */
static int place_of(const fake_tensor *t, int i) {
  const int channels = t->dim[1], inner = size_of(t, 2);
  if (t->plain) return i;
  return (i / inner / channels * inner + i % inner) * channels + i / inner % channels;
}

static double get(const fake_tensor *t, int i) {
  return (double)cr_get(values_of(t), place_of(t, i));
}

/* One (image, output channel, position): its products go to whatever is computed. */
static void visit(const fake_conv *c, int n, int o, int p, double *made) {
  const int positions = size_of(&c->y, 2), plane = size_of(&c->x, 2), window = size_of(&c->w, 2);
  const int inputs = c->w.dim[1], outputs = c->y.dim[1] / group_of(c);
  const int y_at = (n * c->y.dim[1] + o) * positions + p;
  for (int i = 0; i < inputs; ++i) {
    const int channel = o / outputs * inputs + i;
    for (int k = 0; k < window; ++k) {
      const int at = seen(c, p, k);
      if (at < 0) continue;
      const int x_at = (n * c->x.dim[1] + channel) * plane + at;
      const int w_at = (o * inputs + i) * window + k;
      switch (c->pass) {
        case FAKE_FORWARD: made[y_at] += get(&c->x, x_at) * get(&c->w, w_at); break;
        case FAKE_DATA: made[x_at] += get(&c->y, y_at) * get(&c->w, w_at); break;
        case FAKE_WEIGHTS: made[w_at] += get(&c->x, x_at) * get(&c->y, y_at); break;
      }
    }
  }
}

static const fake_tensor *result_of(const fake_conv *c) {
  if (c->pass == FAKE_FORWARD) return &c->y;
  return c->pass == FAKE_DATA ? &c->x : &c->w;
}

bool fake_convolve(const fake_conv *c) {
  const fake_tensor *out = result_of(c);
  const int count = size_of(out, 0);
  double *made = calloc((size_t)count, sizeof *made);
  if (made == NULL) return false;
  for (int n = 0; n < c->y.dim[0]; ++n) {
    for (int o = 0; o < c->y.dim[1]; ++o) {
      for (int p = 0; p < size_of(&c->y, 2); ++p) visit(c, n, o, p, made);
    }
  }
  for (int i = 0; i < count; ++i) {
    const double sum = (double)c->alpha * made[i];
    const double old = c->beta != 0 ? (double)c->beta * get(out, i) : 0;
    cr_put(values_of(out), place_of(out, i), (float)(sum + old));
  }
  free(made);
  return true;
}
