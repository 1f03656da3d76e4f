/* Only the convolutions and inner products of a training step, each in the layouts that oneDNN
 * prefers: a lower bound on the time of a step. Shares no code with crema. */
#ifndef BENCH_CHAIN_PRODUCTS_H
#define BENCH_CHAIN_PRODUCTS_H

/* kernel 0: an inner product over channels x size x size inputs. */
typedef struct product_shape {
  int batch, channels, size, out, kernel, stride, pad, group;
} product_shape;

typedef struct products products;

/* The first layer gets no gradient towards its source, as in training. */
products *products_create(const product_shape *shape, int count);
void products_destroy(products *p);
/* Forward through all, then backward through all. */
void products_run(products *p);

/* Shapes of "lenet", "cifar10_quick", "alexnet" at the given batch; *count of them, NULL for an
 * unknown name. Static storage, overwritten by the next call. */
const product_shape *products_network(const char *name, int batch, int *count);

#endif
