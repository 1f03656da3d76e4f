/* One step of a recurrence over N sequences of D units: cells of LSTMs, hyperbolic tangents, and
 * the gradients of both. Element i is unit i % D of sequence i / D. Products of the hidden state
 * and the weights are given as they are: to multiply a sequence's state by its cont, its row of the
 * product is multiplied. */
#ifndef CR_GPU_KERNELS_RECURRENT_H
#define CR_GPU_KERNELS_RECURRENT_H

#include "device/gpu/kernels/values.h"

/* cont times a value of the preceding step: 0 at the start of a sequence, for any value. */
CR_HD float cr_carried(float cont, float value) {
  return cont == 0 ? 0 : cont * value;
}

/* LSTM: */

/* The gates of a unit; its four values are D apart in a row of 4 D. */
typedef struct cr_hd_lstm_gates {
  float i, f, o, g;
} cr_hd_lstm_gates;

typedef struct cr_lstm_args {
  cr_hd_values sums; /* (N,4D) */
  const CR_GLOBAL float
      *product; /* (N,4D): of h before and the weights; NULL: the sums are complete */
  const CR_GLOBAL float *cont; /* (N) */
  cr_hd_values c_before, c, h; /* (N,D) */
  cr_hd_values gates;          /* (N,4D): their values, may be `sums`; absent: not kept */
  cr_divisor units;
} cr_lstm_args;

/* Computes the values of the gates from their sums. */
CR_HD cr_hd_lstm_gates cr_lstm_activated(cr_hd_lstm_gates sum) {
  cr_hd_lstm_gates gate;
  gate.i = cr_sigmoid_of(sum.i);
  gate.f = cr_sigmoid_of(sum.f);
  gate.o = cr_sigmoid_of(sum.o);
  gate.g = tanhf(sum.g);
  return gate;
}

CR_HD cr_hd_lstm_gates cr_lstm_read(cr_hd_values from, int64_t at, int64_t units) {
  cr_hd_lstm_gates gate;
  gate.i = cr_get(from, at);
  gate.f = cr_get(from, at + units);
  gate.o = cr_get(from, at + 2 * units);
  gate.g = cr_get(from, at + 3 * units);
  return gate;
}

CR_HD void cr_lstm_write(cr_hd_values to, int64_t at, int64_t units, cr_hd_lstm_gates gate) {
  cr_put(to, at, gate.i);
  cr_put(to, at + units, gate.f);
  cr_put(to, at + 2 * units, gate.o);
  cr_put(to, at + 3 * units, gate.g);
}

/* The index of the first gate of a unit. */
CR_HD int64_t cr_lstm_first_gate(cr_quotient at, int64_t units) {
  return 4 * at.whole * units + at.rest;
}

CR_HD float cr_lstm_cell(cr_hd_lstm_gates gate, float cont, float c_before) {
  return cr_carried(cont, gate.f * c_before) + gate.i * gate.g;
}

CR_HD void cr_lstm_fwd_device(const void *args, int64_t i) {
  const cr_lstm_args *a = (const cr_lstm_args *)args;
  const int64_t units = a->units.by;
  const cr_quotient at = cr_divide_by(i, a->units);
  const int64_t first = cr_lstm_first_gate(at, units);
  const float cont = a->cont[at.whole], c_before = cr_get(a->c_before, i);
  cr_hd_lstm_gates sum = cr_lstm_read(a->sums, first, units);
  if (a->product != NULL) {
    sum.i += cr_carried(cont, a->product[first]);
    sum.f += cr_carried(cont, a->product[first + units]);
    sum.o += cr_carried(cont, a->product[first + 2 * units]);
    sum.g += cr_carried(cont, a->product[first + 3 * units]);
  }
  const cr_hd_lstm_gates gate = cr_lstm_activated(sum);
  const float c = cr_lstm_cell(gate, cont, c_before);
  if (a->gates.at != NULL) cr_lstm_write(a->gates, first, units, gate);
  cr_put(a->c, i, c);
  cr_put(a->h, i, gate.o * tanhf(c));
}

typedef struct cr_lstm_bwd_args {
  cr_hd_values gates;          /* (N,4D): their values, or for one step their sums */
  cr_hd_values c_before, c;    /* (N,D); c only with the gates' values */
  cr_hd_values diff_h, diff_c; /* (N,D), from the tops; diff_c may be absent */
  const CR_GLOBAL float *cont; /* (N) */
  /* From the next step, NULL for the last: its cont (N), the product of its gradient and the
   * weights (N,D), its gradient of c (N,D). */
  const CR_GLOBAL float *next_cont, *product, *next_diff_c;
  cr_hd_values diff_gates;    /* (N,4D), of the sums; may be `gates` */
  cr_hd_values diff_c_before; /* (N,D), may be `next_diff_c` */
  cr_divisor units;
} cr_lstm_bwd_args;

