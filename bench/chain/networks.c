/* AlexNet (BVLC's), GoogLeNet and SqueezeNet 1.0, with the layer names of their published files. */
#include <stdio.h>
#include <string.h>

#include "chain/chain.h"

static void build_alexnet(chain *c, int batch) {
  int x = chain_input(c, batch, 3, 227, 227);
  x = chain_conv(c, "conv1", x, 96, 11, 4, 0, 1);
  x = chain_lrn(c, x, 5, 1e-4f, 0.75f);
  x = chain_pool(c, x, true, 3, 2, 0);
  x = chain_conv(c, "conv2", x, 256, 5, 1, 2, 2);
  x = chain_lrn(c, x, 5, 1e-4f, 0.75f);
  x = chain_pool(c, x, true, 3, 2, 0);
  x = chain_conv(c, "conv3", x, 384, 3, 1, 1, 1);
  x = chain_conv(c, "conv4", x, 384, 3, 1, 1, 2);
  x = chain_conv(c, "conv5", x, 256, 3, 1, 1, 2);
  x = chain_pool(c, x, true, 3, 2, 0);
  x = chain_ip(c, "fc6", x, 4096, true);
  x = chain_ip(c, "fc7", x, 4096, true);
  x = chain_ip(c, "fc8", x, 1000, false);
  chain_softmax(c, x);
}

static int named_conv(chain *c, const char *prefix, const char *name, int src, int out, int kernel,
                      int pad) {
  char text[64];
  snprintf(text, sizeof text, "%s/%s", prefix, name);
  return chain_conv(c, text, src, out, kernel, 1, pad, 1);
}

static int fire(chain *c, const char *name, int x, int squeeze, int expand) {
  int s = named_conv(c, name, "conv1x1_1", x, squeeze, 1, 0);
  int parts[2] = {named_conv(c, name, "conv1x1_2", s, expand, 1, 0),
                  named_conv(c, name, "conv3x3_2", s, expand, 3, 1)};
  return chain_concat(c, 2, parts);
}

static void build_squeezenet(chain *c, int batch) {
  int x = chain_input(c, batch, 3, 227, 227);
  x = chain_conv(c, "conv1", x, 96, 7, 2, 0, 1);
  x = chain_pool(c, x, true, 3, 2, 0);
  x = fire(c, "fire2", x, 16, 64);
  x = fire(c, "fire3", x, 16, 64);
  x = fire(c, "fire4", x, 32, 128);
  x = chain_pool(c, x, true, 3, 2, 0);
  x = fire(c, "fire5", x, 32, 128);
  x = fire(c, "fire6", x, 48, 192);
  x = fire(c, "fire7", x, 48, 192);
  x = fire(c, "fire8", x, 64, 256);
  x = chain_pool(c, x, true, 3, 2, 0);
  x = fire(c, "fire9", x, 64, 256);
  x = chain_conv(c, "conv_final", x, 1000, 1, 1, 1, 1);
  x = chain_pool(c, x, false, 15, 1, 0);
  chain_softmax(c, x);
}

/* Outputs of an inception block's convolutions. */
typedef struct inception {
  const char *name;
  int c1, r3, c3, r5, c5, proj;
} inception;

static int build_inception(chain *c, const inception *i, int x) {
  int a = named_conv(c, i->name, "1x1", x, i->c1, 1, 0);
  int r3 = named_conv(c, i->name, "3x3_reduce", x, i->r3, 1, 0);
  int b = named_conv(c, i->name, "3x3", r3, i->c3, 3, 1);
  int r5 = named_conv(c, i->name, "5x5_reduce", x, i->r5, 1, 0);
  int d = named_conv(c, i->name, "5x5", r5, i->c5, 5, 2);
  int p = chain_pool(c, x, true, 3, 1, 1);
  int parts[4] = {a, b, d, named_conv(c, i->name, "pool_proj", p, i->proj, 1, 0)};
  return chain_concat(c, 4, parts);
}

static void build_googlenet(chain *c, int batch) {
  static const inception blocks[] = {
      {"inception_3a", 64, 96, 128, 16, 32, 32},     {"inception_3b", 128, 128, 192, 32, 96, 64},
      {"inception_4a", 192, 96, 208, 16, 48, 64},    {"inception_4b", 160, 112, 224, 24, 64, 64},
      {"inception_4c", 128, 128, 256, 24, 64, 64},   {"inception_4d", 112, 144, 288, 32, 64, 64},
      {"inception_4e", 256, 160, 320, 32, 128, 128}, {"inception_5a", 256, 160, 320, 32, 128, 128},
      {"inception_5b", 384, 192, 384, 48, 128, 128}};
  int x = chain_input(c, batch, 3, 224, 224);
  x = chain_conv(c, "conv1/7x7_s2", x, 64, 7, 2, 3, 1);
  x = chain_pool(c, x, true, 3, 2, 0);
  x = chain_lrn(c, x, 5, 1e-4f, 0.75f);
  x = chain_conv(c, "conv2/3x3_reduce", x, 64, 1, 1, 0, 1);
  x = chain_conv(c, "conv2/3x3", x, 192, 3, 1, 1, 1);
  x = chain_lrn(c, x, 5, 1e-4f, 0.75f);
  x = chain_pool(c, x, true, 3, 2, 0);
  for (int i = 0; i < 9; ++i) {
    if (i == 2 || i == 7) x = chain_pool(c, x, true, 3, 2, 0);
    x = build_inception(c, &blocks[i], x);
  }
  x = chain_pool(c, x, false, 7, 1, 0);
  x = chain_ip(c, "loss3/classifier", x, 1000, false);
  chain_softmax(c, x);
}

const char *const chain_networks[] = {"alexnet", "googlenet", "squeezenet", NULL};

chain *chain_network(const char *name, int batch) {
  chain *c = chain_create();
  if (strcmp(name, "alexnet") == 0) build_alexnet(c, batch);
  else if (strcmp(name, "googlenet") == 0) build_googlenet(c, batch);
  else if (strcmp(name, "squeezenet") == 0) build_squeezenet(c, batch);
  else {
    chain_destroy(c);
    return NULL;
  }
  return c;
}
