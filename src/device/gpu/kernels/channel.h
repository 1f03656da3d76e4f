/* Per-channel work on arrays (outer, C, inner): scale and bias, rectifiers with a slope per
 * channel, batch normalisation, and sums over a channel. */
#ifndef CR_GPU_KERNELS_CHANNEL_H
#define CR_GPU_KERNELS_CHANNEL_H

#include "device/gpu/kernels/pack.h"
#include "device/gpu/kernels/thread_block.h"
#include "device/gpu/kernels/unary.h"

/* The index of elements in (outer, C, inner). */
typedef struct cr_channel_planes {
  int64_t outer;
  cr_divisor channels, inner;
} cr_channel_planes;

CR_HD int64_t cr_channel_of(const cr_channel_planes *planes, int64_t i) {
  return cr_divide_by(cr_divide_by(i, planes->inner).whole, planes->channels).rest;
}

/* Steps through adjacent elements of fewer than 2^31. */
typedef struct cr_channel_walk {
  int32_t channel, place; /* the element's channel, and its place in the plane */
  int32_t channels, inner;
} cr_channel_walk;

CR_HD cr_channel_walk cr_channel_walk_from(const cr_channel_planes *planes, int64_t i) {
  const cr_quotient at = cr_divide_by(i, planes->inner);
  cr_channel_walk walk;
  walk.channel = (int32_t)cr_divide_by(at.whole, planes->channels).rest;
  walk.place = (int32_t)at.rest;
  walk.channels = (int32_t)planes->channels.by;
  walk.inner = (int32_t)planes->inner.by;
  return walk;
}

/* Whether the next element has another channel. */
CR_HD bool cr_channel_step(cr_channel_walk *walk) {
  if (++walk->place < walk->inner) return false;
  walk->place = 0;
  if (++walk->channel == walk->channels) walk->channel = 0;
  return true;
}

/* Element k of channel c, counted through all samples. */
CR_HD int64_t cr_channel_place(const cr_channel_planes *planes, int64_t c, int64_t k) {
  const cr_quotient at = cr_divide_by(k, planes->inner);
  return (at.whole * planes->channels.by + c) * planes->inner.by + at.rest;
}

typedef struct cr_affine_args {
  cr_hd_values x, scale, bias; /* absent: 1 and 0 */
  cr_hd_values out;
  cr_channel_planes planes;
  bool rectify; /* negative values become 0 */
} cr_affine_args;

/* The numbers of a channel: x * scale + bias. */
typedef struct cr_affine_line {
  float scale, bias;
} cr_affine_line;

CR_HD cr_affine_line cr_affine_line_of(const cr_affine_args *a, int64_t c) {
  cr_affine_line line;
  line.scale = a->scale.at != NULL ? cr_get(a->scale, c) : 1;
  line.bias = a->bias.at != NULL ? cr_get(a->bias, c) : 0;
  return line;
}

CR_HD float cr_affine_value(const cr_affine_args *a, cr_affine_line line, float x) {
  float y = x;
  if (a->scale.at != NULL) y = y * line.scale;
  if (a->bias.at != NULL) y = y + line.bias;
  return a->rectify && y < 0 ? 0 : y;
}

CR_HD float cr_affine_device(const void *args, int64_t i) {
  const cr_affine_args *a = (const cr_affine_args *)args;
  const cr_affine_line line = cr_affine_line_of(a, cr_channel_of(&a->planes, i));
  return cr_affine_value(a, line, cr_get(a->x, i));
}

CR_HD void cr_affine_pack(const void *args, int64_t i) {
  const cr_affine_args *a = (const cr_affine_args *)args;
  cr_channel_walk walk = cr_channel_walk_from(&a->planes, i);
  cr_affine_line line = cr_affine_line_of(a, walk.channel);
  cr_pack y = cr_get_pack(a->x, i);
  CR_FOR_PACK(k) {
    y.of[k] = cr_affine_value(a, line, y.of[k]);
    if (cr_channel_step(&walk)) line = cr_affine_line_of(a, walk.channel);
  }
  cr_put_pack(a->out, i, y);
}

typedef struct cr_posts_args {
  cr_hd_values bias, addend; /* absent: 0 */
  cr_hd_values out;
  cr_channel_planes planes;
  int count;
  cr_unary_args
      post[CR_POSTS]; /* the functions; function CR_UNARY_FUNCTIONS: the addend is added */
} cr_posts_args;

/* The end of a convolution or an inner product: the post operations of out + bias[c]. The addend is
 * another array than `out`, which holds the result so far. */
