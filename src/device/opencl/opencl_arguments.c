/* The argument blocks of device functions, and the kernels that are made around them.
 *
 * A kernel gets its block by value, as words, because OpenCL allows no pointers there. The word of
 * a pointer has the offset in a buffer. The buffer is an argument, too, from which the kernel makes
 * the pointer. A device that does not take a large block by value gets it in a buffer. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/opencl/opencl_private.h"

typedef struct pointer_field {
  const char *block, *name;
  size_t offset;
} pointer_field;

static const pointer_field fields[] = {
#define CR_POINTER(block, field) {#block, #field, offsetof(block, field)},
#include "device/opencl/arguments.inc"
#undef CR_POINTER
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

typedef enum kernel_shape { EACH, VALUE, THREAD_BLOCK } kernel_shape;

static const struct {
  kernel_shape shape;
  bool packs;
  const char *name, *block;
  size_t bytes;
} functions[] = {
#define CR_EACH(name, args) {EACH, false, #name, #args, sizeof(args)},
#define CR_VALUE(name, args) {VALUE, false, #name, #args, sizeof(args)},
#define CR_THREAD_BLOCK(name, args) {THREAD_BLOCK, false, #name, #args, sizeof(args)},
#define CR_EACH_HALVES(name, args) CR_EACH(name, args)
#define CR_THREAD_BLOCK_HALVES(name, args) CR_THREAD_BLOCK(name, args)
#define CR_EACH_PACKS(name, args) {EACH, true, #name, #args, sizeof(args)},
#define CR_VALUE_PACKS(name, args) {VALUE, true, #name, #args, sizeof(args)},
#include "device/gpu/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_VALUE
#undef CR_THREAD_BLOCK
#undef CR_EACH_HALVES
#undef CR_THREAD_BLOCK_HALVES
#undef CR_EACH_PACKS
#undef CR_VALUE_PACKS
};

size_t cr_opencl_argument_bytes(int function) {
  return functions[function].bytes;
}

/* The fields of the function's block: they follow each other in the list. */
static int fields_of(int function, const pointer_field **out) {
  int first = 0, count = 0;
  while (first < FIELDS && strcmp(fields[first].block, functions[function].block) != 0) ++first;
  while (first + count < FIELDS &&
         strcmp(fields[first + count].block, functions[function].block) == 0) {
    ++count;
  }
  *out = &fields[first];
  return count;
}

int cr_opencl_pointers(int function, size_t offset[CR_OPENCL_POINTERS]) {
  const pointer_field *field = NULL;
  const int count = fields_of(function, &field);
  for (int i = 0; i < count; ++i) offset[i] = field[i].offset;
  return count;
}

bool cr_opencl_by_value(const cr_opencl_device *device, int function) {
  const pointer_field *field = NULL;
  /* The pointers, the count, and the rounding of the driver. */
  const size_t others = ((size_t)fields_of(function, &field) + 2) * sizeof(cl_ulong);
  return functions[function].bytes + others <= device->parameter_bytes;
}

/* Text that grows. */
typedef struct text {
  char *at;
  size_t length, room;
  bool failed;
} text;

static void write_text(text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void write_text(text *t, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  const int length = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (t->length + (size_t)length + 1 > t->room) {
    const size_t room = 2 * t->room + (size_t)length + 1024;
    char *grown = realloc(t->at, room);
    t->failed = t->failed || grown == NULL;
    if (t->failed) return;
    t->at = grown;
    t->room = room;
  }
  va_start(args, fmt);
  vsnprintf(t->at + t->length, t->room - t->length, fmt, args);
  va_end(args);
  t->length += (size_t)length;
}

/* The head of a kernel, which makes the argument block. */
static void write_head(text *t, const char *kernel, int function, bool by_value) {
  const pointer_field *field = NULL;
  const int count = fields_of(function, &field);
  const size_t words = functions[function].bytes / sizeof(cl_ulong);
  write_text(t, "__kernel void %s(%s, long count", kernel,
             by_value ? "const cr_words words" : "__global const ulong *words");
  for (int i = 0; i < count; ++i) write_text(t, ", __global char *p%d", i);
  write_text(t, ") {\n  union { cr_words words; %s args; } u;\n", functions[function].block);
  if (by_value) write_text(t, "  u.words = words;\n");
  else write_text(t, "  for (int i = 0; i < %zu; ++i) u.words.w[i] = words[i];\n", words);
  for (int i = 0; i < count; ++i) {
    write_text(t, "  u.args.%s = (__global void *)(p%d == 0 ? 0 : p%d + words%s[%zu]);\n",
               field[i].name, i, i, by_value ? ".w" : "", field[i].offset / sizeof(cl_ulong));
  }
}

/* Element i is computed. */
static void write_element(text *t, int function) {
  const char *name = functions[function].name;
  if (functions[function].shape == VALUE)
    write_text(t, "cr_put(u.args.out, i, cr_%s_device(&u.args, i));\n}\n", name);
  else write_text(t, "cr_%s_device(&u.args, i);\n}\n", name);
}

static void write_elements(text *t, int function, bool by_value) {
  write_head(t, "run", function, by_value);
  write_text(t, "  for (long i = get_global_id(0); i < count; i += get_global_size(0))\n    ");
  write_element(t, function);
}

/* The packs, then the elements after the last pack. */
static void write_packs(text *t, int function, bool by_value) {
  write_head(t, "packs", function, by_value);
  write_text(t,
             "  const long whole = count / CR_PACK;\n"
             "  for (long p = get_global_id(0); p < whole; p += get_global_size(0))\n"
             "    cr_%s_pack(&u.args, p * CR_PACK);\n"
             "  const long i = whole * CR_PACK + get_global_id(0);\n"
             "  if (i < count) ",
             functions[function].name);
  write_element(t, function);
}

static void write_thread_blocks(text *t, int function, bool by_value, size_t most_lanes) {
  write_head(t, "run", function, by_value);
  write_text(t,
             "  __local cr_wide part[%zu];\n"
             "  const cr_thread_block b = {(int)get_local_id(0), (int)get_local_size(0), part};\n"
             "  for (long s = get_group_id(0); s < count; s += get_num_groups(0))\n"
             "    cr_%s_device(&u.args, s, b);\n}\n",
             most_lanes, functions[function].name);
  write_head(t, "alone", function, by_value);
  write_text(t,
             "  const cr_thread_block b = {0, 1, 0};\n"
             "  for (long s = get_global_id(0); s < count; s += get_global_size(0))\n"
             "    cr_%s_device(&u.args, s, b);\n}\n",
             functions[function].name);
}

crema_status cr_opencl_wrapper(const cr_opencl_device *device, int function, char **out) {
  text t = {.at = NULL};
  const bool by_value = cr_opencl_by_value(device, function);
  write_text(&t, "typedef struct { ulong w[%zu]; } cr_words;\n",
             functions[function].bytes / sizeof(cl_ulong));
  /* The host's layout, or the program does not compile. */
  write_text(&t, "typedef char cr_same_layout[sizeof(%s) == %zu ? 1 : -1];\n",
             functions[function].block, functions[function].bytes);
  if (functions[function].shape == THREAD_BLOCK) {
    write_thread_blocks(&t, function, by_value, cr_opencl_most_lanes(device));
  } else {
    write_elements(&t, function, by_value);
    if (functions[function].packs) write_packs(&t, function, by_value);
  }
  *out = t.at;
  if (!t.failed) return CREMA_OK;
  free(t.at);
  return cr_fail_memory(t.room, "the source of a kernel");
}
