/* The bare chain: a network as hand-chained oneDNN primitives in the layouts that oneDNN prefers,
 * with ReLU fused into convolutions and inner products. It is the yardstick for crema's speed and
 * shares no code with crema. Weights are random. Any failure ends the program with a message. */
#ifndef BENCH_CHAIN_CHAIN_H
#define BENCH_CHAIN_CHAIN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct chain chain;

chain *chain_create(void);
void chain_destroy(chain *c);

/* Each call adds a step and returns the number of its result. The last one added is the output. */
int chain_input(chain *c, int n, int channels, int height, int width);
/* With bias and ReLU. */
int chain_conv(chain *c, const char *name, int src, int out, int kernel, int stride, int pad,
               int group);
/* In ceil mode, as in Caffe. */
int chain_pool(chain *c, int src, bool max, int kernel, int stride, int pad);
int chain_lrn(chain *c, int src, int size, float alpha, float beta);
int chain_concat(chain *c, int n, const int *src);
int chain_ip(chain *c, const char *name, int src, int out, bool relu);
int chain_softmax(chain *c, int src);

/* Row-major values of the input, to be filled by the caller. */
float *chain_input_values(chain *c, size_t *count);
void chain_run(chain *c);
/* Row-major values of the output; free with free(). */
float *chain_output_values(chain *c, size_t *count);
/* The weights and bias of the layer `name`, row-major; false when there is none. */
bool chain_weights(const chain *c, const char *name, const float **weights, size_t *weight_count,
                   const float **bias, size_t *bias_count);

/* Networks; the output is the softmax. NULL for an unknown name. */
chain *chain_network(const char *name, int batch);
extern const char *const chain_networks[]; /* ends with NULL */

#endif