CR_HD float cr_posts_device(const void *args, int64_t i) {
  const cr_posts_args *a = (const cr_posts_args *)args;
  float y = cr_get(a->out, i);
  if (a->bias.at != NULL) y += cr_get(a->bias, cr_channel_of(&a->planes, i));
  for (int k = 0; k < a->count; ++k) {
    const cr_unary_args *post = &a->post[k];
    y = post->function == CR_UNARY_FUNCTIONS ? y + cr_get(a->addend, i) : cr_unary_value(post, y);
  }
  return y;
}

/* The only functions are ReLUs. */
CR_HD void cr_posts_pack(const void *args, int64_t i) {
  const cr_posts_args *a = (const cr_posts_args *)args;
  cr_pack y = cr_get_pack(a->out, i);
  if (a->bias.at != NULL) {
    cr_channel_walk walk = cr_channel_walk_from(&a->planes, i);
    float bias = cr_get(a->bias, walk.channel);
    CR_FOR_PACK(k) {
      y.of[k] += bias;
      if (cr_channel_step(&walk)) bias = cr_get(a->bias, walk.channel);
    }
  }
  for (int n = 0; n < a->count; ++n) {
    if (a->post[n].function == CR_UNARY_FUNCTIONS) {
      const cr_pack addend = cr_get_pack(a->addend, i);
      CR_FOR_PACK(k) y.of[k] += addend.of[k];
    } else {
      CR_FOR_PACK(k) y.of[k] = cr_relu_value(&a->post[n], y.of[k]);
    }
  }
  cr_put_pack(a->out, i, y);
}

typedef struct cr_prelu_args {
  cr_hd_values x, slope, dy, out;
  cr_channel_planes planes;
} cr_prelu_args;

CR_HD float cr_prelu_fwd_device(const void *args, int64_t i) {
  const cr_prelu_args *a = (const cr_prelu_args *)args;
  const float x = cr_get(a->x, i), slope = cr_get(a->slope, cr_channel_of(&a->planes, i));
  return x > 0 ? x : slope * x;
}

CR_HD float cr_prelu_bwd_device(const void *args, int64_t i) {
  const cr_prelu_args *a = (const cr_prelu_args *)args;
  const float dy = cr_get(a->dy, i), slope = cr_get(a->slope, cr_channel_of(&a->planes, i));
  return cr_get(a->x, i) > 0 ? dy : slope * dy;
}

typedef enum cr_channel_term {
  CR_TERM_VALUE,   /* dy */
  CR_TERM_PRODUCT, /* dy x */
  CR_TERM_BELOW    /* dy x if x is not above 0, else 0 */
} cr_channel_term;

typedef struct cr_channel_sum_args {
  cr_hd_values dy, x;
  cr_channel_planes planes;
  int term;
  int64_t parts;           /* the number of partial sums of each channel's sum */
  CR_GLOBAL cr_wide *part; /* (parts, C) */
  cr_hd_values out;        /* (C) */
  cr_hd_values dx;         /* for a ReLU: the gradient of its source */
  float alpha;             /* for a ReLU: its slope below 0 */
  bool add;
} cr_channel_sum_args;

CR_HD cr_wide cr_channel_value(const cr_channel_sum_args *a, int64_t at) {
  const cr_wide dy = (cr_wide)cr_get(a->dy, at);
  if (a->term == CR_TERM_VALUE) return dy;
  const float x = cr_get(a->x, at);
  if (a->term == CR_TERM_BELOW && x > 0) return 0;
  return dy * (cr_wide)x;
}

/* The terms of one part of a channel: k = begin ... end - 1. */
typedef struct cr_channel_part {
  int64_t channel, begin, end;
} cr_channel_part;

/* Segment s: part s / C of channel s % C. */
CR_HD cr_channel_part cr_channel_part_of(const cr_channel_planes *planes, int64_t parts,
                                         int64_t segment) {
  const cr_quotient where = cr_divide_by(segment, planes->channels);
  const int64_t count = planes->outer * planes->inner.by;
  cr_channel_part part;
  part.channel = where.rest;
  part.begin = cr_part_begin(count, parts, where.whole);
  part.end = cr_part_begin(count, parts, where.whole + 1);
  return part;
}

/* The sum is rounded before it is added, like the value that it is added to, so that opposite
 * values cancel. */
CR_HD void cr_channel_give(cr_hd_values to, int64_t c, bool add, cr_wide sum) {
  cr_put(to, c, add ? cr_get(to, c) + (float)sum : (float)sum);
}

