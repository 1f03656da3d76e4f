/* Memory that runs out while a layer of each kind is made, set up and run: every allocation fails
 * once. The status says so, nothing leaks, as the sanitizers see, and what was set up before runs
 * afterwards with the same results. */
#include "allocations.h"

#include "layers/layer_table.h"

static crema_status run_passes(rig *r, const layer_row *row) {
  CR_TRY(rig_forward(r));
  return has_flag(row, 'N') ? CREMA_OK : rig_backward(r);
}

/* Everything from a fresh layer on; *whole: it came as far as to be run. */
static crema_status begin_anew(rig *r, const layer_row *row, bool *whole) {
  *whole = false;
  cr_layer_destroy(r->layer);
  r->layer = NULL;
  CR_TRY(cr_layer_create(r->param, row->phase, r->context, 7, NULL, &r->layer));
  CR_TRY(rig_setup(r));
  *whole = true;
  return run_passes(r, row);
}

typedef struct copy {
  int64_t count;
  float value[4096];
} copy;

/* The first top's values, as many as there is room for. */
static void keep(rig *r, copy *out) {
  out->count = r->tops > 0 ? crema_blob_count(r->top[0]) : 0;
  if (out->count > 4096) out->count = 4096;
  if (out->count > 0) memcpy(out->value, rig_data(r->top[0]), (size_t)out->count * sizeof(float));
}

static bool is_equal(const copy *a, const copy *b) {
  for (int64_t i = 0; i < a->count; ++i) {
    if (!(fabsf(a->value[i] - b->value[i]) <= 1e-5f * (1 + fabsf(b->value[i])))) return false;
  }
  return a->count == b->count;
}

/* The n-th allocation of `row` fails. Returns false when there are not so many. */
static bool fail_one(rig *r, const layer_row *row, long n, const copy *wanted, const copy *again) {
  bool whole = false;
  no_memory_arm(n);
  crema_status status = begin_anew(r, row, &whole);
  bool hit = no_memory_end();
  if (!hit) {
    ok(status);
    return false;
  }
  /* Memory that is not essential causes no failure. */
  if (status != CREMA_OK && (status != CREMA_E_NO_MEMORY || crema_error_text()[0] == '\0')) {
    fail_msg("%s %s, allocation %ld: %s: \"%s\"", row->type, row->body, n,
             crema_status_name(status), crema_error_text());
  }
  if (!whole) return true;
  static copy found;
  set_top_diffs(r, row);
  ok(run_passes(r, row));
  keep(r, &found);
  /* Layers that draw at random, or count, give others in the second pass. */
  if (is_equal(wanted, again) && !is_equal(&found, wanted)) {
    fail_msg("%s %s: another result after allocation %ld had failed", row->type, row->body, n);
  }
  return true;
}

static long fail_each(const layer_row *row) {
  static copy wanted, again;
  uint32_t random = 2463534242u;
  bool whole = false;
  rig r;
  make(&r, row, false, &random);
  ok(begin_anew(&r, row, &whole));
  keep(&r, &wanted);
  set_top_diffs(&r, row);
  ok(run_passes(&r, row));
  keep(&r, &again);
  long made = 0;
  while (fail_one(&r, row, made, &wanted, &again)) ++made;
  rig_free(&r);
  return made;
}

TEST(test_layers) {
  long all = 0;
  for (int i = 0; i < ROWS; ++i) {
    if (has_flag(&rows[i], 'S')) continue;
    all += fail_each(&rows[i]);
  }
  print_message("%d rows, %ld allocations failed\n", ROWS, all);
  assert_true(all > ROWS);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
