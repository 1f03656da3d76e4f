/* What layer classes declare about values and work in place: how much of its tops' values a layer's
 * backward pass uses, and how much of its bottom's values a layer in place preserves. */
#include "layers/layer_table.h"

/* Some elements have no gradient, in no regular order. */
static bool learns_at(int64_t i) {
  return (i + i / 3 + i / 4) % 3 != 0;
}

static void set_diffs(rig *r, const layer_row *row) {
  set_top_diffs(r, row);
  for (int t = 0; t < r->tops; ++t) {
    float *diff = rig_diff(r->top[t]);
    int64_t count = crema_blob_count(r->top[t]);
    for (int64_t i = 0; i < count && count > 1; ++i) {
      if (!learns_at(i)) diff[i] = 0;
    }
  }
}

/* Overwrites values so that just `left` of them is left. The gradients of tops are those of
 * set_diffs.
 */
static void overwrite(float *value, int64_t count, cr_value_use left) {
  for (int64_t i = 0; i < count; ++i) {
    const bool learns = learns_at(i);
    if (left == CR_VALUES_LEARNING && learns) continue;
    if (left == CR_VALUES_SIGNS) value[i] *= learns ? 2.5f : 0.0f;
    else if (left != CR_VALUES_ALL) value[i] = 0.37f - 1.3f * value[i];
  }
}

/* All gradients, one behind the other, when `left` is left of `bottom` or (negative) of the tops;
 * to be freed. */
static float *gradients(rig *r, const layer_row *row, int bottom, cr_value_use left,
                        int64_t *count) {
  int first = r->layer->kind->loss ? 1 : 0;
  ok(rig_forward(r));
  for (int t = first; t < r->tops && bottom < 0; ++t) {
    overwrite(rig_data(r->top[t]), crema_blob_count(r->top[t]), left);
  }
  if (bottom >= 0) {
    overwrite(rig_data(r->bottom[bottom]), crema_blob_count(r->bottom[bottom]), left);
  }
  for (int p = 0; p < r->layer->params; ++p) cr_tensor_set_zero(r->layer->blob[p]->diff);
  for (int i = 0; i < r->bottoms; ++i) cr_tensor_set_zero(r->bottom[i]->diff);
  set_diffs(r, row);
  ok(rig_backward(r));
  *count = 0;
  for (int i = 0; i < r->bottoms; ++i) *count += crema_blob_count(r->bottom[i]);
  for (int p = 0; p < r->layer->params; ++p) *count += crema_blob_count(r->layer->blob[p]);
  float *out = malloc(((size_t)*count + 1) * sizeof *out), *at = out;
  assert_non_null(out);
  for (int i = 0; i < r->bottoms + r->layer->params; ++i) {
    crema_blob *blob = i < r->bottoms ? r->bottom[i] : r->layer->blob[i - r->bottoms];
    memcpy(at, rig_diff(blob), (size_t)crema_blob_count(blob) * sizeof *at);
    at += crema_blob_count(blob);
  }
  return out;
}

/* Whether the gradients change when just `left` of a bottom or of the tops is left. */
static bool clobbering_matters(const layer_row *row, bool in_place, int bottom, cr_value_use left) {
  int64_t count = 0;
  rig r;
  float *found[2];
  for (int k = 0; k < 2; ++k) {
    uint32_t random = 123459876u;
    make(&r, row, in_place, &random);
    found[k] = gradients(&r, row, bottom, k == 0 ? CR_VALUES_ALL : left, &count);
    rig_free(&r);
  }
  bool changed = false;
  for (int64_t i = 0; i < count; ++i) {
    changed = changed || !(fabsf(found[0][i] - found[1][i]) <= 1e-5f * (1 + fabsf(found[0][i])));
  }
  free(found[0]);
  free(found[1]);
  return changed;
}

static cr_value_use uses_of(const layer_row *row, bool in_place) {
  uint32_t random = 1;
  rig r;
  make(&r, row, in_place, &random);
  cr_value_use uses = CR_VALUES_NONE;
  if (r.layer->kind->uses_tops != NULL) uses = r.layer->kind->uses_tops(r.layer, in_place);
  rig_free(&r);
  return uses;
}

static void check_uses(const layer_row *row, bool in_place) {
  const cr_value_use uses = uses_of(row, in_place);
  for (int left = CR_VALUES_NONE; left < CR_VALUES_ALL; ++left) {
    bool changed = clobbering_matters(row, in_place, -1, (cr_value_use)left);
    if (changed == (left < (int)uses)) continue;
    print_error("%s %s%s uses %d, but gradients %s with %d left\n", row->type, row->body,
                in_place ? ", in place," : "", (int)uses, changed ? "change" : "do not change",
                left);
    fail();
  }
}

TEST(layers_need_what_they_say) {
  for (size_t i = 0; i < ROWS; ++i) {
    if (has_flag(&rows[i], 'S') || has_flag(&rows[i], 'N')) continue;
    check_uses(&rows[i], false);
    if (has_flag(&rows[i], 'I')) check_uses(&rows[i], true);
  }
}

static bool says_it_reads(const layer_row *row, int bottom) {
  uint32_t random = 1;
  rig r;
  make(&r, row, false, &random);
  const cr_layer_class *kind = r.layer->kind;
  bool reads = kind->uses_bottom != NULL && kind->uses_bottom(r.layer, bottom);
  rig_free(&r);
  return reads;
}

TEST(layers_read_what_they_say) {
  for (size_t k = 0; k < ROWS; ++k) {
    if (has_flag(&rows[k], 'S') || has_flag(&rows[k], 'N')) continue;
    for (int i = 0; rows[k].values[i] != '\0'; ++i) {
      if (rows[k].values[i] != 'n' && rows[k].values[i] != 'p') continue;
      bool reads = says_it_reads(&rows[k], i);
      if (reads == clobbering_matters(&rows[k], false, i, CR_VALUES_NONE)) continue;
      print_error("%s %s says that it %s bottom %d\n", rows[k].type, rows[k].body,
                  reads ? "reads" : "does not read", i);
      fail();
    }
  }
}

TEST(layers_leave_what_they_say) {
  for (size_t k = 0; k < ROWS; ++k) {
    uint32_t random = 123459876u;
    rig r;
    if (!has_flag(&rows[k], 'I')) continue;
    make(&r, &rows[k], true, &random);
    int64_t count = crema_blob_count(r.top[0]);
    cr_value_use preserved = r.layer->kind->memory.preserves == NULL
                                 ? CR_VALUES_NONE
                                 : r.layer->kind->memory.preserves(r.layer);
    float *before = malloc((size_t)count * sizeof *before);
    assert_non_null(before);
    memcpy(before, rig_data(r.bottom[0]), (size_t)count * sizeof *before);
    ok(rig_forward(&r));
    for (int64_t i = 0; i < count; ++i) rig_diff(r.top[0])[i] = 1;
    ok(rig_backward(&r));
    const float *after = rig_data(r.top[0]), *diff = rig_diff(r.bottom[0]);
    for (int64_t i = 0; i < count; ++i) {
      bool learns = diff[i] != 0;
      if (preserved == CR_VALUES_SIGNS && learns) assert_true((after[i] > 0) == (before[i] > 0));
      if (preserved == CR_VALUES_LEARNING && learns) assert_true(after[i] == before[i]);
      if (preserved == CR_VALUES_ALL) assert_true(after[i] == before[i]);
    }
    free(before);
    rig_free(&r);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
