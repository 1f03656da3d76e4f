#include <math.h>

#include "op_case.h"
#include "op_case_parts.h"
#include "ops/op.h"

#define IP(text, of, turned)                                                                    \
  {                                                                                             \
    .label = text, .shapes = of, .desc = {.kind = CR_OP_IP_FWD, .u.ip = {.transpose = turned} } \
  }
#define IP_POSTS(text, of, ...)             \
  {                                         \
    .label = text, .shapes = of, .desc = {  \
      .kind = CR_OP_IP_FWD,                 \
      .u.ip = {.posts = POSTS(__VA_ARGS__)} \
    }                                       \
  }
#define IP_LARGE(text, of, ...)                           \
  {                                                       \
    .label = text, .shapes = of, .large = true, .desc = { \
      .kind = CR_OP_IP_FWD,                               \
      .u.ip = {.posts = POSTS(__VA_ARGS__)}               \
    }                                                     \
  }
#define MAX_POOL(text, of, ...)                                \
  {                                                            \
    .label = text, .shapes = of, .desc = {                     \
      .kind = CR_OP_POOL_FWD,                                  \
      .u.pool = {.window = __VA_ARGS__, .method = CR_POOL_MAX} \
    }                                                          \
  }
#define AVERAGE_POOL(text, of, ...)                                \
  {                                                                \
    .label = text, .shapes = of, .desc = {                         \
      .kind = CR_OP_POOL_FWD,                                      \
      .u.pool = {.window = __VA_ARGS__, .method = CR_POOL_AVERAGE} \
    }                                                              \
  }
#define LRN(text, of, ...)                                                                \
  {                                                                                       \
    .label = text, .shapes = of, .desc = {.kind = CR_OP_LRN_FWD, .u.lrn = {__VA_ARGS__} } \
  }
#define BN_SCALED(text, of, is_large)                                               \
  {                                                                                 \
    .label = text " scaled", .shapes = of,                                          \
    .desc = {.kind = CR_OP_BN_FWD_TRAIN, .u.bn = {.eps = 1e-5f}}, .large = is_large \
  }
#define BN_SUMMED(text, of)                                    \
  {                                                            \
    .label = text " with moving sums", .shapes = of, .desc = { \
      .kind = CR_OP_BN_FWD_TRAIN,                              \
      .u.bn = {.eps = 1e-5f, .fraction = 0.75f}                \
    }                                                          \
  }
#define BN_RECTIFIED(text, of)                               \
  {                                                          \
    .label = text " rectified", .shapes = of, .desc = {      \
      .kind = CR_OP_BN_FWD_TRAIN,                            \
      .u.bn = {.eps = 1e-5f, .fraction = 0.5f, .rectify = 1} \
    }                                                        \
  }
#define BN(text, of, is_large)                                                     \
  {.label = text " train",                                                         \
   .shapes = of,                                                                   \
   .desc = {.kind = CR_OP_BN_FWD_TRAIN, .u.bn = {.eps = 1e-5f}},                   \
   .large = is_large},                                                             \
  {                                                                                \
    .label = text " global", .shapes = of,                                         \
    .desc = {.kind = CR_OP_BN_FWD_GLOBAL, .u.bn = {.eps = 1e-3f, .global = true}}, \
    .large = is_large                                                              \
  }
#define SOFTMAX(text, of, along)                                                       \
  {                                                                                    \
    .label = text, .shapes = of, .desc = {.kind = CR_OP_SOFTMAX_FWD, .u.axis = along } \
  }
#define FUNCTION(text, of, name, a, b, c, is_large)                    \
  {                                                                    \
    .label = text, .shapes = of, .large = is_large, .desc = {          \
      .kind = CR_OP_UNARY_FWD,                                         \
      .u.unary = {.function = name, .alpha = a, .beta = b, .gamma = c} \
    }                                                                  \
  }
#define UNARY(text, of, name, slope, is_large) FUNCTION(text, of, name, slope, 0, 0, is_large)
#define REGIONS(text, name, of, factor, samples, is_large)    \
  {                                                           \
    .label = text, .shapes = of, .large = is_large, .desc = { \
      .kind = name,                                           \
      .u.roi = {.scale = factor, .ratio = samples}            \
    }                                                         \
  }
#define SAMPLE(text, of, ...)                                                                   \
  {                                                                                             \
    .label = text, .shapes = of, .desc = {.kind = CR_OP_SAMPLE_FWD, .u.sample = {__VA_ARGS__} } \
  }
#define RESAMPLE(text, of, ...)                                                                 \
  {                                                                                             \
    .label = text, .shapes = of, .desc = {.kind = CR_OP_RESAMPLE, .u.resample = {__VA_ARGS__} } \
  }
#define CORRELATION(text, of, ...)         \
  {                                        \
    .label = text, .shapes = of, .desc = { \
      .kind = CR_OP_CORRELATION_FWD,       \
      .u.correlation = {__VA_ARGS__}       \
    }                                      \
  }
#define FLIPPED(text, of, axes)                                                   \
  {                                                                               \
    .label = text, .shapes = of, .desc = {.kind = CR_OP_FLIP, .u.flipped = axes } \
  }
#define NOISE(text, of, ...)                                                              \
  {                                                                                       \
    .label = text, .shapes = of, .desc = {.kind = CR_OP_NOISE, .u.noise = {__VA_ARGS__}}, \
    .scalars = {                                                                          \
      .seed = 7,                                                                          \
      .counter = 3                                                                        \
    }                                                                                     \
  }
#define SIMPLE(text, name, of)                           \
  {                                                      \
    .label = text, .shapes = of, .desc = {.kind = name } \
  }
#define CONCAT(text, name, of, along)                                     \
  {                                                                       \
    .label = text, .shapes = of, .desc = {.kind = name, .u.axis = along } \
  }
#define UPDATE(text, name, of, which, is_large, decay_kind)                                       \
  {                                                                                               \
    .label = text, .shapes = of, .large = is_large,                                               \
    .desc = {.kind = name, .u.update = {.rule = which, decay_kind}}, .scalars = OP_UPDATE_SCALARS \
  }
#define SEGMENTS(array) .segment = array, .segments = sizeof(array) / sizeof(array)[0]
#define UPDATE_SOME(text, name, of, which, array, decay_kind)                                     \
  {                                                                                               \
    .label = text, .shapes = of, .desc = {.kind = name, .u.update = {.rule = which, decay_kind}}, \
    .scalars = {                                                                                  \
      .momentum = 0.9f,                                                                           \
      .momentum2 = 0.999f,                                                                        \
      .delta = 1e-4f,                                                                             \
      .grad_scale = 0.5f,                                                                         \
      SEGMENTS(array)                                                                             \
    }                                                                                             \
  }
#define UPDATE_BOTH(text, of, which)                                            \
  UPDATE(text " L2", CR_OP_UPDATE, of, which, false, .l1 = false),              \
      UPDATE(text " L1 keep", CR_OP_UPDATE_KEEP, of, which, false, .l1 = true), \
      UPDATE(text " decoupled keep", CR_OP_UPDATE_KEEP, of, which, false, .decoupled = true)

#define ROW_LOSS(text, of, is_large)                                                        \
  {                                                                                         \
    .label = (text), .shapes = (of), .large = (is_large), .desc = {.kind = CR_OP_ROW_LOSS}, \
    .scalars = {                                                                            \
      .alpha = 1                                                                            \
    }                                                                                       \
  }
#define LOSS(text, name, of, ...)                                   \
  {                                                                 \
    .label = text, .shapes = of, .scalars = {.alpha = 1}, .desc = { \
      .kind = name,                                                 \
      .u = {__VA_ARGS__}                                            \
    }                                                               \
  }

/* Of which the probabilities are not kept. */
#define OF_SCORES(text, shapes, ignores, label) \
  LOSS(text, CR_OP_SOFTMAX_LOSS_FWD, shapes, .nll = {ignores, true, label})

/* With gaps before, between and behind them; one is empty. */
static const cr_update_segment four_segments[] = {
    {3, 5, 0.01, 0.5}, {8, 1, 0.02, 0}, {20, 0, 1, 1}, {21, 30, 0.03, 0.25}};
/* More than one launch on a GPU takes. */
static cr_update_segment many_segments[300];

__attribute__((constructor)) static void set_many_segments(void) {
  for (int i = 0; i < 300; ++i) {
    many_segments[i] = (cr_update_segment){7 * i + 1, 2 + i % 5, 0.001 * i, 0.01 * (i % 7)};
  }
}
static const cr_update_segment long_segment[] = {{100, 70000, 0, 0}, {70200, 900, 0, 0}};

static const float three_coeffs[] = {1.0f, -2.0f, 0.5f, 1.0f};
static const float two_coeffs[] = {0.25f, 3.0f, 1.0f};

