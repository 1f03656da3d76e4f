/* What the text of a case means. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "op_case.h"
#include "ops/op.h"

const crema_dtype op_types[OP_TYPES] = {CREMA_F32, CREMA_F64, CREMA_F16, CREMA_BF16};

/* The type that the text names; `otherwise` when it names none. */
static crema_dtype type_named(const char *word, crema_dtype otherwise) {
  static const struct {
    const char *name;
    crema_dtype type;
  } types[] = {{"f64", CREMA_F64}, {"i32", CREMA_I32}, {"u8", CREMA_U8}};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
    if (strncmp(word, types[i].name, strlen(types[i].name)) == 0) return types[i].type;
  }
  return otherwise;
}

/* `named`: that of the text, F32 where it names none. */
static crema_dtype type_of(const cr_op_desc *desc, int i, crema_dtype named, crema_dtype type) {
  if (named != CREMA_F32) return named;
  const bool values = cr_op_kind_use(desc->kind, desc->args, i).role == CR_ROLE_VALUES;
  return values ? type : desc->type;
}

cr_op_desc *op_desc_new(void) {
  cr_op_desc *desc = calloc(1, cr_op_desc_bytes(OP_MAX_ARGS));
  if (desc == NULL) abort();
  return desc;
}

bool op_case_exists(const op_case *test, crema_dtype type) {
  cr_op_desc *desc = op_desc_new(), *plain = op_desc_new();
  bool exists = op_case_args(test, CREMA_F32, plain);
  if (exists && type != CREMA_F32) {
    exists = false;
    const bool made = op_case_args(test, type, desc);
    for (int i = 0; made && i < desc->args; ++i) {
      if (desc->arg[i].type != plain->arg[i].type) exists = true;
    }
  }
  free(desc);
  free(plain);
  return exists;
}

bool op_case_args(const op_case *test, crema_dtype type, cr_op_desc *desc) {
  desc->kind = test->desc.kind;
  desc->u = test->desc.u;
  desc->args = 0;
  for (const char *p = test->shapes; p; p = strchr(p, ';') ? strchr(p, ';') + 1 : NULL) {
    if (desc->args == OP_MAX_ARGS) return false;
    cr_op_arg *arg = &desc->arg[desc->args++];
    *arg = (cr_op_arg){.scale = test->scale ? test->scale[desc->args - 1] : 1};
    while (*p == ' ') ++p;
    if (*p == '-') arg->shape.axes = -1;
    while (*p >= '0' && *p <= '9' && arg->shape.axes < CREMA_MAX_AXES) {
      char *end;
      arg->shape.dim[arg->shape.axes++] = strtoll(p, &end, 10);
      for (p = end; *p == ' ';) ++p;
    }
    arg->type = type_named(p, CREMA_F32);
  }
  desc->type = type == CREMA_F64 ? CREMA_F64 : CREMA_F32;
  if (desc->kind == CR_OP_COPY && desc->arg[0].type != CREMA_F32) desc->type = desc->arg[0].type;
  for (int i = 0; i < desc->args; ++i) {
    desc->arg[i].type = type_of(desc, i, desc->arg[i].type, type);
  }
  return true;
}

void op_access(const cr_op_desc *desc, char *access) {
  for (int i = 0; i < desc->args; ++i) access[i] = cr_op_kind_use(desc->kind, desc->args, i).access;
}