/* Ends a part's sum. A channel of one part needs no second launch. */
CR_HD void cr_channel_keep(const cr_channel_sum_args *a, int64_t segment, int64_t channel,
                           cr_thread_block thread_block, cr_wide sum) {
  sum = cr_thread_block_sum(thread_block, sum);
  if (thread_block.lane != 0) return;
  if (a->parts == 1) cr_channel_give(a->out, channel, a->add, sum);
  else a->part[segment] = sum;
}

CR_HD void cr_channel_parts_device(const void *args, int64_t segment,
                                   cr_thread_block thread_block) {
  const cr_channel_sum_args *a = (const cr_channel_sum_args *)args;
  const cr_channel_part part = cr_channel_part_of(&a->planes, a->parts, segment);
  cr_wide sum = 0;
  CR_UNROLL
  for (int64_t k = part.begin + thread_block.lane; k < part.end; k += thread_block.lanes) {
    sum += cr_channel_value(a, cr_channel_place(&a->planes, part.channel, k));
  }
  cr_channel_keep(a, segment, part.channel, thread_block, sum);
}

/* The gradient of a ReLU, element by element, and its sum. */
CR_HD void cr_relu_bias_parts_device(const void *args, int64_t segment,
                                     cr_thread_block thread_block) {
  const cr_channel_sum_args *a = (const cr_channel_sum_args *)args;
  const cr_channel_part part = cr_channel_part_of(&a->planes, a->parts, segment);
  cr_wide sum = 0;
  CR_UNROLL
  for (int64_t k = part.begin + thread_block.lane; k < part.end; k += thread_block.lanes) {
    const int64_t at = cr_channel_place(&a->planes, part.channel, k);
    const float dy = cr_get(a->dy, at), dx = cr_get(a->x, at) > 0 ? dy : a->alpha * dy;
    cr_put(a->dx, at, dx);
    sum += (cr_wide)dx;
  }
  cr_channel_keep(a, segment, part.channel, thread_block, sum);
}

CR_HD void cr_channel_total_device(const void *args, int64_t c) {
  const cr_channel_sum_args *a = (const cr_channel_sum_args *)args;
  cr_wide sum = 0;
  for (int64_t k = 0; k < a->parts; ++k) sum += a->part[k * a->planes.channels.by + c];
  cr_channel_give(a->out, c, a->add, sum);
}

/* Batch normalisation (Ioffe and Szegedy, 2015): y = (x - m) / sqrt(v + eps) * gain + shift. The
 * sums are made in f64, in two launches if a channel has several parts; the work on each element in
 * f32. */
typedef struct cr_bn_args {
  cr_hd_values x, dy, out;
  cr_hd_values rectified;                      /* backward: the result of a ReLU; may be absent */
  const CR_GLOBAL float *mean, *variance;      /* that are given */
  CR_GLOBAL float *new_mean, *new_variance;    /* that are computed */
  CR_GLOBAL float *means, *variances, *weight; /* moving sums; absent: not kept */
  cr_hd_values gain, shift;                    /* (C) each; absent: 1 and 0 */
  cr_hd_values diff_gain, diff_shift;          /* (C) each; may be absent */
  bool add_to_gain, add_to_shift;              /* their values */
  /* (C) each: gain / sqrt(v + eps); mean(dy) and mean(dy (x - m)) / (v + eps). */
  CR_GLOBAL float *scale, *flat, *slope;
  CR_GLOBAL cr_wide *part; /* (parts, C, 2) */
  int64_t parts;           /* of each channel's sums */
  cr_channel_planes planes;
  float eps;
  float fraction; /* of the moving sums that stays */
  float unbiased; /* m / (m - 1) for m values of a channel */
  bool global;    /* the statistics are constants */
  bool rectify;   /* forward: negative results become 0 */
} cr_bn_args;

/* The origin of a channel's values, so that a large mean takes no digits from the variance. */
CR_HD float cr_bn_origin(const cr_bn_args *a, int64_t c) {
  return cr_get(a->x, c * a->planes.inner.by);
}

CR_HD void cr_bn_keep(const cr_bn_args *a, int64_t segment, cr_thread_block thread_block,
                      cr_wide first, cr_wide second) {
  first = cr_thread_block_sum(thread_block, first);
  second = cr_thread_block_sum(thread_block, second);
  if (thread_block.lane != 0) return;
  a->part[2 * segment] = first;
  a->part[2 * segment + 1] = second;
}

