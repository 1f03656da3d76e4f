/* The cost of one forward pass of a layer. */
#ifndef CREMA_TOOLS_LAYER_COST_H
#define CREMA_TOOLS_LAYER_COST_H

#include "net/net.h"

typedef struct cli_cost {
  int64_t learned,
      statistics;        /* values of its parameters: trained ones, and statistics of BatchNorm */
  int64_t multiply_adds; /* of convolutions, inner products and recurrent layers */
  int64_t flops;         /* two for each multiply-add, and other arithmetic */
  int64_t value_bytes;   /* of the tops that do not share another blob's values */
  int64_t parameter_bytes;
} cli_cost;

/* The help on multiply-adds and FLOPs. */
extern const char cli_cost_help[];

/* The cost of layer `layer`, in the net's present shapes. */
cli_cost cli_layer_cost(const crema_net *net, int layer);

/* Adds `cost` to the sum. */
void cli_cost_add(cli_cost *sum, const cli_cost *cost);

#endif