const op_case op_cases[] = {
    IP("matrix", "3 5; 4 5; 4; 3 4", false),
    IP("no bias", "3 5; 4 5; -; 3 4", false),
    IP("one row", "1 19; 7 19; 7; 1 7", false),
    IP("image", "2 3 2 2; 4 12; 4; 2 4", false),
    IP("four rows", "4 6; 5 6; 5; 4 5", false),
    IP("rows of one value", "5; 3 1; 3; 5 3", false),
    IP("empty batch", "0 5; 4 5; 4; 0 4", false),
    IP("blocked image", "2 16 2 2; 5 64; 5; 2 5", false),
    IP("transposed", "3 5; 5 4; 4; 3 4", true),
    IP("transposed image, no bias", "2 3 2 2; 12 4; -; 2 4", true),
    /* More results, or more values of a row, than the reference kernel's tiles have. */
    IP("tiles of results", "5 3; 70 3; 70; 5 70", false),
    IP("tiles of values", "5 70; 3 70; 3; 5 3", false),
    IP("tiles of results, transposed", "5 3; 3 70; 70; 5 70", true),
    IP("tiles of values, transposed", "5 70; 70 3; 3; 5 3", true),
    IP("one value", "1 1; 1 1; 1; 1 1", false),
    IP_POSTS("sigmoid behind", "5 7; 6 7; 6; 5 6", POST(SIGMOID, 0, 0, 0)),
    IP_POSTS("tanh behind", "5 7; 6 7; 6; 5 6", POST(TANH, 0, 0, 0)),
    IP_POSTS("power behind", "5 7; 6 7; 6; 5 6", POST(POWER, 2, 0.5, 1)),
    IP_POSTS("power of a shift behind", "5 7; 6 7; 6; 5 6", POST(POWER, 2, 1, 0.5)),
    IP_POSTS("power of a multiple behind", "5 7; 6 7; 6; 5 6", POST(POWER, 2, 0.5, 0)),
    IP_POSTS("power 1.5 behind", "5 7; 6 7; 6; 5 6", POST(ABS, 0, 0, 0), POST(POWER, 1.5, 0.5, 1)),
    IP_POSTS("exp behind", "5 7; 6 7; 6; 5 6", POST(EXP, 0.5, 0.5, 0.25)),
    IP_POSTS("log behind", "5 7; 6 7; 6; 5 6", POST(ABS, 0, 0, 0), POST(LOG, 0.5, 2, 1)),
    IP_POSTS("abs behind", "5 7; 6 7; 6; 5 6", POST(ABS, 0, 0, 0)),
    IP_POSTS("elu behind", "5 7; 6 7; 6; 5 6", POST(ELU, 0.75, 1.5, 0)),
    IP_POSTS("bnll behind", "5 7; 6 7; 6; 5 6", POST(BNLL, 0, 0, 0)),
    {.label = "threshold behind",
     .shapes = "5 7; 6 7; 6; 5 6",
     .desc = {CR_OP_IP_FWD, .u.ip = {.posts = POSTS(POST(THRESHOLD, 7.5, 0, 0))}},
     .ties = true},
    IP_POSTS("clip behind", "5 7; 6 7; 6; 5 6", POST(CLIP, -0.25, 0.5, 0)),
    IP_POSTS("swish behind", "5 7; 6 7; 6; 5 6", POST(SWISH, 1.5, 0, 0)),
    IP_POSTS("sum behind", "5 7; 6 7; 6; 5 6; 5 6", ADD),
    IP_POSTS("sum, relu behind", "5 7; 6 7; 6; 5 6; 5 6", ADD, RELU(0)),
    IP_POSTS("relu, sum behind", "5 7; 6 7; 6; 5 6; 5 6", RELU(0.25f), ADD),
    IP_POSTS("four behind", "5 7; 6 7; 6; 5 6; 5 6", POST(TANH, 0, 0, 0), ADD, RELU(0),
             POST(POWER, 1, 2, 1)),
    {.label = "large",
     .shapes = "33 32 6 6; 130 1152; 130; 33 130",
     .large = true,
     .desc = {.kind = CR_OP_IP_FWD}},
    IP_LARGE("large, relu", "33 160; 130 160; 130; 33 130", RELU(0)),
    IP_LARGE("large, swish", "5 10 4 4; 130 160; -; 5 130", POST(SWISH, 1, 0, 0)),
    IP_LARGE("large, sum, clip", "33 160; 130 160; 130; 33 130; 33 130", ADD, POST(CLIP, 0, 6, 0)),
    {.label = "large transposed",
     .shapes = "33 300; 300 130; 130; 33 130",
     .large = true,
     .desc = {.kind = CR_OP_IP_FWD, .u.ip = {.transpose = true}}},

    MAX_POOL("max 2x2", "2 3 4 6; 2 3 2 3; 2 3 2 3 i32", WINDOW(2, 2, 0)),
    MAX_POOL("max 2x2 inference", "2 3 4 6; 2 3 2 3; -", WINDOW(2, 2, 0)),
    MAX_POOL("max overhang", "2 3 6 6; 2 3 3 3; 2 3 3 3 i32", WINDOW(3, 2, 0)),
    MAX_POOL("max pad", "2 3 5 5; 2 3 3 3; 2 3 3 3 i32", WINDOW(3, 2, 1)),
    MAX_POOL("max pad overhang", "1 16 6 6; 1 16 4 4; 1 16 4 4 i32", WINDOW(3, 2, 1)),
    MAX_POOL("max overlap", "1 2 5 4; 1 2 7 6; 1 2 7 6 i32", WINDOW(3, 1, 2)),
    MAX_POOL("max global", "2 3 4 5; 2 3 1 1; 2 3 1 1 i32", {2, {4, 5}, {1, 1}, {0}, {1, 1}}),
    MAX_POOL("max kernel beyond the input", "1 2 2 2; 1 2 1 1; 1 2 1 1 i32", WINDOW(4, 1, 1)),
    MAX_POOL("max uneven", "1 2 5 6; 1 2 3 6; 1 2 3 6 i32", {2, {1, 3}, {2, 1}, {0, 1}, {1, 1}}),
    /* 255 and 256 elements, whose numbers fit into a byte and do not. */
    MAX_POOL("max of 255", "1 1 17 17; 1 1 3 1; 1 1 3 1 i32", {2, {15, 17}, {1, 1}, {0}, {1, 1}}),
    MAX_POOL("max of a column of 255", "1 1 255 2; 1 1 1 2; 1 1 1 2 i32",
             {2, {255, 1}, {1, 1}, {0}, {1, 1}}),
    MAX_POOL("max of 256", "1 1 17 17; 1 1 2 2; 1 1 2 2 i32", WINDOW(16, 1, 0)),
    MAX_POOL("max one axis", "2 3 9; 2 3 4; 2 3 4 i32", {1, {3}, {2}, {0}, {1}}),
    MAX_POOL("max three axes", "1 2 4 4 4; 1 2 2 2 2; 1 2 2 2 2 i32",
             {3, {2, 2, 2}, {2, 2, 2}, {0}, {1, 1, 1}}),
    MAX_POOL("max rows 2x2", "2 3 6 23; 2 3 3 12; 2 3 3 12 i32", WINDOW(2, 2, 0)),
    MAX_POOL("max rows inference", "1 2 4 32; 1 2 2 16; -", WINDOW(2, 2, 0)),
    MAX_POOL("max of many planes", "7 10 4 3; 7 10 2 2; 7 10 2 2 i32", WINDOW(2, 2, 0)),
    MAX_POOL("max 1x1", "2 3 3 2; 2 3 3 2; 2 3 3 2 i32", WINDOW(1, 1, 0)),
    MAX_POOL("max 1x1 apart", "1 2 5 5; 1 2 2 2; 1 2 2 2 i32", WINDOW(1, 3, 0)),
    MAX_POOL("max three uneven axes", "1 2 3 5 4; 1 2 3 3 2; 1 2 3 3 2 i32",
             {3, {1, 3, 2}, {1, 2, 2}, {0, 1, 0}, {1, 1, 1}}),
    MAX_POOL("max rows overlap", "2 3 6 20; 2 3 4 11; 2 3 4 11 i32",
             {2, {3, 2}, {2, 2}, {1, 1}, {1, 1}}),
    MAX_POOL("max rows apart", "1 2 7 19; 1 2 3 10; 1 2 3 10 i32",
             {2, {2, 2}, {3, 2}, {1, 1}, {1, 1}}),
    {.label = "max rows ties",
     .shapes = "2 3 6 21; 2 3 3 11; 2 3 3 11 i32",
     .ties = true,
     .desc = {.kind = CR_OP_POOL_FWD, .u.pool = {.window = WINDOW(2, 2, 0)}}},
    {.label = "max ties",
     .shapes = "2 3 6 6; 2 3 3 3; 2 3 3 3 i32",
     .ties = true,
     .desc = {.kind = CR_OP_POOL_FWD, .u.pool = {.window = WINDOW(3, 2, 0)}}},
    {.label = "max ties in blocks",
     .shapes = "1 16 7 7; 1 16 5 5; 1 16 5 5 i32",
     .ties = true,
     .desc = {.kind = CR_OP_POOL_FWD, .u.pool = {.window = WINDOW(3, 1, 0)}}},
    {.label = "max large",
     .shapes = "4 32 55 55; 4 32 27 27; 4 32 27 27 i32",
     .large = true,
     .desc = {.kind = CR_OP_POOL_FWD, .u.pool = {.window = WINDOW(3, 2, 0)}}},
    MAX_POOL("max 3x3 without a gradient", "2 37 7 6; 2 37 4 3; -", WINDOW(3, 2, 1)),
    MAX_POOL("max 2x2 without a gradient", "2 6 5 6; 2 6 3 3; -", WINDOW(2, 2, 0)),
    MAX_POOL("max 4x4 without a gradient", "1 5 9 8; 1 5 6 5; -", WINDOW(4, 2, 2)),
    AVERAGE_POOL("average 2x2", "2 3 4 6; 2 3 2 3; -", WINDOW(2, 2, 0)),
    AVERAGE_POOL("average overhang", "2 3 6 6; 2 3 3 3; -", WINDOW(3, 2, 0)),
    AVERAGE_POOL("average pad", "2 3 5 5; 2 3 3 3; -", WINDOW(3, 2, 1)),
    AVERAGE_POOL("average rows 2x2", "2 3 6 23; 2 3 3 12; -", WINDOW(2, 2, 0)),
    AVERAGE_POOL("average rows overlap", "2 3 6 20; 2 3 4 11; -",
                 {2, {3, 2}, {2, 2}, {1, 1}, {1, 1}}),
    AVERAGE_POOL("average rows apart", "1 2 7 19; 1 2 3 10; -",
                 {2, {2, 2}, {3, 2}, {1, 1}, {1, 1}}),
    {.label = "average rows of the input",
     .shapes = "1 2 7 19; 1 2 4 10; -",
     .desc = {.kind = CR_OP_POOL_FWD,
              .u.pool = {.window = WINDOW(2, 2, 1), .method = CR_POOL_AVERAGE_INPUT}}},
    AVERAGE_POOL("average rows 3x3", "2 3 7 40; 2 3 3 20; -", WINDOW(3, 2, 0)),
    AVERAGE_POOL("average rows 3x3 side by side", "1 2 5 37; 1 2 5 37; -", WINDOW(3, 1, 1)),
    AVERAGE_POOL("average rows 2x2 side by side", "1 2 4 35; 1 2 3 34; -", WINDOW(2, 1, 0)),
    AVERAGE_POOL("average five rows", "1 2 9 18; 1 2 9 19; -", {2, {5, 2}, {1, 1}, {2, 1}, {1, 1}}),
    AVERAGE_POOL("average pad overhang", "1 16 6 6; 1 16 4 4; -", WINDOW(3, 2, 1)),
    AVERAGE_POOL("average wide pad", "1 2 7 7; 1 2 3 3; -", WINDOW(4, 3, 2)),
    AVERAGE_POOL("average of many planes", "7 10 4 3; 7 10 2 2; -", WINDOW(2, 2, 0)),
    AVERAGE_POOL("average 1x1 apart", "1 2 5 5; 1 2 2 2; -", WINDOW(1, 3, 0)),
    AVERAGE_POOL("average of three uneven axes", "1 2 3 5 4; 1 2 3 3 2; -",
                 {3, {1, 3, 2}, {1, 2, 2}, {0, 1, 0}, {1, 1, 1}}),
    {.label = "average wide pad of the input",
     .shapes = "1 2 7 6; 1 2 3 3; -",
     .desc = {.kind = CR_OP_POOL_FWD,
              .u.pool = {.window = WINDOW(4, 3, 2), .method = CR_POOL_AVERAGE_INPUT}}},
    AVERAGE_POOL("average global", "2 16 4 5; 2 16 1 1; -", {2, {4, 5}, {1, 1}, {0}, {1, 1}}),
    AVERAGE_POOL("average three axes", "1 2 4 4 4; 1 2 2 2 2; -",
                 {3, {2, 2, 2}, {2, 2, 2}, {0}, {1, 1, 1}}),
    {.label = "average large",
     .shapes = "4 32 55 55; 4 32 27 27; -",
     .large = true,
     .desc = {.kind = CR_OP_POOL_FWD,
              .u.pool = {.window = WINDOW(3, 2, 0), .method = CR_POOL_AVERAGE}}},
    {.label = "mask",
     .shapes = "2 3 4 3 i32; 2 3 4 3",
     .desc = {.kind = CR_OP_POOL_MASK, .u.pool = {.window = WINDOW(3, 2, 1), .src = {6, 5}}}},
    {.label = "mask of three axes",
     .shapes = "1 2 3 3 2 i32; 1 2 3 3 2",
     .desc = {.kind = CR_OP_POOL_MASK,
              .u.pool = {.window = {3, {1, 3, 2}, {1, 2, 2}, {0, 1, 0}, {1, 1, 1}},
                         .src = {3, 5, 4}}}},
    {.label = "draw",
     .shapes = "2 3 6 6; 2 3 3 3; 2 3 3 3 i32",
     .scalars = {.seed = 7, .counter = 3},
     .desc = {.kind = CR_OP_STOCHASTIC_POOL_FWD, .u.pool = {.window = WINDOW(3, 2, 0)}}},
    {.label = "draw over three axes",
     .shapes = "1 2 4 5 4; 1 2 2 2 2; 1 2 2 2 2 i32",
     .scalars = {.seed = 7, .counter = 3},
     .desc = {.kind = CR_OP_STOCHASTIC_POOL_FWD,
              .u.pool = {.window = {3, {2, 3, 2}, {2, 2, 2}, {0}, {1, 1, 1}}}}},
    {.label = "weighted over three axes",
     .shapes = "1 2 4 5 4; 1 2 2 2 2",
     .desc = {.kind = CR_OP_STOCHASTIC_POOL_TEST,
              .u.pool = {.window = {3, {2, 3, 2}, {2, 2, 2}, {0}, {1, 1, 1}}}}},
    {.label = "weighted",
     .shapes = "2 3 6 6; 2 3 3 3",
     .desc = {.kind = CR_OP_STOCHASTIC_POOL_TEST, .u.pool = {.window = WINDOW(3, 2, 0)}}},

    LRN("across 5", "2 7 3 2; 2 7 3 2; 2 7 3 2 u8", .size = 5, .alpha = 1, .beta = 0.75f, .k = 1),
    LRN("across inference", "2 7 3 2; 2 7 3 2; -", .size = 5, .alpha = 1e-2f, .beta = 0.75f,
        .k = 1),
    LRN("across inference, many channels", "1 1030 1 1; 1 1030 1 1; -", .size = 7, .alpha = 2,
        .beta = 0.75f, .k = 2),
    LRN("across inference, some channels", "1 300 1 1; 1 300 1 1; -", .size = 7, .alpha = 2,
        .beta = 0.75f, .k = 2),
    LRN("across inference, another power", "2 5 3 2; 2 5 3 2; -", .size = 3, .alpha = 1,
        .beta = 0.5f, .k = 1),
    LRN("across inference, wider than deep", "2 3 2 2; 2 3 2 2; -", .size = 9, .alpha = 1,
        .beta = 0.75f, .k = 1),
    LRN("across inference, a wide window", "1 70 1 1; 1 70 1 1; -", .size = 65, .alpha = 1,
        .beta = 0.75f, .k = 1),
    LRN("within inference", "2 2 4 5; 2 2 4 5; -", .size = 3, .alpha = 2, .beta = 0.75f, .k = 1,
        .within_channel = true),
    LRN("across 3, k 2", "1 16 2 3; 1 16 2 3; 1 16 2 3 u8", .size = 3, .alpha = 2, .beta = 0.6f,
        .k = 2),
    LRN("across 1", "2 3 2 2; 2 3 2 2; 2 3 2 2 u8", .size = 1, .alpha = 1, .beta = 0.75f, .k = 1),
    LRN("across wider than deep", "2 3 2 2; 2 3 2 2; 2 3 2 2 u8", .size = 9, .alpha = 1,
        .beta = 0.75f, .k = 1),
    LRN("within 3", "2 2 4 5; 2 2 4 5; 2 2 4 5 u8", .size = 3, .alpha = 2, .beta = 0.75f, .k = 1,
        .within_channel = true),
    LRN("within 5", "1 2 4 4; 1 2 4 4; 1 2 4 4 u8", .size = 5, .alpha = 1, .beta = 0.5f, .k = 1,
        .within_channel = true),
    LRN("across tiles", "1 2 10 13; 1 2 10 13; 1 2 10 13 u8", .size = 3, .alpha = 1, .beta = 0.75f,
        .k = 1),
    LRN("within wide images", "1 2 2 9; 1 2 2 9; 1 2 2 9 u8", .size = 5, .alpha = 2, .beta = 0.75f,
        .k = 2, .within_channel = true),
    LRN("within high images", "2 1 7 1; 2 1 7 1; 2 1 7 1 u8", .size = 3, .alpha = 2, .beta = 0.75f,
        .k = 1, .within_channel = true),
    LRN("across inference, strips", "1 3 10 30; 1 3 10 30; -", .size = 3, .alpha = 2, .beta = 0.75f,
        .k = 1),
    LRN("across 8 of many", "2 17 2 1; 2 17 2 1; 2 17 2 1 u8", .size = 8, .alpha = 2, .beta = 1.2f,
        .k = 0.5f),
    LRN("within 4", "3 2 4 3; 3 2 4 3; 3 2 4 3 u8", .size = 4, .alpha = 2, .beta = 0.4f, .k = 1,
        .within_channel = true),
    LRN("within 7 of small planes", "2 5 2 5; 2 5 2 5; 2 5 2 5 u8", .size = 7, .alpha = 3,
        .beta = 0.75f, .k = 1, .within_channel = true),
    LRN("across 5, blocks and a rest", "1 7 5 7; 1 7 5 7; 1 7 5 7 u8", .size = 5, .alpha = 2,
        .beta = 0.75f, .k = 1),
    LRN("within 3 of long rows", "2 3 4 37; 2 3 4 37; 2 3 4 37 u8", .size = 3, .alpha = 2,
        .beta = 0.75f, .k = 1, .within_channel = true),
    LRN("within 3 of rows with half a vector", "3 1 5 24; 3 1 5 24; 3 1 5 24 u8", .size = 3,
        .alpha = 2, .beta = 0.75f, .k = 1, .within_channel = true),
    LRN("within 3 of single elements", "2 5 1 1; 2 5 1 1; 2 5 1 1 u8", .size = 3, .alpha = 2,
        .beta = 0.75f, .k = 1, .within_channel = true),
    LRN("within 5, a root", "2 3 6 13; 2 3 6 13; 2 3 6 13 u8", .size = 5, .alpha = 2, .beta = 0.75f,
        .k = 1, .within_channel = true),
    LRN("within 7 of long rows", "1 2 9 21; 1 2 9 21; 1 2 9 21 u8", .size = 7, .alpha = 3,
        .beta = 0.75f, .k = 1, .within_channel = true),
    {.label = "across large",
     .shapes = "3 32 27 27; 3 32 27 27; 3 32 27 27 u8",
     .large = true,
     .desc = {.kind = CR_OP_LRN_FWD, .u.lrn = {5, 1e-1f, 0.75f, 1, false}}},

    BN("image", "3 4 2 3; 3 4 2 3; 4; 4", false),
    BN("matrix", "6 5; 6 5; 5; 5", false),
    BN("sequence", "4 3 4; 4 3 4; 3; 3", false),
    BN("blocked", "2 16 2 2; 2 16 2 2; 16; 16", false),
    BN_SCALED("image", "3 4 2 3; 3 4 2 3; 4; 4; 4; 4", false),
    BN_SCALED("sequence without a shift", "4 3 4; 4 3 4; 3; 3; 3", false),
    BN_SCALED("blocked", "2 16 2 2; 2 16 2 2; 16; 16; 16; 16", false),
    BN_SCALED("matrix", "6 5; 6 5; 5; 5; 5; 5", false),
    BN_SCALED("large", "8 32 17 19; 8 32 17 19; 32; 32; 32; 32", true),
    BN_SUMMED("image", "3 4 2 3; 3 4 2 3; 4; 4; -; -; 4; 4; 1"),
    BN_SUMMED("matrix, scaled,", "6 5; 6 5; 5; 5; 5; 5; 5; 5; 1"),
    BN_SUMMED("sequence without a shift", "4 3 4; 4 3 4; 3; 3; 3; -; 3; 3; 1"),
    BN_SUMMED("blocked", "2 16 2 2; 2 16 2 2; 16; 16; -; -; 16; 16; 1"),
    BN_SUMMED("one value", "1 3; 1 3; 3; 3; -; -; 3; 3; 1"),
    BN_RECTIFIED("image", "3 4 2 3; 3 4 2 3; 4; 4; -; -; 4; 4; 1"),
    BN_RECTIFIED("matrix, scaled,", "6 5; 6 5; 5; 5; 5; 5; 5; 5; 1"),
    BN_RECTIFIED("sequence without a shift", "4 3 4; 4 3 4; 3; 3; 3; -; 3; 3; 1"),
    BN_RECTIFIED("blocked, scaled,", "2 16 2 2; 2 16 2 2; 16; 16; 16; 16"),
    BN_RECTIFIED("several parts", "9 2 529; 9 2 529; 2; 2; 2; 2"),
    BN("one sample", "1 3 5; 1 3 5; 3; 3", false),
    BN("one channel", "4 1 3; 4 1 3; 1; 1", false),
    BN("large", "8 32 17 19; 8 32 17 19; 32; 32", true),

    SOFTMAX("rows", "3 7; 3 7", 1),
    SOFTMAX("rows of strips", "3 150; 3 150", 1),
    SOFTMAX("channels", "2 5 3 2; 2 5 3 2", 1),
    SOFTMAX("blocked channels", "2 16 3 2; 2 16 3 2", 1),
    SOFTMAX("last axis", "2 3 2 5; 2 3 2 5", 3),
    SOFTMAX("empty batch", "0 3; 0 3", 1),
    SOFTMAX("first axis", "4 3; 4 3", 0),
    SOFTMAX("one class", "4 1; 4 1", 1),
    SOFTMAX("one class of positions", "2 1 5; 2 1 5", 1),
    SOFTMAX("one strip", "2 64; 2 64", 1),
    SOFTMAX("a vector", "3 16; 3 16", 1),
    SOFTMAX("rows that go together", "70 21; 70 21", 1),
    SOFTMAX("short rows that leave some over", "45 6; 45 6", 1),
    SOFTMAX("rows of two", "35 2; 35 2", 1),
    SOFTMAX("the longest of the short rows", "33 49; 33 49", 1),
    SOFTMAX("the shortest of the long rows", "33 50; 33 50", 1),
    SOFTMAX("rows that go alone", "3 2100; 3 2100", 1),
    SOFTMAX("blocks of positions", "1 3 195; 1 3 195", 1),
    SOFTMAX("a whole block of positions", "2 2 192; 2 2 192", 1),
    SOFTMAX("two classes of images", "2 2 3 3; 2 2 3 3", 1),
    SOFTMAX("first axis of three", "3 2 2; 3 2 2", 0),
    {.label = "large",
     .shapes = "40 1000; 40 1000",
     .large = true,
     .desc = {.kind = CR_OP_SOFTMAX_FWD, .u.axis = 1}},

    UNARY("relu", "2 3 4 5; 2 3 4 5", CR_UNARY_RELU, 0, false),
    UNARY("leaky relu", "2 16 3 3; 2 16 3 3", CR_UNARY_RELU, 0.1f, false),
    UNARY("empty", "0 3; 0 3", CR_UNARY_RELU, 0, false),
    UNARY("relu of a vector", "17; 17", CR_UNARY_RELU, 0, false),
    UNARY("sigmoid", "2 16 2 3; 2 16 2 3", CR_UNARY_SIGMOID, 0, false),
    UNARY("tanh", "2 16 2 3; 2 16 2 3", CR_UNARY_TANH, 0, false),
    UNARY("large relu", "3 16 37 41; 3 16 37 41", CR_UNARY_RELU, 0, true),
    UNARY("large sigmoid", "3 16 37 41; 3 16 37 41", CR_UNARY_SIGMOID, 0, true),
    UNARY("large tanh", "3 16 37 41; 3 16 37 41", CR_UNARY_TANH, 0, true),

    SIMPLE("two", CR_OP_SUM, "2 3 4; 2 3 4; 2 3 4"),
    SIMPLE("four in blocks", CR_OP_SUM, "2 16 3 3; 2 16 3 3; 2 16 3 3; 2 16 3 3; 2 16 3 3"),
    SIMPLE("three", CR_OP_SUM, "1030; 1030; 1030; 1030"),
    SIMPLE("one", CR_OP_SUM, "2 3; 2 3"),
    {.label = "two, rectified",
     .shapes = "2 3 37; 2 3 37; 2 3 37",
     .desc = {.kind = CR_OP_SUM, .u.sum.rectify = true}},
    {.label = "three in blocks, rectified",
     .shapes = "2 16 3 3; 2 16 3 3; 2 16 3 3; 2 16 3 3",
     .desc = {.kind = CR_OP_SUM, .u.sum.rectify = true}},
    {.label = "coefficients",
     .shapes = "2 16 3 3; 2 16 3 3; 2 16 3 3; 2 16 3 3",
     .desc = {.kind = CR_OP_SUM},
     .scale = three_coeffs},
    {.label = "large",
     .shapes = "3 16 37 41; 3 16 37 41; 3 16 37 41",
     .large = true,
     .desc = {.kind = CR_OP_SUM},
     .scale = two_coeffs},
    SIMPLE("two", CR_OP_PROD, "2 3 4; 2 3 4; 2 3 4"),
    SIMPLE("three", CR_OP_PROD, "1030; 1030; 1030; 1030"),
    SIMPLE("four", CR_OP_PROD, "2 3; 2 3; 2 3; 2 3; 2 3"),
    SIMPLE("two", CR_OP_MAX, "2 3 4; 2 3 4; 2 3 4; 2 3 4 i32"),
    SIMPLE("three", CR_OP_MAX, "1030; 1030; 1030; 1030; 1030 i32"),
    {.label = "ties",
     .shapes = "5 7; 5 7; 5 7; 5 7; 5 7 i32",
     .desc = {.kind = CR_OP_MAX},
     .ties = true},

    {.label = "overwrite",
     .shapes = "2 16 3 3; 2 16 3 3",
     .desc = {.kind = CR_OP_AXPBY},
     .scalars = {.alpha = 2.5f}},
    {.label = "add",
     .shapes = "2 16 3 3; 2 16 3 3",
     .desc = {.kind = CR_OP_AXPBY},
     .scalars = {.alpha = -0.5f, .beta = 1}},
    {.label = "large",
     .shapes = "50001; 50001",
     .desc = {.kind = CR_OP_AXPBY},
     .large = true,
     .scalars = {.alpha = 0.5f, .beta = 0.25f}},
    {.label = "value", .shapes = "3 5 7", .desc = {.kind = CR_OP_SET, .u.value = 1.75f}},
    SIMPLE("f32", CR_OP_COPY, "2 16 3 3; 2 16 3 3"),
    SIMPLE("large f32", CR_OP_COPY, "50001; 50001"),
    {.label = "f64", .shapes = "3 5 f64; 3 5 f64", .desc = {.kind = CR_OP_COPY}},
    {.label = "i32", .shapes = "3 5 i32; 3 5 i32", .desc = {.kind = CR_OP_COPY}},
    {.label = "u8", .shapes = "3 5 u8; 3 5 u8", .desc = {.kind = CR_OP_COPY}},

    CONCAT("channels", CR_OP_CONCAT, "2 3 4 4; 2 5 4 4; 2 8 4 4", 1),
    CONCAT("blocks", CR_OP_CONCAT, "2 16 4 4; 2 32 4 4; 2 16 4 4; 2 64 4 4", 1),
    CONCAT("batch", CR_OP_CONCAT, "2 3; 1 3; 4 3; 7 3", 0),
    CONCAT("last axis", CR_OP_CONCAT, "2 3 2; 2 3 5; 2 3 7", 2),
    CONCAT("nine parts", CR_OP_CONCAT,
           "2 1 3; 2 2 3; 2 1 3; 2 1 3; 2 3 3; 2 1 3; 2 1 3; 2 1 3; 2 2 3; 2 13 3", 1),
    CONCAT("one", CR_OP_CONCAT, "2 3; 2 3", 1),
    CONCAT("an empty part", CR_OP_CONCAT, "2 3 2; 2 0 2; 2 1 2; 2 4 2", 1),
    CONCAT("no samples", CR_OP_CONCAT, "0 3; 0 2; 0 5", 1),
    CONCAT("nine parts", CR_OP_SLICE,
           "2 13 3; 2 1 3; 2 2 3; 2 1 3; 2 1 3; 2 3 3; 2 1 3; 2 1 3; 2 1 3; 2 2 3", 1),
    CONCAT("channels", CR_OP_SLICE, "2 8 4 4; 2 3 4 4; 2 5 4 4", 1),
    CONCAT("blocks", CR_OP_SLICE, "2 64 4 4; 2 16 4 4; 2 32 4 4; 2 16 4 4", 1),
    CONCAT("batch", CR_OP_SLICE, "7 3; 2 3; 1 3; 4 3", 0),
    CONCAT("last axis", CR_OP_SLICE, "2 3 7; 2 3 2; 2 3 5", 2),
    CONCAT("an empty part", CR_OP_SLICE, "2 4 2; 2 3 2; 2 0 2; 2 1 2", 1),
    CONCAT("no samples", CR_OP_SLICE, "0 5; 0 3; 0 2", 1),

    SIMPLE("scale and bias", CR_OP_AFFINE_FWD, "3 4 5; 4; 4; 3 4 5"),
    SIMPLE("scale", CR_OP_AFFINE_FWD, "3 4 5; 4; -; 3 4 5"),
    SIMPLE("bias", CR_OP_AFFINE_FWD, "3 4 5; -; 4; 3 4 5"),
    SIMPLE("inner 1", CR_OP_AFFINE_FWD, "6 37 1; 37; 37; 6 37 1"),
    SIMPLE("one channel", CR_OP_AFFINE_FWD, "3 1 7; 1; 1; 3 1 7"),
    SIMPLE("rows of several strips", CR_OP_AFFINE_FWD, "7 1037 1; 1037; 1037; 7 1037 1"),
    SIMPLE("one sample", CR_OP_AFFINE_FWD, "1 17 1; 17; 17; 1 17 1"),
    SIMPLE("groups of channels", CR_OP_AFFINE_FWD, "2 18 3; 18; 18; 2 18 3"),
    {.label = "large",
     .shapes = "5 33 401; 33; 33; 5 33 401",
     .large = true,
     .desc = {.kind = CR_OP_AFFINE_FWD}},
    {.label = "large inner 1",
     .shapes = "300 133 1; 133; 133; 300 133 1",
     .large = true,
     .desc = {.kind = CR_OP_AFFINE_FWD}},

#define RECTIFIED(name, text, slope)          \
  {                                           \
    .label = name, .shapes = text, .desc = {  \
      .kind = CR_OP_RELU_BWD_BIAS,            \
      .u.unary = {CR_UNARY_RELU, slope, 0, 0} \
    }                                         \
  }
    RECTIFIED("channels", "3 4 5; 3 4 5; 3 4 5; 4", 0),
    RECTIFIED("with a slope", "2 3 7; 2 3 7; 2 3 7; 3", 0.25),
    RECTIFIED("inner 1", "6 37 1; 6 37 1; 6 37 1; 37", 0),
    RECTIFIED("one channel", "3 1 7; 3 1 7; 3 1 7; 1", 0.5),
    RECTIFIED("several parts", "9 2 529; 9 2 529; 9 2 529; 2", 0),
    RECTIFIED("no samples", "0 3 5; 0 3 5; 0 3 5; 3", 0),

    {.label = "half",
     .shapes = "3 5 7; 3 5 7; 3 5 7 u8",
     .scalars = {.seed = 11, .counter = 5},
     .desc = {.kind = CR_OP_DROPOUT_FWD, .u.dropout = {.ratio = 0.5f}}},
    {.label = "none",
     .shapes = "30; 30; 30 u8",
     .scalars = {.seed = 1},
     .desc = {.kind = CR_OP_DROPOUT_FWD, .u.dropout = {.ratio = 0}}},
    {.label = "dropout along a line",
     .shapes = "3 7; 3 7; 3 7 u8",
     .scalars = {.seed = 11, .counter = 2},
     .desc = {.kind = CR_OP_DROPOUT_FWD, .u.dropout = {0.4f, true, 1.5, 0.25, -0.75}}},
    {.label = "pieces",
     .shapes = "2101; 2101; 2101 u8",
     .scalars = {.seed = 3, .counter = 2},
     .desc = {.kind = CR_OP_DROPOUT_FWD, .u.dropout = {.ratio = 0.25f}}},
    {.label = "large",
     .shapes = "50001; 50001; 50001 u8",
     .scalars = {.seed = 11, .counter = 5},
     .large = true,
     .desc = {.kind = CR_OP_DROPOUT_FWD, .u.dropout = {.ratio = 0.3f}}},

    {.label = "rows",
     .shapes = "6 5 1; 6 1; 6 5 1; 1; 1; -",
     .scalars = {.alpha = 1},
     .desc = {.kind = CR_OP_SOFTMAX_LOSS_FWD}},
    {.label = "positions",
     .shapes = "2 4 6; 2 6; 2 4 6; 1; 1; -",
     .scalars = {.alpha = 0.5f},
     .desc = {.kind = CR_OP_SOFTMAX_LOSS_FWD}},
    {.label = "ignored label",
     .shapes = "2 4 6; 2 6; 2 4 6; 1; 1; -",
     .scalars = {.alpha = 3},
     .desc = {.kind = CR_OP_SOFTMAX_LOSS_FWD, .u.nll = {true, .ignore = 2}}},
    {.label = "blocks of positions",
     .shapes = "2 2 515; 2 515; 2 2 515; 1; 1; -",
     .scalars = {.alpha = 0.25f},
     .desc = {.kind = CR_OP_SOFTMAX_LOSS_FWD, .u.nll = {true, .ignore = 1}}},
    {.label = "one class",
     .shapes = "3 1 2; 3 2; 3 1 2; 1; 1; -",
     .scalars = {.alpha = 2},
     .desc = {.kind = CR_OP_SOFTMAX_LOSS_FWD}},
    {.label = "large",
     .shapes = "3 9 4001; 3 4001; 3 9 4001; 1; 1; -",
     .scalars = {.alpha = 1},
     .large = true,
     .desc = {.kind = CR_OP_SOFTMAX_LOSS_FWD, .u.nll = {true, .ignore = 0}}},

    LOSS("the loss of each position", CR_OP_SOFTMAX_LOSS_FWD, "2 4 6; 2 6; 2 4 6; 1; 1; -; 2 6",
         .nll = {true, .ignore = 2}),
    LOSS("long rows", CR_OP_SOFTMAX_LOSS_FWD, "9 150; 9; 9 150; 1; 1; -; 9", .norm = 0),
    LOSS("gains", CR_OP_SOFTMAX_LOSS_FWD, "2 4 3; 2 3; 2 4 3; 1; 1; 4 4",
         .nll = {true, .ignore = 2}),
    LOSS("rows and gains", CR_OP_SOFTMAX_LOSS_FWD, "75 5; 75; 75 5; 1; 1; 5 5; 75",
         .nll = {true, .ignore = 1}),
    LOSS("many short rows and gains", CR_OP_SOFTMAX_LOSS_FWD, "600 2; 600; 600 2; 1; 1; 2 2",
         .nll = {true, .ignore = 1}),
    LOSS("long rows and gains", CR_OP_SOFTMAX_LOSS_FWD, "9 150; 9; 9 150; 1; 1; 150 150",
         .norm = 0),
    LOSS("long planes and gains", CR_OP_SOFTMAX_LOSS_FWD,
         "2 3 400; 2 400; 2 3 400; 1; 1; 3 3; 2 400", .nll = {true, .ignore = 1}),
    OF_SCORES("rows of scores", "75 5; 75; -; 1; 1; -; 75", true, 3),
    OF_SCORES("long rows of scores", "9 150; 9; -; 1; 1; -", false, 0),
    OF_SCORES("planes of scores", "2 13 195; 2 195; -; 1; 1; -", true, 1),
    OF_SCORES("gains of rows of scores", "40 60; 40; -; 1; 1; 60 60", false, 0),
    OF_SCORES("gains of planes of scores", "2 4 3; 2 3; -; 1; 1; 4 4", true, 2),

    ROW_LOSS("rows", "37 21; 37; 37", false),
    ROW_LOSS("rows of two", "35 2; 35; 35", false),
    ROW_LOSS("long rows", "5 75; 5; 5", false),
    ROW_LOSS("one class", "3 1; 3; 3", false),
    ROW_LOSS("very long rows", "3 3100; 3; 3", true),
    {.label = "sigmoid",
     .shapes = "37 21; 37; 37",
     .desc = {.kind = CR_OP_ROW_LOSS, .u.logistic = true},
     .scalars = {.alpha = 1}},

    SIMPLE("boxes", CR_OP_REGION, "2 14 3 5; 2 2; -; 2 2 5 3 5; -; -"),
    SIMPLE("objects", CR_OP_REGION, "3 14 7 6; 2 2; 9 5; 3 2 5 7 6; 3 2 7 6; -"),
    SIMPLE("classes", CR_OP_REGION, "2 18 9 5; 2 2; -; 2 2 5 9 5; -; 2 2 2 9 5"),
    SIMPLE("many cells", CR_OP_REGION, "1 8 13 13; 1 2; 3 5; 1 1 5 13 13; 1 1 13 13; 1 1 2 13 13"),

    {.label = "top 1",
     .shapes = "40 5 1; 40 1; 1; -",
     .desc = {.kind = CR_OP_ACCURACY, .u.accuracy = {.top_k = 1}}},
    {.label = "top 3, a class",
     .shapes = "2 6 20; 2 20; 1; 6",
     .desc = {.kind = CR_OP_ACCURACY, .u.accuracy = {.top_k = 3}}},
    {.label = "ignored label",
     .shapes = "40 5 1; 40 1; 1; 5",
     .desc = {.kind = CR_OP_ACCURACY, .u.accuracy = {.top_k = 2, .has_ignore = true, .ignore = 3}}},
    {.label = "all classes",
     .shapes = "9 3 1; 9 1; 1; 3",
     .desc = {.kind = CR_OP_ACCURACY, .u.accuracy = {.top_k = 3}}},
    {.label = "ties",
     .shapes = "40 5 1; 40 1; 1; 5",
     .ties = true,
     .desc = {.kind = CR_OP_ACCURACY, .u.accuracy = {.top_k = 1}}},

    FUNCTION("power", "2 3 4 5; 2 3 4 5", CR_UNARY_POWER, 2.5f, 0.5f, 1.5f, false),
    FUNCTION("square", "2 3 4 5; 2 3 4 5", CR_UNARY_POWER, 2, 1.5f, -0.25f, false),
    FUNCTION("cube", "2 3 4 5; 2 3 4 5", CR_UNARY_POWER, 3, 0.75f, -0.25f, false),
    FUNCTION("power of nothing", "2 3 4 5; 2 3 4 5", CR_UNARY_POWER, 2, 0, 0.75f, false),
    FUNCTION("scale and shift", "2 3 4 5; 2 3 4 5", CR_UNARY_POWER, 1, -2, 0.5f, false),
    FUNCTION("constant power", "2 3 4 5; 2 3 4 5", CR_UNARY_POWER, 0, 2, 3, false),
    FUNCTION("exp", "2 3 4 5; 2 3 4 5", CR_UNARY_EXP, 0.7f, 1.5f, 0.25f, false),
    FUNCTION("log", "2 3 4 5; 2 3 4 5", CR_UNARY_LOG, 1.5f, 0.5f, 2, false),
    FUNCTION("absolute", "2 3 4 5; 2 3 4 5", CR_UNARY_ABS, 0, 0, 0, false),
    FUNCTION("elu", "2 3 4 5; 2 3 4 5", CR_UNARY_ELU, 0.75f, 1.25f, 0, false),
    FUNCTION("bnll", "2 3 4 5; 2 3 4 5", CR_UNARY_BNLL, 0, 0, 0, false),
    FUNCTION("threshold", "2 3 4 5; 2 3 4 5", CR_UNARY_THRESHOLD, 0, 0, 0, false),
    /* Bounds in the gap around 0 that the inputs leave. */
    FUNCTION("clip above", "2 3 4 5; 2 3 4 5", CR_UNARY_CLIP, -2, 0.02f, 0, false),
    FUNCTION("clip below", "2 3 4 5; 2 3 4 5", CR_UNARY_CLIP, -0.02f, 2, 0, false),
    FUNCTION("swish", "2 3 4 5; 2 3 4 5", CR_UNARY_SWISH, 1.75f, 0, 0, false),
    FUNCTION("gelu", "2 3 4 5; 2 3 4 5", CR_UNARY_GELU, 0, 0, 0, false),
    FUNCTION("gelu by tanh", "2 3 4 5; 2 3 4 5", CR_UNARY_GELU_TANH, 0, 0, 0, false),

    SIMPLE("channels", CR_OP_PRELU_FWD, "3 4 5; 4; 3 4 5"),
    SIMPLE("shared", CR_OP_PRELU_FWD, "1 1 33; 1; 1 1 33"),
    SIMPLE("single values", CR_OP_PRELU_FWD, "5 4 1; 4; 5 4 1"),

    LOSS("all", CR_OP_SIGMOID_LOSS_FWD, "4 6; 4 6; 1; 1", .norm = 0),
    LOSS("many", CR_OP_SIGMOID_LOSS_FWD, "3 1500; 3 1500; 1; 1", .norm = 0),
    LOSS("ignored target", CR_OP_SIGMOID_LOSS_FWD, "3 1500; 3 1500; 1; 1",
         .nll = {true, .ignore = 0}),
    LOSS("linear", CR_OP_HINGE_FWD, "6 5; 6; 1", .norm = 1),
    LOSS("square", CR_OP_HINGE_FWD, "6 5; 6; 1", .norm = 2),
    /* Margins that no pair, or every pair, falls short of. Gradients of today's version have a
     * padded divisor and are no derivatives. */
    LOSS("wide margin", CR_OP_CONTRASTIVE_FWD, "7 3; 7 3; 7; 1", .contrastive = {50, true}),
    LOSS("narrow margin", CR_OP_CONTRASTIVE_FWD, "7 3; 7 3; 7; 1", .contrastive = {1e-6f, true}),
    LOSS("rows", CR_OP_MULTINOMIAL_FWD, "6 5; 6; 1", .norm = 0),
    LOSS("many rows", CR_OP_MULTINOMIAL_FWD, "700 2; 700; 1", .norm = 0),

    {.label = "mean", .shapes = "5 7; 5 7; 5", .desc = {.kind = CR_OP_MVN_FWD}},
    {.label = "deviation",
     .shapes = "5 7; 5 7; 5",
     .desc = {.kind = CR_OP_MVN_FWD, .u.mvn = {true, 0}}},
    {.label = "single values",
     .shapes = "4 1; 4 1; 4",
     .desc = {.kind = CR_OP_MVN_FWD, .u.mvn = {true, 0.5f}}},
    {.label = "sum",
     .shapes = "5 7; 5",
     .desc = {.kind = CR_OP_ROW_REDUCE_FWD, .u.rows = {CR_REDUCE_SUM, 0.25f}}},
    {.label = "absolute sum",
     .shapes = "5 7; 5",
     .desc = {.kind = CR_OP_ROW_REDUCE_FWD, .u.rows = {CR_REDUCE_ASUM, -2}}},
    {.label = "a row for several threads",
     .shapes = "1 70001; 1",
     .desc = {.kind = CR_OP_ROW_REDUCE_FWD, .u.rows = {CR_REDUCE_SUMSQ, 0.01f}}},
    {.label = "square sum",
     .shapes = "5 7; 5",
     .desc = {.kind = CR_OP_ROW_REDUCE_FWD, .u.rows = {CR_REDUCE_SUMSQ, 1}}},
    SIMPLE("three", CR_OP_ARG_MAX, "3 7 2; 3 3 2; 3 3 2"),
    SIMPLE("long rows", CR_OP_ARG_MAX, "3 77 1; 3 5 1; 3 5 1"),
    SIMPLE("rows of one vector", CR_OP_ARG_MAX, "2 32 1; 2 2 1; 2 2 1"),
    SIMPLE("one class", CR_OP_ARG_MAX, "3 1 2; 3 1 2; 3 1 2"),
    SIMPLE("a strip of positions", CR_OP_ARG_MAX, "2 3 128; 2 3 128; -"),
    SIMPLE("wide planes", CR_OP_ARG_MAX, "2 6 150; 2 2 150; 2 2 150"),
    {.label = "ties", .shapes = "4 9 1; 4 9 1; -", .desc = {.kind = CR_OP_ARG_MAX}, .ties = true},

    {.label = "middle",
     .shapes = "3 4 5; 2 4 3",
     .desc = {.kind = CR_OP_CROP_FWD, .u.offset = {1, 0, 2}}},
    {.label = "vector", .shapes = "9; 4", .desc = {.kind = CR_OP_CROP_FWD, .u.offset = {5}}},
    {.label = "a corner of four axes",
     .shapes = "2 3 4 5; 2 2 1 5",
     .desc = {.kind = CR_OP_CROP_FWD, .u.offset = {0, 1, 3, 0}}},
    {.label = "last first",
     .shapes = "2 3 4 5; 5 2 3 4",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {3, 0, 1, 2}}},
    {.label = "channels in turn",
     .shapes = "2 3 4 5; 2 4 3 5",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {0, 2, 1, 3}}},
    {.label = "turned", .shapes = "3 4; 4 3", .desc = {.kind = CR_OP_PERMUTE, .u.order = {1, 0}}},
    {.label = "tiles turned",
     .shapes = "20 37; 37 20",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {1, 0}}},
    {.label = "long columns turned",
     .shapes = "300 21; 21 300",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {1, 0}}},
    {.label = "long rows turned",
     .shapes = "2 5 600; 2 600 5",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {0, 2, 1}}},
    {.label = "pairs turned",
     .shapes = "40 2; 2 40",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {1, 0}}},
    {.label = "triples turned",
     .shapes = "2 3 40; 40 3 2",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {2, 1, 0}}},
    {.label = "channels last",
     .shapes = "2 3 4 5; 2 4 5 3",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {0, 2, 3, 1}}},
    {.label = "channels second",
     .shapes = "2 4 5 3; 2 3 4 5",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {0, 3, 1, 2}}},
    {.label = "axes of one",
     .shapes = "1 3 1 4; 4 1 3 1",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {3, 2, 1, 0}}},
    {.label = "one element",
     .shapes = "1 1; 1 1",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {1, 0}}},
    {.label = "as it is",
     .shapes = "2 3 4; 2 3 4",
     .desc = {.kind = CR_OP_PERMUTE, .u.order = {0, 1, 2}}},
    SIMPLE("three", CR_OP_TILE_FWD, "4 5; 4 3 5"),
    SIMPLE("two", CR_OP_TILE_FWD, "4 21; 4 2 21"),
    SIMPLE("three in pieces", CR_OP_TILE_FWD, "2 515; 2 3 515"),
    SIMPLE("one", CR_OP_TILE_FWD, "3 4; 3 1 4"),
    SIMPLE("single values", CR_OP_TILE_FWD, "75 1; 75 3 1"),
    SIMPLE("single values, two", CR_OP_TILE_FWD, "175 1; 175 2 1"),
    SIMPLE("repeated", CR_OP_GATHER_FWD, "4 5; 9; 9 5"),
    SIMPLE("one row", CR_OP_GATHER_FWD, "1 5; 3; 3 5"),
    SIMPLE("single values", CR_OP_GATHER_FWD, "6 1; 4; 4 1"),
    SIMPLE("with a bias", CR_OP_GATHER_FWD, "4 37; 9; 9 37; 37"),
    SIMPLE("many with a bias", CR_OP_GATHER_FWD, "5 21; 800; 800 21; 21"),
    SIMPLE("bias absent", CR_OP_GATHER_FWD, "4 5; 9; 9 5; -"),
    {.label = "two axes",
     .shapes = "2 3 5 6; 2 27 3 3",
     .desc = {.kind = CR_OP_IM2COL, .u.window = WINDOW(3, 2, 1)}},
    {.label = "uneven axes",
     .shapes = "2 2 5 6; 2 6 3 6",
     .desc = {.kind = CR_OP_IM2COL, .u.window = {2, {1, 3}, {2, 1}, {0, 1}, {1, 1}}}},
    {.label = "three axes",
     .shapes = "1 2 3 4 3; 1 16 2 3 2",
     .desc = {.kind = CR_OP_IM2COL, .u.window = {3, {2, 2, 2}, {1, 1, 1}, {0}, {1, 1, 1}}}},
    {.label = "pad beyond the window",
     .shapes = "1 1 2 3; 1 4 5 6",
     .desc = {.kind = CR_OP_IM2COL, .u.window = WINDOW(2, 1, 2)}},
    {.label = "one axis, dilated",
     .shapes = "2 2 9; 2 4 7",
     .desc = {.kind = CR_OP_IM2COL, .u.window = {1, {2}, {1}, {0}, {2}}}},

    {.label = "sum", .shapes = "37; 1 f64", .desc = {.kind = CR_OP_REDUCE}},
    {.label = "absolute sum",
     .shapes = "3 67; 1 f64",
     .desc = {.kind = CR_OP_REDUCE, .u.reduce = CR_REDUCE_ASUM}},
    {.label = "square sum",
     .shapes = "40001; 1 f64",
     .desc = {.kind = CR_OP_REDUCE, .u.reduce = CR_REDUCE_SUMSQ}},

    UPDATE_BOTH("SGD", "53; 53; 53; -", CR_UPDATE_SGD),
    UPDATE_BOTH("Nesterov", "53; 53; 53; -", CR_UPDATE_NESTEROV),
    UPDATE_BOTH("AdaGrad", "53; 53; 53; -", CR_UPDATE_ADAGRAD),
    UPDATE_BOTH("RMSProp", "53; 53; 53; -", CR_UPDATE_RMSPROP),
    UPDATE_BOTH("AdaDelta", "53; 53; 53; 53", CR_UPDATE_ADADELTA),
    UPDATE_BOTH("Adam", "53; 53; 53; 53", CR_UPDATE_ADAM),
    UPDATE_BOTH("descent", "53; 53; 53; -", CR_UPDATE_DESCENT),
    UPDATE_BOTH("SGD of one value", "1; 1; 1; -", CR_UPDATE_SGD),
    UPDATE("direction", CR_OP_UPDATE_KEEP, "53; 53; 53; 53", CR_UPDATE_DIRECTION, false,
           .decoupled = true),
    UPDATE_SOME("some directions", CR_OP_UPDATE_KEEP, "53; 53; 53; 53", CR_UPDATE_DIRECTION,
                four_segments, .decoupled = true),
    UPDATE_SOME("many descents", CR_OP_UPDATE, "2200; 2200; 2200; -", CR_UPDATE_DESCENT,
                many_segments, .l1 = false),
    UPDATE_SOME("some SGD", CR_OP_UPDATE, "53; 53; 53; -", CR_UPDATE_SGD, four_segments,
                .l1 = false),
    UPDATE_SOME("some Adam, L1", CR_OP_UPDATE_KEEP, "53; 53; 53; 53", CR_UPDATE_ADAM, four_segments,
                .l1 = true),
    UPDATE_SOME("many, decoupled", CR_OP_UPDATE, "2200; 2200; 2200; -", CR_UPDATE_NESTEROV,
                many_segments, .decoupled = true),
    UPDATE_SOME("many AdaDelta", CR_OP_UPDATE_KEEP, "2200; 2200; 2200; 2200", CR_UPDATE_ADADELTA,
                many_segments, .l1 = false),

    {.label = "four",
     .shapes = "53; 53; 4 f64",
     .desc = {.kind = CR_OP_SEGMENT_DOTS},
     .scalars = {SEGMENTS(four_segments)}},
    {.label = "many",
     .shapes = "2200; 2200; 300 f64",
     .desc = {.kind = CR_OP_SEGMENT_DOTS},
     .scalars = {SEGMENTS(many_segments)}},
    {.label = "long",
     .shapes = "72000; 72000; 2 f64",
     .desc = {.kind = CR_OP_SEGMENT_DOTS},
     .scalars = {SEGMENTS(long_segment)}},

    {.label = "rows over channels",
     .shapes = "2 3 4; 3; 2 3 4; 2 4",
     .desc = {.kind = CR_OP_NORMALIZE_FWD, .u.normalize = {.eps = 1e-3f}}},
    {.label = "rows over channels of one position",
     .shapes = "4 5 1; 5; 4 5 1; 4 1",
     .desc = {.kind = CR_OP_NORMALIZE_FWD, .u.normalize = {.eps = 1e-3f}}},
    {.label = "rows over channels, one scale",
     .shapes = "2 5 3; 1; 2 5 3; 2 3",
     .desc = {.kind = CR_OP_NORMALIZE_FWD, .u.normalize = {.eps = 1e-3f}}},
    {.label = "rows across samples, one scale",
     .shapes = "3 4 2; 1; 3 4 2; 3",
     .desc = {.kind = CR_OP_NORMALIZE_FWD, .u.normalize = {.across = true, .eps = 0.25f}}},
    {.label = "many rows over channels",
     .shapes = "2 6 1500; 6; 2 6 1500; 2 1500",
     .desc = {.kind = CR_OP_NORMALIZE_FWD, .u.normalize = {.eps = 1e-3f}},
     .large = true},
    {.label = "rows across samples",
     .shapes = "2 3 4; 3; 2 3 4; 2",
     .desc = {.kind = CR_OP_NORMALIZE_FWD, .u.normalize = {.across = true, .eps = 0.1f}}},
    LOSS("smooth L1", CR_OP_SMOOTH_L1_FWD, "4 5; 4 5; -; -; 1", .smooth = {2}),
    LOSS("L1", CR_OP_SMOOTH_L1_FWD, "4 5; 4 5; -; -; 1", .smooth = {INFINITY}),
    LOSS("smooth L1 with weights", CR_OP_SMOOTH_L1_FWD, "4 5; 4 5; 4 5; 4 5; 1", .smooth = {4}),
    REGIONS("largest in regions", CR_OP_ROI_POOL_FWD, "2 3 6 7; 3 5; 3 3 2 3", 0.5f, 0, false),
    REGIONS("largest in many regions", CR_OP_ROI_POOL_FWD, "3 2 5 4; 40 5; 40 2 3 2", 1, 0, false),
    {.label = "largest of equal ones in regions",
     .shapes = "2 2 19 13; 20 5; 20 2 6 2",
     .ties = true,
     .desc = {.kind = CR_OP_ROI_POOL_FWD, .u.roi = {.scale = 1}}},
    REGIONS("largest in regions of channels that are no whole blocks", CR_OP_ROI_POOL_FWD,
            "2 19 5 6; 4 5; 4 19 2 2", 0.5f, 0, false),
    REGIONS("largest in regions of large maps", CR_OP_ROI_POOL_FWD, "3 35 18 21; 12 5; 12 35 7 5",
            2, 0, true),
    REGIONS("largest in regions of few images", CR_OP_ROI_POOL_FWD, "5 3 4 5; 2 5; 2 3 3 2", 0.25f,
            0, false),
    REGIONS("largest in parts smaller than a position", CR_OP_ROI_POOL_FWD, "2 3 4 5; 8 5; 8 3 9 7",
            0.5f, 0, false),
    REGIONS("largest in parts of many rows and columns", CR_OP_ROI_POOL_FWD,
            "1 3 19 23; 8 5; 8 3 2 2", 1, 0, false),
    {.label = "largest in padded regions",
     .shapes = "2 3 9 8; 12 5; 12 3 3 2",
     .desc = {.kind = CR_OP_ROI_POOL_FWD, .u.roi = {.scale = 0.5f, .pad = 0.25f}}},
    REGIONS("largest in 16 columns", CR_OP_ROI_POOL_FWD, "1 2 9 16; 8 5; 8 2 4 5", 1, 0, false),
    REGIONS("means of parts of many regions", CR_OP_PSROI_POOL_FWD, "2 12 5 6; 30 5; 30 2 3 2",
            0.25f, 0, false),
    REGIONS("means of parts of results that are no whole blocks", CR_OP_PSROI_POOL_FWD,
            "2 76 5 6; 4 5; 4 19 2 2", 0.5f, 0, false),
    REGIONS("means of parts wider than a vector", CR_OP_PSROI_POOL_FWD, "1 4 3 24; 6 5; 6 2 1 2", 1,
            0, false),
    REGIONS("means of parts of few images", CR_OP_PSROI_POOL_FWD, "5 18 4 5; 2 5; 2 3 3 2", 0.25f,
            0, false),
    REGIONS("means of parts of large maps", CR_OP_PSROI_POOL_FWD, "3 525 18 21; 12 5; 12 35 3 5", 2,
            0, true),
    REGIONS("aligned regions of channels that are no whole blocks", CR_OP_ROI_ALIGN_FWD,
            "2 19 5 6; 4 5; 4 19 2 3", 0.5f, 2, false),
    REGIONS("aligned parts smaller than a position", CR_OP_ROI_ALIGN_FWD, "2 3 4 5; 8 5; 8 3 9 7",
            0.5f, 2, false),
    REGIONS("aligned parts of many rows and columns", CR_OP_ROI_ALIGN_FWD,
            "1 3 19 23; 8 5; 8 3 2 2", 1, 0, false),
    REGIONS("aligned parts of few samples", CR_OP_ROI_ALIGN_FWD, "1 2 19 23; 8 5; 8 2 2 3", 1, 3,
            false),
    REGIONS("aligned regions of few images", CR_OP_ROI_ALIGN_FWD, "5 3 4 5; 2 5; 2 3 3 2", 0.25f, 0,
            false),
    REGIONS("aligned regions of large maps", CR_OP_ROI_ALIGN_FWD, "3 35 18 21; 12 5; 12 35 7 5", 2,
            3, true),
    REGIONS("many aligned regions", CR_OP_ROI_ALIGN_FWD, "2 2 5 6; 30 5; 30 2 2 3", 0.25f, 1,
            false),
    REGIONS("many aligned regions, all pixels", CR_OP_ROI_ALIGN_FWD, "2 1 5 6; 30 5; 30 1 2 3", 1,
            0, false),
    REGIONS("means of parts", CR_OP_PSROI_POOL_FWD, "2 12 6 7; 4 5; 4 2 2 3", 0.5f, 0, false),
    REGIONS("aligned regions", CR_OP_ROI_ALIGN_FWD, "2 3 6 7; 3 5; 3 3 2 3", 0.5f, 2, false),
    REGIONS("aligned regions, all pixels", CR_OP_ROI_ALIGN_FWD, "2 1 6 7; 3 5; 3 1 3 2", 0.5f, 0,
            false),
    SIMPLE("interpolation", CR_OP_INTERP_FWD, "2 3 3 4; 2 3 5 9"),
    SIMPLE("interpolation to blocks of columns", CR_OP_INTERP_FWD, "2 1 2 3; 2 1 3 300"),
    SIMPLE("interpolation to many columns", CR_OP_INTERP_FWD, "1 2 2 3; 1 2 3 29"),
    SIMPLE("interpolation of many columns", CR_OP_INTERP_FWD, "1 2 3 300; 1 2 2 7"),
    SIMPLE("interpolation to fewer rows", CR_OP_INTERP_FWD, "1 2 9 3; 1 2 3 4"),
    SIMPLE("interpolation to every second", CR_OP_INTERP_FWD, "1 2 7 9; 1 2 4 5"),
    SIMPLE("interpolation to twice the extents", CR_OP_INTERP_FWD, "1 2 9 20; 1 2 18 40"),
    SIMPLE("interpolation to many rows", CR_OP_INTERP_FWD, "2 1 3 9; 2 1 31 50"),
    SIMPLE("interpolation to as many columns", CR_OP_INTERP_FWD, "1 2 3 21; 1 2 4 21"),
    SIMPLE("interpolation of one value", CR_OP_INTERP_FWD, "2 1 1 1; 2 1 3 4"),
    SIMPLE("interpolation to one value", CR_OP_INTERP_FWD, "2 1 4 5; 2 1 1 1"),
    SIMPLE("interpolation to the same", CR_OP_INTERP_FWD, "1 2 3 4; 1 2 3 4"),
    SIMPLE("interpolation to less", CR_OP_INTERP_FWD, "1 2 6 5; 1 2 3 1"),
    SIMPLE("unpooling", CR_OP_UNPOOL_FWD, "2 2 2 3; 2 2 2 3; 2 2 4 6"),
    {.label = "unpooling to one position",
     .shapes = "2 2 2 3; 2 2 2 3; 2 2 4 6",
     .desc = {.kind = CR_OP_UNPOOL_FWD},
     .ties = true},
    SIMPLE("unpooling of one value", CR_OP_UNPOOL_FWD, "2 3 1 1; 2 3 1 1; 2 3 2 1"),
    SAMPLE("samples, rows first", "2 3 4 5; 2 2 3 2; 2 3 3 2", .rows_first = true),
    SAMPLE("samples of clamped maps", "2 2 3 4; 2 2 3 4; 2 2 3 4", .clamped = true, .fill = 0.5f),
    SAMPLE("samples of a map of one value", "1 2 1 1; 1 2 2 3; 1 2 2 3", .clamped = false),
    RESAMPLE("nearest values", "2 2 5 4; 2 2 7 9", .method = CR_RESAMPLE_NEAREST),
    RESAMPLE("nearest values of a larger map", "1 2 9 7; 1 2 4 2", .method = CR_RESAMPLE_NEAREST),
    RESAMPLE("linear to a larger map", "2 2 3 4; 2 2 6 9", .method = CR_RESAMPLE_LINEAR),
    RESAMPLE("linear, smoothed", "1 2 9 8; 1 2 4 3", .method = CR_RESAMPLE_LINEAR,
             .antialias = true),
    RESAMPLE("linear to fewer rows and more columns", "1 1 9 3; 1 1 4 7",
             .method = CR_RESAMPLE_LINEAR, .antialias = true),
    RESAMPLE("cubic to a larger map", "1 2 4 3; 1 2 7 6", .method = CR_RESAMPLE_CUBIC),
    RESAMPLE("cubic, not smoothed", "1 2 9 8; 1 2 4 3", .method = CR_RESAMPLE_CUBIC),
    RESAMPLE("cubic, smoothed", "1 1 12 9; 1 1 5 4", .method = CR_RESAMPLE_CUBIC,
             .antialias = true),
    CORRELATION("products of positions", "2 3 4 5; 2 3 4 5; 2 9 4 5", .pad = 1, .kernel = 1,
                .displacement = 1, .stride = 1, .step = 1),
    CORRELATION("products of patches", "1 2 6 7; 1 2 6 7; 1 9 2 3", .pad = 2, .kernel = 3,
                .displacement = 2, .stride = 2, .step = 2),
    CORRELATION("a step that leaves displacements out", "1 1 7 8; 1 1 7 8; 1 9 3 4", .pad = 1,
                .kernel = 1, .displacement = 3, .stride = 1, .step = 2),
    CORRELATION("differences of patches", "2 2 5 4; 2 2 5 4; 2 9 3 2", .pad = 1, .kernel = 3,
                .displacement = 1, .stride = 1, .step = 1, .subtract = true),
    CORRELATION("products in rows", "2 3 4 7; 2 3 4 7; 2 3 4 7", .pad = 2, .kernel = 1,
                .displacement = 2, .stride = 1, .step = 2, .in_rows = true),
    CORRELATION("patches to the left", "1 2 5 8; 1 2 5 8; 1 3 2 2", .pad = 1, .kernel = 3,
                .displacement = 2, .stride = 2, .step = 1, .in_rows = true, .direction = -1),
    CORRELATION("differences to the right", "2 2 4 6; 2 2 4 6; 2 3 4 6", .pad = 2, .kernel = 1,
                .displacement = 2, .stride = 1, .step = 1, .subtract = true, .in_rows = true,
                .direction = 1),
    SIMPLE("local products", CR_OP_LOCAL_FWD, "2 6 5; 3 6 5; 3 5; 2 3 5"),
    SIMPLE("local products without a bias", CR_OP_LOCAL_FWD, "2 4 20; 2 4 20; -; 2 2 20"),
    {.label = "large local products",
     .shapes = "3 27 400; 8 27 400; 8 400; 3 8 400",
     .desc = {.kind = CR_OP_LOCAL_FWD},
     .large = true},
    FLIPPED("a reversed first axis", "3 2 4; 3 2 4", 1u),
    FLIPPED("reversed inner axes", "2 3 4 5; 2 3 4 5", 6u),
    FLIPPED("mirrored maps", "2 3 4 5; 2 3 4 5", 12u),
    FLIPPED("no reversed axis", "2 3; 2 3", 0u),
    NOISE("normal noise", "3 7 5; 3 7 5", .mean = 0.5, .spread = 0.25),
    NOISE("uniform noise", "101; 101", .uniform = true, .mean = -1, .spread = 2),

    SIMPLE("LSTM", CR_OP_LSTM_FWD, "3 2 16; 3 2; 16 4; 2 4; 2 4; 3 2 4; 3 2 4; 3 2 16"),
    SIMPLE("one step of an LSTM", CR_OP_LSTM_FWD, "1 3 8; 1 3; 8 2; 3 2; 3 2; 1 3 2; 1 3 2; 1 3 8"),
    SIMPLE("LSTM unit", CR_OP_LSTM_UNIT_FWD, "1 3 8; 1 3; 1 3 2; 1 3 2; 1 3 2"),
    SIMPLE("strips of an LSTM unit", CR_OP_LSTM_UNIT_FWD, "1 2 264; 1 2; 1 2 66; 1 2 66; 1 2 66"),
    {.label = "large LSTM unit",
     .shapes = "1 97 800; 1 97; 1 97 200; 1 97 200; 1 97 200",
     .desc = {.kind = CR_OP_LSTM_UNIT_FWD},
     .large = true},
    {.label = "large LSTM",
     .shapes = "5 16 256; 5 16; 256 64; 16 64; 16 64; 5 16 64; 5 16 64; 5 16 256",
     .desc = {.kind = CR_OP_LSTM_FWD},
     .large = true},
    SIMPLE("RNN", CR_OP_RNN_FWD, "4 3 5; 4 3; 5 5; 3 5; 4 3 5"),
    SIMPLE("tiles of an LSTM", CR_OP_LSTM_FWD,
           "2 2 72; 2 2; 72 18; 2 18; 2 18; 2 2 18; 2 2 18; 2 2 72"),
    SIMPLE("tiles of an RNN", CR_OP_RNN_FWD, "3 2 20; 3 2; 20 20; 2 20; 3 2 20"),
    SIMPLE("one step of an RNN", CR_OP_RNN_FWD, "1 3 4; 1 3; 4 4; 3 4; 1 3 4"),
    SIMPLE("tiles of weights of an RNN", CR_OP_RECURRENT_BWD_WEIGHTS,
           "2 3 66; 3 66; 2 3; 2 3 66; 66 66"),
    SIMPLE("weights of one step", CR_OP_RECURRENT_BWD_WEIGHTS, "1 3 5; 3 5; 1 3; 1 3 5; 5 5"),
    {.label = "large RNN",
     .shapes = "3 64 96; 3 64; 96 96; 64 96; 3 64 96",
     .desc = {.kind = CR_OP_RNN_FWD},
     .large = true},
    SIMPLE("weights of an RNN", CR_OP_RECURRENT_BWD_WEIGHTS, "4 3 5; 3 5; 4 3; 4 3 5; 5 5"),
    SIMPLE("weights of an LSTM", CR_OP_RECURRENT_BWD_WEIGHTS, "3 2 4; 2 4; 3 2; 3 2 16; 16 4"),

    UPDATE("large SGD", CR_OP_UPDATE, "50001; 50001; 50001; -", CR_UPDATE_SGD, true, .l1 = false),
    UPDATE("large Adam", CR_OP_UPDATE_KEEP, "50001; 50001; 50001; 50001", CR_UPDATE_ADAM, true,
           .l1 = false),
};
const int op_case_count = (int)(sizeof op_cases / sizeof op_cases[0]);