/* The sums of channel c over its parts, divided by the number of its values. */
CR_HD void cr_bn_means(const cr_bn_args *a, int64_t c, cr_wide *first, cr_wide *second) {
  const cr_wide count = (cr_wide)(a->planes.outer * a->planes.inner.by);
  *first = *second = 0;
  for (int64_t k = 0; k < a->parts; ++k) {
    const CR_GLOBAL cr_wide *part = a->part + 2 * (k * a->planes.channels.by + c);
    *first += part[0];
    *second += part[1];
  }
  if (count > 0) {
    *first /= count;
    *second /= count;
  }
}

CR_HD float cr_bn_scale_of(const cr_bn_args *a, int64_t c, cr_wide variance) {
  const cr_wide gain = a->gain.at != NULL ? (cr_wide)cr_get(a->gain, c) : 1;
  return (float)(gain / sqrt(variance + (cr_wide)a->eps));
}

/* Adds the statistics of channel c, once they are written, to the moving sums. */
CR_HD void cr_bn_add_statistics(const cr_bn_args *a, int64_t c) {
  a->means[c] = a->new_mean[c] + a->fraction * a->means[c];
  a->variances[c] = a->unbiased * a->new_variance[c] + a->fraction * a->variances[c];
  if (c == 0) a->weight[0] = 1 + a->fraction * a->weight[0];
}

/* Mean and biased variance of channel c. */
CR_HD void cr_bn_statistics_device(const void *args, int64_t c) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  cr_wide mean, square;
  cr_bn_means(a, c, &mean, &square);
  cr_wide variance = square - mean * mean;
  if (variance < 0) variance = 0;
  if (a->planes.outer * a->planes.inner.by > 0) mean += (cr_wide)cr_bn_origin(a, c);
  a->new_mean[c] = (float)mean;
  a->new_variance[c] = (float)variance;
  a->scale[c] = cr_bn_scale_of(a, c, variance);
  if (a->weight != NULL) cr_bn_add_statistics(a, c);
}

/* A channel of one part needs no second launch. */
CR_HD void cr_bn_statistics_parts_device(const void *args, int64_t segment,
                                         cr_thread_block thread_block) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  const cr_channel_part part = cr_channel_part_of(&a->planes, a->parts, segment);
  if (part.begin == part.end) {
    cr_bn_keep(a, segment, thread_block, 0, 0);
    if (a->parts == 1 && thread_block.lane == 0) cr_bn_statistics_device(args, part.channel);
    return;
  }
  const cr_wide origin = (cr_wide)cr_bn_origin(a, part.channel);
  cr_wide sum = 0, square = 0;
  CR_UNROLL
  for (int64_t k = part.begin + thread_block.lane; k < part.end; k += thread_block.lanes) {
    const int64_t at = cr_channel_place(&a->planes, part.channel, k);
    const cr_wide d = (cr_wide)cr_get(a->x, at) - origin;
    sum += d;
    square += d * d;
  }
  cr_bn_keep(a, segment, thread_block, sum, square);
  if (a->parts == 1 && thread_block.lane == 0) cr_bn_statistics_device(args, part.channel);
}

/* The scale of channel c for given statistics. */
CR_HD void cr_bn_scales_device(const void *args, int64_t c) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  a->scale[c] = cr_bn_scale_of(a, c, (cr_wide)a->variance[c]);
}

/* The numbers of a channel: (x - mean) * scale + shift. */
typedef struct cr_bn_line {
  float mean, scale, shift;
} cr_bn_line;

CR_HD cr_bn_line cr_bn_line_of(const cr_bn_args *a, int64_t c) {
  cr_bn_line line;
  line.mean = a->mean[c];
  line.scale = a->scale[c];
  line.shift = a->shift.at != NULL ? cr_get(a->shift, c) : 0;
  return line;
}

CR_HD float cr_bn_value(const cr_bn_args *a, cr_bn_line line, float x) {
  float y = (x - line.mean) * line.scale;
  if (a->shift.at != NULL) y = y + line.shift;
  return a->rectify && y < 0 ? 0 : y;
}

CR_HD float cr_bn_normalise_device(const void *args, int64_t i) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  const cr_bn_line line = cr_bn_line_of(a, cr_channel_of(&a->planes, i));
  return cr_bn_value(a, line, cr_get(a->x, i));
}

CR_HD void cr_bn_normalise_pack(const void *args, int64_t i) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  cr_channel_walk walk = cr_channel_walk_from(&a->planes, i);
  cr_bn_line line = cr_bn_line_of(a, walk.channel);
  cr_pack y = cr_get_pack(a->x, i);
  CR_FOR_PACK(k) {
    y.of[k] = cr_bn_value(a, line, y.of[k]);
    if (cr_channel_step(&walk)) line = cr_bn_line_of(a, walk.channel);
  }
  cr_put_pack(a->out, i, y);
}

