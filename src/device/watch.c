#include "device/watch.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/timeline.h"
#include "core/verbose.h"

enum { MOST_FORMATS = 1600 };

const char *cr_watch_pass(const crema_context *context) {
  if (context->watch.layer == NULL) return "-";
  return context->watch.backward ? "backward" : "forward";
}

crema_status cr_watch_clock(crema_context *context, double *seconds) {
  crema_status status = context->device->backend->finish(context);
  *seconds = cr_clock_seconds();
  return status;
}

typedef struct formats {
  char text[MOST_FORMATS];
  size_t used;
} formats;

cr_watch_format cr_watch_format_text(cr_format format) {
  cr_watch_format out;
  char layout[32] = "private";
  const char *type = crema_dtype_name(format.type);
  if (format.layout == NULL) {
    snprintf(out.text, sizeof out.text, "%s", type);
    return out;
  }
  const cr_backend *backend = format.layout->device->backend;
  if (backend->layout_text != NULL) backend->layout_text(format.layout, layout, sizeof layout);
  snprintf(out.text, sizeof out.text, "%s/%s", type, layout);
  return out;
}

/* Appends " f32/aBcd8b:1x8x5x5". */
static void add_format(formats *f, cr_format format, const crema_shape *shape) {
  char *const end = f->text + sizeof f->text;
  char *at = f->text + f->used;
  at += snprintf(at, (size_t)(end - at), "%s%s:", f->used > 0 ? " " : "",
                 cr_watch_format_text(format).text);
  for (int i = 0; i < shape->axes && at < end; ++i) {
    at += snprintf(at, (size_t)(end - at), "%s%" PRId64, i > 0 ? "x" : "", shape->dim[i]);
  }
  f->used = at < end ? (size_t)(at - f->text) : sizeof f->text - 1;
}

static void print_op(const cr_watch_event *e) {
  formats in = {.used = 0}, out = {.used = 0};
  for (int i = 0; i < e->desc->args; ++i) {
    const cr_op_arg *arg = &e->desc->arg[i];
    if (arg->shape.axes < 0) continue;
    const char access = cr_op_kind_use(e->desc->kind, e->desc->args, i).access;
    add_format(access == 'R' ? &in : &out, e->format[i], &arg->shape);
  }
  cr_verbose_line("run", "%s,%s,%s,%s,%s:%d,%s,%s,%d,%d,%" PRId64 ",%.1f,%.1f,%.1f",
                  cr_verbose_name(e->context->watch.layer).text, cr_watch_pass(e->context), e->op,
                  e->kernel, e->context->device->backend->name, e->context->device->index, in.text,
                  out.text, e->conversions, e->threads, e->launches, e->prepare * 1e6,
                  e->queue * 1e6, e->run * 1e6);
}

static void print_event(void *user, const cr_watch_event *e) {
  (void)user;
  if (e->desc != NULL) {
    print_op(e);
    return;
  }
  const crema_shape flat = {.axes = 1, .dim = {e->count}};
  formats in = {.used = 0}, out = {.used = 0};
  add_format(&in, e->format[0], e->format[0].layout != NULL ? &e->format[0].layout->shape : &flat);
  add_format(&out, e->format[1], e->format[1].layout != NULL ? &e->format[1].layout->shape : &flat);
  cr_verbose_line("convert", "%s,%s,%s,%s:%d,%s,%s,%.1f",
                  cr_verbose_name(e->context->watch.layer).text, cr_watch_pass(e->context),
                  cr_verbose_name(e->blob).text, e->context->device->backend->name,
                  e->context->device->index, in.text, out.text, e->run * 1e6);
}

/* Versions and the machine, then the names of the fields of each kind of line. */
static void print_head(void) {
  crema_device_info info = {.name = "CPU"};
  if (crema_device_describe(cr_cpu_device(), &info) != CREMA_OK) info.library[0] = '\0';
  cr_verbose_line("info", "crema %s,%s,%s,threads %d", crema_version(),
                  cr_verbose_name(info.library).text, cr_verbose_name(info.name).text,
                  cr_scheduler_threads(cr_host_context()));
  cr_verbose_line("fields",
                  "run,layer,pass,op,kernel,device,in,out,conversions,threads,launches,prepare_us,"
                  "queue_us,run_us");
  cr_verbose_line("fields", "convert,layer,pass,blob,device,in,out,run_us");
  if (!cr_verbose(CR_VERBOSE_REASONS)) return;
  cr_verbose_line("fields", "planned,layer,op,kernel,device,threads");
  cr_verbose_line("fields", "declined,layer,op,kernel,device,reason");
  cr_verbose_line("fields", "copy,blob,bytes,from,to,copy_us");
  cr_verbose_line("fields", "state,blob,bytes,from,to");
}

void cr_watch_open(crema_context *context) {
  static const cr_watcher printer = {.ran = print_event};
  static atomic_flag headed = ATOMIC_FLAG_INIT;
  if (!cr_verbose(CR_VERBOSE_RUNS)) return;
  context->watch.watcher = &printer;
  if (!atomic_flag_test_and_set(&headed)) print_head();
}

static void trace_convert(const crema_context *context, const char *blob, cr_format to,
                          cr_format from, double begin) {
  const cr_backend *backend = context->device->backend;
  cr_timeline_span(
      0, backend->host_memory ? "convert" : "submit", "convert", begin,
      "\"blob\":\"%s\",\"layer\":\"%s\",\"from\":\"%s\",\"to\":\"%s\",\"device\":\"%s:%d\"",
      cr_timeline_text(blob).text, cr_timeline_text(context->watch.layer).text,
      cr_watch_format_text(from).text, cr_watch_format_text(to).text, backend->name,
      context->device->index);
}

crema_status cr_watch_convert(crema_context *context, const char *blob, int64_t count, cr_format to,
                              crema_devptr dst, cr_format from, crema_devptr src) {
  const cr_backend *backend = context->device->backend;
  const cr_watcher *watcher = context->watch.watcher;
  if (watcher == NULL) {
    const double traced = cr_timeline_now();
    CR_TRY(backend->convert(context, count, to, dst, from, src));
    if (traced > 0) trace_convert(context, blob, to, from, traced);
    return CREMA_OK;
  }
  double begin, end;
  CR_TRY(cr_watch_clock(context, &begin));
  CR_TRY(backend->convert(context, count, to, dst, from, src));
  CR_TRY(cr_watch_clock(context, &end));
  context->watch.conversions += 1;
  const cr_watch_event event = {.context = context,
                                .op = "convert",
                                .kernel = "",
                                .format = (cr_format[]){from, to},
                                .blob = blob,
                                .count = count,
                                .run = end - begin};
  watcher->ran(watcher->user, &event);
  return CREMA_OK;
}

crema_status cr_watch_convert_many(crema_context *context, const char *const *blob,
                                   const cr_conversion *conversion, int count) {
  if (context->watch.watcher == NULL) {
    return context->device->backend->convert_many(context, conversion, count);
  }
  for (int i = 0; i < count; ++i) {
    const cr_conversion *c = &conversion[i];
    CR_TRY(cr_watch_convert(context, blob[i], c->count, c->to, c->dst, c->from, c->src));
  }
  return CREMA_OK;
}
