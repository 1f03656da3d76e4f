/* Runs of ops and conversions that a context's watcher gets, and the lines of CREMA_VERBOSE.
 */
#include "device/watch.h"

#include <limits.h>

#include "check.h"
#include "core/verbose.h"
#include "log_lines.h"
#include "ops/op.h"

enum { COUNT = 6 };

/* The events since start_watching. */
typedef struct seen {
  int ops, conversions;   /* events of each kind */
  int of_op;              /* conversions that the last op took */
  char op[64], layer[64]; /* of the last event of an op */
  char in[64], out[64];   /* formats of the last conversion */
  double run;
} seen;

static void note(void *user, const cr_watch_event *event) {
  seen *s = user;
  if (event->desc == NULL) {
    s->conversions += 1;
    snprintf(s->in, sizeof s->in, "%s", cr_watch_format_text(event->format[0]).text);
    snprintf(s->out, sizeof s->out, "%s", cr_watch_format_text(event->format[1]).text);
    assert_int_equal(event->count, COUNT);
    return;
  }
  s->ops += 1;
  s->of_op = event->conversions;
  s->run = event->run;
  snprintf(s->op, sizeof s->op, "%s %s", event->op, event->kernel);
  snprintf(s->layer, sizeof s->layer, "%s %s",
           event->context->watch.layer == NULL ? "" : event->context->watch.layer,
           cr_watch_pass(event->context));
}

/* y = |x| */
static void run_abs(crema_context *context, cr_tensor *x, cr_tensor *y) {
  const crema_shape shape = {1, {COUNT}};
  cr_op_desc kind, *desc = NULL;
  cr_op *op = NULL;
  memset(&kind, 0, sizeof kind);
  kind.kind = CR_OP_UNARY_FWD;
  kind.type = CREMA_F32;
  kind.u.unary.function = CR_UNARY_ABS;
  ok(cr_op_describe(&kind, 2, (const crema_shape *[]){&shape, &shape}, NULL, &desc));
  ok(cr_op_create(&desc, &op));
  ok(cr_op_run(op, context, (cr_tensor *[]){x, y}, NULL));
  cr_op_destroy(op);
}

static cr_tensor *make_tensor(crema_dtype type) {
  cr_tensor *tensor = NULL;
  float *values = NULL;
  ok(cr_tensor_create(type, COUNT, &tensor));
  ok(cr_tensor_host_write_floats(tensor, &values));
  for (int i = 0; i < COUNT; ++i) values[i] = (float)(i - 3);
  return tensor;
}

TEST(a_watcher_gets_runs_of_ops) {
  seen s = {.ops = 0};
  const cr_watcher watcher = {note, &s};
  crema_context *context = NULL;
  cr_tensor *x = make_tensor(CREMA_F32), *y = make_tensor(CREMA_F32);
  ok(crema_context_create(NULL, 1, &context));
  run_abs(context, x, y);
  assert_int_equal(s.ops, 0);
  context->watch.watcher = &watcher;
  cr_watch_layer(context, "norm1", true);
  run_abs(context, x, y);
  assert_int_equal(s.ops, 1);
  assert_non_null(strstr(s.op, "unary_fwd unary_fwd_"));
  assert_string_equal(s.layer, "norm1 backward");
  assert_true(s.run >= 0);
  assert_int_equal(s.of_op, 0);
  cr_watch_layer(context, NULL, false);
  run_abs(context, x, y);
  assert_string_equal(s.layer, " -");
  crema_context_destroy(context);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
}

TEST(conversions_are_events_and_counted_with_their_op) {
  seen s = {.ops = 0};
  const cr_watcher watcher = {note, &s};
  crema_context *context = NULL;
  cr_tensor *x = make_tensor(CREMA_F64), *y = make_tensor(CREMA_F32);
  ok(crema_context_create(NULL, 1, &context));
  context->watch.watcher = &watcher;
  run_abs(context, x, y);
  assert_int_equal(s.ops, 1);
  assert_int_equal(s.conversions, 1);
  assert_int_equal(s.of_op, 1);
  assert_string_equal(s.in, "float"); /* in which the values were written */
  crema_devptr memory = {0};
  ok(cr_tensor_read(x, context, (cr_format){CREMA_I32, NULL}, &memory));
  assert_int_equal(s.conversions, 2);
  assert_string_equal(s.out, crema_dtype_name(CREMA_I32));
  crema_context_destroy(context);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
}