/* The gradient of a ReLU without a slope, as cr_relu_bwd_device computes it: infinity times 0 is
 * NaN. */
CR_HD float cr_bn_rectified(float y, float dy) {
  return y > 0 ? dy : 0 * dy;
}

/* The gradient of element i of the normalised values. */
CR_HD float cr_bn_dy(const cr_bn_args *a, int64_t i) {
  const float dy = cr_get(a->dy, i);
  return a->rectified.at != NULL ? cr_bn_rectified(cr_get(a->rectified, i), dy) : dy;
}

CR_HD void cr_bn_gradient_sums_device(const void *args, int64_t c) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  const cr_wide count = (cr_wide)(a->planes.outer * a->planes.inner.by);
  const cr_wide square = (cr_wide)a->variance[c] + (cr_wide)a->eps;
  cr_wide flat, product;
  cr_bn_means(a, c, &flat, &product);
  a->flat[c] = (float)flat;
  a->slope[c] = (float)(product / square);
  a->scale[c] = cr_bn_scale_of(a, c, (cr_wide)a->variance[c]);
  if (a->diff_gain.at != NULL) {
    cr_channel_give(a->diff_gain, c, a->add_to_gain, product * count / sqrt(square));
  }
  if (a->diff_shift.at != NULL) {
    cr_channel_give(a->diff_shift, c, a->add_to_shift, flat * count);
  }
}

CR_HD void cr_bn_gradient_parts_device(const void *args, int64_t segment,
                                       cr_thread_block thread_block) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  const cr_channel_part part = cr_channel_part_of(&a->planes, a->parts, segment);
  const cr_wide mean = (cr_wide)a->mean[part.channel];
  cr_wide sum = 0, product = 0;
  CR_UNROLL
  for (int64_t k = part.begin + thread_block.lane; k < part.end; k += thread_block.lanes) {
    const int64_t at = cr_channel_place(&a->planes, part.channel, k);
    const cr_wide dy = (cr_wide)cr_bn_dy(a, at);
    sum += dy;
    product += dy * ((cr_wide)cr_get(a->x, at) - mean);
  }
  cr_bn_keep(a, segment, thread_block, sum, product);
  if (a->parts == 1 && thread_block.lane == 0) cr_bn_gradient_sums_device(args, part.channel);
}

/* The numbers of a channel: (dy - flat - slope (x - mean)) * scale. */
typedef struct cr_bn_slope {
  float mean, scale, flat, slope;
} cr_bn_slope;

CR_HD cr_bn_slope cr_bn_slope_of(const cr_bn_args *a, int64_t c) {
  cr_bn_slope s;
  s.scale = a->scale[c];
  s.mean = a->global ? 0 : a->mean[c];
  s.flat = a->global ? 0 : a->flat[c];
  s.slope = a->global ? 0 : a->slope[c];
  return s;
}

/* (dy - mean(dy) - z mean(dy z)) * gain / sqrt(v + eps), z = (x - m) / sqrt(v + eps). */
CR_HD float cr_bn_bwd_value(const cr_bn_args *a, cr_bn_slope s, float x, float dy) {
  float dx = dy;
  if (!a->global) dx -= s.flat + s.slope * (x - s.mean);
  return dx * s.scale;
}

CR_HD float cr_bn_bwd_device(const void *args, int64_t i) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  const cr_bn_slope s = cr_bn_slope_of(a, cr_channel_of(&a->planes, i));
  const float x = a->global ? 0 : cr_get(a->x, i);
  return cr_bn_bwd_value(a, s, x, cr_bn_dy(a, i));
}

CR_HD void cr_bn_bwd_pack(const void *args, int64_t i) {
  const cr_bn_args *a = (const cr_bn_args *)args;
  cr_channel_walk walk = cr_channel_walk_from(&a->planes, i);
  cr_bn_slope s = cr_bn_slope_of(a, walk.channel);
  cr_pack dx = cr_get_pack(a->dy, i), x = dx;
  if (!a->global) x = cr_get_pack(a->x, i);
  if (a->rectified.at != NULL) {
    const cr_pack y = cr_get_pack(a->rectified, i);
    CR_FOR_PACK(k) dx.of[k] = cr_bn_rectified(y.of[k], dx.of[k]);
  }
  CR_FOR_PACK(k) {
    dx.of[k] = cr_bn_bwd_value(a, s, x.of[k], dx.of[k]);
    if (cr_channel_step(&walk)) s = cr_bn_slope_of(a, walk.channel);
  }
  cr_put_pack(a->out, i, dx);
}

#endif