/* The parts of a unit's gradient; diff_h and diff_c are complete. */
typedef struct cr_lstm_unit {
  cr_hd_lstm_gates gate;
  float cont, c_before, c, diff_h, diff_c;
} cr_lstm_unit;

/* Writes the gradients of element i. */
CR_HD void cr_lstm_back(const cr_lstm_bwd_args *a, int64_t i, int64_t first, cr_lstm_unit u) {
  const float y = tanhf(u.c), all = u.diff_c + u.diff_h * u.gate.o * (1 - y * y);
  const cr_hd_lstm_gates gate = u.gate;
  cr_hd_lstm_gates diff;
  diff.i = all * gate.g * gate.i * (1 - gate.i);
  diff.f = cr_carried(u.cont, all * u.c_before) * gate.f * (1 - gate.f);
  diff.o = u.diff_h * y * gate.o * (1 - gate.o);
  diff.g = all * gate.i * (1 - gate.g * gate.g);
  cr_lstm_write(a->diff_gates, first, a->units.by, diff);
  cr_put(a->diff_c_before, i, cr_carried(u.cont, all * gate.f));
}

CR_HD void cr_lstm_bwd_device(const void *args, int64_t i) {
  const cr_lstm_bwd_args *a = (const cr_lstm_bwd_args *)args;
  const cr_quotient at = cr_divide_by(i, a->units);
  const int64_t first = cr_lstm_first_gate(at, a->units.by);
  cr_lstm_unit u;
  u.gate = cr_lstm_read(a->gates, first, a->units.by);
  u.cont = a->cont[at.whole];
  u.c_before = cr_get(a->c_before, i);
  u.c = cr_get(a->c, i);
  u.diff_h = cr_get(a->diff_h, i);
  u.diff_c = a->diff_c.at != NULL ? cr_get(a->diff_c, i) : 0;
  if (a->product != NULL) {
    u.diff_h += cr_carried(a->next_cont[at.whole], a->product[i]);
    u.diff_c += a->next_diff_c[i];
  }
  cr_lstm_back(a, i, first, u);
}

/* The same of one step, whose gates and c are computed again. */
CR_HD void cr_lstm_unit_bwd_device(const void *args, int64_t i) {
  const cr_lstm_bwd_args *a = (const cr_lstm_bwd_args *)args;
  const cr_quotient at = cr_divide_by(i, a->units);
  const int64_t first = cr_lstm_first_gate(at, a->units.by);
  cr_lstm_unit u;
  u.cont = a->cont[at.whole];
  u.c_before = cr_get(a->c_before, i);
  u.diff_h = cr_get(a->diff_h, i);
  u.diff_c = cr_get(a->diff_c, i);
  u.gate = cr_lstm_activated(cr_lstm_read(a->gates, first, a->units.by));
  u.c = cr_lstm_cell(u.gate, u.cont, u.c_before);
  cr_lstm_back(a, i, first, u);
}

/* Hyperbolic tangents: */

typedef struct cr_rnn_args {
  cr_hd_values x, dy; /* forward: z; backward: h and its gradient (N,D) */
  /* Forward: of the preceding h and the weights. Backward: of the next step's gradient and the
   * weights; NULL after the last step (N,D). */
  const CR_GLOBAL float *product;
  const CR_GLOBAL float *cont; /* (N), the factors of the product's rows */
  cr_hd_values out;            /* h, which may be x; or the gradient of z */
  cr_divisor units;
} cr_rnn_args;

CR_HD float cr_rnn_fwd_device(const void *args, int64_t i) {
  const cr_rnn_args *a = (const cr_rnn_args *)args;
  const float cont = a->cont[cr_divide_by(i, a->units).whole];
  return tanhf(cr_get(a->x, i) + cr_carried(cont, a->product[i]));
}

CR_HD float cr_rnn_bwd_device(const void *args, int64_t i) {
  const cr_rnn_args *a = (const cr_rnn_args *)args;
  const float h = cr_get(a->x, i);
  float dh = cr_get(a->dy, i);
  if (a->product != NULL) {
    dh += cr_carried(a->cont[cr_divide_by(i, a->units).whole], a->product[i]);
  }
  return dh * (1 - h * h);
}

/* States that are carried from step to step: */

typedef struct cr_carry_args {
  cr_hd_values from, out;      /* rows of `units` values */
  const CR_GLOBAL float *cont; /* one per row */
  cr_divisor units;
} cr_carry_args;

CR_HD float cr_carry_device(const void *args, int64_t i) {
  const cr_carry_args *a = (const cr_carry_args *)args;
  return cr_carried(a->cont[cr_divide_by(i, a->units).whole], cr_get(a->from, i));
}

#endif
