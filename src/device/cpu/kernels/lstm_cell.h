/* One cell of an LSTM (Hochreiter and Schmidhuber, 1997, with forget gates):
 *
 *   c = f c' + i g,  h = o tanh(c)
 *
 * with the gates i, f, o = sigmoid and g = tanh of their sums. cont 0 begins a sequence: c' = 0. */
#ifndef CR_DEVICE_CPU_KERNELS_LSTM_CELL_H
#define CR_DEVICE_CPU_KERNELS_LSTM_CELL_H

#include "device/cpu/kernels/recurrent.h"

/* One sequence's step: of sums (4 D) the values of the gates, which may replace them or, where gate
 * is NULL, are not kept. */
CR_INLINE void cr_lstm_units(int64_t units, cr_real cont, const cr_real *c_before,
                             const cr_real *sum, cr_real *gate, cr_real *c, cr_real *h) {
#pragma omp simd
  for (int64_t d = 0; d < units; ++d) {
    const cr_real i = cr_ref_sigmoid(sum[d]), f = cr_ref_sigmoid(sum[units + d]);
    const cr_real o = cr_ref_sigmoid(sum[2 * units + d]), g = cr_ref_tanh(sum[3 * units + d]);
    const cr_real kept = cont == 0 ? 0 : cont * f * c_before[d];
    if (gate != NULL) {
      gate[d] = i;
      gate[units + d] = f;
      gate[2 * units + d] = o;
      gate[3 * units + d] = g;
    }
    c[d] = kept + i * g;
    h[d] = o * cr_ref_tanh(kept + i * g);
  }
}

CR_CLONES static void cr_lstm_cells(int64_t units, cr_real cont, const cr_real *c_before,
                                    const cr_real *sum, cr_real *gate, cr_real *c, cr_real *h) {
  if (gate != NULL) cr_lstm_units(units, cont, c_before, sum, gate, c, h);
  else cr_lstm_units(units, cont, c_before, sum, NULL, c, h);
}

typedef struct cr_lstm_gates {
  cr_real i, f, o, g;
} cr_lstm_gates;

/* The gradients of a unit's sums (dg, `units` apart), from the gradients of its h and c; returns
 * the gradient of c before. y: tanh of c. */
CR_INLINE cr_real cr_lstm_unit_back(int64_t units, cr_real cont, cr_lstm_gates at, cr_real y,
                                    cr_real before, cr_real of_h, cr_real of_c, cr_real *dg) {
  const cr_real i = at.i, f = at.f, o = at.o, g = at.g;
  const cr_real all = of_c + of_h * o * (1 - y * y);
  const cr_real through_f = cont == 0 ? 0 : all * cont * before;
  dg[0] = all * g * i * (1 - i);
  dg[units] = through_f * f * (1 - f);
  dg[2 * units] = of_h * y * o * (1 - o);
  dg[3 * units] = all * i * (1 - g * g);
  return cont == 0 ? 0 : all * cont * f;
}

#endif