/* An op that falls back to the CPU belongs to the layer, too, and leaves no mark on the context of
 * the host. */
TEST(an_op_that_falls_back_is_reported) {
  seen s = {.ops = 0};
  const cr_watcher watcher = {note, &s};
  crema_context *context = NULL;
  crema_device *device = NULL;
  ok(crema_device_simulate("1"));
  ok(crema_device_get(CREMA_DEVICE_SIM, 0, &device));
  ok(crema_context_create(device, 1, &context));
  cr_tensor *x = make_tensor(CREMA_F32), *y = make_tensor(CREMA_F32);
  context->watch.watcher = &watcher;
  cr_watch_layer(context, "norm1", false);
  run_abs(context, x, y);
  assert_int_equal(s.ops, 1);
  assert_string_equal(s.layer, "norm1 forward");
  assert_null(cr_host_context()->watch.watcher);
  assert_null(cr_host_context()->watch.layer);
  crema_context_destroy(context);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
}

TEST(verbose_lines_name_the_layer_the_blob_and_the_formats) {
  static log_lines lines;
  crema_context *context = NULL;
  cr_tensor *x = make_tensor(CREMA_F32), *y = make_tensor(CREMA_F32);
  setenv("CREMA_VERBOSE", "2", 1);
  atomic_store(&cr_verbose_level, INT_MAX);
  listen_to(&lines, CREMA_LOG_INFO);
  ok(crema_context_create(NULL, 1, &context));
  assert_int_equal(count_lines(&lines, "crema_verbose,info,crema "), 1);
  assert_int_equal(count_lines(&lines, "crema_verbose,fields,run,layer,pass,op,"), 1);
  cr_watch_layer(context, "a,b", false);
  run_abs(context, x, y);
  assert_int_equal(count_lines(&lines, "crema_verbose,planned,a;b,unary_fwd,"), 1);
  assert_int_equal(count_lines(&lines, "crema_verbose,run,a;b,forward,unary_fwd,"), 1);
  assert_int_equal(count_lines(&lines, ",cpu:0,float:6,float:6,0,"), 1);
  cr_tensor_set_label(x, cr_verbose_label("data"));
  cr_tensor_set_label(x, cr_verbose_label("second")); /* the first name stays */
  crema_devptr memory = {0};
  ok(cr_tensor_read(x, context, (cr_format){CREMA_F64, NULL}, &memory));
  assert_int_equal(
      count_lines(&lines, "crema_verbose,convert,a;b,forward,data,cpu:0,float:6,double:6,"), 1);
  assert_int_equal(count_lines(&lines, "crema_verbose,state,data,48,UNINITIALIZED,HEAD_AT_CPU\n"),
                   1);
  stop_listening();
  setenv("CREMA_VERBOSE", "0", 1);
  atomic_store(&cr_verbose_level, INT_MAX);
  crema_context_destroy(context);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
}

TEST(copies_between_host_and_device_name_the_blob) {
  static log_lines lines;
  crema_context *context = NULL;
  crema_device *device = NULL;
  cr_tensor *x = make_tensor(CREMA_F32);
  crema_devptr memory = {0};
  const void *values = NULL;
  ok(crema_device_get(CREMA_DEVICE_SIM, 0, &device));
  ok(crema_context_create(device, 1, &context));
  cr_tensor_set_label(x, cr_verbose_label("data"));
  setenv("CREMA_VERBOSE", "2", 1);
  atomic_store(&cr_verbose_level, INT_MAX);
  listen_to(&lines, CREMA_LOG_INFO);
  ok(cr_tensor_update(x, context, CR_PLAIN_F32, &memory));
  ok(cr_tensor_host_read(x, &values));
  stop_listening();
  assert_int_equal(count_lines(&lines, "crema_verbose,copy,data,24,host,sim:0,"), 1);
  assert_int_equal(count_lines(&lines, "crema_verbose,state,data,24,HEAD_AT_CPU,SYNCED\n"), 1);
  assert_int_equal(count_lines(&lines, "crema_verbose,state,data,24,SYNCED,HEAD_AT_GPU\n"), 1);
  assert_int_equal(count_lines(&lines, "crema_verbose,copy,data,24,sim:0,host,"), 1);
  setenv("CREMA_VERBOSE", "0", 1);
  atomic_store(&cr_verbose_level, INT_MAX);
  crema_context_destroy(context);
  cr_tensor_destroy(x);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
