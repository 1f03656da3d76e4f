#include "device/backend/op_desc.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#define ELEMENTS \
  { CR_COST_ELEMENTS, 0, 0 }
#define WINDOWS(result, weights) \
  { CR_COST_WINDOWS, result, weights }
#define MATRIX(weights) \
  { CR_COST_MATRIX, 0, weights }

static const struct {
  const char *name, *args;
  cr_op_cost cost;
} op_kinds[] = {
#define CR_OP(NAME, name, args, cost) {#name, args, cost},
#include "device/backend/ops.inc"
#undef CR_OP
};

static bool is_known(cr_op_kind kind) {
  return (unsigned)kind < CR_OP_KINDS;
}

const char *cr_op_kind_name(cr_op_kind kind) {
  return is_known(kind) ? op_kinds[kind].name : "?";
}

const char *cr_op_kind_args(cr_op_kind kind) {
  return is_known(kind) ? op_kinds[kind].args : "";
}

int cr_op_kind_arity(cr_op_kind kind, int *most) {
  int letters = 0, left_out = 0;
  for (const char *p = cr_op_kind_args(kind); *p != '\0'; ++p) {
    letters += isalpha((unsigned char)*p) != 0;
    left_out += *p == '?';
  }
  *most = strchr(cr_op_kind_args(kind), '*') != NULL ? INT_MAX : letters;
  return letters - left_out;
}

static cr_op_role role_of(char mark) {
  return mark == '+' ? CR_ROLE_ARITHMETIC : mark == '=' ? CR_ROLE_OWN : CR_ROLE_VALUES;
}

cr_op_use cr_op_kind_use(cr_op_kind kind, int args, int arg) {
  int most = 0;
  int repeats = 1 + args - cr_op_kind_arity(kind, &most);
  for (const char *p = cr_op_kind_args(kind); *p != '\0'; ++p) {
    if (!isalpha((unsigned char)*p)) continue;
    arg -= p[1] == '*' ? repeats : 1;
    if (arg >= 0) continue;
    return (cr_op_use){(char)toupper((unsigned char)*p), islower((unsigned char)*p) != 0,
                       role_of(p[1])};
  }
  return (cr_op_use){0};
}

cr_op_cost cr_op_kind_cost(cr_op_kind kind) {
  return is_known(kind) ? op_kinds[kind].cost : (cr_op_cost)ELEMENTS;
}

int64_t cr_op_arg_count(const cr_op_desc *desc, int arg) {
  const crema_shape *shape = &desc->arg[arg].shape;
  return shape->axes < 0 ? 0 : crema_shape_count(shape, 0, shape->axes);
}

const cr_posts *cr_op_posts(const cr_op_desc *desc) {
  static const cr_posts none;
  switch (desc->kind) {
    case CR_OP_CONV_FWD:
    case CR_OP_CONV_INT8: return &desc->u.conv.posts;
    case CR_OP_IP_FWD:
    case CR_OP_IP_INT8: return &desc->u.ip.posts;
    case CR_OP_AFFINE_FWD:
    case CR_OP_AFFINE_INT8:
    case CR_OP_QUANTIZE: return &desc->u.affine;
    default: return &none;
  }
}

void cr_op_keep_posts(cr_op_desc *desc, int count) {
  cr_posts *posts = desc->kind == CR_OP_CONV_FWD     ? &desc->u.conv.posts
                    : desc->kind == CR_OP_IP_FWD     ? &desc->u.ip.posts
                    : desc->kind == CR_OP_AFFINE_FWD ? &desc->u.affine
                                                     : NULL;
  if (posts == NULL) return;
  for (int i = count; i < CR_POSTS; ++i) memset(&posts->post[i], 0, sizeof posts->post[i]);
  if (desc->args > CR_ARG_ADDEND && !cr_posts_add(posts)) desc->arg[CR_ARG_ADDEND].shape.axes = -1;
}

int cr_posts_count(const cr_posts *posts) {
  int count = 0;
  while (count < CR_POSTS && posts->post[count].kind != CR_POST_NONE) ++count;
  return count;
}

bool cr_posts_add(const cr_posts *posts) {
  for (int i = 0; i < CR_POSTS; ++i) {
    if (posts->post[i].kind == CR_POST_ADD) return true;
  }
  return false;
}

bool cr_posts_append(cr_posts *posts, const cr_post *post) {
  const int count = cr_posts_count(posts);
  if (count == CR_POSTS || (post->kind == CR_POST_ADD && cr_posts_add(posts))) return false;
  posts->post[count] = *post;
  return true;
}

cr_split cr_op_split(const cr_op_desc *desc, int arg, int axis) {
  const crema_shape *shape = &desc->arg[arg].shape;
  cr_split out = {1, 1, 1};
  for (int a = 0; a < shape->axes; ++a) {
    if (a < axis) {
      out.outer *= shape->dim[a];
    } else if (a == axis) {
      out.channels = shape->dim[a];
    } else {
      out.inner *= shape->dim[a];
    }
  }
  return out;
}
