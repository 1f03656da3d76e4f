#include "device/cpu/kernels/unfold.h"

#include "core/cpu_dispatch.h"

CR_CLONES static void add_run(int64_t begin, int64_t end, const cr_value *from, cr_real *to) {
#pragma omp simd
  for (int64_t x = begin; x < end; ++x) to[x] += cr_get(from, x);
}

void cr_ref_unfold(const cr_slide *s, const cr_value *plane, cr_value *rows) {
  const int64_t width = s->out[s->axes - 1], step = s->stride[s->axes - 1];
  const int64_t height = width > 0 ? s->out_count / width : 0; /* rows along the last axis */
  for (int64_t k = 0; k < s->kernel_count; ++k) {
    cr_tap tap;
    cr_slide_tap(s, k, &tap);
    for (int64_t y = 0; y < height; ++y, rows += width) {
      const int64_t base = cr_tap_row(s, &tap, y);
      if (base < 0) {
        memset(rows, 0, (size_t)width * sizeof *rows);
        continue;
      }
      const cr_value *in = plane + base;
      for (int64_t x = 0; x < tap.begin; ++x) cr_put(rows, x, 0);
      if (step == 1 && tap.end > tap.begin) {
        memcpy(rows + tap.begin, in + tap.begin + tap.shift,
               (size_t)(tap.end - tap.begin) * sizeof *rows);
      } else {
        for (int64_t x = tap.begin; x < tap.end; ++x) rows[x] = in[x * step + tap.shift];
      }
      for (int64_t x = tap.end; x < width; ++x) cr_put(rows, x, 0);
    }
  }
}

void cr_ref_fold_add(const cr_slide *s, const cr_value *rows, cr_real *plane) {
  const int64_t width = s->out[s->axes - 1], step = s->stride[s->axes - 1];
  const int64_t height = width > 0 ? s->out_count / width : 0; /* rows along the last axis */
  for (int64_t k = 0; k < s->kernel_count; ++k) {
    cr_tap tap;
    cr_slide_tap(s, k, &tap);
    for (int64_t y = 0; y < height; ++y, rows += width) {
      const int64_t base = cr_tap_row(s, &tap, y);
      if (base < 0) continue;
      cr_real *out = plane + base + tap.shift;
      if (step == 1) add_run(tap.begin, tap.end, rows, out);
      else
        for (int64_t x = tap.begin; x < tap.end; ++x) out[x * step] += cr_get(rows, x);
    }
  }
}
