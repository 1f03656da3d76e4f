/* What the tables of cases write in several places. */
#ifndef CR_TESTS_OP_CASE_PARTS_H
#define CR_TESTS_OP_CASE_PARTS_H

#define WINDOW(k, s, p)          \
  {                              \
    2, {k, k}, {s, s}, {p, p}, { \
      1, 1                       \
    }                            \
  }
#define RELU(slope) \
  { .kind = CR_POST_UNARY, .function = CR_UNARY_RELU, .alpha = slope }
#define POST(name, a, b, c) \
  { CR_POST_UNARY, CR_UNARY_##name, a, b, c }
#define ADD \
  { .kind = CR_POST_ADD }
#define POSTS(...)          \
  {                         \
    .post = { __VA_ARGS__ } \
  }

#endif
